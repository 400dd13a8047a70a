"""The rules of Flash-Verify (paper Alg. 2): order, split at ε, accepted prefix at γ.

Pure functions on plain numbers; the loop, the page's what-if and the tests all use them.
γ is the verify threshold of the paper, not the draft length of speculative decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from flash_dllm.trace import StopReason, Verdict

ORDERS = ("confidence", "position")
ACCEPTANCES = ("each", "joint")


def by_confidence(positions: Sequence[int], confidences: Sequence[float]) -> list[int]:
    """Indices of `positions` by falling confidence; ties go to the lower position.

    >>> by_confidence([4, 5, 6], [0.5, 0.9, 0.9])
    [1, 2, 0]
    """
    # tuples instead of a key: this is done for every sequence while the device waits
    falling = [-confidence for confidence in confidences]
    return [i for *_, i in sorted(zip(falling, positions, range(len(positions)), strict=True))]


def split(
    positions: Sequence[int], confidences: Sequence[float], epsilon: float
) -> tuple[list[int], list[int]]:
    """(decided, searched) as indices, each by falling confidence: c ≥ ε decides (inclusive).

    The surest one is always decided: otherwise a flat distribution would never progress, and
    the verify pass would have no evidence to start from (docs/decisions.md, Progress).

    >>> split([2, 3, 4], [0.92, 0.70, 0.90], epsilon=0.9)
    ([0, 2], [1])
    >>> split([2, 3], [0.5, 0.6], epsilon=0.9)
    ([1], [0])
    """
    ranked = by_confidence(positions, confidences)
    decided = [i for n, i in enumerate(ranked) if n == 0 or confidences[i] >= epsilon]
    return decided, ranked[len(decided) :]


def quota(size: int, steps: int, done: int) -> int:
    """How many tokens LLaDA's next step commits in a block of `size` positions and `steps` steps
    of which `done` are decided: size // steps, one more in each of the first size % steps steps.

    >>> [quota(8, 3, done) for done in (0, 3, 6)]
    [3, 3, 2]
    """
    share, longer = divmod(size, steps)
    step = 0
    while (ready := step * share + min(step, longer)) <= done:
        step += 1
    return ready - done


def leading(confidences: Sequence[float], factor: float) -> int:
    """How many of the falling confidences pass Fast-dLLM's factor rule, from the first on: the
    n-th passes with c ≥ 1 − factor / (n + 1). 0 if not even the first does.

    >>> leading([0.9, 0.7, 0.6], factor=1.0)
    2
    """
    passing = (c >= 1 - factor / (n + 1) for n, c in enumerate(confidences, 1))
    return sum(1 for _ in takewhile(bool, passing))


def search_order(
    searched: Sequence[int], positions: Sequence[int], order: str, search_size: int | None
) -> list[int]:
    """The searched indices in acceptance order, cut to `search_size`.

    The cut keeps the surest ones; `order="position"` then sorts those left to right.
    """
    kept = list(searched[:search_size])
    return kept if order == "confidence" else sorted(kept, key=lambda i: positions[i])


@dataclass(frozen=True)
class Judgement:
    """accepted: how many searched tokens are committed; verdicts: one per searched token."""

    accepted: int
    verdicts: tuple[Verdict, ...]
    stop: StopReason


def judge(
    drafts: Sequence[int],
    verified: Sequence[int],
    confidences: Sequence[float],
    gamma: float,
    acceptance: str = "each",
    correct: bool = False,
) -> Judgement:
    """Which searched tokens may be committed, from the first on.

    drafts, verified  x̂ and x̃ of the searched positions, in acceptance order
    confidences       c̃ of the mask views
    acceptance        "each": every c̃ ≥ γ (paper); "joint": running product of c̃ ≥ γ (official
                      code), so the whole block's distance bound is 1 − γ
    correct           commit the mask view's own token at the first failure if it passes γ

    Stops at the first failure: later tokens were judged given that one, so they can't be kept.

    >>> judge([7, 8, 9], [7, 8, 4], [0.9, 0.7, 0.99], gamma=0.6).accepted
    2
    >>> judge([7, 8], [7, 8], [0.9, 0.7], gamma=0.65, acceptance="joint").stop.value
    'below_gamma'
    """
    verdicts: list[Verdict] = []
    product = 1.0
    stop = StopReason.EXHAUSTED if drafts else StopReason.NO_SEARCH
    for draft, token, confidence in zip(drafts, verified, confidences, strict=True):
        if stop is not StopReason.EXHAUSTED:
            verdicts.append(Verdict.AFTER_STOP)
            continue
        product *= confidence
        passes = (product if acceptance == "joint" else confidence) >= gamma
        if draft != token:
            stop = StopReason.MISMATCH
            verdicts.append(Verdict.CORRECTED if correct and passes else Verdict.MISMATCH)
        elif not passes:
            stop = StopReason.BELOW_GAMMA
            verdicts.append(Verdict.UNSURE)
        else:
            verdicts.append(Verdict.VERIFIED)
    accepted = sum(v in (Verdict.VERIFIED, Verdict.CORRECTED) for v in verdicts)
    return Judgement(accepted, tuple(verdicts), stop)
