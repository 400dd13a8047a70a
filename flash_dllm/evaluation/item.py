"""One question with an answer that a program can check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A prompt with an answer that a program can check.

    domain         which rule scores it: "word", "algebra", "code", "story" or a public set's name
    family         which generator inside the domain
    specification  what is asked, without its wording: the split key (numbers and structure of a
                   word problem, the function and its constants for code, …); a public set's id
    prompt         the user's turn, plain text
    answer         one good assistant turn, plain text
    gold           the exact answer: the integer after `####`, the content of `\\boxed{}`, the word
                   that answers the story's question; "" for code
    tests          code only: `assert …` lines that a right answer passes
    stub           HumanEval only: the code that an answer goes on from
    """

    domain: str
    family: str
    specification: str
    prompt: str
    answer: str
    gold: str = ""
    tests: tuple[str, ...] = ()
    stub: str = ""
