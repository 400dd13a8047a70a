"""Bodies for "aggregate of the mapped elements that satisfy a condition", in a few styles.

Our choice: a body is a handful of choices, each between equally good ways of which one is usual for
what is computed, and no form that only serves variety.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from training.generators.habit import usual


@dataclass(frozen=True)
class Condition:
    """Which elements are taken; `@` stands for the element in `tests` and `inverses`."""

    key: str
    before: str
    after: str
    word: str
    tests: tuple[str, ...]
    inverses: tuple[str, ...]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Mapping:
    """What is done to each element; `phrase` has {} for the plural noun phrase."""

    key: str
    phrase: str
    word: str
    forms: tuple[str, ...]
    apply: Callable[..., object]
    names: tuple[str, ...] = ("y",)


@dataclass(frozen=True)
class Source:
    """Where the elements come from; `kind` decides which loops are possible."""

    kind: str
    iterable: str
    element: str = "{x}"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


_INITIAL = {
    "sum": "0", "count": "0", "product": "1", "list": "[]", "join": "''", "last": "None",
    "largest": "None", "smallest": "None",
}  # fmt: skip


def _update(aggregate: str, value: str) -> list[str]:
    if aggregate in ("sum", "join"):
        return ["{r} += " + value]
    if aggregate == "product":
        return ["{r} *= " + (f"({value})" if " " in value else value)]
    if aggregate == "count":
        return ["{r} += 1"]
    if aggregate == "list":
        return ["{r}.append(" + value + ")"]
    if aggregate == "first":
        return ["return " + value]
    if aggregate == "last":
        return ["{r} = " + value]
    if aggregate == "any":
        return ["return True"]
    if aggregate == "all":
        return ["return False"]
    sign = ">" if aggregate == "largest" else "<"
    return ["if {r} is None or " + f"{value} {sign} " + "{r}:", "    {r} = " + value]


# how often a list is walked by position
INDEX_SHARE = 0.15
FINISH = {"any": "return False", "all": "return True", "first": "return None"}


def _value(rng: random.Random, mapping: Mapping | None, aggregate: str, element: str) -> str:
    if mapping is None:
        return element
    return usual(rng, mapping.forms, f"value/{aggregate}").replace("@", element)


def _test(rng: random.Random, tests: tuple[str, ...], aggregate: str, element: str) -> str:
    return usual(rng, tests, f"test/{aggregate}").replace("@", element)


def loop_body(
    rng: random.Random,
    source: Source,
    condition: Condition | None,
    mapping: Mapping | None,
    aggregate: str,
) -> str:
    """A body with a for loop, or a while loop over digits; templates as in `Task.body`."""
    before = ["{r} = " + _INITIAL[aggregate]] if aggregate in _INITIAL else []
    prefix: list[str] = []
    draw = rng.random()
    header = "for {x} in " + source.iterable + ":"
    if source.kind == "digits":
        is_while = usual(rng, (True, False), f"while/{aggregate}")
        if is_while and aggregate not in ("list", "first", "last"):
            header, prefix = "while {a} > 0:", ["{x} = {a} % 10", "{a} //= 10"]
        else:
            header, prefix = "for {y} in str({a}):", ["{x} = int({y})"]
    elif source.kind == "list" and draw < INDEX_SHARE:
        header, prefix = "for {i} in range(len({a})):", ["{x} = {a}[{i}]"]
    value = _value(rng, mapping, aggregate, "{x}")
    inner = _update(aggregate, value)
    if condition is not None:
        wanted = condition.inverses if aggregate == "all" else condition.tests
        test = _test(rng, wanted, aggregate, "{x}")
        inner = ["if " + test + ":", *_indent(inner)]
    finish = FINISH.get(aggregate, "return {r}")
    return "\n".join([*before, header, *_indent(prefix + inner), finish])


def short_body(
    rng: random.Random,
    source: Source,
    condition: Condition | None,
    mapping: Mapping | None,
    aggregate: str,
) -> str:
    """A body with a comprehension or a builtin."""
    element = source.element
    value = _value(rng, mapping, aggregate, element)
    over = " for {x} in " + source.iterable
    test = _test(rng, condition.tests, aggregate, element) if condition else ""
    text = value + over + (f" if {test}" if test else "")
    is_first = usual(rng, (True, False), f"first/{aggregate}")
    if aggregate == "list":
        return f"return [{text}]" if is_first else "{r} = [" + text + "]\nreturn {r}"
    if aggregate == "sum":
        return f"return sum({text})" if is_first else f"return sum([{text}])"
    if aggregate == "count":
        return f"return sum(1{over} if {test})" if is_first else f"return len([{text}])"
    if aggregate == "product":
        return "{r} = 1\nfor {y} in [" + text + "]:\n    {r} *= {y}\nreturn {r}"
    if aggregate == "join":
        return f"return ''.join({text})" if is_first else f"return ''.join([{text}])"
    if aggregate in ("any", "all"):
        return f"return {aggregate}({test}{over})"
    if aggregate in ("first", "last"):
        if is_first and aggregate == "first":
            return f"return next(({text}), None)"
        place = "[0]" if aggregate == "first" else "[-1]"
        return "{r} = [" + text + "]\nreturn {r}" + place + " if {r} else None"
    name = "max" if aggregate == "largest" else "min"
    if is_first:
        return f"return {name}(({text}), default=None)"
    return "{r} = [" + text + f"]\nreturn {name}(" + "{r}) if {r} else None"


def evaluate(
    elements: list[object], condition: Condition | None, mapping: Mapping | None, aggregate: str
) -> object:
    """The reference meaning of an aggregate."""
    if aggregate == "any":
        return any(condition.holds(element) for element in elements)
    if aggregate == "all":
        return all(condition.holds(element) for element in elements)
    taken = [e for e in elements if condition.holds(e)] if condition else elements
    results = [mapping.apply(e) for e in taken] if mapping else list(taken)
    if aggregate == "list":
        return results
    if aggregate == "sum":
        return sum(results)
    if aggregate == "count":
        return len(results)
    if aggregate == "product":
        product = 1
        for result in results:
            product *= result
        return product
    if aggregate == "join":
        return "".join(results)
    if not results:
        return None
    if aggregate == "first":
        return results[0]
    if aggregate == "last":
        return results[-1]
    return max(results) if aggregate == "largest" else min(results)


RETURNS = {
    "sum": "int", "count": "int", "product": "int", "any": "bool", "all": "bool", "join": "str"
}  # fmt: skip
EMPTY = {
    "sum": "0", "count": "0", "product": "1", "any": "False", "all": "True", "join": "''",
    "list": "[]", "first": "None", "last": "None", "largest": "None", "smallest": "None",
}  # fmt: skip


def pipeline_body(
    rng: random.Random,
    source: Source,
    condition: Condition | None,
    mapping: Mapping | None,
    aggregate: str,
) -> str:
    """A loop or a short form."""
    write = usual(rng, (loop_body, short_body), f"{source.kind}/{aggregate}")
    return write(rng, source, condition, mapping, aggregate)
