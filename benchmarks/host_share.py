"""The host's part of a step, without a device: python benchmarks/host_share.py

The loop, strategy, cache policy, packing, reading of the answers and records are the real ones, at
LLaDA-8B's shape in the authors' setting (`llada_8b.py`, section steps). Only the network is
missing: a pass answers at once with numbers made before, and acceptance is scheduled. Times are of
one thread's work, so that other processes count as little as can be.

  waited for   from a pass's answers to the next pass on its way: the device has nothing to do
  recorded     records of ended steps but the first sequence's, made while the device works

With --device-ms DRAFT VERIFY passes take time, as on a device beside the host: so long for the
whole batch, one after another. Then a step is measured by the wall clock, in one group or two:

  step         of all sequences
  idle         of it, what the device had nothing to do
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from benchmarks.acceptance_schedule import (  # noqa: E402
    DRAFTED,
    VERIFIED,
    Schedule,
    ScheduledSession,
)
from benchmarks.random_llada import LLADA, NoText  # noqa: E402
from flash_dllm.caches import FlashCache  # noqa: E402
from flash_dllm.config import DecodeConfig  # noqa: E402
from flash_dllm.decoder import decode_batch_steps  # noqa: E402
from flash_dllm.engine_protocol import SessionRequest  # noqa: E402
from flash_dllm.pass_sizes import PassSizes  # noqa: E402
from flash_dllm.query import Prediction  # noqa: E402
from flash_dllm.session import Asked, ModelSession, passes_of  # noqa: E402
from flash_dllm.strategies import Confidence, FlashVerify  # noqa: E402
from flash_dllm.trace import ModelInfo, StepTrace  # noqa: E402
from flash_dllm.workspace import Workspace  # noqa: E402

WARMUP = 4  # steps before the measured ones; the first of them reads everything


@dataclass
class Device:
    """Takes its time for each pass, one after another, while the host goes on.

    seconds  of one sequence in a pass by kind; none: a pass is over at once
    free_at  when all that was launched is done; idle: seconds without work between passes
    """

    seconds: dict[str, float] = field(default_factory=dict)
    free_at: float = 0.0
    idle: float = 0.0

    def launch(self, kinds: Sequence[str]) -> float:
        """Begin a pass of these queries; when it will be done, by `time.perf_counter`."""
        now = time.perf_counter()
        if self.free_at:
            self.idle += max(0.0, now - self.free_at)
        self.free_at = max(now, self.free_at) + sum(self.seconds.get(kind, 0.0) for kind in kinds)
        return self.free_at


class HostSession(ModelSession):
    """A session whose passes are over before they start; everything else is what a GPU gets:
    padded packing without what only the torch truth reads, and one flat tensor to read."""

    def __init__(self, device: Device, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.device = device
        self._answers: dict[PassSizes, Tensor] = {}
        self._generator = torch.Generator().manual_seed(0)
        self.answered = self.waited = 0.0

    def ask(self, queries: Asked) -> Callable[[], list[Prediction]]:
        passes = list(passes_of(queries))
        first = self._start(passes[0])
        if self.answered:
            self.waited += time.thread_time() - self.answered
        done = self.device.launch([query.kind for _, query in queries])

        def answers() -> list[Prediction]:
            while time.perf_counter() < done:
                pass  # as the host waits for CUDA: without sleeping
            self.answered = time.thread_time()
            predictions: dict[int, Prediction] = {}
            for number, asked in enumerate(passes):
                predictions |= self._finish(first if number == 0 else self._start(asked))
            return [predictions[handle] for handle, _ in queries]

        return answers

    def launch(self, queries: Asked, alternatives: int) -> tuple[Tensor, PassSizes]:
        exact = PassSizes.of(queries)
        table, space = self._space.cache.table, self._space
        sizes = exact
        if any(query.kind == "full" for _, query in queries):
            space.free.fill(queries, table)
        else:
            assert space.fixed is not None, "the workspace was made for graphs"
            sizes = exact.padded(keys=table.shape[1])
            space.fixed.fill(queries, table, sizes)
        return self._made(sizes), sizes

    def _made(self, sizes: PassSizes) -> Tensor:
        """Tokens, confidences and a mass whose keys together have 1 (most of it at a few keys)."""
        if sizes not in self._answers:
            rows, keys = sizes.predicted, sizes.keys
            mass = torch.zeros(0)
            if sizes.mass:
                drawn = torch.rand(sizes.sequences, keys, generator=self._generator).pow(8)
                mass = (drawn / drawn.sum(1, keepdim=True)).flatten()
            tokens = torch.full((rows,), 1000.0)
            self._answers[sizes] = torch.cat([tokens, torch.full((rows,), 0.5), mass])
        return self._answers[sizes]


@dataclass
class HostEngine:
    """Opens such sessions."""

    schedule: Schedule
    device: Device = field(default_factory=Device)
    codec: NoText = field(default_factory=NoText)
    sessions: list[HostSession] = field(default_factory=list)
    preset: dict[str, Any] = field(default_factory=dict)
    guide: None = None

    @property
    def info(self) -> ModelInfo:
        spec = LLADA.spec
        return ModelInfo(LLADA.name, spec.vocab_size, spec.n_layers, spec.mask_token_id,
                         spec.eos_token_ids)  # fmt: skip

    @property
    def max_length(self) -> int:
        return LLADA.spec.max_length

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        return self.codec.encode(prompt, raw)

    def token_text(self, token: int) -> str:
        return self.codec.token_text(token)

    def open(self, request: SessionRequest) -> ScheduledSession:
        # one narrow head: the cache's numbers are nobody's business here
        spec = SimpleNamespace(**vars(LLADA.spec) | {"n_layers": 1, "n_heads": 1, "n_kv_heads": 1,
                                                     "head_dim": 16})  # fmt: skip
        model: Any = SimpleNamespace(
            spec=spec, impl="triton", device=torch.device("cpu"), dtype=torch.float32,
            is_shared=False, qkv_route="rope_cache", weights=SimpleNamespace(is_scaled=False),
        )  # fmt: skip
        space = Workspace.make(model, request, has_graphs=True)
        self.sessions.append(HostSession(self.device, model, request, space, []))
        return ScheduledSession(self.sessions[-1], self.schedule)


@dataclass(frozen=True)
class Run:
    """Milliseconds of each measured step of the whole batch, and the records.

    walls, idle  of the step by the wall clock, and what of it the device had nothing to do
    """

    waited: list[float]
    recorded: list[float]
    walls: list[float]
    idle: list[float]
    steps: list[tuple[int, StepTrace]]


def run(
    batch: int,
    is_verify: bool,
    wanted: int,
    device_ms: tuple[float, float] | None = None,
    groups: int = 1,
) -> Run:
    """Decode so many steps of a batch.

    device_ms  what a draft and a verify pass of the whole batch take; None: they are over at once
    """
    shape = LLADA
    schedule = Schedule(DRAFTED, VERIFIED if is_verify else (), shape.decide)
    strategy = FlashVerify(0.9, 0.8, search_size=shape.search) if is_verify else Confidence(0.9)
    cache = FlashCache(track_size=shape.tracked_128, verify_rows=2 * shape.decide)
    config = DecodeConfig(gen_length=shape.answer, window_size=shape.window,
                          decide_size=shape.decide, alternatives=0)  # fmt: skip
    engine = HostEngine(schedule)
    if device_ms is not None:
        draft, verify = (ms / 1e3 / batch for ms in device_ms)
        engine.device.seconds |= {"draft": draft, "verify": verify}
    drawn = torch.Generator().manual_seed(0)
    prompts = torch.randint(1500, 2000, (batch, shape.prompt), generator=drawn).tolist()
    loop = decode_batch_steps(engine, prompts, strategy, cache, config, batch, groups)
    waited, recorded, steps = [], [], []
    marks: list[tuple[float, float]] = []
    try:
        for index in range(1, WARMUP + wanted + 1):
            session = engine.sessions[-1] if engine.sessions else None
            before = session.waited if session else 0.0
            begin, found = records(loop, batch)
            assert all(step.index == index for _, step in found), "the batch goes in step"
            steps += found
            if index >= WARMUP:
                marks.append((time.perf_counter(), engine.device.idle))
            if index > WARMUP and session is not None:
                waited.append((session.waited - before) * 1e3)
                recorded.append((time.thread_time() - begin) * 1e3)
    finally:
        loop.close()
    walls, idle = (
        [(end - begin) * 1e3 for begin, end in pairwise(times)]
        for times in zip(*marks, strict=True)
    )
    return Run(waited, recorded, walls, idle, steps)


def records(
    loop: Iterator[tuple[int, StepTrace]], batch: int
) -> tuple[float, list[tuple[int, StepTrace]]]:
    """The records of one step of all sequences; when the second of them was asked for, as the
    first one's answer comes with two passes before it."""
    found = [next(loop)]
    begin = time.thread_time()
    found += [next(loop) for _ in range(batch - 1)]
    return begin, found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print medians, or a profile."""
    cli = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cli.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    cli.add_argument("--steps", type=int, default=40, help="measured steps")
    cli.add_argument("--device-ms", nargs=2, type=float, metavar=("DRAFT", "VERIFY"),
                     help="what a pass of the whole batch takes on the device")  # fmt: skip
    cli.add_argument("--groups", nargs="+", type=int, default=[1, 2],
                     help="in how many groups a batch is decoded (with --device-ms)")  # fmt: skip
    cli.add_argument("--profile", action="store_true", help="functions by their own time instead")
    options = cli.parse_args(arguments)
    torch.set_num_threads(1)
    for batch in options.batches:
        for name, is_verify in (("verify", True), ("confidence", False)):
            if options.profile:
                profile = cProfile.Profile()
                profile.runcall(run, batch, is_verify, options.steps)
                pstats.Stats(profile).sort_stats("tottime").print_stats(45)
                continue
            if options.device_ms is None:
                found = run(batch, is_verify, options.steps)
                parts = {"waited for": found.waited, "recorded": found.recorded}
                print(f"batch {batch}, {name}, a step of all sequences: {said(parts)}", flush=True)
                continue
            for groups in options.groups:
                found = run(batch, is_verify, options.steps, options.device_ms, groups)
                parts = {"step": found.walls, "idle": found.idle}
                print(f"batch {batch}, {name}, in groups: {groups}, {said(parts)}", flush=True)


def said(parts: dict[str, list[float]]) -> str:
    """Medians and quantiles."""
    return ", ".join(
        f"{part} {statistics.median(times):.3f} ms ({quantiles(times)})"
        for part, times in parts.items()
    )


def quantiles(times: list[float]) -> str:
    low, _, _, high = statistics.quantiles(times, n=5)
    return f"20–80 %: {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main()
