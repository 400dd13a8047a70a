"""The Verify lab as a board: one step's check in pictures, with thresholds to move."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from app import board, lab
from app.board import Block
from app.lab_tables import held_block, in_words, missed_block, upright
from app.sentences import number, step_sentence, stop_label, texts_of
from app.theme import STATE_OF, escape
from app.token_text import label
from app.visibility import visibility
from app.words import Says
from flash_dllm.rejudge import Certainty, Rejudged, RejudgedStep, rejudge
from flash_dllm.trace import COMMITTED, DecodeTrace, Proposal, Verdict

STOP_LINE = 30  # characters
GROUPS = {
    "written": "group_written", "sure": "group_sure", "blanks": "group_blanks",
    "draft views": "group_drafts", "mask views": "group_masks", "rest": "group_rest",
}  # fmt: skip


def lab_board(
    trace: DecodeTrace,
    run: str,
    step: int,
    epsilon: float | None,
    gamma: float | None,
    track_size: int | None = None,
    language: str = "en",
) -> str:
    """The board of one step (counted from 1) at these thresholds and β_t; None keeps the run's.

    Raises ValueError for a step that the run does not have.
    """
    say = Says("lab", language)
    if not 1 <= step <= len(trace.steps):
        raise ValueError(f"step must lie between 1 and {len(trace.steps)}, got {step}")
    has_check = "gamma" in trace.strategy
    epsilon = trace.strategy.get("epsilon") if epsilon is None else epsilon
    gamma = trace.strategy.get("gamma") if gamma is None else gamma
    epsilon = epsilon if "epsilon" in trace.strategy else None
    gamma = gamma if has_check else None
    again = rejudge(trace, epsilon, gamma)
    # at other thresholds the run may end early
    now = again.steps[min(step, len(again.steps)) - 1]
    strategy = trace.strategy | {
        key: value
        for key, value in (("epsilon", epsilon), ("gamma", gamma))
        if value is not None
    }
    other = replace(trace, strategy=strategy)
    key = f"{run}/{step}"
    blocks = [
        board.text("say", _saying(say, other, now), tone="lead", span=8),
        board.badge("badge", *_badge(say, trace, again, now, track_size), span=4),
        _ladder(say, other, now, epsilon, gamma),
    ]
    if has_check:
        blocks.append(_plane(say, other, again, now, epsilon, gamma))
        blocks += [_matrix(say, trace, now.index), _bound(say, now, gamma or 0.0)]
    if not has_check:
        blocks.append(board.text("none", say("no_check"), tone="empty"))
    if trace.cache.get("track_size") is not None:
        blocks.append(held_block(say, trace, now.index, track_size, 7 if has_check else 12))
    return board.board(key, [*blocks, missed_block(say, trace, now.index)])


def _saying(say: Says, trace: DecodeTrace, step: RejudgedStep) -> str:
    head = say("step_of", len(trace.steps), step=step.index)
    if step.certainty is Certainty.UNKNOWN:
        return head + say("unknown")
    return head + step_sentence(trace, step, language=say.language)


def _badge(
    say: Says, trace: DecodeTrace, again: Rejudged, now: RejudgedStep, track_size: int | None
) -> tuple[str, str]:
    badge, explanation = in_words(say, trace, again)
    own = trace.cache.get("track_size")
    if own is None or track_size in (None, own):
        return badge, explanation
    found = lab.held(trace.steps[now.index - 1])
    words = say("track", size=track_size, own=own)
    if found:
        shares = [f"{found[min(size, len(found)) - 1][2]:.0%}" for size in (track_size, own)]
        words += say("track_holds", size=track_size, share=shares[0], before=shares[1])
    words += say("track_exact")
    if again.badge != "exact":
        words += say("track_badge", badge=badge)
    return say("badge_run"), words


def _ladder(
    say: Says, trace: DecodeTrace, step: RejudgedStep, epsilon: float | None, gamma: float | None
) -> Block:
    text_of = texts_of(trace)
    x = list(range(len(step.proposals)))
    heights = [_height(p) for p in step.proposals]
    shades = [f"@{STATE_OF[p.verdict].key}-cell" for p in step.proposals]
    faint = {Verdict.WAITING: 0.45, Verdict.AFTER_STOP: 0.8}
    hover = [_hover(say, trace, p) for p in step.proposals]
    differs = [k for k, p in enumerate(step.proposals) if _disagrees(p)]
    kept = sum(p.verdict in COMMITTED for p in step.proposals)
    decided = sum(p.rank == 0 for p in step.proposals)
    searched = sum(bool(p.rank) for p in step.proposals)
    shown = max(8, decided + searched + 3)
    marks: list[Block] = [
        {"type": "bar", "x": x, "y": heights, "hoverinfo": "text", "hovertext": hover,
         "marker": {"color": shades, "opacity": [faint.get(p.verdict, 1) for p in step.proposals]},
         "text": [STATE_OF[p.verdict].mark for p in step.proposals], "textposition": "inside",
         "textangle": 0, "insidetextanchor": "start", "textfont": {"color": "@page"}},
        {"type": "scatter", "mode": "markers", "x": x, "y": [p.confidence for p in step.proposals],
         "hoverinfo": "text", "hovertext": hover,
         "marker": {"symbol": "line-ew", "size": 16, "line": {"width": 2, "color": "@ink"}}},
        {"type": "scatter", "mode": "markers", "x": differs, "hoverinfo": "skip",
         "y": [(heights[k] or 0) + 0.05 for k in differs],
         "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 1.6, "color": "@ink"}}},
    ]  # fmt: skip
    shapes = []
    if searched:
        shapes.append(upright(decided - 0.5, 1.05, "@quiet", "dot"))
    stop = stop_label(trace, step, language=say.language) if step.stop is not None else ""
    notes = []
    if stop:
        shapes.append(upright(kept - 0.5, 1.42, "@ink", "solid"))
        is_right = kept > 0.4 * shown
        lines = "<br>".join(escape(line) for line in textwrap.wrap(stop, STOP_LINE))
        notes.append(
            {"x": kept - 0.5, "y": 1.42, "text": lines, "showarrow": False, "yanchor": "top",
             "xanchor": "right" if is_right else "left", "xshift": -4 if is_right else 4,
             "align": "right" if is_right else "left", "font": {"color": "@ink", "size": 12}}
        )  # fmt: skip
    names = [escape(_short(label(text_of(p.draft_token)))) for p in step.proposals]
    layout = {
        "bargap": 0.18, "shapes": shapes, "annotations": notes,
        "margin": {"l": 44, "r": 12, "t": 8, "b": 86},
        "xaxis": {"range": [-0.6, shown - 0.4], "showgrid": False, "tickvals": x[:shown],
                  "ticktext": names[:shown], "tickangle": -50,
                  "title": say("ladder_x")},
        "yaxis": {"range": [0, 1.46], "tickvals": [0, 0.25, 0.5, 0.75, 1],
                  "title": say("ladder_y")},
    }  # fmt: skip
    has_check = "gamma" in trace.strategy
    title = say("ladder" if has_check else "drafts")
    note = say("ladder_note" if has_check else "drafts_note")
    left_out = len(step.proposals) - shown
    if left_out > 0:
        note += say("left_out", left_out)
    return board.chart(
        "ladder", title, note, marks, layout,
        [*board.threshold("y", epsilon, "epsilon"), *board.threshold("y", gamma, "gamma")],
        height=358, spoken=_saying(say, trace, step), span=7 if has_check else 12,
    )  # fmt: skip


def _plane(
    say: Says,
    trace: DecodeTrace,
    again: Rejudged,
    now: RejudgedStep,
    epsilon: float | None,
    gamma: float | None,
) -> Block:
    def mark(points: list[Proposal], steps: list[int], is_now: bool, agrees: bool) -> Block:
        return {
            "type": "scatter", "mode": "markers", "hoverinfo": "text", "customdata": steps,
            "x": [p.confidence for p in points], "y": [p.verify_confidence for p in points],
            "hovertext": [
                say("hover_step", step=i) + _hover(say, trace, p)
                for i, p in zip(steps, points, strict=True)
            ],
            "marker": {
                "symbol": ("circle" if agrees else "x-thin") if is_now
                else ("circle-open" if agrees else "x-thin"),
                "size": 11 if is_now else 5, "opacity": 1 if is_now else 0.45,
                "color": [f"@{STATE_OF[p.verdict].key}-cell" for p in points] if is_now
                else "@axis",
                "line": {
                    "width": 1 if is_now and agrees else 2 if is_now else 1,
                    "color": "@ink" if is_now and agrees
                    else [f"@{STATE_OF[p.verdict].key}-cell" for p in points] if is_now
                    else "@axis",
                },
            },
        }  # fmt: skip

    every = lab.pairs(again.steps)
    marks = []
    for is_now in (False, True):
        for agrees in (True, False):
            chosen = [
                (i, p) for i, p in every
                if (i == now.index) == is_now and _disagrees(p) != agrees
            ]  # fmt: skip
            marks.append(mark([p for _, p in chosen], [i for i, _ in chosen], is_now, agrees))
    layout = {
        "margin": {"l": 44, "r": 12, "t": 8, "b": 86},
        "xaxis": {"range": [-0.02, 1.03], "title": say("plane_x")},
        "yaxis": {"range": [-0.02, 1.06], "title": say("plane_y")},
        "shapes": [{"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "layer": "below",
                    "line": {"color": "@line", "width": 1, "dash": "dot"}}],
    }  # fmt: skip
    here = sum(i == now.index for i, _ in every)
    return board.chart(
        "plane", say("plane"), say("plane_note", here=here), marks, layout,
        [*board.threshold("x", epsilon, "epsilon"), *board.threshold("y", gamma, "gamma")],
        height=358, event="step", span=5,
        spoken=say("plane_spoken", here=here, all=len(every)),
    )  # fmt: skip


def _matrix(say: Says, trace: DecodeTrace, index: int) -> Block:
    seen = visibility(trace, index, say.language)
    if seen is None:
        return board.text(
            "matrix", say("matrix"), say("matrix_none"), tag="h3", tone="empty"
        )  # fmt: skip
    return {
        "id": "matrix", "kind": "matrix", "title": say("matrix"), "span": 12,
        "note": say("matrix_note"), "idle": say("matrix_idle"), "cells": say.raw("cells"),
        "columns": [
            {"name": c.name, "group": say(GROUPS[c.group]), "help": c.help} for c in seen.columns
        ],
        "rows": [{"name": r.name, "cells": r.cells, "why": r.why} for r in seen.rows],
    }  # fmt: skip


def _bound(say: Says, step: RejudgedStep, gamma: float) -> Block:
    found = lab.bound(step, gamma)
    if step.certainty is Certainty.DECIDED:
        return board.text("bound", say("bound"), say("bound_unknown"), tag="h3", tone="empty",
                          span=5)  # fmt: skip
    m = found.length
    items = [
        {"label": "1 − ∏ c̃", "value": found.exact, "shown": number(found.exact),
         "colour": "verified-cell", "note": say("bound_own")},
        {"label": "1 − γ^m", "value": found.power, "shown": number(found.power),
         "colour": "gamma", "note": say("bound_gamma", gamma=number(gamma), m=m)},
        {"label": "m (1 − γ)", "value": found.linear, "shown": number(found.linear),
         "colour": "axis", "note": say("bound_simple")},
    ]  # fmt: skip
    return board.bars("bound", say("bound"), say("bound_note", m), items, say("beyond"), span=5)


def _height(proposal: Proposal) -> float | None:
    if proposal.rank == 0:
        return proposal.confidence
    return proposal.verify_confidence


def _disagrees(proposal: Proposal) -> bool:
    return proposal.verify_token is not None and proposal.verify_token != proposal.draft_token


def _hover(say: Says, trace: DecodeTrace, proposal: Proposal) -> str:
    text_of = texts_of(trace)
    lines = [f"“{label(text_of(proposal.draft_token))}”  c {number(proposal.confidence)}"]
    if proposal.verify_token is not None:
        name = label(text_of(proposal.verify_token))
        lines.append(
            say("hover_view", text=name, confidence=number(proposal.verify_confidence))
        )
    lines.append(say.state(STATE_OF[proposal.verdict].key))
    return "<br>".join(escape(line) for line in lines)


def _short(name: str) -> str:
    return name if len(name) <= 9 else name[:8] + "…"
