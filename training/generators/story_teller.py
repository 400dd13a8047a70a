"""Sentence patterns of the stories told in prompts, and the teller that fills them in.

`{who}`, `{other}`, `{object}`, `{place}`, `{colour}`, `{feeling}` and `{animal}` are facts;
all other symbols are rules of `story_grammar.py`. The order of sentences is the order of events.
"""

from __future__ import annotations

import random

from training.generators.story_grammar import expand, pronouns
from training.generators.story_words import PREPOSITION

GO = (
    "{who} {went} to the {place}{maybe_how}.",
    "{time_later}, {who} {went} to the {place}.",
    "{who} wanted {errand} and {went} to the {place}.",
    "then {who} {went} to the {place}.",
    "{mood_sound}, so {who} {went} to the {place}.",
    "the next stop for {who} was the {place}.",
    "{who} left for the {place}{maybe_how}.",
    "soon {who} was {in_place}.",
    "{who} took a {size} road to the {place}.",
    "now {who} was {in_place}, where {mood_sound_lower}.",
    "{who} got tired and {went} to the {place}.",
    "{who} arrived {in_place} {time_later}.",
)
FIRST_GO = tuple(
    pattern
    for pattern in GO
    if not pattern.startswith(("then", "the next", "soon", "now", "{time_"))
)
FIRST_HOLD = (
    "{who} had a {looks} {object}.",
    "{who} bought a {size} {object} {time}.",
    "the {looks} {object} belonged to {who}.",
    "{time}, {who} found a {object} {where}.",
    "{who} made a {object} out of paper.",
    "there was a {object}, and {who} took it.",
    "{relative2} gave {who} a {looks} {object}.",
    "{who} carried a {object} {where}.",
)
PASS = (
    "{who} gave the {object} to {other}{maybe_how}.",
    "{time_later}, {who} handed it to {other}.",
    "then {other} got the {object} from {who}.",
    "{other} asked for it, and {who} agreed{maybe_how}.",
    "{who} let {other} have the {object}.",
    "{other} bought the {object} from {who}.",
    "because {other} loved {hobby}, {who} gave {other} the {object}.",
    "{who} lost the {object}, but {other} found it.",
)
COLOUR = (
    "{who} had a {colour} {object}.",
    "the {object} of {who} was {colour} and {looks}.",
    "{who} painted a {object} {colour}.",
    "a {colour} {object} belonged to {who}.",
    "{who} chose the {colour} {object}{maybe_how}.",
    "{relative2} gave {who} a {size} {colour} {object}.",
    "{who} found a {colour} {object} {where}.",
    "{time}, {who} got a {object}; it was {colour}.",
)
FEEL = (
    "{who} felt {feeling}{because}.",
    "{who} was {feeling}{because}.",
    "{because_first}, {who} felt {feeling}.",
    '"I am {feeling}," {said} {who}.',
    "{time_later}, {who} became {feeling}.",
    "it made {who} {feeling} when {mood_sound_lower}.",
    "{who} looked {feeling}{maybe_how}.",
    "{relative2} saw that {who} was {feeling}.",
)
ANIMAL = (
    "the {nature} {animal} was {in_place}.",
    "a {animal} lived {in_place}.",
    "{in_place} sat a {nature} {animal}.",
    "{who} saw a {animal} {in_place}.",
    "a {nature} {animal} slept {in_place}.",
    "the {animal} {went2} to the {place} and stayed there.",
    "{who} took the {animal} to the {place}.",
    "{in_place}, {who} fed a {nature} {animal}.",
)


class Teller:
    """Draws people and sentences of one story."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.base = {
            **pronouns("boy"),
            "relative2": rng.choice(
                ("a neighbor", "the teacher", "an aunt", "a stranger", "a friend")
            ),
            # "him" in a shared pattern would be unclear with two people
            "mood_sound_lower": rng.choice(
                (
                    "the wind blew",
                    "it rained",
                    "the sun shone",
                    "nobody spoke",
                    "birds sang",
                    "a bell rang",
                )
            ),
            "relative": rng.choice(("the neighbor", "the teacher", "an old friend", "a stranger")),
            "went2": rng.choice(("ran", "walked", "went", "hurried")),
        }

    def say(self, patterns: tuple[str, ...], **facts: str) -> str:
        """One of the patterns with the facts filled in and the rest drawn freely."""
        known = {**self.base, **facts}
        if "place" in facts:
            known["in_place"] = at(facts["place"])
        reason = self.rng.choice(
            (
                "it was late",
                "a friend called",
                "the door was open",
                "the music stopped",
                "it was cold",
            )
        )
        known["because_first"] = f"since {reason}"
        known["because"] = self.rng.choice(("", "", f" because {reason}", f" when {reason}"))
        pattern = self.rng.choice(patterns)
        return _fill(pattern, known, self.rng)


def _fill(pattern: str, facts: dict[str, str], rng: random.Random) -> str:
    """The pattern with its symbols expanded."""
    pieces = pattern.replace("}", "{").split("{")
    return "".join(
        expand(piece, facts, rng) if odd % 2 else piece for odd, piece in enumerate(pieces)
    )


def at(place: str) -> str:
    """ "in the barn": the place with its preposition."""
    return f"{PREPOSITION[place]} the {place}"
