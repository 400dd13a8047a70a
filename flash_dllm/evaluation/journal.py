"""A JSON-lines file that grows record by record and survives being killed at any moment.

The first line describes the run; a later run appends only to a journal of the same description.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """An append-only list of records in a file.

    is_whole  whether a line says all that a record must
    Raises ValueError at the start if the file belongs to a run that was described otherwise, if a
    line is damaged, or if another process writes it: two would decode everything twice.
    """

    def __init__(
        self, path: Path, description: Record,
        is_whole: Callable[[Record], bool] = lambda record: True,
    ) -> None:  # fmt: skip
        self._path, self._is_whole = path, is_whole
        # as it comes back from the file: tuples are lists there
        described = json.loads(json.dumps(description))
        path.parent.mkdir(parents=True, exist_ok=True)
        # unbuffered: a record is with the system when `add` returns
        self._file = path.open("ab", buffering=0)
        try:
            _lock(self._file, path)
            self.records = self._read(described)
        except BaseException:
            self._file.close()
            raise

    def _read(self, described: Record) -> list[Record]:
        """What is there already; a new file gets its first line."""
        path = self._path
        lines = _whole_lines(path)
        first = _record(path, 1, lines[0], lambda record: True) if lines else described
        if differing := _difference(first, described):
            raise ValueError(
                f"{path.parent} holds another run ({differing}); choose another folder, or delete "
                "it to start again"
            )
        if not lines:
            self._write(described)
        return [
            _record(path, number, line, self._is_whole)
            for number, line in enumerate(lines[1:], 2)
        ]

    def add(self, record: Record) -> None:
        """Append and flush."""
        self._write(record)
        self.records.append(record)

    def close(self) -> None:
        """Make sure that everything is on the disk."""
        # nothing is left to be written: a record that could not be is cut off, not tried again
        os.fsync(self._file.fileno())
        self._file.close()

    def _write(self, record: Record) -> None:
        data = (json.dumps(record) + "\n").encode()
        size = os.fstat(self._file.fileno()).st_size
        try:
            if (written := self._file.write(data)) != len(data):
                raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes were written")
        except OSError as error:
            os.ftruncate(self._file.fileno(), size)
            raise OSError(
                f"{self._path} can't be written ({error.strerror}); what was measured so far is "
                "kept: make room, and the same command goes on"
            ) from None


def _lock(file: FileIO, path: Path) -> None:
    """Keep others out until the file is closed or this process ends, however it ends."""
    try:
        import fcntl
    except ImportError:
        # Windows has no such locks; one process at a time is then up to the user
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError(
            f"{path.parent} is being written by another process; wait for it, or choose another "
            "folder"
        ) from None


def _record(
    path: Path, number: int, line: bytes, is_whole: Callable[[Record], bool]
) -> Record:
    """A line that was written whole. Raises ValueError if it is none of a journal."""
    try:
        record = json.loads(line)
    except ValueError:
        # no JSON, or no text at all
        record = None
    if not isinstance(record, dict) or not is_whole(record):
        raise ValueError(
            f"line {number} of {path} is damaged; delete that line to decode its item again, or "
            "the folder to start again"
        )
    return record


def _whole_lines(path: Path) -> list[bytes]:
    """The complete lines; what was cut off in the middle is removed from the file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)
    return data[:end].splitlines()


def _difference(before: Record, now: Record, where: str = "") -> str:
    """The first key in which two descriptions differ, in words; "" if they are equal."""
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if found := _difference(old, new, f"{where}{key}."):
                return found
        elif old != new:
            return f"{where}{key} is {_short(old)} there and {_short(new)} here"
    return ""


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
