"""Equal groups and sharing, and parts of an amount (a half, a quarter, 10 percent)."""

from __future__ import annotations

import random

from training.generators.vocabulary import COLORS, CONTAINERS
from training.generators.word_problem import (
    Problem,
    make_step,
    person_slots,
    step_kind,
    template,
    thing_slots,
)
from training.generators.wording import expand

_GROUPS = template(
    """
    {who} has {n} {boxes} with {k} {things} in each.
    {who} sees {n} {boxes}, and each (one |)(holds|contains|has) {k} {things}.
    {who} (fills|packs|buys) {n} {boxes} with {k} {things} each.
    each {box} (holds|contains|has) {k} {things}. {who} has {n} {boxes}.
    {n} {boxes} (stand|are) in {who}'s (room|shop|garage), each with {k} {things}.
    {who} (gets|orders|carries) {n} {boxes} of {k} {things} each.
    """
)
_LOOSE = template(
    """
    {she} also has {e} (loose |single |){things}( outside|).
    there are {e} (more|other) {things} (on the table|outside|lying around).
    {her} {relative} (brings|adds|gives {him}) {e} more {things}.
    another {e} {things} (are|lie) on the (table|floor).
    {e} more {things} are not in any {box}.
    {she} finds {e} more {things} at the {place}.
    """
)
_TAKEN = template(
    """
    {she} (gives away|sells|uses|loses) {e} of the {things}.
    {her} {relative} (takes|gets|needs) {e} of the {things}.
    {e} of the {things} are (broken|old|bad|lost) and thrown out.
    then {e} {things} are (sold|used|given away).
    {she} gives {e} (of the {things}|{things}) to {her} {relative}.
    {e} of the {things} (get lost|break|are sold at the {place}).
    """
)
_SHARE_START = template(
    """
    {who} has {t} {things}.
    there are {t} {things} on {who}'s table.
    {who} (counts|collects|brings) {t} {things}.
    {who} (gets|buys|finds) {t} {things} at the {place}.
    {who} (made|found|picked out) {t} {things}.
    in {who}'s (bag|box|room) there are {t} {things}.
    """
)
_SHARE = template(
    """
    {she} (shares|splits|divides) (them|the {things}) (equally|evenly) (among|between) {n} {people}.
    {n} {people} share all the {things} (equally|evenly).
    all the {things} are (shared out|divided|handed out) (equally|evenly) (among|to) {n} {people}.
    {she} gives all of (them|the {things}) to {n} {people}, each the same number.
    {n} {people} get the same number of {things}, and none are left.
    {she} hands (them|the {things}) out to {n} {people}, the same number to each.
    """
)
_PACK = template(
    """
    {she} (packs|puts|sorts) all the {things} into {boxes}, {k} in each.
    {she} (packs|puts) {k} {things} into each {box}, until none are left.
    each {box} (holds|has room for|takes) {k} {things}, and all the {things} are packed.
    all the {things} go into {boxes} (of|with room for) {k}.
    all of (them|the {things}) are packed in {boxes} of {k} each.
    {she} fills {boxes} with {k} {things} each, using all the {things}.
    """
)
_ASKS = {
    "all": template(
        """
        how many {things} (are there|does {sub} have) (in total|in all|altogether|now)?
        how many {things} is that (in total|in all|altogether)?
        what is the total number of {things}?
        (in total|in all|altogether), how many {things} (are there|does {sub} have)?
        (find|work out) (how many {things} there are|the total number of {things}).
        how many {things} does {who} have (now|in the end)?
        """
    ),
    "left": template(
        """
        how many {things} are left?
        how many {things} (remain|are still there|does {sub} have left)?
        how many {things} does {sub} have (now|in the end)?
        what number of {things} is left?
        (find|work out) how many {things} are left.
        in the end, how many {things} are there?
        """
    ),
    "each": template(
        """
        how many {things} does each (of the {people}|of them|person) (get|receive)?
        how many {things} (are there for|go to) each (of the {people}|person)?
        what is the share of (one|each) person?
        how many {things} does (every one|each one) of the {people} get?
        (find|work out) how many {things} each (of them |person )gets.
        each person gets how many {things}?
        """
    ),
    "boxes": template(
        """
        how many {boxes} (are needed|does {sub} need|are there|are filled)?
        how many {boxes} does {sub} (fill|use)?
        what number of {boxes} (is needed|does {sub} need)?
        how many {boxes} does that make?
        (find|work out) (how many {boxes} there are|the number of {boxes}).
        into how many {boxes} do the {things} go?
        """
    ),
}
_GOALS = {
    "all": template("how many {things} there are\nthe total( number of {things}|)"),
    "left": template("how many {things} are left\nhow many remain\nthe number (of {things} |)left"),
    "each": template("how many (each one|each|one person) gets\nthe share of each( person|)"),
    "boxes": template("how many {boxes} (there are|are needed)\nthe number of {boxes}"),
}
_GROUP_FACT = template(
    "there are {n} {boxes}( with {k} {things} each|)\neach {box} (has|holds) {k} {things}\n"
    "{k} {things} are in each {box}\n{n} {boxes} are (full|there)"
)
_SHARE_FACT = template(
    "there are {t} {things}\n{sub} has {t} {things}\nall {t} {things} are used\nwe have {t}"
)
INSIDE = step_kind(
    """
    the {boxes} (hold|contain|have) {v}
    {n} {boxes} (hold|contain|have|make) {v}
    there are {v} in the {boxes}
    (that|this|it) (is|makes) {v}
    in the {boxes} (are|there are|we find) {v}
    {sub} has {v} in {n} {boxes}
    """,
    """
    the number (of {things} |)in the {boxes}
    the count (in|of) (the|all|{n}) {boxes}
    what the {boxes} hold
    the number in (the|all) {boxes}
    """,
    """
    each {box} (has|holds) {k}
    there are {n} {boxes}
    {k} are in each {box}
    we have {n} groups of {k}
    """,
)
_TOTAL_CLAUSES = """
    (together|altogether|in total|in all), (there are|that makes|{sub} has) {v}
    the (total|number|sum) is {v}
    there are {v} (in total|in all|altogether|now)
    (it|that) (makes|adds up to|comes to|is) {v}( in total| in all|)
    {sub} has {v}( now| in total|)
    the (total|number) (grows|rises|goes up) to {v}
    """
