"""Chains of gains and losses, and the same told backwards ("how many at first")."""

from __future__ import annotations

import random

from training.generators.word_problem import (
    Problem,
    make_step,
    person_slots,
    step_kind,
    template,
    thing_slots,
)
from training.generators.wording import expand

_START = template(
    """
    {who} (has|owns|starts with) {n} {things}.
    {who} (has|keeps) {n} {things} (at home|in a box|in a bag|in {her} room).
    there are {n} {things} in {who}'s (box|bag|room|basket).
    {who} has (collected|counted|a collection of) {n} {things}.
    (at first|in the morning|one day|on {day}), {who} has {n} {things}.
    {who} begins the (day|week|year) with {n} {things}.
    {who} (takes|brings) {n} {things} to the {place}.
    """
)
_TIME = template("(||then |later, |the next day, |after that, |in the evening, |soon |next, )")
_GAIN = template(
    """
    {time}{she} (gets|buys|finds|wins|receives|picks up|is given) {b} more {things}.
    {time}{she} (gets|buys|finds) {b} more.
    {time}{her} {relative} (gives|brings|sends|hands) {him} {b} more( {things}|).
    {time}{she} (adds|gets) another {b}( {things}|).
    {time}{b} more {things} are given to {him}.
    {time}{she} (finds|gets|buys) {b} more {things} at the {place}.
    """
)
_LOSS = template(
    """
    {time}{she} (gives away|loses|sells|uses|trades away|throws out) {b} {things}.
    {time}{she} (gives away|loses|sells|uses) {b} of them.
    {time}{she} gives {b} (of the {things}|of them|{things}) to {her} {relative}.
    {time}{her} {relative} (takes|borrows|is given) {b} of the {things}.
    {time}{b} of the {things} (get lost|are sold|break|are given away).
    {time}{she} (sells|leaves) {b} of the {things} at the {place}.
    """
)
_DOUBLE = template(
    """
    {time}the number of {things} {she} has (doubles|becomes twice as large).
    {time}{she} (gets|finds|buys) as many {things} as {she} already has.
    {time}{she} manages to double the number of {things} {she} has.
    {time}{she} ends up with twice as many {things}.
    """
)
_HALVE = template(
    """
    {time}{she} gives half of {her} {things} to {her} {relative}.
    {time}{she} (gives away|sells|loses|uses) half of (them|the {things}|what {she} has).
    {time}half of {her} {things} (get lost|are sold|break|are given away).
    {time}{her} {relative} (takes|is given) half of the {things}.
    """
)
_OTHER = template(
    """
    {she} also has {x} {others}.
    {her} {relative} has {x} {others}.
    there are {x} {others} (as well|too).
    {she} keeps {x} {others}, too.
    """
)
_ASK = template(
    """
    how many {things} does {sub} have (now|in the end|at the end|after that|after all this)?
    how many {things} (are there|does {she} own) (now|in the end|after all)?
    (find|tell me|give) the number of {things} {sub} has (now|in the end).
    with how many {things} does {who} end up?
    how many {things} (belong to {him} in the end|are {hers} now|are {hers} in the end)?
    in the end, how many {things} does {who} have?
    """
)
_GOAL = template(
    """
    how many {things} {sub} has (now|in the end|after that|at the end|)
    the number of {things} {sub} (has|ends up with)
    how many {things} there are (now|in the end|)
    """
)
_FACT = template(
    """
    {sub} (has|starts with|begins with) {n} {things}
    there are {n} {things} (at first|to begin with|in the beginning)
    the (starting number|first number) is {n}
    """
)

_NOW_CLAUSES = """
    {sub} (now |then |)has {v}
    {sub} has {v} (now|at this point|after that)
    {she} (ends up with|is at|comes to) {v}
    there are (now |then |){v}
    the (number|count) (of {things} |)(becomes|is now|is then|changes to) {v}
    (it|that) (gives|makes) {v}
    """
_NOW_NOUNS = """
    the (new |)(number|count) (of {things} |)(now|after that|)
    the new (number|count|amount)
    what {sub} has (now|then|after that)
    {her} new (count|number) of {things}
    """
