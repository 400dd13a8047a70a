"""Accuracy against work for named settings: every peer, the preset, and ideas that go beyond them.

    python -m benchmarks.frontier --settings SETTINGS.json --items FOLDER --output DIR --workers 8

Settings are read from a JSON object, name → the form of `flash_dllm.settings.from_preset`, or an
object with "preset" (a peer, or "preset" for the model's own) and "set" (knobs that override it).
All peers and the model's preset come first unless `--only-settings`. The first one, greedy without
cache, is what accuracies are paired with. Results go to DIR/frontier.csv as they come and survive
a command that ends early; what is there already is not measured again.

A setting's items are shared out among the workers, so one setting keeps all of them busy.
Row-layers per token: rows that went through a layer, over all passes, from
`DecodeTrace.row_layers`. Processes share the device, so seconds are those of all processes
together and no speed.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.frontier_table import (
    DOCUMENTS,
    compared,
    read_rows,
    row_of,
    show,
    write_document,
    write_rows,
)
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import (
    Decoded,
    decode_items,
    encode_items,
    fitting,
    read_items,
)
from flash_dllm.evaluation.place import commit, device_name
from flash_dllm.evaluation.scoring import are_correct
from flash_dllm.evaluation.workers import Here, Processes, Workers
from flash_dllm.models import DTYPES, load_model
from flash_dllm.peers import PEERS
from flash_dllm.settings import Settings, from_preset

REFERENCE = "greedy"
_BLOCKS = {"gen_length": 128, "block_length": 32, "window_size": 32}
CONTROLS: dict[str, dict[str, Any]] = {
    REFERENCE: {
        "strategy": {"name": "greedy"}, "cache": {"name": "none"}, "config": _BLOCKS,
    },
}  # fmt: skip
# items that a worker decodes before it tells: enough to fill a batch, few enough to show progress
LEAST_PIECE, PIECE_BATCHES = 16, 4


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


@dataclass(frozen=True)
class Bench:
    """A model and the items that it is asked; travels to the processes."""

    model: str | None
    device: str
    dtype: str
    folder: Path
    domains: tuple[str, ...]
    limit: int | None
    batch: int

    @property
    def engine(self) -> Any:
        """The model, loaded once a process."""
        return _asked(self)[0]

    @property
    def items(self) -> list[Item]:
        """What fits into the model; prompts of the same places are `prompts`."""
        return _asked(self)[1]

    @property
    def prompts(self) -> list[list[int]]:
        return _asked(self)[2]

    def pieces(self) -> int:
        """In how many pieces a case is decoded."""
        return -(-len(self.items) // max(LEAST_PIECE, PIECE_BATCHES * self.batch))

    def circumstances(self) -> dict[str, Any]:
        """What a row is worth nothing without."""
        info = self.engine.info
        return {
            "device": device_name(info.device), "dtype": info.dtype, "impl": info.impl,
            "batch": self.batch, "commit": commit(),
        }  # fmt: skip


@lru_cache(maxsize=1)
def _asked(bench: Bench) -> tuple[Any, list[Item], list[list[int]]]:
    engine = load_model(bench.model, device=bench.device, dtype=bench.dtype)
    items = [
        item for domain in bench.domains
        for item in read_items(bench.folder, domain, bench.limit)
    ]  # fmt: skip
    length = Case("", {}, {}).settings(engine.preset).config
    items, prompts = fitting(engine, items, encode_items(engine, items), length)
    gc.freeze()
    return engine, items, prompts


def measure_piece(bench: Bench, case: Case, piece: int) -> tuple[Sequence[Decoded], float]:
    """Every n-th item from `piece` on, of n pieces, and the seconds they took.

    Errors as in `decode_steps`.
    """
    step, settings = bench.pieces(), case.settings(bench.engine.preset)
    items, prompts = bench.items[piece::step], bench.prompts[piece::step]
    run = decode_items(bench.engine, items, prompts, settings, bench.batch)
    return run.decoded, run.seconds


@dataclass
class Measuring:
    """A case of which some pieces have come back."""

    case: Case
    decoded: list[Decoded | None]
    left: set[int]
    seconds: float = 0.0
    problem: str = ""

    @classmethod
    def of(cls, case: Case, bench: Bench) -> Measuring:
        return cls(case, [None] * len(bench.items), set(range(bench.pieces())))

    @property
    def answers(self) -> list[Decoded]:
        """In the items' order, once nothing is left."""
        return [answer for answer in self.decoded if answer is not None]

    def add(self, piece: int, step: int, outcome: Any) -> int:
        """Take what came of a piece; how many answers that is. Raises what is no ValueError."""
        self.left.remove(piece)
        if isinstance(outcome, ValueError):
            self.problem = str(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self.decoded[piece::step], seconds = outcome
            self.seconds += seconds
        return len(self.decoded[piece::step])


@dataclass
class Scorer:
    """`are_correct` that runs each different answer to an item once: settings agree on most."""

    items: Sequence[Item]
    workers: int
    known: dict[tuple[int, str], bool] = field(default_factory=dict)

    def __call__(self, decoded: Sequence[Decoded]) -> tuple[bool, ...]:
        keys = [(number, answer.text) for number, answer in enumerate(decoded)]
        new = [key for key in keys if key not in self.known]
        items, texts = [self.items[number] for number, _ in new], [text for _, text in new]
        # a small model's answers: bubblewrap where it is installed, limits anyway
        verdicts = are_correct(items, texts, self.workers, allow_unsandboxed=True)
        self.known |= dict(zip(new, verdicts, strict=True))
        return tuple(self.known[key] for key in keys)


def measured(
    bench: Bench, left: Sequence[Case], workers: int, until: float = float("inf")
) -> Iterator[Measuring]:
    """Decode all cases piece by piece, in several processes at once; each as it is complete.

    until  `time.monotonic()` from which on no further case is begun
    """
    pool: Workers = Processes(measure_piece, workers) if workers > 1 else Here(measure_piece)
    step, waiting, numbers = bench.pieces(), deque(left), count()
    sent: dict[int, tuple[Measuring, int]] = {}
    bar = tqdm(total=len(left) * len(bench.items), unit=" answers", mininterval=1.0)
    try:
        while True:
            # nobody waits for the last piece of a case, and what is begun is soon complete
            while waiting and len(sent) < 2 * workers and time.monotonic() < until:
                begun = Measuring.of(waiting.popleft(), bench)
                for piece in range(step):
                    ticket = next(numbers)
                    sent[ticket] = begun, piece
                    pool.submit(ticket, bench, begun.case, piece)
            if not sent:
                return
            for ticket, outcome in pool.finished(1.0):
                found, piece = sent.pop(ticket)
                bar.update(found.add(piece, step, outcome))
                if not found.left:
                    yield found
    finally:
        bar.close()
        pool.close()


def parser() -> argparse.ArgumentParser:
    cli = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=__doc__)
    add = cli.add_argument
    add("--settings", type=Path, help="JSON of named settings")
    add("--only-settings", action="store_true", help="without the peers and the preset")
    add("--names", nargs="+", help="only these, in this order")
    add(
        "--document",
        type=Path,
        metavar="CSV",
        nargs="+",
        help="measure nothing: write the tables of docs/experiments.md and docs/decoders.md from "
        "these files",
    )
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
    add("--workers", type=int, default=1, help="processes that share a setting's items")
    add("--scorers", type=int, default=2, help="code answers that are run at a time")
    add("--budget-seconds", type=float, default=float("inf"), help="begin nothing after that")
    return cli


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.document is not None:
        rows = [row for path in options.document for row in read_rows(path)]
        for document in DOCUMENTS:
            write_document(rows, document)
        return
    until = time.monotonic() + options.budget_seconds
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
    bench = Bench(
        options.model, options.device, options.dtype, options.items, tuple(options.domains),
        options.limit, options.batch,
    )  # fmt: skip
    if left:
        scorer = Scorer(bench.items, options.scorers)
        for case in measured(bench, left, options.workers, until):
            if case.problem:
                print(f"{case.case.name}: {case.problem}", flush=True)
                continue
            described = case.case.settings(bench.engine.preset).described()
            row = row_of(case.case.name, case.answers, case.seconds, scorer(case.answers))
            rows.append({**row, "settings": json.dumps(described), **bench.circumstances()})
            rows = compared(rows, options.reference)
            write_rows(table, rows)
            show(rows[-1:])
    print()
    show(compared(rows, options.reference))


if __name__ == "__main__":
    main()
