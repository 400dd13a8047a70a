"""Where something was measured, and with which code: what two times must share to be compared."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOOT = Path("/proc/sys/kernel/random/boot_id")


def place(device: str) -> dict[str, str]:
    """Commit, device, machine and torch; times of two places are not to be mixed.

    device  as `ModelInfo.device`
    """
    return {
        "commit": commit(),
        "device": device_name(device),
        "machine": machine(),
        "torch": version("torch"),
    }


def differences(there: dict[str, str], here: dict[str, str]) -> str:
    """In what two places differ, in words.

    >>> differences({"commit": "a", "machine": "m"}, {"commit": "b", "machine": "m"})
    'commit a there, b here'
    """
    return ", ".join(
        f"{key} {there.get(key) or 'unknown'} there, {here[key] or 'unknown'} here"
        for key in here
        if there.get(key) != here[key]
    )


def device_name(device: str) -> str:
    """The model of the GPU; the name as it is for anything else."""
    if device != "cuda":
        return device
    import torch

    return torch.cuda.get_device_name()


@lru_cache(maxsize=1)
def commit() -> str:
    """The checkout's commit; with changes that are not committed also a hash over them; "" where
    the checkout has no history.

    Read once a process: code that is loaded does not change with the files.
    """
    head, changes = _git("rev-parse", "--short", "HEAD"), _git("diff", "HEAD")
    if not head or changes is None:
        return ""
    if not changes:
        return head
    return f"{head}+{hashlib.sha256(changes.encode()).hexdigest()[:6]}"


@lru_cache(maxsize=1)
def machine() -> str:
    """Eight characters that tell machines, and starts of one, apart; nothing can be read from
    them."""
    parts = [platform.node(), platform.machine(), platform.processor()]
    if BOOT.is_file():
        parts.append(BOOT.read_text(encoding="ascii").strip())
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]


def _git(*arguments: str) -> str | None:
    """What git says about the checkout, None where it says nothing."""
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, errors="replace",
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
