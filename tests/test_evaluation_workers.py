"""Processes that measure: what is left of them when one of them, or their parent, is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flash_dllm.evaluation.workers import Processes, Ray
from tests.processes import is_there, say_and_wait, waited_for
from tests.random_model import ROOT

PARENT = """
from flash_dllm.evaluation.workers import Processes
from tests.processes import say_and_wait

if __name__ == "__main__":
    pool = Processes(say_and_wait, 2)
    for number in range(2):
        pool.submit(number, {folder!r}, 600.0)
    while True:
        list(pool.finished(1.0))
"""


STREAM = """
import time
from training.stream import ShardStream, StreamConfig

if __name__ == "__main__":
    with ShardStream(StreamConfig("assets/tiny/tokenizer.json", None), 1, 4096) as stream:
        time.sleep(600)
"""


def children(pid: int) -> list[int]:
    """Processes that another one started and that make its shards or trials."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(folder.name))
    return found


def test_no_maker_of_training_data_outlives_a_training_that_is_killed(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(STREAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(program)], cwd=ROOT, env=environment)
    try:
        assert waited_for(lambda: bool(children(parent.pid)))
        (maker,) = children(parent.pid)
        # by then it makes shards, and nobody takes them
        time.sleep(4.0)
        assert is_there(maker)
    finally:
        parent.kill()
        parent.wait()
    assert waited_for(lambda: not is_there(maker), 20)


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path):
    program, said = tmp_path / "parent.py", tmp_path / "said"
    said.mkdir()
    program.write_text(PARENT.replace("{folder!r}", repr(str(said))))
    parent = subprocess.Popen(
        [sys.executable, str(program)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        assert waited_for(lambda: len(list(said.iterdir())) == 2)
        workers = [int(path.name) for path in said.iterdir()]
        assert all(map(is_there, workers))
    finally:
        parent.kill()
        parent.wait()
    assert waited_for(lambda: not any(map(is_there, workers)), 20)


@pytest.mark.parametrize("comes_first", ["the word that it is over", "the end of a process"])
def test_a_pool_that_is_closed_while_calls_wait_says_nothing(tmp_path, monkeypatch, comes_first):
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    pool = Processes(say_and_wait, 1)
    if comes_first == "the end of a process":
        monkeypatch.setattr(pool._pool, "shutdown", lambda **how: None)
    for number in range(4):
        pool.submit(number, str(tmp_path), 600.0)
    assert waited_for(lambda: any(tmp_path.iterdir()))
    manager = pool._pool._executor_manager_thread
    pool.close()
    manager.join(30)
    assert not manager.is_alive() and failed == []


def test_a_call_that_is_sent_after_a_worker_died_is_run_like_those_that_it_took_along(tmp_path):
    pool = Processes(say_and_wait, 1)
    try:
        pool.submit(0, str(tmp_path), 0.5)
        assert waited_for(lambda: any(tmp_path.iterdir()))
        killed = int(next(tmp_path.iterdir()).name)
        os.kill(killed, signal.SIGKILL)
        # the pool notices by itself and then takes nothing more
        assert waited_for(lambda: pool._pool._broken)
        pool.submit(1, str(tmp_path), 0.0)
        found: dict[int, int] = {}
        assert waited_for(lambda: found.update(pool.finished(1.0)) or len(found) == 2)
        assert all(isinstance(pid, int) and pid != killed for pid in found.values())
    finally:
        pool.close()


@pytest.mark.parametrize("address", ["{}", "ray://{}", "nowhere", "127.0.0.1:99999999", ":", "ray"])
def test_a_ray_cluster_that_is_not_there_is_one_sentence_and_no_endless_wait(address):
    pytest.importorskip("ray", reason="pip install -r requirements-ray.txt")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        # bound, and nobody listens
        given = address.format(f"127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(ConnectionError, match=f"no Ray cluster at {given} "):
            Ray(say_and_wait, given)
