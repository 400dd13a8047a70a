"""Accuracy against work for named settings: every peer, the preset, and ideas that go beyond them.

    python -m benchmarks.frontier --settings SETTINGS.json --items FOLDER --output DIR --workers 8

Settings are read from a JSON object, name → the form of `flash_dllm.settings.from_preset`, or an
object with "preset" (a peer, or "preset" for the model's own) and "set" (knobs that override it).
All peers and the model's preset come first unless `--only-settings`. The first one, greedy without
cache, is what accuracies are paired with. Results go to DIR/frontier.csv as they come and survive
a command that ends early; what is there already is not measured again.

Accuracy: share of right items with Wilson's 95 % interval; difference: paired, Newcombe's interval,
exact McNemar p. Row-layers per token: rows that went through a layer, over all passes, from
`DecodeTrace.row_layers`. Processes share the device, so no time is reported.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import (
    Run,
    by_domain,
    decode_items,
    encode_items,
    fitting,
    ratio,
    read_items,
    summarize,
)
from flash_dllm.evaluation.scoring import are_correct
from flash_dllm.evaluation.statistics import paired_difference
from flash_dllm.models import DTYPES, load_model
from flash_dllm.peers import PEERS
from flash_dllm.settings import Settings, from_preset

REFERENCE = "greedy"
DOCUMENT = Path(__file__).parents[1] / "docs" / "experiments.md"
_BLOCKS = {"gen_length": 128, "block_length": 32, "window_size": 32}
CONTROLS: dict[str, dict[str, Any]] = {
    REFERENCE: {
        "strategy": {"name": "greedy"}, "cache": {"name": "none"}, "config": _BLOCKS,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Settings under a name, for one split of the items."""

    name: str
    preset: dict[str, Any]
    given: dict[str, Any]

    def settings(self, own: dict[str, Any]) -> Settings:
        """own  the model's preset, where the case starts from that."""
        extra = {"alternatives": self.given.get("alternatives", 2)}
        return from_preset(self.preset or own, {**self.given, **extra})


def cases(path: Path | None, only: bool) -> list[Case]:
    """What is measured, the reference first. Raises ValueError for an unknown peer."""
    found = [Case(name, preset, {}) for name, preset in CONTROLS.items()]
    if not only:
        found.append(Case("preset", {}, {}))
        found += [Case(name, peer.settings, {}) for name, peer in PEERS.items()]
    listed = json.loads(path.read_text(encoding="utf-8")) if path else {}
    for name, entry in listed.items():
        if "preset" not in entry:
            found.append(Case(name, entry, {}))
            continue
        start = entry["preset"]
        if start != "preset" and start not in PEERS:
            raise ValueError(f"{name} starts from {start}, which is no peer and not 'preset'")
        preset = {} if start == "preset" else PEERS[start].settings
        found.append(Case(name, preset, entry.get("set", {})))
    return found


