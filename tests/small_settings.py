"""A few strategies that differ in every rule, and a cache that keeps nothing older than a step."""

from dataclasses import replace

from flash_dllm.caches import FlashCache
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace import PassRecord

STRATEGIES = [
    Greedy(),
    Confidence(epsilon=0.4),
    FlashVerify(epsilon=0.5, gamma=0.1),
    FlashVerify(epsilon=0.6, gamma=0.05, acceptance="joint", search_size=3),
    FlashVerify(epsilon=0.6, gamma=0.1, order="position", correct=True),
]
REFRESHED = FlashCache(track_size=4096, verify_rows=16384, refresh=1)


def without_rows(step):
    """A step without what a cache policy alone decides."""
    kinds = tuple(PassRecord(p.kind.replace("draft", "full"), 0, p.predicted) for p in step.passes)
    return replace(
        step, tracked=(), verify_tracked=(), attention=(), decided_mass=0.0, passes=kinds
    )
