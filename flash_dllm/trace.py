"""The decision record: what the loop commits is exactly what a trace says.

Positions are absolute and 0-based (the prompt starts at 0), steps are counted from 1.
This file is standard library only: traces are read and replayed without torch.
JSON in and out lives in `trace_json.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

SCHEMA_VERSION = 1


class TraceError(ValueError):
    """A trace that can't be read, in one short sentence that starts with the place in the file.

    >>> print(TraceError("must be a whole number, got 'x'", ".steps[3].index"))
    steps[3].index: must be a whole number, got 'x'
    """

    def __init__(self, problem: str, where: str = "") -> None:
        self.problem, self.where = problem, where
        place = where.removeprefix(".")
        sentence = " ".join(f"{place}: {problem}".split() if place else problem.split())
        super().__init__(sentence if len(sentence) <= 300 else f"{sentence[:299]}…")

    def inside(self, outer: str) -> TraceError:
        """The same error seen from one level further out."""
        return TraceError(self.problem, outer + self.where)


class Verdict(StrEnum):
    """What became of one window position in one step (docs/decisions.md)."""

    CONFIDENT = "CONFIDENT"  # committed: c ≥ ε
    FORCED = "FORCED"  # committed: the surest position, although c < ε
    VERIFIED = "VERIFIED"  # committed: draft and mask view agree and c̃ ≥ γ
    CORRECTED = "CORRECTED"  # committed: the mask view's own token at the first failure (option)
    MISMATCH = "MISMATCH"  # first failure: the mask view says another token
    UNSURE = "UNSURE"  # first failure: they agree, but below γ
    AFTER_STOP = "AFTER_STOP"  # searched behind the first failure
    WAITING = "WAITING"  # in the window, not searched


COMMITTED = frozenset(
    {Verdict.CONFIDENT, Verdict.FORCED, Verdict.VERIFIED, Verdict.CORRECTED}
)


class StopReason(StrEnum):
    """Why acceptance ended in this step."""

    MISMATCH = "mismatch"
    BELOW_GAMMA = "below_gamma"
    EXHAUSTED = "exhausted"  # every searched token was accepted
    NO_SEARCH = "no_search"  # nothing was searched


@dataclass(frozen=True)
class Proposal:
    """One window position in one step; the proposals of a step stand in acceptance order.

    position           absolute
    rank               0: decided before verifying; k ≥ 1: the k-th searched; None: not searched
    draft_token        x̂, the draft pass's token
    confidence         c, its softmax probability, un-noised, rounded to 6 digits when it is made
    verify_token       x̃ of the mask view, or None when no mask view was asked
    verify_confidence  c̃, likewise
    alternatives       (token, probability) of the draft pass, likeliest first
    """

    position: int
    draft_token: int
    confidence: float
    verdict: Verdict
    rank: int | None = None
    verify_token: int | None = None
    verify_confidence: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()

    @property
    def committed_token(self) -> int | None:
        """The token that this step writes at `position`, or None."""
        if self.verdict not in COMMITTED:
            return None
        return self.verify_token if self.verdict is Verdict.CORRECTED else self.draft_token

    @property
    def has_view(self) -> bool:
        """Whether a mask view of it was asked; a chain trusts its sure drafts without."""
        return self.verify_token is not None

    @property
    def keeps_view(self) -> bool:
        """Whether the entry that its draft view wrote is that of the committed token."""
        return bool(self.rank) and self.committed_token == self.draft_token


@dataclass(frozen=True)
class PassRecord:
    """One forward pass: kind "full" (every position), "draft", "verify", or "audit" (asked for
    the record only: left out of every count).

    rows       query rows in this pass
    predicted  rows whose logits were computed
    seconds    wall time of the launch that answered it (shared by the sequences of a batch)
    route      how it ran, where there was a choice: "graph" or "eager", and the kernel that
               projected queries, keys and values, e.g. "graph, rope_cache"
    """

    kind: str
    rows: int
    predicted: int
    seconds: float = 0.0
    route: str = ""


@dataclass(frozen=True)
class StepTrace:
    """One decision.

    index           1, 2, …
    window          the undecided positions queried, left to right
    proposals       one per window position, in acceptance order
    stop            why acceptance ended
    tracked         T_t: decided positions that a draft pass re-reads (a full one reads all)
    verify_tracked  T_v: those of them re-read in the verify pass
    attention       (position, mass) of decided positions by falling attention mass of the draft
                    pass, more than the tracked ones; all keys together have mass 1
    decided_mass    mass that all decided positions hold together
    passes          the forward passes of this step; the initial one is step 1's draft
    """

    index: int
    window: tuple[int, ...]
    proposals: tuple[Proposal, ...]
    stop: StopReason
    tracked: tuple[int, ...] = ()
    verify_tracked: tuple[int, ...] = ()
    attention: tuple[tuple[int, float], ...] = ()
    decided_mass: float = 0.0
    passes: tuple[PassRecord, ...] = ()

    @property
    def counted(self) -> tuple[PassRecord, ...]:
        """The passes that decoding needed; those of an audit are left out of every count."""
        return tuple(record for record in self.passes if record.kind != "audit")

    @cached_property
    def accepted(self) -> tuple[tuple[int, int], ...]:
        """(position, token) pairs that this step commits, in acceptance order."""
        return tuple(
            (p.position, token)
            for p in self.proposals
            if (token := p.committed_token) is not None
        )


@dataclass(frozen=True)
class ModelInfo:
    """What answered: enough to name the model and to replay without it.

    shift         a row at p answers position p + shift: 0, or 1 for models with a shifted head
    causal_block  block of a block-causal model, counted from position 0; None: bidirectional
    """

    name: str
    vocab_size: int
    n_layers: int
    mask_token_id: int
    eos_token_ids: tuple[int, ...]
    fingerprint: str = ""
    impl: str = ""
    device: str = ""
    dtype: str = ""
    shift: int = 0
    causal_block: int | None = None

    @property
    def attention(self) -> str:
        """bidirectional or block-causal."""
        return "bidirectional" if self.causal_block is None else "block-causal"


@dataclass(frozen=True)
class DecodeTrace:
    """A whole run: header, settings and steps.

    prompt           what was typed
    prompt_format    how it became tokens: "chat template, 1 turn", "raw text", or "" if unknown
    prompt_token_ids the canvas before the first mask, chat template included
    token_texts      id → text of every id that occurs (bytes that are no UTF-8 as surrogates)
    strategy, cache  {"name": …, knob: value, …}
    config           the fields of DecodeConfig
    status           "finished", or "stopped" when the run was ended from outside
    """

    prompt: str
    prompt_token_ids: tuple[int, ...]
    model: ModelInfo
    strategy: dict[str, Any]
    cache: dict[str, Any]
    config: dict[str, Any]
    token_texts: dict[int, str] = field(default_factory=dict)
    steps: tuple[StepTrace, ...] = ()
    status: str = "stopped"
    prompt_format: str = ""

    @property
    def prompt_length(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def gen_length(self) -> int:
        return self.config["gen_length"]

    def with_steps(self, steps, status: str, token_texts: dict[int, str]) -> DecodeTrace:
        """The same run with these steps; `token_texts` is added to the header's."""
        return replace(
            self, steps=tuple(steps), status=status, token_texts=self.token_texts | token_texts
        )

    def canvas_at(self, steps: int) -> list[int | None]:
        """The answer positions after that many steps; None where still masked."""
        canvas: list[int | None] = [None] * self.gen_length
        for step in self.steps[:steps]:
            for position, token in step.accepted:
                canvas[position - self.prompt_length] = token
        return canvas

    @cached_property
    def decided_step(self) -> dict[int, int]:
        """position → index of the step that committed it."""
        return {pos: step.index for step in self.steps for pos, _ in step.accepted}

    @cached_property
    def answer(self) -> tuple[int, ...]:
        """The answer tokens strictly before the first end token (masks left out)."""
        answer = []
        for token in self.canvas_at(len(self.steps)):
            if token in self.model.eos_token_ids:
                break
            if token is not None:
                answer.append(token)
        return tuple(answer)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All `gen_length` ids: end tokens behind the first one, masks where still undecided."""
        eos = self.model.eos_token_ids
        ids: list[int] = []
        ended = False
        for token in self.canvas_at(len(self.steps)):
            if ended:
                ids.append(eos[0])
                continue
            ended = token in eos
            ids.append(self.model.mask_token_id if token is None else token)
        return tuple(ids)

    @property
    def tokens(self) -> int:
        """How many answer tokens stand before the first end token."""
        return len(self.answer)

    @property
    def passes(self) -> int:
        """Forward passes, the initial one and refreshes included."""
        return len(self._counted)

    @property
    def rows(self) -> int:
        """Query rows over all passes; times `model.n_layers` it is the cost measure."""
        return sum(record.rows for record in self._counted)

    @property
    def seconds(self) -> float:
        """Wall time of all passes."""
        return sum(record.seconds for record in self._counted)

    @property
    def routes(self) -> dict[str, int]:
        """How many passes ran which way, the commonest first; empty where there was no choice."""
        return dict(Counter(r.route for r in self._counted if r.route).most_common())

    @property
    def verified(self) -> int:
        """How many of `tokens` were accepted by verification."""
        end = self.prompt_length + self._answer_span
        return sum(
            p.verdict is Verdict.VERIFIED and p.position < end
            for step in self.steps
            for p in step.proposals
        )

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / len(self.steps) if self.steps else 0.0

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def text(self) -> str:
        """The answer as text."""
        return join_token_texts(self.token_texts.get(token, "") for token in self.answer)

    @property
    def _counted(self) -> list[PassRecord]:
        return [record for step in self.steps for record in step.counted]

    @property
    def _answer_span(self) -> int:
        """Answer positions before the first end token, undecided ones counted."""
        for offset, token in enumerate(self.canvas_at(len(self.steps))):
            if token in self.model.eos_token_ids:
                return offset
        return self.gen_length


def join_token_texts(texts) -> str:
    """Token texts as one string; characters that were split over tokens become whole again.

    >>> join_token_texts(["caf", "\\udcc3", "\\udca9"])
    'café'
    """
    joined = "".join(texts)
    return joined.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
