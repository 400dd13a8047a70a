"""Measuring decoders: tasks, counting, scoring, statistics, reports and sweeps."""
