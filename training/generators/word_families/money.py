"""Shopping (prices, counts, change) and savings (wages, goals)."""

from __future__ import annotations

import random

from training.generators.vocabulary import FOODS, OBJECTS
from training.generators.word_problem import Problem, make_step, person_slots, step_kind, template
from training.generators.wording import expand

_PRICE = template(
    """
    {who} (buys|gets|picks) {n} {things} for ${c} each( at the {place}|).
    a {thing} costs ${c}, and {who} (buys|takes|gets) {n} of them.
    {who} (goes to the {place} and |)buys {n} {things} at ${c} (each|apiece).
    (at the {place}, |){things} cost ${c} each. {who} buys {n} {things}.
    {who} needs {n} {things}. each (one |)costs ${c}.
    the price of one {thing} is ${c}. {who} (takes|orders|wants) {n}.
    """
)
_OTHER = template(
    """
    {she} also (buys|gets|takes) a {other} for ${e}.
    {she} (buys|gets) a {other} as well, which costs ${e}.
    a {other} for ${e} goes into {her} (bag|cart), too.
    {she} (adds|takes) a {other} that costs ${e}.
    then {she} (pays|spends) ${e} on a {other}.
    {she} spends (another |)${e} on a {other}.
    """
)
_WALLET = template(
    """
    {she} has ${w}( in {her} (pocket|wallet)|).
    {she} (came|went out|started) with ${w}.
    {her} wallet (holds|has) ${w}.
    {she} (pays with|hands over|gives the seller) ${w}.
    {she} (brings|takes) ${w} along.
    {her} {relative} gave {him} ${w} to spend.
    """
)
_SPECIALS = {
    "cost": template(
        """
        how much (money |)does {sub} (pay|spend)( in total| altogether| in all|)?
        what is the total cost?
        how many dollars does {who} (spend|pay)( in total|)?
        how much does (it all|everything) cost?
        (find|work out) the total price {sub} pays.
        what does {who} have to pay( in all|)?
        """
    ),
    "left": template(
        """
        how much (money |)does {sub} have left?
        how many dollars (are left|does {sub} have left|remain)?
        how much (change|money) does {sub} (get back|have in the end)?
        how much of the ${w} (is left|remains)?
        (find|work out) how much money is left (for {him}|in the end).
        what is left of {her} money?
        """
    ),
}
_GOALS = {
    "cost": template(
        "the total (cost|price)\nhow much {sub} (pays|spends)( in total|)\nwhat everything costs"
    ),
    "left": template(
        "how much (money |)is left\nhow much (money |){sub} has left\nthe money that is left"
    ),
}
_FACT = template(
    "one {thing} costs ${c}\n{sub} (buys|gets|takes) {n} {things}\neach {thing} is ${c}\n"
    "(there are|we count) {n} {things} at ${c} each"
)

COST = step_kind(
    """
    the {things} cost {v}
    {sub} (pays|spends) {v} (for|on) the {things}
    {n} {things} cost {v}
    (it|that) costs {v}( for the {things}|)
    the {things} come to {v}
    for the {things} {she} (pays|needs) {v}
    """,
    """
    the (cost|price) of the {things}
    the (cost|price) of {n} {things}
    what the {things} cost
    the money for the {things}
    """,
    """
    each (one |)costs ${c}
    {sub} (buys|takes) {n} {things}
    one {thing} costs ${c}
    there are {n} of them
    """,
)
TOTAL = step_kind(
    """
    {sub} (pays|spends) {v}( in total| altogether| in all|)
    the (total|whole bill|bill) is {v}
    (everything|it all|all of it) costs {v}
    with the {other}, (it is|that makes|{she} pays) {v}
    the (total|bill) (comes to|rises to|grows to) {v}
    that makes {v} (together|in total|altogether)
    """,
    """
    the total( cost| price|)
    the (whole|full) (price|cost|bill)
    what {sub} (pays|spends) in total
    the cost of everything
    """,
    """
    the {other} costs ${e}
    (there is|we have|we count) the {other}, too
    {she} also (buys|gets) the {other}
    ${e} (more |)(goes|is) for the {other}
    """,
)
LEFT = step_kind(
    """
    {sub} (has|keeps) {v}( left| now|)
    {sub} (has|is left with) {v}
    {v} (remain|are left|stay in {her} wallet)
    the (rest|change) is {v}
    {she} (gets back|keeps|still has) {v}
    what is left is {v}
    """,
    """
    the (change|rest)
    the money (left|that is left|that remains)
    what (is left|remains)( of ${w}|)
    {her} remaining money
    """,
    """
    {she} (has|had|came with) ${w}
    {she} (pays|spends) ${b}
    ${b} (is|are) (gone|spent)
    {she} pays (from|with) ${w}
    """,
)


