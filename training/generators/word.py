"""Word problems with worked steps, in many wordings (domain "word").

A family (see `word_families/`) draws the numbers and words the question; this file words the
answer: the steps in an order their dependencies allow, each in one of a few whole forms of
different lengths, with optional introduction and closing. Few choices, each between equally good
wordings of which one is usual for the family and the place: after a form is chosen its sentence
follows. Source: our choice, see docs/decisions.md.
"""

from __future__ import annotations

import random

from training.generators.habit import usual
from training.generators.item import Item
from training.generators.word_families import amounts, change, money, motion, parts, people
from training.generators.word_problem import Problem, Step
from training.generators.wording import Template, Variant, choices, expand

# characters; measured with the reference tokenizer: at most 118 and 120 tokens
ANSWER_LIMIT = 288
QUESTION_LIMIT = 300

FAMILIES = {
    **change.FAMILIES,
    **people.FAMILIES,
    **money.FAMILIES,
    **motion.FAMILIES,
    **parts.FAMILIES,
    **amounts.FAMILIES,
}
_FAMILY_LIST = tuple(FAMILIES.items())

# Few choices of whole wordings: of the inner choices `(a|b)` below, one variant is seen. Raise
# VARIANTS for richer texts; each sentence then draws its variant.
VARIANTS = 1

# before any form; empty ones keep texts short
_OPEN_FIRST = ("", "first, ", "to start, ", "step one: ", "well, ")
_OPEN_FREE = ("", "next, ", "also, ", "in the same way, ", "now ")
_OPEN_USES = ("", "then ", "next, ", "with this, ", "after that, ")
_OPEN_LAST = ("", "so ", "finally, ", "in the end, ", "last step: ")

# One line is one form; they differ in their first words and in length.
_FORMS = choices(
    """
    {open}{clause}.
    {open}(because|given that|since|as) {reason}, {clause}.
    {open}{noun} is {eq}.
    {open}to (work out|get|calculate|find) {noun}, (we|you can|we must|we simply) {order}: {eq}.
    {open}{eq}, (hence|and so|which means that|so) {told}.
    {open}{operation} (gives|leads to|yields|gives us) {eq}.
    {open}we (find|have|get) {eq}.
    {open}let's {order}: {eq}.
    {open}we know that {reason}. (this means that|in other words,|this shows that) {clause}.
    """
)

_OPERATIONS = {
    "+": choices(
        """
        adding {b} to {a}
        adding {a} and {b}
        (adding|summing) (the two numbers|both numbers|the numbers|both)
        putting (both|the two|the numbers) together
        """
    ),
    "-": choices(
        """
        subtracting {b} from {a}
        taking {b} (away |)from {a}
        (subtracting|taking away|removing|leaving out) {b}
        (subtracting|going down by {b}|lowering {a} by {b})
        """
    ),
    "*": choices(
        """
        multiplying {a} by {b}
        multiplying (the two numbers|both numbers|the numbers|both)
        taking {a} times {b}
        """
    ),
    "/": choices(
        """
        dividing {a} by {b}
        (splitting|sharing out) {a} into {b} equal parts
        (dividing|dividing the two numbers|division by {b})
        """
    ),
}
_ORDERS = {
    "+": choices(
        "(add {b} to {a}|add {a} and {b}|add (both numbers|the two numbers|the numbers)"
        "|take the sum)"
    ),
    "-": choices(
        "(subtract {b} from {a}|take {b} (away |)from {a}|subtract|take the difference"
        "|take away {b})"
    ),
    "*": choices("(multiply {a} by {b}|multiply {a} and {b}|multiply|take {a} times {b})"),
    "/": choices("(divide {a} by {b}|divide|split {a} into {b} equal parts|take {a} over {b})"),
}

_INTRODUCTIONS = choices(
    """
    let's (work this out|solve this|do this) step by step.
    we (want|need|have) to find {goal}.
    from the question, {fact}.
    here (are the steps|is the solution).
    """
)
_CLOSINGS = choices(
    """
    so {the} (final |)answer is {result}.
    (all in all|in short|to sum up), {told}.
    (this|that) answers the question: {result}.
    """
)


def _variants(forms: tuple[Template, ...], name: str) -> tuple[tuple, ...]:
    """(form, its variants) for each form."""
    return tuple(
        (form, tuple(Variant(f"{name} {place} {number}") for number in range(VARIANTS)))
        for place, form in enumerate(forms)
    )


