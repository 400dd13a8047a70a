"""Work at a steady rate, and distances at a steady speed."""

from __future__ import annotations

import random

from training.generators.vocabulary import TASKS
from training.generators.word_problem import Problem, make_step, person_slots, step_kind, template
from training.generators.wording import expand

_RATE = template(
    """
    {who} {does} {c} {things} (each|every|per|a) {period}.
    {who} can {do} {c} {things} (in one|in a|each|per) {period}.
    (every|each) {period}, {who} {does} {c} {things}.
    in one {period}, {who} {does} {c} {things}.
    it takes {who} (one|a) {period} to {do} {c} {things}.
    {who} {does} {things}, {c} of them (each|every|per) {period}.
    """
)
_TIME = template(
    """
    {she} does this for {n} {periods}.
    {she} (works|keeps going|goes on) for {n} {periods}.
    {she} (keeps this up|stays at it) for {n} {periods}.
    this (goes on|lasts) for {n} {periods}.
    {she} (spends|works) {n} {periods} (on this|like this).
    {n} {periods} (pass|go by) (this way|like this).
    """
)
_EXTRA = template(
    """
    then {she} {does} {e} more.
    after that, {she} {does} {e} more {things}.
    {her} {relative} {does} another {e}( {things}|).
    {her} {relative} helps and {does} {e} {things}.
    {she} {does} {e} more (in the evening|at home|at the end).
    {her} {relative} {does} {e} {things} as well.
    """
)
_GOAL_TOTAL = template(
    """
    {she} (wants|has|needs) to {do} {t} {things} (in total|altogether).
    {her} (goal|target) is {t} {things}.
    the (goal|target|plan) is {t} {things} (in total|altogether).
    {her} {relative} asked for {t} {things} (in total|altogether).
    the (full|whole) job is {t} {things}.
    the (plan|job) is to {do} {t} {things} (in total|altogether).
    """
)
_ASKS = {
    "made": template(
        """
        how many {things} does {sub} {do}( in that time| in all|)?
        how many {things} is that( in total| in all|)?
        how many {things} does that make (in that time|by the end|in all)?
        (find|work out) the number of {things} (for|in) that time.
        what number of {things} does {who} {do} in that time?
        in that time, how many {things} does {who} {do}?
        """
    ),
    "total": template(
        """
        how many {things} (is that|are there) (in total|in all|altogether)?
        how many {things} does that make (in total|in all|altogether)?
        what is the total number of {things}?
        (find|work out) the total number of {things}.
        (in total|altogether|in all), how many {things} (is that|does that make)?
        how many {things} are there in the end?
        """
    ),
    "left": template(
        """
        how many {things} are (still |)(left|left to do|missing)?
        how many {things} (remain|are not done yet)?
        how many more {things} (must {sub} {do}|are needed)?
        how many {things} does {sub} (still |)have to {do}?
        what number of {things} is (still |)(left|missing)?
        (find|work out) how many {things} are left (to do|).
        """
    ),
    "time": template(
        """
        how many {periods} does {sub} need?
        how many {periods} (does it|will it|does the job) take?
        how long does it take( {him}|), in {periods}?
        in how many {periods} is the (job|work) done?
        (find|work out) the number of {periods} {sub} needs.
        after how many {periods} is everything done?
        """
    ),
    "rest_time": template(
        """
        how many (more |){periods} does {sub} need for the rest?
        how many {periods} does the rest take?
        how long does the rest take, in {periods}?
        in how many {periods} is the rest done?
        how many {periods} will it take to finish (the rest|)?
        (find|work out) the number of {periods} for the rest.
        """
    ),
}
_GOALS = {
    "made": template("how many {things} (that is|that makes)\nthe number of {things}"),
    "total": template("how many {things} (there are|that is) in (all|total)\nthe total (number|)"),
    "left": template("how many {things} are (left|missing)\nhow many are (left|still missing)"),
    "time": template("how many {periods} it takes\nhow long it takes\nthe number of {periods}"),
    "rest_time": template("how long the rest takes\nthe number of {periods} for the rest"),
}
_FACT = template(
    "{sub} {does} {c} (a|each|per) {period}\n{sub} {does} {c} {things} (each|per|every) {period}\n"
    "the (rate|speed) is {c} (a|per) {period}\none {period} is enough for {c} {things}"
)
MADE = step_kind(
    """
    {sub} {does} {v}( in that time| in {n} {periods}|)
    in {n} {periods}, {she} {does} {v}
    {n} {periods} (give|make|are enough for) {v}
    (that|this|it) (is|makes) {v}( in {n} {periods}| in that time|)
    after {n} {periods} there are {v}
    in (this|that) time {she} {does} {v}
    """,
    """
    the (number|count) (for|after) {n} {periods}
    the number of {things}( in that time|)
    the (work|result) of {n} {periods}
    what {sub} {does} in {n} {periods}
    """,
    """
    each {period} (brings|gives) {c}
    there are {n} {periods}
    {she} {does} {c} each {period}
    it goes on for {n} {periods}
    """,
)
ALL = step_kind(
    """
    (together|altogether|in total|in all), (there are|that makes|it is) {v}
    the (total|sum) is {v}
    there are {v} (in total|in all|altogether)
    (it|that) (makes|adds up to|comes to) {v}( in total| in all|)
    with the (other|extra) {e}, (it is|there are|that makes) {v}
    the (total|number) (grows|rises|goes up) to {v}
    """,
    """
    the (total|sum)
    the (total|full|whole) number( of {things}|)
    the number in (total|all)
    the count of all {things}
    """,
    """
    there are {e} more
    {e} (more |)(come on top|are added)
    the other {e} count, too
    we (must |)(include|add) the {e}
    """,
)
REST = step_kind(
    """
    {v} (are left|remain|are missing|are not done)
    there are {v} (left|to go|left to do)
    {sub} still has to {do} {v}
    the rest is {v}
    (it|that) leaves {v}
    {she} (still |)needs {v} more
    """,
    """
    the (rest|remaining number)
    the number (left|missing|of {things} left)
    what is (left|missing|left to do)
    the count of {things} left
    """,
    """
    {b} are (already |)done
    {t} are needed (in total|)
    {she} wants {t} (in total|)
    the (goal|full number) is {t}
    """,
)
NEEDED = step_kind(
    """
    (it|that|this) takes {v}
    {sub} (needs|works|takes) {v}
    the (work|job) (takes|lasts|is done in) {v}
    the time is {v}
    {she} is (done|finished|ready) (in|after) {v}
    {v} are (needed|enough)
    """,
    """
    the (time|number of {periods})( needed|)
    the time {she} needs
    the number of {periods} it takes
    the (working |)time
    """,
    """
    {she} {does} {c} each {period}
    each {period} (brings|gives) {c}
    {c} are done (each|per) {period}
    one {period} is enough for {c}
    """,
)


