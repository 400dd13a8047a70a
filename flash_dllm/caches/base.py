"""CachePolicy: which rows are asked in a pass, and what stays in the cache between passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.layer_plan import LayerReport
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class StepFacts:
    """What a policy learns when a step ends.

    before    the text that the step decided on
    canvas    after the commit
    accepted  positions committed in this step
    unwritten those of them whose cache entry still holds [MASK]
    mass      attention mass of the draft pass, or None if it was not asked
    was_full  whether the draft pass read every position
    layers    what each layer of the draft pass did, if it had a plan and this is no replay
    revoked   positions decided before that are masked again; their entries still hold a token
    """

    before: Canvas
    canvas: Canvas
    accepted: tuple[int, ...]
    unwritten: tuple[int, ...]
    mass: Mass | None
    was_full: bool
    layers: tuple[LayerReport, ...] = ()
    revoked: tuple[int, ...] = ()


@dataclass(frozen=True)
class CachePolicy(ABC):
    """A policy's dataclass fields are its knobs; its state per sequence is an immutable memory."""

    name: ClassVar[str]
    keeps_entries: ClassVar[bool]  # whether entries outlive the step, so promotion may pay
    # whether what is read next depends on attention, which a trace does not hold in full; if not,
    # a trace's passes are replayed exactly
    needs_mass: ClassVar[bool] = False
    # whether its draft passes have a plan: only engines that go layer by layer can answer them
    by_layer: ClassVar[bool] = False
    fits: ClassVar[frozenset[str]] = frozenset({"bidirectional"})  # kinds of attention
    # what it stands beyond drafts and verify passes: "revocation" (decided positions are masked
    # again), "branches" (states of the block side by side, exact only if a pass changes no entry
    # that a later one reads), "guidance" (the prompt as masks: entries can't be shared)
    takes: ClassVar[frozenset[str]] = frozenset()

    @property
    def promotes(self) -> bool:
        """Whether an accepted draft view's entry is copied to its position's slot."""
        return self.keeps_entries

    @property
    def mass_layers(self) -> tuple[int, int] | None:
        """First and last layer whose attention mass the policy wants, or None for all."""
        return None

    def max_copies(self, config: DecodeConfig) -> int:
        """Scratch slots that a verify pass needs beside those of its views."""
        return 0

    def branch_rows(self, config: DecodeConfig, length: int) -> int:
        """Most rows that one branch adds to a pass over `length` positions."""
        return length

    @abstractmethod
    def start(self) -> object:
        """The memory of a new sequence."""

    @abstractmethod
    def tracked(self, memory) -> tuple[int, ...]:
        """T_t: decided positions that the next draft pass re-reads, for the record."""

    @abstractmethod
    def draft(self, memory, canvas: Canvas, ask: DraftAsk, mask_token_id: int) -> Query:
        """The rows of a draft pass."""

    @abstractmethod
    def verify(
        self, memory, canvas: Canvas, ask: VerifyAsk, mask_token_id: int, mass: Mass | None
    ) -> Query:
        """The rows of a verify pass; `mass` is that of this step's draft pass."""

    @abstractmethod
    def learn(self, memory, facts: StepFacts):
        """The memory for the next step."""

    def possible(
        self,
        canvas: Canvas,
        ask: DraftAsk,
        mask_token_id: int,
        tracked: tuple[int, ...],
        is_first: bool,
    ) -> list[Query]:
        """The draft passes that can have been asked for where the memory is not known (a policy
        that needs attention, in a replay): what was tracked is known. One of each kind."""
        full = full_query(canvas, ask.window, mask_token_id)
        if is_first:
            return [full]
        read = sorted({*tracked, *ask.window})
        return [full, rows_query("draft", canvas, read, ask.window, mask_token_id)]


def full_query(canvas: Canvas, window: tuple[int, ...], mask_token_id: int) -> Query:
    """Every position as one row, predicted at the window."""
    return range_query("full", canvas, 0, window, mask_token_id)


