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
    FORCED = "FORCED"  # committed: the surest although c < ε, or the first although rejected
    VERIFIED = "VERIFIED"  # committed: draft and mask view agree and c̃ ≥ γ, or the guide accepts
    CORRECTED = "CORRECTED"  # committed: the mask view's own token at the first failure (option)
    MISMATCH = "MISMATCH"  # first failure: the mask view says another token, or the guide rejects
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
    verify_token       x̃ of the mask view or the guide's own token, None when neither was asked
    verify_confidence  c̃, likewise
    alternatives       (token, probability) of the draft pass, likeliest first
    change             1 − cosine of the token probabilities with the last draft pass's, where the
                       strategy asked for it
    """

    position: int
    draft_token: int
    confidence: float
    verdict: Verdict
    rank: int | None = None
    verify_token: int | None = None
    verify_confidence: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    change: float | None = None

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
class Recheck:
    """A token of an earlier step, judged again with itself left out; the strategy may revoke it.

    position      absolute
    token         what stands there
    confidence    its probability given all the others, un-noised, rounded to 6 digits
    shadow_token  the likeliest token there
    is_revoked    whether the position is masked again when the step ends
    """

    position: int
    token: int
    confidence: float
    shadow_token: int
    is_revoked: bool


@dataclass(frozen=True)
class Branch:
    """Another state of the text, asked in the same pass.

    filled   (position, token) that it holds more than the text of this step
    answers  (position, token, confidence) of its masked positions
    is_kept  whether the text reached this state
    """

    filled: tuple[tuple[int, int], ...]
    answers: tuple[tuple[int, int, float], ...]
    is_kept: bool


@dataclass(frozen=True)
class GuideScore:
    """What an autoregressive guide says of one draft, given everything before it.

    position     absolute; the draft is the step's proposal there
    probability  of the draft's token, rounded to 6 digits
    rank         how many tokens the guide finds likelier: 0 for its own choice
    token        the guide's likeliest token
    top          its probability, likewise rounded
    """

    position: int
    probability: float
    rank: int
    token: int
    top: float


@dataclass(frozen=True)
class PassRecord:
    """One forward pass: kind "full" (every position), "draft", "verify", or "audit" (asked for
    the record only: left out of every count).

    rows       query rows in this pass
    predicted  rows whose logits were computed
    seconds    from its launch, or from the end of the pass before it if that is later, until its
               answers were on the host (shared by the sequences that it answered)
    route      how it ran, where there was a choice: "graph" or "eager", and the kernel that
               projected queries, keys and values, e.g. "graph, rope_cache"
    row_layers rows × layers: how many times a layer computed a position; 0 where not recorded
    layers     (first, last, layers): how many layers computed each position from first to last,
               both included; a position that is two rows (draft and mask view) counts twice;
               positions that are left out were not computed
    compared   how many values were computed besides, by layers that then chose their rows
    """

    kind: str
    rows: int
    predicted: int
    seconds: float = 0.0
    route: str = ""
    row_layers: int = 0
    layers: tuple[tuple[int, int, int], ...] = ()
    compared: int = 0


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
    rechecks        earlier tokens that were judged again, left to right
    branches        other states that were asked beside the text, each holding more than the last
    guide_scores    what a guide said of the drafts it was asked about, left to right
    guide_passes    the guide's passes, which are none of `passes`: it is another model
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
    rechecks: tuple[Recheck, ...] = ()
    branches: tuple[Branch, ...] = ()
    guide_scores: tuple[GuideScore, ...] = ()
    guide_passes: tuple[PassRecord, ...] = ()

    @property
    def revoked(self) -> tuple[int, ...]:
        """Positions decided earlier that are masked again when this step ends."""
        return tuple(recheck.position for recheck in self.rechecks if recheck.is_revoked)

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
        """bidirectional, block-causal, or causal (a guide: blocks of one, answering the next)."""
        if self.causal_block is None:
            return "bidirectional"
        return "causal" if self.causal_block == self.shift == 1 else "block-causal"


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
    guide            the autoregressive guide, where the strategy asked one
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
    guide: ModelInfo | None = None

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
            for position in step.revoked:
                canvas[position - self.prompt_length] = None
        return canvas

    @cached_property
    def decided_step(self) -> dict[int, int]:
        """position → index of the step that committed it for good."""
        steps: dict[int, int] = {}
        for step in self.steps:
            steps |= {position: step.index for position, _ in step.accepted}
            for position in step.revoked:
                del steps[position]
        return steps

    @property
    def revocations(self) -> int:
        """How many tokens were taken back over the whole run."""
        return sum(len(step.revoked) for step in self.steps)

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
        """Query rows over all passes."""
        return sum(record.rows for record in self._counted)

    @property
    def row_layers(self) -> int:
        """Rows × layers over all passes: the cost measure. In files that do not record it every
        row goes through every layer."""
        layers = self.model.n_layers
        return sum(record.row_layers or record.rows * layers for record in self._counted)

    @property
    def compared(self) -> int:
        """Values computed only to choose rows by, over all passes and layers."""
        return sum(record.compared for record in self._counted)

    @property
    def guide_passes(self) -> int:
        """Forward passes of the guide: 0 without one. No part of `passes`."""
        return len(self._of_guide)

    @property
    def guide_rows(self) -> int:
        """Query rows over the guide's passes; times `guide.n_layers` its own cost measure."""
        return sum(record.rows for record in self._of_guide)

    @property
    def guide_seconds(self) -> float:
        """Wall time of the guide's passes."""
        return sum(record.seconds for record in self._of_guide)

    @property
    def seconds(self) -> float:
        """Wall time of all passes, without a guide's."""
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
    def _of_guide(self) -> list[PassRecord]:
        return [record for step in self.steps for record in step.guide_passes]

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
