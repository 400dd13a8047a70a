"""Plain values as JSON lines between the judge and the candidate; standard library only.

Both processes get this file's text in front of their own. Only builtin types cross, so an answer
can't hand over an object whose `==` is always true. Anything else crosses as a handle: a number
that stands for an object which stays where it is.
"""

import json

MAX_LINE = 8 * 1024**2
# more decimal digits than Python converts by default
MAX_BITS = 14_000


class Unspeakable(Exception):
    """A value that has no form on the line."""


def encode(value, handle):
    """The value as JSON-ready data; `handle(value)` numbers what is no plain value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return ["str", str(value)]
    if isinstance(value, int):
        if int(value).bit_length() > MAX_BITS:
            raise Unspeakable("a whole number of more than 4,200 digits")
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", bytes(value).hex()]
    for kind in (list, tuple, frozenset, set):
        if isinstance(value, kind):
            return [kind.__name__, *(encode(part, handle) for part in value)]
    if isinstance(value, dict):
        pairs = ([encode(key, handle), encode(part, handle)] for key, part in value.items())
        return ["dict", *pairs]
    return ["object", handle(value)]


def decode(data, object_of):
    """The value again; `object_of(number)` gives what stands for a handle.

    Raises ValueError for data that `encode` never makes.
    """
    if data is None or isinstance(data, (bool, int, float)):
        return data
    if not isinstance(data, list) or not data:
        raise ValueError("no value")
    kind, *parts = data
    if kind == "str" and isinstance(parts[0], str):
        return parts[0]
    if kind == "complex":
        return complex(float(parts[0]), float(parts[1]))
    if kind == "bytes":
        return bytes.fromhex(parts[0])
    if kind == "object" and type(parts[0]) is int:
        return object_of(parts[0])
    if kind == "dict":
        return {decode(key, object_of): decode(part, object_of) for key, part in parts}
    kinds = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
    if kind in kinds:
        return kinds[kind](decode(part, object_of) for part in parts)
    raise ValueError("no value")


def write_line(file, message):
    """One JSON line."""
    file.write(json.dumps(message).encode() + b"\n")
    file.flush()


def read_line(file):
    """The next JSON line; None at the end, ValueError if it is none or too long."""
    line = file.readline(MAX_LINE + 1)
    if not line:
        return None
    if len(line) > MAX_LINE:
        raise ValueError("the line is too long")
    return json.loads(line)
