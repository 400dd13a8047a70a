"""Rows of measured numbers, and on what machine; a CSV file keeps what was measured before."""

from __future__ import annotations

import csv
import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def processor() -> str:
    """The processor's name, as far as the system tells."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def circumstances() -> dict[str, Any]:
    """What a number of this machine is worth nothing without: when, where, how busy."""
    import gradio
    import plotly

    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "gradio": gradio.__version__,
        "plotly": plotly.__version__,
    }


def shown(number: str) -> str:
    """Three significant digits.

    >>> shown("5.1234"), shown("123.4"), shown("0.0123")
    ('5.12', '123', '0.0123')
    """
    value = float(number)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file. Raises OSError."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row to a CSV file, and print it.

    Columns that the file lacks are added at its end but before `note`, empty in earlier rows;
    columns that the row lacks stay empty in it.
    """
    rows: list[dict[str, Any]] = []
    columns: list[str] = []
    if path.is_file():
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns, rows = list(reader.fieldnames or ()), list(reader)
    columns += [name for name in row if name not in columns]
    columns.sort(key=lambda name: name == "note")  # stable: only the note goes to the end
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")  # an end in the middle must not cost the earlier rows
    with open(draft, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, row])
    os.replace(draft, path)
    print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
