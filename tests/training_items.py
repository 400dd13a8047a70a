"""A tiny item source for tests of the trainer: worker processes import it by name."""

from __future__ import annotations

import random

from training.generators.item import Item


def make_item(domain: str, rng: random.Random) -> Item:
    first, second = rng.randrange(1, 9), rng.randrange(1, 9)
    return Item(
        domain=domain,
        family="sum",
        specification=f"{domain}/{first}+{second}",
        prompt=f"What is {first} + {second}?",
        answer=f"{first} + {second} = {first + second}\n#### {first + second}",
        gold=str(first + second),
    )
