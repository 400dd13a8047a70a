"""Fractions and percent of a number, fractions in lowest terms."""

from __future__ import annotations

import math

from training.generators.algebra_families.writing import Problem, Writer


def fraction_of(write: Writer) -> Problem:
    """p/q of a number."""
    rng = write.rng
    q = rng.randint(2, 10)
    p = rng.randint(1, q - 1)
    part = rng.randint(2, 15)
    fraction = f"\\frac{{{p}}}{{{q}}}"
    question = write.pick(
        f"What is ${fraction}$ of ${q * part}$?", f"Find ${fraction}$ of ${q * part}$.",
        f"Compute ${fraction}{write.dot}{q * part}$.", f"How much is ${fraction}$ of ${q * part}$?",
        f"Work out ${fraction}$ of the number ${q * part}$.",
        f"Take ${fraction}$ of ${q * part}$. What do you get?",
        f"Which number is ${fraction}$ of ${q * part}$?",
    )  # fmt: skip
    lines = [
        write.step(
            f"{write.divide(q * part, q)} = {part}", f"divide by {q}", f"find one of {q} parts",
            f"cut it into {q} equal parts", f"divide {q * part} by {q}", "find one part",
        )
    ]  # fmt: skip
    if p > 1:
        lines.append(
            write.step(
                write.product(part, p), f"take {p} of them", f"multiply by {p}",
                f"take {p} such parts", f"put {p} parts together", f"count {p} parts",
            )
        )  # fmt: skip
    return Problem((p, q, q * part), question, lines, str(p * part))


def percent(write: Writer) -> Problem:
    """A percentage of a number, or the number after a rise or fall."""
    rng = write.rng
    rate = rng.choice((5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90))
    unit = {25: 4, 50: 2, 75: 4, 5: 20}.get(rate, 10)
    whole = unit * rng.randint(2, 30 if unit < 20 else 15)
    part = rate * whole // 100
    kind = rng.choice(("of", "of", "more", "less"))
    if kind == "of":
        question = write.pick(
            f"What is ${rate}\\%$ of ${whole}$?", f"Find ${rate}\\%$ of ${whole}$.",
            f"Compute ${rate}\\%$ of ${whole}$.", f"How much is ${rate}\\%$ of ${whole}$?",
            f"Which number is ${rate}\\%$ of ${whole}$?", f"Work out ${rate}\\%$ of ${whole}$.",
            f"Take ${rate}\\%$ of ${whole}$. What is it?",
        )  # fmt: skip
    else:
        verb = {"more": ("increased", "grows", "rises"), "less": ("reduced", "falls", "drops")}[
            kind
        ]
        question = write.pick(
            f"The number ${whole}$ is {verb[0]} by ${rate}\\%$. What is the result?",
            f"What is ${whole}$ {verb[0]} by ${rate}\\%$?",
            f"A value of ${whole}$ {verb[1]} by ${rate}\\%$. What is it now?",
            f"If ${whole}$ {verb[2]} by ${rate}\\%$, what do we get?",
            f"Find the number that is ${rate}\\%$ {kind} than ${whole}$.",
            f"Which number is ${rate}\\%$ {kind} than ${whole}$?",
        )
    piece, count = whole // unit, part // (whole // unit)
    share = 100 // unit
    lines = [
        write.step(
            f"{write.divide(whole, unit)} = {piece}", f"find ${share}\\%$ first",
            f"use that ${share}\\%$ is one part in {unit}", f"divide by {unit} for ${share}\\%$",
            f"start with ${share}\\%$", f"take ${share}\\%$", f"divide {whole} by {unit}",
        )
    ]  # fmt: skip
    if count > 1:
        lines.append(
            write.step(
                write.product(piece, count), f"take it {count} times",
                f"multiply by {count}", f"make ${rate}\\%$ of it", f"go up to ${rate}\\%$",
                f"use that ${rate}\\%$ is {count} such parts", f"find ${rate}\\%$",
            )
        )  # fmt: skip
    gold = part
    if kind != "of":
        gold = whole + part if kind == "more" else whole - part
        sign = "+" if kind == "more" else "-"
        lines.append(
            write.step(
                f"{whole} {sign} {part} = {gold}",
                *(("add it to the start", f"add {part}", "put it on top", "raise the number",
                   "add the change") if kind == "more" else
                  ("take it from the start", f"subtract {part}", "take it away",
                   "lower the number", "subtract the change")),
            )
        )  # fmt: skip
    return Problem((rate, whole, kind), question, lines, str(gold))


def simplify(write: Writer) -> Problem:
    """A fraction in lowest terms."""
    rng = write.rng
    k, p, q = rng.randint(2, 9), rng.randint(1, 12), rng.randint(2, 12)
    if p == q or math.gcd(p, q) > 1:
        return simplify(write)
    top, bottom = k * p, k * q
    fraction, gold = f"\\frac{{{top}}}{{{bottom}}}", f"\\frac{{{p}}}{{{q}}}"
    question = write.pick(
        f"Simplify ${fraction}$.", f"Write ${fraction}$ in lowest terms.",
        f"Reduce ${fraction}$ to its simplest form.", f"What is ${fraction}$ in lowest terms?",
        f"Reduce the fraction ${fraction}$.", f"Express ${fraction}$ as simply as possible.",
        f"Cancel what you can in ${fraction}$.",
    )  # fmt: skip
    common = write.say(
        f"Both numbers are divisible by ${k}$.", f"The greatest common divisor is ${k}$.",
        f"We can cancel ${k}$.", f"A common factor of ${top}$ and ${bottom}$ is ${k}$.",
        f"We divide top and bottom by ${k}$.", f"Here ${k}$ goes into both.",
        f"The number ${k}$ divides ${top}$ and also ${bottom}$.", f"Both have the factor ${k}$.",
    )  # fmt: skip
    two = [
        write.step(f"{write.divide(top, k)} = {p}", "do the top", "divide the numerator",
                   f"start with {top}", "reduce the top", "look at the upper number"),
        write.step(f"{write.divide(bottom, k)} = {q}", "do the bottom", "divide the denominator",
                   f"take {bottom}", "reduce the bottom", "look at the lower number"),
    ]  # fmt: skip
    lines = [common, *two]
    return Problem((top, bottom), question, lines, gold)


FAMILIES = {
    "fraction_of": fraction_of,
    "percent": percent,
    "simplify": simplify,
}
