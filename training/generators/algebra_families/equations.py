"""Linear equations, proportions and systems with small integer solutions."""

from __future__ import annotations

from training.generators.algebra_families.writing import (
    Problem,
    Writer,
    coefficient,
    plus,
    term,
)


def _nonzero(write: Writer, low: int, high: int) -> int:
    return write.rng.choice([n for n in range(low, high + 1) if n != 0])


def _move(write: Writer, b: int) -> tuple[str, ...]:
    """Ways to bring the constant b to the other side."""
    if b > 0:
        return (f"subtract {b} from both sides", f"take {b} from each side",
                f"move the {b} to the right", f"remove the {b}", f"take away {b}",
                f"subtract {b} on the left and on the right")  # fmt: skip
    return (f"add {-b} to both sides", f"add {-b} on each side", f"move the {-b} to the right",
            f"put {-b} on top of each side", f"add {-b}", f"cancel the {-b} by adding it"
            )  # fmt: skip


def _share(a: int) -> tuple[str, ...]:
    """Ways to divide both sides by a."""
    return (f"divide both sides by {a}", f"divide by {a}", f"divide each side by {a}",
            f"split it by {a}", f"take one of the {a} parts" if a > 0 else f"divide through by {a}",
            f"remove the factor {a}")  # fmt: skip


def _isolate(write: Writer, a: int, b: int, c: int) -> list[str]:
    """Steps from ax + b = c to x."""
    v = write.letter
    left = coefficient(a, v)
    lines = []
    if b:
        full = f"{c}{term(-b)} = {c - b}"
        if write.rng.random() < 0.7:
            lines.append(write.step(f"{left} = {full}", *_move(write, b)))
        else:
            lines.append(write.step(full, *_move(write, b)))
            if a != 1:
                lines.append(write.step(f"{left} = {c - b}"))
    x = (c - b) // a
    if a != 1:
        lines.append(write.step(f"{v} = {write.divide(c - b, a)} = {x}", *_share(a)))
    elif not b:
        lines.append(write.step(f"{v} = {x}"))
    return lines


def linear(write: Writer) -> Problem:
    """ax + b = c."""
    rng, v = write.rng, write.letter
    a, b, x = rng.choice((1, *range(2, 10), *range(2, 10), -2, -3, -4)), 0, rng.randint(-9, 15)
    b = _nonzero(write, -20, 30)
    c = a * x + b
    left = f"{coefficient(a, v)}{term(b)}"
    if b > 0 and rng.random() < 0.3:
        left = f"{b}{plus(a, v)}"
    equation = f"{left} = {c}" if rng.random() < 0.8 else f"{c} = {left}"
    check = f"{write.times(a, x)}{term(b)} = {a * x}{term(b)} = {c}"
    return Problem((a, b, c), write.solve(equation), _isolate(write, a, b, c), str(x), check)


def both_sides(write: Writer) -> Problem:
    """ax + b = cx + d with a > c."""
    rng, v = write.rng, write.letter
    c = rng.randint(1, 6)
    a = c + rng.randint(1, 6)
    x, b = rng.randint(-6, 12), _nonzero(write, -12, 15)
    d = (a - c) * x + b
    lines = [
        write.step(
            f"{coefficient(a - c, v)}{term(b)} = {d}",
            f"subtract ${coefficient(c, v)}$ from both sides",
            f"take ${coefficient(c, v)}$ from each side",
            f"bring ${coefficient(c, v)}$ to the left",
            f"collect the terms with ${v}$",
            f"use ${a} - {c} = {a - c}$ for the ${v}$ terms",
            f"put all the ${v}$ on one side",
        )
    ]
    right = f"{coefficient(c, v)}{term(d)}" if d else coefficient(c, v)
    equation = f"{coefficient(a, v)}{term(b)} = {right}"
    return Problem((a, b, c, d), write.solve(equation), lines + _isolate(write, a - c, b, d),
                   str(x))  # fmt: skip


def parentheses(write: Writer) -> Problem:
    """a(x + b) = c."""
    rng, v = write.rng, write.letter
    a, b, x = rng.randint(2, 9), _nonzero(write, -9, 9), rng.randint(-6, 12)
    c = a * (x + b)
    if rng.random() < 0.5:
        lines = [
            write.step(f"{v}{term(b)} = {write.divide(c, a)} = {x + b}", *_share(a)),
            write.step(f"{v} = {x + b}{term(-b)} = {x}", *_move(write, b)),
        ]
    else:
        opened = f"{a}{v}{term(a * b)}"
        lines = [
            write.step(
                f"{opened} = {c}", "expand the left side", "multiply out", "open the bracket",
                "remove the parentheses", f"multiply by {a}",
                f"use ${write.times(a, b)} = {a * b}$",
            )
        ]  # fmt: skip
        lines += _isolate(write, a, a * b, c)
    check = f"{a}{write.dot}({x}{term(b)}) = {write.times(a, x + b)} = {c}"
    return Problem((a, b, c), write.solve(f"{a}({v}{term(b)}) = {c}"), lines, str(x), check)


