"""Lists of integers, the numbers 1 to n, and the digits of n, as pipelines."""

from __future__ import annotations

import random
from collections.abc import Callable

from training.generators.code_families.numbers import (
    DIGIT_CONDITIONS,
    LIST_CONDITIONS,
    MAPPINGS,
    RANGE_CONDITIONS,
)
from training.generators.code_families.pipeline import (
    EMPTY,
    RETURNS,
    Condition,
    Mapping,
    Source,
    evaluate,
    pipeline_body,
)
from training.generators.code_families.task import DIGIT_NAMES, NUMBER_NAMES, Task, integers

AGGREGATES = (
    "sum", "sum", "count", "count", "list", "list", "list", "product", "any", "all", "first",
    "last", "largest", "smallest",
)  # fmt: skip
PHRASES = {
    "sum": ("the sum of {}", "the total of {}"),
    "product": ("the product of {}",),
    "count": ("the number of {}", "how many {} there are"),
    "list": ("a list of {}", "the list of {}"),
    "first": ("the first of {} (None if there is none)", "the first of {}, or None"),
    "last": ("the last of {} (None if there is none)", "the last of {}, or None"),
    "largest": ("the largest of {} (None if there is none)", "the maximum of {}, or None"),
    "smallest": ("the smallest of {} (None if there is none)", "the minimum of {}, or None"),
}
VERBS = {
    "sum": ("sum", "total", "add", "sum_of"),
    "product": ("product", "multiply", "product_of"),
    "count": ("count", "number_of", "how_many", "num"),
    "list": ("list", "get", "select", "all", "collect", "pick"),
    "any": ("has", "any", "contains", "some"),
    "all": ("all", "only", "every", "are_all"),
    "first": ("first", "find_first", "get_first"),
    "last": ("last", "find_last", "get_last"),
    "largest": ("max", "largest", "biggest", "highest"),
    "smallest": ("min", "smallest", "lowest", "least"),
    "join": ("join", "keep", "only", "text_of", "make"),
}


ELEMENTS: dict[str, Callable[..., list[int]]] = {
    "list": list,
    "range": lambda n: list(range(1, n + 1)),
    "digits": lambda n: [int(digit) for digit in str(n)],
}


def put_match(
    rng: random.Random,
    elements: list[object],
    condition: Condition,
    draw: Callable[[], object],
) -> None:
    """Replaces one element by one that meets the condition, so that the example says something."""
    for _ in range(20):
        element = draw()
        if condition.holds(element):
            elements[rng.randrange(len(elements))] = element
            return


def function_names(
    rng: random.Random,
    aggregate: str,
    condition: Condition | None,
    mapping: Mapping | None,
    noun: str,
) -> tuple[str, ...]:
    """Descriptive names made of the parts of the task."""
    verb = rng.choice(VERBS[aggregate])
    part = condition.word if condition else noun
    other = mapping.word if mapping else noun
    return (f"{verb}_{part}", f"{verb}_{other}", f"{verb}_{part}_{other}", f"{part}_{other}")


def number_pipeline(rng: random.Random) -> Task:
    """Aggregate of (mapped) numbers that satisfy a condition, from a list, 1..n, or digits."""
    kind = rng.choices(("list", "range", "digits"), (6, 2, 2))[0]
    aggregate = rng.choice(AGGREGATES)
    condition: Condition | None = None
    mapping: Mapping | None = None
    if kind == "list":
        groups, source, noun = LIST_CONDITIONS, Source("list", "{a}"), "numbers"
    elif kind == "range":
        groups, source, noun = RANGE_CONDITIONS, Source("range", "range(1, {a} + 1)"), "numbers"
        if aggregate not in ("sum", "count", "list"):
            aggregate = rng.choice(("sum", "list", "count"))
    else:
        groups, source, noun = DIGIT_CONDITIONS, Source("digits", "str({a})", "int({x})"), "digits"
    can_map = aggregate not in ("count", "any", "all")
    draw = rng.random()
    if not can_map or draw < 0.75:
        condition = rng.choice(rng.choice(groups))
    if can_map and (condition is None or draw < 0.4):
        mapping = rng.choice(rng.choice(MAPPINGS))
    where = {"list": "in {a}", "range": "from 1 to {a}", "digits": "of {a}"}[kind]
    before, after = (condition.before, condition.after) if condition else ("", "")
    if kind == "range":
        what = f"the {before}numbers {where}{after}"
        if "from" in after:
            what = f"the {before}numbers {where} that lie{after}"
    else:
        what = f"the {before}{noun} {where}{after}"
        if after and rng.random() < 0.5 and kind == "list":
            what = f"the {before}{noun}{after} {where}"
    if aggregate in ("any", "all"):
        bare = after.removeprefix(" that are") or " " + before.strip()
        if "&" in condition.key:
            bare = f" {before.strip()} and{after.removeprefix(' that are')}"
        quantity = "any" if aggregate == "any" else rng.choice(("all", "every one of the"))
        if aggregate == "any":
            phrase = f"whether any of the {noun} {where} is{bare}"
        elif quantity == "all":
            phrase = f"whether all {noun} {where} are{bare}"
        else:
            phrase = f"whether every one of the {noun} {where} is{bare}"
    else:
        shown = mapping.phrase.format(what) if mapping else what
        template = rng.choice(PHRASES[aggregate])
        phrase = template.format(shown)
        if "how many" in template:
            phrase = f"how many {what.removeprefix('the ')} there are"
    if kind == "list":
        samples = [integers(rng) for _ in range(3)]
        if condition is not None:
            put_match(rng, samples[0], condition, lambda: rng.randint(-12, 25))
        if rng.random() < 0.4:
            samples[rng.randrange(1, 3)] = []
        examples = tuple((sample,) for sample in samples)
    elif kind == "range":
        counts = rng.sample(range(1, 26), 3)
        examples = tuple((count,) for count in counts)
    else:
        counts = [rng.randint(1, 10 ** rng.randint(1, 5)) for _ in range(3)]
        examples = tuple((count,) for count in counts)
    return Task(
        family=f"{kind}/{aggregate}",
        specification=f"{kind}/{aggregate}/{condition.key if condition else '-'}"
        f"/{mapping.key if mapping else '-'}",
        names=function_names(rng, aggregate, condition, mapping, noun),
        arguments=("numbers",) if kind == "list" else ("n",),
        phrase=phrase,
        returns=RETURNS.get(aggregate, "list[int]" if aggregate == "list" else ""),
        body=pipeline_body(rng, source, condition, mapping, aggregate),
        elements=DIGIT_NAMES if kind == "digits" else NUMBER_NAMES,
        reference=lambda value: evaluate(ELEMENTS[kind](value), condition, mapping, aggregate),
        examples=examples,
        empty=EMPTY[aggregate] if kind == "list" else None,
    )
