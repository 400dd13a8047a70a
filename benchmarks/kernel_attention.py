"""The attention kernels against torch's SDPA: python benchmarks/kernel_attention.py [--sweep]

One CUDA graph holds the attention of all layers, each with a cache of its own, as in a forward
pass: a layer finds its keys and values in memory, not in L2. A row is the median of its replays,
with what the arithmetic allows beside it. Random numbers in LLaDA-8B's shape; `check` is the
relative difference from SDPA in fp32. `--sweep` measures other tiles and numbers of key splits.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402

from flash_dllm.cache import FlatKVCache  # noqa: E402
from flash_dllm.evaluation.place import commit  # noqa: E402
from flash_dllm.packing import pack  # noqa: E402
from flash_dllm.query import Query  # noqa: E402
from kernels.attention_mass import add_attention_mass  # noqa: E402
from kernels.configs_attention import Tile, mass_tile  # noqa: E402
from kernels.schedule import block_sizes  # noqa: E402
from kernels.scheduled_attention import gpu, plan, scheduled_attention  # noqa: E402
from tests.kernels.attention_cases import draft, verify  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "kernel_attention.csv"
LENGTH, WANTED = 1536, 64
# what a large copy and a large product reach on an H200
BYTES_PER_SECOND, FLOP_PER_SECOND = 4.46e12, 808e12
PASSES: dict[str, Callable[[], Query]] = {
    "draft 144": lambda: draft(144, LENGTH, WANTED),
    "draft 128": lambda: draft(128, LENGTH, WANTED),
    "verify 128": lambda: verify(3, 3, 61, LENGTH),
    "verify 32": lambda: verify(13, 3, 8, LENGTH),
}


class Bench:
    """Caches of all layers for one batch size, and the clock."""

    def __init__(self, batch: int, layers: int, heads: int, kv_heads: int, size: int) -> None:
        device = torch.device("cuda")
        self.batch, self.layers, self.heads = batch, layers, heads
        self.cache = FlatKVCache(
            batch, LENGTH + 128, layers, kv_heads, size, torch.bfloat16, device
        )
        self.cache.keys.normal_()
        self.cache.values.normal_()
        self.handles = [self.cache.admit(LENGTH + 128) for _ in range(batch)]
        self.size, self.kv_heads = size, kv_heads

    def schedule(self, query: Query, block_size: int | None = None):
        asked = [(handle, query) for handle in self.handles]
        device = self.cache.keys.device
        group = self.heads // self.kv_heads
        return pack(asked, self.cache.table, device, group, block_size).schedule

    def queries(self, rows: int) -> torch.Tensor:
        shape = (self.batch * rows, self.heads, self.size)
        return torch.randn(shape, dtype=torch.bfloat16, device="cuda")

    def layer(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cache.keys[number], self.cache.values[number]

    def milliseconds(self, run: Callable[[int], object], repeats: int) -> list[float]:
        """Times of one graph that calls `run` for every layer."""
        for _ in range(2):  # compile and warm up outside the graph
            run(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for layer in range(self.layers):
                run(layer)
        for _ in range(3):
            graph.replay()
        times = []
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        del graph
        return times


def dense(bench: Bench, keys: int) -> torch.Tensor:
    """Slots of every sequence's first keys, for torch's baseline."""
    return bench.cache.table[bench.handles, :keys].cuda()


def sdpa(q, keys, values) -> torch.Tensor:
    """[B·W, H, E] against [B, K, G, E], without a mask."""
    batch, n_kv = len(keys), keys.shape[2]
    q = q.view(batch, -1, *q.shape[1:]).transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q, keys.transpose(1, 2), values.transpose(1, 2), enable_gqa=n_kv != q.shape[1]
    )
    return out.transpose(1, 2).flatten(0, 1)


def floor_ms(bench: Bench, rows: int, keys: int, is_mass: bool) -> float:
    """What memory and tensor cores allow for all layers."""
    passes = 1 if is_mass else 2
    read = bench.batch * keys * bench.kv_heads * bench.size * 2 * passes
    moved = 0 if is_mass else 2 * bench.batch * rows * bench.heads * bench.size * 2
    work = 2 * passes * bench.batch * rows * keys * bench.heads * bench.size
    seconds = max((read + moved) / BYTES_PER_SECOND, work / FLOP_PER_SECOND)
    return seconds * bench.layers * 1e3


def measure(bench: Bench, name: str, repeats: int) -> list[dict]:
    """The table's choice and torch's, for one kind of pass."""
    query = PASSES[name]()
    rows, schedule = query.rows, bench.schedule(query)
    keys = schedule.key_slots_BK.shape[1]
    q = bench.queries(rows)
    out, lse = scheduled_attention(q, *bench.layer(0), schedule)
    results = []

    def row(what: str, run, is_mass: bool = False, check: float | None = None, note: str = ""):
        counted = WANTED if is_mass else rows
        floor = floor_ms(bench, counted, keys, is_mass)
        results.append(timed(bench, name, rows, keys, what, run, repeats, floor, check, note))

    slots = dense(bench, keys)
    check = None
    if not schedule.has_views:
        gathered = [cache[slots[:1]].float() for cache in bench.layer(0)]
        true = sdpa(q[:rows].float(), *gathered)
        check = float((out[:rows].float() - true).norm() / true.norm())
        assert check < 1e-2, f"{name}: the kernel is wrong by {check}"
    tile, splits = plan(q, schedule, bench.kv_heads, is_run=schedule.run_keys > 0)
    row("attention, triton", lambda i: scheduled_attention(q, *bench.layer(i), schedule),
        check=check, note=f"block {schedule.block_size}, {tile}, splits {splits}")  # fmt: skip
    if schedule.mass_rows_BP is not None:
        total = torch.zeros(bench.batch, bench.kv_heads, keys, device="cuda")

        def mass(i):
            add_attention_mass(q, lse, bench.layer(i)[0], schedule, total)

        def both(i):
            keys_values = bench.layer(i)
            _, lse = scheduled_attention(q, *keys_values, schedule)
            add_attention_mass(q, lse, keys_values[0], schedule, total)

        row("mass, triton", mass, True, note=str(mass_tile(gpu(q)[0], bench.size, 2)))
        row("attention + mass, triton", both)
    if not schedule.has_views:

        def gathering(i):
            return sdpa(q, *(cache[slots] for cache in bench.layer(i)))

        row("attention, SDPA after a gather", gathering)
        pages = bench.cache.keys.shape[1] // bench.batch

        def contiguous(i):
            views = (cache.view(bench.batch, pages, *cache.shape[1:])[:, :keys]
                     for cache in bench.layer(i))  # fmt: skip
            return sdpa(q, *views)

        row("attention, SDPA on a contiguous cache", contiguous)
    return results


def sweep(bench: Bench, name: str, repeats: int) -> list[dict]:
    """Other block sizes, tiles and splits for one kind of pass."""
    query = PASSES[name]()
    rows, results = query.rows, []
    group = bench.heads // bench.kv_heads
    shapes = {
        144: [(128, 8, 2), (64, 8, 2), (64, 8, 3), (64, 8, 4), (32, 8, 4)],
        128: [(128, 8, 2), (128, 8, 3), (64, 8, 3), (64, 8, 4), (64, 4, 2), (64, 4, 3)],
        64: [(64, 4, 2), (64, 4, 3), (128, 4, 2), (64, 4, 4)],
        32: [(64, 4, 2), (64, 4, 3), (64, 4, 4), (128, 4, 2), (32, 4, 4)],
    }
    q = bench.queries(rows)
    for block_size, tile_size in block_sizes(group).items():
        if tile_size not in shapes or tile_size // 4 > rows or tile_size < rows // 3:
            continue
        schedule = bench.schedule(query, block_size)
        keys = schedule.key_slots_BK.shape[1]
        for shape in shapes[tile_size]:
            tile = Tile(*shape, is_tail_transposed=gpu(q)[0] >= (9, 0))
            programs = len(schedule.block_rows) * bench.kv_heads
            for splits in (1, 2, 3, 4, 6, 8) if programs < 200 else (1,):
                note = f"block {block_size}, {tile}, splits {splits}"

                def run(i, schedule=schedule, splits=splits, tile=tile):
                    return scheduled_attention(q, *bench.layer(i), schedule, splits, tile)

                try:
                    floor = floor_ms(bench, rows, keys, False)
                    results.append(
                        timed(bench, name, rows, keys, "attention, sweep", run, repeats, floor,
                              None, note)  # fmt: skip
                    )
                except triton.runtime.errors.OutOfResources as problem:
                    print(f"{note}: {problem}", flush=True)
                    break
    schedule = bench.schedule(query)
    if schedule.mass_rows_BP is None:
        return results
    keys = schedule.key_slots_BK.shape[1]
    _, lse = scheduled_attention(q, *bench.layer(0), schedule)
    total = torch.zeros(bench.batch, bench.kv_heads, keys, device="cuda")
    for block_m, shape in [(64, (128, 4, 2)), (64, (64, 4, 2)), (64, (128, 8, 2)),
                           (32, (128, 4, 2)), (64, (256, 8, 2))]:  # fmt: skip
        tile = (block_m, Tile(*shape))

        def run(i, tile=tile):
            add_attention_mass(q, lse, bench.layer(i)[0], schedule, total, tile)

        try:
            floor = floor_ms(bench, WANTED, keys, True)
            results.append(timed(bench, name, rows, keys, "mass, sweep", run, repeats, floor,
                                 None, str(tile)))  # fmt: skip
        except triton.runtime.errors.OutOfResources as problem:
            print(f"{tile}: {problem}", flush=True)
    return results


def timed(bench, name, rows, keys, what, run, repeats, floor, check, note) -> dict:
    """One row of the results, printed as it is made."""
    times = bench.milliseconds(run, repeats)
    low, _, _, high = statistics.quantiles(times, n=5)
    median = statistics.median(times)
    result = {
        "pass": name, "batch": bench.batch, "rows": rows, "keys": keys, "heads": bench.heads,
        "kv_heads": bench.kv_heads, "head_dim": bench.size, "layers": bench.layers, "what": what,
        "ms_all_layers": f"{median:.4f}", "ms_p20": f"{low:.4f}", "ms_p80": f"{high:.4f}",
        "us_per_layer": f"{median / bench.layers * 1e3:.2f}", "floor_ms": f"{floor:.4f}",
        "share_of_floor": f"{floor / median:.3f}", "check": "" if check is None else f"{check:.2e}",
        "note": note,
    }  # fmt: skip
    print(
        f"{name:10} batch {bench.batch:2}  {what:38} {median:8.3f} ms  "
        f"{floor / median:5.1%} of the floor  {note}",
        flush=True,
    )
    return result


def main() -> None:
    """Measure and append."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    cli.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    cli.add_argument("--layers", type=int, default=32)
    cli.add_argument("--heads", type=int, default=32)
    cli.add_argument("--kv-heads", type=int, default=32)
    cli.add_argument("--head-dim", type=int, default=128)
    cli.add_argument("--repeats", type=int, default=20)
    cli.add_argument("--sweep", action="store_true")
    cli.add_argument("--out", type=Path, default=RESULTS)
    options = cli.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device")
    torch.manual_seed(0)
    facts = {
        "date": datetime.date.today().isoformat(), "commit": commit(), "dtype": "bfloat16",
        "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "triton": triton.__version__, "repeats": options.repeats,
        "timing": "events around one CUDA graph of all layers",
    }  # fmt: skip
    rows: list[dict] = []
    for batch in options.batches:
        bench = Bench(batch, options.layers, options.heads, options.kv_heads, options.head_dim)
        for name in options.passes:
            work = sweep if options.sweep else measure
            rows += [{**row, **facts} for row in work(bench, name, options.repeats)]
        del bench
        torch.cuda.empty_cache()
    is_new = not options.out.exists()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