def build_rate(rng: random.Random) -> Problem:
    """Rate times time, then more or the rest; or a total divided by the rate."""
    structure = rng.choices(("m", "me", "ml", "mel", "t", "mlt"), (18, 22, 18, 18, 10, 14))[0]
    do, does, things = rng.choice(TASKS)
    period = rng.choice(("hour", "day", "week", "morning", "evening", "shift"))
    rate, count = rng.randint(2, 12), rng.randint(2, 9)
    if structure in ("t", "mlt"):
        rate = rng.randint(2, 9)
    slots = {
        **person_slots(rng), "do": do, "does": does, "things": things, "period": period,
        "periods": period + "s", "c": str(rate), "n": str(count),
    }  # fmt: skip
    sentences, numbers = [expand(_RATE, rng, slots)], [rate, count]
    steps, value, asked = [], rate * count, "made"
    if structure == "t":
        slots["t"] = str(value)
        steps.append(make_step(NEEDED, value, "/", rate, slots["periods"]))
        sentences.append(expand(_GOAL_TOTAL, rng, slots))
        asked = "time"
    else:
        left, right = rate, count
        steps.append(make_step(MADE, left, "*", right, things))
        sentences.append(expand(_TIME, rng, slots))
    if "e" in structure:
        extra = rng.randint(2, 40)
        slots["e"] = str(extra)
        steps.append(make_step(ALL, value, "+", extra, things, (0,)))
        sentences.append(expand(_EXTRA, rng, slots))
        numbers.append(extra)
        value += extra
        asked = "total"
    if "l" in structure:
        rest = rng.randint(2, 9) * rate if structure == "mlt" else rng.randint(2, 50)
        slots["t"] = str(value + rest)
        steps.append(make_step(REST, value + rest, "-", value, things, (len(steps) - 1,)))
        sentences.insert(rng.choice((1, len(sentences))), expand(_GOAL_TOTAL, rng, slots))
        numbers.append(value + rest)
        asked = "left"
        if structure == "mlt":
            steps.append(make_step(NEEDED, rest, "/", rate, slots["periods"], (1,)))
            asked = "rest_time"
    sentences.append(expand(_ASKS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _GOALS[asked], (_FACT,)
    )


_MOVE = template(
    """
    {who} {does} (at |){c} {unit} (an|per|each|every) hour.
    {who} {does} {c} {unit} in (one|an|each) hour.
    (every|each) hour, {who} {does} {c} {unit}.
    {who} is on (a trip|the way to the {place}) and {does} {c} {unit} (an|per) hour.
    in one hour, {who} {does} {c} {unit}.
    {who} (keeps a speed of|goes at a steady) {c} {unit} (an|per) hour.
    """
)
_MOVE_TIME = template(
    """
    {she} (is on the road|keeps going|goes on|travels) for {n} hours.
    the (trip|ride|journey) (takes|lasts) {n} hours.
    {she} does (this|so) for {n} hours.
    after {n} hours, {she} (stops|takes a break|rests).
    {she} (moves|goes on) like this for {n} hours.
    {n} hours (pass|go by).
    """
)
_MOVE_MORE = template(
    """
    then {she} {does} {e} more {unit}.
    after (that|a break), {she} {does} another {e} {unit}.
    {she} then goes {e} {unit} (more|further).
    (in the evening|after lunch), {she} covers {e} more {unit}.
    {her} {relative} takes {him} another {e} {unit}.
    another {e} {unit} follow.
    """
)
_MOVE_GOAL = template(
    """
    the whole (way|trip|road) is {t} {unit}( long|).
    the {place} is {t} {unit} from the start.
    {she} (wants|has|plans) to go {t} {unit} (in total|altogether).
    the (full |)distance is {t} {unit}.
    {her} goal is {t} {unit} from {her} (home|start).
    the way is {t} {unit} long in all.
    """
)
_MOVE_ASKS = {
    "far": template(
        """
        how far does {sub} (go|get|travel)( in total| in all|)?
        how many {unit} does {sub} (go|travel|cover)( in all| in total|)?
        how many {unit} is that( in total| in all|)?
        what distance does {sub} (cover|travel)( in all|)?
        (find|work out) the distance {sub} covers.
        how long is the way {sub} (covers|goes), in {unit}?
        """
    ),
    "left": template(
        """
        how many {unit} are (left|still left|left to go)?
        how far (is it still|does {sub} still have to go)?
        how many more {unit} does {sub} have to go?
        how long is the rest of the way, in {unit}?
        (find|work out) how many {unit} are left.
        what distance is (still |)left?
        """
    ),
    "time": template(
        """
        how many hours does (it|the trip|the whole way) take?
        how long does (it|the trip) take, in hours?
        how many hours does {sub} need?
        after how many hours (is {sub} there|does {sub} arrive)?
        (find|work out) the number of hours {sub} needs.
        how many hours is {sub} on the way?
        """
    ),
}
_MOVE_GOALS = {
    "far": template("how far {sub} (goes|gets)\nthe (whole |)distance\nhow many {unit} that is"),
    "left": template(
        "how many {unit} are left\nhow far it still is\nthe distance (left|that is left)"
    ),
    "time": template("how many hours it takes\nhow long it takes\nthe time in hours"),
}
_MOVE_FACT = template(
    "the speed is {c} {unit} (an|per) hour\n{sub} {does} {c} {unit} (an|per|each) hour\n"
    "(each|one|every) hour means {c} {unit}"
)
COVERED = step_kind(
    """
    {sub} {does} {v}( in {n} hours| in that time|)
    in {n} hours, {she} (goes|covers|gets) {v}
    (that|this|it) (is|makes) {v}( in {n} hours| in that time|)
    the (way|distance) (for|in) {n} hours is {v}
    {n} hours (mean|make|bring {him}) {v}
    after {n} hours {she} has (covered|gone) {v}
    """,
    """
    the (way|distance) (in|for|after) {n} hours
    the distance( covered| so far|)
    the first part( of the way|)
    what {sub} covers in {n} hours
    """,
    """
    {she} {does} {c} {unit} each hour
    the speed is {c} {unit} an hour
    {she} goes on for {n} hours
    there are {n} hours
    """,
)
FURTHER = step_kind(
    """
    {sub} (goes|covers|travels) {v} (in total|in all|altogether)
    the (total|whole way|whole distance) is {v}
    (together|altogether|in total), (it is|that makes|{she} covers) {v}
    with the (other|last) {e}, it is {v}
    that (makes|adds up to|comes to) {v}( in total|)
    {she} has (gone|covered) {v} by then
    """,
    """
    the (total|whole|full) (distance|way)
    the (total|sum)
    the sum of both parts
    the distance in (total|all)
    """,
    """
    there are {e} {unit} more
    {she} goes {e} {unit} (more|further)
    another {e} follow
    we (must |)(include|add) the {e}
    """,
)
REMAINING = step_kind(
    """
    {v} (are left|remain|are still to go)
    {sub} still has {v} (to go|left)
    the rest (of the way |)is {v}
    (it|that) leaves {v}
    {she} (still |)has to (go|cover) {v}( more|)
    there are {v} left
    """,
    """
    the rest( of the way|)
    the (distance|way) (left|that is left|that remains)
    what is left
    the remaining (distance|way|part)
    """,
    """
    {b} {unit} are (already |)(done|behind {him})
    the (whole way|full distance) is {t}
    {she} has (already |)covered {b}
    {t} {unit} are needed
    """,
)
HOURS = step_kind(
    """
    (it|that|this|the trip) takes {v}
    {sub} (needs|travels|takes) {v}
    the (way|trip) (takes|lasts) {v}
    the time is {v}
    {she} is there (in|after) {v}
    {v} are (needed|enough)
    """,
    """
    the (time|number of hours)( needed|)
    the time {she} needs
    the number of hours it takes
    the travel time
    """,
    """
    {she} {does} {c} {unit} each hour
    the speed is {c} {unit} an hour
    each hour (brings|means) {c} {unit}
    one hour is enough for {c} {unit}
    """,
)
_MOVES = (
    ("walks", 2, 4), ("hikes", 2, 4), ("runs", 4, 9), ("jogs", 4, 8), ("cycles", 6, 15),
    ("rides", 6, 15), ("rows", 3, 6), ("sails", 5, 12), ("skates", 5, 9), ("drives", 20, 60),
)  # fmt: skip


def build_trip(rng: random.Random) -> Problem:
    """Speed times time, then further or the rest; or distance divided by speed."""
    structure = rng.choices(("f", "fm", "fl", "fml", "t"), (18, 24, 22, 22, 14))[0]
    does, low, high = rng.choice(_MOVES)
    unit = rng.choice(("miles", "miles", "kilometers"))
    speed, hours = rng.randint(low, high), rng.randint(2, 8)
    if does == "drives":
        # round speeds keep the product easy
        speed, hours = rng.choice((20, 30, 40, 50)), rng.randint(2, 4)
    if structure == "t":
        speed = min(speed, 9)
    slots = {
        **person_slots(rng), "does": does, "unit": unit, "c": str(speed), "n": str(hours),
    }  # fmt: skip
    sentences, numbers, value = [expand(_MOVE, rng, slots)], [speed, hours], speed * hours
    steps, asked = [], "far"
    if structure == "t":
        slots["t"] = str(value)
        steps.append(make_step(HOURS, value, "/", speed, "hours"))
        sentences.append(expand(_MOVE_GOAL, rng, slots))
        asked = "time"
    else:
        left, right = speed, hours
        steps.append(make_step(COVERED, left, "*", right, unit))
        sentences.append(expand(_MOVE_TIME, rng, slots))
    if "m" in structure:
        extra = rng.randint(2, 30)
        slots["e"] = str(extra)
        steps.append(make_step(FURTHER, value, "+", extra, unit, (0,)))
        sentences.append(expand(_MOVE_MORE, rng, slots))
        numbers.append(extra)
        value += extra
    if "l" in structure:
        rest = rng.randint(2, 40)
        slots["t"] = str(value + rest)
        steps.append(make_step(REMAINING, value + rest, "-", value, unit, (len(steps) - 1,)))
        sentences.insert(rng.choice((1, len(sentences))), expand(_MOVE_GOAL, rng, slots))
        numbers.append(value + rest)
        asked = "left"
    sentences.append(expand(_MOVE_ASKS[asked], rng, slots))
    return Problem(
        structure, tuple(numbers), " ".join(sentences), slots, tuple(steps), _MOVE_GOALS[asked],
        (_MOVE_FACT,),
    )  # fmt: skip


FAMILIES = {"rate": build_rate, "trip": build_trip}