def build_shop(rng: random.Random) -> Problem:
    """price * count, then perhaps another purchase, then perhaps the money left."""
    structure = rng.choices(("c", "co", "cl", "col"), (25, 25, 20, 30))[0]
    one, many = rng.choice(OBJECTS if rng.random() < 0.6 else FOODS)
    count, price = rng.randint(2, 9), rng.randint(2, 12)
    if rng.random() < 0.15:
        count = rng.randint(10, 14)
        price = rng.randint(2, 9)
    slots = {**person_slots(rng), "thing": one, "things": many, "n": str(count), "c": str(price)}
    left, right = count, price
    steps = [make_step(COST, left, "*", right, "$")]
    numbers, sentences, value = [count, price], [expand(_PRICE, rng, slots)], count * price
    if "o" in structure:
        extra = rng.randint(2, 30)
        slots["other"] = rng.choice(
            ("book", "cake", "game", "hat", "lamp", "toy", "map", "kite", "drink", "mug", "belt")
        )
        slots["e"] = str(extra)
        sentences.append(expand(_OTHER, rng, slots))
        steps.append(make_step(TOTAL, value, "+", extra, "$", (0,)))
        numbers.append(extra)
        value += extra
    asked = "cost"
    if "l" in structure:
        asked = "left"
        wallet = value + rng.randint(2, 40)
        if rng.random() < 0.4 and value < 95:
            wallet = next(note for note in (20, 50, 100) if note > value + 1)
        slots["w"] = str(wallet)
        sentences.insert(rng.choice((1, len(sentences))), expand(_WALLET, rng, slots))
        steps.append(make_step(LEFT, wallet, "-", value, "$", (len(steps) - 1,)))
        numbers.append(wallet)
    sentences.append(expand(_SPECIALS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps),
        _GOALS[asked], (_FACT,),
    )  # fmt: skip


