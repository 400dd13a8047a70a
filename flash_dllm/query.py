"""The question that goes down to the model, the answer that comes up, and who sees whom.

A `Query` is a struct of arrays, one entry a row: no object per row, since rows are made on every
pass. Everything here is plain Python; `packing.py` turns queries into tensors, and its tensor
form of `sees` is tested against the one in this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import compress

from flash_dllm.layer_plan import LayerPlan, LayerReport
from flash_dllm.tracking import by_mass


class Role(IntEnum):
    """Why a row is asked."""

    CONTEXT = 0  # decided, read because the pass reads every position
    TRACKED = 1  # decided, in the tracked set T
    DECIDED = 2  # decided in this very step (D), not on the canvas yet
    WINDOW = 3  # undecided, predicted in the draft pass
    FAR = 4  # undecided, outside the window, read by a full pass
    DRAFT_VIEW = 5  # a searched position filled with its draft
    MASK_VIEW = 6  # the same position filled with [MASK], predicted in the verify pass
    PREDECESSOR = 7  # read because its row answers the next position (shifted models)
    PREDECESSOR_VIEW = 8  # a shifted model's mask view: the row before the searched position
    SHADOW = 9  # a decided position asked again with [MASK] in its own place
    BRANCH = 10  # a row of another state of the text, next to the rows of the text itself
    TRACKED_COPY = 11  # a tracked position whose fresh entry is kept for this pass only
    DECIDED_COPY = 12  # a position of D, likewise


VIEWS = frozenset(
    {Role.DRAFT_VIEW, Role.MASK_VIEW, Role.PREDECESSOR_VIEW, Role.SHADOW, Role.BRANCH,
     Role.TRACKED_COPY, Role.DECIDED_COPY}
)  # fmt: skip
# views with a token, seen by all rows from their rank on
FILLED = frozenset({Role.DRAFT_VIEW, Role.TRACKED_COPY, Role.DECIDED_COPY})


@dataclass(frozen=True)
class BranchAsk:
    """Another state of the text, asked in the same pass as the text itself.

    filled         (position, token) that this state holds more than the text
    window         undecided positions of this state that are predicted
    masks_prompt   whether every token of the prompt is replaced by [MASK]
    """

    filled: tuple[tuple[int, int], ...]
    window: tuple[int, ...]
    masks_prompt: bool = False


@dataclass(frozen=True)
class DraftAsk:
    """A strategy asks: what would you write at these undecided positions?

    shadows    decided positions that are asked too, each as if it alone were still [MASK]: how
               likely is its token given all the others?
    branches   other states of the text, which see neither one another nor the text's own rows
    guidance   s of classifier-free guidance: the one branch gives the unconditional logits u, and
               the window is answered by u + (s + 1)(c − u); 0 for none
    """

    window: tuple[int, ...]
    shadows: tuple[int, ...] = ()
    branches: tuple[BranchAsk, ...] = ()
    guidance: float = 0.0


@dataclass(frozen=True)
class VerifyAsk:
    """A strategy asks again, with drafts filled in (paper §2.3).

    decided   (position, token) of D, in draft order: seen by everybody
    searched  (position, draft) in acceptance order: the k-th mask view sees the drafts before k
    is_dry    asked for the record only: nothing may be written but scratch slots
    shares_masks  whether a mask view stands in its position's own slot, where rows of lower rank
              see it in place of the draft pass's entry, as in the authors' code: it has seen
              drafts, so later drafts reach earlier views (docs/decisions.md, Visibility)
    unviewed  searched positions that get a draft view only: they are not asked about again
    """

    decided: tuple[tuple[int, int], ...]
    searched: tuple[tuple[int, int], ...]
    is_dry: bool = False
    shares_masks: bool = False
    unviewed: tuple[int, ...] = ()

    @cached_property
    def viewed(self) -> list[int]:
        """The searched positions that get a mask view, in acceptance order."""
        without = set(self.unviewed)
        return [position for position, _ in self.searched if position not in without]


@dataclass(frozen=True)
class GuideAsk:
    """A strategy asks its guide, an autoregressive model: how likely is each of these drafts,
    given everything before it?

    drafts  (position, token) at the text's first undecided positions, left to right, no gap
    scored  how many of them, the last ones, are asked about; the others were asked before
    """

    drafts: tuple[tuple[int, int], ...]
    scored: int


@dataclass
class Query:
    """Rows of one pass for one sequence.

    kind       "full", "draft", "verify" or "audit" (a dry verify pass)
    length     positions that are visible at all; slots below it are the positions' own, slots
               from it on are scratch for the views
    block_size block of a block-causal model: a row sees no slot behind its own block; or None
    shift      a predicted row at p answers position p + shift (`shift.py`)
    tokens, positions, slots, roles, ranks   one entry a row (lists of int)
    predict    indices of the rows whose logits are wanted
    searched   slot → rank: the slot is hidden from rows of that rank and beyond (see `sees_slot`)
    replaced   row → slot that the row's own entry stands in for, and that it doesn't see
    scored     tokens whose probability is wanted at the last predicted rows, one a row
    guidance   s: the second half of the predicted rows guides the first half (see `DraftAsk`)
    wants_mass whether the attention mass of the window's rows is wanted; if so,
    decided    one byte per position, 1 where the text is decided, and
    top        how many decided positions are wanted by falling mass
    plan       which positions each layer computes, if that is decided inside the forward; None:
               every row goes through every layer
    """

    kind: str
    length: int
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    predict: list[int] = field(default_factory=list)
    searched: dict[int, int] = field(default_factory=dict)
    wants_mass: bool = False
    decided: bytes = b""
    top: int = 0
    block_size: int | None = None
    shift: int = 0
    replaced: dict[int, int] = field(default_factory=dict)
    plan: LayerPlan | None = None
    scored: list[int] = field(default_factory=list)
    guidance: float = 0.0

    def add(self, token: int, position: int, slot: int, role: Role, rank: int = 0) -> None:
        """Append one row."""
        self.tokens.append(token)
        self.positions.append(position)
        self.slots.append(slot)
        self.roles.append(role)
        self.ranks.append(rank)

    @property
    def rows(self) -> int:
        return len(self.tokens)

    @property
    def mass_rows(self) -> list[int]:
        """The predicted rows whose attention counts: the window's."""
        return self.predict[: len(self.predict) - len(self.scored)]

    @property
    def mass_count(self) -> int:
        """How many of them there are, if their mass is wanted."""
        return len(self.predict) - len(self.scored) if self.wants_mass else 0

    @property
    def answers(self) -> int:
        """How many answers come back: one per predicted row, or per guided pair of them."""
        return len(self.predict) // 2 if self.guidance else len(self.predict)

    @property
    def targets(self) -> list[int]:
        """The positions that are answered."""
        return [self.positions[row] + self.shift for row in self.predict[: self.answers]]

    def limit(self, row: int) -> int:
        """How many slots, from the first on, a row may see: all, or up to its block's end."""
        if self.block_size is None or self.roles[row] in VIEWS:
            return self.length
        return min(self.length, block_end(self.positions[row], self.block_size))


