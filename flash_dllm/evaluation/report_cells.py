"""The runs that a report is made of: each measured once, in its own folder, and resumable."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flash_dllm.decoder import decode_batch
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.run import Plan, measure
from flash_dllm.evaluation.tasks import ASSETS, load_task
from flash_dllm.settings import from_preset

SHOTS_SEED = 1


@dataclass(frozen=True)
class Cell:
    """One run: a task, a decoder, a batch size.

    knobs  as `from_preset` takes them: "strategy", "cache", thresholds, lengths
    seed   which sample of the task's items: a decoder at temperature 0 has no other chance
    shots  worked examples in front of the question
    """

    task: str
    knobs: tuple[tuple[str, Any], ...]
    batch: int = 32
    seed: int = 0
    shots: int = 0

    @classmethod
    def of(cls, task: str, batch: int = 32, seed: int = 0, shots: int = 0, **knobs: Any) -> Cell:
        return cls(task, tuple(sorted(knobs.items())), batch, seed, shots)

    def knob(self, name: str) -> Any:
        """The value of a knob; None where it is left to the preset."""
        return dict(self.knobs).get(name)


@dataclass(frozen=True)
class Measured:
    """What a run gave: `summary.json`, `details.json`, and the verdict on each item by its id."""

    summary: dict[str, Any]
    details: dict[str, Any]
    verdicts: dict[str, bool]

    @property
    def accuracy(self) -> float:
        return self.summary["accuracy"]

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.summary["tokens_per_second"]

    @property
    def tokens_per_step(self) -> float:
        return self.summary["tokens_per_step"]

    @property
    def batch(self) -> int:
        return self.details["batch_size"]


def pairs(first: Measured, second: Measured) -> tuple[list[bool], list[bool]]:
    """Verdicts of both on the items that both were asked, in one order."""
    common = [name for name in first.verdicts if name in second.verdicts]
    return [first.verdicts[n] for n in common], [second.verdicts[n] for n in common]


@dataclass
class Laboratory:
    """Measures cells with one model into one folder, each cell once.

    limit              items a cell
    on_cell            called after each measured cell with how many are done
    allow_unsandboxed  run code answers where bubblewrap is missing
    """

    engine: Any
    folder: Path
    limit: int = 64
    tasks: Path = ASSETS
    allow_unsandboxed: bool = False
    on_cell: Callable[[Cell], object] = lambda cell: None
    _known: dict[Cell, Measured] = field(default_factory=dict)

    def measure(self, cell: Cell) -> Measured:
        """The cell's numbers, from memory, from its folder, or by decoding."""
        if cell not in self._known:
            self._known[cell] = self._measure(cell)
            self.on_cell(cell)
        return self._known[cell]

    def items(self, cell: Cell) -> list[Item]:
        """The cell's sample of the task, with its worked examples in front."""
        items = load_task(cell.task, tasks=self.tasks)
        order = random.Random(f"{cell.task}/{cell.seed}").sample(items, len(items))
        chosen, rest = order[: self.limit], order[self.limit :]
        if cell.shots > len(rest):
            raise ValueError(
                f"{cell.shots} worked examples beside {self.limit} items are more than task "
                f"{cell.task} has; lower the limit"
            )
        examples = random.Random(SHOTS_SEED).sample(rest, cell.shots)
        return [with_examples(item, examples) for item in chosen]

    def _measure(self, cell: Cell) -> Measured:
        settings = from_preset(self.engine.preset, {"alternatives": 0, **dict(cell.knobs)})
        plan = Plan(
            cell.task, self.items(cell), settings, cell.batch,
            allow_unsandboxed=self.allow_unsandboxed,
        )  # fmt: skip
        described = [asdict(self.engine.info), settings.described(), self.limit, asdict(cell)]
        name = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
        folder = self.folder / f"{cell.task}-{name}"
        if not (folder / "answers.jsonl").is_file():
            self._warm_up(plan)
        summary = measure(self.engine, plan, folder)
        records = (folder / "items.jsonl").read_text(encoding="utf-8").splitlines()
        verdicts = {r["id"]: r["correct"] for r in map(json.loads, records)}
        details = json.loads((folder / "details.json").read_text(encoding="utf-8"))
        return Measured(summary, details, verdicts)

    def _warm_up(self, plan: Plan) -> None:
        """The first decode compiles kernels and captures graphs: that is no part of a speed."""
        if self.engine.info.device != "cuda":
            return
        settings = plan.settings
        prompts = [self.engine.encode(item.prompt) for item in plan.items[: plan.batch_size]]
        decode_batch(
            self.engine, prompts, settings.strategy, settings.cache, settings.config,
            plan.batch_size,
        )  # fmt: skip

    @cached_property
    def traces(self) -> list[Any]:
        """Complete traces of a few items, for what only steps show (Figure 1)."""
        items = self.items(Cell.of("word"))[: min(8, self.limit)]
        prompts = [self.engine.encode(item.prompt) for item in items]
        knobs: dict[str, Any] = {"strategy": "confidence", "cache": "flash"}
        usual = from_preset(self.engine.preset, knobs).config.gen_length
        # the official length of a family may be more than a small model of it has room for
        room = self.engine.max_length - max(map(len, prompts))
        settings = from_preset(self.engine.preset, {**knobs, "gen_length": min(usual, room)})
        return decode_batch(
            self.engine, prompts, settings.strategy, settings.cache, settings.config, len(items)
        )


def with_examples(item: Item, examples: Sequence[Item]) -> Item:
    """The question after worked examples, in one user turn."""
    if not examples:
        return item
    parts = [f"{example.prompt}\n{example.answer}" for example in examples]
    return replace(item, prompt="\n\n".join([*parts, item.prompt]))
