"""Speed and memory at LLaDA-8B's shape: python benchmarks/llada_8b.py

Random weights (clearly labelled: what they decode is nonsense), prompt 1024 + answer 512, logits
of the deciding rows only. Rows go to `<out>/llada_8b.csv` as they are measured, key figures to
`<out>/summary.json`; `benchmarks/performance_table.py` writes docs/performance.md from them.

Sections (choose with --sections):
  ceilings   what the machine copies and multiplies
  passes     draft and verify passes, batch 1 to 32: device time of the captured pass
  steps      the real loop in the official setting, host included, with scheduled acceptance
  admission  full passes of one and of two sequences
  memory     peak by part at batch 16
  eager      the same passes without CUDA graphs
  plain      a plain torch forward of the same rows: eager, and as a CUDA graph
  compile    the plain forward with torch.compile'd pointwise functions (compiles for a while)
  varlen     torch's varlen_attn against ours, one layer

Several GPUs that share the model: torchrun --nproc-per-node 2 benchmarks/llada_8b.py --sections
passes steps memory.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from benchmarks.acceptance_schedule import (  # noqa: E402
    DRAFTED,
    VERIFIED,
    Schedule,
    ScheduledEngine,
)
from benchmarks.plain_torch import PlainForward, varlen_times  # noqa: E402
from benchmarks.random_llada import SHAPES, Shape, random_engine  # noqa: E402
from benchmarks.timing import Spread, Table, device_times, versions, wall_times  # noqa: E402
from flash_dllm.caches import FlashCache  # noqa: E402
from flash_dllm.caches.flash import FlashMemory  # noqa: E402
from flash_dllm.canvas import Canvas  # noqa: E402
from flash_dllm.config import DecodeConfig  # noqa: E402
from flash_dllm.decoder import decode_batch_steps  # noqa: E402
from flash_dllm.engine import ModelEngine  # noqa: E402
from flash_dllm.engine_protocol import SessionRequest  # noqa: E402
from flash_dllm.evaluation.clock import Clocked  # noqa: E402
from flash_dllm.models.parallel import Ranks, start_ranks, stop_ranks  # noqa: E402
from flash_dllm.query import DraftAsk, Mass, Query, VerifyAsk  # noqa: E402
from flash_dllm.session import ModelSession  # noqa: E402
from flash_dllm.strategies import Confidence, DecodingStrategy, FlashVerify  # noqa: E402
from kernels.ops import resolve_impl  # noqa: E402

SECTIONS = (
    "ceilings", "passes", "steps", "admission", "memory", "eager", "plain", "compile", "varlen",
)  # fmt: skip
DEFAULT = ("ceilings", "passes", "steps", "admission", "memory", "plain", "varlen")
DECIDED = 3  # |D| of the measured verify passes


class Bench:
    """The model, the table and what the sections share."""

    def __init__(
        self, shape: Shape, options: argparse.Namespace, ranks: Ranks | None = None
    ) -> None:
        self.shape = shape
        self.ranks = ranks
        self.device = torch.device(options.device) if ranks is None else ranks.device
        self.impl = resolve_impl(options.impl, self.device.type)
        self.repeats: int = options.repeats
        self.steps: int = options.steps
        self.batches: list[int] = options.batches
        self.groups: int | None = None if options.groups == "auto" else int(options.groups)
        self.summary: dict[str, float] = {}
        out = Path(options.out)
        self.table = Table(out / "llada_8b.csv", versions(self.device))
        self._summary_file = out / "summary.json"
        self.is_fp8: bool = options.fp8
        self.engine = random_engine(
            shape, self.impl, options.device, not options.no_graphs, self.is_fp8, ranks
        )

    def add(self, section: str, name: str, unit: str, value: Spread | float, **facts) -> None:
        note = facts.pop("note", "random weights")
        label = f"{self.impl} fp8" if self.is_fp8 else self.impl
        if self.ranks is not None:
            label += f", {self.ranks.size} devices"
        facts = {"impl": label, "batch": "", "rows": "", "logit_rows": ""} | facts
        self.table.add(section, name, unit, value, **facts, note=note)

    def keep(self, **figures: float) -> None:
        """Key figures, saved at once."""
        start = "fp8_" if self.is_fp8 else ""
        if self.ranks is not None:
            start += f"tp{self.ranks.size}_"
        self.summary |= {start + name: round(value, 4) for name, value in figures.items()}
        kind = "h200" if "H200" in self.table.circumstances["device"] else self.device.type
        old = {}
        if self._summary_file.is_file():
            old = json.loads(self._summary_file.read_text(encoding="utf-8"))
        old[kind] = old.get(kind, {}) | self.summary
        self._summary_file.write_text(json.dumps(old, indent=1) + "\n", encoding="utf-8")

    def rest(self) -> None:
        """Give the memory of the last section back."""
        self.engine.free()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def repeats_at(self, batch: int) -> int:
        return max(5, self.repeats if batch <= 4 else self.repeats // 2)

    # the official setting

    def config(self) -> DecodeConfig:
        shape = self.shape
        return DecodeConfig(
            gen_length=shape.answer, window_size=shape.window, decide_size=shape.decide,
            alternatives=0,
        )  # fmt: skip

    def verify_rows(self) -> int:
        return 2 * self.shape.decide

    def prompts(self, batch: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(1500, 2000, (batch, self.shape.prompt), generator=generator)
        return ids.tolist()

    def canvas(self) -> Canvas:
        """A sequence some steps on its way."""
        shape = self.shape
        canvas = Canvas.start(self.prompts(1)[0], self.config(), shape.spec.eos_token_ids)
        first = shape.prompt
        return canvas.commit([(p, 1000) for p in range(first, first + shape.answer // 8)])

    def draft(self, tracked: int) -> Query:
        """A draft pass of tracked + window rows."""
        canvas = self.canvas()
        memory = FlashMemory(self.tracked(tracked), is_due=False)
        cache = FlashCache(track_size=tracked)
        return cache.draft(memory, canvas, DraftAsk(canvas.window()), self.mask)

    def verify(self, rows: int, searched: int) -> Query:
        """A verify pass of `rows` rows: D, two views of each searched position, tracked rows."""
        canvas = self.canvas()
        window = canvas.window()
        ask = VerifyAsk(
            tuple((p, 1000) for p in window[:DECIDED]),
            tuple((p, 1000) for p in window[DECIDED : DECIDED + searched]),
        )
        memory = FlashMemory(self.tracked(self.shape.tracked_128), is_due=False)
        cache = FlashCache(track_size=self.shape.tracked_128, verify_rows=rows)
        mass = Mass.of([0.0] * canvas.length, canvas.flags, top=0)
        return cache.verify(memory, canvas, ask, self.mask, mass)

    def tracked(self, count: int) -> tuple[int, ...]:
        """So many prompt positions, evenly spread."""
        return tuple(number * self.shape.prompt // count for number in range(count))

    @property
    def mask(self) -> int:
        return self.shape.spec.mask_token_id

    def session(self, batch: int, views: int) -> tuple[ModelSession, list[int]]:
        """A session whose cache holds random keys and values."""
        shape = self.shape
        length = shape.prompt + shape.answer
        session = self.engine.open(SessionRequest(batch, length, views, alternatives=0))
        generator = torch.Generator(self.device).manual_seed(0)
        for buffer in (session.cache.keys, session.cache.values):
            for layer in buffer:
                layer.normal_(generator=generator)
        return session, [session.admit(length, 0) for _ in range(batch)]


def measure_passes(bench: Bench, section: str, kinds: dict[str, Query]) -> dict[str, Spread]:
    """Device time (and wall time at batch 1 and 32) of each pass at each batch size."""
    found: dict[str, Spread] = {}
    for batch in bench.batches:
        found |= measure_batch(bench, section, kinds, batch)
        bench.rest()
    return found


def measure_batch(
    bench: Bench, section: str, kinds: dict[str, Query], batch: int
) -> dict[str, Spread]:
    """`measure_passes` at one batch size."""
    session, handles = bench.session(batch, 2 * bench.shape.window)
    found, repeats = {}, bench.repeats_at(batch)
    for name, query in kinds.items():
        asked = [(handle, query) for handle in handles]
        rows, logit_rows = batch * query.rows, batch * len(query.predict)
        facts = {"batch": batch, "rows": rows, "logit_rows": logit_rows}
        times = device_times(partial(session.launch, asked, 0), bench.device, repeats)
        found[f"{name}_b{batch}"] = spread = Spread.of(times)
        bench.add(section, name, "ms", spread, **facts)
        if batch in (1, 32):
            wall = Spread.of(wall_times(partial(session.answer, asked), bench.device, repeats))
            bench.add(section, f"{name}_wall", "ms", wall, **facts)
    session.close()
    return found


def pass_kinds(bench: Bench) -> dict[str, Query]:
    """The passes of the issue's table; the names carry LLaDA's row counts."""
    shape = bench.shape
    whole = shape.window - DECIDED
    rows = bench.verify_rows()
    return {
        "draft_144": bench.draft(shape.tracked_144),
        "draft_128": bench.draft(shape.tracked_128),
        "verify_32": bench.verify(rows, shape.search),
        "verify_128": bench.verify(2 * shape.window, whole),
    }


def passes(bench: Bench) -> None:
    found = measure_passes(bench, "passes", pass_kinds(bench))
    wanted = ("draft_144_b1", "draft_128_b1", "verify_32_b1", "draft_144_b32", "draft_128_b32",
              "verify_128_b32", "verify_32_b32")  # fmt: skip
    bench.keep(**{f"{name}_ms": found[name].median for name in wanted if name in found})


def eager(bench: Bench) -> None:
    """Without graphs: what the host costs when it launches every kernel itself."""
    graphs, bench.engine = bench.engine, without_graphs(bench.engine)
    try:
        measure_passes(bench, "eager", pass_kinds(bench))
    finally:
        bench.engine = graphs


def without_graphs(engine: ModelEngine) -> ModelEngine:
    return ModelEngine(engine.model, engine.info, engine.codec, has_graphs=False)


def steps(bench: Bench) -> None:
    """Whole steps of the loop: two forward passes and everything between them."""
    shape = bench.shape
    verified = Schedule(DRAFTED, VERIFIED, shape.decide)
    drafted = Schedule(DRAFTED, (), shape.decide)
    verify = FlashVerify(epsilon=0.9, gamma=0.8, search_size=shape.search)
    for batch in bench.batches:
        for name, strategy, schedule in (
            ("step_official", verify, verified), ("step_confidence", Confidence(0.9), drafted),
        ):  # fmt: skip
            times, tokens, in_passes = time_steps(bench, batch, strategy, schedule)
            spread = Spread.of(times)
            bench.rest()
            # a number that was forced must not pass for what decoding does by itself
            suffix = "" if bench.groups is None else f"_in_{bench.groups}"
            facts = {"batch": batch, "note": f"{tokens:.2f} tokens a step, acceptance scheduled"}
            bench.add("steps", f"{name}{suffix}", "ms", spread, **facts)
            mean = statistics.mean(times)
            speed = batch * tokens / mean * 1e3
            bench.add("steps", f"{name}_speed{suffix}", "tok/s", speed, **facts)
            outside = mean - in_passes
            bench.add("steps", f"{name}_outside_passes{suffix}", "ms", outside, **facts)
            if name == "step_official":
                bench.keep(**{f"step_official_b{batch}_ms{suffix}": spread.median})
                bench.keep(**{f"tok_s_b{batch}{suffix}": speed})
            else:
                bench.keep(**{f"confidence_tok_s_b{batch}{suffix}": speed})


def time_steps(
    bench: Bench, batch: int, strategy: DecodingStrategy, schedule: Schedule
) -> tuple[list[float], float, float]:
    """(ms of each step of the whole batch, tokens a step of one sequence, ms of a step that a pass
    was on the device). Passes count once, however many sequences share them, and one behind
    another from the other's end on."""
    shape = bench.shape
    warmup, cycle = 4, len(VERIFIED)
    room = int(shape.answer / schedule.tokens_per_step) - warmup - 4
    wanted = max(cycle, min(bench.steps, room) // cycle * cycle)
    cache = FlashCache(track_size=shape.tracked_128, verify_rows=bench.verify_rows())
    engine = Clocked(ScheduledEngine(bench.engine, schedule))
    loop = decode_batch_steps(
        engine, bench.prompts(batch), strategy, cache, bench.config(), batch, bench.groups
    )
    marks, tokens, seconds = [], 0, []
    try:
        for number, step in loop:
            if warmup < step.index <= warmup + wanted:
                tokens += len(step.accepted)
            if number == batch - 1 and step.index >= warmup:
                marks.append(time.perf_counter())
                seconds.append(engine.clock.decode_seconds)
                if len(marks) > wanted:
                    break
    finally:
        loop.close()
    times = [(end - begin) * 1e3 for begin, end in zip(marks, marks[1:], strict=False)]
    in_passes = (seconds[-1] - seconds[0]) / len(times) * 1e3
    return times, tokens / (batch * len(times)), in_passes


def admission(bench: Bench) -> None:
    """The full pass that fills the cache: one sequence, and the two of a chunk."""
    for batch in (1, 2):
        bench.keep(**{f"admission_b{batch}_ms": admit(bench, batch).median})
        bench.rest()


def admit(bench: Bench, batch: int) -> Spread:
    """The full pass of so many sequences at once, by the wall clock."""
    shape = bench.shape
    canvas = Canvas.start(bench.prompts(1)[0], bench.config(), shape.spec.eos_token_ids)
    query = FlashCache().draft(FlashMemory(), canvas, DraftAsk(canvas.window()), bench.mask)
    session, handles = bench.session(batch, 2 * shape.search)
    asked = [(handle, query) for handle in handles]
    repeats = max(5, bench.repeats // 4)
    spread = Spread.of(wall_times(partial(session.answer, asked), bench.device, repeats))
    rows, logit_rows = batch * query.rows, batch * len(query.predict)
    bench.add("admission", "full_pass", "ms", spread, batch=batch, rows=rows,
              logit_rows=logit_rows)  # fmt: skip
    session.close()
    return spread


def memory(bench: Bench) -> None:
    """Peak bytes at batch 16 by part: weights, cache, admission, steps."""
    if bench.device.type != "cuda":
        print("memory: only a CUDA device counts its bytes")
        return
    shape, batch, gb = bench.shape, 16, 1e9
    tensors = bench.engine.model.weights.tensors
    weights = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    bench.rest()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    strategy = FlashVerify(epsilon=0.9, gamma=0.8, search_size=shape.search)
    cache = FlashCache(track_size=shape.tracked_128, verify_rows=bench.verify_rows())
    schedule = Schedule(DRAFTED, VERIFIED, shape.decide)
    engine = ScheduledEngine(bench.engine, schedule)
    loop = decode_batch_steps(
        engine, bench.prompts(batch), strategy, cache, bench.config(), batch, bench.groups
    )
    next(loop)
    admitted = torch.cuda.max_memory_allocated()
    for _, step in loop:
        if step.index == 8:
            break
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    loop.close()
    kept = bench.engine.kept_cache
    cache_bytes = 0 if kept is None else 2 * kept.keys.numel() * kept.keys.element_size()
    parts = {
        "weights": weights, "rotary tables and others": before - weights, "cache": cache_bytes,
        "most while admitting": admitted - before - cache_bytes,
        "most while decoding": peak - before - cache_bytes,
        "peak allocated": peak, "peak reserved": reserved,
    }  # fmt: skip
    for name, size in parts.items():
        bench.add("memory", name, "GB", size / gb, batch=batch)
    bench.keep(peak_gb_b16=peak / gb)
    bench.rest()


def ceilings(bench: Bench) -> None:
    """4 GiB copied (read + written), and a square bf16 product."""
    is_gpu = bench.device.type == "cuda"
    count = (4 << 30) // 2 if is_gpu else 1 << 22
    source = torch.ones(count, dtype=torch.bfloat16, device=bench.device)
    target = torch.empty_like(source)
    spread = Spread.of(device_times(partial(target.copy_, source), bench.device, 10))
    copy = 2 * 2 * count / (spread.median * 1e-3) / 1e12
    bench.add("ceilings", "copy", "TB/s", copy, impl="torch", note="read + written")
    size = 8192 if is_gpu else 256
    left = torch.randn(size, size, dtype=torch.bfloat16, device=bench.device)
    spread = Spread.of(device_times(partial(torch.mm, left, left), bench.device, 20))
    rate = 2 * size**3 / (spread.median * 1e-3) / 1e12
    bench.add("ceilings", "matmul", "TFLOP/s", rate, impl="torch", note=f"{size} cubed, bf16")
    bench.keep(copy_tb_s=copy, matmul_tflop_s=rate)


def plain(bench: Bench, is_compiled: bool = False) -> None:
    """The bar: a plain torch forward of the draft pass's rows, same weights, same cache length."""
    shape = bench.shape
    for batch in (b for b in bench.batches if b in (1, 8, 32)):
        for name, tracked in (("128", shape.tracked_128), ("144", shape.tracked_144)):
            rows = tracked + shape.window
            forward = PlainForward(bench.engine.model, batch, rows, shape, is_compiled)
            label = "compiled" if is_compiled else "plain"
            modes: list[tuple[str, Callable[[], object]]] = []
            if not is_compiled:
                modes.append(("eager", forward.run))
            if bench.device.type == "cuda":
                modes.append(("graph", forward.captured()))
            for mode, work in modes:
                spread = Spread.of(device_times(work, bench.device, bench.repeats_at(batch)))
                bench.add("plain", f"{label}_{mode}_{name}", "ms", spread, impl="plain",
                          batch=batch, rows=batch * rows, logit_rows=batch * shape.window)
                bench.keep(**{f"{label}_{mode}_{name}_b{batch}_ms": spread.median})
            del forward, modes, work
            bench.rest()


def compiled(bench: Bench) -> None:
    plain(bench, is_compiled=True)


def varlen(bench: Bench) -> None:
    """One layer's attention: torch's packed attention against the scheduled one, no views."""
    for batch in (b for b in bench.batches if b in (1, 8, 32)):
        measure_attention(bench, batch)
        bench.rest()


def measure_attention(bench: Bench, batch: int) -> None:
    """`varlen` at one batch size."""
    shape = bench.shape
    session, handles = bench.session(batch, 0)
    for name, tracked in (("128", shape.tracked_128), ("144", shape.tracked_144)):
        query = bench.draft(tracked)
        for impl, times in varlen_times(session, handles, query, bench.repeats_at(batch)):
            bench.add("varlen", f"attention_{name}", "ms", Spread.of(times), impl=impl,
                      batch=batch, rows=batch * query.rows)  # fmt: skip
    session.close()


RUN: dict[str, Callable[[Bench], None]] = {
    "ceilings": ceilings, "passes": passes, "steps": steps, "admission": admission,
    "memory": memory, "eager": eager, "plain": plain, "compile": compiled, "varlen": varlen,
}  # fmt: skip


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    cli = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cli.add_argument("--shape", choices=SHAPES, default="llada")
    cli.add_argument("--device", default="cuda")
    cli.add_argument("--impl", choices=("auto", "torch", "triton"), default="auto")
    cli.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(DEFAULT))
    cli.add_argument("--batches", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32])
    cli.add_argument("--groups", choices=("auto", "1", "2"), default="auto", help="in how many "
                     "groups steps decode a batch; rows of a fixed number say so")  # fmt: skip
    cli.add_argument("--repeats", type=int, default=30, help="timed runs of a pass at batch 1")
    cli.add_argument("--steps", type=int, default=40, help="timed steps")
    cli.add_argument("--seconds", type=float, default=1e9, help="start no section after this long")
    cli.add_argument("--no-graphs", action="store_true")
    cli.add_argument("--fp8", action="store_true", help="the blocks' products in fp8 (W8A8); for "
                     "passes, steps, admission and memory")  # fmt: skip
    cli.add_argument("--out", default=str(ROOT / "benchmarks" / "results"))
    return cli.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the sections; one that fails is reported and the others go on. 1 if any failed."""
    options = options_of(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("flash_dllm.graphs").setLevel(logging.INFO)
    begin = time.perf_counter()
    if "WORLD_SIZE" not in os.environ:
        return run(Bench(SHAPES[options.shape], options), options, begin)
    ranks = start_ranks(int(os.environ["WORLD_SIZE"]), torch.device(options.device).type)
    try:
        if ranks.is_first:
            return run(Bench(SHAPES[options.shape], options, ranks), options, begin)
        # the others do the same work and say nothing
        with tempfile.TemporaryDirectory() as unread, open(os.devnull, "w") as silence:
            options.out = unread
            with contextlib.redirect_stdout(silence):
                return run(Bench(SHAPES[options.shape], options, ranks), options, begin)
    finally:
        stop_ranks()


def run(bench: Bench, options: argparse.Namespace, begin: float) -> int:
    """The sections in turn; 1 if one failed."""
    print(f"{bench.shape.name}, impl {bench.impl}, {bench.table.circumstances}", flush=True)
    failed = []
    for name in options.sections:
        started = time.perf_counter()
        if started - begin > options.seconds:
            print(f"{name}: not started, {started - begin:.0f} s are over", flush=True)
            continue
        try:
            RUN[name](bench)
        except Exception:
            # every other section still has something to say
            traceback.print_exc()
            failed.append(name)
        bench.rest()
        print(f"-- {name}: {time.perf_counter() - started:.1f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
