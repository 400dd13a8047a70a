"""How fast the decoders are at batch 1: python benchmarks/decode.py [--model DIR] [--repeats 5]

Every decoder answers the same prompt in the same process, with early stop, in turn and several
times over; rows go to benchmarks/results/decode.csv with the circumstances. Run it on a quiet
machine: on two cores one other busy process multiplies every figure.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from flash_dllm.caches import CachePolicy, FlashCache, NoCache  # noqa: E402
from flash_dllm.config import DecodeConfig  # noqa: E402
from flash_dllm.decoder import decode  # noqa: E402
from flash_dllm.evaluation.place import commit  # noqa: E402
from flash_dllm.models import load_model  # noqa: E402
from flash_dllm.settings import from_preset  # noqa: E402
from flash_dllm.strategies import (  # noqa: E402
    Confidence,
    DecodingStrategy,
    FlashVerify,
    Greedy,
)
from flash_dllm.trace import DecodeTrace  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "decode.csv"
PROMPT = (
    "Dana has 15 cakes. Fay has 10 fewer cakes than Dana. Luis has as many cakes as Fay and Dana "
    "together. How many cakes do Dana, Fay and Luis have in total?"
)


def circumstances(engine) -> dict[str, str]:
    """What a number is worth nothing without."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "model": f"{engine.info.name} {engine.info.fingerprint}",
        "impl": engine.info.impl,
        "device": engine.info.device,
        "dtype": engine.info.dtype,
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def milliseconds(traces: list[DecodeTrace], kind: str, rows: int | None = None) -> str:
    """Median time of one pass of a kind, host work included; with `rows`, of those of that size."""
    times = [
        p.seconds
        for t in traces
        for s in t.steps
        for p in s.passes
        if p.kind == kind and rows in (None, p.rows)
    ]
    return f"{statistics.median(times) * 1e3:.1f}" if times else ""


def row_counts(trace: DecodeTrace, kind: str) -> str:
    rows = [p.rows for s in trace.steps for p in s.passes if p.kind == kind]
    return f"{statistics.median(rows):.0f}" if rows else ""


def main() -> None:
    """Measure and append."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--model")
    cli.add_argument("--repeats", type=int, default=5)
    cli.add_argument("--prompt", default=PROMPT)
    cli.add_argument("--impl", default="auto")
    cli.add_argument("--device", default="auto")
    cli.add_argument("--dtype", default="auto")
    options = cli.parse_args()
    engine = load_model(options.model, options.impl, options.device, options.dtype)
    preset = from_preset(engine.preset, {})
    config: DecodeConfig = preset.config
    flash = preset.cache if isinstance(preset.cache, FlashCache) else FlashCache()
    ids = engine.encode(options.prompt)
    runs: list[tuple[DecodingStrategy, CachePolicy]] = [
        (Greedy(), NoCache()),
        (Greedy(), flash),
        (Confidence(), NoCache()),
        (Confidence(), flash),
        (preset.strategy, NoCache()),
        (preset.strategy, flash),
        # verify passes of 32 rows, as in the official setting
        (FlashVerify(search_size=8), FlashCache(flash.track_size, verify_rows=32)),
    ]
    walls: list[list[float]] = [[] for _ in runs]
    traces: list[list[DecodeTrace]] = [[] for _ in runs]
    for repeat in range(options.repeats + 1):
        for number, (strategy, cache) in enumerate(runs):
            begin = time.perf_counter()
            trace = decode(engine, ids, strategy, cache, config)
            if repeat:  # the first round warms up
                walls[number].append(time.perf_counter() - begin)
                traces[number].append(trace)
    slowest = statistics.median(walls[0])
    facts = circumstances(engine)
    rows = []
    for (strategy, cache), wall, run in zip(runs, walls, traces, strict=True):
        low, _, _, high = statistics.quantiles(wall, n=5)
        median = statistics.median(wall)
        rows.append(
            {
                "strategy": str(strategy), "cache": str(cache), "config": str(config),
                "prompt_tokens": len(ids), "tokens": run[0].tokens, "steps": len(run[0].steps),
                "passes": run[0].passes, "row_layers": run[0].row_layers,
                "seconds": f"{median:.3f}", "seconds_p20": f"{low:.3f}",
                "seconds_p80": f"{high:.3f}", "speedup": f"{slowest / median:.2f}",
                "draft_ms": milliseconds(run, "draft"), "draft_rows": row_counts(run[0], "draft"),
                "verify_ms": milliseconds(run, "verify"),
                "verify_rows": row_counts(run[0], "verify"),
                "draft_64_ms": milliseconds(run, "draft", 64),
                "verify_32_ms": milliseconds(run, "verify", 32),
                "full_ms": milliseconds(run, "full"), "repeats": options.repeats, **facts,
            }  # fmt: skip
        )
        print(
            f"{strategy.name:13} {cache.name:6} {run[0].tokens:4} tokens {len(run[0].steps):4} "
            f"steps {run[0].passes:4} passes {median:6.2f} s  x{slowest / median:.2f}  "
            f"draft {rows[-1]['draft_ms'] or '-'} ms  verify {rows[-1]['verify_ms'] or '-'} ms  "
            f"64-row draft {rows[-1]['draft_64_ms'] or '-'} ms  "
            f"32-row verify {rows[-1]['verify_32_ms'] or '-'} ms"
        )
    # all rows again, so that a column that is new today is empty in those of earlier days
    earlier: list[dict[str, str]] = []
    if RESULTS.exists():
        with RESULTS.open(newline="", encoding="utf-8") as file:
            earlier = list(csv.DictReader(file))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), restval="")
        writer.writeheader()
        writer.writerows([*earlier, *rows])


if __name__ == "__main__":
    main()
