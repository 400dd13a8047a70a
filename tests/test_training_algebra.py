"""Generated algebra: golds are worked out again from the specification's numbers."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction

import pytest

from training.generators.algebra import FAMILIES, make_item
from training.generators.algebra_families.writing import Writer
from training.generators.item import Item, is_held_out
from training.variety import choices


@pytest.fixture(scope="module")
def items() -> list[Item]:
    rng = random.Random(12)
    return [make_item(rng) for _ in range(20_000)]


def _polynomial(gold: str, at: int) -> int:
    """The value of an expression in one letter, for `x^2 - 3x + 2` or `(x + 1)(x - 2)`."""
    text = re.sub(r"(?<=[\d)])(?=[a-z(])", "*", gold.replace("^", "**"))
    return eval(re.sub("[a-z]", f"({at})", text))


def _same(gold: str, value: Callable[[int], int]) -> bool:
    return all(_polynomial(gold, at) == value(at) for at in (-3, 0, 1, 2, 7))


def _roots(b: int, c: int) -> list[int]:
    return [x for x in range(-100, 101) if x * x + b * x + c == 0]


def _roots_right(n: list[str], gold: str) -> bool:
    b, c = int(n[0]), int(n[1])
    small, large = _roots(b, c)
    if n[2] == "factor":
        return _same(gold, lambda x: x * x + b * x + c) and gold.count("(") == 2
    return int(gold) == {"larger": large, "smaller": small, "distance": large - small}[n[2]]


def _root_sum_right(n: list[str], gold: str) -> bool:
    a, b, c = map(int, n[:3])
    return int(gold) == (Fraction(-b, a) if n[3] == "sum" else Fraction(c, a))


def _system_right(n: list[int], gold: int) -> bool:
    a, s, d, asks_first = n
    x, y = (gold, s - gold) if asks_first else (s - gold, gold)
    return x + y == s and a * x - y == d


def _powers_right(n: list[str], gold: str) -> bool:
    if n[0] in ("times", "over", "power"):
        m, k = int(n[1]), int(n[2])
        exponent = {"times": m + k, "over": m - k, "power": m * k}[n[0]]
        return re.fullmatch(r"[a-z]\^\{" + str(exponent) + r"\}", gold) is not None
    a, m, b, k = map(int, n[1:])
    return int(gold) == (a**m + b**k if n[0] == "+" else a**m - b**k)


def _operations_right(n: list[str], gold: str) -> bool:
    a, b, c, d = map(int, n[1:])
    return int(gold) == {"plain": a + b * c - d, "bracket": (a + b) * c - d,
                         "minus": b * c - d * a}[n[0]]  # fmt: skip


def _composed_right(n: list[str], gold: str) -> bool:
    a, b, c, x = int(n[0]), int(n[1]), int(n[3]), int(n[4])
    return int(gold) == a * (x + c if n[2] == "shift" else x * c) + b


def _simplified(n: list[int], gold: str) -> bool:
    top, bottom = map(int, re.findall(r"\d+", gold))
    return Fraction(*n) == Fraction(top, bottom) and math.gcd(top, bottom) == 1


def _percent_right(n: list[str], gold: str) -> bool:
    rate, whole = int(n[0]), int(n[1])
    part = Fraction(rate * whole, 100)
    return int(gold) == {"of": part, "more": whole + part, "less": whole - part}[n[2]]


def _numbers(check: Callable[[list[int], int], bool]) -> Callable[[list[str], str], bool]:
    return lambda parts, gold: check([int(part) for part in parts], int(gold))


RIGHT: dict[str, Callable[[list[str], str], bool]] = {
    "linear": _numbers(lambda n, x: n[0] * x + n[1] == n[2]),
    "both_sides": _numbers(lambda n, x: n[0] * x + n[1] == n[2] * x + n[3]),
    "parentheses": _numbers(lambda n, x: n[0] * (x + n[1]) == n[2]),
    "fraction_equation": _numbers(lambda n, x: Fraction(x, n[0]) + n[1] == n[2]),
    "proportion": _numbers(lambda n, x: Fraction(n[0], n[1]) == Fraction(x, n[2])),
    "system": _numbers(_system_right),
    "related": _numbers(lambda n, x: Fraction(n[1], n[0]) * n[2] + n[3] == x),
    "evaluate": _numbers(lambda n, x: n[0] * n[3] ** 2 + n[1] * n[3] + n[2] == x),
    "expand": lambda n, gold: _same(gold, lambda x: (x + int(n[0])) * (x + int(n[1]))),
    "roots": _roots_right,
    "root_sum": _root_sum_right,
    "like_terms": lambda n, gold: _same(
        gold, lambda x: int(n[0]) * x + int(n[1]) + int(n[2]) * x + int(n[3])
    ),
    "composed": _composed_right,
    "arithmetic_sequence": _numbers(lambda n, x: n[0] + (n[2] - 1) * n[1] == x),
    "geometric_sequence": _numbers(lambda n, x: n[0] * n[1] ** (n[2] - 1) == x),
    "fraction_of": _numbers(lambda n, x: Fraction(n[0], n[1]) * n[2] == x),
    "percent": _percent_right,
    "simplify": lambda n, gold: _simplified([int(part) for part in n], gold),
    "common_divisor": lambda n, gold: (
        int(gold) == (math.gcd if n[0] == "gcd" else math.lcm)(int(n[1]), int(n[2]))
    ),
    "mean": _numbers(lambda n, x: Fraction(sum(n), len(n)) == x),
    "powers": _powers_right,
    "operations": _operations_right,
    "slope": _numbers(lambda n, x: Fraction(n[3] - n[1], n[2] - n[0]) == x),
}


def _value(side: str) -> Fraction:
    """The exact value of an arithmetic expression in LaTeX."""
    text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", side)
    for sign, python in (("\\cdot", "*"), ("\\times", "*"), ("\\div", "/"), ("^", "**")):
        text = text.replace(sign, python)
    assert re.fullmatch(r"[\d\s+\-*/()]+", text), side
    exact = re.sub(r"(?<!\*\*)(?<!\d)\d+", lambda m: f"Fraction({m[0]})", text)
    return eval(exact, {"Fraction": Fraction})


def test_gold_follows_from_the_numbers_of_the_specification(items: list[Item]) -> None:
    assert set(RIGHT) == set(FAMILIES)
    for item in items:
        _, family, *numbers = item.specification.split("/")
        assert RIGHT[family](numbers, item.gold), item


def test_every_chain_of_numbers_holds(items: list[Item]) -> None:
    chains = 0
    for item in items[:6_000]:
        for formula in re.findall(r"\$([^$]*)\$", item.answer):
            sides = [
                side
                for side in formula.split("=")
                if re.fullmatch(r"(?:\\frac|\\cdot|\\times|\\div|[\d\s+\-/(){}^])+", side)
            ]
            if len(sides) > 1:
                chains += 1
                assert len({_value(side) for side in sides}) == 1, item
    assert chains > 8_000


def test_the_box_on_the_last_line_holds_the_gold(items: list[Item]) -> None:
    for item in items:
        assert item.answer.split("\n")[-1] == f"$\\boxed{{{item.gold}}}$"
        assert item.answer.count("boxed") == 1
        assert (item.prompt + item.answer).isascii()
        assert item.answer.count("$") % 2 == 0 and item.prompt.count("$") % 2 == 0


def test_no_formula_has_two_signs_or_an_unfilled_slot(items: list[Item]) -> None:
    for item in items:
        text = item.prompt + item.answer
        assert "+ -" not in text and "- -" not in text and "{}" not in text
        assert not re.search(r"(?<![\d.])1[a-z](?![a-z])|\+ 0[a-z]", text), item


def test_the_same_seed_gives_the_same_item() -> None:
    first, second = random.Random(5), random.Random(5)
    for _ in range(50):
        assert make_item(first) == make_item(second)


def test_one_specification_has_many_different_answers(items: list[Item]) -> None:
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        answers[item.specification].append(item.answer)
    common = [texts for texts in answers.values() if len(texts) >= 10]
    assert len(common) >= 20
    for texts in common:
        # few choices of whole wordings, one of them usual: answers may well agree
        assert len(set(texts)) >= 0.5 * len(texts)
        assert len({len(text) for text in texts}) >= 5


def test_an_answer_holds_few_choices() -> None:
    events = [sum(is_event for is_event, _ in choices(make_item, seed)) for seed in range(12)]
    # about one a step: more of them and a model commits one token at a time
    assert 5 <= sum(events) / len(events) <= 10


def test_a_long_product_is_written_in_parts() -> None:
    write = Writer(random.Random(0), "evaluate")
    shown = write.product(127, 6), write.product(13, -4), write.product(12, 12), write.product(9, 8)
    assert [text.partition(" = ")[2] for text in shown] == [
        "600 + 120 + 42 = 762", "-40 - 12 = -52", "144", "72"
    ]  # fmt: skip


def test_every_family_appears_and_some_specifications_are_held_out(items: list[Item]) -> None:
    families = Counter(item.family for item in items)
    assert set(families) == set(FAMILIES)
    assert min(families.values()) > 400
    specifications = {item.specification for item in items}
    assert 0.01 < sum(map(is_held_out, specifications)) / len(specifications) < 0.03
