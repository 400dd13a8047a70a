"""Several runs side by side: one clock, costs, and where they part. From traces alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, zip_longest

from app.sentences import LISTED, step_sentence, texts_of
from app.token_text import END, label
from app.words import Says
from flash_dllm.trace import DecodeTrace, StepTrace

# name → digits behind the point; the page's words say what each counts
CLOCKS = {"steps": 0, "passes": 0, "rows": 0, "seconds": 2}


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


def same_tokens(first: DecodeTrace, other: DecodeTrace) -> bool:
    """Whether two models cut text into the same tokens, as far as the records show: no id has
    two texts, and no text two ids (texts that one model has twice say nothing)."""
    mine, theirs = first.token_texts, other.token_texts
    if any(mine[token] != theirs[token] for token in mine.keys() & theirs.keys()):
        return False
    ids, other_ids = _by_text(mine), _by_text(theirs)
    return all(ids[text] == other_ids[text] for text in ids.keys() & other_ids.keys())


def _by_text(texts: Mapping[int, str]) -> dict[str, int]:
    counts = Counter(texts.values())
    return {text: token for token, text in texts.items() if counts[text] == 1}


def same_prompt(first: DecodeTrace, other: DecodeTrace) -> bool:
    """Whether two runs answer the same prompt: by tokens, or, for two models (whose templates
    and tokens may differ), by what was typed."""
    if _maker(first) == _maker(other):
        return first.prompt_token_ids == other.prompt_token_ids
    return bool(first.prompt.strip()) and first.prompt == other.prompt


def _maker(trace: DecodeTrace) -> tuple[str, str]:
    return trace.model.name, trace.model.fingerprint


def differences(first: DecodeTrace, other: DecodeTrace) -> list[bool]:
    """Per answer position of `other` whether its token text differs from the first run's.

    A position that only one of them has differs. Where the models' tokens differ, positions mean
    different places of the text: then a token differs if one of its words is not among those that
    the two answers share in order. Answers to different prompts are not compared: nothing differs.
    """
    if not same_prompt(first, other):
        return [False] * other.gen_length
    mine, theirs = _texts(first), _texts(other)
    if not same_tokens(first, other):
        return _unshared(mine, theirs)
    return [
        a != b for a, b in zip_longest(theirs, mine[: len(theirs)], fillvalue=None)
    ]


def alike(first: DecodeTrace, other: DecodeTrace) -> float | None:
    """The share of the first run's answer that the other one has, 0…1: positions with the same
    text, or, where the models' tokens differ, words in the same order (2 × shared / both). None
    for answers to different prompts."""
    if not same_prompt(first, other):
        return None
    if same_tokens(first, other):
        differs = differences(first, other)
        return 1 - sum(differs) / len(differs)
    a, b = _words(_texts(first)), _words(_texts(other))
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def _unshared(mine: Sequence[str | None], theirs: Sequence[str | None]) -> list[bool]:
    """Per text of `theirs` whether it touches a word that `mine` does not have in this order.
    Ends and blanks have no words."""
    words = _words(theirs)
    matcher = SequenceMatcher(None, _words(mine), words, autojunk=False)
    blocks = matcher.get_matching_blocks()
    shared = {k for block in blocks for k in range(block.b, block.b + block.size)}
    marks = [k not in shared for k, word in enumerate(words) for _ in word]
    found, at = [], 0
    for text in theirs:
        size = len(_plain(text))
        found.append(any(marks[at : at + size]))
        at += size
    return found


def _words(texts: Sequence[str | None]) -> list[str]:
    """Words, spaces and signs of the joined texts; joined again they are the whole text."""
    return re.findall(r"\w+|\s+|.", "".join(map(_plain, texts)))


def _plain(text: str | None) -> str:
    return "" if text is None or text == END else text


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


def parting(
    first: DecodeTrace, other: DecodeTrace, say: Says | None = None, letter: str = "B"
) -> Parting:
    """Where two runs part, and what each did there.

    say     the words of "compare" in a language; English by default
    letter  the other run's name
    """
    say = say or Says("compare", "en")
    settings = different_settings(first, other)
    differs = differences(first, other)
    position = next((k for k, is_other in enumerate(differs) if is_other), None)
    if not same_prompt(first, other):
        return Parting(None, position, settings, say("part_prompts"))
    if not same_tokens(first, other):
        return Parting(None, position, settings, _by_words(say, first, other, position))
    step = first_difference(first, other)
    if step is None:
        return Parting(None, position, settings, say("part_same"))
    words = say("part_up_to", step=step - 1) if step > 1 else ""
    words += _cause(say, first, other, step)
    runs = (("A", first), (letter, other))
    gap = "" if say.language == "zh" else " "
    words += gap.join(_reason(say, name, trace, step) for name, trace in runs)
    return Parting(step, position, settings, words)


def first_difference(first: DecodeTrace, other: DecodeTrace) -> int | None:
    """The first step (counted from 1) that writes something else, or is missing in one run."""
    for index, (a, b) in enumerate(zip_longest(first.steps, other.steps), 1):
        if a is None or b is None or _written(first, a) != _written(other, b):
            return index
    return None


def _written(trace: DecodeTrace, step: StepTrace) -> dict[int, int]:
    """Position in the answer → token; two models' prompts may differ in length."""
    return {position - trace.prompt_length: token for position, token in step.accepted}


def _by_words(
    say: Says, first: DecodeTrace, other: DecodeTrace, position: int | None
) -> str:
    head = say("part_tokens", first=first.model.name, other=other.model.name)
    if position is None:
        return head + say("part_no_word")
    return head + say("part_word", text=label(_texts(other)[position] or ""))


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


def short_names(traces: Sequence[DecodeTrace], say: Says) -> list[str]:
    """A, B, C, D with what tells each run apart from the first one."""
    names = []
    for letter, trace in zip("ABCD", traces, strict=False):
        if letter == "A":
            names.append("A")
            continue
        changed = different_settings(traces[0], trace)
        what = ", ".join(f"{name} {theirs.replace('_', '-')}" for name, _, theirs in changed[:3])
        names.append(f"{letter}: {what or say('same_settings')}")
    return names


def _cause(say: Says, first: DecodeTrace, other: DecodeTrace, step: int) -> str:
    """Whether the drafts of that step differ already, or only what was decided about them."""
    if step > min(len(first.steps), len(other.steps)):
        return ""
    mine, theirs = (
        {p.position - trace.prompt_length: p.draft_token for p in trace.steps[step - 1].proposals}
        for trace in (first, other)
    )
    shared = sorted(mine.keys() & theirs.keys())
    a, b = texts_of(first), texts_of(other)
    differ = [p for p in shared if a(mine[p]) != b(theirs[p])]
    if not differ:
        return say("part_drafts_same")
    at = differ[0]
    return say(
        "part_drafts", len(differ), all=len(shared), p=at, a=label(a(mine[at])),
        b=label(b(theirs[at])),
    )  # fmt: skip


def _reason(say: Says, letter: str, trace: DecodeTrace, step: int) -> str:
    if step > len(trace.steps):
        return say("part_ended", letter=letter)
    record, text_of = trace.steps[step - 1], texts_of(trace)
    tokens = ", ".join(
        say("quoted", text=label(text_of(token))) for _, token in record.accepted[:LISTED]
    )
    more = len(record.accepted) - LISTED
    sentence = step_sentence(trace, record, language=say.language)
    return say(
        "part_writes", step=step, letter=letter, tokens=tokens, sentence=sentence,
        more=say("more", more) if more > 0 else "",
    )  # fmt: skip


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
