"""Comparisons between people ("5 more than"), and ages."""

from __future__ import annotations

import random

from training.generators.vocabulary import NAMES
from training.generators.word_problem import (
    Problem,
    Step,
    make_step,
    step_kind,
    template,
    thing_slots,
)
from training.generators.wording import expand

_OWN = template(
    """
    {p} (has|owns|keeps) {n} {things}.
    there are {n} {things} in {p}'s (bag|box|room).
    {p} has (collected|counted|found|bought) {n} {things}.
    the number of {things} {p} has is {n}.
    {p} has (exactly |)(a collection of |a pile of |){n} {things}.
    (at home|in a box), {p} has {n} {things}.
    """
)
_MORE = template(
    """
    {p} has {d} more {things} than {q}.
    {p} (owns|has) {d} more than {q}( does|).
    {q} has {d} fewer {things} than {p}.
    {p}'s (box|bag|room) (has|holds) {d} more {things} than {q}'s.
    compared with {q}, {p} has {d} more( {things}|).
    {p} beats {q} by {d} {things}.
    """
)
_FEWER = template(
    """
    {p} has {d} fewer {things} than {q}.
    {p} (owns|has) {d} fewer than {q}( does|).
    {q} has {d} more {things} than {p}.
    {p}'s (box|bag|room) (has|holds) {d} fewer {things} than {q}'s.
    compared with {q}, {p} has {d} fewer( {things}|).
    {p} is {d} {things} short of what {q} has.
    """
)
_TIMES = template(
    """
    {p} has {k} as many {things} as {q}.
    {p} has {k} as many as {q}( does|).
    {p} (owns|keeps|counts) {k} as many {things} as {q}.
    {p}'s (box|bag|room) holds {k} as many {things} as {q}'s.
    compared with {q}, {p} has {k} as many( {things}|).
    {p} (owns|counts) {k} as many as {q}.
    """
)
_ASK_ONE = template(
    """
    how many {things} does {p} have?
    how many {things} (does {p} own|are {p}'s|belong to {p})?
    find the number of {things} {p} has.
    (tell me|say|work out) how many {things} {p} has.
    how many {things} are there in {p}'s (collection|possession)?
    {p} has how many {things}?
    """
)
_ASK_SUM = template(
    """
    how many {things} do {p} and {q} have (together|in total|altogether|in all)?
    (together|in total|altogether), how many {things} do {p} and {q} have?
    how many {things} (belong to|are owned by) {p} and {q} (together|in total)?
    find the total number of {things} of {p} and {q}.
    how many {things} is that for {p} and {q} together?
    if {p} and {q} put their {things} together, how many are there?
    """
)
_ASK_MORE = template(
    """
    how many more {things} does {p} have than {q}?
    (by how many|how many) {things} does {p} have more than {q}?
    how many {things} is {q} short of what {p} has?
    how many more {things} would {q} need to have as many as {p}?
    find the difference between {p}'s and {q}'s number of {things}.
    how many fewer {things} does {q} have than {p}?
    """
)
_GOAL_ONE = template("how many {things} {p} has\nthe number of {things} {p} has\n{p}'s number")
_GOAL_SUM = template(
    """
    how many {things} {p} and {q} have (together|in total|)
    the (total|sum) (of|for) {p} and {q}
    how many there are (together|in total|altogether)
    """
)
_GOAL_MORE = template(
    "how many more {things} {p} has( than {q}|)\nthe difference (between {p} and {q}|)\n"
    "how many more (there are|{p} has)"
)
_FACT = template(
    "{first} (has|owns|starts with) {n} {things}\n{first} has {n}\n"
    "the (only |)known number is {n}\nthere are {n} {things} (for|with) {first}"
)

_PERSON_CLAUSES = """
    {p} (has|owns|must have) {v}
    {p} has {v}
    {p}'s number (of {things} |)is {v}
    there are {v} (for {p}|in {p}'s hands|with {p})
    {v} belong to {p}
    it is {v} for {p}
    """
_PERSON_NOUNS = """
    {p}'s (number|count|share|amount)
    {p}'s number of {things}
    the number (of {things} |)(for {p}|of {p})
    the count (of {things} |)for {p}
    what {p} has
    """
