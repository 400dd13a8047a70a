"""The cache policies by name, in the order in which the explorer offers them."""

from flash_dllm.caches.base import CachePolicy
from flash_dllm.caches.block import BlockCache
from flash_dllm.caches.dkv import DelayedDecodeCache, DelayedGreedyCache
from flash_dllm.caches.fast_dllm import DualCache, PrefixCache
from flash_dllm.caches.flash import FlashCache
from flash_dllm.caches.none import NoCache

CACHES: dict[str, type[CachePolicy]] = {
    kind.name: kind
    for kind in (
        FlashCache, NoCache, BlockCache, PrefixCache, DualCache, DelayedDecodeCache,
        DelayedGreedyCache,
    )
}  # fmt: skip
