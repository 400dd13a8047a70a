"""A run that takes tokens back, from a model that is a hash."""

from functools import cache

from flash_dllm.caches import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.strategies import Wino
from flash_dllm.trace import DecodeTrace
from tests.hash_engine import HashEngine


@cache
def revoked_run() -> DecodeTrace:
    """24 positions in two blocks; step 4 takes one token back, which step 5 writes anew."""
    config = DecodeConfig(24, block_length=12, window_size=12)
    return decode(HashEngine(7), [1, 2, 3], Wino(0.5, 0.9), NoCache(), config)
