"""Tasks that are listed by hand: a phrase, a few bodies, a reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from training.generators.code_families.task import (
    LETTER_NAMES,
    NUMBER_NAMES,
    WORD_NAMES,
    WORDS,
    Task,
    integers,
    pool,
    sentence,
    word,
)
from training.generators.habit import usual
from training.generators.item import is_held_out


def _table(rng: random.Random) -> dict[str, int]:
    keys = rng.sample(WORDS, rng.randint(1, 4))
    return {key.lower(): rng.randint(-3, 20) for key in keys}


def _words(rng: random.Random) -> list[str]:
    return [name.lower() for name in rng.choices(WORDS, k=rng.randint(2, 4))]


DRAW: dict[str, Callable[[random.Random], object]] = {
    "numbers": integers,
    "words": _words,
    "text": word,
    "sentence": sentence,
    "n": lambda rng: rng.randint(1, 30),
    "table": _table,
}
ELEMENTS = {
    "numbers": NUMBER_NAMES,
    "words": WORD_NAMES,
    "text": LETTER_NAMES,
    "sentence": WORD_NAMES,
    "n": NUMBER_NAMES,
    "table": pool("key k name x label"),
}


@dataclass(frozen=True)
class Simple:
    """A row of a table.

    constants  pools for `<k>` and `<m>` in the key, the phrase and the bodies
    reference  called with the constants first, then the arguments
    draw       makes one tuple of arguments; by default from the kinds
    """

    key: str
    names: str
    kinds: tuple[str, ...]
    phrase: str
    returns: str
    bodies: tuple[str, ...]
    reference: Callable[..., object]
    constants: tuple[tuple[object, ...], ...] = ()
    draw: Callable[[random.Random], tuple[object, ...]] | None = None
    empty: str | None = None


def _outer(rng: random.Random, body: str, phrase: str) -> tuple[str, str, str, Callable]:
    """Adds a constant to a number that is returned, for more specifications."""
    k = rng.randint(1, 12)
    sign = rng.choice("+-*")
    words = {"+": (f"plus {k}", f"increased by {k}"), "-": (f"minus {k}", f"reduced by {k}"),
             "*": (f"times {k}", f"multiplied by {k}")}[sign]  # fmt: skip
    lines = []
    for line in body.split("\n"):
        before, found, value = line.partition("return ")
        if found:
            if " if " in value or (" " in value and (sign == "*" or " or " in value)):
                value = f"({value})"
            line = f"{before}return {value} {sign} {k}"
        lines.append(line)
    change = {"+": lambda v: v + k, "-": lambda v: v - k, "*": lambda v: v * k}[sign]
    return "\n".join(lines), f"{phrase}, {rng.choice(words)}", f"{sign}{k}", change


def make_task(rng: random.Random, row: Simple, family: str) -> Task:
    """Draws the constants, one body and three examples."""
    values = [rng.choice(pool) for pool in row.constants]
    body, phrase, key, empty = usual(rng, row.bodies, row.key), row.phrase, row.key, row.empty
    for slot, value in zip(("<k>", "<m>"), values, strict=False):
        body, phrase = body.replace(slot, str(value)), phrase.replace(slot, str(value))
        empty = empty.replace(slot, str(value)) if empty else empty
        key += f"/{value}"
    change = None
    if row.returns == "int" and rng.random() < (0.2 if values else 0.45):
        body, phrase, addition, change = _outer(rng, body, phrase)
        key += f"/{addition}"
    elif not values:
        # a task without constants has one specification: always for training, since without it
        # the model can't know the task at all
        while is_held_out(f"code/{key}"):
            key += "/"
    draw = row.draw
    if draw is None:
        examples = tuple(tuple(DRAW[kind](rng) for kind in row.kinds) for _ in range(3))
        blank = {"numbers": [], "words": [], "text": "", "sentence": ""}
        if row.empty is not None and rng.random() < 0.4:
            examples = ((blank[row.kinds[0]], *examples[0][1:]), *examples[1:])
    else:
        examples = tuple(draw(rng) for _ in range(3))

    def reference(*arguments: object) -> object:
        result = row.reference(*values, *arguments)
        return change(result) if change else result

    return Task(
        family=family,
        specification=key,
        names=tuple(row.names.split()),
        arguments=row.kinds,
        phrase=phrase,
        returns=row.returns,
        body=body,
        elements=ELEMENTS[row.kinds[0]],
        reference=reference,
        examples=examples,
        empty=empty if change is None else None,
    )
