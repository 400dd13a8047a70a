"""Divisors and multiples, powers, the order of operations."""

from __future__ import annotations

import math

from training.generators.algebra_families.writing import Problem, Writer


def common_divisor(write: Writer) -> Problem:
    """gcd by Euclid's steps, or lcm from the gcd."""
    rng = write.rng
    g, p, q = rng.randint(2, 12), rng.randint(2, 9), rng.randint(2, 9)
    if p <= q or math.gcd(p, q) > 1:
        return common_divisor(write)
    a, b = g * p, g * q
    kind = "gcd" if g * p * q > 400 or rng.random() < 0.6 else "lcm"
    word = {"gcd": "greatest common divisor", "lcm": "least common multiple"}[kind]
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    sign = f"\\{kind}" if kind == "gcd" else "\\text{lcm}"
    question = write.pick(
        f"Find the {word} of ${first}$ and ${second}$.",
        f"What is the {word} of ${first}$ and ${second}$?",
        f"Compute ${sign}({first}, {second})$.",
        f"What is ${sign}({first}, {second})$?",
        f"Give the {word} of the numbers ${first}$ and ${second}$.",
        f"Determine the {word} of ${second}$ and ${first}$.",
        f"For ${first}$ and ${second}$, find the {word}.",
    )
    if kind == "gcd" and rng.random() < 0.75:
        lines, high, low = [], a, b
        while high % low:
            times, rest = divmod(high, low)
            lines.append(
                write.step(
                    f"{high} = {times}{write.dot}{low} + {rest}", f"divide {high} by {low}",
                    "divide with remainder", f"see how often {low} fits", "take the remainder",
                    f"split {high} by {low}",
                )
            )  # fmt: skip
            high, low = low, rest
        lines.append(
            write.step(
                f"{high} = {high // low}{write.dot}{low}", f"see that {low} divides {high}",
                "find no remainder now", "come to the end", f"divide {high} by {low}",
            )
        )  # fmt: skip
        return Problem((kind, a, b), question, lines, str(g))
    lines = [
        write.step(f"{a} = {g}{write.dot}{p}", f"split {a}", f"write {a} as a product",
                   f"take out {g}", f"factor {a}", f"find {g} in {a}"),
        write.step(f"{b} = {g}{write.dot}{q}", f"split {b}", f"write {b} as a product",
                   f"take out {g} again", f"factor {b}", f"find {g} in {b}"),
    ]  # fmt: skip
    lines += write.note(
        f"The numbers ${p}$ and ${q}$ have no common factor.",
        "Nothing else is common to both.",
        f"The common part is ${g}$.",
        f"No larger number than ${g}$ divides both.",
        f"Since ${p}$ and ${q}$ share nothing more, we can stop.",
        f"So ${g}$ is in both.",
    )
    if kind == "lcm":
        lines.append(
            write.step(
                write.product(a, q), f"multiply {a} by the other part {q}",
                f"take {a} times {q}", f"put in the missing {q}", "join the parts",
                "build the common multiple", f"multiply by {q}",
            )
        )  # fmt: skip
        return Problem((kind, a, b), question, lines, str(a * q))
    return Problem((kind, a, b), question, lines, str(g))