def range_query(
    kind: str, canvas: Canvas, first: int, window: tuple[int, ...], mask_token_id: int
) -> Query:
    """Every position from `first` to the horizon as one row, predicted at the window."""
    return rows_query(kind, canvas, range(first, canvas.horizon), window, mask_token_id)


def rows_query(
    kind: str,
    canvas: Canvas,
    positions: Sequence[int],
    window: tuple[int, ...],
    mask_token_id: int,
    decided_role: Role = Role.CONTEXT,
) -> Query:
    """Each of these positions (the window among them) as one row, predicted at the window."""
    tokens = [canvas.tokens[position] for position in positions]
    roles = [int(Role.FAR if token is None else decided_role) for token in tokens]
    place = {position: row for row, position in enumerate(positions)}
    for position in window:
        roles[place[position]] = int(Role.WINDOW)
    return Query(
        kind,
        canvas.horizon,
        tokens=[mask_token_id if token is None else token for token in tokens],
        positions=list(positions),
        slots=list(positions),
        roles=roles,
        ranks=[0] * len(positions),
        predict=[place[position] for position in window],
        block_size=canvas.causal_block,
    )


def verify_query(
    canvas: Canvas,
    reread: tuple[int, ...],
    role: Role,
    ask: VerifyAsk,
    mask_token_id: int,
    writes: bool = True,
) -> Query:
    """Rows of a verify pass: re-read positions, D, draft views, mask views (docs/decisions.md).

    Only the re-read positions and D write to their own slots; all views write to scratch slots,
    so that a rejected draft never touches the cache. Shared mask views write to their positions'
    slots; the next draft pass reads those that stay undecided again, before anyone sees them.

    Without `writes` the re-read positions and D go to scratch slots as well: as copies of rank 1,
    which hide their own slots from all rows, before the searched ones, whose ranks start at 2.
    """
    reread = () if ask.is_dry else reread
    own = [*reread, *[position for position, _ in ask.decided]]
    searched = [position for position, _ in ask.searched]
    length, count = canvas.horizon, len(searched)
    first = 0 if writes else 1
    ranks = list(range(first + 1, first + count + 1))
    rank_of = dict(zip(searched, ranks, strict=True))
    viewed = ask.viewed
    rows = len(own) + count + len(viewed)
    copies = 0 if writes else len(own)
    scratch = range(length + copies, length + copies + count + len(viewed))
    mask_slots = viewed if ask.shares_masks else scratch[count:]
    if not writes:
        role = Role.TRACKED_COPY
    decided_role = Role.DECIDED if writes else Role.DECIDED_COPY
    return Query(
        "audit" if ask.is_dry else "verify",
        length,
        tokens=[
            *canvas.tokens_at(reread),
            *[token for _, token in ask.decided],
            *[draft for _, draft in ask.searched],
            *[mask_token_id] * len(viewed),
        ],
        positions=[*own, *searched, *viewed],
        slots=[*(own if writes else range(length, length + copies)), *scratch[:count],
               *mask_slots],
        roles=[
            *[int(role)] * len(reread),
            *[int(decided_role)] * len(ask.decided),
            *[int(Role.DRAFT_VIEW)] * count,
            *[int(Role.MASK_VIEW)] * len(viewed),
        ],
        ranks=[*[first] * len(own), *ranks, *map(rank_of.__getitem__, viewed)],
        predict=list(range(rows - len(viewed), rows)),
        searched={**dict.fromkeys(own[:copies], 1), **rank_of},
        block_size=canvas.causal_block,
    )


@dataclass(frozen=True)
class FrozenPrefixCache(CachePolicy):
    """A prefix is final and never read again, everything behind it is read in each pass.

    The memory is a number: how many positions, from the first on, hold their final entries. A
    policy says how far they reach, and what a verify pass reads again.
    """

    keeps_entries: ClassVar[bool] = False

    def start(self) -> int:
        return 0

    def tracked(self, memory: int) -> tuple[int, ...]:
        return ()

    def draft(self, memory: int, canvas: Canvas, ask: DraftAsk, mask_token_id: int) -> Query:
        kind = "draft" if memory else "full"
        return range_query(kind, canvas, memory, ask.window, mask_token_id)
