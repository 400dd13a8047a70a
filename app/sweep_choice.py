"""What of a study is shown: the metrics and knobs of its pictures, the open point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.sweep_words import METRICS, QUALITY
from flash_dllm.evaluation.study_table import StudyTable


@dataclass(frozen=True)
class View:
    """What of a study is shown; blanks are chosen for it.

    quality, cost  the front's axes
    x, y, shown    the heatmap's knobs and its metric
    trial          number of the point whose items are listed
    """

    quality: str = ""
    cost: str = ""
    x: str = ""
    y: str = ""
    shown: str = ""
    trial: int | None = None

    def within(self, table: StudyTable) -> View:
        """The same with what this study lacks chosen anew."""
        metrics = table.metrics()
        knobs = list(table.knob_values())
        quality = _one_of(self.quality, qualities(table), metrics)
        cost = _one_of(self.cost, costs(table), [m for m in metrics if m != quality] or metrics)
        # γ reads from left to right, like the sliders
        x = _one_of(self.x, ["gamma"] if "gamma" in knobs else knobs[-1:], knobs)
        x = self.x if self.x in knobs else x
        others = [name for name in knobs if name != x]
        y = self.y if self.y in others else (others[0] if others else "")
        shown = _one_of(self.shown, [cost, quality, *metrics], metrics)
        known = {row.number for row in table.rows}
        trial = self.trial if self.trial in known else None
        return View(quality, cost, x, y, shown, trial)

    def with_choice(self, name: str, value: str) -> View:
        """The view after a click on one of the board's choices."""
        if name not in ("quality", "cost", "x", "y", "shown"):
            return self
        if name == "x" and value == self.y:
            return replace(self, x=value, y=self.x)
        if name == "y" and value == self.x:
            return replace(self, y=value, x=self.y)
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)


def qualities(table: StudyTable) -> list[str]:
    """Metrics that say how good the answers are."""
    return [name for name in table.metrics() if name in QUALITY]


def costs(table: StudyTable) -> list[str]:
    """Metrics that say what they took."""
    return [name for name in table.metrics() if name in METRICS and name not in QUALITY]


def _one_of(value: str, known: Sequence[str], otherwise: Sequence[str]) -> str:
    if value in known:
        return value
    return known[0] if known else otherwise[0] if otherwise else ""
