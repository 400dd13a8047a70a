"""The documents' measured tables from a report's records.

    python -m flash_dllm.report --output DIR --measure-only …
    python benchmarks/report_documents.py DIR/measured.json

Writes `results/peers.csv` and the table between the marks of docs/decoders.md from part
`decoders`, and the embedded model's table of docs/performance.md from part `table6`; of a part that
the records lack, nothing is touched.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from flash_dllm.evaluation.report.cell import Source, decoder  # noqa: E402
from flash_dllm.evaluation.report.every_decoder import (  # noqa: E402
    Line,
    every_decoder,
    lines,
)
from flash_dllm.evaluation.report.records import Records, load_records  # noqa: E402
from flash_dllm.evaluation.report.section import LENGTHS, Scope, Section  # noqa: E402
from flash_dllm.evaluation.report.shown import percent, speed, without_speed  # noqa: E402
from flash_dllm.evaluation.report.table6 import STRATEGIES  # noqa: E402
from flash_dllm.evaluation.statistics import PairedDifference  # noqa: E402
from flash_dllm.report import facts_in_words  # noqa: E402

BEGIN, END = "<!-- measured: benchmarks/report_documents.py -->", "<!-- end of measured -->"
CSV = ROOT / "benchmarks" / "results" / "peers.csv"
DECODERS = ROOT / "docs" / "decoders.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
DIFFERENCE = [item.name for item in fields(PairedDifference)]


def peers_csv(records: Records) -> str:
    """One line a decoder and task, `all` for all of them; shares, not per cent."""
    file = io.StringIO()
    own = ("items", "accuracy", "low", "high", "tokens_per_step", "tokens_per_pass",
           "row_layers_per_token")  # fmt: skip
    facts = {key: records.facts[key] for key in ("model", "fingerprint", "device", "dtype",
                                                 "impl", "commit")}  # fmt: skip
    facts |= {key: records.facts["versions"].get(key, "") for key in ("torch", "triton")}
    head = ["decoder", "task", *own, *(f"difference_{key}" for key in DIFFERENCE), *facts]
    writer = csv.DictWriter(file, head, lineterminator="\n")
    writer.writeheader()
    for line in lines(records, records.scope):
        writer.writerow(_row(line) | facts)
    return file.getvalue()


def _row(line: Line) -> dict[str, object]:
    row: dict[str, object] = {"decoder": line.decoder.name, "task": line.task, "items": line.items}
    measured = {
        "accuracy": line.accuracy, "low": line.interval[0], "high": line.interval[1],
        "tokens_per_step": line.tokens_per_step, "tokens_per_pass": line.tokens_per_pass,
        "row_layers_per_token": line.row_layers_per_token,
    }  # fmt: skip
    row |= {key: f"{value:.5g}" for key, value in measured.items()}
    if line.difference is not None:
        row |= {f"difference_{key}": f"{getattr(line.difference, key):.4g}" for key in DIFFERENCE}
    return row


def embedded_table(lab: Source, scope: Scope) -> Section:
    """The embedded model on Flash-Cache at the smallest and the largest batch size."""
    task, length = scope.tasks[0], LENGTHS[-1]
    rows = []
    runs = []
    for batch in sorted({min(scope.batches), max(scope.batches)}):
        for strategy in STRATEGIES:
            run = lab.measure(decoder(task, strategy, "flash", length, batch))
            runs.append(run)
            rows.append([
                str(batch), strategy, percent(run), f"{run.tokens_per_step:.2f}",
                f"{run.tokens_per_pass:.2f}", speed(run),
            ])  # fmt: skip
    text = f"Task {task}, length {length}, Flash-Cache; what is not named is the model's preset."
    head = ("batch", "strategy", "accuracy %", "tokens/step", "tokens/pass", "tokens/s")
    return Section("The embedded model", text, head, rows, note=without_speed(runs))


def as_markdown(section: Section, facts: str) -> str:
    """Heading, words, table."""
    table = [section.head, ["---"] * len(section.head), *section.rows]
    rows = [f"| {' | '.join(row)} |" for row in table]
    note = [section.note, ""] if section.note else []
    return "\n".join([f"### {section.title}", "", section.text, "", *rows, "", *note, facts])


def between_marks(text: str, content: str) -> str:
    """The document with `content` between its marks. Raises ValueError if it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write what the records have."""
    cli = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cli.add_argument("records", type=Path)
    options = cli.parse_args(arguments)
    records = load_records(options.records)
    facts = facts_in_words(records)
    makers = {
        "decoders": (DECODERS, every_decoder),
        "table6": (PERFORMANCE, embedded_table),
    }
    for part, (path, make) in makers.items():
        if part not in records.parts:
            continue
        content = as_markdown(make(records, records.scope), facts)
        path.write_text(between_marks(path.read_text("utf-8"), content), "utf-8")
        print(path)
        if part == "decoders":
            CSV.write_text(peers_csv(records), "utf-8")
            print(CSV)
    return 0


if __name__ == "__main__":
    sys.exit(main())
