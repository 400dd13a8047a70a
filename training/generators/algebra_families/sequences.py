"""Sequences, means and slopes."""

from __future__ import annotations

from training.generators.algebra_families.writing import Problem, Writer, term

ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def _ordinal(n: int) -> str:
    return f"{n}th" if 10 <= n % 100 <= 20 else f"{n}{ORDINALS.get(n % 10, 'th')}"


def arithmetic_sequence(write: Writer) -> Problem:
    """The n-th term of a, a + d, a + 2d, …"""
    rng = write.rng
    a, d, n = rng.randint(-9, 20), rng.choice([k for k in range(-6, 10) if k]), rng.randint(5, 20)
    value = a + (n - 1) * d
    shown = ", ".join(str(a + k * d) for k in range(rng.choice((3, 3, 4)))) + ", \\ldots"
    question = write.pick(
        f"The sequence ${shown}$ is arithmetic. Find term number {n}.",
        f"What is the {_ordinal(n)} term of ${shown}$?",
        f"Find the {_ordinal(n)} term of the arithmetic sequence ${shown}$.",
        f"An arithmetic sequence starts ${shown}$. What is its {_ordinal(n)} term?",
        f"Which number is in place {n} of the arithmetic sequence ${shown}$?",
        f"Continue ${shown}$ in equal steps. What is term {n}?",
        f"In the arithmetic sequence ${shown}$, compute term {n}.",
    )
    lines = [
        write.step(
            f"{a + d}{term(-a)} = {d}", "find the step", "find the difference",
            "subtract two neighbours", "compare the first two terms", "look at the gap",
            "take the common difference",
        ),
        write.step(
            write.product(n - 1, d),
            f"take {n - 1} steps", f"make {n - 1} steps of {d}", f"multiply the step by {n - 1}",
            f"go on from term 1 to term {n}", f"count {n - 1} steps", f"use ${n} - 1 = {n - 1}$",
        ),
        write.step(
            f"{a}{term((n - 1) * d)} = {value}", f"start at {a}", f"add the first term {a}",
            f"begin from {a}", "add this to the first term", "put it on the start",
        ),
    ]  # fmt: skip
    return Problem((a, d, n), question, lines, str(value))


def geometric_sequence(write: Writer) -> Problem:
    """A term of a, ar, ar^2, … with small values."""
    rng = write.rng
    r = rng.choice((2, 2, 2, 3, 3, 4, 5, 10))
    a = rng.randint(1, 12 if r < 4 else 9)
    n = rng.randint(4, {2: 7, 3: 5}.get(r, 4))
    value = a * r ** (n - 1)
    shown = ", ".join(str(a * r**k) for k in range(3)) + ", \\ldots"
    question = write.pick(
        f"The sequence ${shown}$ is geometric. Find term number {n}.",
        f"What is the {_ordinal(n)} term of ${shown}$, a geometric sequence?",
        f"Find the {_ordinal(n)} term of the geometric sequence ${shown}$.",
        f"A geometric sequence starts ${shown}$. What is its {_ordinal(n)} term?",
        f"Which number is in place {n} of the geometric sequence ${shown}$?",
        f"Each term of ${shown}$ is a fixed multiple of the last. What is term {n}?",
    )
    lines = [
        write.step(
            f"{write.divide(a * r, a)} = {r}", "find the ratio", "divide two neighbours",
            "compare the first two terms", "take the common ratio", "find the factor",
            "look at the quotient",
        )
    ]  # fmt: skip
    for place in range(3, n):
        last = a * r ** (place - 1)
        lines.append(
            write.step(
                write.product(last, r), f"go on to term {place + 1}",
                f"find term {place + 1}", f"multiply by {r}", f"multiply {last} by {r}",
                "take the next term", "go one step further",
            )
        )  # fmt: skip
    return Problem((a, r, n), question, lines, str(value))


def mean(write: Writer) -> Problem:
    """The mean of three to five numbers; the mean is an integer."""
    rng = write.rng
    count = rng.randint(3, 5)
    numbers = [rng.randint(1, 25) for _ in range(count - 1)]
    last = (-sum(numbers)) % count
    numbers.append(last + count * rng.randint(0 if last else 1, 4))
    total = sum(numbers)
    value = total // count
    shown = ", ".join(map(str, numbers[:-1]))
    listed = write.pick(f"${shown}, {numbers[-1]}$", f"${shown}$ and ${numbers[-1]}$")
    question = write.pick(
        f"Find the mean of {listed}.", f"What is the average of {listed}?",
        f"Compute the mean of the numbers {listed}.", f"The numbers are {listed}. Find their mean.",
        f"What is the arithmetic mean of {listed}?", f"Work out the average of {listed}.",
        f"Give the mean value of {listed}.",
    )  # fmt: skip
    # one addition at a time
    sums, running = [], numbers[0]
    for number in numbers[1:]:
        sums.append(f"{running} + {number} = {running + number}")
        running += number
    lines = [write.step("$, $".join(sums), "add the numbers", "find the sum", "add them all",
                        "take the total", "sum everything")]  # fmt: skip
    lines += write.note(
        f"There are ${count}$ numbers.",
        f"We have ${count}$ values.",
        f"That is for ${count}$ numbers.",
        f"The list has length ${count}$.",
        f"The count is ${count}$.",
    )
    lines.append(
        write.step(f"{write.divide(total, count)} = {value}", f"divide by {count}",
                   "share it equally", f"divide {total} by {count}", "take the mean",
                   f"split it into {count} parts", "divide by how many there are")
    )  # fmt: skip
    return Problem(tuple(numbers), question, lines, str(value))


def slope(write: Writer) -> Problem:
    """The slope of the line through two points; an integer."""
    rng = write.rng
    x, y, run, k = rng.randint(-5, 8), rng.randint(-6, 9), rng.randint(1, 6), rng.randint(-6, 8)
    u, w = x + run, y + run * k
    question = write.pick(
        f"Find the slope of the line through $({x}, {y})$ and $({u}, {w})$.",
        f"What is the slope of the line from $({x}, {y})$ to $({u}, {w})$?",
        f"A line passes through $({x}, {y})$ and $({u}, {w})$. What is its slope?",
        f"The points $({x}, {y})$ and $({u}, {w})$ are on a line. Compute the slope.",
        f"How steep is the line through $({x}, {y})$ and $({u}, {w})$?",
        f"Determine the slope between $({x}, {y})$ and $({u}, {w})$.",
    )
    up = write.step(
        f"{w}{term(-y)} = {w - y}",
        "find the rise",
        "subtract the heights",
        "see how far it goes up",
        "take the change in $y$",
        "compare the $y$ values",
    )
    right = write.step(
        f"{u}{term(-x)} = {run}",
        "find the run",
        "subtract the $x$ values",
        "see how far it goes right",
        "take the change in $x$",
        "compare the $x$ values",
    )
    lines = [up, right]
    lines.append(write.step(f"{write.divide(w - y, run)} = {k}", "divide rise by run",
                            "divide them",
                            "take the quotient", f"divide by {run}", "find rise over run",
                            "put one over the other"))  # fmt: skip
    return Problem((x, y, u, w), question, lines, str(k))


FAMILIES = {
    "arithmetic_sequence": arithmetic_sequence,
    "geometric_sequence": geometric_sequence,
    "mean": mean,
    "slope": slope,
}