MORE = step_kind(
    _PERSON_CLAUSES,
    _PERSON_NOUNS,
    """
    {p} has {d} more (than {q}|)
    {q} has {d} fewer (than {p}|)
    {p} is {d} ahead (of {q}|)
    the difference is {d}
    """,
)
FEWER = step_kind(
    _PERSON_CLAUSES,
    _PERSON_NOUNS,
    """
    {p} has {d} fewer (than {q}|)
    {q} has {d} more (than {p}|)
    {p} is {d} behind ({q}|)
    the difference is {d}
    """,
)
TIMES = step_kind(
    _PERSON_CLAUSES,
    _PERSON_NOUNS,
    """
    {p} has {k} as many (as {q}|)
    {k} as many means (we |to |)multiply by {d}
    {q} has {a}
    """,
)
HALF = step_kind(
    _PERSON_CLAUSES,
    _PERSON_NOUNS,
    """
    {p} has half as many (as {q}|)
    half as many means (we |to |)divide by 2
    {q} has {a}
    """,
)
SUM = step_kind(
    """
    {p} and {q} (together |)have {v}
    (together|in total|altogether), (they|{p} and {q}|the two) have {v}
    (they|the two) have {v} (together|in total|altogether|in all)
    the (total|sum) is {v}
    there are {v} (in total|altogether|in all)
    that makes {v} (together|in total|)
    """,
    """
    the (total|sum)
    the (total|full|whole) number (of {things} |)
    the (total|sum) (for|of) {p} and {q}
    what they have together
    the sum of the two numbers
    """,
    """
    {p} has {x} and {q} has {y}
    we (want|need) (both|the total|the sum)
    {q} has {y}
    {p} has {x}
    """,
)
GAP = step_kind(
    """
    {p} has {v} more (than {q}|)
    the difference is {v}
    the gap (between them |)is {v}
    {q} has {v} fewer (than {p}|)
    {p} is ahead by {v}
    {q} would need {v} more
    """,
    """
    the difference
    the (gap|difference) between (them|the two|{p} and {q})
    what {p} has more than {q}
    """,
    """
    {p} has {x} and {q} has {y}
    we compare {x} with {y}
    {q} has {y}
    {p} has {x}
    """,
)
_FACTOR_WORDS = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}


def _relation(rng: random.Random, base: int) -> tuple[str, int, object, object, str]:
    """(sign, operand, question wording, step kind, factor word) for a person against `base`."""
    draw = rng.random()
    if draw < 0.2 and base <= 20:
        factor = rng.choice((2, 2, 3, 4, 5))
        return "*", factor, _TIMES, TIMES, _FACTOR_WORDS[factor]
    if draw < 0.3 and base % 2 == 0 and base >= 6:
        return "/", 2, _TIMES, HALF, "half"
    if (draw < 0.65 and base < 80) or base < 8:
        return "+", rng.randint(2, 30), _MORE, MORE, ""
    return "-", rng.randint(2, min(40, base - 3)), _FEWER, FEWER, ""


def _last_step(rng: random.Random, people: list[str], values: list[int], things: str, needs):
    """Total or difference of the last two people."""
    (p, x), (q, y) = rng.sample(list(zip(people, values, strict=True))[-2:], 2)
    if rng.random() < 0.7 or abs(x - y) < 2:
        left, right = x, y
        step = make_step(SUM, left, "+", right, things, needs, p=p, q=q, x=str(x), y=str(y))
        return step, _ASK_SUM, _GOAL_SUM, "sum"
    if x < y:
        p, x, q, y = q, y, p, x
    step = make_step(GAP, x, "-", y, things, needs, p=p, q=q, x=str(x), y=str(y))
    return step, _ASK_MORE, _GOAL_MORE, "gap"


