"""Recent traces, bounded by count and bytes; files that go in and out."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

from app.said import Said, said
from flash_dllm.full_disk import FULL
from flash_dllm.trace import DecodeTrace, TraceError
from flash_dllm.trace_json import load, run_id, save, to_json

MOST_PASSING = 16


class RunError(Exception):
    """Something that the visitor can understand and mend, in one sentence."""

    @property
    def line(self) -> str:
        """The sentence, with its translations if it is one of the page's own."""
        return self.args[0] if self.args else ""


class Store:
    """Traces by name, the least recently used ones out first."""

    def __init__(self, max_traces: int = 64, max_bytes: int = 64 * 2**20) -> None:
        self._limits = max_traces, max_bytes
        self._kept: OrderedDict[str, tuple[DecodeTrace, int]] = OrderedDict()
        self._keeping = threading.Lock()
        self._passing: deque[Path] = deque()
        self._read: dict[Path, str] = {}  # bundled files → names, so that each is read once
        self.folder = Path(tempfile.mkdtemp(prefix="flash-dllm-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, trace: DecodeTrace) -> str:
        """Keep a trace and drop the least recently used ones beyond the bounds."""
        name = name_of(trace)
        size = len(to_json(trace))
        with self._keeping:
            self._kept[name] = trace, size
            self._kept.move_to_end(name)
            most, most_bytes = self._limits
            while len(self._kept) > 1 and (
                len(self._kept) > most or sum(s for _, s in self._kept.values()) > most_bytes
            ):
                gone, _ = self._kept.popitem(last=False)
                shutil.rmtree(self.folder / gone, ignore_errors=True)
        return name

    def trace(self, name: str) -> DecodeTrace:
        """A kept trace. Raises RunError."""
        with self._keeping:
            if name not in self._kept:
                raise RunError(said("not_kept"))
            self._kept.move_to_end(name)
            return self._kept[name][0]

    def file_of(self, name: str) -> str:
        """A file with the trace, to be downloaded. Raises RunError."""
        trace = self.trace(name)
        return str(self.file(name, ".json", lambda path: save(trace, path)))

    def file(self, name: str, ending: str, write: Callable[[Path], None]) -> Path:
        """A file made from a kept trace, written once and gone with the trace. Raises RunError.

        ending  tells files of one trace apart: equal endings must mean equal contents
        write   called with a path of its own, so that nobody reads half a file: two visitors may
                ask for the same one at the same time
        """
        path = self.folder / name / f"flash-dllm-{name}{ending}"
        if path.is_file():
            return path
        draft = path.with_name(f"{secrets.token_hex(6)}{path.suffix}")
        try:
            path.parent.mkdir(exist_ok=True)
            write(draft)
            os.replace(draft, path)
        except (OSError, ValueError) as error:
            raise RunError(unsaved(error)) from error
        finally:
            draft.unlink(missing_ok=True)
        return path

    def passing(self, name: str) -> Path:
        """Where a file of no run may be written, to be downloaded soon: a few are kept. Raises
        RunError."""
        folder = self.folder / f"passing-{secrets.token_hex(6)}"
        try:
            folder.mkdir()
        except OSError as error:
            raise RunError(unsaved(error)) from error
        self._passing.append(folder)
        while len(self._passing) > MOST_PASSING:
            shutil.rmtree(self._passing.popleft(), ignore_errors=True)
        return folder / name

    def load_file(self, path: str | Path) -> str:
        """Read and keep a trace file of a stranger; returns its name. Raises RunError."""
        try:
            trace = load(path)
        except TraceError as error:
            raise RunError(said("no_trace", error=error)) from error
        if not trace.steps:
            raise RunError(said("no_steps"))
        return self.keep(trace)

    def bundled(self, path: Path) -> str:
        """The name of a file of our own, read again only if its trace is no longer kept."""
        name = self._read.get(path)
        if name is None or name not in self._kept:
            name = self._read[path] = self.load_file(path)
        return name

    def file_behind(self, name: str) -> Path | None:
        """The bundled file that a kept trace came from, if it did."""
        return next((path for path, known in self._read.items() if known == name), None)


def unsaved(error: Exception) -> Said:
    """Why a file was not written, and what to do, in one sentence.

    >>> import errno
    >>> unsaved(OSError(errno.ENOSPC, "No space left", "/secret/path"))
    "The file can't be saved: no space left; free some room on the server, then try again."
    """
    system = error if isinstance(error, OSError) else error.__context__
    if isinstance(system, OSError) and system.strerror:
        reason = system.strerror[:1].lower() + system.strerror[1:]
        todo = said("free_room" if system.errno in FULL else "make_writable")
        return said("unsaved", reason=reason, todo=todo)
    return said("unsaved_why", error=error)


def name_of(trace: DecodeTrace) -> str:
    """The content hash of the settings; a stopped run is told apart by its number of steps."""
    name = run_id(trace)
    return name if trace.status == "finished" else f"{name}-{len(trace.steps)}"
