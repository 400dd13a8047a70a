"""DecodingStrategy: which tokens to commit. A strategy asks with `yield` and never loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.query import DraftAsk, GuideAsk, Prediction, VerifyAsk
from flash_dllm.trace import Proposal, StopReason

ModelAsk = DraftAsk | VerifyAsk
Ask = ModelAsk | GuideAsk


@dataclass(frozen=True)
class StepState:
    """What a strategy may look at: the text so far, the number of the step (from 1), the positions
    it asks about, and those of them that may be committed."""

    canvas: Canvas
    index: int
    window: tuple[int, ...]
    decidable: tuple[int, ...]

    @classmethod
    def of(cls, strategy: DecodingStrategy, canvas: Canvas, index: int) -> StepState:
        """The state that this strategy decides step `index` from."""
        window = strategy.window(canvas)
        asked = set(window)
        decidable = tuple(position for position in canvas.decidable() if position in asked)
        return cls(canvas, index, window, decidable)


@dataclass(frozen=True)
class Decision:
    """judged: the proposals of what was decided or searched, in acceptance order; stop: why
    acceptance ended; waiting: makes the proposals of the window's other positions.

    Those commit nothing, so they are made after the next pass was launched.
    """

    judged: tuple[Proposal, ...]
    stop: StopReason
    waiting: Callable[[], Iterable[Proposal]] = tuple

    @cached_property
    def proposals(self) -> tuple[Proposal, ...]:
        """One per window position."""
        return (*self.judged, *self.waiting())

    @cached_property
    def accepted(self) -> tuple[tuple[int, int], ...]:
        """The (position, token) pairs to commit, in acceptance order."""
        return tuple(
            (p.position, token) for p in self.judged if (token := p.committed_token) is not None
        )


@dataclass(frozen=True)
class DecodingStrategy(ABC):
    """A strategy's dataclass fields are its knobs (each with symbol, range and help)."""

    name: ClassVar[str]
    needs_guide: ClassVar[bool] = False  # whether it asks an autoregressive guide

    @abstractmethod
    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        """One decision: `prediction = yield ask` asks the model; the return value decides."""

    def window(self, canvas: Canvas) -> tuple[int, ...]:
        """The undecided positions that a step asks about, left to right. Most ask about the
        canvas's window; what it may not commit there, it may commit nowhere."""
        return canvas.window()

    def check(self, config: DecodeConfig) -> None:
        """Raise ValueError in one sentence if the knobs don't go with these lengths and rules."""
        return None

    @property
    def fits_shift(self) -> bool:
        """Whether its questions can be asked of models whose row at p answers p + 1."""
        return True

    def max_views(self, window_size: int) -> int:
        """Scratch slots that a verify pass may need; 0 for strategies that never verify."""
        return 0
