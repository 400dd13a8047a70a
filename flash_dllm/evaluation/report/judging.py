"""Claims about speeds of which some are missing or too alike: true, false, or undecided (None).

What is too alike the measuring itself says: how far apart speeds of the same settings came out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from flash_dllm.evaluation.report.cell import Measured


def noise_of(runs: Iterable[Measured]) -> tuple[int, float]:
    """How many settings were timed more than once, and the largest ratio of two such speeds.

    Tables ask for some decoders by two names (a preset, and its knobs spelt out), which is what
    repeats a timing. The ratio is 1.0 where nothing was.
    """
    speeds: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.timing is not None and "settings" in run.summary:
            settings = json.dumps(run.summary["settings"], sort_keys=True)
            speeds[settings].append(run.timing["tokens_per_second"])
    ratios = [max(found) / min(found) for found in speeds.values() if len(found) > 1]
    return len(ratios), max(ratios, default=1.0)


def is_above_one(ratio: float | None, noise: float) -> bool | None:
    """Whether a ratio of speeds is above 1; None if it is missing or within the noise.

    >>> [is_above_one(ratio, 1.5) for ratio in (1.6, 1.4, 0.7, 0.6, None)]
    [True, None, None, False, None]
    """
    if ratio is None or 1 / noise < ratio <= noise:
        return None
    return ratio > 1


def is_faster(run: Measured, other: Measured, noise: float) -> bool | None:
    """None if one of them has no speed, or both are within the noise."""
    return is_above_one(times(run, other), noise)


def every(verdicts: Sequence[bool | None]) -> bool | None:
    """One counterexample refutes; without one, what is missing leaves it open.

    >>> every([True, None, False]), every([True, None]), every([True, True])
    (False, None, True)
    """
    if any(verdict is False for verdict in verdicts):
        return False
    return None if any(verdict is None for verdict in verdicts) else True


def times(run: Measured, other: Measured) -> float | None:
    """How many times as fast a run is; None where that can't be said.

    Raises AssertionError for runs of two batch sizes: their ratio would say nothing of a decoder.
    """
    assert run.batch == other.batch, "no ratio across batch sizes"
    if run.speed is None or not other.speed:
        return None
    return run.speed / other.speed


def counted(verdicts: Sequence[bool | None], of_what: str) -> str:
    """How often it is so.

    >>> counted([True, None, False], "rows")
    '1 of 3 rows, 1 undecided'
    """
    words = f"{sum(verdict is True for verdict in verdicts)} of {len(verdicts)} {of_what}"
    unknown = sum(verdict is None for verdict in verdicts)
    return f"{words}, {unknown} undecided" if unknown else words