GAIN = step_kind(
    _NOW_CLAUSES + "{sub} (is up to|has a total of) {v}\nthe total (goes up|grows|rises) to {v}",
    _NOW_NOUNS + "the (total|sum)",
    """
    {she} (gets|adds|gains|receives) {b} (more|{things}|more {things})
    {b} (more |)(are added|come in|come on top)
    {b} {things} are (added|new)
    the number goes up by {b}
    """,
)
LOSS = step_kind(
    _NOW_CLAUSES + "{sub} (is left with|still has|keeps) {v}\n{v} (remain|are left|stay)",
    _NOW_NOUNS + "what (is left|remains)\nthe rest",
    """
    {b} (are gone|go away|are taken away|are missing)
    {she} (loses|gives up|no longer has) {b} (of them|{things}|)
    {b} {things} are gone
    the number goes down by {b}
    """,
)
DOUBLE = step_kind(
    _NOW_CLAUSES + "(doubling|twice that) (gives|makes|is) {v}",
    _NOW_NOUNS + "(the double|twice as many|two times {a})",
    """
    the number doubles
    (twice|double) means (times 2|two times as many)
    there are twice as many
    """,
)
HALVE = step_kind(
    _NOW_CLAUSES + "{sub} (is left with|still has|keeps) {v}\n(half|one half) is {v}",
    _NOW_NOUNS + "(half|the other half|half of {a})",
    """
    half (of them |)(are gone|go away|are taken away)
    half of {a} (stay|remain|are left)
    only half (stay|remain|are left)
    """,
)


def _draw_change(rng: random.Random, value: int) -> tuple[str, int, object, object]:
    """(sign, operand, question wording, step kind) of a change that keeps 2..150."""
    draw = rng.random()
    if draw < 0.1 and value <= 50:
        return "*", 2, _DOUBLE, DOUBLE
    if draw < 0.22 and value % 2 == 0 and value >= 8:
        return "/", 2, _HALVE, HALVE
    if (draw < 0.62 and value <= 110) or value < 6:
        return "+", rng.randint(2, 40), _GAIN, GAIN
    return "-", rng.randint(2, min(value - 2, 60)), _LOSS, LOSS


