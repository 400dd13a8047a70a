"""Wording of questions and steps; each choice is independent of the numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

LETTERS = "xyzabnmktpqrsuvwcdgh"
# lower-case imperatives follow: "subtract 3 from both sides"
OPENERS = (
    "", "", "", "we ", "now ", "next, ", "we can ", "let us ", "first we ", "here we ", "then ",
    "it helps to ", "so we ", "we should ", "now we ", "just ", "we now ", "one can ",
)  # fmt: skip
JOINERS = (
    ": ${}$.", ", so ${}$.", " to get ${}$.", ", which gives ${}$.", " and get ${}$.",
    ". This gives ${}$.", "; then ${}$.", ". So ${}$.", ", and so ${}$.", ". We get ${}$.",
    ", giving ${}$.", ". That makes ${}$.", " and find ${}$.", ". Then ${}$.",
)  # fmt: skip
CONNECTORS = (
    "So ${}$.", "Then ${}$.", "Thus ${}$.", "Hence ${}$.", "Now ${}$.", "We get ${}$.",
    "This gives ${}$.", "Therefore ${}$.", "It follows that ${}$.", "We find ${}$.",
    "We have ${}$.", "This means ${}$.", "Next, ${}$.", "${}$.", "${}$.", "We see that ${}$.",
    "And so ${}$.", "From this, ${}$.", "Now we know that ${}$.", "That is, ${}$.",
)  # fmt: skip
INTRODUCTIONS = (
    "Let us solve it step by step.", "We work it out.", "Here is one way.", "This is not hard.",
    "We go step by step.", "Let us see.", "Let us start.", "We do it in small steps.",
    "There is a short way.", "Good question.", "We can do this directly.", "Sure.",
    "First we read the question carefully.", "Let us compute.", "We write it down.",
)  # fmt: skip
CONCLUSIONS = (
    "The answer is ${}$.", "So the answer is ${}$.", "That is the answer: ${}$.",
    "Our result is ${}$.", "This makes ${}$ the answer.", "We are done: ${}$.",
    "In the end we get ${}$.", "Answer: ${}$.", "So it is ${}$.", "Hence the result is ${}$.",
)  # fmt: skip
CHECKS = (
    "Check: ${}$.", "We check that ${}$.", "Indeed, ${}$.", "As a check, ${}$.",
    "This is right, since ${}$.", "To be sure: ${}$.", "It works: ${}$.", "Test it: ${}$.",
    "A quick check gives ${}$.", "This fits, because ${}$.", "We can verify that ${}$.",
)  # fmt: skip
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

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.letter = rng.choice(LETTERS)
        self.dot = rng.choice((" \\cdot ", " \\cdot ", " \\times "))
        self.division = rng.choice(("\\frac{{{}}}{{{}}}", "{} / {}", "{} \\div {}"))

    def pick(self, *options: str) -> str:
        """One of the options."""
        return options[int(self.rng.random() * len(options))]

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
        if not actions or self.rng.random() < 0.35:
            return self.pick(*CONNECTORS).format(equation)
        text = self.pick(*OPENERS) + self.pick(*actions) + self.pick(*JOINERS).format(equation)
        return text[0].upper() + text[1:]

    def note(self, *sentences: str) -> list[str]:
        """A remark that may be left out."""
        return [self.pick(*sentences)] if self.rng.random() < 0.4 else []

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
        if draw() < 0.25:
            lines.insert(0, self.pick(*INTRODUCTIONS))
        if problem.check and draw() < 0.3:
            lines.append(self.pick(*CHECKS).format(problem.check))
        if draw() < 0.25:
            lines.append(self.pick(*CONCLUSIONS).format(problem.gold))
        joiner = "\n" if draw() < 0.6 else " "
        return joiner.join(lines) + f"\n$\\boxed{{{problem.gold}}}$"