@dataclass(frozen=True)
class Mass:
    """Attention mass of a draft pass, as it is recorded: shares rounded to 6 digits, at most 1.

    values   by position; all keys together have mass 1
    ranked   the decided positions by falling mass, ties by position: the first `Query.top` of
             them, or all
    shares   theirs
    decided  what all decided positions hold together
    """

    values: Sequence[float]
    ranked: Sequence[int]
    shares: Sequence[float]
    decided: float

    @cached_property
    def top(self) -> tuple[tuple[int, float], ...]:
        """(position, share) of the ranked ones, as it is recorded."""
        return tuple(zip(self.ranked, self.shares, strict=True))

    def heaviest(self, positions: Sequence[int], count: int) -> tuple[int, ...]:
        """At most `count` of these decided positions, by falling mass, ties by position.

        >>> Mass.of([0.2, 0.4, 0.1, 0.3], bytes([1, 0, 1, 1]), top=1).heaviest([0, 2, 3], 2)
        (3, 0)
        """
        if count <= 0:
            return ()
        # nearly always found among the top ones, which are ranked already
        left = set(positions)
        found = [position for position in self.ranked if position in left][:count]
        if len(found) < min(count, len(left)):
            found += by_mass(left.difference(found), self.values)[: count - len(found)]
        return tuple(found)

    @classmethod
    def of(cls, values: Sequence[float], decided: bytes, top: int) -> Mass:
        """From plain numbers (the engine ranks with arrays).

        >>> Mass.of([0.2, 0.4, 0.1, 0.3], bytes([1, 0, 1, 1]), top=2).top
        ((3, 0.3), (0, 0.2))
        """
        positions = compress(range(len(values)), decided)
        ranked = sorted(positions, key=lambda position: (-values[position], position))
        return cls(
            values,
            ranked[:top],
            [_share(values[position]) for position in ranked[:top]],
            _share(math.fsum(values[position] for position in ranked)),
        )


