"""The page's own lines and errors in every language at once: assets/words/told-<language>.json.

A line is made where nobody knows who reads it (a run that goes on, a store that lacks a file), so
it carries all its translations; whoever shows it picks one. Programs read the English one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from app.words import FOLDER, LANGUAGES


class Said(str):
    """An English text with its translations.

    >>> said("queued", ahead=2).within("zh")
    '排队中，前面还有 2 个'
    """

    texts: tuple[str, ...]

    def __new__(cls, texts: Sequence[str]) -> Said:
        """texts: one for each of `LANGUAGES`, in their order."""
        line = super().__new__(cls, texts[0])
        line.texts = tuple(texts)
        return line

    def __getnewargs__(self) -> tuple:
        return (self.texts,)  # copies and pickles keep the translations

    def within(self, language: str) -> str:
        """The text in one language."""
        return self.texts[LANGUAGES.index(language)]


def said(key: str, /, **parts: Any) -> Said:
    """A line by the name of its template; parts that are `Said` are put in each language.

    >>> said("others_turn", step=3)
    'step 3, others have their turn'
    """
    return Said([
        _told(language)["lines"][key].format(
            **{name: within(part, language) for name, part in parts.items()}
        )
        for language in LANGUAGES
    ])  # fmt: skip


def counted(count: int, noun: str) -> Said:
    """A number with its noun.

    >>> counted(1, "pass"), counted(2, "pass"), counted(0, "mask").within("ko")
    ('1 pass', '2 passes', '빈칸 0개')
    """
    forms = [_told(language)["counts"][noun][count != 1] for language in LANGUAGES]
    return Said([form.format(count=count) for form in forms])


def together(*lines: str) -> Said:
    """Sentences one after the other; blank ones are left out."""
    gaps = {"zh": ""}
    return Said([
        gaps.get(language, " ").join(filter(None, (within(line, language) for line in lines)))
        for language in LANGUAGES
    ])  # fmt: skip


def listed(parts: Sequence[str]) -> Said:
    """Things one after the other.

    >>> listed(["a", "b"])
    'a, b'
    """
    commas = {"zh": "，"}
    return Said([
        commas.get(language, ", ").join(within(part, language) for part in parts)
        for language in LANGUAGES
    ])  # fmt: skip


def either(names: Sequence[str]) -> str:
    """A choice in words.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a or b or c', 'a')
    """
    line: str = names[0]
    for name in names[1:]:
        line = said("or", first=line, last=name)
    return line


def within(text: Any, language: str) -> Any:
    """A line in one language; anything else as it is."""
    return text.within(language) if isinstance(text, Said) else text


@lru_cache(maxsize=len(LANGUAGES))
def _told(language: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"told-{language}.json").read_text(encoding="utf-8"))
