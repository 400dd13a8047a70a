"""One training or evaluation item, and the rule that decides which specifications are held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

HELD_OUT_PERCENT = 2


@dataclass(frozen=True)
class Item:
    """A prompt with an answer that a program can check.

    domain         "word", "algebra", "code" or "story"
    family         which generator inside the domain
    specification  what is asked, without its wording: the split key (numbers and structure of a
                   word problem, the function and its constants for code, …)
    prompt         the user's turn, plain text
    answer         one good assistant turn, plain text
    gold           the exact answer: the integer after `####`, the content of `\\boxed{}`, the word
                   that answers the story's question; "" for code
    tests          code only: three `assert …` lines that a right answer passes
    """

    domain: str
    family: str
    specification: str
    prompt: str
    answer: str
    gold: str = ""
    tests: tuple[str, ...] = ()


def is_held_out(specification: str) -> bool:
    """Whether a specification belongs to evaluation (about 2 % do); stable across machines.

    >>> is_held_out("word/chain/3+4")
    False
    """
    digest = hashlib.sha256(specification.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT
