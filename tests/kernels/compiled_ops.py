"""Compile the kernels other than attention ahead of time, without a GPU; print facts as JSON.

Run in a fresh interpreter without TRITON_INTERPRET: python -m tests.kernels.compiled_ops 80
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels import (
    confidence,
    fused_qkv,
    quantize_rows,
    rms_norm,
    rope_cache,
    routes,
    scaled,
    skinny_gemm,
    swiglu,
)
from kernels.overlap import CLASSES as OVERLAPPING

# what a pointer argument points to; the rest are int32, but for eps
_POINTERS = {
    "cos_ptr": "fp32", "sin_ptr": "fp32", "positions_ptr": "i64", "slots_ptr": "i64",
    "noise_ptr": "fp32", "peak_ptr": "fp32", "total_ptr": "fp32", "best_ptr": "fp32",
    "token_ptr": "i32", "chosen_ptr": "fp32", "other_value_ptr": "fp32", "other_token_ptr": "i32",
    "out_token_ptr": "i64", "out_confidence_ptr": "fp32", "out_other_ptr": "i64",
    "out_probability_ptr": "fp32", "rows_ptr": "i64", "parts_ptr": "fp32", "hidden": "half",
    "weight": "half", "main": "half", "tail": "half", "values_ptr": "fp8e4nv",
    "scales_ptr": "fp32",
}  # fmt: skip
# numbers that LLaDA-8B makes multiples of 16, as the launcher would see
_ROUND = {"size", "size_k", "size_n", "share", "weight_rows", "vocab_size"}


def compile_kernel(kernel, arch: int, warps: int, boxes=None, pointers=None, **constants):
    """Triton's compiled kernel; `boxes` are [rows, columns] of arguments that are descriptors."""
    half = "fp16" if arch < 80 else "bf16"
    pointed = _POINTERS | (pointers or {})
    signature, attributes = {}, {}
    for number, name in enumerate(kernel.arg_names):
        is_round = name in _ROUND or name.endswith("stride")
        if name in constants:
            signature[name] = "constexpr"
        elif boxes and name in boxes:
            signature[name] = f"tensordesc<{half}{list(boxes[name])}>"
        elif name.endswith("_ptr") or name in pointed:
            signature[name] = "*" + pointed.get(name, "half").replace("half", half)
            is_round = True
        else:
            signature[name] = "fp32" if name == "eps" else "i32"
        if is_round and name not in constants:
            attributes[(number,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    target = GPUTarget("cuda", arch, 32)
    return triton.compile(source, target=target, options={"num_warps": warps})


def overlap(arch: int) -> dict[str, bool]:
    """What `kernels.overlap.overlap` says to the kernel."""
    return {"OVERLAPS": arch in OVERLAPPING}


def fused(arch: int, tile: fused_qkv.Tile, rows: int, has_extras: bool):
    main, tail = (tile.block_m, 0) if tile.block_m else skinny_gemm.row_tiles(rows)
    boxes = {
        "weight": (128, tile.block_k), "main": (main, tile.block_k),
        "tail": (tail or main, tile.block_k),
    }  # fmt: skip
    return compile_kernel(
        fused_qkv._fused_qkv_kernel, arch, tile.warps, boxes if tile.uses_tma else None,
        N_HEADS=32, N_KV_HEADS=8, SIZE=128, MAIN=main, TAIL=tail, BLOCK_K=tile.block_k,
        STAGES=tile.stages, USES_TMA=tile.uses_tma, IS_SWAPPED=tile.block_m == 0,
        HAS_BIAS=has_extras, HAS_NORMS=has_extras, **overlap(arch),
    )  # fmt: skip


def skinny(arch: int, tile: routes.Tile, rows: int, is_gated: bool):
    main, tail = skinny_gemm.row_tiles(rows)
    boxes = {
        "weight": (tile.block_n, tile.block_k), "main": (main, tile.block_k),
        "tail": (tail or main, tile.block_k),
    }  # fmt: skip
    return compile_kernel(
        skinny_gemm._skinny_kernel, arch, tile.warps, boxes if tile.uses_tma else None,
        {"out_ptr": "half" if tile.splits == 1 else "fp32"}, MAIN=main, TAIL=tail,
        BLOCK_N=tile.block_n, BLOCK_K=tile.block_k, STAGES=tile.stages, USES_TMA=tile.uses_tma,
        IS_GATED=is_gated, **overlap(arch),
    )  # fmt: skip


def variants(arch: int):
    """(name, compiled) of every kernel with the configurations its wrapper takes."""
    for parts in (0, 1, 4):
        compiled = compile_kernel(
            rms_norm._rms_norm_kernel, arch, 8, None,
            {"total_ptr": "half", "branch_ptr": "fp32" if parts > 1 else "half"},
            PARTS=parts, HAS_ROWS=parts > 0, BLOCK=4096, **overlap(arch),
        )  # fmt: skip
        yield f"rms_norm of {parts} parts", compiled
    compiled = compile_kernel(
        swiglu._swiglu_kernel, arch, swiglu.WARPS, BLOCK=swiglu.BLOCK, **overlap(arch)
    )
    yield "swiglu", compiled
    if arch >= 89:  # older ones have no fp8
        compiled = compile_kernel(
            quantize_rows._quantize_rows_kernel, arch, 8, LARGEST=scaled.LARGEST,
            SMALLEST=scaled.SMALLEST, BLOCK=16384, **overlap(arch),
        )  # fmt: skip
        yield "quantize_rows", compiled
    for extras in (False, True):
        compiled = compile_kernel(
            rope_cache._rope_cache_kernel, arch, 4, N_HEADS=32, N_KV_HEADS=8, HALF=64,
            BLOCK_HALF=64, BLOCK_HEADS=rope_cache.ELEMENTS // 128, HAS_BIAS=extras,
            HAS_NORMS=extras, **overlap(arch),
        )  # fmt: skip
        yield f"rope_cache extras={extras}", compiled
    for noise, alternatives in ((False, 0), (True, 5)):
        compiled = compile_kernel(
            confidence._tile_kernel, arch, 4, HAS_NOISE=noise, ALTERNATIVES=alternatives,
            TILE=confidence.TILE, **overlap(arch),
        )  # fmt: skip
        yield f"confidence top-{alternatives}", compiled
        compiled = compile_kernel(
            confidence._combine_kernel, arch, 1, ALTERNATIVES=alternatives, TILES=32,
            CANDIDATES=256, **overlap(arch),
        )  # fmt: skip
        yield f"confidence join top-{alternatives}", compiled
    compiled = compile_kernel(
        skinny_gemm._add_parts_kernel, arch, 4, SPLITS=4, BLOCK=1024, **overlap(arch)
    )
    yield "add_parts", compiled
    few, many = fused_qkv.TILES[arch]
    for tile, rows in ((few, 32), (few, 144), (few, 192), (many, 4608)):
        for extras in (False, True):
            name = f"fused_qkv {rows} rows {tile} extras={extras}"
            yield name, fused(arch, tile, rows, extras)
    for is_gated, table in ((False, routes.PRODUCT_TILES), (True, routes.GATED_TILES)):
        # a small tile fits everywhere; the table's tiles at the rows they are for
        tiles = {(144, routes.Tile(block_n=64, block_k=32, stages=3, warps=8))}
        tiles |= {(rows, tile) for (rows, _, _), tile in table.get(arch, {}).items()}
        for rows, tile in sorted(tiles):
            name = f"skinny {rows} rows {tile} gated={is_gated}"
            yield name, skinny(arch, tile, rows, is_gated)


def facts(compiled) -> dict[str, int]:
    """Shared memory and stack in bytes, and how often an instruction stands in the code."""
    ptx = compiled.asm["ptx"]
    patterns = {
        "wgmma": r"wgmma\.mma_async", "mma": r"mma\.sync", "cp_async": r"cp\.async\.c[ag]",
        "tma": r"cp\.async\.bulk\.tensor", "to_fp8": r"cvt\.rn\.satfinite\.e4m3x2",
        "division": r"div\.rn\.f32",
    }  # fmt: skip
    counts = {name: len(re.findall(pattern, ptx)) for name, pattern in patterns.items()}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        usage = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    stack = max(int(size) for size in re.findall(r"STACK:(\d+)", usage))
    return {"shared": compiled.metadata.shared, "stack": stack, **counts}


if __name__ == "__main__":
    json.dump({name: facts(found) for name, found in variants(int(sys.argv[1]))}, sys.stdout)
