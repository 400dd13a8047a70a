"""One live sequence of the loop, and what its ended steps are recorded from.

A sequence turns its strategy's questions into rows and hands it the answers; when a step ends it
commits, and keeps what the record is made of for a quieter moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flash_dllm.caches.base import CachePolicy, StepFacts
from flash_dllm.canvas import Canvas
from flash_dllm.engine_protocol import Session
from flash_dllm.extra_rows import with_extra_rows
from flash_dllm.guidance import Hearing, guide_scores
from flash_dllm.layer_cost import query_spans, report_spans, total
from flash_dllm.query import DraftAsk, GuideAsk, Prediction, Query, Role, VerifyAsk
from flash_dllm.shift import shifted
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.trace import ModelInfo, PassRecord, StepTrace

# decided positions whose mass is recorded: more than any track_size the explorer offers
ATTENTION_RECORDED = 64


@dataclass
class LiveSequence:
    """One live sequence: its canvas, its strategy's pending question, the cache policy's memory
    and what the strategy keeps from step to step."""

    number: int
    handle: int
    canvas: Canvas
    strategy: DecodingStrategy
    cache: CachePolicy
    info: ModelInfo
    index: int = 0
    memory: object = None
    carry: object = None
    query: Query = field(init=False)
    asks_guide: bool = False  # whether `query` is for the guide
    guide_handle: int = -1
    hearing: Hearing = field(default_factory=Hearing)

    def __post_init__(self) -> None:
        self.memory, self.carry = self.cache.start(), self.strategy.start()
        self._begin()

    def _begin(self) -> None:
        """Start the strategy's next step and turn its first question into rows."""
        self.index += 1
        self._queries: list[Query] = []
        self._answers: list[Prediction] = []
        self._guided: list[tuple[Query, Prediction]] = []
        state = StepState.of(self.strategy, self.canvas, self.index, self.carry)
        self._window = state.window
        self._generator = self.strategy.step(state)
        self._set(next(self._generator))

    def _set(self, ask: Ask) -> None:
        mask_token_id = self.info.mask_token_id
        self.asks_guide = isinstance(ask, GuideAsk)
        if isinstance(ask, GuideAsk):
            self.query = self.hearing.query(self.canvas, ask)
            return
        if isinstance(ask, VerifyAsk):
            mass = self._answers[0].mass
            query = self.cache.verify(self.memory, self.canvas, ask, mask_token_id, mass)
        else:
            query = self.cache.draft(self.memory, self.canvas, ask, mask_token_id)
            query.top = max(query.top, ATTENTION_RECORDED)
        query = shifted(query, self.canvas, mask_token_id, self.info.shift)
        if isinstance(ask, DraftAsk):
            query = with_extra_rows(query, ask, self.canvas, mask_token_id)
        self.query = query

    def receive(self, prediction: Prediction, session: Session) -> EndedStep | None:
        """Hand the answer to the strategy; returns what the step's record is made of if that
        ended the step."""
        if self.asks_guide:
            self._guided.append((self.query, prediction))
        else:
            if self.canvas.config.rank_ends_last:
                prediction = _ends_last(prediction, self.info.eos_token_ids)
            self._queries.append(self.query)
            self._answers.append(prediction)
        try:
            self._set(self._generator.send(prediction))
            return None
        except StopIteration as end:
            decision: Decision = end.value
        ended = EndedStep(
            self.number,
            self.index,
            self._window,
            decision,
            self.cache.tracked(self.memory),
            self._queries,
            self._answers,
            self.info.n_layers,
            self._guided,
        )
        self._commit(decision, session)
        if not self.canvas.is_finished:
            self._begin()
        return ended

    def _commit(self, decision: Decision, session: Session) -> None:
        """Write the accepted tokens, mask the revoked ones, promote accepted draft views, choose
        the next tracked set."""
        accepted, revoked = decision.accepted, decision.revoked
        assert len(accepted) > len(revoked), "every step must decide more than it takes back"
        before, self.canvas = self.canvas, self.canvas.after(decision)
        self.carry = decision.carry
        last = self._queries[-1]
        written = set(_positions(last, Role.DECIDED))
        moves = []
        if last.kind == "verify" and self.cache.promotes:
            wanted = int(Role.DRAFT_VIEW)
            rows = zip(last.positions, last.slots, last.roles, strict=True)
            views = {position: slot for position, slot, role in rows if role == wanted}
            moves = [
                (views[p.position], p.position)
                for p in decision.judged
                if p.keeps_view and p.position in views
            ]
            session.promote(self.handle, moves)
        written.update(position for _, position in moves)
        positions = tuple(position for position, _ in accepted)
        self.memory = self.cache.learn(
            self.memory,
            StepFacts(
                before,
                self.canvas,
                positions,
                tuple(p for p in positions if p not in written),
                self._answers[0].mass,
                self._queries[0].kind == "full",
                self._answers[0].layers,
                revoked,
            ),
        )


