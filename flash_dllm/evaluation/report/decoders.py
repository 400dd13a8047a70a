"""The decoders that a report compares: this model's own settings, and every peer of the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flash_dllm.evaluation.report.cell import Cell
from flash_dllm.peers import PEERS


@dataclass(frozen=True)
class Decoder:
    """A named choice of settings: a peer's (`preset`), or knobs on top of the model's preset."""

    name: str
    title: str
    preset: str = ""
    knobs: tuple[tuple[str, Any], ...] = ()

    def cell(self, task: str, batch: int, gen_length: int) -> Cell:
        """This decoder on a task; its blocks and window stay its own."""
        return Cell.of(
            task, batch, preset=self.preset, **{**dict(self.knobs), "gen_length": gen_length}
        )


GREEDY = Decoder(
    "greedy", "one token a step, no cache", "",
    (("cache", "none"), ("strategy", "greedy")),
)  # fmt: skip
OWN = Decoder("preset", "Flash-dLLM, this model's preset")


def decoders(names: Sequence[str] = ()) -> list[Decoder]:
    """Greedy, each peer in the library's order, and the model's preset.

    names  only these and greedy, which all are compared with; none means all
    """
    peers = (Decoder(name, peer.title, name) for name, peer in PEERS.items())
    every = [*peers, OWN]
    return [GREEDY, *(decoder for decoder in every if not names or decoder.name in names)]
