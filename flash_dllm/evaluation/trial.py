"""One trial of a sweep: knobs in, measured numbers out. Runs in whichever process it is sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.agreement import agreement, one_token, references
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.measurement import (
    Decoded,
    decode_items,
    fitting,
    ratio,
    summarize,
    versions,
)
from flash_dllm.evaluation.public_sets import PUBLIC_SETS
from flash_dllm.evaluation.sandbox import Sandbox
from flash_dllm.evaluation.scoring import CODE_DOMAINS, score_answers
from flash_dllm.evaluation.statistics import wilson_interval
from flash_dllm.evaluation.sweep_file import SweepFile
from flash_dllm.evaluation.tasks import ASSETS, load_task
from flash_dllm.models import load_model
from flash_dllm.settings import Settings

Measured = dict[str, Any]
# the domain of prompts of one's own: no rule scores them
PROMPT = "prompt"
# loaded models that a process keeps
KEPT = 1


class Impossible(ValueError):
    """Knobs that do not go together: the trial is pruned, not failed."""


@dataclass
class Bench:
    """A loaded model and the items that it is measured on, encoded once.

    one_token  answers of one token a step by the settings that they were made with, since the
               trials of a sweep mostly share them
    """

    engine: Any
    items: Sequence[Item]
    prompts: Sequence[list[int]]
    one_token: dict[Settings, list[Decoded]] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: Any, items: Sequence[Item]) -> Bench:
        """Encode the items. Raises ValueError for a prompt that is empty."""
        return cls(engine, items, [engine.encode(item.prompt) for item in items])

    def measure(
        self,
        sweep: SweepFile,
        knobs: dict[str, Any],
        on_step: Callable[[], object] = lambda: None,
    ) -> Measured:
        """Measure these knobs on all items.

        on_step  called once per step of an item; what it raises ends the trial

        Returns the metrics of `sweep_file.METRICS` and what else a table wants: accuracy by task,
        intervals, counts, by item `correct` (one character: 1, 0, or - where no rule scores),
        tokens and passes, versions. `agreement` only where the sweep names it: it takes a run of
        its own; `accuracy` only where there are tasks.
        Raises  Impossible for knobs that do not go together, else what decoding raises.
        """
        try:
            settings = lean_settings(self.engine.preset, {**sweep.fixed, **knobs})
        except ValueError as error:
            raise Impossible(str(error)) from None
        fit, prompts = fitting(self.engine, self.items, self.prompts, settings.config)
        if len(fit) < len(self.items):
            left_out = len(self.items) - len(fit)
            raise Impossible(f"{left_out} items do not fit with these knobs")
        engine = self.engine.suited(settings.cache)
        run = decode_items(engine, fit, prompts, settings, sweep.batch, on_step)
        scored = [n for n, item in enumerate(fit) if item.domain != PROMPT]
        scores = score_answers(
            [fit[n] for n in scored], [run.decoded[n].text for n in scored],
            allow_unsandboxed=sweep.allow_unsandboxed,
        )  # fmt: skip
        correct = {n: score.is_correct for n, score in zip(scored, scores, strict=True)}
        total = summarize("all", run.decoded, correct.values())
        by_task = {
            name: [correct[n] for n in scored if fit[n].domain == name] for name in sweep.tasks
        }
        measured: Measured = {
            "tokens_per_step": total.tokens_per_step,
            "tokens_per_pass": total.tokens_per_pass,
            "rows_per_token": total.rows_per_token,
            "seconds": run.seconds,
            "tokens_per_second": ratio(total.tokens, run.seconds),
            "items": total.items,
            "tokens": total.tokens,
            "steps": total.steps,
            "passes": total.passes,
            "rows": total.rows,
            "guide_passes": total.guide_passes,
            "guide_rows": total.guide_rows,
            "correct": "".join("01"[correct[n]] if n in correct else "-" for n in range(len(fit))),
            "tokens_by_item": [decoded.tokens for decoded in run.decoded],
            "passes_by_item": [decoded.passes for decoded in run.decoded],
            "settings": settings.described(),
            "model": self.engine.info.fingerprint,
            # torch's for caches that the kernels can't follow
            "impl": engine.info.impl,
            "batch_size": sweep.batch,
            "versions": versions(),
        }
        if scored:
            measured |= {
                "accuracy": ratio(total.correct, len(scored)),
                "accuracy_ci95": list(wilson_interval(total.correct, len(scored))),
                "accuracy_by_task": {name: ratio(sum(r), len(r)) for name, r in by_task.items()},
            }
        if "agreement" in sweep.objectives:
            key = one_token(settings)
            if key not in self.one_token:
                self.one_token[key] = references(
                    self.engine, fit, prompts, settings, sweep.batch, on_step
                )
            share, by_item = agreement(run.decoded, self.one_token[key])
            measured |= {"agreement": share, "agreement_by_item": by_item}
        return measured


def sweep_items(
    tasks: Sequence[str],
    prompts: Sequence[str] = (),
    limit: int | None = None,
    data: str | None = None,
) -> list[Item]:
    """The items of a sweep: those of its tasks, then its own prompts.

    data    file or folder of a public set; without one among the tasks, folder of own sets
    Raises  as `load_task`
    """
    place = Path(data) if data is not None else None
    is_own = place is not None and not set(tasks) & set(PUBLIC_SETS)
    own_sets = place if place is not None and is_own else ASSETS
    items = [item for task in tasks for item in load_task(task, limit, own_sets, place)]
    own = [Item(PROMPT, "own", f"prompt {n}", text, "") for n, text in enumerate(prompts, 1)]
    return items + own


def run_trial(sweep: SweepFile, knobs: dict[str, Any] | None) -> Measured:
    """`Bench.measure` with the sweep's model, loaded once a process.

    knobs   None: nothing is measured; what every trial needs is there, or is said to be missing
    Raises  as `load_model`, `load_task` and `Sandbox.find`, else as `Bench.measure`
    """
    bench = _loaded(sweep.model, sweep.tasks, sweep.prompts, sweep.limit, sweep.data,
                    sweep.device, sweep.dtype, sweep.impl, sweep.quantize)  # fmt: skip
    if knobs is not None:
        return bench.measure(sweep, knobs)
    if any(item.domain in CODE_DOMAINS for item in bench.items):
        Sandbox.find(sweep.allow_unsandboxed)
    return {}


@lru_cache(maxsize=KEPT)
def _loaded(
    model: str | None, tasks: tuple[str, ...], prompts: tuple[str, ...], limit: int | None,
    data: str | None, device: str, dtype: str, impl: str, quantize: str,
) -> Bench:  # fmt: skip
    """The model and the items with their prompts, once a process."""
    engine = load_model(model, impl, device, dtype, quantize=quantize)
    return Bench.of(engine, sweep_items(tasks, prompts, limit, data))
