"""Bodies for "aggregate of the mapped elements that satisfy a condition", in many styles."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


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


def _initial(rng: random.Random, aggregate: str) -> list[str]:
    if aggregate in ("sum", "count"):
        return ["{r} = 0"]
    if aggregate == "product":
        return ["{r} = 1"]
    if aggregate == "list":
        return ["{r} = []"] if rng.random() < 0.8 else ["{r} = list()"]
    if aggregate == "join":
        return ["{r} = ''"]
    if aggregate in ("last", "largest", "smallest"):
        return ["{r} = None"]
    return []


def _update(rng: random.Random, aggregate: str, value: str) -> list[str]:
    if aggregate in ("sum", "join"):
        return ["{r} += " + value]
    if aggregate == "product":
        return ["{r} *= " + (f"({value})" if " " in value else value)]
    if aggregate == "count":
        return ["{r} += 1"]
    if aggregate == "list":
        return ["{r}.append(" + value + ")"] if rng.random() < 0.8 else ["{r} += [" + value + "]"]
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


FINISH = {"any": "return False", "all": "return True", "first": "return None"}


def loop_body(
    rng: random.Random,
    source: Source,
    condition: Condition | None,
    mapping: Mapping | None,
    aggregate: str,
) -> str:
    """A body with a for or while loop; templates as in `Task.body`."""
    before = _initial(rng, aggregate)
    prefix: list[str] = []
    suffix: list[str] = []
    element = "{x}"
    draw = rng.random()
    if source.kind == "digits":
        if draw < 0.5 and aggregate not in ("list", "first", "last"):
            header, prefix = "while {a} > 0:", ["{x} = {a} % 10", "{a} //= 10"]
            if aggregate not in ("any", "all") and rng.random() < 0.3:
                prefix, suffix = ["{x} = {a} % 10"], ["{a} //= 10"]
        elif draw < 0.8:
            header, prefix = "for {y} in str({a}):", ["{x} = int({y})"]
        else:
            header = "for {x} in map(int, str({a})):"
    elif source.kind == "range" and draw < 0.35:
        before = [*before, "{x} = 1"] if rng.random() < 0.5 else ["{x} = 1", *before]
        header, suffix = "while {x} <= {a}:", ["{x} += 1"]
    elif source.kind == "list" and draw < 0.15:
        header, prefix = "for {i} in range(len({a})):", ["{x} = {a}[{i}]"]
    elif source.kind == "list" and draw < 0.28:
        header, element = "for {i} in range(len({a})):", "{a}[{i}]"
    elif source.kind == "list" and draw < 0.36:
        before = [*before, "{i} = 0"] if rng.random() < 0.5 else ["{i} = 0", *before]
        header, prefix = "while {i} < len({a}):", ["{x} = {a}[{i}]"]
        suffix = ["{i} += 1"]
        if rng.random() < 0.5:
            prefix, suffix = [*prefix, "{i} += 1"], []
    elif source.kind == "words" and draw < 0.4:
        before = [*before, "{t} = {a}.split()"] if draw < 0.2 else ["{t} = {a}.split()", *before]
        header = "for {x} in {t}:"
    else:
        header = "for {x} in " + source.iterable + ":"
    value = rng.choice(mapping.forms).replace("@", element) if mapping else element
    inner: list[str] = []
    has_temporary = mapping is not None and source.kind != "words" and rng.random() < 0.25
    if has_temporary:
        inner, value = ["{t} = " + value], "{t}"
    if condition is None:
        inner += _update(rng, aggregate, value)
    else:
        wanted, other = condition.tests, condition.inverses
        if aggregate == "all":
            wanted, other = other, wanted
        test = rng.choice(wanted).replace("@", element)
        draw = rng.random()
        if draw < 0.15 and not suffix and aggregate not in ("any", "all"):
            skip = rng.choice(other).replace("@", element)
            inner = ["if " + skip + ":", "    continue", *inner]
            inner += _update(rng, aggregate, value)
        elif draw < 0.3 and aggregate in ("sum", "count") and not inner:
            amount = "1" if aggregate == "count" else value
            inner = ["{r} += " + f"{amount} if {test} else 0"]
        else:
            inner = ["if " + test + ":", *_indent(inner + _update(rng, aggregate, value))]
    finish = FINISH.get(aggregate, "return {r}")
    return "\n".join([*before, header, *_indent(prefix + inner + suffix), finish])


def _comprehension(
    rng: random.Random, source: Source, condition: Condition | None, mapping: Mapping | None
) -> tuple[str, str]:
    """The inside of a comprehension, and the same elements through filter and map."""
    element = source.element
    value = rng.choice(mapping.forms).replace("@", element) if mapping else element
    iterable = source.iterable
    text = value + " for {x} in " + iterable
    through = iterable if element == "{x}" else f"map(int, {iterable})"
    if condition is not None:
        text += " if " + rng.choice(condition.tests).replace("@", element)
        through = (
            "filter(lambda {x}: "
            + rng.choice(condition.tests).replace("@", "{x}")
            + f", {through})"
        )
    if mapping is not None:
        through = (
            "map(lambda {x}: " + rng.choice(mapping.forms).replace("@", "{x}") + f", {through})"
        )
    return text, through


def short_body(
    rng: random.Random,
    source: Source,
    condition: Condition | None,
    mapping: Mapping | None,
    aggregate: str,
) -> str:
    """A body with a comprehension, `filter`, `map` or a builtin."""
    text, through = _comprehension(rng, source, condition, mapping)
    test = other = ""
    if condition is not None:
        test = rng.choice(condition.tests).replace("@", source.element)
        other = rng.choice(condition.inverses).replace("@", source.element)
    over = " for {x} in " + source.iterable
    pick = rng.random()
    collected = f"[{text}]" if pick < 0.7 else f"list({through})"
    draw = rng.random()
    if aggregate == "list":
        return f"return {collected}"
    if aggregate == "sum":
        if draw < 0.3:
            return "{r} = " + collected + "\nreturn sum({r})"
        return f"return sum({through if pick > 0.75 else text if pick < 0.4 else collected})"
    if aggregate == "count":
        if draw < 0.25:
            return "{r} = " + collected + "\nreturn len({r})"
        if draw < 0.5:
            return f"return sum(1{over} if {test})"
        return f"return len({collected})"
    if aggregate == "product":
        return "{t} = " + collected + "\n{r} = 1\nfor {y} in {t}:\n    {r} *= {y}\nreturn {r}"
    if aggregate == "join":
        inside = through if pick > 0.7 else text if pick < 0.35 else f"[{text}]"
        if draw < 0.25:
            return "{r} = " + collected + "\nreturn ''.join({r})"
        return f"return ''.join({inside})"
    if aggregate == "any":
        if draw < 0.3:
            return f"return not all({other}{over})"
        return f"return any({test}{over})"
    if aggregate == "all":
        if draw < 0.3:
            return f"return not any({other}{over})"
        return f"return all({test}{over})"
    if aggregate in ("first", "last"):
        place = "[0]" if aggregate == "first" else "[-1]"
        if draw < 0.3 and aggregate == "first":
            return f"return next(({text}), None)"
        step = "{r} = " + collected
        return step + rng.choice(
            (
                "\nreturn {r}" + place + " if {r} else None",
                "\nif {r}:\n    return {r}" + place + "\nreturn None",
                "\nif not {r}:\n    return None\nreturn {r}" + place,
                "\nif len({r}) == 0:\n    return None\nreturn {r}" + place,
            )
        )
    name = "max" if aggregate == "largest" else "min"
    if draw < 0.35:
        return f"return {name}(({text}), default=None)"
    if draw < 0.5:
        return "{r} = " + collected + f"\nreturn {name}(" + "{r}, default=None)"
    return (
        "{r} = "
        + collected
        + rng.choice(
            (
                f"\nreturn {name}(" + "{r}) if {r} else None",
                "\nif not {r}:\n    return None" + f"\nreturn {name}(" + "{r})",
                f"\nif {{r}}:\n    return {name}({{r}})\nreturn None",
                f"\nif len({{r}}) > 0:\n    return {name}({{r}})\nreturn None",
            )
        )
    )


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
    """A loop or a short form, with about equal chance."""
    write = loop_body if rng.random() < 0.58 else short_body
    return write(rng, source, condition, mapping, aggregate)