WITH_LOOSE = step_kind(
    _TOTAL_CLAUSES,
    """
    the (total|sum)
    the (total|full|whole) number( of {things}|)
    the number (in total|in all|altogether)
    what {sub} has (in total|in all)
    """,
    """
    there are {e} more
    {e} (more |)(come on top|are added)
    the other {e} count, too
    we (must |)(include|add) the {e}
    """,
)
WITHOUT = step_kind(
    """
    {v} (are left|remain|stay)
    there are {v} (left|now)
    {sub} (has|keeps|still has) {v}( left|)
    the rest is {v}
    (it|that) leaves {v}
    {sub} is left with {v}
    """,
    """
    the (rest|remaining number)
    the number (left|of {things} left|that is left)
    what (is left|remains)
    the count of {things} left
    the number that remains
    """,
    """
    {e} (are gone|are taken away|go away)
    {e} (are|were) taken out
    {e} of them are gone
    we (lose|take away) {e}
    """,
)
EACH = step_kind(
    """
    each (one|person|of them) gets {v}
    (every|each) person (gets|receives|has) {v}
    there are {v} for each (one|person|)
    the share is {v}( each|)
    (it|that) (is|makes) {v} (each|per person|for each)
    {v} go to each (one|person)
    """,
    """
    (the|each) share
    the (share|part|number) (of|for) each (one|person)
    what each (one|person) gets
    the number (per|for one) person
    """,
    """
    there are {n} (people|shares|of them)
    {n} {people} share
    we share among {n}
    all of them get the same
    """,
)
BOXES = step_kind(
    """
    (there are|{sub} needs|{sub} fills|we need) {v}
    (it|that|this) (makes|takes|is|fills) {v}
    the number of {boxes} is {v}
    {v} (are needed|are filled|are enough)
    {sub} (needs|has|uses) {v}
    all {a} {things} (fill|need) {v}
    """,
    """
    the number of {boxes}
    the number of {boxes} needed
    the {box} count
    the number of (full |){boxes}
    """,
    """
    each {box} (has|holds|takes) {k}
    {k} go into each {box}
    there are groups of {k}
    {k} fit in (each|one) {box}
    """,
)
_PEOPLE = ("friends", "children", "students", "cousins", "neighbors", "players", "guests", "pupils")


