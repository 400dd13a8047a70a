"""The documents' measured tables from a report's records.

    python -m flash_dllm.report --output DIR --measure-only …
    python benchmarks/report_documents.py DIR/measured.json

Puts part `decoders` into `results/peers.csv` and writes the tables between the marks of
docs/decoders.md from it (`peers_table.py` says what replaces what), and the embedded model's table
of docs/performance.md from part `embedded`; of a part that the records lack, nothing is touched.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import peers_table  # noqa: E402
from flash_dllm.evaluation.report.parts import sections  # noqa: E402
from flash_dllm.evaluation.report.records import load_records  # noqa: E402
from flash_dllm.evaluation.report.section import Section  # noqa: E402
from flash_dllm.report import facts_in_words  # noqa: E402

BEGIN, END = "<!-- measured: benchmarks/report_documents.py -->", "<!-- end of measured -->"
CSV = ROOT / "benchmarks" / "results" / "peers.csv"
DECODERS = ROOT / "docs" / "decoders.md"
PERFORMANCE = ROOT / "docs" / "performance.md"


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
        # shown is what the file says, which has fewer digits: the same whenever it is shown
        tables = peers_table.tables(peers_table.read(CSV))
        written = "\n\n".join(as_markdown(*table) for table in tables)
        put(DECODERS, written)
        print(CSV)
    if "embedded" in records.parts:
        (table,) = sections(records, records.scope, ["embedded"])
        put(PERFORMANCE, as_markdown(table, facts_in_words(records)))
    return 0


def put(path: Path, content: str) -> None:
    """Write between the document's marks."""
    path.write_text(between_marks(path.read_text("utf-8"), content), "utf-8")
    print(path)


if __name__ == "__main__":
    sys.exit(main())
