"""Several runs side by side: one clock, costs, and where they part. From traces alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from app.sentences import step_sentence, texts_of
from app.token_text import END, label
from flash_dllm.trace import DecodeTrace

# name → (unit, digits behind the point, what it counts)
CLOCKS = {
    "steps": ("steps", 0, "One decision each, however many passes it took."),
    "passes": ("passes", 0, "Forward passes of the model, the first one included."),
    "rows": ("rows", 0, "Positions that were computed, over all passes: the work."),
    "seconds": ("s", 2, "Measured on the machine that made the run; compare runs of one machine."),
}


def clock(trace: DecodeTrace, kind: str) -> list[float]:
    """The clock's reading at the end of each step. Raises ValueError for an unknown clock."""
    if kind not in CLOCKS:
        raise ValueError(f"the clock must be one of {', '.join(CLOCKS)}, got {kind!r}")
    per_step: dict[str, list[float]] = {
        "steps": [1 for _ in trace.steps],
        "passes": [len(step.counted) for step in trace.steps],
        "rows": [sum(r.rows for r in step.counted) for step in trace.steps],
        "seconds": [sum(r.seconds for r in step.counted) for step in trace.steps],
    }
    return list(accumulate(per_step[kind]))


def written_at(trace: DecodeTrace, kind: str) -> list[float]:
    """Per answer position the clock's reading when it was written; -1 if it never was."""
    reading = clock(trace, kind)
    return [
        reading[trace.decided_step[position] - 1] if position in trace.decided_step else -1
        for position in range(trace.prompt_length, trace.prompt_length + trace.gen_length)
    ]


# settings by weight, for names of runs
FIRST = ("model", "strategy", "cache", "epsilon", "gamma", "gen length", "window size", "seed")


@dataclass(frozen=True)
class Cost:
    """What a run took for its answer (words of docs/decisions.md)."""

    tokens: int
    steps: int
    passes: int
    rows: int
    row_layers: int
    seconds: float
    tokens_per_pass: float
    verified: int


def cost(trace: DecodeTrace) -> Cost:
    return Cost(
        trace.tokens,
        len(trace.steps),
        trace.passes,
        trace.rows,
        trace.row_layers,
        trace.seconds,
        trace.tokens_per_pass,
        trace.verified,
    )


def differences(first: DecodeTrace, other: DecodeTrace) -> list[bool]:
    """Per answer position of `other` whether its token text differs from the first run's.

    Texts are compared, because another model may have other ids; a position that only one of
    them has differs. Answers to different prompts are not compared: nothing differs.
    """
    if first.prompt_token_ids != other.prompt_token_ids:
        return [False] * other.gen_length
    mine, theirs = _texts(first), _texts(other)
    return [
        a != b for a, b in zip_longest(theirs, mine[: len(theirs)], fillvalue=None)
    ]


@dataclass(frozen=True)
class Parting:
    """Where two runs first decide otherwise.

    step      the step (counted from 1), or None if all steps write the same
    position  first answer position whose final text differs, or None
    settings  the settings that differ: (name, first run's value, other run's)
    words     why, in a sentence
    """

    step: int | None
    position: int | None
    settings: tuple[tuple[str, str, str], ...]
    words: str


def parting(first: DecodeTrace, other: DecodeTrace) -> Parting:
    """Where two runs part, and what each did there."""
    settings = different_settings(first, other)
    position = next((k for k, is_other in enumerate(differences(first, other)) if is_other), None)
    if first.prompt_token_ids != other.prompt_token_ids:
        words = "They answer different prompts, so only their costs can be compared."
        return Parting(None, position, settings, words)
    step = first_difference(first, other)
    if step is None:
        return Parting(None, position, settings, "All steps write the same tokens.")
    words = f"Up to step {step - 1} they write the same. " if step > 1 else ""
    return Parting(
        step, position, settings, words + _cause(first, other, step) + _reason(first, other, step)
    )


