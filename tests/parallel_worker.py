"""What one of torchrun's processes does in tests/test_parallel.py: decode, compare, print.

`python -m torch.distributed.run --nproc-per-node N -m tests.parallel_worker SIZE FOLDER …`
"""

import json
import sys

import torch
import torch.distributed as dist

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode_batch
from flash_dllm.models import load_model
from flash_dllm.models.parallel import gather, start_ranks, stop_ranks
from flash_dllm.strategies import FlashVerify, Greedy

PROMPTS = [[1, 2, 300, 3, 700, 264, 839, 12], [6, 7, 8], list(range(20, 38))]
RUNS = [
    (Greedy(), NoCache(), DecodeConfig(gen_length=16, window_size=8)),
    (FlashVerify(0.5, 0.1), FlashCache(track_size=4), DecodeConfig(gen_length=20, window_size=8)),
]


def runs(engine) -> list:
    """Tokens, passes and rounded masses of every run: what has to be the same."""
    return [
        [
            (trace.token_ids, trace.passes, [round(step.decided_mass, 4) for step in trace.steps])
            for trace in decode_batch(engine, PROMPTS, *run, batch_size=2)
        ]
        for run in RUNS
    ]


def main() -> None:
    torch.set_num_threads(1)
    ranks = start_ranks(int(sys.argv[1]), "cpu")
    results = {}
    for folder in sys.argv[2:]:
        engine = load_model(folder, dtype="float32", ranks=ranks)
        heads = engine.model.spec.n_heads
        mine = runs(engine)
        everybody = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, mine)
        assert all(other == mine for other in everybody), "the processes decode different texts"
        results[folder] = {
            "runs": mine,
            "heads": heads,
            "device": engine.info.device,
            "qkv": list(engine.model.weights.blocks[0].qkv.shape),
        }
    results["gathered"] = gather(ranks, [ranks.data_rank])
    if ranks.is_first:
        print("RESULT" + json.dumps(results), flush=True)
    stop_ranks()


if __name__ == "__main__":
    main()
