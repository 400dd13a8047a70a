"""What a session computes in: cache, pass buffers and CUDA graphs, kept for the next session."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flash_dllm.cache import FlatKVCache
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.graphs import PassGraphs
from flash_dllm.memory import check_gpu, pass_bytes, slot_bytes
from flash_dllm.models.transformer import Transformer
from flash_dllm.packing import PassBuffer
from flash_dllm.pass_sizes import PassSizes, bucket, sequence_bucket
from flash_dllm.transfer import Transfer

# rows of the largest pass that is padded and captured
GRAPH_ROWS = 8192
# a full pass reads so many rows at once (one sequence at least): two of LLaDA's at 1024 + 512.
# More would cost memory and gain no speed
FULL_ROWS = 4096
# a small cache is made larger, so that the next session fits into it; a large one is exact
ROOMY_BYTES = 1 << 30
ROOMY_SLOTS = 256


@dataclass
class Workspace:
    """cache: the flat cache; free: buffer of passes of any size; fixed: of padded passes (None
    without graphs); graphs: likewise."""

    cache: FlatKVCache
    free: PassBuffer
    fixed: PassBuffer | None
    graphs: PassGraphs | None
    request: SessionRequest
    _flying: list[Transfer] = field(default_factory=list)
    _resting: list[Transfer] = field(default_factory=list)

    @classmethod
    def make(cls, model: Transformer, request: SessionRequest, has_graphs: bool) -> Workspace:
        """Allocate everything that a session needs. Raises RuntimeError if it does not fit."""
        spec = model.spec
        slots = request.max_length + request.max_views
        roomy = -(-slots // ROOMY_SLOTS) * ROOMY_SLOTS
        itemsize = model.dtype.itemsize
        if has_graphs and request.sequences * roomy * slot_bytes(spec, itemsize) <= ROOMY_BYTES:
            slots = roomy
        rows = min(request.sequences * slots, FULL_ROWS)
        parts = {
            "cache": request.sequences * slots * slot_bytes(spec, itemsize),
            "passes": pass_bytes(spec, rows, rows // 4, itemsize),
        }
        if request.by_layer:
            # both branches of every layer and position (`layerwise.py`)
            features = 2 * spec.n_layers * request.max_length * spec.d_model * itemsize
            parts["features"] = request.sequences * features
        check_gpu(
            f"decoding {request.sequences} sequences of {request.max_length} positions",
            parts, model.device, "decode fewer at once, or shorter ones",
        )  # fmt: skip
        cache = FlatKVCache(
            request.sequences, slots, spec.n_layers, spec.n_kv_heads, spec.head_dim,
            model.dtype, model.device,
        )  # fmt: skip
        group, is_dense = spec.n_heads // spec.n_kv_heads, model.impl == "torch"
        fixed = graphs = None
        if has_graphs:
            room = PassSizes(
                rows=GRAPH_ROWS,
                predicted=GRAPH_ROWS,
                sequences=sequence_bucket(request.sequences),
                width=bucket(slots),
                keys=cache.table.shape[1],
                mass=bucket(slots),
                has_views=True,
            )
            fixed = PassBuffer(model.device, group, is_dense, room)
            graphs = PassGraphs(model.device)
        return cls(cache, PassBuffer(model.device, group, is_dense), fixed, graphs, request)

    def fits(self, request: SessionRequest) -> bool:
        """Whether another session's passes may run here, with the same graphs."""
        own = self.request
        return (
            request.sequences <= own.sequences
            and request.max_length + request.max_views <= self.cache.table.shape[1]
            and request.mass_layers == own.mass_layers
        )

    @property
    def replays(self) -> int:
        """How many passes were replayed so far."""
        return 0 if self.graphs is None else self.graphs.replays

    @property
    def is_busy(self) -> bool:
        """Whether a pass is on its way."""
        return bool(self._flying)

    def depart(self) -> Transfer:
        """A pass begins; what comes back brings its result to the host."""
        transfer = self._resting.pop() if self._resting else Transfer(self.cache.keys.device)
        transfer.depart()
        self._flying.append(transfer)
        return transfer

    def arrive(self, transfer: Transfer) -> tuple[np.ndarray, float]:
        """Wait for a pass: (its numbers, to be read before the next one begins; the device's
        seconds)."""
        found = transfer.finish()
        self._flying.remove(transfer)
        self._resting.append(transfer)
        return found

    def settle(self) -> None:
        """Wait for passes that nobody waits for, before their buffers are used again."""
        for transfer in self._flying:
            transfer.settle()
        self._resting += self._flying
        self._flying.clear()
