"""Runs and sweeps of one GPU: a step each, never two at once. Threads, without a GPU."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

from app.device_turns import DeviceTurns

GPU = SimpleNamespace(info=SimpleNamespace(device="cuda"))
CPU = SimpleNamespace(info=SimpleNamespace(device="cpu"))


class Device:
    """Counts who is in a step at the same time, and keeps the order of steps."""

    def __init__(self) -> None:
        self.inside, self.most = 0, 0
        self.order: list[str] = []

    def step(self, name: str) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.005)
        self.order.append(name)
        self.inside -= 1
        return name


def sweep(turns: DeviceTurns, device: Device, count: int) -> None:
    with turns.held(GPU):
        for _ in range(count):
            device.step("sweep")
            turns.give_way()


def test_a_run_gets_its_steps_while_a_sweep_goes_on():
    turns, device = DeviceTurns(), Device()
    other = threading.Thread(target=sweep, args=(turns, device, 40))
    other.start()
    while not device.order:
        time.sleep(0.001)
    run = list(turns.each(GPU, (device.step("run") for _ in range(5))))
    other.join()
    assert run == ["run"] * 5 and device.order.count("sweep") == 40
    assert device.most == 1
    # the sweep was not over before the run's last step
    last = len(device.order) - 1 - device.order[::-1].index("run")
    assert "sweep" in device.order[last:]


def test_two_runs_are_never_in_a_step_together():
    turns, device = DeviceTurns(), Device()

    def run(name: str) -> None:
        for _ in turns.each(GPU, (device.step(name) for _ in range(10))):
            pass

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.most == 1 and sorted(device.order) == ["a"] * 10 + ["b"] * 10


def test_a_step_that_fails_gives_its_turn_back():
    def failing():
        yield 1
        raise ValueError("a step")

    turns = DeviceTurns()
    seen = []
    try:
        for item in turns.each(GPU, failing()):
            seen.append(item)
    except ValueError:
        seen.append("failed")
    assert seen == [1, "failed"]
    assert list(turns.each(GPU, iter([2]))) == [2]


def test_on_a_cpu_nobody_waits():
    turns = DeviceTurns()
    with turns.held(GPU):
        assert list(turns.each(CPU, iter([1, 2]))) == [1, 2]
        with turns.held(CPU):
            turns.give_way()
