"""Where the time of a run goes: passes that admit sequences, passes that decode, everything else.

`Clocked` stands in front of an engine and reads what its passes, and those of a guide, say of
themselves. A pass counts once, however many sequences share it; its seconds end when the host has
its answers, so the device has been waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flash_dllm.caches.base import CachePolicy
from flash_dllm.engine_protocol import Engine, Guide, GuideSession, Session, SessionRequest
from flash_dllm.query import Prediction, Query
from flash_dllm.trace import ModelInfo

Asked = Sequence[tuple[int, Query]]


@dataclass
class Clock:
    """Sums over the passes of a run so far.

    prefill_seconds  passes that admit sequences (prompt and masks, once each)
    decode_seconds   all other passes
    launches         passes of the device; sequences share them
    """

    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    launches: int = 0


@dataclass
class Clocked:
    """An engine that keeps time; everything else is the engine behind it."""

    engine: Engine
    clock: Clock = field(default_factory=Clock)

    @property
    def info(self) -> ModelInfo:
        return self.engine.info

    @property
    def max_length(self) -> int:
        return self.engine.max_length

    @property
    def guide(self) -> Guide | None:
        guide = self.engine.guide
        return None if guide is None else ClockedGuide(guide, self.clock)

    def suited(self, cache: CachePolicy) -> Clocked:
        return Clocked(self.engine.suited(cache), self.clock)

    def open(self, request: SessionRequest) -> ClockedSession:
        return ClockedSession(self.engine.open(request), self.clock)

    def token_text(self, token: int) -> str:
        return self.engine.token_text(token)


@dataclass
class ClockedGuide:
    """A guide whose passes count like the model's."""

    guide: Guide
    clock: Clock

    @property
    def info(self) -> ModelInfo:
        return self.guide.info

    @property
    def max_length(self) -> int:
        return self.guide.max_length

    def open(self, request: SessionRequest) -> ClockedGuideSession:
        return ClockedGuideSession(self.guide.open(request), self.clock)


class ClockedGuideSession:
    """A guide's session that keeps time."""

    def __init__(self, session: GuideSession, clock: Clock) -> None:
        self._session, self._clock = session, clock
        self._new: set[int] = set()

    def admit(self, length: int, seed: int) -> int:
        handle = self._session.admit(length, seed)
        self._new.add(handle)
        return handle

    def ask(self, queries: Asked) -> Callable[[], list[Prediction]]:
        answers = self._session.ask(queries)

        def timed() -> list[Prediction]:
            predictions = answers()
            self._count(queries, predictions)
            return predictions

        return timed

    def _count(self, queries: Asked, predictions: Sequence[Prediction]) -> None:
        """Sequences of one pass carry the same reading; two passes never do, to the nanosecond."""
        passes: dict[float, bool] = {}
        for (handle, _), prediction in zip(queries, predictions, strict=True):
            is_first = handle in self._new
            self._new.discard(handle)
            passes[prediction.seconds] = passes.get(prediction.seconds, True) and is_first
        for seconds, is_admission in passes.items():
            self._clock.launches += 1
            if is_admission:
                self._clock.prefill_seconds += seconds
            else:
                self._clock.decode_seconds += seconds

    def release(self, handle: int) -> None:
        self._session.release(handle)

    def close(self) -> None:
        self._session.close()


class ClockedSession(ClockedGuideSession):
    """A session that keeps time."""

    def __init__(self, session: Session, clock: Clock) -> None:
        super().__init__(session, clock)
        self._whole = session

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        self._whole.promote(handle, moves)

    def groups_of(self, sequences: int) -> int:
        return self._whole.groups_of(sequences)
