"""Accuracy and cost of one decoder on held-out items.

    python -m training.evaluate --model assets/tiny --tasks assets/tasks \\
        --domains word,algebra,code,story --strategy flash_verify --gamma 0.7 --search 8 \\
        --cache flash --track 32 --batch 256 --output verify.jsonl

Writes one JSON line per item and a summary beside it (`verify.summary.json`), prints a table. The
domains gsm8k and svamp are GSM8K's test set and SVAMP, read from `--data`; they are for evaluation
only, and no training module may import this one. Scoring runs code that the model wrote
(`flash_dllm/evaluation/sandbox.py` says with which limits).
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flash_dllm.acceptance import ACCEPTANCES, ORDERS
from flash_dllm.caches import CACHES
from flash_dllm.config import DecodeConfig
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import (
    Run,
    Summary,
    by_domain,
    decode_items,
    encode_items,
    fitting,
    read_items,
    versions,
)
from flash_dllm.evaluation.public_sets import read_public_set
from flash_dllm.evaluation.scoring import WORKERS, are_correct
from flash_dllm.models import DTYPES, load_model
from flash_dllm.settings import Settings, build
from flash_dllm.strategies import STRATEGIES
from training.generators import DOMAINS

log = logging.getLogger(__name__)

PUBLIC_DOMAINS = ("gsm8k", "svamp")


def load_items(
    domains: Sequence[str], tasks: Path, data: Path | None, limit: int | None
) -> list[Item]:
    """Up to `limit` items of each domain.

    Raises     ValueError for an unknown domain or a public set without `data`.
    """
    items: list[Item] = []
    for domain in domains:
        if domain in PUBLIC_DOMAINS:
            if data is None:
                raise ValueError(f"domain {domain} needs --data, the folder that holds {domain}/")
            items += read_public_set(domain, data)[:limit]
        elif domain in DOMAINS:
            items += read_items(tasks, domain, limit)
        else:
            known = ", ".join([*sorted(DOMAINS), *PUBLIC_DOMAINS])
            raise ValueError(f"domains must be among {known}, got {domain!r}")
    return items


def score(items: Sequence[Item], run: Run, workers: int = WORKERS) -> list[bool]:
    """Whether each answer is right."""
    return are_correct(
        items, [decoded.text for decoded in run.decoded], workers, allow_unsandboxed=True
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The decoder that the command line describes. Raises ValueError naming a bad knob."""
    knobs = {
        "epsilon": arguments.epsilon,
        "gamma": arguments.gamma,
        "search_size": arguments.search,
        "order": arguments.order,
        "acceptance": arguments.acceptance,
        "correct": arguments.correct,
        "track_size": arguments.track,
        "verify_rows": arguments.verify_rows,
        "refresh": arguments.refresh,
    }
    config = DecodeConfig(
        gen_length=arguments.length,
        block_length=arguments.block_length,
        window_size=arguments.window,
        suppress_after_eos=arguments.suppress_after_eos,
        # runner-up tokens are for the explorer
        alternatives=0,
    )
    return Settings(
        build(STRATEGIES, "strategy", arguments.strategy, knobs),
        build(CACHES, "cache", arguments.cache, knobs),
        config,
    )


def table(summaries: Sequence[Summary], seconds: float) -> str:
    """The printed table; seconds are those of the whole run."""
    lines = [
        "domain    items  accuracy  95 % interval  tokens/step  tokens/pass  rows/token  steps",
        *(
            f"{s.name:<8} {s.items:>6} {s.accuracy:>9.3f}"
            f"  {s.interval[0]:.3f} - {s.interval[1]:.3f} {s.tokens_per_step:>12.2f}"
            f" {s.tokens_per_pass:>12.2f} {s.rows_per_token:>11.1f} {s.steps:>6}"
            for s in summaries
        ),
        f"decoded in {seconds:.1f} s",
    ]
    return "\n".join(lines)