_STEP_VARIANTS = _variants(_FORMS, "step")
_INTRODUCTION_VARIANTS = _variants(_INTRODUCTIONS, "introduction")
_CLOSING_VARIANTS = _variants(_CLOSINGS, "closing")


def _sentence(variants: tuple[tuple, ...], rng: random.Random, slots: dict, subject: str) -> str:
    """One of the forms in one of its variants."""
    form, numbers = usual(rng, variants, f"form/{subject}")
    number = int(rng.random() * VARIANTS) if VARIANTS > 1 else 0
    return expand(form, numbers[number], slots)


def _value_slots(step: Step, has_units: bool) -> dict:
    """The slots eq, result, a and b: the equation and its result, with or without the unit."""
    left = f"{step.left} {step.sign} {step.right} ="
    equation, result = f"{left} {step.result}", str(step.result)
    if step.unit == "$":
        result = f"${result}"
        if has_units:
            equation = f"{left} {result}"
    elif step.unit:
        # without one, the clauses bring their own, such as "years old"
        result = f"{result} {step.unit}"
        if has_units:
            equation = f"{left} {result}"
    return {"eq": equation, "result": result, "a": str(step.left), "b": str(step.right)}


def _ordered(steps: tuple[Step, ...], rng: random.Random) -> list[int]:
    """A random order in which every step comes after those it needs; the last stays last."""
    if len(steps) == 3 and not steps[1].needs and rng.random() < 0.5:
        return [1, 0, 2]
    return list(range(len(steps)))


def _worded_steps(problem: Problem, rng: random.Random, has_units: bool, family: str) -> list[str]:
    sentences = []
    count = len(problem.steps)
    for place, position in enumerate(_ordered(problem.steps, rng)):
        step = problem.steps[position]
        slots = {**problem.slots, **step.slots, **_value_slots(step, has_units)}
        slots.update(
            clause=step.kind.clause,
            told=step.kind.told,
            noun=step.kind.noun,
            reason=step.kind.reason,
            operation=_OPERATIONS[step.sign],
            order=_ORDERS[step.sign],
        )
        if place == 0:
            opener = _OPEN_FIRST
        elif not step.needs:
            opener = _OPEN_FREE
        else:
            opener = _OPEN_LAST if place == count - 1 else _OPEN_USES
        # one of its own draws: the opener is no part of a form's variant
        subject = f"{family}/{place}"
        slots["open"] = usual(rng, opener, f"open/{subject}")
        sentences.append(_sentence(_STEP_VARIANTS, rng, slots, subject))
    return sentences


def _worded_answer(problem: Problem, rng: random.Random, family: str) -> str:
    def habit(name: str) -> bool:
        return usual(rng, (True, False), f"{name}/{family}")

    has_units = habit("unit")
    sentences = _worded_steps(problem, rng, has_units, family)
    last = problem.steps[-1]
    slots = {**problem.slots, **last.slots, **_value_slots(last, has_units)}
    slots.update(goal=problem.goal, told=last.kind.told, fact=problem.facts, the=("the", "our"))
    if habit("introduction"):
        sentences.insert(0, _sentence(_INTRODUCTION_VARIANTS, rng, slots, f"first/{family}"))
    if habit("closing"):
        sentences.append(_sentence(_CLOSING_VARIANTS, rng, slots, f"last/{family}"))
    joint = "\n" if habit("line") else " "
    return f"{joint.join(sentences)}\n#### {last.result}"


def make_item(rng: random.Random) -> Item:
    """One word problem with a worked answer that ends in a line `#### N`.

    Draws again until the texts are within the length limits, which is seldom needed.
    """
    family, build = _FAMILY_LIST[int(rng.random() * len(_FAMILY_LIST))]
    problem = build(rng)
    while len(problem.question) > QUESTION_LIMIT:
        problem = build(rng)
    answer = _worded_answer(problem, rng, family)
    while len(answer) > ANSWER_LIMIT:
        answer = _worded_answer(problem, rng, family)
    numbers = ",".join(map(str, problem.numbers))
    return Item(
        domain="word",
        family=family,
        specification=f"word/{family}/{problem.structure}/{numbers}",
        prompt=problem.question,
        answer=answer,
        gold=str(problem.steps[-1].result),
    )
