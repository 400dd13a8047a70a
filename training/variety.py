"""How much free choice the generated answers hold: a proxy for tokens per step, without a GPU.

python -m training.variety --items 3000

For each domain it prints
    tokens   mean answer tokens (assets/tiny/tokenizer.json, without special tokens)
    events   mean number of choice events in an answer, given its question
    bits     the sum of the entropies of all such draws
    xz       bits per token of the answers as a whole, compressed with xz

A choice event is a random draw that can change the answer but not the question, when every draw
at another place of the program keeps its value. We replay the item with the draw at `GRID` evenly
spaced values; outcomes with another question or specification are left aside, and the rest is one
event if no answer has more than `LARGEST` of them (a model that is surer than that commits it at
once). Bits are entropies, rarer choices included. A draw that is
only made under another choice counts as often as that choice is taken. Choices that a question
shows, such as names or numbers, don't count.
"""

from __future__ import annotations

import argparse
import lzma
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tokenizers import Tokenizer

from training.generators import DOMAINS
from training.generators.item import Item

GRID = 20
LARGEST = 0.9
_TOKENIZER = Path(__file__).parents[1] / "assets" / "tiny" / "tokenizer.json"
_GENERATORS = str(Path(__file__).parent / "generators")
# calls that a draw's place in the program is made of: deep enough for `pick` inside `step`
_DEPTH = 6

Place = tuple[object, ...]


class ReplayRandom(random.Random):
    """Gives each place of the program its own stream; one draw may be forced.

    places   every draw of one item in order: its place and its number there
    """

    def __init__(self, values: dict[Place, float], source: random.Random) -> None:
        super().__init__(0)
        self._values, self._source = values, source
        self._counts: Counter[Place] = Counter()
        self.forced: tuple[Place, float] | None = None
        self.places: list[Place] = []

    def random(self) -> float:
        frame: FrameType | None = sys._getframe(1)
        parts: list[tuple[object, int]] = []
        while frame is not None and len(parts) < _DEPTH:
            code = frame.f_code
            if code.co_filename.startswith(_GENERATORS):
                parts.append((code, frame.f_lineno))
            frame = frame.f_back
        site = tuple(parts)
        place = (site, self._counts[site])
        self._counts[site] += 1
        self.places.append(place)
        if self.forced is not None and place == self.forced[0]:
            return self.forced[1]
        if place not in self._values:
            self._values[place] = self._source.random()
        return self._values[place]


def _replay(
    make_item: Callable[[random.Random], Item],
    values: dict[Place, float],
    source: random.Random,
    forced: tuple[Place, float] | None,
) -> tuple[Item, list[Place]]:
    rng = ReplayRandom(values, source)
    rng.forced = forced
    return make_item(rng), rng.places


def choices(make_item: Callable[[random.Random], Item], seed: object) -> list[tuple[bool, float]]:
    """The draws that change one item's answer: whether each is an event, and its bits."""
    source = random.Random(str(seed))
    values: dict[Place, float] = {}
    item, places = _replay(make_item, values, source, None)
    asked = (item.specification, item.prompt)
    events = []
    for place in dict.fromkeys(places):
        answers: Counter[str] = Counter()
        for number in range(GRID):
            # most draws belong to the question: four values far apart tell
            position = (number * 7 + 3) % GRID
            forced = (place, (position + 0.5) / GRID)
            other, _ = _replay(make_item, values, source, forced)
            if (other.specification, other.prompt) == asked:
                answers[other.answer] += 1
            if number == 3 and answers.total() <= 1:
                break
        total = answers.total()
        bits = -sum(n / total * math.log2(n / total) for n in answers.values()) if total else 0.0
        if bits > 0:
            events.append((max(answers.values()) <= LARGEST * total, bits))
    return events


def main() -> None:
    """Print one line a domain."""
    parser = argparse.ArgumentParser(description="measure the free choices of generated answers")
    parser.add_argument("--items", type=int, default=3000, help="for tokens and xz")
    parser.add_argument("--replayed", type=int, default=60, help="items whose events are counted")
    parser.add_argument("--domains", nargs="+", choices=sorted(DOMAINS), default=sorted(DOMAINS))
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(_TOKENIZER))
    for domain in arguments.domains:
        rng = random.Random(f"variety/{domain}")
        answers = [DOMAINS[domain](rng).answer for _ in range(arguments.items)]
        tokens = sum(len(e.ids) for e in tokenizer.encode_batch(answers, add_special_tokens=False))
        size = len(lzma.compress("\n\n".join(answers).encode(), preset=9)) * 8
        replayed = [choices(DOMAINS[domain], seed) for seed in range(arguments.replayed)]
        events = sum(is_event for draws in replayed for is_event, _ in draws) / len(replayed)
        bits = sum(bits for draws in replayed for _, bits in draws) / len(replayed)
        print(
            f"{domain}: tokens {tokens / len(answers):.1f}, events {events:.1f}, "
            f"bits {bits:.1f}, xz {size / tokens:.2f} bits/token",
            flush=True,
        )


if __name__ == "__main__":
    main()
