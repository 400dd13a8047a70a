"""Families of short algebra: a question, worked steps, the exact answer."""
