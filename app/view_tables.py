"""What a view says once and points at by number: token texts, and sentences in every language."""

from __future__ import annotations

import json
from collections.abc import Callable

from app.token_text import label, layout_parts
from app.words import LANGUAGES


class Texts:
    """The text table: texts are added as they occur and keep their index."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sent = 0

    def __getitem__(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    def __len__(self) -> int:
        """How many were handed out."""
        return self._sent

    def unsent(self) -> list[list[str]]:
        """[label, indent, core, break] of the texts that were not handed out yet."""
        new = list(self._index)[self._sent :]
        self._sent = len(self._index)
        return [[label(text), *layout_parts(text)] for text in new]


class Lines:
    """The sentence table: each entry holds one sentence in every language."""

    def __init__(self) -> None:
        self._index: dict[tuple[str, ...], int] = {}
        self._sent = 0
        self._told: dict[tuple, int] = {}

    def __getitem__(self, line: tuple[str, ...]) -> int:
        return self._index.setdefault(line, len(self._index))

    def told(self, key: tuple, make: Callable[[str], str]) -> int:
        """The sentence that `make` gives for each language; `key` names it, so it's made once."""
        if key not in self._told:
            self._told[key] = self[tuple(make(language) for language in LANGUAGES)]
        return self._told[key]

    def __len__(self) -> int:
        """How many were handed out."""
        return self._sent

    def unsent(self) -> list[list[str]]:
        """Those that were not handed out yet."""
        new = list(self._index)[self._sent :]
        self._sent = len(self._index)
        return [list(line) for line in new]


def dump(message: dict) -> str:
    """Compact JSON without any `<`: texts of tokens must look like markup to nobody."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
