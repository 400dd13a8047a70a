"""Several devices: each holds a share of every layer's heads and feed-forward (tensor parallel),
or decodes a share of the prompts (data parallel), or both.

torchrun starts one process a device. The processes of a tensor-parallel group make the same
decisions on the same numbers: what a layer adds to the text is summed over the group, all else is
computed by each. Source: Megatron-LM (arXiv 1909.08053), column- and row-parallel linear layers;
why not torch's module wrappers at run time: docs/decisions.md, Several devices.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from flash_dllm.models.base import ModelSpec


@dataclass(frozen=True)
class Ranks:
    """This process's place. mesh: (data, tensor) of all processes."""

    mesh: DeviceMesh
    device: torch.device

    @property
    def size(self) -> int:
        """Devices that share one model."""
        return self.mesh["tensor"].size()

    @property
    def data_rank(self) -> int:
        return self.mesh["data"].get_local_rank()

    @property
    def data_size(self) -> int:
        """Groups that decode different prompts."""
        return self.mesh["data"].size()

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return dist.get_rank() == 0

    @property
    def is_group_first(self) -> bool:
        """Whether this process speaks for the devices that share its model."""
        return self.mesh["tensor"].get_local_rank() == 0

    def shard(self, weight: Tensor, dim: int) -> Tensor:
        """This device's share of a weight, split evenly along `dim`; a copy."""
        shared = distribute_tensor(weight, self.mesh["tensor"], [Shard(dim)], src_data_rank=None)
        return shared.to_local().clone()

    def joined(self, partial: Tensor) -> Tensor:
        """The sum over the devices that share the model, on each of them; written in place."""
        dist.all_reduce(partial, group=self.mesh["tensor"].get_group())
        return partial

    def local(self, spec: ModelSpec) -> ModelSpec:
        """The spec of this device's share. Raises ValueError if heads or widths don't divide."""
        for name in ("n_heads", "n_kv_heads", "ffn_size"):
            if getattr(spec, name) % self.size:
                raise ValueError(
                    f"tensor_parallel must divide the model's {name}, {getattr(spec, name)}, got "
                    f"{self.size}"
                )
        return replace(
            spec,
            n_heads=spec.n_heads // self.size,
            n_kv_heads=spec.n_kv_heads // self.size,
            ffn_size=spec.ffn_size // self.size,
        )


def start_ranks(tensor_parallel: int, device: str = "auto") -> Ranks:
    """Join the processes that torchrun has started.

    tensor_parallel  how many of them share one model; the others decode other prompts
    device           "auto", "cuda" (one GPU a process) or "cpu"
    Raises RuntimeError outside of torchrun, ValueError if the processes can't be grouped so.
    """
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        raise RuntimeError(
            "several devices need one process each; run torchrun --nproc-per-node N -m flash_dllm …"
        )
    world = int(os.environ["WORLD_SIZE"])
    if tensor_parallel < 1 or world % tensor_parallel:
        raise ValueError(
            f"tensor_parallel must divide the {world} processes of torchrun, got {tensor_parallel}"
        )
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda with torchrun, got {device!r}")
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    place = torch.device(kind)
    if kind == "cuda":
        number = int(os.environ.get("LOCAL_RANK", "0"))
        if number >= torch.cuda.device_count():
            raise RuntimeError(
                f"torchrun started more processes here than there are GPUs "
                f"({torch.cuda.device_count()}); lower --nproc-per-node"
            )
        place = torch.device("cuda", number)
        torch.cuda.set_device(place)
    if not dist.is_initialized():
        dist.init_process_group(
            "nccl" if kind == "cuda" else "gloo", device_id=place if kind == "cuda" else None
        )
    shape = (world // tensor_parallel, tensor_parallel)
    return Ranks(init_device_mesh(kind, shape, mesh_dim_names=("data", "tensor")), place)


def stop_ranks() -> None:
    """Leave the group, so that no process is left waiting."""
    if dist.is_initialized():
        dist.destroy_process_group()


def gather(ranks: Ranks, mine: list) -> list:
    """Every data group's list, one after another, on the first process; [] on the others."""
    parts: list[list] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(parts, mine if ranks.is_group_first else [])
    return [item for part in parts for item in part] if ranks.is_first else []
