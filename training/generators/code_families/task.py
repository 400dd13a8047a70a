"""What a family hands to the writer: one specification with one body drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


def pool(text: str) -> tuple[str, ...]:
    """The words of a text, as names to choose from."""
    return tuple(text.split())


@dataclass(frozen=True)
class Kind:
    """A kind of argument: its names, type hints, and what a request calls it.

    nouns    with an article, for "takes …"; "it" stands for it afterwards
    """

    names: tuple[str, ...]
    hints: tuple[str, ...]
    nouns: tuple[str, ...]
    short: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "numbers": Kind(
        pool(
            "numbers nums values xs lst items data arr array elements ints vals seq a li series "
            "num_list input_list sequence"
        ),
        ("list[int]", "list"),
        ("a list of numbers", "a list of integers", "a list", "one list of whole numbers"),
        ("the list", "it", "that list"),
    ),
    "words": Kind(
        pool("words strings names texts items tokens str_list lst labels terms parts"),
        ("list[str]", "list"),
        ("a list of words", "a list of strings", "some strings in a list"),
        ("the list", "it", "that list"),
    ),
    "text": Kind(
        pool("s text string word phrase st line str1 message content txt source st1"),
        ("str",),
        ("a string", "some text", "a text", "one string"),
        ("the string", "it"),
    ),
    "sentence": Kind(
        pool("s text sentence string phrase line message txt content str1 title"),
        ("str",),
        ("a string", "a sentence", "some text", "a text of words with single spaces"),
        ("the string", "it"),
    ),
    "n": Kind(
        pool("n number num x k value m val limit a amount integer"),
        ("int",),
        ("an integer", "a whole number", "a positive integer", "a number"),
        ("the number", "that number"),
    ),
    "table": Kind(
        pool("d scores counts prices table mapping dic ages data points stock"),
        ("dict[str, int]", "dict"),
        ("a dictionary of numbers", "a dictionary", "a dict from names to numbers"),
        ("the dictionary", "it"),
    ),
}


@dataclass(frozen=True)
class Task:
    """One specification.

    names      fitting function names, besides the general ones
    arguments  a key of `KINDS` for {a}, {b}, {c}
    phrase     what is returned, a noun phrase with {a}, {b}, {c}; "whether …" for booleans
    body       lines with {a}, {b}, {c}, {r} accumulator, {x} {y} elements, {i} position, {t} value
    elements   names for {x}
    reference  the meaning; makes the expected values
    examples   three tuples of arguments
    empty      what an empty first argument gives, as source text; None where undefined
    """

    family: str
    specification: str
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    phrase: str
    returns: str
    body: str
    elements: tuple[str, ...]
    reference: Callable[..., object]
    examples: tuple[tuple[object, ...], ...]
    empty: str | None = None


NUMBER_NAMES = pool("x item value v n num")
LETTER_NAMES = pool("c ch char letter x l")
WORD_NAMES = pool("w word item part x s")
DIGIT_NAMES = pool("d digit x c v")
LETTERS = "abcdefghilmnoprstuw"
WORDS = pool(
    "tree lamp river stone apple Bird cloud green Paper salt open window small Garden bread music "
    "under seven radio level ice up Orange train winter eel on Sun table noon mouse rabbit"
)


def integers(rng: random.Random, low: int = -12, high: int = 25) -> list[int]:
    """A list of 3 to 6 integers."""
    return [rng.randint(low, high) for _ in range(rng.randint(3, 6))]


def sentence(rng: random.Random) -> str:
    """Two to four words with single spaces."""
    return " ".join(rng.choices(WORDS, k=rng.randint(2, 4)))


def word(rng: random.Random) -> str:
    """One word, or sometimes two, in lower case."""
    return "".join(rng.choices(WORDS, k=rng.randint(1, 2))).lower()
