"""The door: one function per operation, checks, `impl`. Nobody else chooses an implementation.

`impl="torch"` is `reference.py`. `impl="triton"` imports its kernel file inside the branch and is
never answered by another implementation. Tolerances of a kernel stand here, beside its operation.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import torch
from torch import Tensor

from kernels import experts as expert_reference
from kernels import reference, routes
from kernels.experts import Experts
from kernels.reference import HeadNorms
from kernels.scaled import ScaledWeight, Weight, scaled_product
from kernels.schedule import Schedule

IMPLS = ("torch", "triton")
# attention and its mass: error against fp64, in multiples of plain torch's in the same dtype
ATTENTION_TOLERANCE = 2.0


def tolerated_error(torch_error: float, truth_norm: float, dtype: torch.dtype) -> float:
    """How far ‖kernel - truth‖ may go, the truth taken in fp64: twice plain torch's in this dtype.

    Never less than one rounding of everything, as torch may be right by luck on a few numbers; in
    fp32 four, as a GPU's quick exponential and reciprocal root are good to that.
    """
    roundings = 4 if dtype == torch.float32 else 1
    return max(2 * torch_error, roundings * torch.finfo(dtype).eps * truth_norm)


def available_impls(device: str) -> tuple[str, ...]:
    """The implementations that can run on a device type ("cpu", "cuda", "mps").

    Triton needs Linux, its package and a GPU of compute capability 7.5 or more; its interpreter
    (TRITON_INTERPRET=1, for tests) also runs on the CPU.
    """
    return IMPLS if _why_no_triton(device) is None else ("torch",)


def _why_no_triton(device: str) -> str | None:
    """Why impl="triton" can't run on this device type, or None if it can. Imports nothing."""
    if sys.platform != "linux":
        return "needs Linux"
    if importlib.util.find_spec("triton") is None:
        return "needs the package triton"
    if device == "cpu" and _is_interpreted():
        return None
    if device != "cuda" or not torch.cuda.is_available():
        return "needs a CUDA device"
    capability = torch.cuda.get_device_capability()
    if capability < (7, 5):
        return f"needs compute capability 7.5 or more, and this GPU has {capability}"
    return None


def _is_interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter; the variable is Triton's own."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def resolve_impl(impl: str, device: str) -> str:
    """The concrete implementation for "auto", "torch" or "triton" on this device.

    Raises ValueError for an unknown name, RuntimeError for one that can't run here. Called once,
    when a model is loaded; the answer goes into the trace.
    """
    if impl not in ("auto", *IMPLS):
        raise ValueError(f"impl must be one of auto, {', '.join(IMPLS)}, got {impl!r}")
    if impl == "torch":
        return impl
    reason = _why_no_triton(device)
    if impl == "auto":  # the interpreter is for tests, nobody's first choice
        return "triton" if reason is None and device == "cuda" else "torch"
    if reason is not None:
        raise RuntimeError(f"impl='triton' {reason}; use impl='torch' on this machine")
    return impl


def rms_norm(hidden: Tensor, weight: Tensor, eps: float, impl: str) -> Tensor:
    """See `reference.rms_norm`."""
    _check_norm("rms_norm", hidden, weight)
    match impl:
        case "torch":
            return reference.rms_norm(hidden, weight, eps)
        case "triton":
            from kernels import rms_norm as kernel

            return kernel.rms_norm(hidden, weight, eps)
    raise _no_kernel("rms_norm", impl)


