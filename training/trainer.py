"""The training step, its checkpoint, and the packed batch on the device."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.corruption import CorruptedBatch, PackedBatch, corrupt
from training.model import ATTENTIONS, LLaDA, ModelConfig, choose_attention
from training.optimizer import build_optimizers, learning_rate_factor
from training.stream import ARRAYS, DOMAINS, ArrayBatch, Shard

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainConfig:
    """What a run is; a second command must be given the same.

    masked_share   places for masked tokens as a share of the batch; about 0.4 are masked
    decay_share    last share of the time over which the rate falls to 0
    """

    tokens_per_step: int = 131072
    masked_share: float = 0.5
    muon_lr: float = 0.02
    adamw_lr: float = 3e-3
    weight_decay: float = 0.05
    clip: float = 1.0
    warmup: int = 200
    decay_share: float = 0.45
    seed: int = 0
    attention: str = "auto"
    compile: bool = True


def to_torch(batch: ArrayBatch, pin: bool) -> PackedBatch:
    """The batch as tensors, in pinned memory if it is to be copied while the GPU works."""
    tensors = {name: torch.from_numpy(array) for name, array in batch.__dict__.items()}
    if pin:
        tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    return PackedBatch(**tensors)


@dataclass
class StepResult:
    """Tensors of one step, on the device: reading them waits for it."""

    loss: Tensor
    losses: Tensor
    gradient_norm: Tensor
    batch: PackedBatch
    corrupted: CorruptedBatch

    def by_domain(self) -> dict[str, float]:
        """Mean loss of the masked answer tokens (no padding) of each domain, and "all"."""
        rows, weights = self.corrupted.rows, self.corrupted.weights
        segments = self.batch.segments[rows].long()
        counts = (weights > 0) & (self.batch.positions[rows] < self.batch.answer_ends[segments])
        domains = self.batch.domains[segments]
        means = {"all": self.losses[counts].mean()}
        for number, name in enumerate(DOMAINS):
            means[name] = self.losses[counts & (domains == number)].mean()
        return {name: float(mean) for name, mean in means.items()}


# what is learnt from a clean batch: `corrupt`, or `guide.next_tokens`
Objective = Callable[[PackedBatch, int, int, torch.Generator], CorruptedBatch]


class Trainer:
    """Model, optimisers, masks and progress.

    kind       the network to train: LLaDA, or its causal twin
    objective  what to learn from a clean batch
    """

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainConfig,
        device: torch.device,
        kind: type[LLaDA] = LLaDA,
        objective: Objective = corrupt,
    ) -> None:
        self.config, self.device = config, device
        on_cuda = device.type == "cuda"
        attention = config.attention
        if attention == "auto":
            attention = choose_attention(
                device, model_config.n_heads, model_config.head_dim, kind.is_causal
            )
        elif attention not in ATTENTIONS:
            raise ValueError(f"attention must be auto or one of {[*ATTENTIONS]}, got {attention}")
        dtype = torch.bfloat16 if on_cuda else torch.float32
        self.model = kind(model_config, compute_dtype=dtype, attention=attention)
        self.model.initialize(config.seed)
        self.model.to(device)
        self.optimizers = build_optimizers(
            self.model, config.muon_lr, config.adamw_lr, config.weight_decay
        )
        self.base_rates = [
            [group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers
        ]
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self.capacity = int(config.tokens_per_step * config.masked_share)
        self.step_number = 0
        # seconds spent by all earlier commands, and tokens seen
        self.earlier_seconds = 0.0
        self.tokens_seen = 0
        self.run_model: Any = self.model
        self.corrupt = objective
        if config.compile:
            self.run_model = torch.compile(self.model, dynamic=False)

    def warm_up(self, batch: PackedBatch) -> float:
        """Compile on one batch without learning from it; eager if that fails. Seconds taken."""
        started = time.monotonic()
        state = self.generator.get_state()
        chosen = self.model.attention
        attempts = [chosen, "aten"] if chosen == "varlen" else [chosen]
        for attention in attempts if self.config.compile else []:
            self.model.attention = attention
            try:
                self.forward_backward(batch.to(self.device))
                break
            # whatever the compiler raises, a slower run beats none
            except Exception as error:
                log.warning("compiling with %s failed: %s", attention, str(error)[:2000])
                self.zero_gradients()
                torch._dynamo.reset()
        else:
            log.warning("running without torch.compile")
            self.model.attention = chosen
            self.run_model = self.model
            self.forward_backward(batch.to(self.device))
        self.zero_gradients()
        self.generator.set_state(state)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - started

    def zero_gradients(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def forward_backward(self, batch: PackedBatch) -> tuple[Tensor, Tensor, CorruptedBatch]:
        corrupted = self.corrupt(
            batch, self.model.config.mask_token_id, self.capacity, self.generator
        )
        loss, losses = self.run_model(
            corrupted.tokens,
            batch.positions,
            batch.cu_seqlens,
            batch.segments,
            corrupted.rows,
            corrupted.targets,
            corrupted.weights,
        )
        loss.backward()
        return loss.detach(), losses, corrupted

    def rate(self, progress: float) -> float:
        return learning_rate_factor(
            progress, self.step_number, self.config.warmup, self.config.decay_share
        )

    def step(self, batch: PackedBatch, progress: float) -> StepResult:
        """Learn from one batch; nothing here waits for the device."""
        batch = batch.to(self.device)
        loss, losses, corrupted = self.forward_backward(batch)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        factor = self.rate(progress)
        for optimizer, rates in zip(self.optimizers, self.base_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimizer.step()
        self.zero_gradients()
        self.step_number += 1
        self.tokens_seen += self.config.tokens_per_step
        return StepResult(loss, losses, norm, batch, corrupted)

    def save(self, folder: Path, seconds: float, next_shard: int, shards: list[Shard]) -> None:
        """Everything a later command needs; whole or not at all (atomic rename)."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "generator": self.generator.get_state(),
            "step": self.step_number,
            "tokens": self.tokens_seen,
            "seconds": seconds,
            "next_shard": next_shard,
            "shards": [
                {"index": shard.index, **{name: getattr(shard, name) for name in ARRAYS}}
                for shard in shards
            ],
        }
        temporary = folder / "state.pt.partial"
        torch.save(to_tensors(state), temporary)
        os.replace(temporary, folder / "state.pt")

    def load(self, folder: Path) -> tuple[int, list[Shard]]:
        """Continue from `save`: the next shard's index, and shards to begin with."""
        state = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.generator.set_state(state["generator"].cpu())
        self.step_number, self.tokens_seen = state["step"], state["tokens"]
        self.earlier_seconds = state["seconds"]
        shards = [
            Shard(saved["index"], **{name: to_numpy(name, saved[name]) for name in ARRAYS})
            for saved in state["shards"]
        ]
        return state["next_shard"], shards


def to_tensors(value: Any) -> Any:
    """Numpy arrays inside lists and dicts as tensors (a checkpoint is loaded weights-only)."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value.astype(np.int32)))
    if isinstance(value, dict):
        return {key: to_tensors(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [to_tensors(entry) for entry in value]
    return value


def to_numpy(name: str, tensor: Tensor) -> np.ndarray:
    dtypes = {"tokens": np.uint16, "domains": np.int8}
    return tensor.numpy().astype(dtypes.get(name, np.int32))
