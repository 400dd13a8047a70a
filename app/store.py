"""Recent traces, bounded by count and bytes; files that go in and out."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from pathlib import Path

from flash_dllm.trace import DecodeTrace, TraceError
from flash_dllm.trace_json import load, run_id, save, to_json


class RunError(Exception):
    """Something that the visitor can understand and mend, in one sentence."""


class Store:
    """Traces by name, the least recently used ones out first."""

    def __init__(self, max_traces: int = 64, max_bytes: int = 64 * 2**20) -> None:
        self._limits = max_traces, max_bytes
        self._kept: OrderedDict[str, tuple[DecodeTrace, int]] = OrderedDict()
        self._keeping = threading.Lock()
        self._read: dict[Path, str] = {}  # bundled files → names, so that each is read once
        self._files = Path(tempfile.mkdtemp(prefix="flash-dllm-"))
        weakref.finalize(self, shutil.rmtree, self._files, ignore_errors=True)

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
                self._file(gone).unlink(missing_ok=True)
        return name

    def trace(self, name: str) -> DecodeTrace:
        """A kept trace. Raises RunError."""
        with self._keeping:
            if name not in self._kept:
                raise RunError("This run is no longer kept; run it again or load its file.")
            self._kept.move_to_end(name)
            return self._kept[name][0]

    def file_of(self, name: str) -> str:
        """A file with the trace, to be downloaded."""
        path = self._file(name)
        if not path.is_file():
            save(self.trace(name), path)
        return str(path)

    def load_file(self, path: str | Path) -> str:
        """Read and keep a trace file of a stranger; returns its name. Raises RunError."""
        try:
            trace = load(path)
        except TraceError as error:
            raise RunError(
                f"This file holds no trace that can be shown: {error}. Choose a trace saved here."
            ) from error
        if not trace.steps:
            raise RunError("This trace has no steps, so nothing can be shown; choose another file.")
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

    def _file(self, name: str) -> Path:
        return self._files / f"flash-dllm-{name}.json"


def name_of(trace: DecodeTrace) -> str:
    """The content hash of the settings; a stopped run is told apart by its number of steps."""
    name = run_id(trace)
    return name if trace.status == "finished" else f"{name}-{len(trace.steps)}"
