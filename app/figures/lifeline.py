"""The life of one answer position: probability of each candidate token over the steps."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.lifeline import by_position, candidates, lifeline, telling_position
from app.sentences import texts_of, token_sentence
from app.token_text import label
from flash_dllm.trace import DecodeTrace

TITLE = "One position through all steps"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def table(trace: DecodeTrace) -> pd.DataFrame:
    """One row per answer position and step in which it was asked, until it is decided.

    position    from 0, the first generated one
    draft, c    the draft and its confidence; view_token and verify_confidence of its mask view
    what        what became of it, in words
    alternatives  the likeliest tokens with their probabilities, as "token 0.123" with " | " between
    """
    text_of = texts_of(trace)
    rows = []
    for offset in range(trace.gen_length):
        for moment in lifeline(trace, offset):
            p = moment.proposal
            view = "" if p.verify_token is None else text_of(p.verify_token)
            rivals = " | ".join(f"{label(text_of(t))} {share:.3f}" for t, share in p.alternatives)
            rows.append(
                (offset, moment.step, text_of(p.draft_token), p.confidence, view,
                 p.verify_confidence, str(p.verdict), token_sentence(trace, p), rivals)
            )  # fmt: skip
    names = ["position", "step", "draft", "confidence", "view_token", "verify_confidence",
             "verdict", "what", "alternatives"]  # fmt: skip
    return pd.DataFrame(rows, columns=names).astype({"verify_confidence": float})


def figure(trace: DecodeTrace, is_dark: bool = False, position: int | None = None) -> go.Figure:
    """One position (by default a telling one): a line per candidate, ◇ for the check.

    Raises ValueError for a position outside the answer.
    """
    offset = telling_position(by_position(trace)) if position is None else position
    moments = lifeline(trace, offset)
    text_of = texts_of(trace)
    layout = theme.layout(is_dark)
    ink = theme.GREYS["ink"][is_dark]
    marks: list[dict] = []
    for rank, token in enumerate(candidates([m.proposal for m in moments])):
        points = [(m.step, share) for m in moments if (share := _share(m.proposal, token))]
        marks.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [step for step, _ in points],
                "y": [share for _, share in points],
                "name": theme.escape(label(text_of(token))),
                "line": {"dash": DASHES[rank], "color": ink if rank == 0 else None},
            }
        )
    checked = [m for m in moments if m.proposal.verify_confidence is not None]
    marks.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [m.step for m in checked],
            "y": [m.proposal.verify_confidence for m in checked],
            "name": "check (c̃)",
            "marker": {"symbol": "diamond-open", "size": 10, "color": ink},
        }
    )
    step = trace.decided_step.get(trace.prompt_length + offset)
    shapes = [] if step is None else [
        {"type": "line", "x0": step, "x1": step, "y0": 0, "y1": 1, "line": {"color": ink}}
    ]  # fmt: skip
    title = f"{TITLE}: position {offset}"
    return go.Figure(
        {
            "data": marks,
            "layout": layout
            | {
                "title": {"text": title, "font": {"color": ink}},
                "showlegend": True,
                "shapes": shapes,
                "xaxis": layout["xaxis"] | {"title": {"text": "step"}},
                "yaxis": layout["yaxis"] | {"range": [0, 1.04], "title": {"text": "probability"}},
            },
        }
    )


def _share(proposal, token: int) -> float | None:
    """The recorded probability of a token in one step, None where it was not among the first."""
    if token == proposal.draft_token:
        return proposal.confidence
    return dict(proposal.alternatives).get(token)
