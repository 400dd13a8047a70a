"""The pictures of one run, in the page's order. Each module has TITLE, table(trace) and
figure(trace): the numbers first, then their picture. No gradio, no torch.

Plotly calls its layers traces; here they are *marks*, because a trace is a recorded run.
"""

from app.figures import cost_map, lifeline, progress, run, run_map, tracking, verify

FIGURES = (run, verify, tracking, run_map, progress, lifeline, cost_map)
