"""The real compiler's verdict on every kernel for GPUs that are not here.

One warp too few or one stage too many shows as a stack, a missing copy instruction or too much
shared memory, all of it without a device.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# shared memory of one program, in bytes
LIMITS = {80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024}


@cache
def compiled(arch):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiled_ops", str(arch)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout)


@pytest.mark.parametrize("arch", LIMITS)
def test_every_kernel_fits_in_shared_memory_and_registers(arch):
    for name, facts in compiled(arch).items():
        assert facts["shared"] <= LIMITS[arch], (name, facts)
        assert facts["stack"] == 0, (name, facts)


@pytest.mark.parametrize("arch", LIMITS)
def test_products_run_on_tensor_cores_behind_asynchronous_copies(arch):
    products = {
        name: facts
        for name, facts in compiled(arch).items()
        if name.startswith(("fused_qkv", "skinny"))
    }
    assert len(products) >= 6
    for name, facts in products.items():
        assert facts["wgmma" if arch == 90 else "mma"] > 0, (name, facts)
        # one copy a tile before the loop for each stage ahead, and one inside
        assert facts["tma"] + facts["cp_async"] >= 4, (name, facts)
        assert ("uses_tma=True" in name) == (facts["tma"] > 0), (name, facts)


def test_fp8_is_made_by_the_hardware_from_quotients_that_are_rounded_like_torch():
    facts = compiled(90)["quantize_rows"]
    # 16,384 numbers are 64 a thread, two a conversion; a quotient each and the scale's
    assert facts["to_fp8"] == 32 and facts["division"] == 65
    assert "quantize_rows" not in compiled(80)