def fraction_equation(write: Writer) -> Problem:
    """x/a + b = c."""
    rng, v = write.rng, write.letter
    a, b, y = rng.randint(2, 9), _nonzero(write, -12, 15), rng.randint(1, 12)
    c = y + b
    part = f"\\frac{{{v}}}{{{a}}}"
    lines = [
        write.step(f"{part} = {c}{term(-b)} = {y}", *_move(write, b)),
        write.step(
            f"{v} = {write.times(a, y)} = {a * y}", f"multiply both sides by {a}",
            f"multiply by {a}", f"clear the fraction with {a}", f"take it {a} times",
            f"undo the division by {a}",
        ),
    ]  # fmt: skip
    check = f"{write.divide(a * y, a)}{term(b)} = {y}{term(b)} = {c}"
    return Problem((a, b, c), write.solve(f"{part}{term(b)} = {c}"), lines, str(a * y), check)


def proportion(write: Writer) -> Problem:
    """a/b = x/c where b divides c."""
    rng, v = write.rng, write.letter
    a, b, k = rng.randint(1, 12), rng.randint(2, 12), rng.randint(2, 8)
    c = b * k
    left, right = f"\\frac{{{a}}}{{{b}}}", f"\\frac{{{v}}}{{{c}}}"
    equation = f"{left} = {right}" if rng.random() < 0.6 else f"{right} = {left}"
    lines = [
        write.step(
            f"{write.divide(c, b)} = {k}", "compare the bottoms", "compare the denominators",
            "find the factor", f"see how often {b} goes into {c}", f"go from {b} to {c}",
        ),
        write.step(
            f"{v} = {write.times(a, k)} = {a * k}", "multiply the top too", f"multiply {a} by {k}",
            "do the same above", f"scale the numerator by {k}", f"use the factor {k}",
        ),
    ]  # fmt: skip
    return Problem((a, b, c), write.solve(equation), lines, str(a * k))


def system(write: Writer) -> Problem:
    """x + y = s and ax - y = d (or a = 1); asks for one of the two."""
    rng = write.rng
    v, w = write.letters(2)
    a, x, y = rng.choice((1, 1, 2, 3, 4)), rng.randint(1, 12), rng.randint(1, 12)
    s, d = x + y, a * x - y
    first, second = f"{v} + {w} = {s}", f"{coefficient(a, v)} - {w} = {d}"
    asks_first = rng.random() < 0.5
    wanted = v if asks_first else w
    pair = f"${first}$ and ${second}$"
    question = write.pick(
        f"If {pair}, find ${wanted}$.", f"Solve for ${wanted}$: {pair}.",
        f"Suppose {pair}. What is ${wanted}$?", f"Given {pair}, what is ${wanted}$?",
        f"We know that {pair}. Find ${wanted}$.", f"The numbers ${v}$ and ${w}$ satisfy {pair}. "
        f"Determine ${wanted}$.", f"Find ${wanted}$ from {pair}.",
        f"What is the value of ${wanted}$ if {pair}?",
    )  # fmt: skip
    lines = [
        write.step(
            f"{coefficient(a + 1, v)} = {s}{term(d)} = {s + d}", "add the two equations",
            "add both equations", f"add them, so that ${w}$ goes away", "take the sum of the two",
            f"eliminate ${w}$ by adding", "put the equations together", "add up left and right",
        ),
        write.step(f"{v} = {write.divide(s + d, a + 1)} = {x}", *_share(a + 1)),
    ]  # fmt: skip
    if not asks_first:
        lines.append(
            write.step(
                f"{w} = {s} - {x} = {y}", "use the first equation", "put it into the first one",
                f"go back to ${first}$", f"find ${w}$ from the sum", f"take ${v}$ from the sum",
            )
        )  # fmt: skip
    check = f"{x} + {y} = {s}" if not asks_first else f"{x} + {s - x} = {s}"
    return Problem((a, s, d, int(asks_first)), question, lines, str(x if asks_first else y), check)


def related(write: Writer) -> Problem:
    """If ax = b, what is cx + d?"""
    rng, v = write.rng, write.letter
    a, x, c, d = rng.randint(2, 9), rng.randint(2, 12), rng.randint(2, 9), _nonzero(write, -9, 9)
    wanted = f"{c}{v}{term(d)}"
    given = f"{a}{v} = {a * x}"
    question = write.pick(
        f"If ${given}$, what is ${wanted}$?", f"Given ${given}$, find ${wanted}$.",
        f"Suppose ${given}$. Compute ${wanted}$.", f"We have ${given}$. Work out ${wanted}$.",
        f"Find the value of ${wanted}$ when ${given}$.", f"What is ${wanted}$ if ${given}$?",
        f"Let ${given}$. Find ${wanted}$.",
    )  # fmt: skip
    product = c * x
    lines = [write.step(f"{v} = {write.divide(a * x, a)} = {x}", *_share(a))]
    last = f"{product}{term(d)} = {product + d}"
    lines.append(
        write.step(f"{c}{v} = {write.times(c, x)} = {product}", f"multiply by {c}",
                   f"take ${v}$ {c} times", f"find ${c}{v}$", f"put in ${v} = {x}$",
                   f"use ${v} = {x}$")
    )  # fmt: skip
    lines.append(
        write.step(last, "put in the constant", "finish with the constant", "work out the rest",
                   "take care of the last term", "do the last part")
    )  # fmt: skip
    return Problem((a, a * x, c, d), question, lines, str(product + d))


FAMILIES = {
    "linear": linear, "both_sides": both_sides, "parentheses": parentheses,
    "fraction_equation": fraction_equation, "proportion": proportion, "system": system,
    "related": related,
}  # fmt: skip
