"""Habits: free choices of an answer, of which one is usual for the subject at hand.

Equally frequent wordings would leave every first word a toss-up, and no draft of it would pass a
verify threshold above 1/n. In real text one wording is common and the others are rarer; which one
is common depends on what is being said. Our choice, see docs/decisions.md.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

# how often the usual option is taken outright; otherwise any of them, the usual one too
USUAL_SHARE = 0.6


def usual(rng: random.Random, options: Sequence[T], subject: str) -> T:
    """One of the options; the subject decides, for good, which of them is the usual one.

    >>> from collections import Counter
    >>> rng = random.Random(0)
    >>> counts = Counter(usual(rng, "abcd", "sums") for _ in range(1000))
    >>> [share for _, share in counts.most_common(1)][0] > 650
    True
    """
    draw = rng.random()
    if draw < USUAL_SHARE:
        return options[crc32(subject.encode()) % len(options)]
    return options[int((draw - USUAL_SHARE) / (1 - USUAL_SHARE) * len(options))]
