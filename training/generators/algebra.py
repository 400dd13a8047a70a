"""Short algebra in LaTeX: a question, worked steps, and the answer in a box on the last line."""

from __future__ import annotations

import random

from training.generators.algebra_families import (
    arithmetic,
    equations,
    polynomials,
    sequences,
    shares,
)
from training.generators.algebra_families.writing import Writer
from training.generators.item import Item
from training.generators.length import rough_length

FAMILIES = {
    **equations.FAMILIES,
    **polynomials.FAMILIES,
    **sequences.FAMILIES,
    **shares.FAMILIES,
    **arithmetic.FAMILIES,
}
NAMES = tuple(FAMILIES)
# families that a small model finds hard are drawn more often
_HARD = ("evaluate", "expand", "powers", "arithmetic_sequence", "geometric_sequence")
_DRAWN = tuple(name for name in NAMES for _ in range(9 if name in _HARD else 5))


# by the rough count, so that the reference tokenizer stays under 118
LONGEST_ANSWER = 108


def make_item(rng: random.Random) -> Item:
    """One problem; every random choice comes from `rng`. Too long ones are drawn anew."""
    while True:
        family = _DRAWN[int(rng.random() * len(_DRAWN))]
        writer = Writer(rng, family)
        problem = FAMILIES[family](writer)
        answer = writer.answer(problem)
        if rough_length(answer) <= LONGEST_ANSWER:
            break
    return Item(
        domain="algebra",
        family=family,
        specification=f"algebra/{family}/" + "/".join(map(str, problem.numbers)),
        prompt=problem.question,
        answer=answer,
        gold=problem.gold,
    )
