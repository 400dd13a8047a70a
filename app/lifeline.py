"""The life of one answer position: its drafts, checks and rivals in every step until decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flash_dllm.trace import DecodeTrace, Proposal

CANDIDATES = 6


@dataclass(frozen=True)
class Moment:
    """One step of a position's life: what the trace holds of it there."""

    step: int
    proposal: Proposal


def lifeline(trace: DecodeTrace, offset: int) -> list[Moment]:
    """Every step in which the answer position `offset` (0 is the first generated one) was asked.

    Raises ValueError for a position outside the answer.
    """
    if not 0 <= offset < trace.gen_length:
        raise ValueError(f"position must lie between 0 and {trace.gen_length - 1}, got {offset}")
    position = trace.prompt_length + offset
    return [
        Moment(step.index, p)
        for step in trace.steps
        for p in step.proposals
        if p.position == position
    ]


def candidates(proposals: Sequence[Proposal]) -> list[int]:
    """Tokens that a position's drafts considered, by their highest probability, at most six."""
    best: dict[int, float] = {}
    for p in proposals:
        for token, probability in ((p.draft_token, p.confidence), *p.alternatives):
            best[token] = max(probability, best.get(token, 0.0))
    return sorted(best, key=lambda token: (-best[token], token))[:CANDIDATES]


def by_position(trace: DecodeTrace) -> list[list[Proposal]]:
    """Per answer position its proposals, step by step."""
    lives: list[list[Proposal]] = [[] for _ in range(trace.gen_length)]
    for step in trace.steps:
        for p in step.proposals:
            lives[p.position - trace.prompt_length].append(p)
    return lives


def telling_position(lives: Sequence[Sequence[Proposal]]) -> int:
    """The position worth showing first: most different drafts, then most checks, then steps."""

    def worth(offset: int) -> tuple[int, int, int, int]:
        life = lives[offset]
        checks = sum(p.verify_token is not None for p in life)
        return len({p.draft_token for p in life}), checks, len(life), -offset

    return max(range(len(lives)), key=worth)
