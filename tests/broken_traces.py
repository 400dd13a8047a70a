"""Trace files that were changed somewhere: what the reader says, and where there is something to
change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flash_dllm.trace_json import TraceError, from_json, to_json

Path = tuple[str | int, ...]


def outcome(text: str | bytes) -> str | None:
    """The sentence of the refusal, or None for a file that loads and is written the same again."""
    try:
        trace = from_json(text)
    except TraceError as error:
        sentence = str(error)
        assert sentence and len(sentence) <= 300 and sentence.splitlines() == [sentence]
        sentence.encode()
        return sentence
    assert from_json(to_json(trace)) == trace
    return None


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every place of a JSON tree with its value, containers included."""
    yield path, value
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, item in pairs:
        yield from leaves(item, (*path, key))


WRONG_TYPES = (None, True, "text", 1.5, [[]], {"key": {}})
