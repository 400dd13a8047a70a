"""The rows of `frontier.py`: made from a run, compared, kept, shown, written into the documents.

A row's accuracy is the share of right items with Wilson's 95 % interval; its difference to the
reference is paired, with Newcombe's interval and McNemar's exact p.

A document says itself which tables it holds, each between marks (`written`):

    <!-- table: REFERENCE -->               every row on its items, paired with REFERENCE
    <!-- table: REFERENCE | A | B -->       those three rows only
    <!-- /table -->
    <!-- beside: SETTING -->                SETTING paired with every other row, or with those named
    <!-- /beside -->

A row on fewer items stands in a table that names it: it is paired on the items of both.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import result_rows
from flash_dllm.evaluation.measurement import Decoded, by_domain, ratio, summarize
from flash_dllm.evaluation.statistics import paired_difference

_DOCS = Path(__file__).parents[1] / "docs"
DOMAINS = ("word", "algebra", "code", "story")
DOCUMENTS = (_DOCS / "experiments.md", _DOCS / "decoders.md")
_OPENED = re.compile(r"<!-- (?:table|beside): ")
_MARKED = re.compile(
    r"(?P<begin><!-- (?P<kind>table|beside): (?P<names>[^\n]+) -->\n)"
    r".*?(?P<end><!-- /(?P=kind) -->\n)",
    re.DOTALL,
)
LAST = ("right", "settings", "device", "dtype", "impl", "batch", "commit")


def row_of(
    name: str, decoded: Sequence[Decoded], seconds: float, correct: Sequence[bool]
) -> dict[str, Any]:
    """One line of the table without its difference; `right` holds one character an item."""
    total = summarize("all", decoded, correct)
    low, high = total.interval
    row_layers = sum(item.row_layers for item in decoded)
    return {
        "setting": name,
        "items": total.items,
        "accuracy": f"{total.accuracy:.4f}",
        "low": f"{low:.4f}",
        "high": f"{high:.4f}",
        **{s.name: f"{s.accuracy:.4f}" for s in by_domain(decoded, correct) if s.name != "all"},
        "tokens_per_step": f"{total.tokens_per_step:.3f}",
        "tokens_per_pass": f"{total.tokens_per_pass:.3f}",
        "rows_per_token": f"{total.rows_per_token:.2f}",
        "row_layers_per_token": f"{ratio(row_layers, total.tokens):.1f}",
        "tokens": total.tokens,
        "seconds": f"{seconds:.1f}",
        "right": "".join("01"[right] for right in correct),
    }


def compared(rows: Sequence[dict[str, Any]], reference: str) -> list[dict[str, Any]]:
    """The rows with their paired difference to `reference`, which must be among them or none is."""
    right = {row["setting"]: [c == "1" for c in row["right"]] for row in rows}
    done = []
    for row in rows:
        extra = {"difference": "", "difference_low": "", "difference_high": "", "p": ""}
        if reference in right and len(right[reference]) == len(right[row["setting"]]):
            d = paired_difference(right[row["setting"]], right[reference])
            extra = {
                "difference": f"{d.difference:+.4f}", "difference_low": f"{d.low:+.4f}",
                "difference_high": f"{d.high:+.4f}", "p": f"{d.p:.4f}",
            }  # fmt: skip
        # what is long or of the machine comes last
        last = {key: row[key] for key in LAST if key in row}
        rest = {key: value for key, value in row.items() if key not in {**last, **extra}}
        done.append({**rest, **extra, **last})
    return done


def read_rows(path: Path) -> list[dict[str, Any]]:
    """What an earlier command measured."""
    return result_rows.read(path) if path.exists() else []


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """All rows; columns that a row lacks stay empty in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # a table that was begun before a column was thought of goes on with it
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table without what only a program reads."""
    for row in sorted(rows, key=lambda row: float(row["rows_per_token"])):
        domains = " ".join(
            f"{name} {float(row[name]):.3f}"
            for name in DOMAINS
            if row.get(name)
        )
        print(
            f"{row['setting']:<34} acc {float(row['accuracy']):.3f} ({domains}) "
            f"Δ {row['difference']} [{row['difference_low']}, {row['difference_high']}] "
            f"p {row['p']}  tok/step {float(row['tokens_per_step']):.2f} "
            f"tok/pass {float(row['tokens_per_pass']):.2f} "
            f"rows/tok {float(row['rows_per_token']):.2f} "
            f"row-layers {float(row['row_layers_per_token']):.0f}",
            flush=True,
        )


def table(rows: Sequence[dict[str, Any]], reference: str) -> str:
    """The rows as Markdown, by rising work, each paired with the row named `reference`.

    One on other items says which they are.
    """
    lines = [
        "| setting | accuracy (95 %) | word | algebra | code | story | "
        f"against {reference} | tokens/step | tokens/pass | rows/token | row-layers/token |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    other = _row(rows, reference)
    for row in _by_work(rows):
        domains = [f"{float(row[name]):.3f}" if row.get(name) else "" for name in DOMAINS]
        least = min(map(len, _blocks(row)))
        is_part = len(row["right"]) < len(other["right"])
        cells = [
            f"{row['setting']} (the first {least} of each)" if is_part else row["setting"],
            f"{float(row['accuracy']):.3f} ({float(row['low']):.3f}–{float(row['high']):.3f})",
            *domains,
            "" if row is other else _difference(row, other),
            f"{float(row['tokens_per_step']):.2f}", f"{float(row['tokens_per_pass']):.2f}",
            f"{float(row['rows_per_token']):.1f}", f"{float(row['row_layers_per_token']):.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def beside(rows: Sequence[dict[str, Any]], name: str) -> str:
    """The row of that name against every other one on the same items, as Markdown, by rising work.

    Raises ValueError if there is no such row.
    """
    mine = _row(rows, name)
    count = len(mine["right"])
    lines = [
        f"| setting | right of {count} | it against this | tokens/pass | row-layers/token |",
        "|---|---|---|---|---|",
    ]
    for row in _by_work(_alike(rows, mine)):
        cells = [
            row["setting"], str(row["right"].count("1")),
            "" if row is mine else _difference(mine, row),
            f"{float(row['tokens_per_pass']):.2f}", f"{float(row['row_layers_per_token']):.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _row(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    for row in rows:
        if row["setting"] == name:
            return row
    raise ValueError(f"no row is named {name!r}")


def _by_work(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: float(row["row_layers_per_token"]))


def _alike(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows on as many items as this one."""
    return [other for other in rows if len(other["right"]) == len(row["right"])]