_EARN = template(
    """
    {who} (earns|makes|gets) ${c} (a|per|every|each) {period}( for {job}|).
    {who} (gets|is paid) ${c} (a|per|each) {period} for {job}.
    {who} (saves|puts aside) ${c} (a|per|every|each) {period}.
    every {period}, {who} (saves|earns|puts aside) ${c}.
    (for {job}, |){who} (earns|gets|makes) ${c} (each|every) {period}.
    {who}'s job, {job}, (pays|brings in) ${c} (a|per|each) {period}.
    """
)
_DURATION = template(
    """
    {she} does (this|so) for {n} {periods}.
    {she} (keeps going|keeps this up|goes on) for {n} {periods}.
    this (goes on|lasts) for {n} {periods}.
    {she} does not stop for {n} {periods}.
    {n} {periods} (go by|pass).
    {she} does it for {n} {periods} (in a row|).
    """
)
_START = template(
    """
    {she} already has ${s}( saved|).
    {she} (began|started) with ${s}.
    before that, {she} (had|owned) ${s}.
    there were already ${s} in {her} (piggy bank|account|savings).
    {her} {relative} (adds|gives {him}) (another |)${s}.
    {she} also (gets|has) ${s} from {her} {relative}.
    """
)
_SPEND = template(
    """
    then {she} spends ${s} on a {other}.
    {she} (spends|pays) ${s} for a {other}.
    a {other} then costs {him} ${s}.
    after that, {she} (buys|gets) a {other} for ${s}.
    {she} gives ${s} of the money to {her} {relative}.
    ${s} of it (is spent on|goes for) a {other}.
    """
)
_TARGET = template(
    """
    {she} (wants|plans|hopes) to buy a {other} (for|that costs) ${t}.
    {she} (needs|is saving) ${t} for a {other}.
    {her} (goal|target) is ${t}.
    a {other} {she} wants costs ${t}.
    {she} dreams of a {other} that costs ${t}.
    {she} needs ${t} in (total|all).
    """
)
_SAVING_ASKS = {
    "have": template(
        """
        how much (money |)does {sub} have (then|now|in the end|after that)?
        how many dollars does {sub} have (then|now|in the end)?
        how much money is there (in the end|after all)?
        with how much money does {who} end up?
        (find|work out) how much money {sub} has (then|in the end).
        what is the amount {who} has (now|in the end)?
        """
    ),
    "need": template(
        """
        how much (more |)(money |)does {sub} still need?
        how many (more |)dollars are (still |)missing?
        how much money is {sub} (still |)short of?
        how many more dollars does {sub} need?
        how far (away |)from the goal is {sub}, in dollars?
        (find|work out) how much more {sub} needs.
        """
    ),
    "time": template(
        """
        how many {periods} does (it|that) take( {him}|)?
        after how many {periods} does {sub} have enough?
        how many {periods} (must|does) {sub} (wait|need)?
        how long does it take, in {periods}?
        (find|work out) the number of {periods} {sub} needs.
        in how many {periods} will {who} have enough?
        """
    ),
}
_SAVING_GOALS = {
    "have": template(
        "how much (money |){sub} has (then|in the end|)\nthe money {sub} has\nthe final amount"
    ),
    "need": template("how much (more |)is missing\nhow much more {sub} needs\nthe missing amount"),
    "time": template(
        "how many {periods} it takes\nthe number of {periods}\nhow long it takes (in {periods}|)"
    ),
}
_SAVING_FACT = template(
    "{sub} (earns|gets|makes|saves) ${c} (a|per|each) {period}\n"
    "(each|one|every) {period} brings ${c}\n"
    "the amount (per|for one) {period} is ${c}"
)
EARNED = step_kind(
    """
    {sub} (earns|saves|gets|makes) {v}( in {n} {periods}| in that time|)
    in {n} {periods}, {she} (gets|makes|has) {v}
    {n} {periods} (bring|give|make|come to) {v}
    (that|this|it) is {v}( in {n} {periods}| for that time|)
    over {n} {periods} it (is|makes|comes to) {v}
    the (money|pay) for {n} {periods} is {v}
    """,
    """
    the (money|amount|pay) (for|of|from) {n} {periods}
    the money from (that time|those {periods})
    what {sub} (gets|makes) in {n} {periods}
    the amount (earned|saved)
    """,
    """
    each {period} (brings|gives) ${c}
    there are {n} {periods}
    {she} gets ${c} each {period}
    it goes on for {n} {periods}
    """,
)
PLUS = step_kind(
    """
    {sub} (has|owns) {v} (now|then|in total|altogether|)
    the (total|sum|amount) is {v}
    (together|altogether|in total), {she} has {v}
    with the other ${s}, (it is|that makes|{she} has) {v}
    (it|that) (adds up|comes) to {v}
    {she} (ends up with|reaches|gets to) {v}
    """,
    """
    the (total|sum)( amount|)
    the money (in total|altogether)
    all {her} money
    what {sub} has (in total|altogether|then)
    """,
    """
    there are ${s} (more|on top)
    {she} (has|gets) ${s} (more|as well)
    the other ${s} (count|counts) too
    we (must |)(include|count) the ${s}
    """,
)
MINUS = step_kind(
    """
    {sub} (has|keeps) {v} (left|now|)
    {sub} (has|is left with) {v}
    {v} (remain|are left|stay)
    the rest is {v}
    after paying, {she} (has|keeps) {v}
    what is left is {v}
    """,
    """
    the (rest|remaining money)
    the money (left|that is left|that remains)
    what (is left|remains)
    {her} money (after|without) that
    """,
    """
    ${s} (is|are) (gone|spent|given away)
    {she} (spends|gives up|pays) ${s}
    we take away ${s}
    ${s} (leaves|goes)
    """,
)
MISSING = step_kind(
    """
    {sub} (still |)needs {v}( more|)
    {v} (are|is) (still |)missing
    the missing (amount|part) is {v}
    (there is|{she} has) {v} (still |)to go
    {she} is {v} short
    the gap is {v}
    """,
    """
    the missing (amount|money|part)
    what is (still |)missing
    what {sub} still needs
    the (gap|distance to the goal|rest)
    """,
    """
    {she} (needs|wants) ${t}
    {she} (already |)has ${b}
    the (goal|target) is ${t}
    ${b} (is|are) already there
    """,
)
PERIODS = step_kind(
    """
    it takes {v}
    {sub} (needs|has to wait|must wait|works) {v}
    (that|this|it) (takes|means|will take) {v}
    the (time|number of {periods}) is {v}
    after {v} {she} has enough
    {she} is done in {v}
    """,
    """
    the (time|number of {periods})( needed|)
    the time {she} needs
    the number of {periods} it takes
    the (waiting |)time
    """,
    """
    each {period} brings ${c}
    {she} gets ${c} each {period}
    ${c} comes in each {period}
    one {period} gives ${c}
    """,
)
_JOBS = (
    "walking dogs", "cleaning", "babysitting", "mowing lawns", "washing cars", "selling juice",
    "tutoring", "delivering papers", "gardening", "painting fences", "fixing bikes", "baking",
)  # fmt: skip
_WISHES = ("bike", "phone", "camera", "guitar", "tent", "jacket", "skateboard", "desk", "radio")


