"""Clocks and rows: medians with their spread, written as they come.

On a GPU the device's own clock is read (events), so that a busy host does not count as work of the
device; elsewhere the wall clock.
"""

from __future__ import annotations

import csv
import datetime
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from flash_dllm.evaluation.place import commit


@dataclass(frozen=True)
class Spread:
    """Median and 20/80 percentiles of `repeats` figures."""

    median: float
    p20: float
    p80: float
    repeats: int

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, _, _, high = statistics.quantiles(values, n=5, method="inclusive")
        return cls(statistics.median(values), low, high, len(values))


def synchronize(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_times(
    work: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3
) -> list[float]:
    """Milliseconds of each of `repeats` runs, by the device's clock."""
    for _ in range(warmup):
        work()
    synchronize(device)
    if device.type != "cuda":
        return wall_times(work, device, repeats, warmup=0)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    synchronize(device)
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:], strict=False)]


def wall_times(
    work: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3
) -> list[float]:
    """Milliseconds of each run by the wall clock, the device waited for."""
    for _ in range(warmup):
        work()
    times = []
    for _ in range(repeats):
        synchronize(device)
        begin = time.perf_counter()
        work()
        synchronize(device)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def captured(work: Callable[[], object]) -> Callable[[], object]:
    """`work` as a CUDA graph, so that launching it costs the device nothing; itself without one."""
    if not torch.cuda.is_available():
        return work
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def versions(device: torch.device) -> dict[str, str]:
    """What a number is worth nothing without."""
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = "none"
    is_gpu = device.type == "cuda"
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit() or "unknown",
        "device": torch.cuda.get_device_name(device) if is_gpu else platform.machine(),
        "torch": torch.__version__,
        "triton": triton_version,
        "python": platform.python_version(),
    }


COLUMNS = (
    "section", "name", "impl", "batch", "rows", "logit_rows", "unit", "median", "p20", "p80",
    "repeats", "note", "date", "commit", "device", "torch", "triton", "python",
)  # fmt: skip


class Table:
    """A CSV file that grows row by row, so that nothing measured is lost."""

    def __init__(self, path: Path, circumstances: dict[str, str]) -> None:
        self._path = path
        self.circumstances = circumstances
        self.rows: list[dict[str, object]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS).writeheader()

    def add(self, section: str, name: str, unit: str, value: Spread | float, **facts) -> None:
        """Write one figure, and print it."""
        spread = value if isinstance(value, Spread) else Spread(value, value, value, 1)
        row: dict[str, object] = {
            "section": section, "name": name, "unit": unit,
            "median": f"{spread.median:.4g}", "p20": f"{spread.p20:.4g}",
            "p80": f"{spread.p80:.4g}", "repeats": spread.repeats,
            **facts, **self.circumstances,
        }  # fmt: skip
        self.rows.append(row)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)
        where = " ".join(f"{key}={value}" for key, value in facts.items() if value != "")
        print(
            f"{section:10} {name:28} {spread.median:10.3f} {unit:9} "
            f"({spread.p20:.3f} to {spread.p80:.3f}) {where}",
            flush=True,
        )
