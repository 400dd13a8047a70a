"""LLaDA's reference loop: a fixed number of steps, each commits its share of the block."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from flash_dllm.acceptance import by_confidence, quota
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import ask_draft
from flash_dllm.trace import StopReason, Verdict

REMASKINGS = ("low_confidence", "random")


def random_rank(seed: int, index: int, position: int) -> float:
    """The number in 0…1 that random remasking ranks a position by in a step.

    Drawn from names instead of a stream, so that it depends neither on the batch nor on which
    other positions were asked (our choice).
    """
    return Random(f"{seed} {index} {position}").random()


@dataclass(frozen=True)
class Llada(DecodingStrategy):
    """Ask for the block, commit the surest (or random) ones, as many as the schedule says.

    A block of m positions takes S = steps / blocks steps; the i-th commits m // S tokens and one
    more while i ≤ m % S. With `window_size = block_length` and cache `none` this is `generate` of
    LLaDA's repository (arXiv 2502.09992); its temperature is `config.temperature`, except that the
    noise is drawn once per position, not once per step (docs/decisions.md, Temperature). Guidance
    (`cfg_scale`) is left out.
    """

    name: ClassVar[str] = "llada"

    steps: int | None = field(
        default=None,
        metadata={"symbol": "", "low": 1, "high": 4096,
                  "help": "steps over all blocks; none means one token a step"},
    )
    remasking: str = field(
        default="low_confidence",
        metadata={"choices": REMASKINGS, "help": "commit the surest positions, or random ones"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def check(self, config: DecodeConfig) -> None:
        blocks = config.gen_length // config.block
        if self.steps is not None and (self.steps % blocks or self.steps > config.gen_length):
            raise ValueError(
                f"steps must be a multiple of the {blocks} blocks and at most gen_length "
                f"({config.gen_length}), got {self.steps}"
            )

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        canvas, config = state.canvas, state.canvas.config
        draft = yield from ask_draft(state)
        count = draft.decidable
        ranks = draft.confidences[:count]
        if self.remasking == "random":
            ranks = [random_rank(config.seed, state.index, p) for p in draft.positions[:count]]
        ranked = by_confidence(draft.positions[:count], ranks)
        start, end = canvas.block
        steps = (self.steps or config.gen_length) * config.block // config.gen_length
        wanted = quota(end - start, steps, sum(canvas.flags[start:end]))
        chosen = [draft.proposal(i, Verdict.FORCED, rank=0) for i in ranked[:wanted]]
        left = draft.waiting([*ranked[wanted:], *range(count, len(draft.positions))])
        return Decision(tuple(chosen), StopReason.NO_SEARCH, left)
