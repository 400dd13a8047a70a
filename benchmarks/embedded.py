"""The embedded model decoding for real: python benchmarks/embedded.py [--device cuda]

Greedy without a cache, confidence decoding and Flash-Verify (the model's preset) at batch 1 and 32,
on held-out word problems and algebra: tokens a second, beside the accuracy of the same run. Rows
go to results/embedded.csv. Tokens are those before the end token; time is that of the whole decode,
admission included, after one warm-up round that compiles kernels and captures graphs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from benchmarks.timing import Table, versions  # noqa: E402
from flash_dllm.caches import CachePolicy, FlashCache, NoCache  # noqa: E402
from flash_dllm.decoder import decode_batch  # noqa: E402
from flash_dllm.engine import ModelEngine  # noqa: E402
from flash_dllm.evaluation.item import Item  # noqa: E402
from flash_dllm.evaluation.scoring import is_correct  # noqa: E402
from flash_dllm.models import load_model  # noqa: E402
from flash_dllm.settings import Settings, from_preset  # noqa: E402
from flash_dllm.strategies import Confidence, DecodingStrategy, Greedy  # noqa: E402

DOMAINS = ("word", "algebra")


def items_of(engine: ModelEngine, count: int, gen_length: int) -> list[tuple[Item, list[int]]]:
    """The first `count` items of each domain that fit into the model, with their prompts."""
    chosen = []
    for domain in DOMAINS:
        path = ROOT / "assets" / "tasks" / f"{domain}.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        items = [Item(**{**row, "tests": tuple(row["tests"])}) for row in rows]
        pairs = [(item, engine.encode(item.prompt)) for item in items]
        fitting = [pair for pair in pairs if len(pair[1]) + gen_length <= engine.max_length]
        chosen += fitting[:count]
    return chosen


def measure(
    engine: ModelEngine,
    pairs: list[tuple[Item, list[int]]],
    choice: tuple[DecodingStrategy, CachePolicy],
    settings: Settings,
    batch: int,
    table: Table,
) -> None:
    """One row of speed, one of accuracy, one of tokens a step."""
    strategy, cache = choice
    prompts = [ids for _, ids in pairs]
    decode_batch(engine, prompts[:batch], strategy, cache, settings.config, batch)
    begin = time.perf_counter()
    traces = decode_batch(engine, prompts, strategy, cache, settings.config, batch)
    seconds = time.perf_counter() - begin
    tokens, steps = sum(t.tokens for t in traces), sum(len(t.steps) for t in traces)
    right = sum(
        is_correct(item, trace.text) for (item, _), trace in zip(pairs, traces, strict=True)
    )
    facts = {
        "impl": engine.info.impl, "batch": batch, "rows": "", "logit_rows": "",
        "note": f"{len(pairs)} items, {engine.info.dtype}, {seconds:.1f} s, {strategy}, {cache}",
    }  # fmt: skip
    name = f"{strategy.name}_{cache.name}"
    table.add("embedded", f"{name}_speed", "tok/s", tokens / seconds, **facts)
    table.add("embedded", f"{name}_accuracy", "share", right / len(pairs), **facts)
    table.add("embedded", f"{name}_tokens_a_step", "tokens", tokens / steps, **facts)


def main(arguments: list[str] | None = None) -> int:
    """Measure and append."""
    cli = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cli.add_argument("--device", default="cuda")
    cli.add_argument("--impl", default="auto", choices=("auto", "torch", "triton"))
    cli.add_argument("--dtype", default="auto")
    cli.add_argument("--no-graphs", action="store_true")
    cli.add_argument("--items", type=int, default=32, help="of each domain")
    cli.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    cli.add_argument("--out", default=str(ROOT / "benchmarks" / "results"))
    options = cli.parse_args(arguments)
    engine = load_model(
        impl=options.impl, device=options.device, dtype=options.dtype,
        graphs=not options.no_graphs,
    )  # fmt: skip
    # runner-up tokens are for the explorer
    settings = from_preset(engine.preset, {"alternatives": 0})
    flash = settings.cache if isinstance(settings.cache, FlashCache) else FlashCache()
    choices = ((Greedy(), NoCache()), (Confidence(), flash), (settings.strategy, flash))
    table = Table(Path(options.out) / "embedded.csv", versions(torch.device(options.device)))
    pairs = items_of(engine, options.items, settings.config.gen_length)
    for batch in options.batches:
        # one after another takes long enough with fewer items
        some = pairs if batch > 1 else pairs[:: max(1, len(pairs) // 16)]
        for choice in choices:
            measure(engine, some, choice, settings, batch, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
