"""What programs send, checked against a function's annotations before it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError, validate_call

from app.store import RunError

# pydantic's names of what went wrong begin with the kind that was wanted
KINDS = {
    "int": "a whole number", "float": "a number", "string": "a text", "bool": "true or false",
    "dict": "an object", "list": "a list",
}  # fmt: skip


def checked(function: Callable) -> Callable:
    """The function with arguments of its annotated kinds: "3" is a 3, "x" is a RunError.

    >>> def twice(count: int): return 2 * count
    >>> checked(twice)("3")
    6
    >>> checked(twice)("x")
    Traceback (most recent call last):
    app.store.RunError: Count must be a whole number, got 'x'.
    """
    call, signature = validate_call(function), inspect.signature(function)

    @functools.wraps(function)
    def careful(*args: Any, **knobs: Any) -> Any:
        try:
            # by name, so that an error names them
            return call(**signature.bind(*args, **knobs).arguments)
        except ValidationError as error:
            raise RunError(in_words(error)) from error

    return careful


def in_words(error: ValidationError) -> str:
    """The first thing that is wrong, as a sentence."""
    first = error.errors(include_url=False, include_context=False)[0]
    name, *inside = (str(part).replace("_", " ") for part in first["loc"])
    where = "".join(f", place {int(part) + 1}," for part in inside if part.isdigit())
    wanted = KINDS.get(first["type"].partition("_")[0], first["msg"])
    got = repr(first["input"])
    shown = got if len(got) <= 60 else f"{got[:59]}…"
    return f"{name[:1].upper()}{name[1:]}{where} must be {wanted}, got {shown}."
