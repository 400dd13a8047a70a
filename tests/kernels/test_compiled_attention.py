"""What the real compiler makes of the attention kernels, without a GPU, for four architectures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.configs_attention import attention_tile
from kernels.scheduled_attention import triton as _triton  # noqa: F401  the import must work

ROOT = Path(__file__).resolve().parents[2]
# the most that one program may have, in bytes
SHARED = {75: 64 * 1024, 80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024}
CAPABILITY = {75: (7, 5), 80: (8, 0), 86: (8, 6), 90: (9, 0)}


@pytest.fixture(scope="module", params=SHARED)
def compiled(request):
    """(architecture, {variant: facts}), from a process in which triton.jit is the compiler's."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiled", str(request.param)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return request.param, json.loads(result.stdout)


def tiles(found, arch):
    """(facts, rows, tile, whether keys stand in a run) of every 16-bit attention variant with
    heads of 128."""
    for name, facts in found.items():
        if name.startswith(("attend", "run")):
            rows, views = int(name.split()[2]), name.endswith("views")
            is_run = name.startswith("run")
            yield facts, rows, attention_tile(CAPABILITY[arch], rows, 128, 2, views), is_run


def test_every_variant_fits_into_shared_memory(compiled):
    arch, found = compiled
    assert len(found) == (21 if arch == 90 else 13)
    assert {name: f["shared"] for name, f in found.items() if f["shared"] > SHARED[arch]} == {}


def test_keys_and_values_are_copied_ahead_as_many_steps_as_the_table_says(compiled):
    arch, found = compiled
    if arch == 75:  # it has no asynchronous copies
        assert {facts["cp_async"] for facts in found.values()} == {0}
        return
    for facts, rows, tile, is_run in tiles(found, arch):
        if is_run:
            # one copy of keys and one of values: stages - 1 steps before the loop, one in it
            assert facts["tile_copies"] == 2 * tile.stages
            continue
        # K and V of one step, 128 × 2 bytes a key, 16 bytes a copy and thread
        copies = 2 * tile.keys * 256 // (tile.warps * 32 * 16)
        # stages - 1 steps before the loop, one in it
        assert facts["cp_async"] >= tile.stages * copies, rows


def test_wide_tiles_run_on_wgmma_and_never_mix_it_with_mma_sync(compiled):
    arch, found = compiled
    for facts, rows, tile, _ in tiles(found, arch):
        if arch < 90 or rows < 64:
            # Triton gives sm_75 no tensor-core products: plain multiply-adds there
            assert facts["wgmma"] == 0 and (facts["mma"] > 0) == (arch > 75)
            continue
        assert facts["wgmma"] > 0 and facts["mma"] == 0
        # a wgmma may still read the last step's buffers while new keys arrive: the queries and
        # one buffer a stage must all be there at once
        queries = min(rows, 128) * 256
        assert facts["shared"] >= queries + tile.stages * 2 * tile.keys * 256


def test_hopper_variants_hardly_spill(compiled):
    arch, found = compiled
    if arch == 90:
        assert {name: f["stack"] for name, f in found.items() if f["stack"] > 16} == {}


def test_rows_and_slots_are_multiplied_in_64_bits(compiled):
    """Slot × stride passes 2^31 elements from 524,288 slots of 32 heads × 128 on."""
    _, found = compiled
    assert all(facts["wide"] > 0 for facts in found.values())
    assert {name: f["narrow"] for name, f in found.items() if f["narrow"]} == {}
