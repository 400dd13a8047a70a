"""Plain wording: the quotes, dashes and spaces of the embedded model's training text."""

from __future__ import annotations

import re


def plain_characters(text: str) -> str:
    """Typographic quotes, dashes and spaces in their plain form; all else unchanged."""
    return text.translate(_PLAIN)


def plain_text(text: str) -> str:
    """The same with single spaces, without carriage returns and outer space."""
    return re.sub(r"[ \t]+", " ", plain_characters(text)).replace("\r", "").strip()


_PLAIN = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "\u2026": "...",
        "\u00a0": " ",
        "\u2009": " ",
        "\u00d7": "*",
        "\u00f7": "/",
        "\u200b": None,
    }
)
