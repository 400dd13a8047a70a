"""What there is by name: strategies, caches, families, presets and the paper's peers."""

from __future__ import annotations

import json
from typing import Any

from flash_dllm.caches import CACHES
from flash_dllm.models import families, guide_families
from flash_dllm.models.presets import PRESETS
from flash_dllm.peers import PEERS
from flash_dllm.strategies import STRATEGIES


def print_list(as_json: bool) -> None:
    """The shelves by name."""
    from kernels.ops import IMPLS

    shelves: dict[str, Any] = {
        "strategies": list(STRATEGIES),
        "caches": list(CACHES),
        "impls": list(IMPLS),
        "families": families(),
        "guides": guide_families(),
        "peers": {name: peer.described() for name, peer in PEERS.items()},
        "presets": {family: list(known) for family, known in PRESETS.items()},
    }
    if as_json:
        print(json.dumps(shelves))
        return
    for shelf, names in shelves.items():
        if shelf == "peers":
            for name, peer in PEERS.items():
                facts = peer.described()
                # as --set takes them
                knobs = " ".join(f"{knob}={json.dumps(v)}" for knob, v in facts["knobs"].items())
                print(
                    f"{shelf}: {name} – {peer.title} ({peer.paper}, {peer.year}): strategy "
                    f"{facts['strategy']}, cache {facts['cache']}; {knobs}"
                )
        elif isinstance(names, dict):
            for family, known in names.items():
                print(f"{shelf} of {family}: {', '.join(known)}")
        else:
            print(f"{shelf}: {', '.join(names)}")
