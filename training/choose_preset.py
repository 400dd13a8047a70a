"""Choose a model's default settings from measured sweeps, by a rule that was fixed before.

    python -m training.held_out --output training/local/choosing --count 512 --seed 1 \\
        --exclude assets/tasks --domains word code
    python -m flash_dllm.sweep training/sweeps/preset_reference.yaml
    python -m flash_dllm.sweep training/sweeps/preset_grid.yaml --workers 8
    python -m training.choose_preset sqlite:///training/local/preset.db --output DIR

Settings are chosen on items of their own, so that the figures on `assets/tasks` are not those of
the luckiest of many settings. The rule: among the settings that hold the accuracy of confidence
decoding at 0.9 without cache, the most tokens a step; ties go to fewer rows. "Hold": exact McNemar
p > 0.05 and the 95 % interval of the paired difference lies above -2.5 points, on all items
together.

Writes `preset.json` and `sweep.csv` into `--output`.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.statistics import PairedDifference, paired_difference
from flash_dllm.evaluation.study_table import Row, load_study

SIGNIFICANCE = 0.05
# 3 points are promised; half a point less here, as the fastest of many settings is a lucky one
LOWEST_DIFFERENCE = -0.025
# what of a trial's settings a preset says; the rest is the library's
KNOBS = {
    "strategy": ("name", "epsilon", "gamma", "search_size", "acceptance", "order", "correct"),
    "cache": ("name", "track_size"),
    "config": ("gen_length", "window_size", "block_length", "suppress_after_eos"),
}


@dataclass(frozen=True)
class Candidate:
    """What the rule looks at.

    low, p  of the paired difference to the reference: the interval's lower end (a share), and
            McNemar's p
    """

    name: str
    tokens_per_step: float
    rows_per_token: float
    low: float
    p: float

    @property
    def holds(self) -> bool:
        """Whether the reference's accuracy holds."""
        return self.p > SIGNIFICANCE and self.low > LOWEST_DIFFERENCE


def chosen(candidates: Sequence[Candidate]) -> Candidate | None:
    """The rule; None where no candidate holds the accuracy."""
    holding = [candidate for candidate in candidates if candidate.holds]
    return min(holding, key=lambda c: (-c.tokens_per_step, c.rows_per_token), default=None)


def difference_of(row: Row, reference: Row) -> PairedDifference:
    """A trial's accuracy minus the reference's. Raises ValueError if they had other items."""
    marks = [str(trial.measured["correct"]) for trial in (row, reference)]
    return paired_difference(*([mark == "1" for mark in found] for found in marks))


def preset_of(row: Row) -> dict[str, Any]:
    """What `preset.json` holds: only the knobs that the sweep decides or fixes."""
    settings = row.measured["settings"]
    return {
        part: {name: settings[part][name] for name in names if name in settings[part]}
        for part, names in KNOBS.items()
    }


def table_row(row: Row, difference: PairedDifference, holds: bool) -> dict[str, Any]:
    """One line of `sweep.csv`; accuracies in %, differences in points."""
    measured, d = row.measured, difference
    return {
        "setting": ", ".join(f"{name} {value}" for name, value in row.knobs.items()),
        **{task: f"{100 * share:.1f}" for task, share in measured["accuracy_by_task"].items()},
        "all": f"{100 * measured['accuracy']:.1f}",
        "tokens/step": f"{measured['tokens_per_step']:.2f}",
        "tokens/pass": f"{measured['tokens_per_pass']:.2f}",
        "rows/token": f"{measured['rows_per_token']:.1f}",
        "seconds": f"{measured['seconds']:.1f}",
        "difference": f"{100 * d.difference:+.1f}",
        "95 % interval": f"{100 * d.low:+.1f} to {100 * d.high:+.1f}",
        "p": f"{d.p:.3f}",
        "admitted": "yes" if holds else "no",
    }


def choose(baselines: Sequence[Row], grid: Sequence[Row]) -> tuple[Row, list[dict[str, Any]]]:
    """The chosen trial and the table of all, fastest first.

    The reference is the baseline of confidence decoding; where nothing of the grid holds its
    accuracy, it is what is chosen. Raises ValueError without it or without a grid.
    """
    found = [r for r in baselines if r.measured["settings"]["strategy"]["name"] == "confidence"]
    if len(found) != 1 or not grid:
        raise ValueError(
            f"one measured confidence baseline and a grid are needed, got {len(found)} and "
            f"{len(grid)} trials; run the sweeps first (training/README.md)"
        )
    reference = found[0]
    lines: list[tuple[float, dict[str, Any]]] = []
    candidates: dict[Candidate, Row] = {}
    for row in [*baselines, *grid]:
        d, measured = difference_of(row, reference), row.measured
        candidate = Candidate(
            str(row.number), measured["tokens_per_step"], measured["rows_per_token"], d.low, d.p
        )
        if row in grid:
            candidates[candidate] = row
        lines.append((-candidate.tokens_per_step, table_row(row, d, candidate.holds)))
    best = chosen(list(candidates))
    table = [line for _, line in sorted(lines, key=lambda found: found[0])]
    return (candidates[best] if best else reference), table


def parser() -> argparse.ArgumentParser:
    """All options."""
    cli = argparse.ArgumentParser(description="Choose a model's preset from measured sweeps.")
    cli.add_argument("storage", help="the sweeps' storage, such as sqlite:///FILE")
    cli.add_argument("--reference", default="preset-reference", help="study of the baselines")
    cli.add_argument("--grid", default="preset-grid", help="study of the settings to choose from")
    cli.add_argument("--output", type=Path, required=True, help="folder of preset.json, sweep.csv")
    return cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error."""
    options = parser().parse_args(arguments)
    try:
        baselines, grid = (
            load_study(options.storage, name).complete for name in (options.reference, options.grid)
        )
        row, table = choose(baselines, grid)
        options.output.mkdir(parents=True, exist_ok=True)
        with (options.output / "sweep.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
        preset = json.dumps(preset_of(row), indent=2) + "\n"
        (options.output / "preset.json").write_text(preset, encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"{str(error).rstrip('.')}.", file=sys.stderr)
        return 2
    print(preset, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
