"""Conditions on integers and what may be done to them."""

from __future__ import annotations

from training.generators.code_families.pipeline import Condition, Mapping


def _compare(k: int) -> tuple[Condition, ...]:
    """The four comparisons with k, plain and turned around."""
    return (
        Condition(
            f">{k}", "", f" greater than {k}", "large",
            (f"@ > {k}", f"{k} < @"), (f"@ <= {k}", f"{k} >= @"), lambda v: v > k,
        ),
        Condition(
            f"<{k}", "", f" less than {k}", "small",
            (f"@ < {k}", f"{k} > @"), (f"@ >= {k}", f"{k} <= @"), lambda v: v < k,
        ),
        Condition(
            f">={k}", "", f" that are at least {k}", "at_least",
            (f"@ >= {k}", f"{k} <= @"), (f"@ < {k}", f"{k} > @"), lambda v: v >= k,
        ),
        Condition(
            f"<={k}", "", f" that are at most {k}", "at_most",
            (f"@ <= {k}", f"{k} >= @"), (f"@ > {k}", f"{k} < @"), lambda v: v <= k,
        ),
    )  # fmt: skip


def _equal(k: int) -> tuple[Condition, ...]:
    return (
        Condition(
            f"=={k}", "", f" equal to {k}", "equal", (f"@ == {k}",), (f"@ != {k}",),
            lambda v: v == k,
        ),
        Condition(
            f"!={k}", "", f" different from {k}", "other", (f"@ != {k}",), (f"@ == {k}",),
            lambda v: v != k,
        ),
    )  # fmt: skip


def _divisible(k: int) -> tuple[Condition, ...]:
    yes = (f"@ % {k} == 0", f"not @ % {k}")
    no = (f"@ % {k} != 0", f"@ % {k}")
    return (
        Condition(f"%{k}", "", f" divisible by {k}", "multiples", yes, no, lambda v: v % k == 0),
        Condition(f"!%{k}", "", f" not divisible by {k}", "others", no, yes, lambda v: v % k != 0),
    )


def _between(low: int, high: int) -> Condition:
    return Condition(
        f"{low}..{high}", "", f" from {low} to {high}", "between",
        (f"{low} <= @ <= {high}", f"@ >= {low} and @ <= {high}"), (f"@ < {low} or @ > {high}",),
        lambda v: low <= v <= high,
    )  # fmt: skip


_EVEN = ("@ % 2 == 0", "not @ % 2")
_ODD = ("@ % 2 == 1", "@ % 2")
EVEN = Condition("even", "even ", "", "even", _EVEN, _ODD, lambda v: v % 2 == 0)
ODD = Condition("odd", "odd ", "", "odd", _ODD, _EVEN, lambda v: v % 2 == 1)
POSITIVE = Condition(
    "positive", "positive ", "", "positive",
    ("@ > 0", "0 < @"), ("@ <= 0", "0 >= @"),
    lambda v: v > 0,
)  # fmt: skip
NEGATIVE = Condition(
    "negative", "negative ", "", "negative",
    ("@ < 0", "0 > @"), ("@ >= 0", "0 <= @"),
    lambda v: v < 0,
)  # fmt: skip


def _both(parity: Condition, second: Condition) -> Condition:
    """Two conditions in either order."""
    one, two = parity.tests[0], second.tests[0]
    tests = (f"{one} and {two}", f"{two} and {one}")
    inverses = (f"{parity.inverses[0]} or {second.inverses[0]}",)
    return Condition(
        f"{parity.key}&{second.key}", parity.before, second.after,
        parity.word + "_" + second.word, tests, inverses,
        lambda v: parity.holds(v) and second.holds(v),
    )  # fmt: skip


COMPARISONS = tuple(c for k in range(1, 21) for c in _compare(k))
LIST_CONDITIONS = (
    (EVEN, ODD),
    (POSITIVE, NEGATIVE),
    COMPARISONS,
    COMPARISONS,
    tuple(c for k in range(-3, 13) for c in _equal(k)),
    tuple(c for k in range(3, 12) for c in _divisible(k)),
    tuple(_between(a, a + d) for a in range(-2, 11) for d in range(3, 13)),
    tuple(_both(p, c) for p in (EVEN, ODD) for k in range(1, 13) for c in _compare(k)),
)
RANGE_CONDITIONS = (LIST_CONDITIONS[0], LIST_CONDITIONS[5], COMPARISONS)
DIGIT_CONDITIONS = (
    (EVEN, ODD),
    tuple(c for k in range(2, 9) for c in _compare(k)),
    tuple(c for k in range(10) for c in _equal(k)),
    tuple(_between(a, a + d) for a in range(1, 5) for d in range(2, 5)),
)


def _constant_mappings(k: int) -> tuple[Mapping, ...]:
    return (
        Mapping(f"*{k}", f"{k} times each of {{}}", "times", (f"@ * {k}", f"{k} * @"),
                lambda v: v * k),
        Mapping(f"+{k}", f"{{}} with {k} added to each", "plus", (f"@ + {k}",),
                lambda v: v + k),
        Mapping(f"-{k}", f"{{}} with {k} taken from each", "minus", (f"@ - {k}",),
                lambda v: v - k),
        Mapping(f"{k}-", f"{k} minus each of {{}}", "left", (f"{k} - @",),
                lambda v: k - v),
        Mapping(f"%{k}", f"the remainders of {{}} divided by {k}", "mod", (f"@ % {k}",),
                lambda v: v % k),
    )  # fmt: skip


MAPPINGS = (
    (
        Mapping("square", "the squares of {}", "squares", ("@ * @", "@ ** 2"),
                lambda v: v * v),
        Mapping("double", "the doubles of {}", "doubles", ("@ * 2", "2 * @"),
                lambda v: v * 2),
        Mapping("cube", "the cubes of {}", "cubes", ("@ ** 3", "@ * @ * @"),
                lambda v: v**3),
        Mapping("absolute", "the absolute values of {}", "absolute", ("abs(@)",), abs),
        Mapping("negate", "the negatives of {}", "negatives", ("-@",),
                lambda v: -v),
    ),
    tuple(m for k in range(2, 10) for m in _constant_mappings(k)),
)  # fmt: skip