def _ends_last(prediction: Prediction, ends: tuple[int, ...]) -> Prediction:
    """The answer with end tokens at confidence 0: they rank last, but can still be all there is.

    The alternatives keep the true probabilities. Source: LLaDA's `confidence_eos_eot_inf`, by
    intent (docs/decisions.md, End tokens).
    """
    pairs = zip(prediction.tokens, prediction.confidences, strict=True)
    return replace(prediction, confidences=[0.0 if t in ends else c for t, c in pairs])


@dataclass(frozen=True)
class EndedStep:
    """A step that was committed: what its record is made of, in a quieter moment."""

    number: int
    index: int
    window: tuple[int, ...]
    decision: Decision
    tracked: tuple[int, ...]
    queries: list[Query]
    answers: list[Prediction]
    n_layers: int
    guided: list[tuple[Query, Prediction]]

    def record(self) -> StepTrace:
        """The record. It holds the very proposals that were committed."""
        last = self.queries[-1]
        mass = self.answers[0].mass
        step = StepTrace(
            index=self.index,
            window=self.window,
            proposals=self.decision.proposals,
            stop=self.decision.stop,
            tracked=self.tracked,
            verify_tracked=(
                _positions(last, Role.TRACKED, Role.TRACKED_COPY) if last.kind == "verify" else ()
            ),
            attention=mass.top[:ATTENTION_RECORDED] if mass is not None else (),
            decided_mass=mass.decided if mass is not None else 0.0,
            passes=tuple(
                self._pass(query, answer)
                for query, answer in zip(self.queries, self.answers, strict=True)
            ),
            rechecks=self.decision.rechecks,
            branches=self.decision.branches,
            guide_scores=tuple(
                score for query, answer in self.guided for score in guide_scores(query, answer)
            ),
            guide_passes=tuple(
                PassRecord(
                    query.kind, query.rows, len(query.predict), round(answer.seconds, 6),
                    answer.route,
                )
                for query, answer in self.guided
            ),  # fmt: skip
        )
        assert step.accepted == self.decision.accepted, "only judged proposals may commit"
        return step

    def _pass(self, query: Query, answer: Prediction) -> PassRecord:
        reports = answer.layers
        spans = report_spans(reports) if reports else query_spans(query, self.n_layers)
        return PassRecord(
            query.kind,
            query.rows,
            len(query.predict),
            round(answer.seconds, 6),
            answer.route,
            total(spans),
            spans,
            sum(report.compared for report in reports),
        )


def _positions(query: Query, *roles: Role) -> tuple[int, ...]:
    """Positions of the rows with one of these roles, in row order."""
    # plain numbers: an enumeration's member compares at several times the cost
    wanted = [int(role) for role in roles]
    pairs = zip(query.positions, query.roles, strict=True)
    return tuple([position for position, role in pairs if role in wanted])
