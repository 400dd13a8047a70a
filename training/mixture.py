"""What training may see: generated items whose specification isn't held out."""

from __future__ import annotations

import random

from training.generators import DOMAINS
from training.generators.item import Item, is_held_out


def training_item(domain: str, rng: random.Random) -> Item:
    """The next item of the domain that doesn't belong to evaluation (about 2 % are skipped)."""
    make_item = DOMAINS[domain]
    while True:
        item = make_item(rng)
        if not is_held_out(item.specification):
            return item
