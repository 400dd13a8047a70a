"""Code as a tree of lines: which line stands under which, read from the indentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.token_text import END, WHITESPACE, layout_parts

TAB = 4  # columns


@dataclass(frozen=True)
class Line:
    """One line of the text.

    first   the first token (by index) whose visible part stands on it; None on an empty line
    indent  columns of white space before it
    below   how many lines right after it stand deeper: what folds away under it
    """

    first: int | None
    indent: int
    below: int


def outline(texts: Sequence[str]) -> list[Line]:
    """The lines of a text given as tokens; an end token starts a line of its own.

    >>> outline(["if", " x", ":", "\\n", "    ", "y", "\\n", "z"])
    [Line(first=0, indent=0, below=1), Line(first=4, indent=4, below=0), \
Line(first=7, indent=0, below=0)]
    """
    firsts: list[int | None] = [None]
    indents, is_begun = [0], [False]

    def space(text: str) -> None:
        for character in text:
            if character == "\n":
                firsts.append(None)
                indents.append(0)
                is_begun.append(False)
            elif not is_begun[-1]:
                indents[-1] += TAB if character == "\t" else 1

    for index, text in enumerate(texts):
        indent, core, rest = layout_parts(text)
        space(indent)
        if text == END and firsts[-1] is not None and END not in texts[:index]:
            space("\n")
        if firsts[-1] is None:
            firsts[-1] = index
        if text.strip(WHITESPACE + "\n"):
            is_begun[-1] = True
        elif "\n" not in text:
            space(core)  # a token of blanks only
        space(rest)
    lines = []
    for number, (first, columns) in enumerate(zip(firsts, indents, strict=True)):
        last = number
        for other in range(number + 1, len(firsts)):
            if is_begun[other] and indents[other] <= columns:
                break
            if is_begun[other]:
                last = other  # empty lines at the end stay outside
        lines.append(Line(first, columns, last - number if is_begun[number] else 0))
    return lines
