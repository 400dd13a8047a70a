"""A tiny template language: one text, many equally likely wordings.

`(a|b|)` picks one of the alternatives, `{name}` fills a slot; both nest. A slot's value is a
string, a tuple of equally likely values, or a compiled template. Our choice: no recursion limit,
no weights (repeat an alternative to favour it), and literal brackets are not supported.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A place in a template that `expand` fills from its slots."""

    name: str


# str: literal; list: all in order; tuple: one of them; Slot: looked up
Template = str | list | tuple | Slot


def compile_template(text: str) -> Template:
    """Parse a template once, at import time.

    >>> compile_template("(a|b) {c}")
    [(['a'], ['b']), ' ', Slot(name='c')]
    """
    nodes, end = _parse_sequence(text, 0)
    if end != len(text):
        raise ValueError(f"template has an unmatched ')' or '|' at {end}: {text!r}")
    return nodes


def choices(text: str) -> tuple[Template, ...]:
    """Compile one template a line; blank lines are skipped. Together they are one choice."""
    lines = [line.strip() for line in text.split("\n")]
    return tuple(compile_template(line) for line in lines if line)


def _parse_sequence(text: str, start: int) -> tuple[list, int]:
    nodes: list = []
    position = start
    while position < len(text) and text[position] not in "|)":
        if text[position] == "(":
            options = []
            while True:
                option, position = _parse_sequence(text, position + 1)
                options.append(option)
                if position >= len(text):
                    raise ValueError(f"template has an unclosed '(': {text!r}")
                if text[position] == ")":
                    break
            nodes.append(tuple(options))
            position += 1
        elif text[position] == "{":
            close = text.index("}", position)
            nodes.append(Slot(text[position + 1 : close]))
            position = close + 1
        else:
            literal = re.compile(r"[^(){}|]+").match(text, position)
            nodes.append(literal.group())
            position = literal.end()
    return nodes, position


def _expand_into(node: Template, draw, slots: dict, out: list[str]) -> None:
    kind = type(node)
    if kind is str:
        out.append(node)
    elif kind is list:
        for child in node:
            if type(child) is str:
                out.append(child)
            else:
                _expand_into(child, draw, slots, out)
    elif kind is tuple:
        _expand_into(node[int(draw() * len(node))], draw, slots, out)
    else:
        _expand_into(slots[node.name], draw, slots, out)


class Variant:
    """Stands in for a generator in `expand`: the inner choices of a template, settled by number.

    One variant of a template is one wording. It is what makes a sentence one choice among a few
    whole ones instead of a choice at every word.
    """

    # more than a sentence has choices
    _LENGTH = 64

    def __init__(self, number: object) -> None:
        source = random.Random(f"variant {number}")
        self._draws = tuple(source.random() for _ in range(self._LENGTH))

    @property
    def random(self) -> Callable[[], float]:
        """The settled choices, from the first one on."""
        return iter(self._draws).__next__


_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio]|hour)")
_SENTENCE_START = re.compile(r"(?:^|(?<=[.?!] ))[a-z]")


def expand(node: Template, rng: random.Random | Variant, slots: dict) -> str:
    """One wording of a template: spaces and a/an tidied, sentences begin with a capital.

    >>> expand(compile_template("{who} has ( |){b} hats. so there."), random.Random(0),
    ...        {"who": "Ana", "b": "3"})
    'Ana has 3 hats. So there.'
    """
    out: list[str] = []
    _expand_into(node, rng.random, slots, out)
    text = "".join(out)
    if "  " in text:
        text = " ".join(text.split())
    text = text.replace(" .", ".").replace(" ,", ",").replace(" ?", "?").replace(" :", ":").strip()
    # "this means that" before a clause that begins with "that makes"
    text = text.replace("that that ", "that it ")
    text = _ARTICLE.sub(r"\1n ", text)
    return _SENTENCE_START.sub(lambda match: match.group().upper(), text)
