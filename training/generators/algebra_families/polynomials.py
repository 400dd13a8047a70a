"""Values, products and roots of small polynomials, like terms, composed functions."""

from __future__ import annotations

from training.generators.algebra_families.writing import (
    Problem,
    Writer,
    bracket,
    coefficient,
    plus,
    term,
)


def _quadratic(v: str, b: int, c: int, a: int = 1) -> str:
    """ax^2 + bx + c without zero terms."""
    return coefficient(a, f"{v}^2") + plus(b, v) + (term(c) if c else "")


def evaluate(write: Writer) -> Problem:
    """ax^2 + bx + c at a point."""
    rng, v = write.rng, write.letter
    x = rng.choice((-4, -3, -2, -1, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7))
    a, b, c = rng.randint(1, 5), rng.choice([n for n in range(-9, 10) if n]), rng.randint(-12, 15)
    square, linear = a * x * x, b * x
    total = square + linear + c
    polynomial = _quadratic(v, b, c, a)
    name = write.pick("f", "g", "p", "h")
    name = "F" if name == v else name
    question = write.pick(
        f"Let ${name}({v}) = {polynomial}$. Find ${name}({x})$.",
        f"Evaluate ${polynomial}$ at ${v} = {x}$.",
        f"What is ${polynomial}$ when ${v} = {x}$?",
        f"If ${v} = {x}$, what is ${polynomial}$?",
        f"Given ${name}({v}) = {polynomial}$, compute ${name}({x})$.",
        f"Find the value of ${polynomial}$ for ${v} = {x}$.",
        f"Substitute ${v} = {x}$ into ${polynomial}$. What is the result?",
        f"The function ${name}$ is ${name}({v}) = {polynomial}$. What is ${name}({x})$?",
    )
    power = f"{bracket(x)}^2 = {x * x}"
    if a > 1:
        first = write.step(
            f"{a}{write.dot}{bracket(x)}^2 = {write.product(a, x * x)}", "find the square term",
            f"use ${power}$", "begin with the square term", "take the square first", "put it in",
        )  # fmt: skip
    else:
        first = write.step(
            power,
            "find the square",
            "square it",
            "start with the square",
            f"square {x}",
            "compute the first term",
            "work out the square term",
        )
    second = write.step(
        f"{write.times(b, x)} = {linear}", "find the linear term", "do the middle term",
        f"multiply {b} by {x}", "work out the linear part", f"put {x} into the linear term",
        "compute the next part",
    )  # fmt: skip
    parts = f"{square}{term(linear)}"
    if c:
        whole = f"{parts}{term(c)} = {square + linear}{term(c)} = {total}"
    else:
        whole = f"{parts} = {total}"
    third = write.step(
        whole,
        "add the parts",
        "put it all together",
        "add everything up",
        "take all parts",
        "sum the terms",
        "collect the numbers",
    )
    return Problem((a, b, c, x), question, [first, second, third], str(total))


def expand(write: Writer) -> Problem:
    """(x + p)(x + q), also squares."""
    rng, v = write.rng, write.letter
    numbers = [n for n in range(-9, 10) if n]
    p = rng.choice(numbers)
    q = p if rng.random() < 0.15 else rng.choice(numbers)
    expression = f"({v}{term(p)})({v}{term(q)})" if p != q else f"({v}{term(p)})^2"
    question = write.pick(
        f"Expand ${expression}$.", f"Multiply out ${expression}$.",
        f"Write ${expression}$ without parentheses.", f"Expand and simplify ${expression}$.",
        f"What is ${expression}$ when expanded?", f"Find the product ${expression}$.",
        f"Remove the brackets in ${expression}$.", f"Express ${expression}$ as a polynomial.",
    )  # fmt: skip
    middle = write.step(
        f"{p}{term(q)} = {p + q}", "add the two numbers", "find the middle coefficient",
        f"add the numbers for the ${v}$ term", "take the sum of the constants",
        f"collect the ${v}$ terms", "look at the sum",
    )  # fmt: skip
    last = write.step(
        f"{write.times(p, q)} = {p * q}", "multiply the two numbers", "find the constant",
        "take the product of the constants", "compute the last term", "multiply the ends",
        "look at the product",
    )  # fmt: skip
    gold = _quadratic(v, p + q, p * q)
    lines = [middle, last]
    if rng.random() < 0.3:
        lines.append(write.step(f"{expression} = {gold}", "put it together", "write it down",
                                "collect all the terms", "join the terms"))  # fmt: skip
    # the letter is part of the answer, the split is by the numbers alone
    return Problem((min(p, q), max(p, q)), question, lines, gold)


