"""One task, one decoder, one folder: decode what is missing, score, write the summary.

The folder holds

    answers.jsonl   the journal: one line per answer as soon as it is decoded
    items.jsonl     one record per item, in the task's order, with the verdict
    summary.json    the result
    details.json    what the result is made of: both counters, times, passes, rows
    traces/         with `traces`: the trace of each item

Decoding again into the same folder goes on where the journal ends. Times add up over such parts,
so tokens a second stay tokens by the time that was spent on them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from flash_dllm.decoder import finish_trace, start_trace
from flash_dllm.evaluation.clock import Clock, Clocked
from flash_dllm.evaluation.counting import (
    COUNTS_PROMPT,
    STOP_STRINGS,
    fast_dllm_tokens,
)
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.journal import Journal
from flash_dllm.evaluation.measurement import (
    finished,
    fitting,
    no_garbage_collection,
    ratio,
    slim,
    versions,
)
from flash_dllm.evaluation.place import differences, place
from flash_dllm.evaluation.sandbox import WORKERS, Sandbox
from flash_dllm.evaluation.scoring import CODE_DOMAINS, score_answers
from flash_dllm.evaluation.statistics import wilson_interval
from flash_dllm.files import write_text
from flash_dllm.settings import Settings
from flash_dllm.trace import DecodeTrace, StepTrace
from flash_dllm.trace_json import save

log = logging.getLogger(__name__)

SUMS = ("tokens", "fast_dllm_tokens", "steps", "passes", "rows", "row_layers", "verified")
# of another model, so they are added to nothing
GUIDE_SUMS = ("guide_passes", "guide_rows")


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    task, items        the task's name and its items
    settings           strategy, cache, config
    batch_size         sequences at a time
    raw                prompts as plain text instead of the chat template
    traces             keep each item's trace
    workers            code answers that are run at a time
    allow_unsandboxed  run code answers where bubblewrap is missing
    """

    task: str
    items: Sequence[Item]
    settings: Settings
    batch_size: int = 1
    raw: bool = False
    traces: bool = False
    workers: int = WORKERS
    allow_unsandboxed: bool = False


