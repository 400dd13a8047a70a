"""Tasks for lm-evaluation-harness that are not its own."""
