"""Run model-written code against its tests, fenced in by bubblewrap.

Two processes: the *candidate* runs the answer and nothing else, the *judge* runs the tests and
calls the answer's functions over a pipe (`answers/`). So an answer can't fake a pass: leaving with
status 0, patching builtins or returning objects that equal everything changes nothing in the
judge's process. bubblewrap gives the candidate its own user, processes and network (none), an empty
environment, a read-only system and a temporary folder in memory; limits on processor time, memory
and file size and a syscall filter (no new processes, programs or sockets) come on top. Without
bubblewrap the limits and the filter stay, but the answer can read and delete the user's files:
that has to be allowed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CPU_SECONDS = 4
WALL_SECONDS = 10
MEMORY_BYTES = 512 * 1024**2
FILE_BYTES = 1024**2
FOLDER_BYTES = 16 * 1024**2
WORKERS = 2
PASSED, REFUSED = 42, 3
INSTALL = "install bubblewrap (Debian: apt install bubblewrap)"

_ANSWERS = Path(__file__).parent / "answers"


class SandboxError(RuntimeError):
    """Code answers can't be run as asked, in one sentence."""


@dataclass(frozen=True)
class Verdict:
    """What came of an answer's tests; `reason` is one line: "passed", or the first failure."""

    is_passed: bool
    reason: str


@dataclass(frozen=True)
class Sandbox:
    """How answers are run.

    is_fenced     in bubblewrap; otherwise with limits and the syscall filter only
    wall_seconds  after that an answer is ended; processor time has its own, shorter limit, so that
                  a busy machine makes no right answer wrong
    """

    is_fenced: bool
    wall_seconds: float = WALL_SECONDS

    @classmethod
    def find(cls, allow_unsandboxed: bool = False) -> Sandbox:
        """bubblewrap where it works. Raises SandboxError without it, unless that is allowed."""
        problem = fence_problem()
        if problem is None:
            return cls(is_fenced=True)
        if allow_unsandboxed:
            return cls(is_fenced=False)
        raise SandboxError(
            f"code answers are not run, because {problem}; {INSTALL}, or accept that model-written "
            "code runs with your rights: --allow-unsandboxed"
        )

    def run(
        self, program: str, tests: Sequence[str], may_replace: Sequence[str] = ()
    ) -> Verdict:
        """Run one program against its tests.

        may_replace  builtins that the tests mean to be the program's own (MBPP asks for a `sum`)
        Raises SandboxError if the program can't be fenced in.
        """
        source = {name: _source(name) for name in ("candidate", "judge")}
        python = [_python(), "-I", "-S", "-c"]
        request = {
            "command": [*(_fence() if self.is_fenced else ()), *python, source["candidate"]],
            "candidate": {
                "program": program,
                "limits": [CPU_SECONDS, MEMORY_BYTES, FILE_BYTES],
                "needs_filter": self.is_fenced,
            },
            # by itself, in case nobody is left to end it
            "seconds": self.wall_seconds + 1,
            "tests": "\n".join(tests),
            "may_replace": list(may_replace),
        }
        with tempfile.TemporaryDirectory() as folder:
            judge = subprocess.Popen(
                [*python, source["judge"]],
                cwd=folder,
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                data = json.dumps(request).encode()
                output, _ = judge.communicate(data, timeout=self.wall_seconds)
            except subprocess.TimeoutExpired:
                return Verdict(False, f"no end within {self.wall_seconds:g} s")
            finally:
                _end(judge)
        if judge.returncode == REFUSED:
            raise SandboxError("the syscall filter could not be set; use --allow-unsandboxed")
        reason = output.decode("ascii", "replace") or f"judge ended with {judge.returncode}"
        return Verdict(judge.returncode == PASSED, reason)

    def run_all(
        self,
        answers: Sequence[tuple[str, Sequence[str], Sequence[str]]],
        workers: int = WORKERS,
    ) -> list[Verdict]:
        """`run` for (program, tests, may_replace), `workers` at a time."""
        # threads are enough: each one only waits for its processes
        with ThreadPoolExecutor(max_workers=workers) as pool:
            return list(pool.map(lambda answer: self.run(*answer), answers))


@lru_cache(maxsize=1)
def fence_problem() -> str | None:
    """Why answers can't be fenced in on this machine; None if they can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        probe = subprocess.run(
            [*_fence(), _python(), "-I", "-S", "-c", "import ctypes, json, resource"],
            env={},
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here ({error})"
    if probe.returncode != 0:
        reason = " ".join(probe.stderr.split())[:200]
        return f"bubblewrap does not work here ({reason or probe.returncode})"
    return None


def _python() -> str:
    """The interpreter behind a virtual environment: its folder is all that answers need."""
    return os.path.realpath(sys.executable)


def _fence() -> list[str]:
    """bubblewrap's command line in front of the candidate's."""
    bwrap = shutil.which("bwrap")
    assert bwrap is not None, "asked only where bubblewrap is installed"
    command = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--cap-drop", "ALL", "--hostname", "answer", "--ro-bind", "/usr", "/usr"]
    for folder in ("/bin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    base = os.path.realpath(sys.base_prefix)
    if not base.startswith("/usr"):
        command += ["--ro-bind", base, base]
    command += ["--dev", "/dev", "--size", str(FOLDER_BYTES), "--tmpfs", "/tmp"]
    # both are folders in memory too, without a limit
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*command, "--chdir", "/tmp"]


@lru_cache(maxsize=2)
def _source(name: str) -> str:
    """A process's program: the language of values, then its own text."""
    return "\n".join((_ANSWERS / f"{part}.py").read_text("utf-8") for part in ("values", name))


def _end(judge: subprocess.Popen) -> None:
    """End the judge and with it the candidate."""
    # already gone is the usual case
    with suppress(ProcessLookupError):
        os.killpg(judge.pid, signal.SIGKILL)
    judge.wait()
    if judge.stdout is not None:
        judge.stdout.close()
