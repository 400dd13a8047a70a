"""The door: one function per operation, checks, `impl`. Nobody else chooses an implementation.

`impl="torch"` is `reference.py`. `impl="triton"` imports its kernel file inside the branch and is
never answered by another implementation. Tolerances of a kernel stand here, beside its operation.
"""

from __future__ import annotations

from torch import Tensor

from kernels import experts as expert_reference
from kernels import reference
from kernels.experts import Experts
from kernels.reference import HeadNorms
from kernels.schedule import Schedule

IMPLS = ("torch", "triton")


def available_impls(device: str) -> tuple[str, ...]:
    """The implementations that can run on a device type ("cpu", "cuda", "mps")."""
    return ("torch",)


def resolve_impl(impl: str, device: str) -> str:
    """The concrete implementation for "auto", "torch" or "triton" on this device.

    Raises ValueError for an unknown name, RuntimeError for one that can't run here. Called once,
    when a model is loaded; the answer goes into the trace.
    """
    if impl not in ("auto", *IMPLS):
        raise ValueError(f"impl must be one of auto, {', '.join(IMPLS)}, got {impl!r}")
    available = available_impls(device)
    if impl == "auto":
        return available[-1]
    if impl not in available:
        raise RuntimeError(
            f"impl={impl!r} is not available on {device}; use impl='torch' on this machine"
        )
    return impl


def rms_norm(hidden: Tensor, weight: Tensor, eps: float, impl: str) -> Tensor:
    """See `reference.rms_norm`."""
    if hidden.shape[-1:] != weight.shape:
        raise ValueError(f"rms_norm: weight {tuple(weight.shape)} does not fit {hidden.shape}")
    match impl:
        case "torch":
            return reference.rms_norm(hidden, weight, eps)
    raise _no_kernel("rms_norm", impl)


def project_and_cache(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    head_norms: HeadNorms | None,
    cos: Tensor,
    sin: Tensor,
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    n_heads: int,
    impl: str,
) -> Tensor:
    """See `reference.project_and_cache`; writes `key_cache` and `value_cache` in place."""
    n_kv_heads, head_dim = key_cache.shape[1:]
    expected = ((n_heads + 2 * n_kv_heads) * head_dim, hidden.shape[1])
    if tuple(weight.shape) != expected or len(slots) != len(hidden):
        raise ValueError(
            f"project_and_cache: weight must be {expected} and slots {len(hidden)} long, got "
            f"{tuple(weight.shape)} and {len(slots)}"
        )
    match impl:
        case "torch":
            return reference.project_and_cache(
                hidden, weight, bias, head_norms, cos, sin, slots, key_cache, value_cache, n_heads
            )
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
    raise _no_kernel("scheduled_attention", impl)


def attention_mass(
    q: Tensor, lse: Tensor, key_cache: Tensor, schedule: Schedule, impl: str
) -> Tensor:
    """See `reference.attention_mass`."""
    match impl:
        case "torch":
            return reference.attention_mass(q, lse, key_cache, schedule)
    raise _no_kernel("attention_mass", impl)


def swiglu(hidden: Tensor, gate_up: Tensor, down: Tensor, impl: str) -> Tensor:
    """See `reference.swiglu`."""
    if gate_up.shape[0] != 2 * down.shape[1]:
        raise ValueError(
            f"swiglu: gate_up {tuple(gate_up.shape)} does not fit down {tuple(down.shape)}"
        )
    match impl:
        case "torch":
            return reference.swiglu(hidden, gate_up, down)
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
    raise _no_kernel("confidence", impl)


def _no_kernel(operation: str, impl: str) -> ValueError:
    return ValueError(f"{operation} has no implementation {impl!r}; use 'torch'")
