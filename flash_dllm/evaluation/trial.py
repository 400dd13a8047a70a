"""One trial of a sweep: knobs in, measured numbers out. Runs in whichever process it is sent to."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.measurement import decode_items, fitting, ratio, summarize, versions
from flash_dllm.evaluation.scoring import score_answers
from flash_dllm.evaluation.statistics import wilson_interval
from flash_dllm.evaluation.sweep_file import SweepFile
from flash_dllm.evaluation.tasks import load_task
from flash_dllm.models import load_model

Measured = dict[str, Any]
# loaded models that a process keeps
KEPT = 1


class Impossible(ValueError):
    """Knobs that do not go together: the trial is pruned, not failed."""


def run_trial(sweep: SweepFile, knobs: dict[str, Any]) -> Measured:
    """Measure these knobs on all tasks of a sweep.

    Returns the metrics of `sweep_file.METRICS` and what else a table wants: accuracy by task,
    intervals, counts, `correct` (one character an item), versions.
    Raises  Impossible for knobs that do not go together, else what decoding raises.
    """
    engine, items, prompts = _loaded(sweep.model, sweep.tasks, sweep.limit, sweep.data,
                                     sweep.device, sweep.dtype, sweep.impl)  # fmt: skip
    try:
        settings = lean_settings(engine.preset, {**sweep.fixed, **knobs})
    except ValueError as error:
        raise Impossible(str(error)) from None
    asked = len(items)
    items, prompts = fitting(engine, items, prompts, settings.config)
    if len(items) < asked:
        raise Impossible(f"{asked - len(items)} items do not fit with these knobs")
    run = decode_items(engine, items, prompts, settings, sweep.batch)
    scores = score_answers(
        items, [decoded.text for decoded in run.decoded],
        allow_unsandboxed=sweep.allow_unsandboxed,
    )  # fmt: skip
    correct = [score.is_correct for score in scores]
    total = summarize("all", run.decoded, correct)
    by_task = {
        name: [right for item, right in zip(items, correct, strict=True) if item.domain == name]
        for name in sweep.tasks
    }
    return {
        "accuracy": total.accuracy,
        "accuracy_ci95": list(wilson_interval(total.correct, total.items)),
        "accuracy_by_task": {name: ratio(sum(r), len(r)) for name, r in by_task.items()},
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
        "correct": "".join("01"[right] for right in correct),
        "settings": settings.described(),
        "model": engine.info.fingerprint,
        "batch_size": sweep.batch,
        "versions": versions(),
    }


@lru_cache(maxsize=KEPT)
def _loaded(
    model: str | None, tasks: tuple[str, ...], limit: int | None, data: str | None,
    device: str, dtype: str, impl: str,
):  # fmt: skip
    """The model and the items with their prompts, once a process."""
    engine = load_model(model, impl, device, dtype)
    place = Path(data) if data is not None else None
    items = [item for task in tasks for item in load_task(task, limit, data=place)]
    return engine, items, [engine.encode(item.prompt) for item in items]