def write_output(
    output: Path, run: Run, correct: Sequence[bool], summary: dict[str, Any]
) -> tuple[Path, Path]:
    """One JSON line per item, and the summary beside it; returns both paths."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", encoding="utf-8") as file:
        for decoded, is_right in zip(run.decoded, correct, strict=True):
            file.write(json.dumps({**asdict(decoded), "correct": is_right}) + "\n")
    beside = output.with_suffix(".summary.json")
    beside.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return output, beside


def evaluate(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole command; returns the summary. Errors are ValueError, RuntimeError or OSError."""
    settings = settings_of(arguments)
    items = load_items(arguments.domains, arguments.tasks, arguments.data, arguments.limit)
    engine = load_model(arguments.model, device=arguments.device, dtype=arguments.dtype)
    # the model's objects live to the end; collections need not look at them
    gc.freeze()
    asked = len(items)
    items, prompts = fitting(engine, items, encode_items(engine, items), settings.config)
    if len(items) < asked:
        log.warning("%d of %d items are too long for the model", asked - len(items), asked)
    if not items:
        raise ValueError("there are no items to decode; check --domains and --limit")
    with tqdm(desc="decode", unit=" steps", mininterval=1.0) as bar:
        run = decode_items(engine, items, prompts, settings, arguments.batch, bar.update)
    correct = score(items, run, arguments.scorers)
    summaries = by_domain(run.decoded, correct)
    summary = {
        "model": asdict(engine.info),
        **settings.described(),
        "batch_size": arguments.batch,
        "left_out": asked - len(items),
        "seconds": round(run.seconds, 3),
        "domains": [asdict(line) for line in summaries],
        "drafts": {**asdict(run.spread), "shares": run.spread.shares()},
        "versions": versions(),
    }
    print(table(summaries, run.seconds))
    shares = run.spread.shares()
    print(
        f"drafts with 0.3 <= c < 0.9: {shares['unsure']:.1%}; accepted of the searched: "
        f"{shares['accepted']:.1%}"
    )
    for path in write_output(arguments.output, run, correct, summary):
        print(path)
    return summary


def argument_parser() -> argparse.ArgumentParser:
    """The command line of `python -m training.evaluate`."""
    parser = argparse.ArgumentParser(description="accuracy and cost of one decoder")
    add = parser.add_argument
    add("--model", type=Path, required=True, help="checkpoint folder")
    add("--tasks", type=Path, default=Path("assets/tasks"))
    add("--data", type=Path, help="folder of gsm8k/ and svamp/, for those domains")
    add("--domains", type=lambda text: text.split(","), default=sorted(DOMAINS))
    add("--limit", type=int, help="items per domain")
    add("--strategy", choices=list(STRATEGIES), default="flash_verify")
    add("--epsilon", type=float, default=0.9)
    add("--gamma", type=float, default=0.8)
    add("--search", type=number_or_none, help="drafts verified a step; none means all")
    add("--acceptance", choices=ACCEPTANCES, default="each")
    add("--correct", action="store_true", help="commit the mask view's token at a mismatch")
    add("--order", choices=ORDERS, default="confidence")
    add("--cache", choices=list(CACHES), default="none")
    add("--track", type=int, default=32)
    add("--verify-rows", type=number_or_none)
    add("--refresh", type=_refresh, default="init", help="init, drift, or a number of tokens")
    add("--length", type=int, default=128)
    add("--window", type=int, default=32)
    add("--block-length", type=number_or_none)
    add("--suppress-after-eos", action="store_true")
    add("--batch", type=int, default=64)
    add("--device", default="auto")
    add("--dtype", choices=DTYPES, default="auto")
    add("--scorers", type=int, default=WORKERS, help="code answers that are run at a time")
    add("--output", type=Path, required=True, help="a .jsonl file")
    return parser


def number_or_none(text: str) -> int | None:
    """A whole number, or None for "none"."""
    return None if text == "none" else int(text)


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    parser = argument_parser()
    try:
        evaluate(parser.parse_args())
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{error}\n")


def _refresh(text: str) -> str | int:
    return int(text) if text.isdigit() else text


if __name__ == "__main__":
    main()
