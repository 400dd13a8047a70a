"""The rule that decides which specifications are held out; the item itself is the library's."""

from __future__ import annotations

import hashlib

from flash_dllm.evaluation.item import Item

__all__ = ["HELD_OUT_PERCENT", "Item", "is_held_out"]

HELD_OUT_PERCENT = 2


def is_held_out(specification: str) -> bool:
    """Whether a specification belongs to evaluation (about 2 % do); stable across machines.

    >>> is_held_out("word/chain/3+4")
    False
    """
    digest = hashlib.sha256(specification.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT
