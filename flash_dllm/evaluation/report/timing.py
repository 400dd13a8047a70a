"""Tokens a second of several decoders, in turn: whatever drifts, drifts for all of them.

Each decoder is decoded with until it gets no faster. Then come rounds, every decoder once in each,
forwards and backwards in turn (A B C, C B A, …), and the fastest a second time under another
number, the control: how far its two entries come apart is what the measuring itself is worth.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flash_dllm.evaluation.measurement import no_garbage_collection

# with seven rounds two equal decoders come out as different 3 times in 100, with fifteen 2 in 1000
ROUNDS, MOST_ROUNDS = 7, 15
# speeds whose 80 percentile is this much above the 20 percentile get more rounds
STEADY = 1.15
# what is faster is decoded several times in a round: clocks and hosts jitter
SAMPLE_SECONDS = 0.3
MOST_WARM_UPS, WARM_SECONDS = 8, 20.0
# a warm-up that gains less than this over the best one before it was the last
GAIN = 0.95

Decode = Callable[[], int]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Speed of one decoder, with the device to itself.

    items, tokens  of one decode; tokens are those before the first end token
    seconds        of one decode, by round; wall time, admission and traces included
    """

    items: int
    tokens: int
    seconds: tuple[float, ...]

    @property
    def speeds(self) -> list[float]:
        """Tokens a second, by round."""
        return [self.tokens / seconds for seconds in self.seconds]

    @property
    def tokens_per_second(self) -> float:
        """The median."""
        return statistics.median(self.speeds)

    @property
    def fifths(self) -> tuple[float, float]:
        """20 and 80 percentiles of the speed."""
        return fifths(self.speeds)

    @property
    def spread(self) -> float:
        """80 percentile by 20 percentile; 1.0 where all rounds are alike."""
        low, high = self.fifths
        return high / low


def fifths(values: Sequence[float]) -> tuple[float, float]:
    """20 and 80 percentiles, between neighbours where they fall there.

    >>> fifths([5, 1, 3, 2, 4, 6])
    (2.0, 5.0)
    """
    if len(values) == 1:
        return values[0], values[0]
    cuts = statistics.quantiles(values, n=5, method="inclusive")
    return cuts[0], cuts[-1]


def warmed_up(decode: Decode, clock: Clock = time.perf_counter) -> tuple[int, float]:
    """Decode until it gets no faster; (tokens of a decode, seconds of the fastest).

    The first decodes compile kernels and capture graphs.
    """
    seconds: list[float] = []
    tokens = 0
    while len(seconds) < MOST_WARM_UPS and sum(seconds) < WARM_SECONDS:
        tokens, taken = _timed(decode, clock)
        seconds.append(taken)
        if len(seconds) > 1 and taken > GAIN * min(seconds[:-1]):
            break
    return tokens, min(seconds)


def repeats_for(seconds: float) -> int:
    """How often a decode of so many seconds is done in a round.

    >>> repeats_for(0.1), repeats_for(2.0)
    (3, 1)
    """
    return max(1, round(SAMPLE_SECONDS / max(seconds, 1e-3)))


def one_round(
    decodes: Sequence[Decode], repeats: Sequence[int], clock: Clock = time.perf_counter,
    on_sample: Callable[[], object] = lambda: None,
) -> list[float]:  # fmt: skip
    """Every decoder once, in turn: seconds of one decode of each."""
    found = []
    for decode, count in zip(decodes, repeats, strict=True):
        found.append(sum(_timed(decode, clock)[1] for _ in range(count)) / count)
        on_sample()
    return found


def is_enough(rounds: Sequence[Sequence[float]]) -> bool:
    """Whether there are rounds enough, and more if their times are far apart."""
    if not ROUNDS <= len(rounds) < MOST_ROUNDS:
        return len(rounds) >= MOST_ROUNDS
    # the percentiles of times are those of speeds, the other way round
    return all(high <= STEADY * low for low, high in map(fifths, zip(*rounds, strict=True)))


def _timed(decode: Decode, clock: Clock) -> tuple[int, float]:
    with no_garbage_collection():
        started = clock()
        # answers are on the host when it returns, so the device has been waited for
        tokens = decode()
        return tokens, clock() - started