def build_compare(rng: random.Random) -> Problem:
    """Two or three people; each has more, fewer or times as many as an earlier one."""
    count = rng.choices((1, 2, 3), (20, 45, 35))[0]
    ask_last_person = count == 1 or (count == 2 and rng.random() < 0.4)
    relations = count if ask_last_person else count - 1
    people = [name for name, _ in rng.sample(NAMES, relations + 1)]
    slots = {**thing_slots(rng), "first": people[0]}
    values = [rng.randint(5, 60)]
    slots["n"] = str(values[0])
    steps: list[Step] = []
    sentences = [expand(_OWN, rng, {**slots, "p": people[0]})]
    structure, numbers = "", [values[0]]
    for position in range(relations):
        other = position if position == 0 or rng.random() < 0.6 else 0
        sign, operand, wording, kind, word = _relation(rng, values[other])
        extra = {"p": people[position + 1], "q": people[other], "d": str(operand), "k": word}
        sentences.append(expand(wording, rng, {**slots, **extra}))
        needs = (other - 1,) if other else ()
        steps.append(make_step(kind, values[other], sign, operand, slots["things"], needs, **extra))
        values.append(steps[-1].result)
        numbers.append(operand)
        structure += f"{sign}{other}"
    # the statements may come in any order: the reader has to find where to start
    if rng.random() < 0.3:
        rng.shuffle(sentences)
    ask, goal, extra = _ASK_ONE, _GOAL_ONE, {"p": people[-1]}
    if not ask_last_person:
        needs = tuple(range(max(0, relations - 2), relations))
        step, ask, goal, last = _last_step(rng, people, values, slots["things"], needs)
        steps.append(step)
        extra = step.slots
        structure += last
    sentences.append(expand(ask, rng, {**slots, **extra}))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), goal, (_FACT,)
    )


