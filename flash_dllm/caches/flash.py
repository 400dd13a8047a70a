"""Flash-Cache's policy: re-read only the window and a small tracked set (paper §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, full_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk
from flash_dllm.tracking import cosine, next_tracked


@dataclass(frozen=True)
class FlashMemory:
    """tracked: T_t; mass: of the last step, by position; since_full: tokens committed since the
    last full pass; is_due: whether the next draft pass must be a full one."""

    tracked: tuple[int, ...] = ()
    mass: Sequence[float] = ()
    since_full: int = 0
    is_due: bool = True


@dataclass(frozen=True)
class FlashCache(CachePolicy):
    """Window + tracked set against a cache that is otherwise left as it is.

    refresh: "init" fills the cache once; a number n reads everything again after n committed
    tokens; "drift" does so when the tracked tokens' attention turns (cosine below
    `drift_threshold`).
    """

    name: ClassVar[str] = "flash"
    keeps_entries: ClassVar[bool] = True
    needs_mass: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({"revocation"})

    track_size: int = field(
        default=32,
        metadata={"symbol": "β_t", "low": 0, "high": 4096, "help": "decided tokens re-read"},
    )
    verify_rows: int | None = field(
        default=None,
        metadata={"symbol": "", "low": 1, "high": 16384,
                  "help": "row budget of the verify pass; none means 2 × decide_size"},
    )
    refresh: str | int = field(
        default="init",
        metadata={"symbol": "", "low": 1, "high": 4096, "choices": ("init", "drift"),
                  "help": "when to read every position again: init, drift, or every n tokens"},
    )
    drift_threshold: float = field(
        default=0.9,
        metadata={"symbol": "", "low": 0.0, "high": 1.0, "help": "for refresh=drift"},
    )
    track_layers: tuple[int, int] | None = field(
        default=None,
        metadata={"help": "first and last layer whose attention is averaged; none means all"},
    )

    verify_first: str = field(
        default="mass",
        metadata={"choices": ("mass", "recent"), "may_lack": True,
                  "help": "which tracked tokens the verify pass reads again where its rows do not "
                  "suffice: those with most mass, or the last decided ones (as in the authors' "
                  "code)"},
    )

    verify_writes: bool = field(
        default=True,
        metadata={"may_lack": True, "help": "keep what the verify pass computes of decided tokens; "
                  "off as in the authors' code: the next draft pass reads them again"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.track_layers is not None:
            layers = self.track_layers
            is_pair = isinstance(layers, (tuple, list)) and [type(n) for n in layers] == [int, int]
            if not is_pair or not 0 <= layers[0] <= layers[1]:
                raise ValueError(f"track_layers must be two rising layer numbers, got {layers!r}")
            object.__setattr__(self, "track_layers", tuple(layers))  # JSON gives a list

    @property
    def promotes(self) -> bool:
        return self.verify_writes

    def max_copies(self, config: DecodeConfig) -> int:
        if self.verify_writes:
            return 0
        return (self.verify_rows or 2 * config.decide) + config.decide

    @property
    def mass_layers(self) -> tuple[int, int] | None:
        return self.track_layers

    def start(self) -> FlashMemory:
        return FlashMemory()

    def tracked(self, memory: FlashMemory) -> tuple[int, ...]:
        return memory.tracked

    def draft(
        self, memory: FlashMemory, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        if memory.is_due:
            query = full_query(canvas, ask.window, mask_token_id)
        else:
            tracked = sorted(memory.tracked)
            positions = [*tracked, *ask.window]
            first, count = len(tracked), len(ask.window)
            query = Query(
                "draft",
                canvas.length,
                tokens=[*canvas.tokens_at(tracked), *[mask_token_id] * count],
                positions=positions,
                slots=list(positions),
                roles=[*[int(Role.TRACKED)] * first, *[int(Role.WINDOW)] * count],
                ranks=[0] * len(positions),
                predict=list(range(first, len(positions))),
            )
        query.wants_mass = True
        query.decided = canvas.flags
        query.top = self.track_size
        return query

    def verify(
        self,
        memory: FlashMemory,
        canvas: Canvas,
        ask: VerifyAsk,
        mask_token_id: int,
        mass: Mass | None,
    ) -> Query:
        assert mass is not None, "this policy asks every draft pass for its mass"
        budget = self.verify_rows or 2 * canvas.config.decide
        room = budget - len(ask.decided) - len(ask.searched) - len(ask.viewed)
        tracked = memory.tracked
        if self.refresh == 1:
            # every draft pass is a full one and has just measured everybody, also in step 1:
            # T is chosen by it, so that refreshing every step is the same as no cache
            tracked = next_tracked(mass.ranked, (), (), mass.values, self.track_size)
        # tracked tokens stand by preference: the last decided ones, then those with most mass
        if self.verify_first == "mass":
            reread = mass.heaviest(tracked, room)
        else:
            reread = tracked[: max(0, room)]
        writes = self.verify_writes or ask.is_dry
        return verify_query(canvas, reread, Role.TRACKED, ask, mask_token_id, writes)

    def learn(self, memory: FlashMemory, facts: StepFacts) -> FlashMemory:
        assert facts.mass is not None, "this policy asks every draft pass for its mass"
        mass = facts.mass.values
        # of the positions that were decided before, those with most mass are enough, by mass
        known = facts.mass.ranked
        if facts.revoked:
            gone = set(facts.revoked)
            known = [position for position in known if position not in gone]
        tracked = next_tracked(known, facts.accepted, facts.unwritten, mass, self.track_size)
        since_full = (0 if facts.was_full else memory.since_full) + len(facts.accepted)
        is_due = False
        if isinstance(self.refresh, int):
            is_due = since_full >= self.refresh
        elif self.refresh == "drift" and len(memory.mass) and memory.tracked:
            now = [mass[position] for position in memory.tracked]
            before = [memory.mass[position] for position in memory.tracked]
            is_due = cosine(now, before) < self.drift_threshold
        return FlashMemory(tracked, mass, since_full, is_due)
