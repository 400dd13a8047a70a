"""DecodingStrategy: which tokens to commit. A strategy asks with `yield` and never loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.query import DraftAsk, Prediction, VerifyAsk
from flash_dllm.trace import Proposal, StopReason

Ask = DraftAsk | VerifyAsk


@dataclass(frozen=True)
class StepState:
    """What a strategy may look at: the window and the part of it that may be committed."""

    window: tuple[int, ...]
    decidable: tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """proposals: one per window position, in acceptance order; stop: why acceptance ended."""

    proposals: tuple[Proposal, ...]
    stop: StopReason


@dataclass(frozen=True)
class DecodingStrategy(ABC):
    """A strategy's dataclass fields are its knobs (each with symbol, range and help)."""

    name: ClassVar[str]

    @abstractmethod
    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        """One decision: `prediction = yield ask` asks the model; the return value decides."""

    def max_views(self, window_size: int) -> int:
        """Scratch slots that a verify pass may need; 0 for strategies that never verify."""
        return 0