_AGE_START = template(
    """
    {p} is {n} years old.
    {p} is {n}( years old|) (now|today|this year).
    {p}'s age is {n}.
    this year, {p} (turned|is) {n}.
    {p} has just turned {n}.
    today {p} is {n} years old.
    """
)
_AGE_RELATION = {
    "+": template(
        "{q} is {d} years older than {p}.\n{p} is {d} years younger than {q}.\n"
        "{q} was born {d} years before {p}.\n{q} is older than {p} by {d} years.\n"
        "{p} was born {d} years after {q}.\n{p}'s {kin}, {q}, is {d} years older."
    ),
    "-": template(
        "{q} is {d} years younger than {p}.\n{p} is {d} years older than {q}.\n"
        "{q} was born {d} years after {p}.\n{q} is younger than {p} by {d} years.\n"
        "{p} was born {d} years before {q}.\n{p}'s {kin}, {q}, is {d} years younger."
    ),
    "*": template(
        "{q} is {k} as old as {p}.\n{q}'s age is {k} {p}'s age.\n"
        "{p}'s {kin}, {q}, is {k} as old.\n{q}'s age is {d} times that of {p}.\n"
        "{q} is {d} times as old as {p}.\n{p} has a {kin}, {q}, who is {k} as old."
    ),
}
_AGE_KINDS = {
    "+": step_kind(
        "{q} is (now |){v}( years old|)\n{q}'s age is {v}\n{q} must be {v}( years old|)\n"
        "{q} has an age of {v}\n"
        "the age of {q} is {v}( years|)",
        "{q}'s age\nthe age of {q}\nhow old {q} is\n{q}'s age (now|today)",
        "{q} is {d} years older\nthe difference is {d} years\n{q} is older (than {p}|)\n"
        "{p} is {d} years younger",
    ),
    "-": step_kind(
        "{q} is (now |){v}( years old|)\n{q}'s age is {v}\n{q} must be {v}( years old|)\n"
        "{q} has an age of {v}\n"
        "the age of {q} is {v}( years|)",
        "{q}'s age\nthe age of {q}\nhow old {q} is\n{q}'s age (now|today)",
        "{q} is {d} years younger\nthe difference is {d} years\n{q} is younger (than {p}|)\n"
        "{p} is {d} years older",
    ),
    "*": step_kind(
        "{q} is (now |){v}( years old|)\n{q}'s age is {v}\n{q} must be {v}( years old|)\n"
        "{q} has an age of {v}\n"
        "the age of {q} is {v}( years|)",
        "{q}'s age\nthe age of {q}\nhow old {q} is\n{q}'s age (now|today)",
        "{q} is {k} as old (as {p}|)\n{p} is {a}\nwe multiply by {d}",
    ),
}
_AGE_LATER = step_kind(
    "{q} will be {v}( years old|) (then|)\nin {d} years, {q} will be {v}\n"
    "(after|in) {d} years {q} is {v}( years old|)\n"
    "{q} (reaches|gets to|turns) {v}\n{q}'s age will be {v} (then|)\nby then {q} will be {v}",
    "{q}'s (later|future|new) age\n{q}'s age in {d} years\nthe age of {q} (then|later)\n"
    "how old {q} will be",
    "{d} years (go by|pass)\n{q} gets {d} years older\nwe (look|go) {d} years ahead\n"
    "everyone gets older by {d} years",
)
_AGE_AGO = step_kind(
    "{q} was {v}( years old|) (then|)\n{d} years ago, {q} was {v}\n"
    "{d} years before, {q} was {v}( years old|)\n"
    "{q}'s age was {v} (then|)\n(at that time|back then) {q} was {v}",
    "{q}'s (earlier|past|old) age\n{q}'s age {d} years ago\nthe age of {q} (then|back then)\n"
    "how old {q} was",
    "we (look|go) {d} years back\n{q} was {d} years younger\neveryone was {d} years younger",
)
_AGE_SUM = step_kind(
    "the (sum|total) (of their ages |)is {v}\ntheir ages (add up|come|sum) to {v}\n"
    "together they are {v}( years old|)\n{p} and {q} are {v} years old together\n"
    "that makes {v} (together|in total)",
    "the sum (of their ages|of the ages|)\ntheir (combined|total) age\nthe total (age|)",
    "{p} is {x} and {q} is {y}\nwe (add|want) both ages\n{q} is {y}\n{p} is {x}",
)
_AGE_ASKS = {
    "now": template(
        "how old is {q}( now|)?\nwhat is {q}'s age( now|)?\n(find|work out) {q}'s age.\n"
        "what is the age of {q}?\nhow many years old is {q}?\ntell me how old {q} is."
    ),
    "later": template(
        "how old will {q} be in {d} years?\nin {d} years, how old will {q} be?\n"
        "what will {q}'s age be in {d} years?\n(find|work out) {q}'s age in {d} years.\n"
        "{d} years from now, how old will {q} be?\nhow old will {q} be {d} years from now?"
    ),
    "ago": template(
        "how old was {q} {d} years ago?\n{d} years ago, how old was {q}?\n"
        "what was {q}'s age {d} years ago?\n(find|work out) {q}'s age {d} years ago.\n"
        "how many years old was {q} {d} years ago?\nwhat age was {q} {d} years ago?"
    ),
    "sum": template(
        "what is the sum of (their ages|the ages of {p} and {q})?\n"
        "how old are {p} and {q} together?\nwhat do their ages add up to?\n"
        "(find|work out) the sum of {p}'s and {q}'s ages.\nwhat is their total age?\n"
        "if we add the ages of {p} and {q}, what do we get?"
    ),
}
_AGE_GOALS = {
    "now": template("how old {q} is\n{q}'s age\nthe age of {q}"),
    "later": template("how old {q} will be\n{q}'s age in {d} years\nthe age of {q} in {d} years"),
    "ago": template("how old {q} was\n{q}'s age {d} years ago\nthe age of {q} {d} years ago"),
    "sum": template("the sum of their ages\nhow old they are together\ntheir total age"),
}
_AGE_FACT = template(
    "{first} is {n} (years old|)\n{first}'s age is {n}\nthe known age is {n}\n{first} is {n} now"
)