def build_chain(rng: random.Random) -> Problem:
    """A start and one to three changes; sometimes a number that doesn't matter."""
    count = rng.choices((1, 2, 3), (25, 45, 30))[0]
    slots = {**person_slots(rng), **thing_slots(rng), "time": _TIME}
    slots["day"] = rng.choice(("Monday", "Friday", "Sunday", "Tuesday"))
    slots["hers"] = "his" if slots["she"] == "he" else "hers"
    value = rng.randint(4, 80)
    slots["n"] = str(value)
    numbers, structure, steps = [value], "", []
    sentences = [expand(_START, rng, slots)]
    for position in range(count):
        sign, operand, wording, kind = _draw_change(rng, value)
        slots["b"] = str(operand)
        sentences.append(expand(wording, rng, slots))
        needs = (position - 1,) if position else ()
        steps.append(make_step(kind, value, sign, operand, slots["things"], needs))
        value = steps[-1].result
        numbers.append(operand)
        structure += sign
    if count == 1 and rng.random() < 0.35:
        slots["x"] = str(rng.randint(2, 50))
        slots["others"] = rng.choice(("hats", "red pens", "chairs", "old books", "plates", "boots"))
        sentences.insert(
            rng.choice((1, 2)) if wording is not _HALVE else 2, expand(_OTHER, rng, slots)
        )
        # "of them" would be unclear right after the other things, so the things are named again
        sentences = [s.replace("of them", f"of the {slots['things']}") for s in sentences]
    sentences.append(expand(_ASK, rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _GOAL, (_FACT,)
    )


_BEFORE_START = template(
    """
    {who} (had|owned) some {things}.
    {who} had (a box|a bag|a pile|a collection) of {things}.
    {who} (came|went) (home|to the {place}) with some {things}.
    there were some {things} in {who}'s (bag|box|room).
    {who} (carried|brought|collected) some {things}.
    on {day}, {who} had some {things}.
    """
)
_BEFORE_GAIN = template(
    """
    (then |later |){she} (got|bought|found|won|received) {b} more.
    {her} {relative} (gave|brought|sent) {him} {b} more( {things}|).
    (then |later |)another {b} {things} were given to {him}.
    (then |after that |){she} (got|bought|found) {b} more {things}.
    """
)
_BEFORE_LOSS = template(
    """
    (then |later |){she} (gave away|lost|sold|used) {b} of them.
    {she} gave {b} (of them|{things}) to {her} {relative}.
    {her} {relative} (took|borrowed) {b} of the {things}.
    (then |after that |){b} of the {things} were (lost|sold|broken|given away).
    """
)
_BEFORE_END = template(
    """
    (now|in the end) {she} has {n} {things}.
    (now|after that) there are {n} (left|{things}).
    that left {him} with {n} {things}.
    {she} has {n} {things} now.
    {she} ended up with {n} {things}.
    (in the end|finally), {she} counted {n} {things}.
    """
)
_BEFORE_ASK = template(
    """
    how many {things} did {sub} have (at first|in the beginning|at the start|to begin with)?
    how many {things} were there (at first|in the beginning|at the start)?
    with how many {things} did {who} start?
    what was the number of {things} {who} had (at first|at the start)?
    how many {things} did {who} have before (all |)this?
    (find|tell me) the number of {things} {she} (started with|had at first).
    """
)
_BEFORE_GOAL = template(
    """
    how many {things} {sub} had (at first|at the start|in the beginning)
    the (number|count) (of {things} |)(at first|at the start|in the beginning)
    what {sub} started with
    """
)
_BEFORE_FACT = template(
    "(in the end there are|{sub} has|{sub} ends up with|the last number is) {n}\n"
    "we (go|work) (backwards|back) from {n}"
)
_BEFORE_CLAUSES = """
    {sub} had {v} (before that|before this|)
    before that, (there were|{she} had) {v}
    there were {v} before (that|this)
    the number before that was {v}
    (going|working|counting) back (gives|we get|makes it) {v}
    (earlier|one step earlier), (there were|{she} had) {v}
    """
_BEFORE_NOUNS = """
    the number (of {things} |)before (that|this)
    the (earlier|previous|old) (number|count|amount)
    what {sub} had before (that|this|)
    {her} earlier (count|number) of {things}
    """
UNDO_GAIN = step_kind(
    _BEFORE_CLAUSES,
    _BEFORE_NOUNS,
    """
    {b} were added
    {she} (got|received|added) {b} (more|)
    we (undo|take back) the (gain|increase) of {b}
    without the {b} new ones there were fewer
    """,
)
UNDO_LOSS = step_kind(
    _BEFORE_CLAUSES,
    _BEFORE_NOUNS,
    """
    {b} (were taken away|had gone|left)
    {she} (lost|gave up) {b} (of them|{things}|)
    we (undo|put back) the loss of {b}
    the {b} (that were gone|lost ones) come back
    """,
)


def build_before(rng: random.Random) -> Problem:
    """Start unknown, one or two changes, the end known: work backwards."""
    count = rng.choices((1, 2), (40, 60))[0]
    slots = {**person_slots(rng), **thing_slots(rng), "day": rng.choice(("Monday", "Friday"))}
    value = start = rng.randint(10, 70)
    changes = []
    for _ in range(count):
        sign = "+" if rng.random() < 0.5 or value < 10 else "-"
        operand = rng.randint(2, 40 if sign == "+" else min(40, value - 4))
        value = apply_change(value, sign, operand)
        changes.append((sign, operand))
    sentences = [expand(_BEFORE_START, rng, slots)]
    for sign, operand in changes:
        wording = _BEFORE_GAIN if sign == "+" else _BEFORE_LOSS
        sentences.append(expand(wording, rng, {**slots, "b": str(operand)}))
    slots["n"] = str(value)
    sentences += [expand(_BEFORE_END, rng, slots), expand(_BEFORE_ASK, rng, slots)]
    steps, structure, now = [], "", value
    for position, (sign, operand) in enumerate(reversed(changes)):
        kind, undo = (UNDO_GAIN, "-") if sign == "+" else (UNDO_LOSS, "+")
        needs = (position - 1,) if position else ()
        steps.append(make_step(kind, now, undo, operand, slots["things"], needs))
        now = steps[-1].result
        structure += undo
    numbers = (start, *(operand for _, operand in changes))
    return Problem(
        structure, numbers, " ".join(sentences), slots, tuple(steps), _BEFORE_GOAL, (_BEFORE_FACT,)
    )


def apply_change(value: int, sign: str, operand: int) -> int:
    """The number of things after one gain or loss."""
    return value + operand if sign == "+" else value - operand


FAMILIES = {"chain": build_chain, "before": build_before}