def _blocks(row: dict[str, Any]) -> list[list[bool]]:
    """The verdicts by domain: its items stand together, and each domain has as many."""
    right = [mark == "1" for mark in row["right"]]
    size = len(right) // max(1, sum(bool(row.get(name)) for name in DOMAINS))
    return [right[start : start + size] for start in range(0, len(right), size)]


def _difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    """The first's accuracy minus the second's, in words, on the first items of each domain that
    both have; nothing if their domains differ."""
    pairs = list(zip(_blocks(first), _blocks(second), strict=False))
    if any(bool(first.get(name)) != bool(second.get(name)) for name in DOMAINS):
        return ""
    # the shorter block of a pair says how many items both have
    both = [verdicts for mine, other in pairs for verdicts in zip(mine, other, strict=False)]
    d = paired_difference([mine for mine, _ in both], [other for _, other in both])
    return (
        f"{100 * d.difference:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f}), "
        f"p {d.p:.2f}"
    )


def written(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """The document with each of its tables made anew.

    Raises ValueError where a mark is not closed or names a row that is not there.
    """
    opened = len(_OPENED.findall(text))
    text, closed = _MARKED.subn(lambda mark: _made(mark, rows), text)
    if not opened or opened != closed:
        raise ValueError(f"{opened} tables begin in it and {closed} end")
    return text


def _made(mark: re.Match[str], rows: Sequence[dict[str, Any]]) -> str:
    first, *others = mark["names"].split(" | ")
    mine = _row(rows, first)
    chosen = [mine, *(_row(rows, name) for name in others)] if others else _alike(rows, mine)
    content = table(chosen, first) if mark["kind"] == "table" else beside(chosen, first)
    return f"{mark['begin']}{content}\n{mark['end']}"


def write_document(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Make the tables of a document anew. Errors as in `written`, with the document's name."""
    try:
        text = written(path.read_text(encoding="utf-8"), rows)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    path.write_text(text, encoding="utf-8")
