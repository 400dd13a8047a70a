"""Traces for the tests of the page: the toy example, a richer run, one with hostile texts."""

import time
from dataclasses import dataclass, replace
from functools import lru_cache

from flash_dllm.caches import FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.query import visible_slots
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace import DecodeTrace
from tests.hash_engine import MASK, HashEngine, HashSession

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<b>bold</b>",
    "</script><script>alert(2)</script>",
    "${7*7}",
)


class AuditEngine(HashEngine):
    """The hash engine, but a row may miss a position: audited rows of D don't see later ones."""

    def open(self, request):
        return AuditSession(self, request)


class AuditSession(HashSession):
    @staticmethod
    def seen(slots, query, row):
        text = dict(slots[slot] for slot in visible_slots(query, row))
        return tuple(text.get(position, MASK) for position in range(query.length))


@dataclass(frozen=True)
class SlowEngine(AuditEngine):
    """The hash engine with a prompt of its own and a pause (in seconds) in every answer."""

    pause: float = 0.02

    def encode(self, prompt: str) -> list[int]:
        return [1, 2, 3]

    def open(self, request):
        session = super().open(request)
        ask = session.ask

        def slow(queries):
            answers = ask(queries)

            def late():
                time.sleep(self.pause)
                return answers()

            return late

        session.ask = slow
        return session


@lru_cache
def toy() -> DecodeTrace:
    """The worked example: 3 steps, 5 passes, A A B B (docs/decisions.md)."""
    engine = toy_engine()
    return decode(
        engine,
        engine.ids("^"),
        FlashVerify(epsilon=0.9, gamma=0.8),
        FlashCache(track_size=1),
        DecodeConfig(gen_length=4, window_size=2),
        "^",
    )


@lru_cache
def rich() -> DecodeTrace:
    """An audited run of 48 positions with every kind of stop."""
    return decode(
        AuditEngine(seed=1, end_share=0),
        [1, 2, 3],
        FlashVerify(epsilon=0.9, gamma=0.5, search_size=6, audit=True),
        FlashCache(track_size=8),
        DecodeConfig(gen_length=48, window_size=16),
        "w1 w2 w3",
    )


@lru_cache
def hostile() -> DecodeTrace:
    """The rich run with token texts that would act as markup or template if they could."""
    trace = rich()
    texts = {t: HOSTILE[t % len(HOSTILE)] for t in trace.token_texts}
    return replace(trace, token_texts=texts, prompt=HOSTILE[0])
