"""The Verify lab as a board: one step's check in pictures, with thresholds to move."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from app import board, lab
from app.board import Block
from app.sentences import counted, number, step_sentence, stop_label, texts_of
from app.theme import STATE_OF, escape
from app.token_text import label
from app.visibility import visibility
from flash_dllm.rejudge import Certainty, Rejudged, RejudgedStep, rejudge
from flash_dllm.trace import COMMITTED, DecodeTrace, Proposal, Verdict

MISSED_SHOWN = 60
STOP_LINE = 30  # characters
NAMED = 6  # tokens that a note names
REASON_WORDS = {
    "mismatch": "refused: the check says “{other}”",
    "below_gamma": "refused: c̃ {confidence} < γ",
    "after_stop": "behind the stop",
    "not_searched": "not checked",
}


def lab_board(
    trace: DecodeTrace,
    run: str,
    step: int,
    epsilon: float | None,
    gamma: float | None,
    track_size: int | None = None,
) -> str:
    """The board of one step (counted from 1) at these thresholds and β_t; None keeps the run's.

    Raises ValueError for a step that the run does not have.
    """
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
        board.text("say", _saying(other, now), tone="lead", span=8),
        board.badge("badge", *_badge(trace, again, now, track_size), span=4),
        _ladder(other, now, epsilon, gamma),
    ]
    if has_check:
        blocks.append(_plane(other, again, now, epsilon, gamma))
        blocks += [_matrix(trace, now.index), _bound(now, gamma or 0.0)]
    if not has_check:
        blocks.append(
            board.text(
                "none", "This run checks nothing: its strategy writes what is sure, or one token "
                "a step. Choose Flash-Verify in Watch to see a check here.", tone="empty",
            )
        )  # fmt: skip
    if trace.cache.get("track_size") is not None:
        blocks.append(_held(trace, now.index, track_size, span=7 if has_check else 12))
    return board.board(key, [*blocks, _missed(trace, now.index)])


def _saying(trace: DecodeTrace, step: RejudgedStep) -> str:
    head = f"Step {step.index} of {len(trace.steps)}. "
    if step.certainty is Certainty.UNKNOWN:
        return head + "As recorded: the run changes before this step, so only a real run knows."
    return head + step_sentence(trace, step)


def _badge(
    trace: DecodeTrace, again: Rejudged, now: RejudgedStep, track_size: int | None
) -> tuple[str, str]:
    own = trace.cache.get("track_size")
    if own is None or track_size in (None, own):
        return again.badge, again.explanation
    found = lab.held(trace.steps[now.index - 1])
    words = f"βₜ {track_size} in place of {own}: "
    if found:
        shares = [found[min(size, len(found)) - 1][2] for size in (track_size, own)]
        words += f"the first {track_size} by attention hold {shares[0]:.0%}, not {shares[1]:.0%}. "
    words += "That ranking is exact; what it changes needs a run."
    if again.badge != "exact":
        words += f" ε and γ: {again.badge}."
    return "needs a run", words


def _ladder(
    trace: DecodeTrace, step: RejudgedStep, epsilon: float | None, gamma: float | None
) -> Block:
    text_of = texts_of(trace)
    x = list(range(len(step.proposals)))
    heights = [_height(p) for p in step.proposals]
    shades = [f"@{STATE_OF[p.verdict].key}-cell" for p in step.proposals]
    faint = {Verdict.WAITING: 0.45, Verdict.AFTER_STOP: 0.8}
    hover = [_hover(trace, p) for p in step.proposals]
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
        shapes.append(_upright(decided - 0.5, 1.05, "@quiet", "dot"))
    stop = stop_label(trace, step) if step.stop is not None else ""
    notes = []
    if stop:
        shapes.append(_upright(kept - 0.5, 1.42, "@ink", "solid"))
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
        "margin": {"l": 44, "r": 12, "t": 8, "b": 64},
        "xaxis": {"range": [-0.6, shown - 0.4], "showgrid": False, "tickvals": x[:shown],
                  "ticktext": names[:shown], "tickangle": -50,
                  "title": "drafts in the order of acceptance"},
        "yaxis": {"range": [0, 1.46], "tickvals": [0, 0.25, 0.5, 0.75, 1],
                  "title": "confidence"},
    }  # fmt: skip
    has_check = "gamma" in trace.strategy
    title = "The check, draft by draft" if has_check else "The drafts, one by one"
    note = "Tick: how sure the draft is (c). Bar: written in this step."
    if has_check:
        note = "Bar: the check (c̃); of sure drafts, c. Tick: the draft (c). ×: another token."
    left_out = len(step.proposals) - shown
    if left_out > 0:
        note += f" {counted(left_out, 'draft')} further down are not shown."
    return board.chart(
        "ladder", title, note, marks, layout,
        [*board.threshold("y", epsilon, "epsilon"), *board.threshold("y", gamma, "gamma")],
        height=336, spoken=_saying(trace, step), span=7 if has_check else 12,
    )  # fmt: skip


def _plane(
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
                f"step {i}: {_hover(trace, p)}" for i, p in zip(steps, points, strict=True)
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
        "margin": {"l": 44, "r": 12, "t": 8, "b": 64},
        "xaxis": {"range": [-0.02, 1.03], "title": "c: how sure the draft was"},
        "yaxis": {"range": [-0.02, 1.06], "title": "c̃: how sure the check is"},
        "shapes": [{"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "layer": "below",
                    "line": {"color": "@line", "width": 1, "dash": "dot"}}],
    }  # fmt: skip
    here = sum(i == now.index for i, _ in every)
    note = (
        f"Circle: both views agree, ×: they don't. Large: this step ({here}). Right of ε nothing "
        "is checked; a lower ε is not a check."
    )
    return board.chart(
        "plane", "Draft against check", note, marks, layout,
        [*board.threshold("x", epsilon, "epsilon"), *board.threshold("y", gamma, "gamma")],
        height=336, event="step", span=5,
        spoken=f"{here} drafts of this step were checked, {len(every)} in the whole run.",
    )  # fmt: skip


def _matrix(trace: DecodeTrace, index: int) -> Block:
    seen = visibility(trace, index)
    title = "Who sees whom in the verify pass"
    if seen is None:
        return board.text(
            "matrix", title, "This step had no verify pass: nothing was left to check.",
            tag="h3", tone="empty",
        )  # fmt: skip
    return {
        "id": "matrix", "kind": "matrix", "title": title, "span": 12,
        "note": "A row may look at the columns that are marked; ◉ is itself.",
        "idle": "Point at a row (or go there by Tab and arrows): what it may see, and why.",
        "columns": [{"name": c.name, "group": c.group, "help": c.help} for c in seen.columns],
        "rows": [{"name": r.name, "cells": r.cells, "why": r.why} for r in seen.rows],
    }  # fmt: skip


def _bound(step: RejudgedStep, gamma: float) -> Block:
    found = lab.bound(step, gamma)
    title = "How far this block may stand from the model's own sequential law"
    if step.certainty is Certainty.DECIDED:
        return board.text("bound", title, "What would be kept at this ε was not recorded.",
                          tag="h3", tone="empty", span=5)  # fmt: skip
    m = found.length
    note = (
        f"The check kept {counted(m, 'draft')} here. Each bar bounds the distance to the model "
        "writing them one by one, not to the truth."
    )
    items = [
        {"label": "1 − ∏ c̃", "value": found.exact, "shown": number(found.exact),
         "colour": "verified-cell", "note": "from this block's own checks"},
        {"label": "1 − γ^m", "value": found.power, "shown": number(found.power),
         "colour": "gamma", "note": f"what γ = {number(gamma)} promises for m = {m}"},
        {"label": "m (1 − γ)", "value": found.linear, "shown": number(found.linear),
         "colour": "axis", "note": "the simple bound; beyond 1 it says nothing"},
    ]  # fmt: skip
    return board.bars("bound", title, note, items, span=5)


def _held(trace: DecodeTrace, index: int, track_size: int | None, span: int) -> Block:
    title = "What another βₜ would re-read"
    found = lab.held(trace.steps[index - 1])
    if not found:
        return board.text(
            "held", title, "No attention was recorded in this step.", tag="h3", tone="empty",
            span=span,
        )  # fmt: skip
    text_of = texts_of(trace)
    written = dict(enumerate(trace.prompt_token_ids))
    written |= {position: token for step in trace.steps for position, token in step.accepted}
    hover = [
        f"βₜ {count}: adds {position} “{escape(label(text_of(written[position])))}”, {share:.0%}"
        for count, position, share in found
    ]
    marks = [
        {"type": "scatter", "mode": "lines+markers", "x": [count for count, _, _ in found],
         "y": [share for _, _, share in found], "hoverinfo": "text", "hovertext": hover,
         "line": {"color": "@tracked", "width": 2, "shape": "hv"},
         "marker": {"color": "@tracked", "size": 4}}
    ]  # fmt: skip
    size = trace.cache["track_size"]
    chosen = size if track_size is None else track_size
    shapes = [_upright(size, 1, "@tracked", "dot") | {"yref": "paper"}]
    notes = [_named(size, 1, f"this run: {size}")]
    if chosen != size:
        shapes.append(_upright(chosen, 1, "@ink", "solid") | {"yref": "paper"})
        notes.append(_named(chosen, 0.82, f"βₜ {chosen}"))
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "xaxis": {"range": [0, max(size, chosen, len(found)) + 1], "title": "βₜ, tokens re-read"},
        "yaxis": {"range": [0, max(0.1, 1.15 * found[-1][2])], "tickformat": ".0%",
                  "title": "attention held"},
    }  # fmt: skip
    note = (
        "The written tokens by attention in this step. Exact as a ranking; what re-reading fewer "
        "would change needs a run."
    )
    if chosen != size:
        between = found[min(chosen, size) : max(chosen, size)]
        names = [f"“{label(text_of(written[position]))}”" for _, position, _ in between]
        verb = "leave out" if chosen < size else "add"
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        if names:
            note += f" βₜ {chosen} would {verb} {', '.join(names[:NAMED])}{more}."
    return board.chart(
        "held", title, note, marks, layout, height=220, span=span,
        spoken=f"{len(found)} tokens hold {found[-1][2]:.0%} of the attention.",
    )  # fmt: skip


def _named(x: float, y: float, words: str) -> Block:
    return {
        "x": x, "y": y, "yref": "paper", "text": words, "showarrow": False, "xanchor": "left",
        "yanchor": "top", "xshift": 4, "font": {"color": "@quiet"},
    }  # fmt: skip


def missed_rows(trace: DecodeTrace) -> list[list[str]]:
    """The missed chances as texts: step, position, token, c, what the check said, why, later."""
    text_of = texts_of(trace)
    rows = []
    for item in lab.missed(trace):
        other = "–" if item.verify_token is None else label(text_of(item.verify_token))
        confidence = number(item.verify_confidence)
        rows.append(
            [
                str(item.step),
                str(item.position),
                label(text_of(item.token)),
                number(item.confidence),
                REASON_WORDS[item.reason].format(other=other, confidence=confidence),
                counted(item.later, "step"),
            ]
        )
    return rows


def _missed(trace: DecodeTrace, index: int) -> Block:
    every = lab.missed(trace)
    here = sum(item.step == index for item in every)
    checked = [k for k, item in enumerate(every) if item.reason != "not_searched"]
    idle = len(every) - len(checked)
    rows = missed_rows(trace)
    # this step's first, then those that a check refused or did not reach
    order = sorted(checked, key=lambda k: (every[k].step != index, every[k].step))[:MISSED_SHOWN]
    note = (
        f"Drafts that were right in the end but not written: {len(checked)} were refused or stood "
        f"behind the stop, {idle} were not checked. In this step: {here}."
    )
    if len(checked) > len(order):
        note += f" The first {len(order)} are shown; the CSV in Traces has all."
    return board.table(
        "missed", ["step", "position", "draft", "c", "why not", "later by"],
        [rows[k] for k in order], title="Missed chances", note=note, words=(2, 4),
        empty="No draft of this run that was checked and right was missed.",
        event="step", picks=[every[k].step for k in order], pick_help="Go to this step",
    )  # fmt: skip


def _height(proposal: Proposal) -> float | None:
    if proposal.rank == 0:
        return proposal.confidence
    return proposal.verify_confidence


def _disagrees(proposal: Proposal) -> bool:
    return proposal.verify_token is not None and proposal.verify_token != proposal.draft_token


def _hover(trace: DecodeTrace, proposal: Proposal) -> str:
    text_of = texts_of(trace)
    lines = [f"“{label(text_of(proposal.draft_token))}”  c {number(proposal.confidence)}"]
    if proposal.verify_token is not None:
        name = label(text_of(proposal.verify_token))
        lines.append(f"mask view “{name}”  c̃ {number(proposal.verify_confidence)}")
    lines.append(STATE_OF[proposal.verdict].label)
    return "<br>".join(escape(line) for line in lines)


def _short(name: str) -> str:
    return name if len(name) <= 9 else name[:8] + "…"


def _upright(x: float, top: float, colour: str, dash: str) -> Block:
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": top,
        "line": {"color": colour, "width": 2, "dash": dash},
    }  # fmt: skip
