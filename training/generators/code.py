"""Small Python functions: a docstring or a request, and a whole function as the answer.

Expected values come from a reference callable of the family, never from running the text.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from training.generators.code_families import simple_integers, simple_lists, simple_strings
from training.generators.code_families.lists import number_pipeline
from training.generators.code_families.simple import Simple, make_task
from training.generators.code_families.strings import text_pipeline
from training.generators.code_families.style import choose, write
from training.generators.code_families.task import KINDS, Task, pool
from training.generators.item import Item
from training.generators.length import rough_length


def _single(rows: tuple[Simple, ...], family: str) -> Callable[[random.Random], Task]:
    return lambda rng: make_task(rng, rng.choice(rows), family)


FAMILIES = (
    number_pipeline,
    text_pipeline,
    _single(simple_lists.ROWS, "single/lists"),
    _single(simple_strings.ROWS, "single/strings"),
    _single(simple_integers.ROWS, "single/integers"),
)
WEIGHTS = (40, 24, 13, 11, 12)

GENERAL_NAMES = pool(
    "solve process compute task helper answer calculate run work handle func f g fn my_function "
    "do_it evaluate apply transform convert check find get make main_task operation"
)
INTRODUCTIONS = ("Complete this Python function:",) * 5 + (
    "Complete the following Python function:",
    "Finish this Python function:",
    "Write this Python function in full:",
)
VERBS = ("Return", "Compute", "Find", "Give", "Get", "Work out", "Calculate", "Determine")
BOOLEAN_VERBS = ("Return", "Check", "Tell", "Decide", "Find out", "Test", "Determine", "Say")
RETURNING = ("returns", "computes", "finds", "gives", "gets", "works out", "gives back")
BOOLEAN_RETURNING = ("checks", "returns", "tells", "decides", "finds out", "tests", "says")
TO = ("return", "find", "compute", "get", "give", "calculate", "work out", "determine")
BOOLEAN_TO = ("check", "find out", "tell", "decide", "test", "determine", "return")
REQUESTS = (
    "Write a Python function `{call}` that {does} {phrase}.",
    "Write a Python function `{call}` to {to} {phrase}.",
    "Write a function `{call}` to {to} {phrase}.",
    "Write a python function `{call}` which {does} {phrase}.",
    "I need a Python function `{call}` that {does} {phrase}.",
    "Please write a Python function `{call}` that {does} {phrase}.",
    "In Python, define `{call}`, which {does} {phrase}.",
    "Implement a Python function `{call}` to {to} {phrase}.",
    "Create a function `{call}` that {does} {phrase}.",
)
NAME_REQUESTS = (
    "Write a Python function `{name}` that takes {noun} and {does} {phrase}.",
    "Write a function `{name}` which, given {noun}, {does} {phrase}.",
    "Given {noun}, {to} {phrase}. Call the Python function `{name}`.",
    "Define a Python function `{name}` of one argument, {noun}, that {does} {phrase}.",
    "The Python function `{name}` gets {noun} and {does} {phrase}. Write it.",
    "Write a Python function `{name}` to {to} {phrase}, where the argument is {noun}.",
)


def _hints(rng: random.Random, task: Task, arguments: list[str], has_hints: bool) -> str:
    """The text between the function's name and the colon."""
    if not has_hints:
        return f"({', '.join(arguments)})"
    parts = [
        f"{name}: {rng.choice(KINDS[kind].hints)}"
        for name, kind in zip(arguments, task.arguments, strict=True)
    ]
    arrow = f" -> {task.returns}" if task.returns and rng.random() < 0.8 else ""
    return f"({', '.join(parts)}){arrow}"


def _prompt(
    rng: random.Random, task: Task, name: str, arguments: list[str], hints: str
) -> tuple[str, bool]:
    """The user's turn, and whether it leaves the argument's name free."""
    is_boolean = task.phrase.startswith("whether")
    named = dict(zip("abc", arguments, strict=False))
    draw = rng.random()
    if draw < 0.45:
        verb = rng.choice(BOOLEAN_VERBS if is_boolean else VERBS)
        text = f"{verb} {task.phrase.format(**named)}."
        head = f'def {name}{hints}:\n    """{text}'
        if rng.random() < 0.3:
            example = task.examples[rng.randrange(3)]
            shown = ", ".join(map(repr, example))
            head += f"\n\n    >>> {name}({shown})\n    {task.reference(*example)!r}\n    "
        return f'{rng.choice(INTRODUCTIONS)}\n{head}"""', False
    if draw < 0.75 or len(arguments) > 1:
        return rng.choice(REQUESTS).format(
            call=f"{name}({', '.join(arguments)})",
            does=rng.choice(BOOLEAN_RETURNING if is_boolean else RETURNING),
            to=rng.choice(BOOLEAN_TO if is_boolean else TO),
            phrase=task.phrase.format(**named),
        ), False
    kind = KINDS[task.arguments[0]]
    template = rng.choice(NAME_REQUESTS)
    return template.format(
        name=name,
        noun=rng.choice(kind.nouns),
        does=rng.choice(BOOLEAN_RETURNING if is_boolean else RETURNING),
        to=rng.choice(BOOLEAN_TO if is_boolean else TO),
        # "it" needs the noun in front of it
        phrase=task.phrase.format(
            a=kind.short[0] if template.endswith("{noun}.") else rng.choice(kind.short)
        ),
    ), True


# how many names an argument has whose name the question leaves open
FREE_NAMES = 5
# by the rough count, so that the reference tokenizer stays under 118 and 120
LONGEST_ANSWER = 96
LONGEST_PROMPT = 100


def make_item(rng: random.Random) -> Item:
    """One function with its three asserts; every random choice comes from `rng`.

    Too long ones are drawn anew, and so are those that a constant would pass.
    """
    while True:
        task = rng.choices(FAMILIES, WEIGHTS)[0](rng)
        expected = [repr(task.reference(*example)) for example in task.examples]
        if len(set(expected)) == 1:
            continue
        item = _item(rng, task, expected)
        if (
            rough_length(item.answer) <= LONGEST_ANSWER
            and rough_length(item.prompt) <= LONGEST_PROMPT
        ):
            return item


def _item(rng: random.Random, task: Task, expected: list[str]) -> Item:
    taken: set[str] = set()
    name = choose(rng, task.names if rng.random() < 0.6 else GENERAL_NAMES, taken)
    arguments = [choose(rng, KINDS[kind].names, taken) for kind in task.arguments]
    hints = _hints(rng, task, arguments, rng.random() < 0.5)
    prompt, is_free = _prompt(rng, task, name, arguments, hints)
    if is_free:
        kind = task.arguments[0]
        arguments = [choose(rng, KINDS[kind].names[:FREE_NAMES], taken, f"argument/{kind}")]
    if "def " not in prompt:
        # the question leaves the hints open: then there are none, one choice less
        hints = _hints(rng, task, arguments, has_hints=False)
    answer = write(rng, task, name, arguments, hints)
    tests = tuple(
        f"assert {name}({', '.join(map(repr, example))}) == {value}"
        for example, value in zip(task.examples, expected, strict=True)
    )
    return Item(
        domain="code",
        family=task.family,
        specification=f"code/{task.specification}",
        prompt=prompt,
        answer=answer,
        tests=tests,
    )