def _share(mass: float) -> float:
    """Rounding errors never lift a share above 1."""
    return round(min(1.0, mass), 6)


@dataclass(frozen=True)
class Prediction:
    """What came back for one query; plain numbers after one transfer to the host.

    tokens, confidences, alternatives   one entry per answer (`Query.answers`)
    scores   probabilities of `Query.scored`, un-noised, rounded like confidences
    mass     attention mass, or None when it was not asked
    seconds  of the pass, shared by all its sequences: from its launch, or from the end of the
             pass before it if that is later, until its answers are on the host
    route    how the pass was launched and projected, for the record (see `PassRecord`)
    layers   what each layer did, if the query had a plan
    changes  per predicted row 1 − cosine of the position's token probabilities with those of the
             last draft pass (0 where it was not asked); empty where not wanted
    ranked   of a guide: (probability, rank) of each token that `Query.scored` names
    """

    tokens: list[int]
    confidences: list[float]
    alternatives: list[tuple[tuple[int, float], ...]]
    mass: Mass | None = None
    seconds: float = 0.0
    route: str = ""
    layers: tuple[LayerReport, ...] = ()
    changes: list[float] = field(default_factory=list)
    scores: tuple[float, ...] = ()
    ranked: Sequence[tuple[float, int]] = ()


def block_end(position: int, block_size: int) -> int:
    """Where the block of a position ends; a model's blocks start at position 0.

    >>> block_end(7, 4), block_end(8, 4)
    (8, 12)
    """
    return (position // block_size + 1) * block_size


def sees_slot(rank: int, searched: int) -> bool:
    """Whether a row of `rank` sees a slot (docs/decisions.md, Visibility).

    `searched` is 0 for ordinary slots, k for the slot of the k-th searched position. A row of
    rank k has drafts for the first k in place of their [MASK] entries, so it sees each position
    once.

    >>> [sees_slot(2, searched) for searched in (0, 1, 2, 3)]
    [True, False, False, True]
    """
    return searched == 0 or searched > rank


def sees_view(
    reader: Role, reader_rank: int, view: Role, view_rank: int, is_own_row: bool
) -> bool:
    """Whether a row sees a view: draft views up to its rank, all rows of its own branch (whose
    rank is the branch's number), and of mask views and shadows only its own row.

    >>> sees_view(Role.MASK_VIEW, 2, Role.DRAFT_VIEW, 2, False)
    False
    >>> sees_view(Role.DRAFT_VIEW, 2, Role.DRAFT_VIEW, 2, True)
    True
    >>> [sees_view(Role.BRANCH, 2, Role.BRANCH, number, False) for number in (1, 2, 3)]
    [False, True, False]
    """
    if view is Role.BRANCH:
        return reader is Role.BRANCH and reader_rank == view_rank
    if view not in FILLED:
        return is_own_row
    knows_own_rank = reader in FILLED or reader is Role.PREDECESSOR_VIEW
    last = reader_rank if knows_own_rank else reader_rank - 1
    return view_rank <= last


def visible_slots(query: Query, row: int) -> list[int]:
    """All slots, scratch included, that a row of the query attends to."""
    rank, role = query.ranks[row], Role(query.roles[row])
    slots = [s for s in range(query.limit(row)) if sees_slot(rank, query.searched.get(s, 0))]
    for other in range(query.rows):
        view = Role(query.roles[other])
        if view in VIEWS and sees_view(role, rank, view, query.ranks[other], other == row):
            slots.append(query.slots[other])
    return [slot for slot in slots if slot != query.replaced.get(row)]