def roots(write: Writer) -> Problem:
    """x^2 + bx + c = 0: a root, the factors, or the distance of the roots."""
    rng, v = write.rng, write.letter
    r, s = rng.sample([n for n in range(-9, 10) if n], 2)
    b, c = -(r + s), r * s
    small, large = min(r, s), max(r, s)
    polynomial = _quadratic(v, b, c)
    asked = rng.choice(("larger", "smaller", "factor", "distance"))
    if asked == "factor":
        question = write.pick(
            f"Factor ${polynomial}$.", f"Write ${polynomial}$ as a product.",
            f"Factorise ${polynomial}$.", f"Find the factors of ${polynomial}$.",
            f"Express ${polynomial}$ as a product of two linear factors.",
            f"What is the factored form of ${polynomial}$?",
        )  # fmt: skip
    elif asked == "distance":
        question = write.pick(
            f"How far apart are the roots of ${polynomial}$?",
            f"What is the larger minus the smaller root of ${polynomial} = 0$?",
            f"Find the distance between the solutions of ${polynomial} = 0$.",
            f"By how much do the roots of ${polynomial}$ differ?",
            f"Find the positive difference of the roots of ${polynomial} = 0$.",
            f"The equation ${polynomial} = 0$ has two roots. How far apart are they?",
        )
    else:
        question = write.pick(
            f"What is the {asked} root of ${polynomial}$?",
            f"Find the {asked} solution of ${polynomial} = 0$.",
            f"Solve ${polynomial} = 0$ and give the {asked} root.",
            f"The equation ${polynomial} = 0$ has two roots. Find the {asked} one.",
            f"Give the {asked} value of ${v}$ with ${polynomial} = 0$.",
            f"Which is the {asked} zero of ${polynomial}$?",
            f"Determine the {asked} root of ${polynomial} = 0$.",
        )
    # the numbers in the factors: sum b, product c
    m, n = -small, -large
    product = write.step(
        f"{write.times(m, n)} = {c}", f"look for two numbers with product {c}",
        f"find factors of {c}", f"write {c} as a product", f"try pairs with product {c}",
        f"split {c} in two factors", "start with the constant",
    )  # fmt: skip
    total = write.step(
        f"{m}{term(n)} = {b}", f"see that the sum is {b}", f"check the sum {b}",
        "add them", "compare with the middle term", f"see that they add to {b}",
    )  # fmt: skip
    factors = f"({v}{term(m)})({v}{term(n)})"
    lines = [product, total]
    if asked == "factor":
        return Problem((b, c, asked), question, lines, factors)
    lines.append(write.step(f"{factors} = 0", "factor it", "write it as a product",
                            "put this into factors", "use the factors", "rewrite the equation",
                            "take the two factors"))  # fmt: skip
    if asked == "distance":
        lines.append(write.step(f"{large}{term(-small)} = {large - small}",
                                "take the difference", "subtract the roots",
                                f"go from {small} to {large}", "find the distance"))  # fmt: skip
        return Problem((b, c, asked), question, lines, str(large - small))
    pair = (small, large)
    lines.append(
        write.say(
            f"The roots are ${pair[0]}$ and ${pair[1]}$.",
            f"So ${v} = {pair[0]}$ or ${v} = {pair[1]}$.",
            f"Hence ${v}$ is ${pair[0]}$ or ${pair[1]}$.",
            f"This is zero at ${pair[0]}$ and at ${pair[1]}$.",
            f"Therefore ${pair[0]}$ and ${pair[1]}$ are the solutions.",
            f"We have two solutions, ${pair[0]}$ and ${pair[1]}$.",
        )
    )
    return Problem((b, c, asked), question, lines, str(large if asked == "larger" else small))


def root_sum(write: Writer) -> Problem:
    """Sum or product of the roots, from the coefficients."""
    rng, v = write.rng, write.letter
    r, s, a = *rng.choices([n for n in range(-9, 10) if n], k=2), rng.choice((1, 1, 1, 2, 3))
    b, c = -a * (r + s), a * r * s
    asked = rng.choice(("sum", "product"))
    polynomial = _quadratic(v, b, c, a)
    question = write.pick(
        f"What is the {asked} of the roots of ${polynomial}$?",
        f"Find the {asked} of the solutions of ${polynomial} = 0$.",
        f"The equation ${polynomial} = 0$ has two roots. What is their {asked}?",
        f"Compute the {asked} of the zeros of ${polynomial}$.",
        f"Determine the {asked} of the two roots of ${polynomial} = 0$.",
        f"Without solving, give the {asked} of the roots of ${polynomial} = 0$.",
    )
    u = "b" if v != "b" else "q"
    w = "a" if v != "a" else "p"
    t = "c" if v != "c" else "r"
    if asked == "sum":
        rule, value = f"-\\frac{{{u}}}{{{w}}}", r + s
        final = f"-({write.divide(b, a)}) = {value}" if a > 1 else f"-({b}) = {value}"
    else:
        rule, value = f"\\frac{{{t}}}{{{w}}}", r * s
        final = f"{write.divide(c, a)} = {value}" if a > 1 else f"{write.divide(c, 1)} = {value}"
    lines = [
        write.say(
            f"The {asked} of the roots is ${rule}$.", f"By Vieta, the {asked} is ${rule}$.",
            f"For roots, the {asked} is always ${rule}$.", f"We use that the {asked} is ${rule}$.",
            f"The rule for the {asked} is ${rule}$.", f"A known rule says that it is ${rule}$.",
        )
    ]  # fmt: skip
    if rng.random() < 0.6:
        chosen = f"{u} = {b}" if asked == "sum" else f"{t} = {c}"
        lines.append(
            write.say(
                f"Here ${w} = {a}$ and ${chosen}$.", f"We read off ${chosen}$ and ${w} = {a}$.",
                f"In our case ${chosen}$, ${w} = {a}$.", f"We have ${w} = {a}$, ${chosen}$.",
                f"The numbers are ${chosen}$ and ${w} = {a}$.", f"Now ${chosen}$ with ${w} = {a}$.",
            )
        )  # fmt: skip
    lines.append(write.step(final, "put in the numbers", "use the rule", "insert the values",
                            "work it out", "plug them in"))  # fmt: skip
    return Problem((a, b, c, asked), question, lines, str(value))


