"""Compile the attention kernels ahead of time, without a GPU, and print what came out as JSON.

Run in a fresh interpreter without TRITON_INTERPRET: python -m tests.kernels.compiled 80 90
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.attention_mass import mass_kernel
from kernels.configs_attention import Tile, attention_tile, mass_tile
from kernels.schedule import MASK_TILE, PAGE, TAIL_ROWS
from kernels.scheduled_attention import attend_kernel, join_kernel

CAPABILITY = {75: (7, 5), 80: (8, 0), 86: (8, 6), 90: (9, 0)}
# what a pointer argument points to; anything else of these kernels is an int32 or "scale"
_POINTERS = {
    "q_ptr": "half", "k_ptr": "half", "v_ptr": "half", "out_ptr": "half", "lse_ptr": "fp32",
    "part_out": "fp32", "part_lse": "fp32", "total_ptr": "fp32", "mass_weight": "fp32",
    "key_count": "i64", "key_row": "i64", "mass_rows": "i64",
    "block_sequence": "i32", "block_first": "i32", "block_rows": "i32", "page_table": "i32",
    "row_code": "i32", "row_replaces": "i32", "key_from": "i32", "key_until": "i32",
    "key_mixed": "i32",
}  # fmt: skip
_ALIGNED = {"q_ptr", "k_ptr", "v_ptr", "out_ptr", "lse_ptr", "part_out", "part_lse", "total_ptr"}


def compile_kernel(
    kernel, arch: int, half: str, warps: int, stages: int, pointers=None, boxes=None, **constants
):
    """Triton's compiled kernel, its arguments specialised as the launcher would."""
    boxes = boxes or {}
    signature, attributes = {}, {}
    pointed = _POINTERS | (pointers or {})
    for number, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in boxes:
            signature[name] = boxes[name]
        elif name in pointed:
            signature[name] = "*" + pointed[name].replace("half", half)
        else:
            signature[name] = "fp32" if name in ("scale", "log2_e") else "i32"
        if (name in _ALIGNED and name not in boxes) or name.startswith("stride"):
            attributes[(number,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def attend(
    arch: int, rows: int, tile: Tile | None = None, *, group=1, head_dim=128,
    has_views=False, half="bf16", out="half", is_run=False,
):  # fmt: skip
    """`attend_kernel` for `rows` tile rows, with the table's tile or another."""
    size = 4 if half == "fp32" else 2
    tile = tile or attention_tile(CAPABILITY[arch], rows, head_dim, size, has_views)
    box = f"tensordesc<{half}[{tile.keys}, {head_dim}]>"
    return compile_kernel(
        attend_kernel, arch, half, tile.warps, tile.stages,
        GROUP=group, HEAD_DIM=head_dim, BLOCK_E=head_dim, MAIN=min(rows, 128, tile.most_rows),
        TAIL=TAIL_ROWS if 128 < rows <= tile.most_rows else 0,
        TAIL_TRANSPOSED=tile.is_tail_transposed, BLOCK_N=tile.keys,
        SHARES=-(-rows // tile.most_rows),
        HAS_VIEWS=has_views, PAGE=PAGE, MASK_TILE=MASK_TILE, IS_RUN=is_run, OVERLAPS=arch >= 90,
        pointers={"out_ptr": out}, boxes={"k_ptr": box, "v_ptr": box} if is_run else {},
    )  # fmt: skip


def mass(arch: int, tile: tuple[int, Tile] | None = None, *, group=1, head_dim=128, half="bf16"):
    """`mass_kernel` with the table's tile or another."""
    rows, tile = tile or mass_tile(CAPABILITY[arch], head_dim, 4 if half == "fp32" else 2)
    return compile_kernel(
        mass_kernel, arch, half, tile.warps, tile.stages, GROUP=group, HEAD_DIM=head_dim,
        BLOCK_E=head_dim, BLOCK_M=rows, BLOCK_N=tile.keys, PAGE=PAGE,
        OVERLAPS=arch >= 90,
    )  # fmt: skip


def join(arch: int, splits: int = 4, head_dim: int = 128, half: str = "bf16"):
    return compile_kernel(
        join_kernel, arch, half, 4, 3, HEAD_DIM=head_dim, BLOCK_E=head_dim, PAIRS=16,
        SPLITS=splits, OVERLAPS=arch >= 90,
    )  # fmt: skip


def facts(compiled) -> dict[str, int]:
    """Shared memory and stack in bytes, and how often an instruction stands in the code.

    narrow: uses of a row or slot stride that are not widened to 64 bits first.
    """
    ptx = compiled.asm["ptx"]
    counts = {
        name: len(re.findall(pattern, ptx))
        for name, pattern in {
            "wgmma": r"wgmma\.mma_async", "mma": r"mma\.sync", "cp_async": r"cp\.async\.c[ag]",
            "tile_copies": r"cp\.async\.bulk\.tensor",
        }.items()
    }  # fmt: skip
    strides = r"%(?:stride_slot|stride_q_row|n_pairs)(?![\w:])"
    body = compiled.asm["ttir"].split("{", 1)[1].split("\n", 1)[1]
    uses = [line for line in body.splitlines() if re.search(strides, line.split(" loc(")[0])]
    narrow = [line for line in uses if "tt.func" not in line and "arith.extsi" not in line]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        usage = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    stack = int(re.search(r"STACK:(\d+)", usage.stdout + usage.stderr)[1])
    return {
        "shared": compiled.metadata.shared, "stack": stack, "wide": len(uses) - len(narrow),
        "narrow": len(narrow), **counts,
    }  # fmt: skip


def main() -> None:
    """All variants of the given architectures, as {name: facts} on standard output."""
    found = {}
    for arch in map(int, sys.argv[1:]):
        half = "fp16" if arch < 80 else "bf16"
        for rows in (32, 64, 128, 144):
            for has_views in (False, True):
                name = f"attend {arch} {rows} {'views' if has_views else 'plain'}"
                found[name] = facts(attend(arch, rows, has_views=has_views, half=half))
                if arch >= 90:
                    run = attend(arch, rows, has_views=has_views, half=half, is_run=True)
                    found[name.replace("attend", "run")] = facts(run)
        found[f"grouped {arch}"] = facts(attend(arch, 64, group=7, half=half))
        parts = attention_tile(CAPABILITY[arch], 144, 128, 2)
        found[f"parts {arch}"] = facts(attend(arch, 144, parts, out="fp32", half=half))
        found[f"fp32 {arch}"] = facts(attend(arch, 144, half="fp32"))
        found[f"mass {arch}"] = facts(mass(arch, half=half))
        found[f"join {arch}"] = facts(join(arch, half=half))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
