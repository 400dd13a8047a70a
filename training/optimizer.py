"""Muon for the block matrices, AdamW for the rest, and the learning-rate schedule.

`torch.optim.Muon` orthogonalises one matrix at a time: 56 matrices of this model make some 1,500
small launches a step. Here the matrices of one shape are stacked and go through Newton-Schulz
together; the arithmetic is the same (a test compares both).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalize(gradients: Tensor) -> Tensor:
    """Nearest semi-orthogonal matrices, roughly. [matrices, rows, columns] -> same, bf16.

    Source: Keller Jordan's Muon; the coefficients are those of `torch.optim.Muon`.
    """
    a, b, c = NEWTON_SCHULZ
    is_tall = gradients.shape[1] > gradients.shape[2]
    x = gradients.bfloat16()
    x = x.transpose(1, 2) if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if is_tall else x


class StackedMuon(torch.optim.Optimizer):
    """Muon with Nesterov momentum over stacks of equally shaped matrices.

    The step of a [rows, columns] matrix is lr · sqrt(max(1, rows / columns)) times the
    orthogonalised momentum ("original" in `torch.optim.Muon`).
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.05,
    ) -> None:
        shapes: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in parameters:
            shapes.setdefault(parameter.shape, []).append(parameter)
        groups: list[dict[str, Any]] = [{"params": group} for group in shapes.values()]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            parameters: list[nn.Parameter] = group["params"]
            gradients = torch.stack([parameter.grad for parameter in parameters])
            # the whole stack's momentum is kept under the group's first matrix
            state = self.state[parameters[0]]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradients)
            buffer = state["momentum_buffer"]
            buffer.lerp_(gradients, 1 - group["momentum"])
            update = orthogonalize(gradients.lerp_(buffer, group["momentum"]))
            rows, columns = parameters[0].shape
            rate = group["lr"] * math.sqrt(max(1.0, rows / columns))
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, list(update.to(gradients.dtype)), alpha=-rate)


def build_optimizers(
    model: nn.Module, muon_lr: float, adamw_lr: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """Muon on the matrices inside blocks, AdamW on embeddings, head and norms."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        (matrices if parameter.ndim == 2 and ".blocks." in name else others).append(parameter)
    on_cuda = others[0].is_cuda
    return [
        StackedMuon(matrices, lr=muon_lr, weight_decay=weight_decay),
        torch.optim.AdamW(
            others, lr=adamw_lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, fused=on_cuda
        ),
    ]


def learning_rate_factor(progress: float, step: int, warmup: int, decay_share: float) -> float:
    """Share of the full rate: linear warm-up in steps, constant, then linear to 0 in progress.

    progress   trained time over the whole plan's time, 0 … 1, over all commands
    Never exactly 0, so that an overrun still learns a little.

    >>> learning_rate_factor(0.5, 1000, 200, 0.45)
    1.0
    >>> round(learning_rate_factor(0.775, 1000, 200, 0.45), 3)
    0.5
    """
    warm = min(1.0, (step + 1) / max(1, warmup))
    decay = min(1.0, (1.0 - progress) / decay_share)
    return warm * max(decay, 0.002)
