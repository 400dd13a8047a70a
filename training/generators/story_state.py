"""Stories told in the prompt, with a question about their last state.

Two people move, hold things, keep animals or feel something; the question asks for one of them, and
often an earlier fact has been overruled by a later one ("Mia went to the barn. … Then Mia went to
the pond."). The answer names what decides, then gives the word.
"""

from __future__ import annotations

import random
from itertools import pairwise

from training.generators.item import Item
from training.generators.story_grammar import finish
from training.generators.story_teller import (
    ANIMAL,
    COLOUR,
    FEEL,
    FIRST_GO,
    FIRST_HOLD,
    GO,
    PASS,
    Teller,
    at,
)
from training.generators.story_words import (
    ANIMALS,
    BOYS,
    COLOURS,
    FEELINGS,
    GIRLS,
    OBJECTS,
    PLACES,
)

FAMILIES = (
    "state_person_place",
    "state_holder",
    "state_object_place",
    "state_two_colours",
    "state_two_feelings",
    "state_animal_place",
)
_NAMES = GIRLS + BOYS

_CLOSING = (
    "So the answer is clear.",
    "That decides it.",
    "Nothing changed after that.",
    "",
    "",
    "",
    "",
)
_REQUESTS = (
    "{story} {question}",
    "{story}\n{question}",
    "Read the story. {story} Question: {question}",
    "Here is a story: {story} Now answer: {question}",
    "{story} Tell me: {question}",
)


def make_item(rng: random.Random) -> Item:
    """A story in the prompt, a question about it, and an answer that names the deciding "
    "sentence."""
    family = rng.choice(FAMILIES)
    sentences, question, reason, gold, key = _MAKERS[family](Teller(rng))
    story = finish(sentences)
    closing = rng.choice(_CLOSING)
    prompt = rng.choice(_REQUESTS).format(story=story, question=question)
    answer = finish([f"{reason} {closing}".strip()]) + f"\nAnswer: {gold}"
    return Item("story", family, f"story/{family}/{key}", prompt, answer, gold)


