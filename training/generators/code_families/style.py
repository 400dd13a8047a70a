"""Turns a body into a finished function: names, comments, hints and other free choices.

The choices are independent and have no influence on the meaning, so one specification has
thousands of equally good answers; a name, once chosen, fixes its later uses.
"""

from __future__ import annotations

import random
import re

from training.generators.code_families.task import Task, pool

ACCUMULATORS = pool(
    "result total out acc res answer count ans ret output final r found current tmp"
)
TEMPORARIES = pool("temp t z part new w got step cur aux tmp2 made")
POSITIONS = pool("i j idx index pos p position place m spot")
SECONDS = pool("y other q u b2 ch2 next_one o y2 second")

EMPTY_CASE = (
    ("treat", "handle", "check", "start with", "catch", "think of", "special case:", "look at"),
    ("the empty case", "empty input", "no elements", "an empty start", "empty data"),
    ("", "", "here", "early", "on its own"),
)
START = (
    ("start with", "begin with", "set up", "prepare", "we need", "keep", "write down", "make"),
    (
        "the starting value",
        "the result so far",
        "a place for the answer",
        "what we need",
        "the first values",
        "a variable",
        "the answer",
        "a simple start",
    ),
    ("", "", "here", "for now", "for later", "at the top"),
)
LOOP = (
    (
        "go through",
        "walk over",
        "look at",
        "visit",
        "check",
        "step through",
        "handle",
        "go over",
        "loop over",
        "take",
        "consider",
        "use",
    ),
    ("every", "each"),
    ("element", "one", "part", "piece", "entry", "member", "candidate", "step"),
    ("", "", "", "in turn", "once", "in order", "from the start", "one by one"),
)
FINISH = (
    ("now", "then", "finally", "at last", "so", "we can", "done:", "all done, so", "", ""),
    ("return", "give back", "hand back", "send back", "report", "pass on"),
    ("it", "the result", "the answer", "what was found", "what we wanted", "the outcome"),
)
ONLY = (
    ("a", "one", "this is a", "just a", "only a", "use a", "try a", "here is a"),
    ("short", "simple", "small", "direct", "quick", "plain", "clear", "neat", "basic"),
    ("way", "answer", "solution", "version", "form", "step", "method", "line"),
)
DOCSTRINGS = (
    ("Compute", "Return", "Get", "Find", "Give", "Work out", "Make", "Produce"),
    ("the result", "the answer", "what is asked", "the wanted value", "the right value"),
    ("", "", "for the input", "step by step", "directly", "and return it", "quickly"),
)
RETURN = re.compile(r"^( *)return (.+)$")
AUGMENTED = re.compile(r"^( *)(\w+) (\+|-|\*|//)= (.+)$")


def _phrase(rng: random.Random, pools: tuple[tuple[str, ...], ...]) -> str:
    draw = rng.random
    return " ".join(part for parts in pools if (part := parts[int(draw() * len(parts))]))


def _rewrite(rng: random.Random, line: str) -> str:
    """`x += 1` as `x = x + 1` sometimes, where that is the same."""
    match = AUGMENTED.match(line)
    if match is None or rng.random() < 0.6:
        return line
    space, name, sign, value = match.groups()
    if " if " in value or (sign != "+" and " " in value and not value.startswith("(")):
        return line
    return f"{space}{name} = {name} {sign} {value}"


def _comments(rng: random.Random, lines: list[str]) -> list[str]:
    """One-line comments at no, one or two places, or behind a line."""
    done: list[str] = []
    last = len(lines) - 1
    for place, line in enumerate(lines):
        body = line.lstrip(" ")
        space = line[: len(line) - len(body)]
        draw = rng.random()
        pools = None
        if body.startswith(("for ", "while ")):
            pools = LOOP if draw < 0.35 else None
        elif place == 0:
            pools = ONLY if last == 0 else EMPTY_CASE if body.startswith("if") else START
            pools = pools if draw < 0.4 else None
        elif place == last:
            pools = FINISH if draw < 0.28 else None
        if pools is None:
            done.append(line)
            continue
        comment = _phrase(rng, pools)
        if rng.random() < 0.25:
            comment = comment[0].upper() + comment[1:] + ("." if rng.random() < 0.5 else "")
        if rng.random() < 0.22:
            done.append(f"{line}  # {comment}")
        else:
            done += [f"{space}# {comment}", line]
    return done


def choose(rng: random.Random, names: tuple[str, ...], taken: set[str]) -> str:
    """A name that isn't in use yet; adds it to `taken`."""
    while True:
        name = names[int(rng.random() * len(names))]
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
        names[slot] = choose(rng, slot_names, taken)
    lines = [_rewrite(rng, line) for line in task.body.format(**names).split("\n")]
    match = RETURN.match(lines[-1])
    if match and rng.random() < 0.3 and match[2] != names["r"] and len(match[2]) > 5:
        variable = names["r"] if names["r"] not in task.body else names["t"]
        if "{r}" in task.body:
            variable = choose(rng, ACCUMULATORS, taken)
        lines[-1:] = [f"{match[1]}{variable} = {match[2]}", f"{match[1]}return {variable}"]
    if task.empty is not None and rng.random() < 0.13:
        first = arguments[0]
        test = rng.choice((f"not {first}", f"len({first}) == 0", f"not {first}"))
        lines = [f"if {test}:", f"    return {task.empty}", *lines]
    lines = _comments(rng, lines)
    if rng.random() < 0.12:
        lines.insert(0, f'"""{_phrase(rng, DOCSTRINGS)}."""')
    if len(lines) > 3 and rng.random() < 0.12 and not lines[-2].lstrip().startswith("#"):
        lines.insert(len(lines) - 1, "")
    text = "\n".join("    " + line if line else "" for line in lines)
    if "'" in text and '"' not in text and rng.random() < 0.45:
        text = text.replace("'", '"')
    return f"def {name}{hints}:\n{text}"
