"""DecodingStrategy: which tokens to commit. A strategy asks with `yield` and never loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.drawing import Drawing
from flash_dllm.query import DraftAsk, GuideAsk, Prediction, VerifyAsk
from flash_dllm.trace import Branch, ModelInfo, Proposal, Recheck, StopReason

ModelAsk = DraftAsk | VerifyAsk
Ask = ModelAsk | GuideAsk


@dataclass(frozen=True)
class StepState:
    """What a strategy may look at: the text so far, the number of the step (from 1), the positions
    it asks about, those of them that may be committed, and what its last step left it."""

    canvas: Canvas
    index: int
    window: tuple[int, ...]
    decidable: tuple[int, ...]
    carry: object = None

    @classmethod
    def of(
        cls, strategy: DecodingStrategy, canvas: Canvas, index: int, carry: object = None
    ) -> StepState:
        """The state that this strategy decides step `index` from."""
        window, decidable = strategy.window(canvas, carry), canvas.decidable()
        if window is not canvas.window():  # whose part they are
            asked = set(window)
            decidable = tuple(position for position in decidable if position in asked)
        return cls(canvas, index, window, decidable, carry)


@dataclass(frozen=True)
class Decision:
    """judged: the proposals of what was decided or searched, in acceptance order; stop: why
    acceptance ended; waiting: makes the proposals of the window's other positions.

    Those commit nothing, so they are made after the next pass was launched.

    rechecks  earlier tokens that were judged again; those revoked are masked after the commit
    branches  other states that were asked, for the record
    carry     what the next step is given as `StepState.carry`; it must follow from the answers
    """

    judged: tuple[Proposal, ...]
    stop: StopReason
    waiting: Callable[[], Iterable[Proposal]] = tuple
    rechecks: tuple[Recheck, ...] = ()
    branches: tuple[Branch, ...] = ()
    carry: object = None

    @property
    def revoked(self) -> tuple[int, ...]:
        """Positions to mask again."""
        return tuple(recheck.position for recheck in self.rechecks if recheck.is_revoked)

    @cached_property
    def proposals(self) -> tuple[Proposal, ...]:
        """One per window position."""
        return (*self.judged, *self.waiting())

    @cached_property
    def accepted(self) -> tuple[tuple[int, int], ...]:
        """The (position, token) pairs to commit, in acceptance order."""
        return tuple(
            [(p.position, token) for p in self.judged if (token := p.committed_token) is not None]
        )


@dataclass(frozen=True)
class DecodingStrategy(ABC):
    """A strategy's dataclass fields are its knobs (each with symbol, range and help)."""

    name: ClassVar[str]
    # whether it asks how far token probabilities have moved since the last draft pass
    wants_changes: ClassVar[bool] = False
    can_revoke: ClassVar[bool] = False  # whether it may take tokens of the current block back

    def start(self) -> object:
        """What the first step's `carry` is; most strategies keep nothing."""
        return None
    needs_guide: ClassVar[bool] = False  # whether it asks an autoregressive guide

    @classmethod
    def canvas(
        cls, prompt_ids: Sequence[int], config: DecodeConfig, model: ModelInfo
    ) -> Canvas:
        """The text before the first step of a run on this model, recorded or about to be."""
        return Canvas.start(
            prompt_ids, config, model.eos_token_ids, model.causal_block, cls.can_revoke
        )

    @abstractmethod
    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        """One decision: `prediction = yield ask` asks the model; the return value decides."""

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        """The undecided positions that a step asks about, left to right, never none. Most ask
        about the canvas's window; what it may not commit there, it may commit nowhere.

        carry  what the last step left (`StepState.carry`)
        """
        return canvas.window()

    def check(self, config: DecodeConfig) -> None:
        """Raise ValueError in one sentence if the knobs don't go with these lengths and rules."""
        return None

    @property
    def fits_causal(self) -> bool:
        """Whether its questions can be asked of block-causal models."""
        return self.max_branches == 0 and not self.can_revoke

    @property
    def fits_shift(self) -> bool:
        """Whether its questions can be asked of models whose row at p answers p + 1."""
        return True

    @property
    def needs(self) -> frozenset[str]:
        """What it asks of a cache beyond drafts and verify passes (`CachePolicy.takes`)."""
        return frozenset({"revocation"}) if self.can_revoke else frozenset()

    @property
    def drawing(self) -> Drawing:
        """Which tokens may be drawn for it, and what it ranks positions by."""
        return Drawing()

    def max_views(self, config: DecodeConfig) -> int:
        """Scratch slots that a pass may need, those of branches aside."""
        return 0

    @property
    def max_branches(self) -> int:
        """Most branches (`query.BranchAsk`) of one pass."""
        return 0
