"""Short stories with a question whose answer the prompt decides.

Three prompts in four ask for a new story and state the facts it must keep ("a story in which Noah
finds a shell at the river and feels proud"), the fourth kind (`story_state.py`) tells a story and
asks about it. Both answers end in `Answer: <word>`. Everything that the prompt leaves open (what
the weather was, where the animal sat, how somebody walked) is drawn freely by `story_grammar.py`.
"""

from __future__ import annotations

import random

from training.generators import story_state
from training.generators.item import Item
from training.generators.story_grammar import expand, finish, pronouns
from training.generators.story_words import (
    ANIMALS,
    BOYS,
    COLOURS,
    FEELINGS,
    FOODS,
    GIRLS,
    OBJECTS,
    PLACES,
    PREPOSITION,
)

STORY_IN_PROMPT_SHARE = 0.25
# a longer story loses an optional sentence: 118 reference tokens are at least 400 characters here
MAX_STORY_CHARACTERS = 390

# family -> (fact that decides, kinds of event the story needs, questions)
_FAMILIES = {
    "find_where": (
        "place",
        ("find",),
        "Where did {hero} find the {object}?|Where was the {object}?|Where was the {object} found?",
    ),
    "find_what": (
        "object",
        ("find",),
        "What did {hero} find?|What object did {hero} find?|Which thing was found?"
        "|What was it that {hero} found {in_place}?",
    ),
    "colour": (
        "colour",
        ("find", "colour"),
        "What color was the {object}?|Which color did the {object} have?"
        "|What was the color of the {object}?",
    ),
    "animal": (
        "animal",
        ("meet",),
        "Which animal did {hero} meet?|What animal was it?|What animal is in the story?"
        "|Which animal came along?",
    ),
    "helper": (
        "friend",
        ("help",),
        "Who helped {hero}?|Who was the helper?|From whom did {hero} get help?"
        "|Who gave {him} a hand?",
    ),
    "receiver": (
        "friend",
        ("find", "give"),
        "Who got the {object} in the end?|Who has the {object} now?|To whom did the {object} go?"
        "|Who owns the {object} after the story?",
    ),
    "destination": (
        "place2",
        ("find", "move"),
        "Where did {hero} go afterwards?|Where was {hero} at the end?|Where did {hero} go next?"
        "|Where is {hero} after leaving the {place}?",
    ),
    "food": (
        "food",
        ("eat",),
        "What did {hero} eat?|Which food did {hero} have?|What food is in the story?"
        "|What was eaten?",
    ),
    "feeling": (
        "feeling",
        ("feel",),
        "How did {hero} feel?|How did {hero} feel in the end?|What was {hero}'s mood at the end?"
        "|Which word says how {hero} felt?",
    ),
}
FAMILIES = tuple(_FAMILIES) + story_state.FAMILIES

# how the prompt states an event
_STATEMENTS = {
    "find": "{hero} finds a {colour_}{object} {in_place}"
    "|a {colour_}{object} is found {in_place} by {hero}"
    "|{hero} comes across a {colour_}{object} {in_place}"
    "|{in_place} {hero} finds a {colour_}{object}",
    "meet": "{hero} meets a {animal}|a {animal} comes along|a {animal} appears|there is a {animal}",
    "help": "{friend} helps {hero}|{hero} gets help from {friend}|{friend} is the helper"
    "|{friend} gives {hero} a hand",
    "give": "{hero} gives the {object} to {friend}|{friend} gets the {object}"
    "|the {object} goes to {friend}"
    "|{friend} ends up with the {object}",
    "move": "{hero} later goes to the {place2}|{hero} ends up {in_place2}"
    "|{hero} goes on to the {place2}"
    "|afterwards {hero} is {in_place2}",
    "eat": "{hero} eats {food}|the only food is {food}|{hero} has some {food}|the meal is {food}",
    "feel": "{hero} feels {feeling}|{hero} is {feeling} at the end|{hero} ends up {feeling}"
    "|it leaves {hero} {feeling}",
}
_STATEMENT_WORDINGS = {kind: wordings.split("|") for kind, wordings in _STATEMENTS.items()}

_REQUESTS = (
    "Write a short story in which {facts}. Then answer: {question}",
    "Write a story about {hero}: {facts}. {question}",
    "Tell a little story where {facts}. At the end, answer this question: {question}",
    "Please write a short story. In it, {facts}. {question}",
    "Make up a story in which {facts}. {question}",
    "Can you tell a story where {facts}? Then say: {question}",
    "Facts for a story: {facts}. Write it, then answer: {question}",
    "Write a few sentences about {hero}. Keep to this: {facts}. Question: {question}",
)
_CONNECTORS = (" and ", ", and ", ", and then ", ", but ", ", while ")


