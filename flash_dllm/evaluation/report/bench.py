"""Measure one cell with one model: each in its own folder, resumable, in any process."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flash_dllm.decoder import decode_batch
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.measurement import fitting
from flash_dllm.evaluation.report.cell import Attention, Cell, Measured
from flash_dllm.evaluation.report.figure1 import attention_of
from flash_dllm.evaluation.report.timing import Decode
from flash_dllm.evaluation.run import Plan, measure
from flash_dllm.evaluation.tasks import ASSETS, load_task
from flash_dllm.models import load_model
from flash_dllm.settings import Settings, from_preset

SHOTS_SEED = 1
TRACED = 8
# what of a run's numbers is time: worthless where other runs share the machine
TIMES = (
    "tokens_per_second", "tokens_per_second_decode", "fast_dllm_tokens_per_second", "seconds",
    "prefill_seconds", "decode_seconds", "host_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """A model and how cells are measured with it; travels to worker processes.

    folder             holds a folder per cell
    limit              items a cell
    tasks              folder of the task sets
    allow_unsandboxed  run code answers where bubblewrap is missing
    """

    folder: Path
    model: str | None = None
    impl: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    limit: int = 64
    tasks: Path = ASSETS
    allow_unsandboxed: bool = False

    @property
    def engine(self) -> Any:
        """The model, loaded once a process."""
        return _engine(self.model, self.impl, self.device, self.dtype)

    def settings(self, cell: Cell) -> Settings:
        """The cell's decoder. Raises ValueError for knobs that do not go together."""
        return lean_settings(
            self.engine.preset, {"preset": cell.preset or None, **dict(cell.knobs)}
        )

    def items(self, cell: Cell) -> list[Item]:
        """The cell's sample of the task, with its worked examples in front."""
        items = load_task(cell.task, tasks=self.tasks)
        order = random.Random(f"{cell.task}/{cell.seed}").sample(items, len(items))
        # seed 0 takes the set as it stands: figures elsewhere are of its first items
        order = order if cell.seed else items
        chosen, rest = order[: self.limit], order[self.limit :]
        if cell.shots > len(rest):
            raise ValueError(
                f"{cell.shots} worked examples beside {self.limit} items are more than task "
                f"{cell.task} has; lower the limit"
            )
        examples = random.Random(SHOTS_SEED).sample(rest, cell.shots)
        return [with_examples(item, examples) for item in chosen]

    def measure(self, cell: Cell) -> Measured:
        """The cell's verdicts and counts, from its folder or by decoding; no times, since other
        runs may share the machine.

        Raises ValueError in one sentence for what this model can't run, else as `run.measure`.
        """
        engine, settings = self.engine, self.settings(cell)
        plan = Plan(
            cell.task, self.items(cell), settings, cell.batch,
            allow_unsandboxed=self.allow_unsandboxed,
        )  # fmt: skip
        described = [
            asdict(engine.info), settings.described(), self.limit, str(self.tasks.resolve()),
            asdict(cell),
        ]  # fmt: skip
        name = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
        folder = self.folder / f"{cell.task}-{name}"
        summary = measure(engine, plan, folder)
        records = (folder / "items.jsonl").read_text(encoding="utf-8").splitlines()
        verdicts = {r["id"]: r["correct"] for r in map(json.loads, records)}
        details = json.loads((folder / "details.json").read_text(encoding="utf-8"))
        summary = {key: value for key, value in summary.items() if key not in TIMES}
        details = {key: value for key, value in details.items() if key not in TIMES}
        return Measured(summary, details, verdicts)

    def decode(self, cell: Cell, count: int) -> Decode:
        """What decodes the cell's first `count` items, those that fit, and gives their tokens."""
        engine, settings = self.engine, self.settings(cell)
        items = self.items(cell)[:count]
        prompts = [engine.encode(item.prompt) for item in items]
        _, prompts = fitting(engine, items, prompts, settings.config)

        def decode() -> int:
            traces = decode_batch(
                engine, prompts, settings.strategy, settings.cache, settings.config, cell.batch
            )
            return sum(trace.tokens for trace in traces)

        return decode

    def attention(self) -> Attention:
        """Figure 1's numbers: confidence decoding on Flash-Cache with complete traces."""
        engine = self.engine
        items = load_task("word", tasks=self.tasks)[: min(TRACED, self.limit)]
        prompts = [engine.encode(item.prompt) for item in items]
        knobs: dict[str, Any] = {"strategy": "confidence", "cache": "flash"}
        usual = from_preset(engine.preset, knobs).config.gen_length
        # the official length of a family may be more than a small model of it has room for
        room = engine.max_length - max(map(len, prompts))
        settings = from_preset(engine.preset, {**knobs, "gen_length": min(usual, room)})
        return attention_of(
            decode_batch(
                engine, prompts, settings.strategy, settings.cache, settings.config, len(items)
            )
        )


@lru_cache(maxsize=1)
def _engine(model: str | None, impl: str, device: str, dtype: str) -> Any:
    return load_model(model, impl, device, dtype)


def measure_cell(bench: Bench, cell: Cell) -> Measured:
    """A cell in a worker process."""
    return bench.measure(cell)


def with_examples(item: Item, examples: Sequence[Item]) -> Item:
    """The question after worked examples, in one user turn."""
    if not examples:
        return item
    parts = [f"{example.prompt}\n{example.answer}" for example in examples]
    return replace(item, prompt="\n\n".join([*parts, item.prompt]))
