"""Families of small Python tasks: what is asked, a body that does it, and a reference callable."""
