"""Where a pass spends its time: a torch profiler trace, and each pass taken apart.

Labels are put around the operations only while a profile is made, so that decoding carries none.
CUDA graphs are off meanwhile: a replay has no parts. On CUDA the device's own clock is read, on the
CPU the wall clock.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flash_dllm import layerwise
from flash_dllm import session as session_file
from flash_dllm.decoder import decode_batch_steps
from flash_dllm.files import write_text
from flash_dllm.settings import Settings
from kernels import ops

PARTS = ("embedding", "attention", "mlp", "norms", "logits", "decision", "other")
# operation of `kernels.ops` → part; `linear` is told apart by its weight
OPERATIONS = {
    "rms_norm": "norms",
    "add_rms_norm": "norms",
    "project_and_cache": "attention",
    "scheduled_attention": "attention",
    "add_attention_mass": "attention",
    "swiglu": "mlp",
}
# the same for what a pass layer by layer does by itself, and the two ways to do a pass
LAYERWISE = ("row_attention", "_values")
PASS_METHODS = ("launch", "_by_layer")
# passes of a profile; a trace of more is too large to look at
PASSES = 64


@dataclass
class PassTimes:
    """One pass in seconds.

    kind   of its queries, "full", "draft", "verify", or several joined by +
    rows   query rows, logit_rows those with logits
    parts  seconds by part; "other" is the rest of the pass
    total  seconds from its start to its end, host  from its end to the next one's start
    """

    kind: str
    rows: int
    logit_rows: int
    parts: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    host: float = 0.0


def profile(
    engine: Any, prompts: Sequence[Sequence[int]], settings: Settings, folder: Path
) -> list[PassTimes]:
    """Decode these prompts together, at most `PASSES` passes; write the profile into `folder`.

    trace.json   for chrome://tracing or https://ui.perfetto.dev
    passes.csv   one line a pass, milliseconds
    summary.json by kind of pass: how many, and the median milliseconds of each part
    Raises       what `decode_steps` raises.
    """
    import torch

    plain = replace(engine, has_graphs=False, _idle=[])
    activities = [torch.profiler.ProfilerActivity.CPU]
    if engine.info.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # the first passes compile and allocate: they are no part of a profile
    _run(plain, prompts, settings, 4, None)
    folder.mkdir(parents=True, exist_ok=True)
    with _labelled(plain) as marks:
        with torch.profiler.profile(activities=activities) as profiler:
            _run(plain, prompts, settings, PASSES, marks)
        passes = marks.passes()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    write_text(folder / "passes.csv", table(passes))
    write_text(folder / "summary.json", json.dumps(summary(passes), indent=2) + "\n")
    return passes


def table(passes: Sequence[PassTimes]) -> str:
    """One CSV line a pass, in milliseconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["pass", "kind", "rows", "logit_rows", *PARTS, "pass_ms", "host"])
    for number, one in enumerate(passes, 1):
        parts = [f"{1e3 * one.parts.get(part, 0.0):.4f}" for part in PARTS]
        times = [f"{1e3 * one.total:.4f}", f"{1e3 * one.host:.4f}"]
        writer.writerow([number, one.kind, one.rows, one.logit_rows, *parts, *times])
    return text.getvalue()


def summary(passes: Sequence[PassTimes]) -> dict[str, dict[str, float]]:
    """By kind of pass: count, and the median milliseconds of the pass, its parts, the host."""
    found = {}
    for kind in dict.fromkeys(one.kind for one in passes):
        some = [one for one in passes if one.kind == kind]
        medians = {
            part: statistics.median(one.parts.get(part, 0.0) for one in some) for part in PARTS
        }
        medians |= {
            "pass": statistics.median(one.total for one in some),
            "host": statistics.median(one.host for one in some),
        }
        found[kind] = {"passes": len(some)} | {
            name: round(1e3 * seconds, 4) for name, seconds in medians.items()
        }
    return found


class _Enough(Exception):
    """The profile has all the passes that it wants."""


def _run(
    engine: Any, prompts: Sequence[Sequence[int]], settings: Settings, steps: int,
    marks: _Marks | None,
) -> None:  # fmt: skip
    """Decode until the end or until enough passes are seen."""
    found = decode_batch_steps(
        engine, prompts, settings.strategy, settings.cache, settings.config, len(prompts)
    )
    try:
        for number, _ in enumerate(found, 1):
            if marks is None and number >= steps:
                break
    except _Enough:
        pass
    finally:
        found.close()  # type: ignore[attr-defined]


