"""Tokens a second of one decoder with the device to itself, several times over."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from flash_dllm.decoder import decode_batch
from flash_dllm.evaluation.measurement import no_garbage_collection
from flash_dllm.settings import Settings

REPEATS = 3
# what is slow is steady: no more repeats once so long was spent
ENOUGH_SECONDS = 1.0


def tokens_per_second(
    engine: Any, prompts: Sequence[Sequence[int]], settings: Settings, batch: int
) -> dict[str, Any]:
    """Decode all prompts up to `REPEATS` times and give median, 20 and 80 percentiles.

    Tokens are those before the first end token; time is wall time of the whole decode, admission
    and traces included. A first decode of one batch, not counted, compiles kernels and captures
    graphs.
    """
    _decode(engine, prompts[:batch], settings, batch)
    seconds: list[float] = []
    tokens = 0
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS:
        started = time.perf_counter()
        traces = _decode(engine, prompts, settings, batch)
        seconds.append(time.perf_counter() - started)
        tokens = sum(trace.tokens for trace in traces)
    speeds = [tokens / second for second in seconds]
    # one repeat has no spread
    fifths = statistics.quantiles(speeds, n=5, method="inclusive") if len(speeds) > 1 else speeds
    return {
        "items": len(prompts),
        "repeats": len(seconds),
        "tokens": tokens,
        "seconds": [round(second, 6) for second in seconds],
        "tokens_per_second": statistics.median(speeds),
        "p20": fifths[0],
        "p80": fifths[-1],
    }


def _decode(
    engine: Any, prompts: Sequence[Sequence[int]], settings: Settings, batch: int
) -> list[Any]:
    with no_garbage_collection():
        # answers are on the host when it returns, so the device has been waited for
        return decode_batch(
            engine, prompts, settings.strategy, settings.cache, settings.config, batch
        )
