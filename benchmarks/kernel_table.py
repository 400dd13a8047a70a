"""Each kernel alone, beside its torch twin and its floor: tables from `kernel_ops.py`'s and
`kernel_attention.py`'s rows. `performance_table.py` puts them into docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.result_rows import shown

TORCH = "torch"

Row = dict[str, str]


def operations(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """(operation, rows, ours, which, torch, floor, share of the floor): the fastest of ours.

    >>> def row(variant, us): return {"operation": "add", "variant": variant, "rows": "32",
    ...     "us": us, "floor_us": "1"}
    >>> operations([row("torch", "9"), row("a", "4"), row("b", "2")])
    [('add', '32', '2', 'b', '9', '1', '50 %')]
    """
    cases: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        name, top, _ = row["variant"].partition(" top-5")
        operation = row["operation"] + (" and five alternatives" if top else "")
        cases.setdefault((operation, row["rows"]), {})[name] = row
    lines = []
    for (operation, count), found in sorted(cases.items(), key=lambda case: case[0][0]):
        twin = found.pop(TORCH, None)
        which, ours = min(found.items(), key=lambda pair: float(pair[1]["us"]))
        lines.append((
            operation, count, shown(ours["us"]), which,
            "–" if twin is None else shown(twin["us"]),
            shown(ours["floor_us"]), _share(float(ours["floor_us"]), ours["us"]),
        ))  # fmt: skip
    return lines


def attention(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """(pass, batch, what, µs a layer, floor, share of the floor)."""
    lines = []
    for row in rows:
        floor = 1e3 * float(row["floor_ms"]) / int(row["layers"])
        lines.append((
            row["pass"], row["batch"], row["what"], shown(row["us_per_layer"]),
            shown(f"{floor}"), _share(floor, row["us_per_layer"]),
        ))  # fmt: skip
    return lines


def _share(floor: float, time: str) -> str:
    """How much of the time the floor is."""
    return f"{floor / float(time):.0%}".replace("%", " %")
