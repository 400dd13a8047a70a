"""Two or three kinds of things: totals, differences and rests, some with a number too many."""

from __future__ import annotations

import random

from training.generators.vocabulary import ANIMALS, COLORS, FOODS, OBJECTS
from training.generators.word_problem import Problem, make_step, person_slots, step_kind, template
from training.generators.wording import expand

_HAVE = template(
    """
    {who} has {x} {p} and {y} {q}.
    there are {x} {p} and {y} {q} (in {who}'s shop|in {who}'s yard|in {who}'s pictures).
    {who} (counts|sees|finds) {x} {p} and {y} {q}( at the {place}|).
    at the {place}, {who} (sees|counts) {x} {p} and {y} {q}.
    {who} (buys|sells|draws) {x} {p} and {y} {q}.
    on {who}'s list are {x} {p} and {y} {q}.
    """
)
_NOISE = template(
    """
    there are also {z} {others}.
    {her} {relative} has {z} {others}.
    {who} is in room {z}.
    {she} is {z} years old.
    {z} people (watch|wait) there, too.
    {her} {relative} is {z} years old.
    """
)
_THIRD = template(
    """
    there are {e} {r}, too.
    {she} also (has|sees|counts|finds) {e} {r}.
    then {she} (finds|counts|adds) {e} {r}.
    {e} {r} come on top.
    and there are {e} {r}.
    {her} {relative} adds {e} {r}.
    """
)
_ASK_GAP = template(
    """
    how many more {p} than {q} (are there|does {sub} have)?
    {who} (wants to know|asks) how many more {p} than {q} there are. what is the answer?
    how many fewer {q} than {p} (are there|does {sub} have)?
    by how many are there more {p} than {q}?
    find the difference between the number of {p} and the number of {q}.
    how many more {q} are needed to have as many {q} as {p}?
    """
)
_ASK_TWO = template(
    """
    how many {p} and {q} (are there|does {sub} have) (in total|in all|altogether|together)?
    how many is that (in total|in all|altogether)?
    what is the total number of {p} and {q}?
    (in total|altogether|in all), how many {p} and {q} are there?
    (find|work out) how many {p} and {q} there are (together|in all).
    if we count {p} and {q} together, how many are there?
    """
)
_ASK_THREE = template(
    """
    how many (is that|are there) (in total|in all|altogether)?
    what is the total number of {p}, {q} and {r}?
    how many {p}, {q} and {r} are there (in total|in all|altogether)?
    (in total|altogether), how many {p}, {q} and {r} are there?
    (find|work out) how many there are in all.
    counting all three kinds, how many are there?
    """
)
_ASK_SET_MORE = template(
    """
    how many more {p} and {q} together are there than {r}?
    there are how many more {p} and {q} together than {r}?
    how many fewer {r} are there than {p} and {q} together?
    compared with the {r}, how many more {p} and {q} are there together?
    (find|work out) how many more {p} and {q} (together |in all )there are than {r}.
    by how many are there more {p} and {q} together than {r}?
    """
)
_GOAL_GAP = template("how many more {p} there are\nthe difference\nhow many more {p} than {q}")
_GOAL_SUM = template("how many (that is|there are) in (all|total)\nthe total\nthe whole number")
_GOAL_REST = template("how many more there are\nthe difference\nhow many more (than {r}|)")
_FACT = template(
    "there are {x} {p}\nthere are {y} {q}\nthere are {x} {p} and {y} {q}\n"
    "(the|our) numbers are {x} and {y}"
)
GAP = step_kind(
    """
    there are {v} more( {p}|)
    the difference is {v}
    {p} are ahead by {v}
    the {p} are {v} more( than the {q}|)
    the {q} are {v} behind
    (it|that) (is|makes) {v} more
    """,
    """
    the difference
    the (gap|difference) between {p} and {q}
    the (extra number|number) of {p} (over|above) {q}
    how many more {p} there are
    """,
    """
    there are {x} {p} and {y} {q}
    there are more {p} than {q}
    we compare {p} (and|with) {q}
    (there are|we have) {y} {q}
    """,
)
SUM = step_kind(
    """
    there are {v} (in total|in all|altogether|together)
    the (total|sum) is {v}
    (together|altogether|in total|in all), (there are|that makes|it is) {v}
    {p} and {q} (make|come to|are) {v}( together|)
    (that|it) (makes|comes to|adds up to) {v}
    both kinds (make|come to|add up to) {v}
    """,
    """
    the (total|sum)( of {p} and {q}|)
    the number of {p} and {q}
    the count of {p} and {q}
    the count of both kinds
    """,
    """
    there are {x} {p} and {y} {q}
    we (count|need|want) both kinds
    the {p} and the {q} (count|matter)
    {p} and {q} both count
    """,
)
SUM_THREE = step_kind(
    """
    there are {v} (in total|in all|altogether|now)
    the (total|sum|full number) is {v}
    (together|altogether|in total|in all), (there are|that makes|it is) {v}
    with the {r}, (it is|there are|that makes) {v}
    all three kinds (make|come to|add up to) {v}
    the (number|total) (grows|rises|goes up) to {v}
    """,
    """
    the (total|sum)( of all three|)
    the (full|whole|total) number
    the count of all three kinds
    the number with the {r}
    """,
    """
    there are {e} {r}( as well|)
    the {r} (still |)(count|come|are added)
    we (still |)(need|add|have) the {r}
    {e} {r} are (still |)missing
    """,
)
REST = step_kind(
    """
    there are {v} more
    the difference is {v}
    {p} and {q} are ahead by {v}
    the {r} are {v} behind
    (it|that) (is|makes) {v} more
    the gap is {v}
    """,
    """
    the difference
    the (gap|difference) (to|from) the {r}
    how many more there are
    the number above the {r}
    """,
    """
    there are (only |){e} {r}
    we compare with the {r}
    the {r} are {e}
    the number of {r} is {e}
    """,
)


