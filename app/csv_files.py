"""Every table of a run as CSV, in one ZIP file."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields

from app import lab
from app.figures import cost_map, lifeline, progress, run, run_map, tracking, verify
from app.sentences import texts_of
from app.visibility import HIDDEN, ITSELF, SEEN, visibility
from flash_dllm.trace import DecodeTrace

FIGURES = {
    "run": run, "verify": verify, "tracking": tracking, "run_map": run_map, "progress": progress,
    "cost_map": cost_map,
    "lifeline": lifeline,
}  # fmt: skip


def csv_tables(trace: DecodeTrace) -> dict[str, str]:
    """name → CSV text. The first seven are the tables of the figures; the others are:

    missed  drafts that were right but not written
    bound   per step the length of the checked block and its bounds
    passes  every forward pass, audits included
    sees    who sees whom in every verify pass: a line for each row and each column of the matrix
    """
    texts = {}
    for name, figure in FIGURES.items():
        texts[name] = figure.table(trace).to_csv(index=name.endswith("_map"), lineterminator="\n")
    text_of = texts_of(trace)
    chances = [
        {**asdict(item), "token": text_of(item.token), "verify_token":
         None if item.verify_token is None else text_of(item.verify_token)}
        for item in lab.missed(trace)
    ]  # fmt: skip
    texts["missed"] = _csv([item.name for item in fields(lab.Missed)], chances)
    gamma = trace.strategy.get("gamma")
    bounds = [
        {"step": step.index, **asdict(lab.bound(step, gamma))}
        for step in trace.steps
        if gamma is not None
    ]
    texts["bound"] = _csv(["step", *(item.name for item in fields(lab.Bound))], bounds)
    names = [
        "step", "kind", "rows", "predicted", "seconds", "route", "row_layers", "compared"
    ]  # fmt: skip
    passes = [
        {name: value for name, value in {"step": step.index, **asdict(record)}.items()
         if name in names}
        for step in trace.steps for record in step.passes
    ]  # fmt: skip
    return texts | {"passes": _csv(names, passes), "sees": _csv(SEES, _sees(trace))}


SEES = ("step", "row", "group", "column", "sees")
CELLS = {HIDDEN: "no", SEEN: "yes", ITSELF: "itself"}


def _sees(trace: DecodeTrace) -> Iterator[dict]:
    for step in trace.steps:
        found = visibility(trace, step.index)
        if found is None:
            continue
        for row in found.rows:
            for column, cell in zip(found.columns, row.cells, strict=True):
                names = step.index, row.name, column.group, column.name, CELLS[cell]
                yield dict(zip(SEES, names, strict=True))


def write_csv(trace: DecodeTrace, path: str | os.PathLike[str]) -> None:
    """Write all tables into a ZIP file, UTF-8; bytes that are no text stand as \\udc.. in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in csv_tables(trace).items():
            archive.writestr(f"{name}.csv", text.encode("utf-8", "backslashreplace"))


def _csv(names: Sequence[str], rows: Iterable[dict]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
