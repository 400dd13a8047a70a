"""The rows of `frontier.py`: made from a run, compared, kept, shown, written into the document.

A row's accuracy is the share of right items with Wilson's 95 % interval; its difference to the
reference is paired, with Newcombe's interval and McNemar's exact p.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.measurement import Decoded, by_domain, ratio, summarize
from flash_dllm.evaluation.statistics import paired_difference

DOCUMENT = Path(__file__).parents[1] / "docs" / "experiments.md"
# the setting of the second round that is looked at beside all others
PATIENT = "patient c₀ .5, lead 4, every 4, flash 4"
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
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


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
            for name in ("word", "algebra", "code", "story")
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


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown, by rising work, paired with the first row named `preset` if any."""
    lines = [
        "| setting | accuracy (95 %) | word | algebra | code | story | against the preset | "
        "tokens/step | tokens/pass | rows/token | row-layers/token |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    paired = {row["setting"]: row for row in compared(rows, "preset")}
    for row in sorted(rows, key=lambda row: float(row["rows_per_token"])):
        other = paired[row["setting"]]
        against = (
            ""
            if row["setting"] == "preset" or not other["p"]
            else (
                f"{100 * float(other['difference']):+.1f} points "
                f"({100 * float(other['difference_low']):+.1f} to "
                f"{100 * float(other['difference_high']):+.1f}), p {float(other['p']):.2f}"
            )
        )
        domains = [f"{float(row[name]):.3f}" if row.get(name) else "" for name in
                   ("word", "algebra", "code", "story")]  # fmt: skip
        cells = [
            row["setting"],
            f"{float(row['accuracy']):.3f} ({float(row['low']):.3f}–{float(row['high']):.3f})",
            *domains, against,
            f"{float(row['tokens_per_step']):.2f}", f"{float(row['tokens_per_pass']):.2f}",
            f"{float(row['rows_per_token']):.1f}", f"{float(row['row_layers_per_token']):.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def beside(rows: Sequence[dict[str, Any]], name: str) -> str:
    """The row of that name against every other one on the same items, as Markdown, by rising work.

    Raises ValueError if there is no such row.
    """
    found = {row["setting"]: row for row in rows}
    if name not in found:
        raise ValueError(f"no row is named {name!r}")
    right = [mark == "1" for mark in found[name]["right"]]
    lines = [
        f"| setting | right of {len(right)} | it against this | tokens/pass | row-layers/token |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: float(row["row_layers_per_token"])):
        other = [mark == "1" for mark in row["right"]]
        if len(other) != len(right):
            continue
        against = ""
        if row["setting"] != name:
            d = paired_difference(right, other)
            against = (
                f"{100 * d.difference:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f}), "
                f"p {d.p:.2f}"
            )
        cells = [
            row["setting"], str(sum(other)), against, f"{float(row['tokens_per_pass']):.2f}",
            f"{float(row['row_layers_per_token']):.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_document(rows: Sequence[dict[str, Any]], path: Path = DOCUMENT) -> None:
    """Put the tables between the marks of docs/experiments.md."""
    if not rows:
        raise ValueError("there are no rows to write")
    text = path.read_text(encoding="utf-8")
    text = _between(text, "measured", table(rows), path)
    path.write_text(_between(text, "patient", beside(rows, PATIENT), path), encoding="utf-8")


def _between(text: str, mark: str, content: str, path: Path) -> str:
    before, start, rest = text.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->\n")
    if not (start and end):
        raise ValueError(f"{path} has no marks <!-- {mark} --> for a table")
    return f"{before}{start}{content}\n{end}{after}"
