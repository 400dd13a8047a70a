"""What a run would cost, judged by the latest one of its kind."""

from __future__ import annotations

from app.controls import MAX_GEN_LENGTH
from app.said import Said, counted, said
from flash_dllm.trace import DecodeTrace


class Paces:
    """What runs of each kind took: model, strategy and cache."""

    def __init__(self) -> None:
        # kind → passes per position of the answer, seconds per pass if known
        self._paces: dict[tuple[str, str, str], tuple[float, float | None]] = {}

    def learn(self, model: str, trace: DecodeTrace, seconds: float | None = None) -> None:
        """Remember what a finished run cost; seconds only if it ran on this machine."""
        if trace.status == "finished" and trace.passes:
            kind = model, trace.strategy["name"], trace.cache["name"]
            pace = None if seconds is None else seconds / trace.passes
            self._paces[kind] = trace.passes / trace.gen_length, pace

    def guess(self, model: str, trace: DecodeTrace) -> None:
        """Learn from a recorded run, unless a run of its kind was timed here."""
        kind = model, trace.strategy["name"], trace.cache["name"]
        if self._paces.get(kind, (0, None))[1] is None:
            self.learn(model, trace)

    def estimate(self, model: str, strategy: str, cache: str, gen_length: float | None) -> Said:
        """What a run would cost, judged by the latest one of its kind."""
        kind = model, strategy, cache
        if kind not in self._paces or not gen_length or not 1 <= gen_length <= MAX_GEN_LENGTH:
            return said("cost_unknown")
        rate, pace = self._paces[kind]
        count = max(1, round(rate * gen_length))
        passes = counted(count, "pass")
        if pace is None:
            return said("cost_passes", passes=passes)
        return said("cost", passes=passes, seconds=f"{count * pace:.1f}")