def build_ages(rng: random.Random) -> Problem:
    """An age, one or two ages from it, then a later or earlier age or a sum."""
    count = rng.choices((1, 2, 3), (25, 50, 25))[0]
    people = [name for name, _ in rng.sample(NAMES, 3)]
    ages = [rng.randint(5, 45)]
    slots = {"first": people[0], "p": people[0], "n": str(ages[0])}
    sentences, steps = [expand(_AGE_START, rng, slots)], []
    numbers, structure = [ages[0]], ""
    for position in range(1 if count < 3 else rng.choice((1, 2, 2))):
        p, q, age = people[position], people[position + 1], ages[position]
        sign, operand = _age_relation(rng, age)
        word = _FACTOR_WORDS[operand] if sign == "*" else ""
        kin = rng.choice(("cousin", "neighbor", "friend", "teammate"))
        slots.update(p=p, q=q, k=word, d=str(operand), kin=kin)
        sentences.append(expand(_AGE_RELATION[sign], rng, slots))
        needs = (position - 1,) if position else ()
        relation = {"p": p, "q": q, "k": word, "d": str(operand)}
        steps.append(make_step(_AGE_KINDS[sign], age, sign, operand, "", needs, **relation))
        ages.append(steps[-1].result)
        numbers.append(operand)
        structure += sign
    asked = "now"
    while len(steps) < count:
        needs, age = (len(steps) - 1,), steps[-1].result
        # a sum can only be asked of today's ages, a later age can follow a second relation
        if asked == "now" and (rng.random() < 0.5 or count - len(steps) == 2):
            asked = "sum"
            left, right = ages[-2:]
            extra = {"x": str(ages[-2]), "y": str(ages[-1])}
            steps.append(make_step(_AGE_SUM, left, "+", right, "", needs, **extra))
            if len(steps) < count:
                third = rng.randint(5, 40)
                extra = {"r": people[2], "z": str(third)}
                slots.update(extra)
                sentences.append(expand(_AGE_THIRD, rng, slots))
                steps.append(
                    make_step(_AGE_SUM_THREE, age + ages[-2], "+", third, "", (1,), **extra)
                )
                numbers.append(third)
                asked = "sum_three"
        else:
            asked = "ago" if rng.random() < 0.4 and age > 8 else "later"
            shift = rng.randint(2, min(20, age - 3) if asked == "ago" else 20)
            kind, sign = (_AGE_AGO, "-") if asked == "ago" else (_AGE_LATER, "+")
            slots["d"] = str(shift)
            steps.append(make_step(kind, age, sign, shift, "", needs, d=str(shift)))
            numbers.append(shift)
    sentences.append(expand(_AGE_ASKS[asked], rng, slots))
    return Problem(
        structure + asked, tuple(numbers), " ".join(sentences), slots, tuple(steps),
        _AGE_GOALS[asked], (_AGE_FACT,),
    )  # fmt: skip


def _age_relation(rng: random.Random, age: int) -> tuple[str, int]:
    """Sign and operand of a second age that stays between 3 and 75."""
    draw = rng.random()
    if draw < 0.2 and age <= 25:
        return "*", rng.randint(2, 3 if age > 15 else 4)
    if draw < 0.55 and age >= 8:
        return "-", rng.randint(2, min(25, age - 4))
    return "+", rng.randint(2, 25)


_AGE_THIRD = template(
    "{r} is {z} years old.\n{r} is {z} (now|today|this year).\n{r}'s age is {z}.\n"
    "and {r} has just turned {z}.\ntheir friend {r} is {z} years old.\n"
    "then there is {r}, who is {z}."
)
_AGE_SUM_THREE = step_kind(
    "the (sum|total) of all (three |)ages is {v}\n(together, |)all three are {v} years old\n"
    "the three ages (add up|come) to {v}\nwith {r}, the (sum|total) is {v}\n"
    "that makes {v} (together|in total)\nthe (sum|total) (grows|rises|goes up) to {v}",
    "the sum of (all |)three ages\nthe (full|whole) (sum|total)\nthe sum with {r}\n"
    "the total for all three",
    "{r} is {z}\n{r}'s {z} years (are|come) on top\n{r} counts, too\nwe (still |)add {r}'s age",
)
_AGE_ASKS["sum_three"] = template(
    "what is the sum of (all three ages|the ages of {p}, {q} and {r})?\n"
    "how old are all three together?\nwhat do the three ages add up to?\n"
    "(find|work out) the sum of all three ages.\nwhat is the total age of {p}, {q} and {r}?\n"
    "if we add the three ages, what do we get?"
)
_AGE_GOALS["sum_three"] = template(
    "the sum of (the|all) three ages\nhow old (they|all three) are together\nthe total of the ages"
)

FAMILIES = {"compare": build_compare, "ages": build_ages}
