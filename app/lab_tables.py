"""Blocks of the Verify lab beside its two pictures: attention held, missed chances, the badge."""

from __future__ import annotations

from app import board, lab
from app.board import Block
from app.sentences import number, texts_of
from app.theme import escape
from app.token_text import label
from app.words import Says
from flash_dllm.rejudge import Certainty, Rejudged, RejudgedStep
from flash_dllm.trace import DecodeTrace

MISSED_SHOWN = 60
NAMED = 6  # tokens that a note names


def in_words(say: Says, trace: DecodeTrace, again: Rejudged) -> tuple[str, str]:
    """Badge and explanation of a what-if, as `Rejudged` has them in English."""
    idle = [
        say("idle", symbol=symbol, name=trace.strategy["name"])
        for symbol, knob in (("ε", "epsilon"), ("γ", "gamma"))
        if f"{symbol} means nothing" in again.explanation and knob not in trace.strategy
    ]
    if again.first_change is None:
        return say("badge_exact"), " ".join(idle or [say("same")])
    step = again.first_change
    now = again.steps[step - 1]
    change, is_last = _change(say, again, now), len(again.steps) == step
    if now.certainty is Certainty.EXACT:
        badge = "badge_exact" if again.badge == "exact" else "badge_until"
        words = say("ends" if again.badge == "exact" and is_last else "depends", change=change)
    elif now.certainty is Certainty.APPROXIMATE:
        badge = "badge_about"
        words = say("about", change=change, tokens=_more(say, again.tokens_gained or 0))
    else:
        words = say("missing", change=change)
        if step == 1:
            return say("badge_run"), " ".join([*idle, words])
        words, badge, step = words + say("from_there"), "badge_until", step - 1
    return say(badge, step=step), " ".join([*idle, words])


def _change(say: Says, again: Rejudged, now: RejudgedStep) -> str:
    decided = _more(say, again.decided_gained)
    if now.certainty is not Certainty.EXACT:
        return say("decides", step=now.index, decided=decided)
    key = "decides_commits" if again.decided_gained else "commits"
    tokens = _more(say, again.tokens_gained or 0)
    return say(key, step=now.index, tokens=tokens, decided=decided)


def _more(say: Says, count: int) -> str:
    if count == 0:
        return say("as_many")
    return say("more" if count > 0 else "fewer", abs(count))


def held_block(
    say: Says, trace: DecodeTrace, index: int, track_size: int | None, span: int
) -> Block:
    """What another β_t would re-read in a step (counted from 1): its attention, added up."""
    found = lab.held(trace.steps[index - 1])
    if not found:
        return board.text(
            "held", say("held"), say("held_none"), tag="h3", tone="empty", span=span
        )
    text_of = texts_of(trace)
    written = dict(enumerate(trace.prompt_token_ids))
    written |= {position: token for step in trace.steps for position, token in step.accepted}
    hover = [
        say("held_hover", count, position=position, share=f"{share:.0%}",
            text=escape(label(text_of(written[position]))))
        for count, position, share in found
    ]  # fmt: skip
    marks = [
        {"type": "scatter", "mode": "lines+markers", "x": [count for count, _, _ in found],
         "y": [share for _, _, share in found], "hoverinfo": "text", "hovertext": hover,
         "line": {"color": "@tracked", "width": 2, "shape": "hv"},
         "marker": {"color": "@tracked", "size": 4}}
    ]  # fmt: skip
    size = trace.cache["track_size"]
    chosen = size if track_size is None else track_size
    shapes = [upright(size, 1, "@tracked", "dot") | {"yref": "paper"}]
    notes = [_named(size, 1, say("held_own", size=size))]
    if chosen != size:
        shapes.append(upright(chosen, 1, "@ink", "solid") | {"yref": "paper"})
        notes.append(_named(chosen, 0.82, f"βₜ {chosen}"))
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "xaxis": {"range": [0, max(size, chosen, len(found)) + 1], "title": say("held_x")},
        "yaxis": {"range": [0, max(0.1, 1.15 * found[-1][2])], "tickformat": ".0%",
                  "title": say("held_y")},
    }  # fmt: skip
    note = say("held_note")
    if chosen != size:
        between = found[min(chosen, size) : max(chosen, size)]
        names = [f"“{label(text_of(written[position]))}”" for _, position, _ in between]
        more = say("and_more", len(names) - NAMED) if len(names) > NAMED else ""
        if names:
            key = "held_drops" if chosen < size else "held_adds"
            note += say(key, size=chosen, names=", ".join(names[:NAMED]), more=more)
    return board.chart(
        "held", say("held"), note, marks, layout, height=220, span=span,
        spoken=say("held_spoken", len(found), share=f"{found[-1][2]:.0%}"),
    )  # fmt: skip


def _named(x: float, y: float, words: str) -> Block:
    return {
        "x": x, "y": y, "yref": "paper", "text": words, "showarrow": False, "xanchor": "left",
        "yanchor": "top", "xshift": 4, "font": {"color": "@quiet"},
    }  # fmt: skip


def upright(x: float, top: float, colour: str, dash: str) -> Block:
    """An upright line of a chart, from 0 to `top`."""
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": top,
        "line": {"color": colour, "width": 2, "dash": dash},
    }  # fmt: skip


def missed_rows(trace: DecodeTrace, language: str = "en") -> list[list[str]]:
    """The missed chances as texts: step, position, token, c, what the check said, why, later."""
    say, text_of = Says("lab", language), texts_of(trace)
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
                say(f"reason_{item.reason}", other=other, confidence=confidence),
                say("steps", item.later),
            ]
        )
    return rows


def missed_block(say: Says, trace: DecodeTrace, index: int) -> Block:
    """The missed chances as a table, those of one step (counted from 1) first."""
    every = lab.missed(trace)
    here = sum(item.step == index for item in every)
    checked = [k for k, item in enumerate(every) if item.reason != "not_searched"]
    rows = missed_rows(trace, say.language)
    # this step's first, then those that a check refused or did not reach
    order = sorted(checked, key=lambda k: (every[k].step != index, every[k].step))[:MISSED_SHOWN]
    idle = len(every) - len(checked)
    note = say("missed_note", checked=len(checked), idle=idle, here=here)
    if len(checked) > len(order):
        note += say("missed_more", len(order))
    return board.table(
        "missed", say.raw("missed_columns"), [rows[k] for k in order], title=say("missed"),
        note=note, words=(2, 4), empty=say("missed_empty"),
        event="step", picks=[every[k].step for k in order], pick_help=say("go"),
    )  # fmt: skip
