"""A strategy decides on recorded answers: a trace answers what it asks, and no model."""

from __future__ import annotations

from dataclasses import replace

from flash_dllm.query import DraftAsk, GuideAsk, Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.trace import Proposal, StepTrace, TraceError

View = tuple[int, float]


def redecide(
    strategy: DecodingStrategy, state: StepState, step: StepTrace, absent: View | None = None
) -> tuple[Decision, list[Ask]]:
    """What a strategy decides on the recorded answers of a step, and what it asked for.

    absent  the answer for a mask view that was not recorded; without it that is a TraceError
    """
    recorded = {proposal.position: proposal for proposal in step.proposals}
    asks: list[Ask] = []
    generator = strategy.step(state)
    try:
        ask = next(generator)
        while True:
            asks.append(ask)
            if isinstance(ask, DraftAsk):
                drafts = [recorded[position] for position in ask.window]
                answer = _drafts(drafts, strategy.wants_changes)
                answer = _with_extra_answers(answer, ask, step)
            elif isinstance(ask, GuideAsk):
                answer = _guide([position for position, _ in ask.drafts[-ask.scored :]], step)
            else:
                answer = _views([recorded[position] for position in ask.viewed], absent)
            ask = generator.send(answer)
    except StopIteration as end:
        return end.value, asks


def _drafts(proposals: list[Proposal], wants_changes: bool) -> Prediction:
    """The recorded answers to a draft question."""
    changes = [p.change for p in proposals if p.change is not None] if wants_changes else []
    if wants_changes and len(changes) < len(proposals):
        raise TraceError("must say of each draft how far it has changed", ".proposals")
    return Prediction(
        [proposal.draft_token for proposal in proposals],
        [proposal.confidence for proposal in proposals],
        [proposal.alternatives for proposal in proposals],
        changes=changes,
    )


def _with_extra_answers(drafts: Prediction, ask: DraftAsk, step: StepTrace) -> Prediction:
    """The drafts, and the recorded answers of the shadows and branches of this question."""
    if tuple(recheck.position for recheck in step.rechecks) != ask.shadows:
        raise TraceError("must hold what was decided in this block, left to right", ".rechecks")
    if not ask.guidance:
        asked = tuple((branch.filled, branch.window) for branch in ask.branches)
        recorded = tuple(
            (branch.filled, tuple(position for position, *_ in branch.answers))
            for branch in step.branches
        )
        if recorded != asked:
            raise TraceError("must hold the states that the last step expected", ".branches")
    if not step.rechecks and not step.branches:
        return drafts
    answers = [answer for branch in step.branches for answer in branch.answers]
    others = len(step.rechecks) + len(answers)
    return replace(
        drafts,
        tokens=[
            *drafts.tokens,
            *(recheck.shadow_token for recheck in step.rechecks),
            *(token for _, token, _ in answers),
        ],
        confidences=[
            *drafts.confidences,
            # a shadow's own choice is recorded without how sure it is
            *[0.0] * len(step.rechecks),
            *(confidence for *_, confidence in answers),
        ],
        alternatives=[*drafts.alternatives, *[()] * others],
        scores=tuple(recheck.confidence for recheck in step.rechecks),
    )


def _guide(positions: list[int], step: StepTrace) -> Prediction:
    """The recorded answers of the guide."""
    recorded = {score.position: score for score in step.guide_scores}
    for position in positions:
        if position not in recorded:
            raise TraceError(f"must hold the guide's score of position {position}", ".guide_scores")
    scores = [recorded[position] for position in positions]
    return Prediction(
        [score.token for score in scores],
        [score.top for score in scores],
        [()] * len(scores),
        ranked=[(score.probability, score.rank) for score in scores],
    )


def _views(proposals: list[Proposal], absent: View | None) -> Prediction:
    """The recorded answers of the mask views."""
    tokens, confidences = [], []
    for proposal in proposals:
        token, confidence = proposal.verify_token, proposal.verify_confidence
        if token is None or confidence is None:
            if absent is None:
                raise TraceError(
                    f"must hold the mask view of position {proposal.position}", ".proposals"
                )
            token, confidence = absent
        tokens.append(token)
        confidences.append(confidence)
    return Prediction(tokens, confidences, [()] * len(tokens))