def measure(
    engine: Any,
    plan: Plan,
    folder: Path,
    on_start: Callable[[int, int], object] = lambda done, total: None,
    on_item: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Measure a plan into a folder, and return what `summary.json` holds.

    engine    a loaded model (`models.load_model`): it must encode text besides decoding
    on_start  called with (items already in the folder, items in all)
    on_item   called after each answer
    Raises    ValueError if nothing fits, the folder holds another run or lacks traces that are
              asked for, SandboxError if code answers can't be run, else as `decode_steps`.
    """
    if any(item.domain in CODE_DOMAINS for item in plan.items):
        # before an hour of decoding, not after it
        Sandbox.find(plan.allow_unsandboxed)
    prompts = [engine.encode(item.prompt, plan.raw) for item in plan.items]
    items, prompts = fitting(engine, plan.items, prompts, plan.settings.config)
    if not items:
        raise ValueError(
            f"no item of task {plan.task} fits into the {engine.max_length} positions of "
            f"{engine.info.name}; shorten gen_length"
        )
    if left_out := len(plan.items) - len(items):
        log.warning("%d of %d items are too long for the model", left_out, len(plan.items))
    described = describe(engine, plan, items, left_out)
    journal = Journal(
        folder / "answers.jsonl", described, lambda record: _is_answer(record, len(items))
    )
    try:
        if plan.traces:
            _check_traces(journal, folder)
        on_start(len(journal.records), len(items))
        _decode(engine, plan, items, prompts, journal, folder, on_item)
    finally:
        journal.close()
    by_number = {record["number"]: record for record in journal.records}
    answers = [by_number[number] for number in range(len(items))]
    scores = score_answers(
        items, [answer["text"] for answer in answers], plan.workers, plan.allow_unsandboxed
    )
    records = [
        {
            "id": item.specification,
            "family": item.family,
            "prompt": item.prompt,
            "text": answer["text"],
            "extracted": score.extracted,
            "gold": item.gold or None,
            "correct": score.is_correct,
            "reason": score.reason,
            **{key: answer[key] for key in SUMS},
            # journals from before guides lack them
            **{key: answer.get(key, 0) for key in GUIDE_SUMS},
            "seconds": answer["seconds"],
        }
        for item, answer, score in zip(items, answers, scores, strict=True)
    ]
    write_text(folder / "items.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    details = _details(records, journal.records, plan.batch_size)
    summary: dict[str, Any] = {
        "task": plan.task,
        "items": len(items),
        "accuracy": details["accuracy"],
        "accuracy_ci95": list(wilson_interval(details["correct"], len(items))),
        "tokens_per_step": details["tokens_per_step"],
        "tokens_per_pass": details["tokens_per_pass"],
        "tokens_per_second": details["tokens_per_second"],
        "settings": described,
        "versions": versions(),
    }
    if plan.settings.strategy.needs_guide:
        # tokens a pass leave them out
        summary["guide_passes"] = details["guide_passes"]
    write_text(folder / "details.json", json.dumps(details, indent=2) + "\n")
    write_text(folder / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


def describe(engine: Any, plan: Plan, items: Sequence[Item], left_out: int) -> dict[str, Any]:
    """All that an answer depends on: two runs with equal descriptions may share a folder."""
    text = json.dumps([[item.specification, item.prompt] for item in items])
    guide = engine.guide if plan.settings.strategy.needs_guide else None
    return {
        "task": plan.task,
        "items": len(items),
        "items_hash": hashlib.sha256(text.encode()).hexdigest()[:12],
        "left_out": left_out,
        "model": asdict(engine.info),
        **({} if guide is None else {"guide": asdict(guide.info)}),
        **plan.settings.described(),
        "batch_size": plan.batch_size,
        "raw": plan.raw,
    }


def _decode(
    engine: Any,
    plan: Plan,
    items: Sequence[Item],
    prompts: Sequence[list[int]],
    journal: Journal,
    folder: Path,
    on_item: Callable[[], object],
) -> None:
    """Decode what the journal lacks."""
    known = {record["number"] for record in journal.records}
    missing = [number for number in range(len(items)) if number not in known]
    if not missing:
        return
    part = 1 + max((record["part"] for record in journal.records), default=0)
    here = place(engine.info.device)
    if others := [there for there in places(journal.records) if there != here]:
        log.warning(
            "%s was begun at another place (%s): tokens a second are of both together", folder,
            differences(others[-1], here),
        )  # fmt: skip
    if plan.traces:
        (folder / "traces").mkdir(exist_ok=True)
    clocked = Clocked(engine)
    clock = clocked.clock
    # the model's objects live to the end; collections need not look at them
    gc.freeze()
    synchronize(engine)
    started = time.perf_counter()
    asked = [prompts[number] for number in missing]
    keep: Callable[[StepTrace], StepTrace] = (lambda step: step) if plan.traces else slim
    with no_garbage_collection():
        answers = finished(clocked, asked, plan.settings, plan.batch_size, keep)
        for count, (nth, steps) in enumerate(answers):
            number = missing[nth]
            trace = _trace(engine, plan, items[number], prompts[number], steps)
            if plan.traces:
                save(trace, _trace_file(folder, number))
            record = {
                "number": number,
                "part": part,
                **_counts(engine, plan.task, trace),
                "seconds": round(trace.seconds, 6),
            }
            # the device has answered everything that this record is made of
            record["elapsed"] = round(time.perf_counter() - started, 6)
            record["clock"] = asdict(clock)
            if count == 0:
                # once a part: it is the same for all of it
                record["place"] = here
            journal.add(record)
            on_item()


def _is_answer(record: dict[str, Any], items: int) -> bool:
    """Whether a line of the journal is what `_decode` writes for one of so many items."""
    number, clock = record.get("number"), record.get("clock")
    counts = [record.get(key) for key in ("part", *SUMS)]
    times = [record.get(key) for key in ("seconds", "elapsed")]
    return (
        isinstance(number, int)
        and 0 <= number < items
        and all(isinstance(count, int) for count in counts)
        and all(isinstance(time, (int, float)) for time in times)
        and isinstance(record.get("text"), str)
        and isinstance(clock, dict)
        and all(isinstance(clock.get(item.name), (int, float)) for item in fields(Clock))
    )


def _trace_file(folder: Path, number: int) -> Path:
    return folder / "traces" / f"{number:05d}.json"


def _check_traces(journal: Journal, folder: Path) -> None:
    """Raises ValueError if answers were decoded without keeping their traces."""
    numbers = [record["number"] for record in journal.records]
    without = sum(not _trace_file(folder, number).is_file() for number in numbers)
    if without:
        raise ValueError(
            f"{without} of the {len(numbers)} answers in {folder} have no trace, because they were "
            "decoded without traces; choose another folder, or leave --traces out"
        )


def _trace(
    engine: Any, plan: Plan, item: Item, ids: Sequence[int], steps: Sequence[StepTrace]
) -> DecodeTrace:
    settings = plan.settings
    header = start_trace(
        engine, ids, settings.strategy, settings.cache, settings.config, item.prompt
    )
    return finish_trace(engine, header, steps)


def _counts(engine: Any, task: str, trace: DecodeTrace) -> dict[str, Any]:
    return {
        "text": trace.text,
        "tokens": trace.tokens,
        "fast_dllm_tokens": fast_dllm_tokens(
            trace,
            lambda text: engine.codec.encode(text, True),
            engine.token_text,
            STOP_STRINGS.get(task, ()),
            task in COUNTS_PROMPT,
        ),
        "steps": len(trace.steps),
        "passes": trace.passes,
        "rows": trace.rows,
        "row_layers": trace.row_layers,
        "verified": trace.verified,
        "guide_passes": trace.guide_passes,
        "guide_rows": trace.guide_rows,
    }


def _details(
    records: Sequence[dict[str, Any]], journal: Sequence[dict[str, Any]], batch_size: int
) -> dict[str, Any]:
    """Sums over items, ratios of sums, times of all parts."""
    sums = {key: sum(record[key] for record in records) for key in (*SUMS, *GUIDE_SUMS)}
    correct = sum(record["correct"] for record in records)
    last: dict[int, dict[str, Any]] = {}
    for record in journal:
        if record["elapsed"] >= last.get(record["part"], record)["elapsed"]:
            last[record["part"]] = record
    wall = sum(record["elapsed"] for record in last.values())
    clocks = [record["clock"] for record in last.values()]
    prefill = sum(clock["prefill_seconds"] for clock in clocks)
    decode = wall - prefill
    return {
        "batch_size": batch_size,
        "correct": correct,
        "accuracy": ratio(correct, len(records)),
        **sums,
        "tokens_per_step": ratio(sums["tokens"], sums["steps"]),
        "tokens_per_pass": ratio(sums["tokens"], sums["passes"]),
        "rows_per_token": ratio(sums["rows"], sums["tokens"]),
        "row_layers_per_token": ratio(sums["row_layers"], sums["tokens"]),
        "launches": sum(clock["launches"] for clock in clocks),
        "seconds": wall,
        "prefill_seconds": prefill,
        "decode_seconds": decode,
        "host_seconds": decode - sum(clock["decode_seconds"] for clock in clocks),
        "tokens_per_second": ratio(sums["tokens"], wall),
        "tokens_per_second_decode": ratio(sums["tokens"], decode),
        "fast_dllm_tokens_per_second": ratio(sums["fast_dllm_tokens"], wall),
        "parts": len(last),
        # times of two places are of neither
        "places": places(journal),
    }


def places(journal: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Where the parts of a journal were decoded, each place once; older ones do not say."""
    found: list[dict[str, str]] = []
    for record in journal:
        if (there := record.get("place")) is not None and there not in found:
            found.append(there)
    return found


def synchronize(engine: Any) -> None:
    """Wait for the device."""
    if engine.info.device == "cuda":
        import torch

        torch.cuda.synchronize()
