"""Whether an answer is right, by domain: exact values, or running a function against its asserts.

`score_code` runs model-written Python in a child process with limits on time, memory and file size,
in an empty environment and a temporary folder. That stops endless loops, memory floods
and accidents of a small model. It isn't a sandbox for hostile code: the child has the same user,
can read the same files and could open network connections.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from training.generators.item import Item

CPU_SECONDS = 2
WALL_SECONDS = 5
MEMORY_BYTES = 512 * 1024**2
FILE_BYTES = 1024**2
WORKERS = 2
# the child's exit status after the last assert: an answer that leaves early with 0 isn't right
_PASSED = 42
# the child limits itself, so that no Python of the parent runs between fork and exec
_BOOTSTRAP = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_BYTES}, {FILE_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
exec(compile(sys.stdin.buffer.read(), "answer", "exec"), {{"__name__": "__main__"}})
os._exit({_PASSED})
"""

_INTEGER = re.compile(r"[-+]?\d[\d,]*(?:\.0+)?(?!\.?\d|\s*[-+*/]\s*\d)")
_FENCE = re.compile(r"```(?:python)?[ ]*\n(.*?)(?:```|\Z)", re.DOTALL)


def is_correct(item: Item, text: str) -> bool:
    """Whether `text`, a model's answer to the item, is right; anything unreadable is wrong.

    Raises     ValueError for a domain that has no rule.
    """
    rules = {"word": _word, "algebra": _algebra, "story": _story, "code": _code}
    if item.domain not in rules:
        raise ValueError(f"domain must be one of {sorted(rules)}, got {item.domain!r}")
    return rules[item.domain](item, text)


def are_correct(items: Sequence[Item], texts: Sequence[str], workers: int = WORKERS) -> list[bool]:
    """`is_correct` for many answers, with the code answers run `workers` at a time."""
    if len(items) != len(texts):
        raise ValueError(f"as many texts as items are needed, got {len(texts)} and {len(items)}")
    pairs = list(zip(items, texts, strict=True))
    code = iter(score_code([pair for pair in pairs if pair[0].domain == "code"], workers))
    return [next(code) if item.domain == "code" else is_correct(item, text) for item, text in pairs]


def score_code(answers: Sequence[tuple[Item, str]], workers: int = WORKERS) -> list[bool]:
    """Run each (item, answer) against the item's tests, `workers` children at a time."""
    # threads are enough: each one only waits for its child process
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(lambda pair: _code(*pair), answers))


def boxed_content(text: str) -> str | None:
    r"""Content of the last `\boxed{…}` with balanced braces, without spaces; None if there is none.

    >>> boxed_content(r"so $\boxed{ \frac{1}{2} }$")
    '\\frac{1}{2}'
    """
    start = text.rfind(r"\boxed{")
    if start < 0:
        return None
    start += len(r"\boxed{")
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return "".join(text[start:end].split())
    return None


def last_integer(text: str) -> int | None:
    """The integer right after the last `####`; None if there is none.

    >>> last_integer("48 / 2 = 24\\n#### 1,024")
    1024
    """
    if "####" not in text:
        return None
    match = _INTEGER.match(text.rsplit("####", 1)[1].strip().lstrip("$ "))
    return int(match.group().replace(",", "").split(".")[0]) if match else None


def last_word(text: str) -> str | None:
    """The word after the last `Answer:`, lower case, without punctuation; None if there is none.

    >>> last_word("Noah ran.\\nAnswer: River.")
    'river'
    """
    if "answer:" not in text.lower():
        return None
    words = re.findall(r"[\w'-]+", text.lower().rsplit("answer:", 1)[1].strip().split("\n")[0])
    return words[0].strip("'-_") if len(words) == 1 else None


def _word(item: Item, text: str) -> bool:
    return last_integer(text) == int(item.gold)


def _algebra(item: Item, text: str) -> bool:
    return boxed_content(text) == "".join(item.gold.split())


def _story(item: Item, text: str) -> bool:
    return last_word(text) == item.gold.lower()


def _code(item: Item, text: str) -> bool:
    """Run the answer (or the fenced part of it) and the tests in a limited child process."""
    if not item.tests:
        raise ValueError(f"a code item needs tests, {item.specification!r} has none")
    fenced = _FENCE.search(text)
    program = fenced.group(1) if fenced else text
    source = "\n".join([program, *item.tests])
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOTSTRAP],
            cwd=folder,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.communicate(source.encode(errors="replace"), timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _kill_session(child)
    return child.returncode == _PASSED


def _kill_session(child: subprocess.Popen) -> None:
    """End the child and whatever it has started in its own session."""
    # already gone is the usual case
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