class _Marks:
    """Stamps around the parts of each pass, read when everything is done."""

    def __init__(self, device: Any) -> None:
        self._device = device
        # of each pass: what it is, its own stamps, and (part, begin, end) of its parts
        self._found: list[tuple[PassTimes, list[Any], list[tuple[str, Any, Any]]]] = []

    @property
    def is_inside(self) -> bool:
        """Whether a pass is under way."""
        return bool(self._found) and len(self._found[-1][1]) == 1

    def begin(self, one: PassTimes) -> None:
        if len(self._found) >= PASSES:
            raise _Enough
        self._found.append((one, [self._stamp()], []))

    def end(self) -> None:
        self._found[-1][1].append(self._stamp())

    def part(self, name: str, work: Callable[[], Any]) -> Any:
        """Do a part of the pass that is under way."""
        import torch

        with torch.profiler.record_function(f"part:{name}"):
            begin = self._stamp()
            result = work()
            end = self._stamp()
        self._found[-1][2].append((name, begin, end))
        return result

    def passes(self) -> list[PassTimes]:
        """What was found, in seconds."""
        if self._device.type == "cuda":
            import torch

            torch.cuda.synchronize(self._device)
        done = [found for found in self._found if len(found[1]) == 2]
        for number, (one, (begin, end), parts) in enumerate(done):
            one.total = self._between(begin, end)
            # everything before the first operation: the embedding, and zeros for the mass
            one.parts = dict.fromkeys(PARTS, 0.0)
            one.parts["embedding"] = self._between(begin, parts[0][1])
            for name, first, last in parts:
                one.parts[name] += self._between(first, last)
            one.parts["other"] = max(0.0, one.total - sum(one.parts.values()))
            if number + 1 < len(done):
                one.host = self._between(end, done[number + 1][1][0])
        return [one for one, _, _ in done]

    def _stamp(self) -> Any:
        if self._device.type == "cuda":
            import torch

            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        return time.perf_counter()

    def _between(self, first: Any, last: Any) -> float:
        if self._device.type == "cuda":
            return first.elapsed_time(last) / 1e3
        return last - first


@contextmanager
def _labelled(engine: Any) -> Iterator[_Marks]:
    """Put marks around passes and operations, and take them away again."""
    marks = _Marks(engine.model.device)
    head = engine.model.weights.head
    kept: list[tuple[Any, str, Any]] = [
        (ops, name, getattr(ops, name)) for name in (*OPERATIONS, "linear")
    ]
    session = session_file.ModelSession
    kept += [(layerwise, name, getattr(layerwise, name)) for name in LAYERWISE]
    kept += [(session_file, "choose", session_file.choose)]
    kept += [(session, name, getattr(session, name)) for name in PASS_METHODS]

    def marked(part_of: Callable[..., str], work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            if not marks.is_inside:
                return work(*arguments, **keywords)
            return marks.part(part_of(*arguments), lambda: work(*arguments, **keywords))

        return run

    def passing(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, queries: Any, alternatives: int) -> Any:
            kinds = sorted({query.kind for _, query in queries})
            rows = sum(query.rows for _, query in queries)
            marks.begin(PassTimes("+".join(kinds), rows, sum(len(q.predict) for _, q in queries)))
            result = work(self, queries, alternatives)
            marks.end()
            return result

        return run

    try:
        for name, part in OPERATIONS.items():
            setattr(ops, name, marked(lambda *_, part=part: part, getattr(ops, name)))
        ops.linear = marked(  # type: ignore[assignment]
            lambda hidden, weight, *_: "logits" if weight is head else "attention", ops.linear
        )
        session_file.choose = marked(lambda *_: "decision", session_file.choose)
        for name in LAYERWISE:
            setattr(layerwise, name, marked(lambda *_: "attention", getattr(layerwise, name)))
        for name in PASS_METHODS:
            setattr(session, name, passing(getattr(session, name)))
        yield marks
    finally:
        for place, name, original in kept:
            setattr(place, name, original)