def first_difference(first: DecodeTrace, other: DecodeTrace) -> int | None:
    """The first step (counted from 1) that writes something else, or is missing in one run."""
    for index, (a, b) in enumerate(zip_longest(first.steps, other.steps), 1):
        if a is None or b is None or dict(a.accepted) != dict(b.accepted):
            return index
    return None


def different_settings(
    first: DecodeTrace, other: DecodeTrace
) -> tuple[tuple[str, str, str], ...]:
    """Settings whose values differ, those that matter most first, the model's name included.

    Where the strategy or the cache differs, the knobs that only one of them has are left out.
    """
    mine, theirs = _settings(first), _settings(other)
    known = [name for name in FIRST if name in mine or name in theirs]
    rest = sorted({*mine, *theirs} - set(known))
    return tuple(
        (name, mine[name], theirs[name])
        for name in [*known, *rest]
        if name in mine and name in theirs and mine[name] != theirs[name]
    )


def short_names(traces: Sequence[DecodeTrace]) -> list[str]:
    """A, B, C, D with what tells each run apart from the first one."""
    names = []
    for letter, trace in zip("ABCD", traces, strict=False):
        if letter == "A":
            names.append("A")
            continue
        changed = different_settings(traces[0], trace)
        what = ", ".join(f"{name} {theirs.replace('_', '-')}" for name, _, theirs in changed[:3])
        names.append(f"{letter}: {what or 'same settings'}")
    return names


def _cause(first: DecodeTrace, other: DecodeTrace, step: int) -> str:
    """Whether the drafts of that step differ already, or only what was decided about them."""
    if step > min(len(first.steps), len(other.steps)):
        return ""
    mine, theirs = (
        {p.position: p.draft_token for p in trace.steps[step - 1].proposals}
        for trace in (first, other)
    )
    shared = sorted(mine.keys() & theirs.keys())
    a, b = texts_of(first), texts_of(other)
    differ = [p for p in shared if a(mine[p]) != b(theirs[p])]
    if not differ:
        return "The drafts there are the same; what differs is what was decided about them. "
    at = differ[0]
    return (
        f"There {len(differ)} of {len(shared)} drafts differ already, first at position "
        f"{at - first.prompt_length} (“{label(a(mine[at]))}” and “{label(b(theirs[at]))}”): the "
        "model answered otherwise, before anything was decided. "
    )


def _reason(first: DecodeTrace, other: DecodeTrace, step: int) -> str:
    parts = []
    for letter, trace in (("A", first), ("B", other)):
        if step > len(trace.steps):
            parts.append(f"{letter} had ended.")
            continue
        record = trace.steps[step - 1]
        text_of = texts_of(trace)
        tokens = ", ".join(f"“{label(text_of(token))}”" for _, token in record.accepted[:6])
        more = len(record.accepted) - 6
        tail = f" and {more} more" if more > 0 else ""
        parts.append(
            f"In step {step} {letter} writes {tokens}{tail}: {step_sentence(trace, record)}"
        )
    return " ".join(parts)


def _texts(trace: DecodeTrace) -> list[str | None]:
    """The final texts; behind the first end token everything counts as end."""
    text_of, texts, has_ended = texts_of(trace), [], False
    for token in trace.canvas_at(len(trace.steps)):
        has_ended = has_ended or token in trace.model.eos_token_ids
        texts.append(END if has_ended else None if token is None else text_of(token))
    return texts


def _settings(trace: DecodeTrace) -> dict[str, str]:
    flat = {"model": trace.model.name}
    for part, holder in (("strategy", trace.strategy), ("cache", trace.cache)):
        flat[part] = str(holder.get("name"))
        flat |= {key: _value(value) for key, value in holder.items() if key != "name"}
    flat |= {key: _value(value) for key, value in trace.config.items()}
    # an audit is asked for the record only: it changes nothing
    return {key.replace("_", " "): v for key, v in flat.items() if key != "audit"}


def _value(value) -> str:
    return "none" if value is None else str(value)
