"""Wording of questions and steps; each choice is independent of the numbers.

Questions are rich. Answers hold few choices, each between a handful of whole wordings of different
lengths of which one is usual for the family and the place, and write intermediate results out, so
that each equation is easy.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from training.generators.habit import usual

T = TypeVar("T")

LETTERS = "xyzabnmktpqrsuvwcdgh"
# Whole wordings of a step, few and of different lengths: a form says all but the equation. With
# one name it takes the step's action of that number (lower-case imperatives, such as "subtract 3
# from both sides").
STEPS = (
    ("So ${}$.", None), ("This gives ${}$.", None), ("${}$.", None),
    ("{}: ${}$.", 0), ("We {}, so ${}$.", 1), ("Next, {} to get ${}$.", 2),
    ("Let us {}. Then ${}$.", 3), ("Now we can {} and find ${}$.", 4),
)  # fmt: skip
BARE_STEPS = STEPS[:3]
INTRODUCTIONS = (
    "Let us solve it step by step.", "We work it out.", "Here is one way.",
    "First we read the question carefully.",
)  # fmt: skip
CONCLUSIONS = (
    "The answer is ${}$.", "In the end we get ${}$.", "We are done: ${}$.", "So it is ${}$.",
)  # fmt: skip
CHECKS = ("Check: ${}$.", "Indeed, ${}$.", "This is right, since ${}$.")
INTRODUCTION_SHARE, CHECK_SHARE, CONCLUSION_SHARE, NOTE_SHARE = 0.25, 0.15, 0.2, 0.25
# how many wordings of a remark are used, the first ones
REMARKS = 4
SOLVE = (
    "Solve for ${v}$: ${e}$.", "Solve ${e}$ for ${v}$.", "Find ${v}$ if ${e}$.",
    "If ${e}$, what is ${v}$?", "What is the value of ${v}$ if ${e}$?",
    "Find the value of ${v}$ such that ${e}$.", "Given ${e}$, find ${v}$.",
    "Suppose ${e}$. What is ${v}$?", "For which ${v}$ is ${e}$?", "Work out ${v}$ from ${e}$.",
    "Determine ${v}$ when ${e}$.", "Which number ${v}$ satisfies ${e}$?", "Solve ${e}$.",
    "The equation ${e}$ has one solution ${v}$. Find it.",
)  # fmt: skip
COMPUTE = (
    "Compute ${e}$.", "What is ${e}$?", "Evaluate ${e}$.", "Work out ${e}$.", "Calculate ${e}$.",
    "Find the value of ${e}$.", "What does ${e}$ equal?", "Determine ${e}$.", "Simplify ${e}$.",
    "Find ${e}$.", "How much is ${e}$?",
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """What a family returns.

    numbers  the split key: what is asked, without letters or wording
    lines    worked steps, one sentence or two each
    check    an optional equation that confirms the answer; "" for none
    """

    numbers: tuple[object, ...]
    question: str
    lines: list[str]
    gold: str
    check: str = ""


def term(number: int) -> str:
    """A signed summand: " + 3" or " - 3"."""
    return f" + {number}" if number >= 0 else f" - {-number}"


def coefficient(number: int, name: str) -> str:
    """A leading term: "3x", "x", "-x"."""
    return {1: name, -1: f"-{name}"}.get(number, f"{number}{name}")


def plus(number: int, name: str) -> str:
    """A signed term: " + 3x", " - x"; nothing for 0."""
    if number == 0:
        return ""
    return (" + " if number > 0 else " - ") + coefficient(abs(number), name)


def bracket(number: int) -> str:
    """A factor: negative numbers in parentheses."""
    return f"({number})" if number < 0 else str(number)


class Writer:
    """One answer's habits (letter, signs) and the wording of its steps."""

    def __init__(self, rng: random.Random, family: str) -> None:
        self.rng = rng
        self._family = family
        # sentences so far: each place of an answer has its usual wording
        self._place = 0
        self.letter = rng.choice(LETTERS)
        self.dot = rng.choice((" \\cdot ", " \\cdot ", " \\times "))
        self.division = rng.choice(("\\frac{{{}}}{{{}}}", "{} / {}"))

    def pick(self, *options: str) -> str:
        """One of the options."""
        return options[int(self.rng.random() * len(options))]

    def _usual(self, options: Sequence[T]) -> T:
        """One of the options for the next place of the answer."""
        self._place += 1
        return usual(self.rng, options, f"{self._family}/{self._place}")

    def letters(self, count: int) -> list[str]:
        """Different letters."""
        return self.rng.sample(LETTERS, count)

    def times(self, *factors: int) -> str:
        """A product with this answer's sign."""
        return self.dot.join(
            str(f) if place == 0 else bracket(f) for place, f in enumerate(factors)
        )

    def divide(self, top: int, bottom: int) -> str:
        """A quotient in this answer's way."""
        if "frac" not in self.division:
            return self.division.format(top, bracket(bottom))
        return self.division.format(top, bottom)

    def step(self, equation: str, *actions: str) -> str:
        """A sentence with one equation; `actions` are imperatives that lead to it."""
        steps = STEPS if actions else BARE_STEPS
        form, place = self._usual(steps)
        if place is None:
            return form.format(equation)
        text = form.format(actions[place % len(actions)], equation)
        return text[0].upper() + text[1:]

    def say(self, *sentences: str) -> str:
        """A remark in one of the first few wordings."""
        return self._usual(sentences[:REMARKS])

    def note(self, *sentences: str) -> list[str]:
        """A remark that may be left out."""
        return [self.say(*sentences)] if self.rng.random() < NOTE_SHARE else []

    def product(self, left: int, right: int) -> str:
        """`left * right = value`, in parts first where a long factor meets a single digit.

        >>> Writer(random.Random(0), "evaluate").product(34, 3)
        '34 \\\\cdot 3 = 90 + 12 = 102'
        """
        text = f"{left}{self.dot}{bracket(right)}"
        if left > 10 and left % 10 and 1 < abs(right) < 10:
            digits = str(left)
            parts = [int(digit) * 10**n * right for n, digit in enumerate(digits[::-1])]
            text += f" = {parts[-1]}" + "".join(term(part) for part in parts[-2::-1] if part)
        return f"{text} = {left * right}"

    def solve(self, equation: str) -> str:
        """A question for this answer's letter."""
        return self.pick(*SOLVE).replace("{v}", self.letter).replace("{e}", equation)

    def compute(self, expression: str) -> str:
        """A question for a value."""
        return self.pick(*COMPUTE).replace("{e}", expression)

    def answer(self, problem: Problem) -> str:
        """The whole assistant turn, with the box on the last line."""
        draw = self.rng.random
        lines = list(problem.lines)
        if draw() < INTRODUCTION_SHARE:
            lines.insert(0, self._usual(INTRODUCTIONS))
        if problem.check and draw() < CHECK_SHARE:
            lines.append(self._usual(CHECKS).format(problem.check))
        if draw() < CONCLUSION_SHARE:
            lines.append(self._usual(CONCLUSIONS).format(problem.gold))
        joiner = self._usual(("\n", " "))
        return joiner.join(lines) + f"\n$\\boxed{{{problem.gold}}}$"
