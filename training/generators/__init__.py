"""Procedural generators of training and evaluation items, one module a domain.

Each module has `make_item(rng) -> Item`; the same state of `rng` gives the same item. A new domain
is a new module and a word in `_NAMES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training.generators.item import Item

_NAMES = ("word", "algebra", "code", "story")


@cache
def _maker(domain: str) -> Callable[[random.Random], Item]:
    return import_module(f"training.generators.{domain}").make_item


def _on_demand(domain: str) -> Callable[[random.Random], Item]:
    """`make_item` of the domain, imported at the first call: one domain shouldn't load them all."""

    def make_item(rng: random.Random) -> Item:
        return _maker(domain)(rng)

    return make_item


DOMAINS: dict[str, Callable[[random.Random], Item]] = {name: _on_demand(name) for name in _NAMES}
