"""Model-written code: right answers pass, attacks neither pass nor hurt, with and without fence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flash_dllm.evaluation import sandbox
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.sandbox import Sandbox, SandboxError, fence_problem
from flash_dllm.evaluation.scoring import score_answers
from tests.processes import waited_for
from tests.random_model import ROOT

needs_fence = pytest.mark.skipif(
    fence_problem() is not None, reason=f"{fence_problem()}; {sandbox.INSTALL}"
)
BOTH = [
    pytest.param(Sandbox(is_fenced=True), id="fenced", marks=needs_fence),
    pytest.param(Sandbox(is_fenced=False), id="unfenced"),
]
TESTS = ("assert f(1) == 2", "assert f(2) == 3")
RIGHT = "def f(x):\n    return x + 1\n"

# each would pass a judge that shares a process with the answer, or hurt the machine
ATTACKS = {
    "leave with status 0": "import sys\nsys.exit(0)",
    "leave at once": "import os\nos._exit(0)",
    "leave with the judge's status": "import os\nos._exit(42)",
    "leave from a call": "import os\ndef f(x): os._exit(42)",
    "equal to everything": (
        "class All:\n    def __eq__(self, other): return True\n"
        "    def __hash__(self): return 0\ndef f(x): return All()"
    ),
    "an int equal to everything": (
        "class All(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def f(x): return All(0)"
    ),
    "patched builtins": (
        "import builtins\nbuiltins.AssertionError = ()\nbuiltins.compile = lambda *a: ''\n"
        "builtins.exec = lambda *a: None\nimport json\njson.dumps = lambda *a: '{}'\n"
        "def f(x): return None"
    ),
    "forged lines": (
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"value\": 2}\\n' * 9)\n"
        "    except OSError: pass\ndef f(x): return None"
    ),
    "patched trace": "import sys\nsys.settrace(lambda *a: None)\ndef f(x): raise SystemExit(0)",
    "fork bomb": "import os\nwhile True: os.fork()",
    "threads without end": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()"
    ),
    "endless output": "while True: print('x' * 10**6)",
    "endless file": "with open('big', 'w') as file:\n    while True: file.write('x' * 10**6)",
    "endless loop": "while True: pass",
    "endless sleep": "import time\ntime.sleep(60)",
    "huge allocation": "def f(x): return len([0] * 10**10)",
    "huge answer": "def f(x): return 'x' * 10**8",
    "endless number": "def f(x): return 10**10**7",
    "deep answer": "def f(x):\n    y = []\n    for _ in range(10**5): y = [y]\n    return y",
    "a kernel object without end": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "while libc.shmget(0, 1 << 20, 0o1600) >= 0: pass\ndef f(x): return 0"
    ),
    "program": "import os\ndef f(x): return os.system('true') + x + 1",
    "broken": "def f(x:",
    "nul": "\0",
    "empty": "",
}


@pytest.mark.parametrize("box", BOTH)
def test_a_right_function_passes_and_a_wrong_one_says_where(box):
    assert box.run(RIGHT, TESTS).reason == "passed"
    assert box.run(RIGHT, TESTS).is_passed
    verdict = box.run("def f(x):\n    return 2", TESTS)
    assert (verdict.is_passed, verdict.reason) == (False, "AssertionError:")
    assert box.run("def f(x):\n    return [][x]", TESTS).reason.startswith("IndexError: list")


@pytest.mark.parametrize("box", BOTH)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_does_not_pass_and_ends(box, attack):
    start = time.monotonic()
    assert not replace(box, wall_seconds=5).run(attack, TESTS).is_passed
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("box", BOTH)
def test_values_of_all_plain_kinds_cross_unchanged(box):
    program = "def f(x):\n    return x"
    values = [
        "None", "True", "-3", "2**200", "1.5", "float('inf')", "2j", "'é\\n\"'", "b'\\x00'",
        "[1, [2]]", "(1, (2,))", "{1, 2}", "frozenset({1})", "{(1, 2): ['a'], None: {}}",
    ]  # fmt: skip
    tests = [f"assert f({value}) == {value} and type(f({value})) is type({value})"
             for value in values]  # fmt: skip
    assert box.run(program, tests).reason == "passed"


@pytest.mark.parametrize("box", BOTH)
def test_tests_see_classes_arguments_changed_in_place_iterators_and_errors(box):
    program = (
        "import math\nLIMIT = 3\nclass Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
        "def total(pairs): return sum(p.a + p.b for p in pairs)\n"
        "def drop(xs): xs.pop()\n"
        "def count(n):\n    yield from range(n)\n"
        "def fail(): raise KeyError('no')\n"
    )
    tests = [
        "assert total([Pair(1, 2), Pair(3, b=4)]) == 10 and Pair(5, 6).b == 6",
        "xs = [1, 2]\ndrop(xs)\nassert xs == [1]",
        "assert list(count(LIMIT)) == [0, 1, 2]",
        "assert math.isclose(total([]), 0)",
        "p = Pair(1, 2)\np.a = 5\nassert total([p]) == 7",
        "try:\n    fail()\n    assert False\nexcept KeyError:\n    pass",
    ]
    assert box.run(program, tests).reason == "passed"


@pytest.mark.parametrize("box", BOTH)
def test_an_answer_replaces_no_builtin_but_the_one_that_it_is_asked_for(box):
    program = "def abs(x): return 0\ndef f(x): return 9"
    assert not box.run(program, ["assert abs(f(1) - 2) < 1"]).is_passed
    program = "def sum(a, b): return a * b"
    assert not box.run(program, ["assert sum(2, 3) == 6"]).is_passed
    assert box.run(program, ["assert sum(2, 3) == 6"], may_replace=("sum",)).is_passed


@pytest.mark.parametrize("box", BOTH)
def test_an_answer_puts_nothing_of_its_own_in_the_place_of_a_module_that_the_tests_use(box):
    tests = ["assert math.isclose(f(1), 2)"]
    assert box.run("import math\ndef f(x): return x + 1", tests).reason == "passed"
    fake = "class math:\n    isclose = staticmethod(lambda *a: True)\ndef f(x): return 0"
    assert box.run(fake, tests).reason.startswith("NameError")
    # a function of that name is the answer's own where the tests call it
    assert box.run("def copy(x): return x + 1", ["assert copy(1) == 2"]).is_passed


@pytest.mark.parametrize("box", BOTH)
def test_an_answer_ends_no_loop_of_the_tests(box):
    tests = ["for got, wanted in zip(map(f, [1, 2]), [2, 3]):\n    assert got == wanted"]
    assert box.run(RIGHT, tests).reason == "passed"
    assert box.run("def f(x): raise StopIteration", tests).reason.startswith("RuntimeError")


@needs_fence
def test_a_fenced_answer_writes_nothing_and_deletes_nothing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("here")
    program = (
        "import os\ndef f(x):\n    done = 0\n"
        f"    for path in ({str(victim)!r}, '/usr/bin/env', {str(Path(os.__file__))!r}):\n"
        "        try:\n            os.remove(path)\n            done += 1\n"
        "        except OSError: pass\n"
        f"    for path in ({str(tmp_path / 'new')!r}, '/new', '/usr/new', '/etc/new'):\n"
        "        try:\n            os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        "            open(path, 'w').write('x')\n        except OSError: pass\n"
        "    open('/tmp/mine', 'w').write('x')\n    return done\n"
    )
    assert Sandbox(is_fenced=True).run(program, ["assert f(0) == 0"]).reason == "passed"
    assert victim.read_text() == "here"
    assert list(tmp_path.iterdir()) == [victim]
    assert not any(Path(path).exists() for path in ("/new", "/usr/new", "/etc/new", "/tmp/mine"))


@needs_fence
@pytest.mark.parametrize("folder", ["/", "/dev", "/dev/shm", "/tmp", "/usr", "/proc"])
def test_a_fenced_answer_fills_no_memory_with_files(folder):
    program = (
        "def f(folder):\n    written = 0\n    try:\n        for n in range(64):\n"
        "            with open(f'{folder}/file{n}', 'wb') as file: file.write(b'x' * 10**6)\n"
        "            written += 1\n    except OSError: pass\n    return written\n"
    )
    # its own folder has 16 MiB
    most = 16 if folder == "/tmp" else 0
    verdict = Sandbox(is_fenced=True).run(program, [f"assert f({folder!r}) == {most}"])
    assert verdict.reason == "passed"


@pytest.mark.parametrize("box", BOTH)
def test_an_answer_gets_no_namespace_no_mount_and_no_memory_outside_its_own(box):
    program = (
        "import ctypes\nlibc = ctypes.CDLL(None)\ndef f(name, *arguments):\n"
        "    return getattr(libc, name)(*arguments)\n"
    )
    # CLONE_NEWUSER; a tmpfs; a segment that would outlive the process
    calls = ("'unshare', 0x10000000", "'mount', b'x', b'/tmp', b'tmpfs', 0, 0",
             "'memfd_create', b'x', 0", "'shmget', 0, 1 << 20, 0o1600")  # fmt: skip
    verdict = box.run(program, [f"assert f({call}) == -1" for call in calls])
    assert verdict.reason == "passed"


@needs_fence
def test_a_fenced_answer_sees_no_files_no_environment_and_no_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "secret").write_text("x")
    program = (
        "import os\ndef f(x):\n"
        f"    return ['SECRET' in os.environ, os.path.exists({str(tmp_path / 'secret')!r}),\n"
        f"            os.path.exists({__file__!r}), os.path.exists('/proc/1')]\n"
    )
    tests = ["assert f(0) == [False] * 4"]
    assert Sandbox(is_fenced=True).run(program, tests).reason == "passed"


@pytest.mark.parametrize("box", BOTH)
def test_an_answer_reaches_no_socket_and_starts_no_process(box):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.01)
        port = server.getsockname()[1]
        program = (
            "import os, socket, subprocess\ndef f(x):\n    done = []\n"
            "    for what in (\n"
            f"        lambda: socket.create_connection(('127.0.0.1', {port}), 1),\n"
            "        os.fork, lambda: subprocess.run(['true']),\n"
            "        lambda: os.execv('/bin/true', ['true']), lambda: os.kill(os.getppid(), 9),\n"
            "        os.setsid,\n    ):\n"
            "        try: done.append(repr(what()))\n        except OSError: pass\n"
            "    return done\n"
        )
        assert box.run(program, ["assert f(0) == []"]).reason == "passed"
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("box", BOTH)
def test_no_process_is_left_behind(box, monkeypatch):
    # a comment in both programs makes their command lines ours
    marker = f"# test {os.getpid()} {time.time_ns()}"
    source = sandbox._source
    monkeypatch.setattr(sandbox, "_source", lambda name: f"{marker}\n{source(name)}")
    short = replace(box, wall_seconds=3)
    thread = threading.Thread(target=short.run, args=("import time\ntime.sleep(60)", TESTS))
    thread.start()
    time.sleep(1.5)
    assert processes_with(marker)
    thread.join()
    time.sleep(0.2)
    assert processes_with(marker) == []


@pytest.mark.parametrize("box", BOTH)
@pytest.mark.parametrize("program", ["import time\ntime.sleep(600)", RIGHT], ids=["it", "tests"])
def test_no_process_is_left_behind_by_an_evaluation_that_is_killed(box, program):
    marker = f"# test {os.getpid()} {time.time_ns()}"
    run = (
        "from flash_dllm.evaluation import sandbox\nsource = sandbox._source\n"
        f"sandbox._source = lambda name: {marker!r} + chr(10) + source(name)\n"
        f"box = sandbox.Sandbox(is_fenced={box.is_fenced}, wall_seconds=3)\n"
        f"box.run({program!r}, ['while f(1) == 2: pass'])\n"
    )
    evaluation = subprocess.Popen([sys.executable, "-c", run], cwd=ROOT)
    try:
        assert waited_for(lambda: len(processes_with(marker)) >= 2)
    finally:
        evaluation.kill()
        evaluation.wait()
    assert waited_for(lambda: processes_with(marker) == [], 20)


def processes_with(marker: str) -> list[str]:
    """Ids of processes whose command line holds the marker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in text:
            found.append(folder.name)
    return found


def test_code_is_refused_without_a_fence_unless_that_is_allowed(monkeypatch):
    monkeypatch.setattr(sandbox, "fence_problem", lambda: "bubblewrap (bwrap) is not installed")
    item = Item("code", "f", "s", "p", "a", tests=TESTS)
    with pytest.raises(SandboxError, match="--allow-unsandboxed"):
        score_answers([item], [RIGHT])
    (score,) = score_answers([item], [RIGHT], allow_unsandboxed=True)
    assert (score.is_correct, score.extracted, score.reason) == (True, RIGHT, "passed")


def test_no_code_needs_no_fence(monkeypatch):
    monkeypatch.setattr(sandbox, "fence_problem", lambda: "bubblewrap (bwrap) is not installed")
    item = Item("word", "f", "s", "p", "a", gold="1")
    assert score_answers([item], ["#### 1"])[0].is_correct