def build_groups(rng: random.Random) -> Problem:
    """n boxes of k, perhaps more or fewer, perhaps shared out."""
    structures = ("b", "b+", "b-", "b+s", "bs", "s", "p", "+p", "-s")
    structure = rng.choices(structures, (9, 17, 16, 16, 8, 8, 7, 10, 9))[0]
    slots = {**person_slots(rng), **thing_slots(rng), "people": rng.choice(_PEOPLE)}
    slots["box"], slots["boxes"] = rng.choice(CONTAINERS)
    things = slots["things"]
    if structure[0] != "b":
        return _build_sharing(rng, slots, structure)
    while True:
        n, k, extra = rng.randint(2, 9), rng.randint(2, 12), rng.randint(2, 30)
        value = n * k
        if "+" in structure:
            value += extra
        elif "-" in structure:
            value -= extra
        divisors = [d for d in range(2, 10) if value % d == 0 and value // d > 1]
        if value >= 2 and (divisors or "s" not in structure):
            break
    slots.update(n=str(n), k=str(k), e=str(extra))
    numbers, sentences = [n, k], [expand(_GROUPS, rng, slots)]
    left, right = n, k
    steps, asked = [make_step(INSIDE, left, "*", right, things)], "all"
    if "+" in structure:
        steps.append(make_step(WITH_LOOSE, n * k, "+", extra, things, (0,)))
        sentences.append(expand(_LOOSE, rng, slots))
        numbers.append(extra)
    elif "-" in structure:
        steps.append(make_step(WITHOUT, n * k, "-", extra, things, (0,)))
        sentences.append(expand(_TAKEN, rng, slots))
        numbers.append(extra)
        asked = "left"
    if "s" in structure:
        heads = rng.choice(divisors)
        extra_slots = {"n": str(heads)}
        steps.append(make_step(EACH, value, "/", heads, things, (len(steps) - 1,), **extra_slots))
        wording = _SHARE if structure == "bs" else _SHARE_ALL if "+" in structure else _SHARE_REST
        sentences.append(expand(wording, rng, {**slots, **extra_slots}))
        numbers.append(heads)
        asked = "each"
    sentences.append(expand(_ASKS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _GOALS[asked],
        (_GROUP_FACT,),
    )  # fmt: skip


def _build_sharing(rng: random.Random, slots: dict, structure: str) -> Problem:
    """A number of things, perhaps changed once, then shared or packed into boxes."""
    divisor, quotient, extra = rng.randint(2, 9), rng.randint(2, 14), rng.randint(2, 20)
    total = divisor * quotient
    start = total - extra if structure[0] == "+" else total + extra
    while structure[0] == "+" and start < 2:
        extra = max(2, extra // 2)
        start = total - extra
        if extra == 2:
            quotient += 1
            total = divisor * quotient
            start = total - extra
    if structure[0] not in "+-":
        start = total
    slots.update(t=str(start), e=str(extra), n=str(divisor), k=str(divisor))
    things, steps, numbers = slots["things"], [], [start, divisor]
    sentences = [expand(_SHARE_START, rng, slots)]
    if structure[0] == "+":
        # nothing is packed yet, so the boxes are not mentioned with the loose things
        loose = expand(_MORE_COME, rng, slots)
        steps.append(make_step(WITH_LOOSE, start, "+", extra, things))
        sentences.append(loose)
        numbers.append(extra)
    elif structure[0] == "-":
        steps.append(make_step(WITHOUT, start, "-", extra, things))
        sentences.append(expand(_TAKEN, rng, slots))
        numbers.append(extra)
    needs = (0,) if steps else ()
    if structure[-1] == "s":
        steps.append(make_step(EACH, total, "/", divisor, things, needs))
        wording, asked = _SHARE_REST if structure[0] == "-" else _SHARE, "each"
    else:
        steps.append(make_step(BOXES, total, "/", divisor, slots["boxes"], needs))
        wording, asked = _PACK, "boxes"
    sentences += [expand(wording, rng, slots), expand(_ASKS[asked], rng, slots)]
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _GOALS[asked],
        (_SHARE_FACT,),
    )  # fmt: skip


_MORE_COME = template(
    """
    then {she} (gets|buys|finds) {e} more.
    {her} {relative} (brings|adds|gives {him}) {e} more( {things}|).
    {e} more {things} (come|arrive|are added).
    later {she} (gets|buys|finds) another {e}( {things}|).
    {she} adds {e} more {things} to (them|these).
    after that, {e} more {things} (come|arrive).
    """
)
_SHARE_ALL = template(
    """
    {she} (shares|splits|divides) all the {things} (equally|evenly) (among|between) {n} {people}.
    {n} {people} share all the {things} (equally|evenly).
    all the {things} are (shared out|divided|handed out) (equally|evenly) (among|to) {n} {people}.
    {she} gives all the {things} to {n} {people}, each the same number.
    {n} {people} get the same number of {things}, and none are left.
    all of the {things} together are shared equally (by|among) {n} {people}.
    """
)
_SHARE_REST = template(
    """
    {she} (shares|splits|divides) the rest (equally|evenly) (among|between) {n} {people}.
    {n} {people} share the rest (equally|evenly).
    the rest is (shared out|divided|split) (equally|evenly) among {n} {people}.
    {she} gives the rest to {n} {people}, each the same number.
    {n} {people} get the same number of what is left, and then none are left.
    {she} hands the rest out to {n} {people}, the same number to each.
    """
)

# (word for the part, divisor)
_PARTS = (
    ("half", 2), ("half", 2), ("a third", 3), ("a quarter", 4), ("a fifth", 5), ("10%", 10),
    ("20%", 5), ("25%", 4), ("50%", 2), ("one third", 3), ("one quarter", 4), ("one fifth", 5),
)  # fmt: skip
_PART_START = template(
    """
    {who} has {t} {things}.
    there are {t} {things} in {who}'s (shop|room|box).
    {who} (brings|takes) {t} {things} to the {place}.
    {who} (counts|collects|owns) {t} {things}.
    {who} (starts|begins) with {t} {things}.
    (one day|at first|on {day}), {who} has {t} {things}.
    """
)
_PART_GONE = template(
    """
    {she} (sells|gives away|loses|uses) {part} of (them|the {things}).
    {part} of the {things} are (sold|broken|given away|used).
    {she} gives {part} of (them|the {things}) to {her} {relative}.
    {her} {relative} (takes|gets|borrows) {part} of the {things}.
    {part} of (them|the {things}) (get lost|break|are gone soon).
    {she} (leaves|forgets) {part} of the {things} at the {place}.
    """
)
_PART_COLOR = template(
    """
    {part} of (them|the {things}) are {color}.
    {part} of the {things} (have the color {color}|are painted {color}).
    {part} of all the {things} are {color}.
    of these( {things}|), {part} are {color}.
    exactly {part} of (them|the {things}) are {color}.
    {sub} sees that {part} of the {things} are {color}.
    """
)
_PART_ASKS = {
    "part": template(
        """
        how many {things} (are|is) (that|this)?
        how many {things} does {part} make?
        how many {things} are in that part?
        what number of {things} is that?
        (find|work out) how many {things} that is.
        how large is that part?
        """
    ),
    "color": template(
        """
        how many {color} {things} are there?
        how many of the {things} are {color}?
        what is the number of {color} {things}?
        how many {things} are {color}?
        (find|work out) the number of {color} {things}.
        how many {color} {things} does {who} have?
        """
    ),
    "not": template(
        """
        how many {things} are not {color}?
        how many of the {things} are not {color}?
        how many {things} have (another|a different) color?
        what is the number of {things} that are not {color}?
        (find|work out) how many {things} are not {color}.
        how many {things} have a color other than {color}?
        """
    ),
    "left": _ASKS["left"],
    "now": _ASKS["all"],
}
_PART_GOALS = {
    "color": template("how many are {color}\nthe number of {color} {things}"),
    "not": template("how many are not {color}\nthe number of the other {things}"),
    "left": _GOALS["left"],
    "now": template("how many {things} there are (now|in the end)\nthe (last|final) number"),
}
_PART_FACT = template(
    "there are {t} {things}( at first|)\n{sub} has {t} {things}( at first|)\n"
    "{part} means (that |)we"
    " divide by {d}\nthe whole is {t}"
)
PART = step_kind(
    """
    {part} (of {t} |of them |)is {v}
    {part} of the {things} (is|makes|means) {v}
    (that|this|it) (gives|makes|means) {v}
    {v} are (in this part|{kind})
    the part is {v}
    there are {v} (in this part|that are {kind})
    """,
    """
    {part} (of {t}|of them|of the {things})
    the (part|number) that is {kind}
    the part that is {kind}
    the number of {things} that are {kind}
    """,
    """
    {part} means (we |to |)divide by {d}
    {part} is one of {d} equal parts
    {part} of (the|these) {things} are {kind}
    (there are|we need|we make) {d} equal parts
    """,
)
OTHERS = step_kind(
    """
    {v} are (left|not {color}|of another color)
    there are {v} (left|that are not {color})
    the rest (is|comes to) {v}
    {v} (remain|have another color)
    the others are {v}
    (it|that) leaves {v}
    """,
    """
    the rest
    the remaining number
    the number that is not {color}
    the number (of {things} |)(without|not counting) the {color} ones
    the number of other {things}
    """,
    """
    {e} are {color}
    we (leave out|do not count|take away) the {color} ones
    there are {e} {color} ones
    the {color} {things} do not count
    """,
)


def build_fractions(rng: random.Random) -> Problem:
    """A half, a third, 20 percent ... of an amount; the part, the rest, or the rest and more."""
    structure = rng.choices(("c", "n", "g", "g+", "g-"), (25, 22, 18, 25, 10))[0]
    part, divisor = rng.choice(_PARTS)
    whole = divisor * (rng.randint(2, 12) if divisor == 10 else rng.randint(3, 100 // divisor // 2))
    slots = {
        **person_slots(rng), **thing_slots(rng), "part": part, "d": str(divisor), "t": str(whole),
        "color": rng.choice(COLORS),
        "day": rng.choice(("Monday", "Friday", "Sunday")),
    }  # fmt: skip
    colored = structure in ("c", "n")
    slots["kind"] = slots["color"] if colored else "gone"
    things, size = slots["things"], whole // divisor
    slots["e"] = str(size)
    sentences = [expand(_PART_START, rng, slots)]
    sentences.append(expand(_PART_COLOR if colored else _PART_GONE, rng, slots))
    steps, numbers = [make_step(PART, whole, "/", divisor, things)], [whole, divisor]
    asked = {"c": "color", "n": "not", "g": "left"}.get(structure, "now")
    if structure != "c":
        kind = OTHERS if colored else WITHOUT
        steps.append(make_step(kind, whole, "-", size, things, (0,), e=str(size)))
    rest = whole - size
    if len(structure) == 2 and (structure == "g+" or rest > 3):
        sign = structure[1]
        extra = rng.randint(2, 30) if sign == "+" else rng.randint(2, min(30, rest - 2))
        kind, wording = (WITH_LOOSE, _MORE_COME) if sign == "+" else (WITHOUT, _TAKEN)
        steps.append(make_step(kind, rest, sign, extra, things, (1,), e=str(extra)))
        sentences.append(expand(wording, rng, {**slots, "e": str(extra)}))
        numbers.append(extra)
    sentences.append(expand(_PART_ASKS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _PART_GOALS[asked],
        (_PART_FACT,),
    )  # fmt: skip


FAMILIES = {"groups": build_groups, "fractions": build_fractions}
