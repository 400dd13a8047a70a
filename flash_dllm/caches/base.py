"""CachePolicy: which rows are asked in a pass, and what stays in the cache between passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.canvas import Canvas
from flash_dllm.query import DraftAsk, Query, Role, VerifyAsk


@dataclass(frozen=True)
class StepFacts:
    """What a policy learns when a step ends.

    canvas    after the commit
    accepted  positions committed in this step
    unwritten those of them whose cache entry still holds [MASK]
    mass      attention mass per position from the draft pass, or () if it was not asked
    was_full  whether the draft pass read every position
    """

    canvas: Canvas
    accepted: tuple[int, ...]
    unwritten: tuple[int, ...]
    mass: list[float]
    was_full: bool


@dataclass(frozen=True)
class CachePolicy(ABC):
    """A policy's dataclass fields are its knobs; its state per sequence is an immutable memory."""

    name: ClassVar[str]
    keeps_entries: ClassVar[bool]  # whether entries outlive the step, so promotion pays
    fits: ClassVar[frozenset[str]] = frozenset({"bidirectional"})  # kinds of attention

    @property
    def mass_layers(self) -> tuple[int, int] | None:
        """First and last layer whose attention mass the policy wants, or None for all."""
        return None

    @abstractmethod
    def start(self) -> object:
        """The memory of a new sequence."""

    @abstractmethod
    def tracked(self, memory) -> tuple[int, ...]:
        """T_t: decided positions that the next draft pass re-reads, for the record."""

    def reread(self, canvas: Canvas) -> tuple[int, ...]:
        """The decided positions of every verify pass, where entries don't outlive the step."""
        return canvas.decided()

    @abstractmethod
    def draft(self, memory, canvas: Canvas, ask: DraftAsk, mask_token_id: int) -> Query:
        """The rows of a draft pass."""

    @abstractmethod
    def verify(
        self, memory, canvas: Canvas, ask: VerifyAsk, mask_token_id: int, mass: list[float]
    ) -> Query:
        """The rows of a verify pass; `mass` is that of this step's draft pass."""

    @abstractmethod
    def learn(self, memory, facts: StepFacts):
        """The memory for the next step."""


def full_query(canvas: Canvas, window: tuple[int, ...], mask_token_id: int) -> Query:
    """Every position as one row, predicted at the window."""
    return range_query("full", canvas, 0, window, mask_token_id)


def range_query(
    kind: str, canvas: Canvas, first: int, window: tuple[int, ...], mask_token_id: int
) -> Query:
    """Every position from `first` to the horizon as one row, predicted at the window."""
    inside = set(window)
    query = Query(kind, canvas.horizon, block_size=canvas.causal_block)
    for position in range(first, canvas.horizon):
        token = canvas.tokens[position]
        if token is not None:
            query.add(token, position, position, Role.CONTEXT)
            continue
        if position in inside:
            query.predict.append(query.rows)
        role = Role.WINDOW if position in inside else Role.FAR
        query.add(mask_token_id, position, position, role)
    return query


def verify_query(
    canvas: Canvas,
    reread: tuple[int, ...],
    role: Role,
    ask: VerifyAsk,
    mask_token_id: int,
) -> Query:
    """Rows of a verify pass: re-read positions, D, draft views, mask views (docs/decisions.md).

    Only the re-read positions and D write to their own slots; all views write to scratch slots,
    so that a rejected draft never touches the cache.
    """
    kind = "audit" if ask.is_dry else "verify"
    query = Query(kind, canvas.horizon, block_size=canvas.causal_block)
    for position in () if ask.is_dry else reread:
        query.add(canvas.token(position), position, position, role)
    for position, token in ask.decided:
        query.add(token, position, position, Role.DECIDED)
    scratch = canvas.horizon
    for rank, (position, draft) in enumerate(ask.searched, 1):
        query.searched[position] = rank
        query.add(draft, position, scratch, Role.DRAFT_VIEW, rank)
        scratch += 1
    for rank, (position, _) in enumerate(ask.searched, 1):
        query.predict.append(query.rows)
        query.add(mask_token_id, position, scratch, Role.MASK_VIEW, rank)
        scratch += 1
    return query
