"""Small strict readers for JSON from strangers: type, bounds, and the place of what is wrong.

A reader is a function from a JSON value to the value of ours; it raises TraceError. Readers of
objects and lists put the place in front of the errors of what they hold. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Any

from flash_dllm.trace import TraceError

Reader = Callable[[Any], Any]


def shown(value: object) -> str:
    """A value from a file, short enough to stand in a sentence."""
    text = "an object" if isinstance(value, dict) else repr(value)
    text = "a list" if isinstance(value, list) else text
    return text if len(text) <= 40 else f"{text[:39]}…"


def whole(low: int, high: int) -> Reader:
    """A whole number; true and false are none."""

    def read(value: Any) -> int:
        if type(value) is not int:
            raise TraceError(f"must be a whole number, got {shown(value)}")
        if not low <= value <= high:
            raise TraceError(f"must lie between {low} and {high}, got {shown(value)}")
        return value

    return read


def number(low: float, high: float) -> Reader:
    """A finite number."""

    def read(value: Any) -> float:
        if type(value) is not float and type(value) is not int:
            raise TraceError(f"must be a number, got {shown(value)}")
        if not low <= value <= high:
            raise TraceError(f"must lie between {low} and {high}, got {shown(value)}")
        return value

    return read


def text(max_length: int) -> Reader:
    """A string of at most that many characters."""

    def read(value: Any) -> str:
        if type(value) is not str:
            raise TraceError(f"must be a text, got {shown(value)}")
        if len(value) > max_length:
            raise TraceError(f"may have {max_length} characters, got {len(value)}")
        return value

    return read


def flag(value: Any) -> bool:
    """true or false."""
    if type(value) is not bool:
        raise TraceError(f"must be true or false, got {shown(value)}")
    return value


def choice(*allowed: str) -> Reader:
    """One of these strings."""

    def read(value: Any) -> str:
        if type(value) is not str or value not in allowed:
            raise TraceError(f"must be one of {', '.join(allowed)}, got {shown(value)}")
        return value

    return read


def member(kind: type[StrEnum]) -> Reader:
    """A value of an enumeration."""
    by_name = choice(*(item.value for item in kind))
    return lambda value: kind(by_name(value))


def optional(reader: Reader) -> Reader:
    """null, or what `reader` reads."""
    return lambda value: None if value is None else reader(value)


def items(reader: Reader, max_length: int) -> Reader:
    """A list of at most that many, as a tuple."""

    def read(value: Any) -> tuple:
        if type(value) is not list:
            raise TraceError(f"must be a list, got {shown(value)}")
        if len(value) > max_length:
            raise TraceError(f"may have {max_length} entries, got {len(value)}")
        done: list = []
        try:
            for item in value:
                done.append(reader(item))
        except TraceError as error:
            raise error.inside(f"[{len(done)}]") from None
        return tuple(done)

    return read


def pair(first: Reader, second: Reader) -> Reader:
    """A list of exactly two."""

    def read(value: Any) -> tuple:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise TraceError(f"must be a list of two, got {shown(value)}")
        return within("[0]", first, value[0]), within("[1]", second, value[1])

    return read


def triple(first: Reader, second: Reader, third: Reader) -> Reader:
    """A list of exactly three."""

    def read(value: Any) -> tuple:
        if not isinstance(value, list | tuple) or len(value) != 3:
            raise TraceError(f"must be a list of three, got {shown(value)}")
        readers = first, second, third
        return tuple(within(f"[{i}]", reader, value[i]) for i, reader in enumerate(readers))

    return read


def within(where: str, reader: Reader, value: Any) -> Any:
    """What `reader` reads; its errors say `where`."""
    try:
        return reader(value)
    except TraceError as error:
        raise error.inside(where) from None


def check_keys(value: Any, expected: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Refuse anything but an object with exactly these keys; the optional ones may be left out."""
    if type(value) is not dict:
        raise TraceError(f"must be an object, got {shown(value)}")
    if missing := [key for key in expected if key not in value and key not in optional]:
        raise TraceError("is missing", f".{missing[0]}")
    if unknown := [key for key in value if key not in expected]:
        raise TraceError(f"has the unknown key {shown(unknown[0])}; remove it")


def record(kind: type, /, optional: tuple[str, ...] = (), **readers: Reader) -> Reader:
    """An object as a dataclass, with one reader per field.

    `optional` fields may be left out and then have the dataclass's default.
    """
    names = tuple(item.name for item in fields(kind))
    assert set(names) == set(readers), f"readers and fields of {kind.__name__} differ"

    def read(value: Any) -> Any:
        check_keys(value, names, optional)
        values = {}
        for name in names:
            if name not in value:
                continue
            try:
                values[name] = readers[name](value[name])
            except TraceError as error:
                raise error.inside(f".{name}") from None
        return kind(**values)

    return read