def add_rms_norm(
    hidden: Tensor,
    branch: Tensor,
    weight: Tensor,
    eps: float,
    impl: str,
    rows: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `reference.add_rms_norm`."""
    _check_norm("add_rms_norm", hidden, weight)
    if hidden.ndim != 2 or branch.ndim not in (2, 3) or branch.shape[-2:] != hidden.shape:
        raise ValueError(
            f"add_rms_norm: branch {tuple(branch.shape)} does not fit hidden {tuple(hidden.shape)}"
        )
    match impl:
        case "torch":
            return reference.add_rms_norm(hidden, branch, weight, eps, rows)
        case "triton":
            from kernels import rms_norm as kernel

            return kernel.add_rms_norm(hidden, branch, weight, eps, rows)
    raise _no_kernel("add_rms_norm", impl)


def project_and_cache(
    hidden: Tensor,
    weight: Weight,
    bias: Tensor | None,
    head_norms: HeadNorms | None,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    n_heads: int,
    impl: str,
    route: str = "auto",
) -> Tensor:
    """See `reference.project_and_cache`; writes `key_cache` and `value_cache` in place.

    `route` chooses between the two ways of impl="triton"; what "auto" runs says
    `routes.qkv_route`.
    """
    n_kv_heads, head_dim = key_cache.shape[1:]
    expected = ((n_heads + 2 * n_kv_heads) * head_dim, hidden.shape[1])
    if tuple(weight.shape) != expected or not len(slots) == len(positions) == len(hidden):
        raise ValueError(
            f"project_and_cache: weight must be {expected}, positions and slots {len(hidden)} "
            f"long, got {tuple(weight.shape)}, {len(positions)} and {len(slots)}"
        )
    match impl:
        case "torch":
            return reference.project_and_cache(
                hidden, weight, bias, head_norms, cos, sin, positions, slots,
                key_cache, value_cache, n_heads,
            )
        case "triton":
            rest = (bias, head_norms, cos, sin, positions, slots, key_cache, value_cache, n_heads)
            is_scaled = isinstance(weight, ScaledWeight)
            way = routes.qkv_route(len(hidden), head_dim, hidden.device, route, is_scaled)
            if way == routes.FUSED_QKV and isinstance(weight, Tensor):
                from kernels.fused_qkv import fused_qkv

                return fused_qkv(hidden, weight, *rest)
            from kernels.rope_cache import rope_cache

            qkv = linear(hidden, weight, impl)
            return rope_cache(qkv, *rest)
    raise _no_kernel("project_and_cache", impl)


def scheduled_attention(
    q: Tensor, key_cache: Tensor, value_cache: Tensor, schedule: Schedule, impl: str
) -> tuple[Tensor, Tensor]:
    """See `reference.scheduled_attention`."""
    if q.shape[1] % key_cache.shape[1] or q.shape[2] != key_cache.shape[2]:
        raise ValueError(
            f"scheduled_attention: queries {tuple(q.shape)} do not fit keys "
            f"{tuple(key_cache.shape)}"
        )
    match impl:
        case "torch":
            return reference.scheduled_attention(q, key_cache, value_cache, schedule)
        case "triton":
            from kernels import scheduled_attention as kernel

            return kernel.scheduled_attention(q, key_cache, value_cache, schedule)
    raise _no_kernel("scheduled_attention", impl)


def attention_mass(
    q: Tensor, lse: Tensor, key_cache: Tensor, schedule: Schedule, impl: str
) -> Tensor:
    """See `reference.attention_mass`."""
    match impl:
        case "torch":
            return reference.attention_mass(q, lse, key_cache, schedule)
        case "triton":
            from kernels import attention_mass as kernel

            return kernel.attention_mass(q, lse, key_cache, schedule)
    raise _no_kernel("attention_mass", impl)


def add_attention_mass(
    q: Tensor, lse: Tensor, key_cache: Tensor, schedule: Schedule, total: Tensor, impl: str
) -> None:
    """See `reference.add_attention_mass`; writes `total` in place."""
    expected = (len(schedule.key_count_B), key_cache.shape[1], schedule.key_slots_BK.shape[1])
    if tuple(total.shape) != expected or not total.is_contiguous():
        raise ValueError(
            f"add_attention_mass: total must be contiguous and {expected}, got "
            f"{tuple(total.shape)}, strides {total.stride()}"
        )
    match impl:
        case "torch":
            return reference.add_attention_mass(q, lse, key_cache, schedule, total)
        case "triton":
            from kernels import attention_mass as kernel

            return kernel.add_attention_mass(q, lse, key_cache, schedule, total)
    raise _no_kernel("add_attention_mass", impl)


def linear(hidden: Tensor, weight: Weight, impl: str, may_split: bool = False) -> Tensor:
    """See `reference.linear`.

    With `may_split` the result may also be the fp32 parts [S, R, N] whose sum it is, for
    `add_rms_norm`, which adds them up at no cost.
    """
    if hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: hidden {tuple(hidden.shape)} does not fit weight {tuple(weight.shape)}"
        )
    match impl:
        case "torch":
            return reference.linear(hidden, weight)
        case "triton":
            if isinstance(weight, ScaledWeight):
                from kernels.quantize_rows import quantize_rows

                return scaled_product(*quantize_rows(hidden), weight, hidden.dtype)
            tile = routes.product_tile(len(hidden), weight)
            if tile is None:
                return reference.linear(hidden, weight)
            from kernels.skinny_gemm import skinny_gemm, skinny_parts

            is_split = may_split and tile.splits > 1
            return (skinny_parts if is_split else skinny_gemm)(hidden, weight, tile)
    raise _no_kernel("linear", impl)


def swiglu(
    hidden: Tensor, gate_up: Weight, down: Weight, impl: str, may_split: bool = False
) -> Tensor:
    """See `reference.swiglu`; `may_split` as in `linear`."""
    if gate_up.shape[0] != 2 * down.shape[1]:
        raise ValueError(
            f"swiglu: gate_up {tuple(gate_up.shape)} does not fit down {tuple(down.shape)}"
        )
    match impl:
        case "torch":
            return reference.swiglu(hidden, gate_up, down)
        case "triton":
            tile = routes.product_tile(len(hidden), gate_up, is_gated=True)
            if tile is not None and isinstance(gate_up, Tensor):
                from kernels.skinny_gemm import skinny_gemm

                gated = skinny_gemm(hidden, gate_up, tile, is_gated=True)
            else:
                from kernels.swiglu import swiglu as kernel

                gated = kernel(linear(hidden, gate_up, impl))
            return linear(gated, down, impl, may_split)
    raise _no_kernel("swiglu", impl)


def expert_swiglu(
    hidden: Tensor, experts: Experts, impl: str
) -> Tensor:
    """See `experts.expert_swiglu`. Library matrix products under every `impl`, like the linear
    layers: there is no second implementation to choose."""
    if experts.router.shape[1] != hidden.shape[1]:
        raise ValueError(
            f"expert_swiglu: router {tuple(experts.router.shape)} does not fit "
            f"{tuple(hidden.shape)}"
        )
    if impl not in IMPLS:
        raise _no_kernel("expert_swiglu", impl)
    return expert_reference.expert_swiglu(hidden, experts)


def confidence(
    logits: Tensor, excluded_id: int, noise: Tensor | None, alternatives: int, impl: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `reference.confidence`."""
    match impl:
        case "torch":
            return reference.confidence(logits, excluded_id, noise, alternatives)
        case "triton":
            from kernels import confidence as kernel

            return kernel.confidence(logits, excluded_id, noise, alternatives)
    raise _no_kernel("confidence", impl)


def _check_norm(operation: str, hidden: Tensor, weight: Tensor) -> None:
    if hidden.shape[-1:] != weight.shape:
        raise ValueError(f"{operation}: weight {tuple(weight.shape)} does not fit {hidden.shape}")


def _no_kernel(operation: str, impl: str) -> ValueError:
    return ValueError(f"{operation} has no implementation {impl!r}; use 'torch'")
