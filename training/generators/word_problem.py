"""What a word problem is before it is worded: a question, slots, and steps with equations."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from training.generators.vocabulary import NAMES, OBJECTS, PLACES, PRONOUNS, RELATIVES
from training.generators.wording import Template, choices, compile_template


@dataclass(frozen=True)
class StepKind:
    """How one kind of step can be told; every field is a compiled choice.

    clause   a main clause with `{v}`; compiled with the equation in it and with the result
    noun     a noun phrase for the result ("the number of hats left")
    reason   a clause that says why the operation is right
    """

    clause: Template
    told: Template
    noun: Template
    reason: Template


def step_kind(clause: str, noun: str, reason: str) -> StepKind:
    """Compile the three parts, one template a line in each."""
    return StepKind(
        clause=choices(clause.replace("{v}", "{eq}")),
        told=choices(clause.replace("{v}", "{result}")),
        noun=choices(noun),
        reason=choices(reason),
    )


@dataclass(frozen=True)
class Step:
    """One equation: `left sign right = result`.

    needs   positions (in the problem's list) of the steps whose results this one uses
    unit    plural noun after the result; "$" means dollars
    slots   what this step's wordings need beyond the problem's slots
    """

    kind: StepKind
    left: int
    sign: str
    right: int
    result: int
    unit: str
    needs: tuple[int, ...] = ()
    slots: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A problem ready to be worded; `goal` reads after "we want to know"."""

    structure: str
    numbers: tuple[int, ...]
    question: str
    slots: dict
    steps: tuple[Step, ...]
    goal: Template
    facts: tuple[Template, ...]


def apply(left: int, sign: str, right: int) -> int:
    """The result of one step; division must be exact."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if left % right:
        raise ValueError(f"division must be exact, got {left} / {right}")
    return left // right


def make_step(
    kind: StepKind,
    left: int,
    sign: str,
    right: int,
    unit: str,
    needs: tuple[int, ...] = (),
    **slots: object,
) -> Step:
    """A step with its result worked out."""
    return Step(kind, left, sign, right, apply(left, sign, right), unit, needs, slots)


def person_slots(rng: random.Random) -> dict:
    """Slots of one person: who, she, her, him, and `sub` (name or pronoun)."""
    name, pronoun = rng.choice(NAMES)
    subject, possessive, object_form = PRONOUNS[pronoun]
    return {
        "who": name,
        "she": subject,
        "her": possessive,
        "him": object_form,
        "sub": (name, subject),
        "relative": rng.choice(RELATIVES),
        "place": rng.choice(PLACES),
    }


def thing_slots(rng: random.Random, objects: tuple = OBJECTS) -> dict:
    """Slots `thing` and `things` of one countable object."""
    one, many = rng.choice(objects)
    return {"thing": one, "things": many}


def template(text: str) -> Template:
    """A choice, one template a line (short name: families have many)."""
    lines = choices(text)
    return lines if len(lines) > 1 else compile_template(text.strip())
