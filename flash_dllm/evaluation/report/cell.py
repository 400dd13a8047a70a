"""One run that a report asks for, and what it gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from flash_dllm.evaluation.report.timing import Timing


class Unmeasurable(ValueError):
    """A run that this model can't do, with the reason in one sentence."""


@dataclass(frozen=True)
class Cell:
    """One run: a task, a decoder, a batch size.

    knobs   as `from_preset` takes them: "strategy", "cache", thresholds, lengths
    preset  the settings that the knobs come on top of: a peer's name, "" for the model's own
    seed    which sample of the task's items: a decoder at temperature 0 has no other chance
    shots   worked examples in front of the question
    """

    task: str
    knobs: tuple[tuple[str, Any], ...]
    batch: int = 32
    seed: int = 0
    shots: int = 0
    preset: str = ""

    @classmethod
    def of(
        cls, task: str, batch: int = 32, seed: int = 0, shots: int = 0, preset: str = "",
        **knobs: Any,
    ) -> Cell:  # fmt: skip
        return cls(task, tuple(sorted(knobs.items())), batch, seed, shots, preset)

    def knob(self, name: str) -> Any:
        """The value of a knob; None where it is left to the preset."""
        return dict(self.knobs).get(name)


@dataclass(frozen=True)
class Measured:
    """What a run gave.

    summary   `summary.json` of the run
    details   `details.json` of the run
    verdicts  the verdict on each item by its id
    timing    speed, alone on the device; None where it was not measured
    problem   why it was not, where measuring it failed
    """

    summary: dict[str, Any]
    details: dict[str, Any]
    verdicts: dict[str, bool]
    timing: Timing | None = None
    problem: str = ""

    @property
    def accuracy(self) -> float:
        return self.summary["accuracy"]

    @property
    def speed(self) -> float | None:
        """Tokens a second, the median; None where it was not measured."""
        return None if self.timing is None else self.timing.tokens_per_second

    @property
    def tokens_per_step(self) -> float:
        return self.summary["tokens_per_step"]

    @property
    def tokens_per_pass(self) -> float:
        return self.summary["tokens_per_pass"]

    @property
    def batch(self) -> int:
        return self.details["batch_size"]


@dataclass(frozen=True)
class Attention:
    """What Figure 1 needs of a few complete traces.

    shares  most attended decided tokens → share of all attention mass, mean over steps
    steps   (mean confidence of the drafts, how many of them have c ≥ 0.9) of each step
    traces  how many runs
    """

    shares: dict[int, float]
    steps: list[tuple[float, int]]
    traces: int


class Source(Protocol):
    """Where sections get their numbers: a laboratory, or the records of one."""

    limit: int

    @property
    def noise(self) -> float:
        """As `PartTimes.noise`: how far one decoder entered twice came apart here."""

    @property
    def speeds_note(self) -> str:
        """How the speeds were measured, a line for under the table; "" without speeds."""

    def part(self, name: str) -> Source:
        """The same numbers with the speeds that were measured for one part of the report."""

    def measure(self, cell: Cell, timed: bool = True) -> Measured:
        """The cell's numbers; `timed` where its speed is shown.

        Raises Unmeasurable.
        """

    def attention(self) -> Attention:
        """For Figure 1."""


def described(cell: Cell) -> dict[str, Any]:
    """A cell as JSON holds it."""
    return {**asdict(cell), "knobs": dict(cell.knobs)}


def read_cell(content: dict[str, Any]) -> Cell:
    """A cell from `described`. Raises KeyError or TypeError for anything else."""
    known = dict(content)
    knobs = known.pop("knobs")
    return Cell(knobs=tuple(sorted(knobs.items())), **known)


def pairs(first: Measured, second: Measured) -> tuple[list[bool], list[bool]]:
    """Verdicts of both on the items that both were asked, in one order."""
    common = [name for name in first.verdicts if name in second.verdicts]
    return [first.verdicts[n] for n in common], [second.verdicts[n] for n in common]


def decoder(task: str, strategy: str, cache: str, length: int, batch: int) -> Cell:
    """A cell with the model's preset, but for strategy, cache and length."""
    return Cell.of(task, batch, strategy=strategy, cache=cache, gen_length=length)


def verify(
    task: str, length: int, batch: int, seed: int = 0, shots: int = 0, **knobs: Any
) -> Cell:
    """Flash-Verify on Flash-Cache."""
    return Cell.of(task, batch, seed, shots, strategy="flash_verify", cache="flash",
                   gen_length=length, **knobs)  # fmt: skip
