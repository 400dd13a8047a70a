"""LLaDA's reference loop: a fixed number of steps, each commits its share of the block."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from flash_dllm.acceptance import by_confidence, quota
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.drawing import MEASURES, Drawing
from flash_dllm.query import BranchAsk, DraftAsk, Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import draft_of
from flash_dllm.trace import StopReason, Verdict

REMASKINGS = ("low_confidence", "random")
ASKS = ("window", "next")


def random_rank(seed: int, position: int) -> float:
    """The number in 0…1 that random remasking ranks a position by, the higher the earlier.

    An order drawn once has the same law as numbers drawn in each step. Drawn from the position
    instead of a stream, so that it depends neither on the batch nor on what was asked.
    """
    return Random(f"{seed} {position}").random()


@dataclass(frozen=True)
class Llada(DecodingStrategy):
    """Ask for the block, commit the surest (or random) ones, as many as the schedule says.

    A block of m positions takes S = steps / blocks steps; the i-th commits m // S tokens and one
    more while i ≤ m % S. With `window_size = block_length` and cache `none` this is `generate` of
    LLaDA's repository (arXiv 2502.09992); its temperature is `config.temperature`, except that the
    noise is drawn once per position, not once per step (docs/decisions.md, Temperature).

    With `cfg_scale` s every pass reads the text twice, the second time with all tokens of the
    prompt masked, and answers u + (s + 1)(c − u) from the two logits. It needs cache `none`.

    With `measure="entropy"`, `top_p` and `top_k` it ranks and draws like Dream's
    `diffusion_generate`: confidences are then e^−H (`drawing.py`).
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

    ask: str = field(
        default="window",
        metadata={"choices": ASKS, "help": "ask about the whole window, or (random only) just "
                  "about the positions that come next"},
    )

    cfg_scale: float = field(
        default=0.0,
        metadata={"symbol": "s", "low": 0.0, "high": 100.0, "may_lack": True,
                  "help": "classifier-free guidance by a text whose prompt is masked; 0 is none"},
    )

    measure: str = field(
        default="probability",
        metadata={"choices": MEASURES, "may_lack": True,
                  "help": "what the surest is ranked by: the token's probability, or the entropy "
                  "of what it is drawn from (Dream)"},
    )

    top_p: float = field(
        default=1.0,
        metadata={"symbol": "", "low": 0.0, "high": 1.0, "may_lack": True,
                  "help": "draw among the likeliest tokens that hold this much together"},
    )

    top_k: int | None = field(
        default=None,
        metadata={"symbol": "", "low": 1, "high": 1 << 20, "may_lack": True,
                  "help": "draw among so many likeliest tokens; none means all"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.measure == "entropy" and self.remasking == "random":
            raise ValueError(
                "measure='entropy' ranks the positions and remasking='random' draws their order; "
                "leave one of them out"
            )
        if self.ask == "next" and self.remasking != "random":
            raise ValueError(
                "ask='next' needs remasking='random': only a random order is known beforehand"
            )

    def check(self, config: DecodeConfig) -> None:
        blocks = config.gen_length // config.block
        if self.steps is not None and (self.steps % blocks or self.steps > config.gen_length):
            raise ValueError(
                f"steps must be a multiple of the {blocks} blocks and at most gen_length "
                f"({config.gen_length}), got {self.steps}"
            )

    @property
    def drawing(self) -> Drawing:
        return Drawing(self.measure, self.top_p, self.top_k)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"guidance"}) if self.cfg_scale else frozenset()

    @property
    def max_branches(self) -> int:
        return 1 if self.cfg_scale else 0

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        if self.ask == "window":
            return canvas.window()
        eligible = canvas.decidable()
        ranked = by_confidence(eligible, _random_ranks(canvas, eligible))
        return tuple(sorted(eligible[i] for i in ranked[: self._quota(canvas)]))

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        canvas = state.canvas
        ask = DraftAsk(state.window)
        if self.cfg_scale:
            unconditional = BranchAsk((), state.window, masks_prompt=True)
            ask = DraftAsk(state.window, branches=(unconditional,), guidance=self.cfg_scale)
        draft = draft_of(state, (yield ask))
        count = draft.decidable
        eligible, ranks = draft.positions[:count], draft.confidences[:count]
        if self.remasking == "random":
            ranks = _random_ranks(canvas, eligible)
        ranked = by_confidence(eligible, ranks)
        wanted = self._quota(canvas)
        chosen = [draft.proposal(i, Verdict.FORCED, rank=0) for i in ranked[:wanted]]
        left = draft.waiting([*ranked[wanted:], *range(count, len(draft.positions))])
        return Decision(tuple(chosen), StopReason.NO_SEARCH, left)

    def _quota(self, canvas: Canvas) -> int:
        """How many tokens the schedule wants of the next step."""
        config = canvas.config
        start, end = canvas.block
        steps = (self.steps or config.gen_length) * config.block // config.gen_length
        return quota(end - start, steps, sum(canvas.flags[start:end]))


def _random_ranks(canvas: Canvas, positions: tuple[int, ...]) -> list[float]:
    return [random_rank(canvas.config.seed, position) for position in positions]