class Worker:
    """One process: the model and the encoded items."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.engine = load_model(options.model, device=options.device, dtype=options.dtype)
        items = [
            item for domain in options.domains
            for item in read_items(options.items, domain, options.limit)
        ]  # fmt: skip
        prompts = encode_items(self.engine, items)
        length = Case("", {}, {}).settings(self.engine.preset).config
        self.items, self.prompts = fitting(self.engine, items, prompts, length)
        self.batch = options.batch
        gc.freeze()

    def run(self, case: Case) -> Run:
        """Decode all items."""
        settings = case.settings(self.engine.preset)
        return decode_items(self.engine, self.items, self.prompts, settings, self.batch)


class Scorer:
    """`are_correct` that runs each different answer to an item once: settings agree on most."""

    def __init__(self, items: Sequence[Item], workers: int) -> None:
        self._items, self._workers = items, workers
        self._known: dict[tuple[int, str], bool] = {}

    def __call__(self, run: Run) -> tuple[bool, ...]:
        keys = [(number, decoded.text) for number, decoded in enumerate(run.decoded)]
        new = [key for key in keys if key not in self._known]
        items, texts = [self._items[number] for number, _ in new], [text for _, text in new]
        # a small model's answers: bubblewrap where it is installed, limits anyway
        verdicts = are_correct(items, texts, self._workers, allow_unsandboxed=True)
        self._known |= dict(zip(new, verdicts, strict=True))
        return tuple(self._known[key] for key in keys)


_worker: Worker


def _start(options: argparse.Namespace) -> None:
    import torch

    global _worker
    torch.set_num_threads(1)
    _worker = Worker(options)


def _measure(case: Case) -> tuple[Run, dict[str, Any]]:
    return _worker.run(case), case.settings(_worker.engine.preset).described()


def row_of(
    case: Case, run: Run, correct: Sequence[bool], described: dict[str, Any]
) -> dict[str, Any]:
    """One line of the table without its difference; `right` holds one character an item."""
    total = summarize("all", run.decoded, correct)
    low, high = total.interval
    row_layers = sum(item.row_layers for item in run.decoded)
    return {
        "setting": case.name,
        "items": total.items,
        "accuracy": f"{total.accuracy:.4f}",
        "low": f"{low:.4f}",
        "high": f"{high:.4f}",
        **{s.name: f"{s.accuracy:.4f}" for s in by_domain(run.decoded, correct) if s.name != "all"},
        "tokens_per_step": f"{total.tokens_per_step:.3f}",
        "tokens_per_pass": f"{total.tokens_per_pass:.3f}",
        "rows_per_token": f"{total.rows_per_token:.2f}",
        "row_layers_per_token": f"{ratio(row_layers, total.tokens):.1f}",
        "tokens": total.tokens,
        "seconds": f"{run.seconds:.1f}",
        "right": "".join("01"[right] for right in correct),
        "settings": json.dumps(described),
    }


def compared(rows: Sequence[dict[str, Any]], reference: str) -> list[dict[str, Any]]:
    """The rows with their paired difference to `reference`, which must be among them or none is."""
    right = {row["setting"]: [c == "1" for c in row["right"]] for row in rows}
    done = []
    for row in rows:
        extra = {"difference": "", "difference_low": "", "difference_high": "", "p": ""}
        if reference in right and len(right[reference]) == len(right[row["setting"]]):
            d = paired_difference(right[row["setting"]], right[reference])
            extra = {
                "difference": f"{d.difference:+.4f}", "difference_low": f"{d.low:+.4f}",
                "difference_high": f"{d.high:+.4f}", "p": f"{d.p:.4f}",
            }  # fmt: skip
        texts = {key: row[key] for key in ("right", "settings")}
        rest = {key: value for key, value in row.items() if key not in {**texts, **extra}}
        done.append({**rest, **extra, **texts})
    return done


def read_rows(path: Path) -> list[dict[str, Any]]:
    """What an earlier command measured."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """All rows, by falling accuracy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table without what only a program reads."""
    for row in sorted(rows, key=lambda row: float(row["rows_per_token"])):
        domains = " ".join(
            f"{name} {float(row[name]):.3f}" for name in ("word", "algebra", "code", "story")
            if row.get(name)
        )
        print(
            f"{row['setting']:<34} acc {float(row['accuracy']):.3f} ({domains}) "
            f"Δ {row['difference']} [{row['difference_low']}, {row['difference_high']}] "
            f"p {row['p']}  tok/step {float(row['tokens_per_step']):.2f} "
            f"tok/pass {float(row['tokens_per_pass']):.2f} "
            f"rows/tok {float(row['rows_per_token']):.2f} "
            f"row-layers {float(row['row_layers_per_token']):.0f}",
            flush=True,
        )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown, by rising work, paired with the first row named `preset` if any."""
    lines = [
        "| setting | accuracy (95 %) | word | algebra | code | story | against the preset | "
        "tokens/step | tokens/pass | rows/token | row-layers/token |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    paired = {row["setting"]: row for row in compared(rows, "preset")}
    for row in sorted(rows, key=lambda row: float(row["rows_per_token"])):
        other = paired[row["setting"]]
        against = "" if row["setting"] == "preset" or not other["p"] else (
            f"{100 * float(other['difference']):+.1f} points "
            f"({100 * float(other['difference_low']):+.1f} to "
            f"{100 * float(other['difference_high']):+.1f}), p {float(other['p']):.2f}"
        )
        domains = [f"{float(row[name]):.3f}" if row.get(name) else "" for name in
                   ("word", "algebra", "code", "story")]  # fmt: skip
        cells = [
            row["setting"],
            f"{float(row['accuracy']):.3f} ({float(row['low']):.3f}–{float(row['high']):.3f})",
            *domains, against,
            f"{float(row['tokens_per_step']):.2f}", f"{float(row['tokens_per_pass']):.2f}",
            f"{float(row['rows_per_token']):.1f}", f"{float(row['row_layers_per_token']):.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_document(rows: Sequence[dict[str, Any]], path: Path = DOCUMENT) -> None:
    """Put the table between the marks of docs/experiments.md."""
    before, start, rest = path.read_text(encoding="utf-8").partition("<!-- measured -->\n")
    _, end, after = rest.partition("<!-- /measured -->\n")
    if not (start and end and rows):
        raise ValueError(f"{path} has no marks for the table, or there are no rows to write")
    path.write_text(f"{before}{start}{table(rows)}\n{end}{after}", encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    cli = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=__doc__)
    add = cli.add_argument
    add("--settings", type=Path, help="JSON of named settings")
    add("--only-settings", action="store_true", help="without the peers and the preset")
    add("--names", nargs="+", help="only these, in this order")
    add("--document", type=Path, metavar="CSV",
        help="measure nothing: write docs/experiments.md's measured table from this file")
    add("--no-reference", action="store_true", help="without the reference, which takes longest")
    add("--items", type=Path, default=Path("assets/tasks"), help="folder of held-out items")
    add("--domains", nargs="+", default=["word", "algebra", "code", "story"])
    add("--limit", type=int, help="items a domain")
    add("--output", type=Path, default=Path("training/local/frontier"))
    add("--reference", default=REFERENCE, help="the setting that accuracies are paired with")
    add("--model")
    add("--device", default="cpu")
    add("--dtype", default="float32", choices=list(DTYPES))
    add("--batch", type=int, default=32)
    add("--workers", type=int, default=1)
    add("--scorers", type=int, default=2, help="code answers that are run at a time")
    add("--budget-seconds", type=float, default=float("inf"), help="start nothing after that")
    return cli


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.document is not None:
        write_document(read_rows(options.document))
        return
    started = time.monotonic()
    table = options.output / "frontier.csv"
    rows = read_rows(table)
    known = {row["setting"] for row in rows}
    found = cases(options.settings, options.only_settings)
    if options.names:
        place = {name: number for number, name in enumerate(options.names)}
        if missing := set(place) - {case.name for case in found}:
            raise ValueError(f"no settings are named {', '.join(sorted(missing))}")
        found = sorted((c for c in found if c.name in place), key=lambda case: place[case.name])
    left = [
        case for case in found
        if case.name not in known and not (options.no_reference and case.name == REFERENCE)
    ]  # fmt: skip
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, _start, (options,)) as pool:
        scorer = Scorer(Worker(options).items, options.scorers)
        futures = {pool.submit(_measure, case): case for case in left}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            try:
                run, described = future.result()
            except ValueError as error:
                print(f"{futures[future].name}: {error}", flush=True)
                continue
            correct = scorer(run)
            rows.append(row_of(futures[future], run, correct, described))
            rows = compared(rows, options.reference)
            write_rows(table, rows)
            show(rows[-1:])
            if time.monotonic() - started > options.budget_seconds:
                for other in futures:
                    other.cancel()
    print()
    show(compared(rows, options.reference))


if __name__ == "__main__":
    main()