def _kinds(rng: random.Random) -> tuple[list[str], str]:
    """Three plural nouns of one sort (colors of one thing, animals or things), and their unit."""
    draw = rng.random()
    if draw < 0.35:
        things = rng.choice(OBJECTS)[1]
        return [f"{color} {things}" for color in rng.sample(COLORS, 3)], things
    pool = ANIMALS if draw < 0.5 else FOODS if draw < 0.65 else OBJECTS
    kinds = [many for _, many in rng.sample(pool, 3)]
    while len({kind.split()[-1] for kind in kinds}) < 3:
        # "cards" and "poem cards" would overlap
        kinds = [many for _, many in rng.sample(pool, 3)]
    return kinds, "animals" if pool is ANIMALS else "items"


def build_kinds(rng: random.Random) -> Problem:
    """SVAMP-like: two kinds, sum or difference; or three kinds in two steps."""
    structure = rng.choices(("d", "s", "ss", "sd"), (28, 22, 28, 22))[0]
    (p, q, r), unit = _kinds(rng)
    x, y = rng.randint(4, 80), rng.randint(3, 60)
    if structure == "d" and x - y < 2:
        x = y + rng.randint(2, 30)
    slots = {**person_slots(rng), "p": p, "q": q, "r": r, "x": str(x), "y": str(y)}
    sentences, numbers = [expand(_HAVE, rng, slots)], [x, y]
    if structure == "d":
        steps, ask, goal = [make_step(GAP, x, "-", y, p)], _ASK_GAP, _GOAL_GAP
    else:
        left, right = x, y
        steps, ask, goal = [make_step(SUM, left, "+", right, unit)], _ASK_TWO, _GOAL_SUM
    if len(structure) == 1 and rng.random() < 0.5:
        slots.update(z=str(rng.randint(6, 60)), others=r)
        sentences.append(expand(_NOISE, rng, slots))
        if ask is _ASK_TWO:
            ask = _ASK_TWO_NAMED
    elif structure == "ss":
        extra = rng.randint(2, 40)
        slots["e"] = str(extra)
        steps.append(make_step(SUM_THREE, x + y, "+", extra, unit, (0,)))
        ask = _ASK_THREE
    elif structure == "sd":
        extra = rng.randint(2, x + y - 3)
        slots["e"] = str(extra)
        steps.append(make_step(REST, x + y, "-", extra, unit, (0,)))
        ask, goal = _ASK_SET_MORE, _GOAL_REST
    if len(structure) == 2:
        numbers.append(extra)
        sentences.append(expand(_THIRD, rng, slots))
    sentences.append(expand(ask, rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), goal, (_FACT,)
    )


# with a number too many in the text, the kinds that count are named
_ASK_TWO_NAMED = template(
    """
    how many {p} and {q} (are there|does {sub} have) (in total|in all|altogether|together)?
    what is the total number of {p} and {q}?
    (in total|altogether|in all), how many {p} and {q} are there?
    (find|work out) how many {p} and {q} there are (together|in all).
    if we count {p} and {q} together, how many are there?
    how many is that for {p} and {q} together?
    """
)

FAMILIES = {"kinds": build_kinds}
