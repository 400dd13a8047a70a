"""Token texts as something to look at: whitespace and stray bytes made visible.

Token texts are untrusted (a model or a loaded file may say `<img …>`): nothing here makes HTML,
and the browser only ever sets `textContent`.
"""

from __future__ import annotations

LABEL_LENGTH = 14
END, END_MARK = "⟨end⟩", "∎"  # the name of every end token, and what its chip shows
WHITESPACE = " \t"


def visible(text: str) -> str:
    """The text with what can't be seen written out: newline ⏎, tab ⇥, other bytes in hex.

    >>> visible("a\\n\\udcc3")
    'a⏎‹c3›'
    """
    return "".join(_visible_character(character) for character in text)


def label(text: str) -> str:
    """A token's short name for sentences, axes and tooltips.

    >>> label(" the"), label("  "), label("\\n"), label("")
    ('the', '␣␣', '⏎', 'empty token')
    >>> label("internationalisation")
    'internationali…'
    """
    if not text:
        return "empty token"
    stripped = text.strip(WHITESPACE)
    shown = visible(stripped) if stripped else "␣" * len(text)
    return shown if len(shown) <= LABEL_LENGTH else shown[:LABEL_LENGTH] + "…"


def layout_parts(text: str) -> tuple[str, str, str]:
    """(indent, core, break): whitespace before the core, what the chip shows, newlines after it.

    Joined again they take the room that the text takes in prose, so code keeps its lines.

    >>> layout_parts("    return"), layout_parts(":\\n  ")
    (('    ', 'return', ''), ('', ':', '\\n  '))
    >>> layout_parts("\\n")
    ('', '⏎', '\\n')
    """
    if text == END:
        return "", END_MARK, ""
    core = text.strip(WHITESPACE + "\n")
    if not core:
        head, newline, tail = text.partition("\n")
        return (head, "⏎", newline + tail) if newline else ("", text, "")
    start = text.index(core)
    return text[:start], visible(core), text[start + len(core) :]


def _visible_character(character: str) -> str:
    if character == "\n":
        return "⏎"
    if character == "\t":
        return "⇥"
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"‹{code - 0xDC00:02x}›"
    if character == " " or character.isprintable():
        return character
    return f"‹{code:02x}›"
