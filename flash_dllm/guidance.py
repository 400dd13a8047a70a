"""What the loop asks a guide: rows of a causal model with its own cache.

A guide reads the decided text and the drafts behind it, left to right, and says how likely each
draft is. It only ever sees tokens, so what it has read stays valid until another token stands
there: its cache is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flash_dllm.canvas import Canvas
from flash_dllm.query import GuideAsk, Prediction, Query, Role
from flash_dllm.trace import GuideScore


@dataclass
class Hearing:
    """tokens: what the guide's cache holds of one sequence, from position 0 on."""

    tokens: tuple[int, ...] = ()

    def query(self, canvas: Canvas, ask: GuideAsk) -> Query:
        """The rows that answer `ask`, and note of what the cache holds after them.

        A row at p answers p + 1, so the rows end one before the last draft. The row before the
        first scored draft is read in any case; before it only what the cache does not hold.
        """
        start = ask.drafts[0][0]
        assert [p for p, _ in ask.drafts] == [*range(start, start + len(ask.drafts))]
        drafts = [token for _, token in ask.drafts]
        text = (*map(canvas.token, range(start)), *drafts)
        asked = len(text) - ask.scored
        first = min(agreeing(self.tokens, text), asked - 1)
        positions = list(range(first, len(text) - 1))
        self.tokens = text[:-1]
        return Query(
            "draft" if first else "full",
            len(text),
            tokens=list(text[first:-1]),
            positions=positions,
            slots=list(positions),
            roles=[int(Role.CONTEXT if p < start else Role.DECIDED) for p in positions],
            ranks=[0] * len(positions),
            predict=list(range(asked - 1 - first, len(positions))),
            block_size=1,
            shift=1,
            scored=drafts[-ask.scored :],
        )


def agreeing(held: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens, from the first on, are the same.

    >>> agreeing([7, 8, 9], [7, 8, 4, 9])
    2
    """
    for place, (old, new) in enumerate(zip(held, text, strict=False)):
        if old != new:
            return place
    return min(len(held), len(text))


def guide_scores(query: Query, answer: Prediction) -> list[GuideScore]:
    """The answer of a guide for the record, one entry a scored draft."""
    return [
        GuideScore(position, probability, rank, token, top)
        for position, (probability, rank), token, top in zip(
            query.targets, answer.ranked, answer.tokens, answer.confidences, strict=True
        )
    ]
