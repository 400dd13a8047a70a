"""The process that runs an item's tests; the answer's functions are calls to the candidate.

Its text follows that of `values.py`. It never runs a line of the answer. Exit status: PASSED after
the last test, FAILED with one line that says why, REFUSED if the candidate could not be fenced in.
"""

import builtins
import importlib
import json
import os
import re
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # in the process these stand above
    from flash_dllm.evaluation.answers.values import (
        Unspeakable,
        decode,
        encode,
        read_line,
        write_line,
    )

PASSED, FAILED, REFUSED = 42, 1, 3
# what tests may expect an answer to have imported; importing just any module would run its code
# outside the fence (antigravity opens a browser)
MODULES = {
    "bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools",
    "heapq", "itertools", "math", "operator", "random", "re", "statistics", "string",
}  # fmt: skip


class Gone(BaseException):
    """The candidate died or talks nonsense; no test may catch that."""


class Remote:
    """A function or object of the answer. Equal only to itself, whatever its own `==` says."""

    def __init__(self, candidate, **place):
        object.__setattr__(self, "_candidate", candidate)
        object.__setattr__(self, "_place", place)

    def __call__(self, *arguments, **keywords):
        return self._candidate.ask(self._place, "call", arguments, keywords)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._candidate.ask(self._place, "attribute", attribute=name)

    def __setattr__(self, name, value):
        self._candidate.ask(self._place, "set", (value,), attribute=name)

    def __iter__(self):
        return iter(self._candidate.ask(self._place, "list"))

    def __len__(self):
        return self._candidate.ask(self._place, "length")

    def __str__(self):
        return self._candidate.ask(self._place, "text")


class Candidate:
    """The other end of the line."""

    def __init__(self, command, request):
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
        )
        self.names = self._exchange(request)

    def ask(self, place, operation, arguments=(), keywords=None, **more):
        """Run something over there; the value, or the error it raised."""

        def handle(value):
            if isinstance(value, Remote) and "object" in value._place:
                return value._place["object"]
            raise Unspeakable(f"a {type(value).__name__} can't be passed to an answer")

        message = {
            **place,
            "operation": operation,
            "arguments": [encode(part, handle) for part in arguments],
            "keywords": {k: encode(v, handle) for k, v in (keywords or {}).items()},
            **more,
        }
        reply = self._exchange(message)
        if "error" in reply:
            kind = getattr(builtins, str(reply["error"]), None)
            # the end of an iteration would end a loop of the tests before its last assert
            is_error = isinstance(kind, type) and issubclass(kind, Exception) and (
                not issubclass(kind, (StopIteration, StopAsyncIteration))
            )  # fmt: skip
            raise (kind if is_error else RuntimeError)(reply.get("text"))
        try:
            changed = self._value(reply["arguments"])
            for before, after in zip(arguments, changed, strict=True):
                _overwrite(before, after)
            return self._value(reply["value"])
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            raise Gone(f"an answer that can't be read: {error}") from None

    def _value(self, data):
        return decode(data, lambda number: Remote(self, object=number))

    def _exchange(self, message):
        try:
            write_line(self._process.stdin, message)
            reply = read_line(self._process.stdout)
        except (OSError, ValueError, RecursionError) as error:
            raise Gone(f"no answer: {error}") from None
        if not isinstance(reply, dict):
            raise Gone("the program ended")
        return reply


def _overwrite(before, after):
    """What a call did to a mutable argument happens here too."""
    if type(before) is not type(after) or before == after:
        return
    if isinstance(before, list):
        before[:] = after
    elif isinstance(before, (dict, set)):
        before.clear()
        before.update(after)


def names_of(candidate):
    """What the tests see of the program: its functions, its plain values, its standard modules."""
    names = candidate.names
    seen = {name: Remote(candidate, name=name) for name in names["calls"]}
    for name, data in names["values"].items():
        seen[name] = candidate._value(data)
    for name, module in names["modules"].items():
        if module in MODULES:
            seen[name] = importlib.import_module(module)
    return seen


def belonging(seen, tests):
    """The names that are the program's to give: no builtin, and no module of the tests' unless it
    is one."""
    modules = {name for name in MODULES if re.search(rf"\b{name}\s*\.", tests)}
    return {
        name for name, value in seen.items()
        if not hasattr(builtins, name) and (name not in modules or isinstance(value, type(sys)))
    }  # fmt: skip


def judge(request):
    """(exit status, reason)."""
    try:
        candidate = Candidate(request["command"], request["candidate"])
        if "refused" in candidate.names:
            return REFUSED, "the syscall filter could not be set"
        if "error" in candidate.names:
            return FAILED, f"{candidate.names['error']}: {candidate.names.get('text')}"
        seen = names_of(candidate)
        # an answer must not replace what the tests compare with
        kept, own = request["may_replace"], belonging(seen, request["tests"])
        seen = {n: value for n, value in seen.items() if n in kept or n in own}
        exec(compile(request["tests"], "tests", "exec"), {**seen, "__name__": "tests"})
    except (Gone, Exception) as error:
        return FAILED, f"{type(error).__name__}: {error}"
    return PASSED, "passed"


def main():
    request = json.loads(sys.stdin.buffer.read())
    # ends this process; bubblewrap and the candidate end with it
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    status, reason = judge(request)
    sys.stdout.write(" ".join(reason.split())[:300].encode("ascii", "replace").decode())
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