def like_terms(write: Writer) -> Problem:
    """ax + b + cx + d collected."""
    rng, v = write.rng, write.letter
    a, c = rng.randint(2, 12), rng.choice([n for n in range(-9, 13) if n])
    b, d = (rng.choice([n for n in range(-12, 16) if n]) for _ in range(2))
    if a + c == 0 or b + d == 0:
        a, d = a + 1, d + (1 if b + d == 0 else 0)
        if d == 0 or a + c == 0:
            return like_terms(write)
    expression = write.pick(
        f"{a}{v}{term(b)}{plus(c, v)}{term(d)}", f"{a}{v}{plus(c, v)}{term(b)}{term(d)}",
        f"{b}{plus(a, v)}{term(d)}{plus(c, v)}",
    )  # fmt: skip
    if c > 0 and d > 0 and rng.random() < 0.4:
        expression = f"({a}{v}{term(b)}) + ({coefficient(c, v)}{term(d)})"
    question = write.pick(
        f"Simplify ${expression}$.", f"Collect like terms: ${expression}$.",
        f"Combine the like terms in ${expression}$.", f"Write ${expression}$ in a shorter form.",
        f"What is ${expression}$ in simplest form?", f"Reduce ${expression}$ to two terms.",
        f"Bring ${expression}$ into its simplest form.",
    )  # fmt: skip
    named = write.step(
        f"{a}{term(c)} = {a + c}", f"add the ${v}$ terms", f"collect the terms with ${v}$",
        "look at the coefficients", f"count how many ${v}$ there are", f"put the ${v}$ together",
        "add the coefficients",
    )  # fmt: skip
    plain = write.step(
        f"{b}{term(d)} = {b + d}", "add the numbers", "collect the constants",
        "put the plain numbers together", "look at the constant terms", "add the constants",
        f"do the part without ${v}$",
    )  # fmt: skip
    gold = f"{coefficient(a + c, v)}{term(b + d)}" if b + d else coefficient(a + c, v)
    return Problem((a, b, c, d), question, [named, plain], gold)


def composed(write: Writer) -> Problem:
    """f(g(n)) for f(x) = ax + b and g(x) = x + c or cx."""
    rng, v = write.rng, write.letter
    a, b = rng.randint(2, 9), rng.choice([n for n in range(-12, 16) if n])
    kind, n = rng.choice(("shift", "scale")), rng.randint(1, 9)
    c = rng.choice([k for k in range(-6, 8) if k]) if kind == "shift" else rng.randint(2, 5)
    f, g = write.rng.sample([x for x in "fghpq" if x != v], 2)
    inner = n + c if kind == "shift" else c * n
    inside = f"{v}{term(c)}" if kind == "shift" else f"{c}{v}"
    outer = a * inner + b
    rule = f"${f}({v}) = {a}{v}{term(b)}$ and ${g}({v}) = {inside}$"
    question = write.pick(
        f"Let {rule}. Find ${f}({g}({n}))$.", f"If {rule}, what is ${f}({g}({n}))$?",
        f"Given {rule}, compute ${f}({g}({n}))$.", f"Suppose {rule}. Evaluate ${f}({g}({n}))$.",
        f"The functions are {rule}. Work out ${f}({g}({n}))$.",
        f"We have {rule}. What is the value of ${f}({g}({n}))$?",
    )  # fmt: skip
    shown = f"{n}{term(c)}" if kind == "shift" else write.times(c, n)
    put_in = write.times(a, inner)
    lines = [
        write.step(f"{g}({n}) = {shown} = {inner}", "begin inside", f"find ${g}({n})$ first",
                   f"put {n} into ${g}$", "do the inner function", f"use ${g}$ on {n}",
                   "start with the inner part"),
        write.step(f"{f}({inner}) = {put_in}{term(b)} = {a * inner}{term(b)} = {outer}",
                   f"put {inner} into ${f}$", f"apply ${f}$", "do the outer function",
                   f"use ${f}$ on {inner}", "go on with the outer part"),
    ]  # fmt: skip
    return Problem((a, b, kind, c, n), question, lines, str(outer))


FAMILIES = {
    "evaluate": evaluate, "expand": expand, "roots": roots, "root_sum": root_sum,
    "like_terms": like_terms, "composed": composed,
}  # fmt: skip