def make_item(rng: random.Random) -> Item:
    """A story item: three in four ask for a story, the rest tell one in the prompt."""
    if rng.random() < STORY_IN_PROMPT_SHARE:
        return story_state.make_item(rng)
    family = rng.choice(list(_FAMILIES))
    deciding_fact, needed, questions = _FAMILIES[family]
    facts = _draw_facts(rng)
    kinds = _draw_kinds(needed, rng)
    has_colour = "colour" in kinds or ("find" in kinds and rng.random() < 0.4)
    facts["colour_"] = facts["colour"] + " " if has_colour else ""

    prompt = _prompt(questions.split("|"), kinds, facts, rng)
    gold = facts[deciding_fact]
    answer = f"{_story(kinds, facts, has_colour, rng)}\nAnswer: {gold}"
    stated = [kind for kind in sorted(kinds) if kind != "colour"]
    used = ("hero", *sorted(_facts_of(stated)))
    specification = f"story/{family}/{'+'.join(stated)}/" + ",".join(facts[name] for name in used)
    return Item("story", family, specification, prompt, answer, gold)


def _draw_facts(rng: random.Random) -> dict[str, str]:
    """Every fact a story may use; the two places and the two people differ."""
    kind = rng.choice(("girl", "boy"))
    hero, friend = rng.choice(GIRLS if kind == "girl" else BOYS), rng.choice(GIRLS + BOYS)
    while friend == hero:
        friend = rng.choice(GIRLS)
    place, place2 = rng.sample(PLACES, 2)
    return {
        "hero": hero,
        "friend": friend,
        "place": place,
        "in_place": f"{PREPOSITION[place]} the {place}",
        "place2": place2,
        "in_place2": f"{PREPOSITION[place2]} the {place2}",
        "object": rng.choice(OBJECTS),
        "colour": rng.choice(COLOURS),
        "animal": rng.choice(ANIMALS),
        "food": rng.choice(FOODS),
        "feeling": rng.choice(FEELINGS),
        **pronouns(kind),
    }


def _draw_kinds(needed: tuple[str, ...], rng: random.Random) -> list[str]:
    """The needed kinds of event and one or two more, so that the question picks one fact of "
    "several."""
    kinds = list(needed)
    people = {"help", "give"}
    for kind in rng.sample(("find", "meet", "help", "eat", "feel", "move", "give"), 5):
        if len(kinds) - ("colour" in kinds) >= 2 + (rng.random() < 0.5):
            break
        # one friend a story, and nothing can be given or left before it's found
        is_second_friend = kind in people and people & set(kinds)
        if kind in kinds or is_second_friend or (kind in ("give", "move") and "find" not in kinds):
            continue
        kinds.append(kind)
    return kinds


def _facts_of(kinds: list[str]) -> set[str]:
    """Names of the facts that the events of these kinds state."""
    names = {
        "find": {"object", "colour_", "place"},
        "meet": {"animal"},
        "help": {"friend"},
        "give": {"friend"},
        "move": {"place2"},
        "eat": {"food"},
        "feel": {"feeling"},
    }
    return set().union(*(names[kind] for kind in kinds))


def _prompt(
    questions: list[str], kinds: list[str], facts: dict[str, str], rng: random.Random
) -> str:
    """The request with the facts in a free order, except that what follows `find` stays behind "
    "it."""
    stated = [kind for kind in kinds if kind != "colour"]
    rng.shuffle(stated)
    stated.sort(key=lambda kind: kind in ("give", "move"))
    phrases = [rng.choice(_STATEMENT_WORDINGS[kind]).format(**facts) for kind in stated]
    listed = phrases[0]
    for phrase in phrases[1:-1]:
        listed += ", " + phrase
    if len(phrases) > 1:
        listed += rng.choice(_CONNECTORS) + phrases[-1]
    question = rng.choice(questions).format(**facts)
    request = rng.choice(_REQUESTS).format(hero=facts["hero"], facts=listed, question=question)
    return finish([request])


def _story(kinds: list[str], facts: dict[str, str], has_colour: bool, rng: random.Random) -> str:
    """An opening, the events in a possible order, a filler where there is room, the feeling "
    "last."""
    note_colour = has_colour and rng.random() < 0.4
    middle: list[str] = [kind for kind in ("meet", "help", "eat") if kind in kinds]
    if "find" in kinds:
        middle.append("find")
    middle += ["filler"] * ((len(kinds) <= 2) + (rng.random() < 0.45))
    rng.shuffle(middle)
    later = [kind for kind in ("give", "move") if kind in kinds]
    rng.shuffle(later)
    colour = facts["colour"] if has_colour and not note_colour else ""
    facts["object_phrase"] = _object_phrase(colour, facts["object"], rng)

    sentences = []
    for kind in middle + later + ["feel"] * ("feel" in kinds):
        sentences.append(expand(kind, facts, rng))
        if kind == "find" and note_colour:
            sentences.append(expand("colour_note", facts, rng))
    opening = expand("opening", facts, rng)
    if len(opening) + sum(map(len, sentences)) > MAX_STORY_CHARACTERS:
        opening = f"{facts['hero']} was {expand('trait', facts, rng)}."
        sentences = [expand(kind, facts, rng) for kind in middle + later if kind != "filler"]
        if note_colour:
            sentences.append(f"the {facts['object']} was {facts['colour']}.")
        if "feel" in kinds:
            sentences.append(expand("feel", facts, rng))
    return finish([opening, *sentences])


def _object_phrase(colour: str, thing: str, rng: random.Random) -> str:
    """ "a shiny blue shell": zero to two adjectives, then the colour where it's told here."""
    adjectives = [expand(name, {}, rng) for name in ("size", "looks") if rng.random() < 0.5]
    return " ".join(["a", *adjectives, *([colour] if colour else []), thing])
