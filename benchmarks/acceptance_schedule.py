"""A model engine whose answers are overwritten, so that a fixed number of tokens is accepted.

Random weights have no meaningful confidences. The passes are real and so is the loop: packing,
kernels, the transfer, strategy, cache policy, trace. Only the numbers that come back are replaced
by ones that make the strategy accept what the schedule says.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from flash_dllm.engine import ModelEngine
from flash_dllm.engine_protocol import Session, SessionRequest
from flash_dllm.query import Prediction, Query, Role
from flash_dllm.trace import ModelInfo

SURE, AGREED = 0.95, 0.9  # above every ε and γ used here
FILLER = 1000  # a token that ends nothing


@dataclass(frozen=True)
class Schedule:
    """drafted, verified: accepted tokens of successive steps, repeated; decide: how many of the
    window's leftmost positions may be committed."""

    drafted: tuple[int, ...]
    verified: tuple[int, ...]
    decide: int

    @property
    def tokens_per_step(self) -> float:
        drafted, verified = self.drafted, self.verified or (0,)
        return sum(drafted) / len(drafted) + sum(verified) / len(verified)


# the paper's averages: 2.8 tokens by confidence, 2.9 more by verification
DRAFTED = (3, 3, 3, 3, 2)
VERIFIED = (3, 3, 3, 3, 3, 3, 3, 3, 3, 2)


@dataclass(frozen=True)
class ScheduledEngine:
    """Delegates to a real engine, whose predictions are replaced."""

    inner: ModelEngine
    schedule: Schedule

    @property
    def info(self) -> ModelInfo:
        return self.inner.info

    @property
    def max_length(self) -> int:
        return self.inner.max_length

    def token_text(self, token: int) -> str:
        return self.inner.token_text(token)

    def open(self, request: SessionRequest) -> ScheduledSession:
        return ScheduledSession(self.inner.open(request), self.schedule)


class ScheduledSession:
    """One schedule for each sequence; all start at its first entry."""

    def __init__(self, inner: Session, schedule: Schedule) -> None:
        self._inner = inner
        self._schedule = schedule
        self._drafted: dict[int, Iterator[int]] = {}
        self._verified: dict[int, Iterator[int]] = {}
        self._random = random.Random(0)

    def admit(self, length: int, seed: int) -> int:
        handle = self._inner.admit(length, seed)
        self._drafted[handle] = itertools.cycle(self._schedule.drafted)
        self._verified[handle] = itertools.cycle(self._schedule.verified or (0,))
        return handle

    def release(self, handle: int) -> None:
        self._inner.release(handle)

    def close(self) -> None:
        self._inner.close()

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        self._inner.promote(handle, moves)

    def groups_of(self, sequences: int) -> int:
        return self._inner.groups_of(sequences)

    def ask(self, queries: Sequence[tuple[int, Query]]) -> Callable[[], list[Prediction]]:
        answers = self._inner.ask(queries)
        return lambda: [
            self._verify(handle, query, answer)
            if query.kind == "verify"
            else self._draft(handle, answer)
            for (handle, query), answer in zip(queries, answers(), strict=True)
        ]

    def _draft(self, handle: int, answer: Prediction) -> Prediction:
        """So many of the decidable positions are sure, scattered as in real decoding."""
        rows = len(answer.tokens)
        confidences = [0.1 + 0.5 / (row + 1) for row in range(rows)]
        decidable = range(min(rows, self._schedule.decide))
        wanted = min(next(self._drafted[handle]), len(decidable))
        for row in self._random.sample(decidable, wanted):
            confidences[row] = SURE
        return replace(answer, tokens=[FILLER] * rows, confidences=confidences)

    def _verify(self, handle: int, query: Query, answer: Prediction) -> Prediction:
        """The first so many mask views agree, the next one does not."""
        tokens = [
            token
            for token, role in zip(query.tokens, query.roles, strict=True)
            if role == Role.DRAFT_VIEW
        ]
        wanted = next(self._verified[handle])
        if wanted < len(tokens):
            tokens[wanted] += 1
        return replace(answer, tokens=tokens, confidences=[AGREED] * len(tokens))
