"""Where trials run: in this process, in several local ones, or on a Ray cluster.

All three look alike: `submit` gives a ticket, `finished` the tickets that are done with what came
of them. A worker that dies takes no trial with it: its trials are sent out again, a few times.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
# a task that kills its worker every time must not do so for ever
ATTEMPTS = 4
CONNECT_SECONDS = 10.0
# what a worker on another machine has no use for
NOT_CARRIED = [".git", ".venv", "docs/img", "**/__pycache__", "*.db", "training/data"]

Work = Callable[..., Any]
Outcome = Any


class Workers(Protocol):
    """A place where calls run."""

    size: int

    def submit(self, ticket: int, *arguments: Any) -> None:
        """Send one call out."""

    def finished(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        """(ticket, result or the exception it raised) of what is done, after `seconds` at most."""

    def close(self) -> None:
        """Stop everything that still runs."""


class Here:
    """One call after the other in this process."""

    size = 1

    def __init__(self, work: Work) -> None:
        self._work = work
        self._waiting: deque[tuple[int, tuple]] = deque()

    def submit(self, ticket: int, *arguments: Any) -> None:
        self._waiting.append((ticket, arguments))

    def finished(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        while self._waiting:
            ticket, arguments = self._waiting.popleft()
            try:
                outcome = self._work(*arguments)
            except Exception as error:
                outcome = error
            yield ticket, outcome

    def close(self) -> None:
        self._waiting.clear()


class Processes:
    """Several processes of this machine, each with one thread of torch."""

    def __init__(self, work: Work, size: int) -> None:
        self.size = size
        self._work = work
        self._running: dict[Future, tuple[int, tuple, int]] = {}
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.size, context, _begin)

    def submit(self, ticket: int, *arguments: Any) -> None:
        self._send(ticket, arguments, 1)

    def _send(self, ticket: int, arguments: tuple, attempt: int) -> None:
        try:
            future = self._pool.submit(self._work, *arguments)
        except BrokenProcessPool as error:
            # a process died since the last look: this call is lost with those that it held
            future = Future()
            future.set_exception(error)
        self._running[future] = ticket, arguments, attempt

    def finished(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        lost = []
        for future in done:
            ticket, arguments, attempt = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool) and attempt < ATTEMPTS:
                lost.append((ticket, arguments, attempt + 1))
            else:
                yield ticket, error if error is not None else future.result()
        if lost:
            # a dead process breaks the whole pool: every call that it held is sent again
            lost += [(t, a, n + 1) for t, a, n in self._running.values()]
            self._running.clear()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._new_pool()
            for call in lost:
                self._send(*call)

    def close(self) -> None:
        # the pool cancels what waits; done from here, it would fail on it when its processes end
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _check_address(address: str) -> None:
    """Raise ConnectionError if nobody listens there: Ray itself would wait without end."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConnectionError(
            f"no Ray cluster at {address} ({error}); give auto, HOST:PORT or ray://HOST:PORT"
        ) from None


class Ray:
    """A Ray cluster; this checkout travels as the working directory.

    address  "auto" finds the cluster of this machine, else HOST:PORT or ray://HOST:PORT
    Raises   ImportError or ConnectionError in one sentence.
    """

    def __init__(self, work: Work, address: str, size: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise ImportError(
                "Ray is not installed; run pip install -r requirements-ray.txt"
            ) from None
        _check_address(address)
        # its own types overload `remote` by the number of arguments
        self._ray: Any = ray
        self._ray.init(
            address=address,
            runtime_env={"working_dir": str(ROOT), "excludes": NOT_CARRIED},
            log_to_driver=False,
            ignore_reinit_error=True,
        )
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        self.size = size or max(1, gpus or int(resources.get("CPU", 1)))
        options = {"max_retries": ATTEMPTS - 1, "num_cpus": 1, "num_gpus": 1 if gpus else 0}
        self._remote = self._ray.remote(**options)(_in_one_thread)
        self._work = work
        self._running: dict[Any, int] = {}

    def submit(self, ticket: int, *arguments: Any) -> None:
        self._running[self._remote.remote(self._work, *arguments)] = ticket

    def finished(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        if not self._running:
            return
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        for reference in done:
            ticket = self._running.pop(reference)
            try:
                yield ticket, self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                yield ticket, error.cause if isinstance(error.cause, Exception) else error
            except self._ray.exceptions.RayError as error:
                yield ticket, error

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._ray.shutdown()


def check_first(workers: Workers, *arguments: Any) -> None:
    """One call, alone, where the others will run. Raises what it raises, at least in a sentence."""
    workers.submit(-1, *arguments)
    while True:
        for _, outcome in workers.finished(1.0):
            if isinstance(outcome, (ValueError, OSError, RuntimeError, ImportError)):
                raise outcome
            if isinstance(outcome, Exception):
                raise RuntimeError(f"{type(outcome).__name__}: {outcome}")
            return


def one_thread() -> None:
    """Processes share the cores: more threads than cores wait for each other."""
    import torch

    torch.set_num_threads(1)


def end_with_parent() -> None:
    """In a process of another one: end when that one ends, however it ends.

    A pool's processes hold both ends of the pipe that they wait at: if their parent is killed,
    none of them would ever hear of it.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _begin() -> None:
    end_with_parent()
    one_thread()


def _in_one_thread(work: Work, *arguments: Any) -> Any:
    one_thread()
    return work(*arguments)