def _person_place(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """Two people move, two or three moves in all; where is one of them now?"""
    rng = teller.rng
    first, second = rng.sample(_NAMES, 2)
    places = rng.sample(PLACES, rng.choice((2, 3, 3)))
    movers = [first, second, rng.choice((first, second))][: len(places)]
    sentences = [
        teller.say(GO if turn else FIRST_GO, who=who, place=place)
        for turn, (who, place) in enumerate(zip(movers, places, strict=True))
    ]
    asked = rng.choice((first, second))
    own = [place for who, place in zip(movers, places, strict=True) if who == asked]
    question = rng.choice(
        (f"Where is {asked} now?", f"Where did {asked} end up?", f"In the end, where is {asked}?")
    )
    if len(own) > 1:
        reason = rng.choice(
            (
                f"{asked} was {at(own[0])} at first, but then went to the {own[1]}.",
                f"First {asked} was {at(own[0])}. After that, {asked} went to the {own[1]}.",
                f"{asked} left the {own[0]} for the {own[1]}.",
                f"The last place of {asked} is the {own[1]}, not the {own[0]}.",
            )
        )
    else:
        reason = _only_reason(rng, asked, f"went to the {own[0]}")
    key = ",".join(f"{who}>{place}" for who, place in zip(movers, places, strict=True))
    return sentences, question, reason, own[-1], f"{key}?{asked}"


def _holder(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """A thing passes through two or three hands; who has it, or who had it first?"""
    rng = teller.rng
    chain = rng.sample(_NAMES, rng.choice((2, 3, 3)))
    thing = rng.choice(OBJECTS)
    sentences = [teller.say(FIRST_HOLD, who=chain[0], object=thing)]
    for giver, taker in pairwise(chain):
        sentences.append(teller.say(PASS, who=giver, other=taker, object=thing))
    passed = ", ".join(f"{giver} to {taker}" for giver, taker in pairwise(chain))
    key = f"{thing}:{'>'.join(chain)}"
    if rng.random() < 0.3:
        question = rng.choice(
            (f"Who had the {thing} first?", f"Who was the first to have the {thing}?")
        )
        reason = rng.choice(
            (
                f"At the start, the {thing} was with {chain[0]}.",
                f"{chain[0]} had the {thing} before {chain[1]} did.",
                f"The first sentence says that {chain[0]} had it.",
            )
        )
        return sentences, question, reason, chain[0], key + "?first"
    question = rng.choice(
        (
            f"Who has the {thing} now?",
            f"Who has the {thing} in the end?",
            f"With whom is the {thing}?",
        )
    )
    reason = rng.choice(
        (
            f"The {thing} went from {passed}.",
            f"{chain[0]} had the {thing} first, but {chain[-1]} got it from {chain[-2]}.",
            f"{chain[-2]} gave the {thing} to {chain[-1]}, who still has it.",
            f"The last one to get it was {chain[-1]}.",
        )
    )
    return sentences, question, reason, chain[-1], key + "?last"


def _object_place(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """One person carries a thing, another one moves as well; where is the thing?"""
    rng = teller.rng
    carrier, other = rng.sample(_NAMES, 2)
    thing = rng.choice(OBJECTS)
    goal, distraction = rng.sample(PLACES, 2)
    moves = [
        teller.say(GO, who=carrier, place=goal),
        teller.say(GO, who=other, place=distraction),
    ]
    rng.shuffle(moves)
    sentences = [teller.say(FIRST_HOLD, who=carrier, object=thing), *moves]
    question = rng.choice(
        (
            f"Where is the {thing} now?",
            f"In which place is the {thing}?",
            f"Where did the {thing} end up?",
        )
    )
    reason = rng.choice(
        (
            f"{carrier} has the {thing}, and {carrier} is {at(goal)}.",
            f"The {thing} is with {carrier}. {carrier} went to the {goal}.",
            f"Since {carrier} took the {thing} along to the {goal}, it is there.",
            f"{other} is {at(distraction)}, but the {thing} is {at(goal)} with {carrier}.",
        )
    )
    return sentences, question, reason, goal, f"{carrier}+{thing}>{goal},{other}>{distraction}"


def _two_colours(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """Two things of two colours; which colour has one, or who has which colour?"""
    rng = teller.rng
    people, things = rng.sample(_NAMES, 2), rng.sample(OBJECTS, 2)
    colours = rng.sample(COLOURS, 2)
    rows = list(zip(people, things, colours, strict=True))
    sentences = [
        teller.say(COLOUR, who=who, object=thing, colour=colour) for who, thing, colour in rows
    ]
    sentences.insert(rng.randrange(3), teller.say(("{mood_sound}.", "nobody else was there.")))
    who, thing, colour = rng.choice(rows)
    key = ",".join("+".join(row) for row in rows)
    reason = rng.choice(
        (
            f"{who} has the {thing}, and it is {colour}.",
            f"The {colour} {thing} belongs to {who}.",
            f"The {thing} of {who} is {colour}.",
            f"{who} is the one with the {colour} {thing}.",
        )
    )
    choices = {
        "colour": (colour, f"What color is the {thing}?", f"Which color is {who}'s {thing}?"),
        "who": (who, f"Who has something {colour}?", f"Who has the {thing}?"),
        "what": (thing, f"Which thing is {colour}?", f"What does {who} have?"),
    }
    kind = rng.choice(list(choices))
    gold, *questions = choices[kind]
    return sentences, rng.choice(questions), reason, gold, f"{key}?{kind}{who}"


def _two_feelings(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """Two people and their feelings, one of which may change."""
    rng = teller.rng
    people = rng.sample(_NAMES, 2)
    feelings = rng.sample(FEELINGS, rng.choice((2, 3)))
    who_feels = [*people, rng.choice(people)][: len(feelings)]
    sentences = [
        teller.say(FEEL, who=who, feeling=feeling)
        for who, feeling in zip(who_feels, feelings, strict=True)
    ]
    asked = rng.choice(people)
    own = [feeling for who, feeling in zip(who_feels, feelings, strict=True) if who == asked]
    question = rng.choice(
        (
            f"How does {asked} feel now?",
            f"How did {asked} feel in the end?",
            f"What is {asked}'s last mood?",
        )
    )
    if len(own) > 1:
        reason = rng.choice(
            (
                f"{asked} was {own[0]} at first, but {own[1]} later.",
                f"At the start {asked} felt {own[0]}, then {own[1]}.",
                f"{asked} is no longer {own[0]} but {own[1]}.",
            )
        )
    else:
        reason = _only_reason(rng, asked, f"felt {own[0]}")
    key = ",".join(f"{who}={feeling}" for who, feeling in zip(who_feels, feelings, strict=True))
    return sentences, question, reason, own[-1], f"{key}?{asked}"


def _animal_place(teller: Teller) -> tuple[list[str], str, str, str, str]:
    """Two or three animals in different places; which one is where?"""
    rng = teller.rng
    count = rng.choice((2, 3))
    animals, places = rng.sample(ANIMALS, count), rng.sample(PLACES, count)
    who = rng.choice(_NAMES)
    rows = list(zip(animals, places, strict=True))
    sentences = [teller.say(ANIMAL, who=who, animal=animal, place=place) for animal, place in rows]
    animal, place = rng.choice(rows)
    other_animal, other_place = next(row for row in rows if row[0] != animal)
    reason = rng.choice(
        (
            f"The {animal} is {at(place)}.",
            f"The {other_animal} is {at(other_place)}, but the {animal} is {at(place)}.",
            f"{at(place)} there is a {animal}.",
            f"It was the {animal} that was {at(place)}.",
        )
    )
    key = ",".join("@".join(row) for row in rows)
    if rng.random() < 0.5:
        question = rng.choice((f"Which animal is {at(place)}?", f"What animal was {at(place)}?"))
        return sentences, question, reason, animal, f"{key}?{place}"
    question = rng.choice((f"Where is the {animal}?", f"In which place was the {animal}?"))
    return sentences, question, reason, place, f"{key}?{animal}"


def _only_reason(rng: random.Random, who: str, fact: str) -> str:
    """A reason where a single sentence of the story decides."""
    return rng.choice(
        (
            f"The story says that {who} {fact}.",
            f"{who} {fact}, and nothing changed that.",
            f"We read that {who} {fact}.",
            f"{who} {fact}.",
        )
    )


_MAKERS = {
    "state_person_place": _person_place,
    "state_holder": _holder,
    "state_object_place": _object_place,
    "state_two_colours": _two_colours,
    "state_two_feelings": _two_feelings,
    "state_animal_place": _animal_place,
}
