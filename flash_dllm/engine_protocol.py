"""What the loop needs of whoever answers its queries: the model engine, or a script.

The loop knows no tensor. `engine.py` answers with a network; `scripted.py` from a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flash_dllm.caches.base import CachePolicy
from flash_dllm.drawing import Drawing
from flash_dllm.query import Prediction, Query
from flash_dllm.trace import ModelInfo


@dataclass(frozen=True)
class SessionRequest:
    """How much room a session needs and what its passes must deliver.

    sequences     how many live at once
    max_length    positions of the longest
    max_views     scratch slots of one sequence
    temperature   for the Gumbel noise; 0 means none
    alternatives  runner-up tokens per draft row
    mass_layers   first and last layer of the attention mass, or None for all
    by_layer      whether queries come with plans (`layer_plan.py`)
    wants_changes whether draft answers say how far the token probabilities have moved
    drawing       which tokens may be drawn, and what a confidence is
    """

    sequences: int
    max_length: int
    max_views: int = 0
    temperature: float = 0.0
    alternatives: int = 5
    mass_layers: tuple[int, int] | None = None
    by_layer: bool = False
    wants_changes: bool = False
    drawing: Drawing = Drawing()


class Session(Protocol):
    """A flat cache with room for a number of sequences, and the sequences that live in it."""

    def admit(self, length: int, seed: int) -> int:
        """Give a sequence of `length` positions its slots; returns its handle."""

    def groups_of(self, sequences: int) -> int:
        """In how many groups so many sequences are best asked, each with passes of its own: 1, or
        2 if the host's work for one is better done while the device computes the other."""

    def ask(self, queries: Sequence[tuple[int, Query]]) -> Callable[[], list[Prediction]]:
        """Start one forward pass over the rows of all (handle, query) pairs.

        What comes back waits for its answers. It must be called once. Others may be asked before
        that, but not the same sequences; answers are fetched in the order of asking.
        """

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        """Copy cache entries (from scratch slot, to position's slot): accepted draft views."""

    def release(self, handle: int) -> None:
        """Give a sequence's slots back."""

    def close(self) -> None:
        """Give the cache back; the session answers nothing any more."""


class GuideSession(Protocol):
    """A guide's flat cache and the sequences that live in it."""

    def admit(self, length: int, seed: int) -> int:
        """Give a sequence of `length` positions its slots; returns its handle."""

    def ask(self, queries: Sequence[tuple[int, Query]]) -> Callable[[], list[Prediction]]:
        """Answer all (handle, query) pairs in one forward pass, which the call that comes back
        waits for, as in `Session.ask`. Each answer has the guide's own tokens and the scores of
        `Query.scored`."""

    def release(self, handle: int) -> None:
        """Give a sequence's slots back."""

    def close(self) -> None:
        """Give the cache back; the session answers nothing any more."""


class Guide(Protocol):
    """An autoregressive model that shares the vocabulary of the one that it guides."""

    @property
    def info(self) -> ModelInfo:
        """Name, sizes and special ids."""

    @property
    def max_length(self) -> int:
        """Most positions (prompt and answer) that a sequence may have."""

    def open(self, request: SessionRequest) -> GuideSession:
        """Allocate the flat cache."""


class Engine(Protocol):
    """A loaded model."""

    @property
    def info(self) -> ModelInfo:
        """Name, sizes and special ids."""

    @property
    def max_length(self) -> int:
        """Most positions (prompt and answer) that a sequence may have."""

    @property
    def guide(self) -> Guide | None:
        """The autoregressive guide of strategies that ask one, or None if there is none."""

    def suited(self, cache: CachePolicy) -> Engine:
        """The engine to decode with this cache: itself, or the same model computed otherwise
        where its implementation can't follow the cache. `info` says how."""

    def open(self, request: SessionRequest) -> Session:
        """Allocate the flat cache. Raises ValueError for a request that it can't serve."""

    def token_text(self, token: int) -> str:
        """The token as text (bytes that are no UTF-8 alone as surrogates); "" if unknown."""
