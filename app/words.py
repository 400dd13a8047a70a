"""The player's words in each language, from assets/words/<language>.json, all complete.

A template's {names} are filled in by `sentences.py` or by the player; a list of two is the form
for one and the form for any other number.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "words"
LANGUAGES = ("en", "ko", "zh")


@lru_cache(maxsize=len(LANGUAGES))
def words(language: str) -> dict[str, Any]:
    """All texts of a language: sentences, states, player. Raises ValueError."""
    check(language)
    return json.loads((FOLDER / f"{language}.json").read_text(encoding="utf-8"))


def check(language: str) -> None:
    """Raises ValueError for a language that there are no words in."""
    if language not in LANGUAGES:
        raise ValueError(f"the language must be one of {', '.join(LANGUAGES)}, got {language!r}")


@lru_cache(maxsize=1)
def player_words() -> str:
    """What the player writes by itself, in all languages, as JSON: {language: {name: text}}."""
    parts = {name: {**words(name)["player"], "states": words(name)["states"]} for name in LANGUAGES}
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=len(LANGUAGES))
def page_words(language: str) -> dict[str, Any]:
    """The texts around the player, of boards and controls: lab, compare, parts, knobs. Raises
    ValueError."""
    check(language)
    return json.loads((FOLDER / f"page-{language}.json").read_text(encoding="utf-8"))


class Says:
    """The templates of one part of the page ("lab", "compare") in one language."""

    def __init__(self, part: str, language: str) -> None:
        self.language = language
        self._templates = page_words(language)[part]

    def __call__(self, key: str, /, count: int | None = None, **parts: Any) -> str:
        """A text; `count` chooses between the form for one and that for any other number.

        >>> Says("lab", "en")("steps", 1), Says("lab", "zh")("steps", 2)
        ('1 step', '2 步')
        """
        template = self._templates[key]
        if isinstance(template, list):
            template = template[count != 1]
        return template.format(count=count, **parts)

    def raw(self, key: str) -> Any:
        """A list or a table of texts as it is."""
        return self._templates[key]

    def state(self, key: str) -> str:
        """The name of a state of `app/theme.py`."""
        return words(self.language)["states"][key][0]