def powers(write: Writer) -> Problem:
    """Exponent rules with a letter, or the sum or difference of two small powers."""
    rng, v = write.rng, write.letter
    if rng.random() < 0.5:
        m, n = rng.randint(2, 12), rng.randint(2, 9)
        kind = rng.choice(("times", "over", "power"))
        if kind == "over" and m <= n + 1:
            m, n = n + 2 + m, n
        expression = {
            "times": f"{v}^{{{m}}}{write.dot}{v}^{{{n}}}",
            "over": f"\\frac{{{v}^{{{m}}}}}{{{v}^{{{n}}}}}",
            "power": f"({v}^{{{m}}})^{{{n}}}",
        }[kind]
        exponent = {"times": m + n, "over": m - n, "power": m * n}[kind]
        shown = {"times": f"{m} + {n}", "over": f"{m} - {n}", "power": write.times(m, n)}[kind]
        question = write.pick(
            f"Write ${expression}$ as one power of ${v}$.", f"Simplify ${expression}$.",
            f"Express ${expression}$ as a single power.", f"What is ${expression}$ as one power?",
            f"Find a single power equal to ${expression}$.", f"Reduce ${expression}$ to one power.",
        )  # fmt: skip
        verb = {"times": "add", "over": "subtract", "power": "multiply"}[kind]
        lines = [
            write.step(f"{shown} = {exponent}", f"{verb} the exponents", f"{verb} {m} and {n}",
                       f"use the rule and {verb}", "look at the exponents", "use the power rule",
                       f"keep ${v}$ and {verb} the exponents")
        ]  # fmt: skip
        gold = f"{v}^{{{exponent}}}"
        lines += write.note(
            f"The base ${v}$ stays the same.",
            "The base does not change.",
            f"We keep the base ${v}$.",
            f"So the new exponent is ${exponent}$.",
            f"The base is still ${v}$.",
            f"It is a power of ${v}$ again.",
        )
        return Problem((kind, m, n), question, lines, gold)
    a, b = rng.randint(2, 10), rng.randint(2, 10)
    m = rng.choice((2, 3) if a < 6 else (2,))
    n = rng.choice((2, 3) if b < 6 else (2,))
    sign = rng.choice("+-")
    first, second = a**m, b**n
    value = first + second if sign == "+" else first - second
    one, two = (
        write.step(f"{base}^{power} = {write.times(base ** (power - 1), base)} = {base**power}",
                   f"find ${base}^{power}$", f"multiply {base} by itself",
                   f"write out ${base}^{power}$", f"take the power of {base}", "do this power")
        for base, power in ((a, m), (b, n))
    )  # fmt: skip
    lines = [one, two]
    lines.append(
        write.step(f"{first} {sign} {second} = {value}", "put both together", "join the two",
                   "add them" if sign == "+" else "subtract", "use both values",
                   "take the sum" if sign == "+" else "take the difference")
    )  # fmt: skip
    return Problem((sign, a, m, b, n), write.compute(f"{a}^{m} {sign} {b}^{n}"), lines, str(value))


def operations(write: Writer) -> Problem:
    """a + b * c - d, and (a + b) * c - d."""
    rng = write.rng
    a, b, c, d = rng.randint(1, 30), rng.randint(2, 12), rng.randint(2, 9), rng.randint(1, 20)
    kind = rng.choice(("plain", "bracket", "minus"))
    if kind == "plain":
        expression, inner = f"{a} + {b}{write.dot}{c} - {d}", b * c
        value = a + inner - d
        lines = [
            write.step(f"{b}{write.dot}{c} = {inner}", "do the product first",
                       f"multiply {b} by {c}",
                       "start with the multiplication", "take care of the product", "multiply"),
        ]  # fmt: skip
        lines.append(write.step(f"{a} + {inner} - {d} = {a + inner} - {d} = {value}",
                                "go from left to right", "add and subtract", "do the rest",
                                "finish the sum", "put it in"))  # fmt: skip
    elif kind == "bracket":
        a = rng.randint(1, 12)
        expression, inner = f"({a} + {b}){write.dot}{c} - {d}", a + b
        value = inner * c - d
        lines = [
            write.step(f"{a} + {b} = {inner}", "do the bracket first", "start inside the brackets",
                       "add inside", "begin with the parentheses", f"add {a} and {b}"),
            write.step(write.product(inner, c), f"multiply by {c}", "multiply next",
                       "do the product", f"take it {c} times", "go on with the product"),
            write.step(f"{inner * c} - {d} = {value}", f"subtract {d}",
                       "finish with the difference",
                       f"take away {d}", "do the last part"),
        ]  # fmt: skip
    else:
        e = rng.randint(2, 9)
        expression = f"{b}{write.dot}{c} - {d}{write.dot}{e}"
        d = min(d, 12)
        expression = f"{b}{write.dot}{c} - {d}{write.dot}{e}"
        value, a = b * c - d * e, e
        two = [
            write.step(f"{m}{write.dot}{n} = {m * n}", f"multiply {m} by {n}",
                       f"find {place} product",
                       f"do {place} product", f"take {m} times {n}", "multiply")
            for m, n, place in ((b, c, "the first"), (d, e, "the second"))
        ]  # fmt: skip
        lines = two
        lines.append(
            write.step(
                f"{b * c} - {d * e} = {value}",
                "subtract",
                "take the difference",
                "put both together",
                "subtract the second",
                "do the minus",
            )
        )
    return Problem((kind, a, b, c, d), write.compute(expression), lines, str(value))


FAMILIES = {
    "common_divisor": common_divisor,
    "powers": powers,
    "operations": operations,
}