def build_savings(rng: random.Random) -> Problem:
    """Wage times periods, then more, less or a goal; or a goal, what is missing, and how long."""
    structures = ("e", "e+", "e-", "eg", "e+g", "e+-", "mt", "t")
    structure = rng.choices(structures, (15, 15, 12, 14, 12, 12, 14, 6))[0]
    period = rng.choice(("day", "week", "month", "hour"))
    rate, count = rng.randint(2, 15), rng.randint(2, 9)
    slots = {
        **person_slots(rng), "period": period, "periods": period + "s", "c": str(rate),
        "n": str(count), "job": rng.choice(_JOBS), "other": rng.choice(_WISHES),
    }  # fmt: skip
    numbers, value, steps = [rate, count], rate * count, []
    sentences = [expand(_EARN, rng, slots)]
    if structure in ("mt", "t"):
        rate = rng.randint(2, 9)
        return _build_waiting(rng, slots, structure, rate, count)
    sentences.append(expand(_DURATION, rng, slots))
    left, right = rate, count
    steps.append(make_step(EARNED, left, "*", right, "$"))
    asked = "have"
    for sign in structure[1:]:
        needs = (len(steps) - 1,)
        if sign == "+":
            amount = rng.randint(2, 60)
            steps.append(make_step(PLUS, value, "+", amount, "$", needs, s=str(amount)))
            sentences.append(expand(_START, rng, {**slots, "s": str(amount)}))
        elif sign == "-":
            amount = rng.randint(2, max(2, min(60, value - 2)))
            steps.append(make_step(MINUS, value, "-", amount, "$", needs, s=str(amount)))
            sentences.append(expand(_SPEND, rng, {**slots, "s": str(amount)}))
        else:
            amount = value + rng.randint(3, 60)
            slots["t"] = str(amount)
            steps.append(make_step(MISSING, amount, "-", value, "$", needs))
            sentences.append(expand(_TARGET, rng, slots))
            asked = "need"
        numbers.append(amount)
        value = steps[-1].result
    sentences.append(expand(_SAVING_ASKS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps),
        _SAVING_GOALS[asked], (_SAVING_FACT,),
    )  # fmt: skip


def _build_waiting(rng, slots: dict, structure: str, rate: int, count: int) -> Problem:
    """A goal, perhaps some money already there, and how many periods the rest takes."""
    missing = rate * count
    have = rng.randint(3, 60) if structure == "mt" else 0
    slots.update(c=str(rate), t=str(missing + have), s=str(have))
    sentences, steps = [expand(_EARN, rng, slots), expand(_TARGET, rng, slots)], []
    if have:
        has = f"{slots['she']} already has ${have}."
        sentences.append(expand(has, rng, slots))
        steps.append(make_step(MISSING, missing + have, "-", have, "$"))
    steps.append(make_step(PERIODS, missing, "/", rate, slots["periods"], (0,) if have else ()))
    sentences.append(expand(_SAVING_ASKS["time"], rng, slots))
    return Problem(
        structure, (rate, count, have), " ".join(sentences), slots, tuple(steps),
        _SAVING_GOALS["time"], (_SAVING_FACT,),
    )  # fmt: skip


FAMILIES = {"shop": build_shop, "savings": build_savings}
