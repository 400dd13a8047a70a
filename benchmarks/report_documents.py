"""The documents' measured tables from a report's records.

    python -m flash_dllm.report --output DIR --measure-only …
    python benchmarks/report_documents.py DIR/measured.json

Puts part `decoders` into `results/peers.csv` and writes the tables between the marks of
docs/decoders.md from it (`peers_table.py` says what replaces what), and the embedded model's table
of docs/performance.md from part `table6`; of a part that the records lack, nothing is touched.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import peers_table  # noqa: E402
from flash_dllm.evaluation.report.cell import Source, decoder  # noqa: E402
from flash_dllm.evaluation.report.records import load_records  # noqa: E402
from flash_dllm.evaluation.report.section import LENGTHS, Scope, Section  # noqa: E402
from flash_dllm.evaluation.report.shown import percent, speed, without_speed  # noqa: E402
from flash_dllm.evaluation.report.table6 import STRATEGIES  # noqa: E402
from flash_dllm.report import facts_in_words  # noqa: E402

BEGIN, END = "<!-- measured: benchmarks/report_documents.py -->", "<!-- end of measured -->"
CSV = ROOT / "benchmarks" / "results" / "peers.csv"
DECODERS = ROOT / "docs" / "decoders.md"
PERFORMANCE = ROOT / "docs" / "performance.md"


def embedded_table(lab: Source, scope: Scope) -> Section:
    """The embedded model on Flash-Cache at the smallest and the largest batch size."""
    # other parts time some of these decoders too, in other rounds
    lab = lab.part("table6")
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
    notes = [note for note in (without_speed(runs), lab.speeds_note) if note]
    return Section("The embedded model", text, head, rows, note=" ".join(notes))


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
    if "decoders" in records.parts:
        found = peers_table.merged(peers_table.read(CSV), peers_table.Measuring.of(records))
        peers_table.write(CSV, found)
        written = "\n\n".join(as_markdown(*table) for table in peers_table.tables(found))
        put(DECODERS, written)
        print(CSV)
    if "table6" in records.parts:
        put(PERFORMANCE, as_markdown(embedded_table(records, records.scope),
                                     facts_in_words(records)))  # fmt: skip
    return 0


def put(path: Path, content: str) -> None:
    """Write between the document's marks."""
    path.write_text(between_marks(path.read_text("utf-8"), content), "utf-8")
    print(path)


if __name__ == "__main__":
    sys.exit(main())
