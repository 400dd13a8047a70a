"""Write the held-out evaluation items of each domain.

python -m training.held_out --output assets/tasks

A second draw of other held-out items, to choose settings on without looking at the first:

python -m training.held_out --output FOLDER --seed 1 --exclude assets/tasks
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from dataclasses import asdict
from itertools import count as count_up
from pathlib import Path
from typing import Any

from training.generators import DOMAINS
from training.generators.item import Item, is_held_out

ITEMS_PER_DOMAIN = 256
SEED = 20_261_129
# about 2 % of all items are held out: enough draws for a rare family, and an end for an empty one
DRAWS_PER_ITEM = 500
# so many where there are still fewer items than asked for: of the code domain's many thousand
# held-out specifications the likely ones turn up again and again
MOST_DRAWS_PER_ITEM = 3_000


def held_out_items(
    domain: str, count: int, seed: int = SEED, excluded: frozenset[str] = frozenset()
) -> list[Item]:
    """`count` held-out items with distinct prompts and specifications, families balanced.

    excluded   specifications that another draw has taken

    Families take turns; one that has fewer held-out specifications than its share leaves the rest
    to the others.

    Raises     RuntimeError if too few distinct held-out specifications turn up.
    """
    rng = random.Random(f"{domain}/{seed}")
    make_item = DOMAINS[domain]
    by_family: dict[str, list[Item]] = defaultdict(list)
    families_seen: set[str] = set()
    prompts: set[str] = set()
    specifications: set[str] = set(excluded)
    for draw in range(1, count * MOST_DRAWS_PER_ITEM + 1):
        item = make_item(rng)
        families_seen.add(item.family)
        is_repeated = item.prompt in prompts or item.specification in specifications
        if not is_repeated and is_held_out(item.specification):
            prompts.add(item.prompt)
            specifications.add(item.specification)
            by_family[item.family].append(item)
        # a family with few specifications may never reach its share: then the draws run out
        if draw % 1_000 == 0 or draw == count * DRAWS_PER_ITEM:
            share = -(-count // len(families_seen))
            has_shares = all(len(by_family[family]) >= share for family in families_seen)
            is_enough = sum(map(len, by_family.values())) >= count
            if has_shares or (is_enough and draw >= count * DRAWS_PER_ITEM):
                break
    found = sum(map(len, by_family.values()))
    if found < count:
        raise RuntimeError(
            f"only {found} of {count} distinct held-out specifications in domain {domain!r}; "
            "widen its generator or ask for fewer items"
        )
    return _take_turns(by_family, count)


def _take_turns(by_family: dict[str, list[Item]], count: int) -> list[Item]:
    """The first items of each family in turn, until there are `count`."""
    chosen: list[Item] = []
    for turn in count_up():
        for family in sorted(by_family):
            if turn < len(by_family[family]):
                chosen.append(by_family[family][turn])
            if len(chosen) == count:
                return chosen
    raise AssertionError("unreachable: count_up never ends")


def _row(item: Item) -> dict[str, Any]:
    """The item as a line; own items have no stub."""
    return {key: value for key, value in asdict(item).items() if key != "stub"}


def main() -> None:
    """Write `<domain>.jsonl` for every domain."""
    parser = argparse.ArgumentParser(description="write the held-out evaluation items")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=ITEMS_PER_DOMAIN)
    parser.add_argument("--domains", nargs="+", choices=sorted(DOMAINS), default=sorted(DOMAINS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--exclude", type=Path, help="folder of an earlier draw")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for domain in arguments.domains:
        excluded: frozenset[str] = frozenset()
        if arguments.exclude:
            lines = (arguments.exclude / f"{domain}.jsonl").read_text().splitlines()
            excluded = frozenset(json.loads(line)["specification"] for line in lines)
        items = held_out_items(domain, arguments.count, arguments.seed, excluded)
        path = arguments.output / f"{domain}.jsonl"
        path.write_text("".join(json.dumps(_row(item)) + "\n" for item in items))
        print(f"{path}: {len(items)} items, {len({item.family for item in items})} families")


if __name__ == "__main__":
    main()
