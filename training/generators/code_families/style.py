"""Turns a body into a finished function: names, a comment, hints and other free choices.

The choices have no influence on the meaning. There are few of them, each between a handful of
whole ways of different lengths, one of which is usual for the family; a name, once chosen, fixes
its later uses.
"""

from __future__ import annotations

import random
import re
from itertools import accumulate

from training.generators.code_families.task import Task, pool
from training.generators.habit import usual

ACCUMULATORS = pool("result res total out answer acc")
TEMPORARIES = pool("temp t part step")
POSITIONS = pool("i j idx index p")
SECONDS = pool("y other q second")

DOUBLE_QUOTE_SHARE = 0.3
# at most one of these in an answer
DOCSTRING_SHARE, BLANK_SHARE, VARIABLE_SHARE, EMPTY_SHARE = 0.05, 0.05, 0.05, 0.05

SPECIAL_CASE = (
    "check the special case first", "handle this early", "first test", "look at one case",
    "is this the simple case?", "an early exit", "test before the rest", "decide here",
)  # fmt: skip
START = (
    "set up the result", "start here", "prepare a variable for the answer", "first step",
    "we need a place for what we find", "keep the value so far", "begin", "initial value",
)  # fmt: skip
LOOP = (
    "go through all elements", "visit every element once", "check each one in turn", "loop",
    "take one element at a time", "look at all of them in order", "step by step", "for each part",
)  # fmt: skip
FINISH = (
    "return the result", "give back what we found", "done", "the answer", "finally return it",
    "now hand the result to the caller", "that is all", "send the outcome back",
)  # fmt: skip
ONLY = (
    "a short way", "one line is enough", "direct solution", "use a built-in form", "simple",
    "this does it all in one step", "the whole answer", "just return the value",
)  # fmt: skip
DOCSTRINGS = (
    "Return the result.", "Compute what is asked.", "Get the answer for the input.",
    "Find the right value and return it.",
)  # fmt: skip
RETURN = re.compile(r"^( *)return (.+)$")


def _commented(rng: random.Random, lines: list[str], family: str) -> list[str]:
    """A comment above the first line, the first loop or the last line, or none."""
    if not usual(rng, (True, False), f"comment/{family}"):
        return lines
    last = len(lines) - 1
    places = {0: SPECIAL_CASE if lines[0].startswith("if") else START}
    loop = next((n for n, line in enumerate(lines) if line.startswith(("for ", "while "))), None)
    if loop is not None:
        places[loop] = LOOP
    # a bare "return" after a branch would read oddly below a comment
    if not lines[last].startswith(" "):
        places[last] = FINISH if last else ONLY
    place = usual(rng, sorted(places), f"place/{family}")
    phrase = usual(rng, places[place], f"{places[place][0]}/{family}")
    return [*lines[:place], f"# {phrase}", *lines[place:]]


def choose(
    rng: random.Random, names: tuple[str, ...], taken: set[str], subject: str | None = None
) -> str:
    """A name that isn't in use yet; adds it to `taken`. With a subject, one of them is usual."""
    while True:
        if subject is None:
            name = names[int(rng.random() * len(names))]
        else:
            name = usual(rng, names, subject)
        if name not in taken:
            taken.add(name)
            return name


def write(rng: random.Random, task: Task, name: str, arguments: list[str], hints: str) -> str:
    """The whole function; `hints` is the head's text between the name and the colon."""
    taken = {name, *arguments}
    names = dict(zip("abc", arguments, strict=False))
    for slot, slot_names in (
        ("r", ACCUMULATORS), ("x", task.elements), ("i", POSITIONS),
        ("y", SECONDS), ("t", TEMPORARIES),
    ):  # fmt: skip
        names[slot] = choose(rng, slot_names, taken, f"{slot}/{task.family}")
    lines = task.body.format(**names).split("\n")
    extra = rng.random()
    match = RETURN.match(lines[-1])
    shares = (DOCSTRING_SHARE, BLANK_SHARE, VARIABLE_SHARE, EMPTY_SHARE)
    docstring, blank, variable, empty = accumulate(shares)
    if blank <= extra < variable and match and match[2] != names["r"] and len(match[2]) > 5:
        value = (
            names["r"]
            if "{r}" not in task.body
            else (choose(rng, ACCUMULATORS, taken, f"r/{task.family}"))
        )
        lines[-1:] = [f"{match[1]}{value} = {match[2]}", f"{match[1]}return {value}"]
    if variable <= extra < empty and task.empty is not None:
        lines = [f"if not {arguments[0]}:", f"    return {task.empty}", *lines]
    lines = _commented(rng, lines, task.family)
    if extra < docstring:
        lines.insert(0, f'"""{rng.choice(DOCSTRINGS)}"""')
    elif extra < blank and len(lines) > 3 and not lines[-2].lstrip().startswith("#"):
        lines.insert(len(lines) - 1, "")
    text = "\n".join("    " + line if line else "" for line in lines)
    if "'" in text and '"' not in text and rng.random() < DOUBLE_QUOTE_SHARE:
        text = text.replace("'", '"')
    return f"def {name}{hints}:\n{text}"
