"""Sections as plain data: what a page shows, without a word of HTML or Plotly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flash_dllm.evaluation.report.judging import Judged

# the paper's generation lengths 256 and 512 are these here
LENGTHS = (64, 128)
BATCHES = (1, 2, 4, 8, 16, 32)
SEEDS = 5


@dataclass(frozen=True)
class Scope:
    """How much of a report is made.

    tasks    Table 1's rows; the first one is the other parts' task
    batch    of every part but Table 6 and the embedded model's table
    batches  of Table 6; the smallest and the largest also of the embedded model's table
    seeds    of Table 4
    decoders names of the decoders in the table of every decoder; none means all
    """

    tasks: Sequence[str]
    batch: int = 32
    batches: Sequence[int] = BATCHES
    seeds: int = SEEDS
    decoders: Sequence[str] = ()


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and whether it holds here, with the numbers.

    holds  open where a run that would decide it was not measured, or speeds are too alike
    """

    text: str
    holds: Judged
    because: str


@dataclass(frozen=True)
class Curve:
    """Points of a figure: (x, y, label)."""

    name: str
    points: Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class Picture:
    """A figure as plain data."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Section:
    """One table or figure: heading, sentences, a table of strings, pictures, claims.

    note  one line under the table
    """

    title: str
    text: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[Picture] = ()
    claims: Sequence[Claim] = ()
    paper: Sequence[str] = field(default_factory=tuple)
    note: str = ""
