"""Kernels against their torch twins and their floors: python benchmarks/kernel_ops.py [--sweep]

On a CUDA device, with the shapes of LLaDA-8B in bf16. A floor is the larger of compulsory bytes
over the measured copy rate and operations over the measured matrix rate of one H200. Every variant
is compared with fp32 before it is timed. Calls are captured in one CUDA graph that walks through
copies of the weights and caches (together more than five times the L2), so weights come from memory
and activations from wherever the step before left them, as in a pass. Times hold one graph node's
launch. Rows go to benchmarks/results/kernel_ops.csv; `--sweep` tries many tiles of `skinny_gemm`
and prints the rows of the tables in `kernels/routes.py` that it earned.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402
from torch import Tensor  # noqa: E402

from flash_dllm.evaluation.place import commit  # noqa: E402
from kernels import (  # noqa: E402
    confidence,
    fused_qkv,
    quantize_rows,
    reference,
    rms_norm,
    rope_cache,
    scaled,
    swiglu,
)
from kernels.routes import Tile  # noqa: E402
from kernels.skinny_gemm import MAX_ROWS, row_tiles, skinny_gemm, skinny_parts  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "kernel_ops.csv"
BYTES_PER_SECOND, OPERATIONS_PER_SECOND = 4.3e12, 790e12
L2_BYTES = 60e6
SHARED_BYTES = 228 * 1024
D, HEADS, SIZE, FFN, VOCAB = 4096, 32, 128, 12288, 126464
ROWS = (32, 128, 144, 1024, 4096, 4608)
LOGIT_ROWS = (16, 64, 2048)
# (rows of the weight, columns): QKV, attention output, gate and up, down, head
SHAPES = {
    "qkv": (3 * D, D), "attn_out": (D, D), "gate_up": (2 * FFN, D), "down": (D, FFN),
    "head": (VOCAB, D),
}  # fmt: skip
DTYPE, DEVICE = torch.bfloat16, "cuda"

Call = Callable[[int], object]


@dataclass
class Variant:
    """One implementation: `call(i)` works on the i-th copy; `error` is against fp32."""

    name: str
    call: Call
    error: float | None = None


@dataclass
class Case:
    """Variants of one operation at one size, with its compulsory bytes and operations."""

    operation: str
    rows: int
    bytes: float
    operations: float
    copies: int
    variants: list[Variant] = field(default_factory=list)

    @property
    def floor_us(self) -> float:
        return 1e6 * max(self.bytes / BYTES_PER_SECOND, self.operations / OPERATIONS_PER_SECOND)


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device=DEVICE) * scale).to(DTYPE)


def same(function: Callable[..., object], *arguments: object) -> Call:
    """A call that has no copies to walk through."""
    return lambda i: function(*arguments)


def copies_of(nbytes: float) -> int:
    """Enough copies that walking through them leaves nothing in the L2."""
    return max(1, min(64, int(5 * L2_BYTES / nbytes) + 1))


def relative_error(got: Tensor, truth: Tensor) -> float:
    return float((got.float() - truth.float()).norm() / truth.float().norm())


def microseconds(call: Call, copies: int, repeats: int) -> list[float]:
    """Per call, each from one replay of a graph of at least 16 calls."""
    order = [i % copies for i in range(max(copies, 16))]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in order[:2]:
            call(i)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in order:
            call(i)
    times = []
    for repeat in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if repeat >= 2:
            times.append(1e3 * begin.elapsed_time(end) / len(order))
    return times


def pointwise_cases() -> Iterator[Case]:
    """Norms and SwiGLU: one read and one write of the activations."""
    weight = 1 + random(D, scale=0.1)
    for rows in ROWS:
        x, branch = random(rows, D), random(rows, D)
        truth = reference.rms_norm(x.float(), weight.float(), 1e-5)
        case = Case("rms_norm", rows, 4 * rows * D, 0, 1)
        for name, norm in (("torch", reference.rms_norm), ("triton", rms_norm.rms_norm)):
            error = relative_error(norm(x, weight, 1e-5), truth)
            case.variants.append(Variant(name, same(norm, x, weight, 1e-5), error))
        case.variants.append(Variant("F.rms_norm", same(F.rms_norm, x, (D,), weight, 1e-5)))
        yield case

        case = Case("add_rms_norm", rows, 8 * rows * D, 0, 1)
        truth = reference.add_rms_norm(x.float(), branch.float(), weight.float(), 1e-5)[1]
        for name, both in (("torch", reference.add_rms_norm), ("triton", rms_norm.add_rms_norm)):
            error = relative_error(both(x, branch, weight, 1e-5)[1], truth)
            case.variants.append(Variant(name, same(both, x, branch, weight, 1e-5), error))
        for count in (2, 3, 4, 6, 8) if rows <= MAX_ROWS else ():
            parts = torch.randn(count, rows, D, device=DEVICE)
            both = same(rms_norm.add_rms_norm, x, parts, weight, 1e-5)
            case.variants.append(Variant(f"triton, {count} fp32 parts", both))
        yield case

        gate_up = random(rows, 2 * FFN)
        case = Case("swiglu", rows, 6 * rows * FFN, 0, 1)
        truth = torch_swiglu(gate_up.float())
        for name, product in (("torch", torch_swiglu), ("triton", swiglu.swiglu)):
            error = relative_error(product(gate_up), truth)
            case.variants.append(Variant(name, same(product, gate_up), error))
        yield case


def quantize_cases() -> Iterator[Case]:
    """What fp8 products cost before they start: a row's scale and its numbers in 8 bits."""
    for rows in ROWS:
        for width in (D, FFN):
            x = random(rows, width)
            case = Case(f"quantize_rows of {width}", rows, 3 * rows * width, 0, 1)
            case.variants.append(Variant("torch", same(scaled.quantize_rows, x)))
            case.variants.append(Variant("triton", same(quantize_rows.quantize_rows, x)))
            yield case


def fp8_variants(hidden: Tensor, weights: list[Tensor], truth: Tensor) -> Iterator[Variant]:
    """The product in fp8, alone and with the quantisation of its rows before it."""
    if scaled.why_no_fp8(hidden.device, DTYPE) is not None:
        return
    small = [scaled.quantize_weight(weight) for weight in weights]
    rows = quantize_rows.quantize_rows(hidden)
    whole = lambda i: scaled.hardware_product(  # noqa: E731
        *quantize_rows.quantize_rows(hidden), small[i]
    )
    yield Variant("scaled_mm", lambda i: scaled.hardware_product(*rows, small[i]))
    yield Variant("quantize_rows+scaled_mm", whole, relative_error(whole(0), truth))


def torch_swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


# candidates of the single kernel: (rows of a tile, columns of K, stages, warps, descriptors)
FUSED_TILES = (
    fused_qkv.Tile(0, 64, 5, 8, True), fused_qkv.Tile(0, 64, 6, 8, True),
    fused_qkv.Tile(0, 64, 3, 8, True), fused_qkv.Tile(0, 64, 5, 4, True),
    fused_qkv.Tile(0, 128, 3, 8, True), fused_qkv.Tile(64, 64, 5, 4, True),
    fused_qkv.Tile(128, 64, 4, 8, True), fused_qkv.Tile(128, 64, 3, 8, True),
    fused_qkv.Tile(128, 128, 3, 8, True), fused_qkv.Tile(128, 64, 4, 8, False),
)  # fmt: skip
# candidates of skinny_gemm before rope_cache
QKV_TILES = (
    Tile(128, 64, 1, 5, 8, True), Tile(128, 128, 1, 3, 8, True), Tile(128, 64, 1, 3, 8, True),
    Tile(64, 64, 1, 4, 4, True), Tile(256, 64, 2, 4, 8, True),
)  # fmt: skip


def tile_name(tile: Tile | fused_qkv.Tile) -> str:
    return "x".join(str(int(value)) for value in tile)


def project_cases() -> Iterator[Case]:
    """QKV product, rotation and cache write by each route, and what follows the product alone."""
    copies = copies_of(2 * 3 * D * D)
    weights = [random(3 * D, D, scale=D**-0.5) for _ in range(copies)]
    angle = torch.rand(4096, SIZE // 2, device=DEVICE) * 6.28
    cos, sin = angle.cos(), angle.sin()
    for rows in ROWS:
        hidden = random(rows, D)
        positions = torch.randint(4096, (rows,), device=DEVICE)
        slots = torch.randperm(2 * rows, device=DEVICE)[:rows]
        caches = torch.zeros(copies, 2, 2 * rows, HEADS, SIZE, dtype=DTYPE, device=DEVICE)
        rest = [(None, None, cos, sin, positions, slots, *cache, HEADS) for cache in caches]
        wide_cache = caches[0].float()
        exact = reference.project_and_cache(
            hidden.float(), weights[0].float(), *rest[0][:6], *wide_cache, HEADS
        )

        case = Case("rope_cache", rows, 12 * rows * D, 0, copies)
        product = F.linear(hidden, weights[0])
        case.variants.append(Variant("triton", walking(rope_cache.rope_cache, [product], rest)))
        yield case

        case = Case(
            "project_and_cache", rows, 2 * (3 * D * D + 4 * rows * D), 6 * rows * D * D, copies
        )
        ways: list[tuple[str, Callable[..., Tensor]]] = [
            ("torch", reference.project_and_cache),
            ("cublas+rope_cache", partial(product_then_rope, F.linear)),
        ]
        for tile in FUSED_TILES:
            if tile.block_m == 0 and rows > MAX_ROWS:
                continue
            ways.append(
                (f"fused_qkv {tile_name(tile)}", partial(fused_qkv.fused_qkv, tile=tile))
            )
        for tile in QKV_TILES if rows <= MAX_ROWS else ():
            multiply = partial(skinny_gemm, tile=tile)
            ways.append(
                (f"skinny {tile_name(tile)}+rope_cache", partial(product_then_rope, multiply))
            )
        for name, way in ways:
            call = walking(way, [hidden], [(w, *r) for w, r in zip(weights, rest, strict=True)])
            case.variants.append(Variant(name, call, relative_error(call(0), exact)))
        yield case


def product_then_rope(multiply: Callable[..., Tensor], hidden: Tensor, weight: Tensor, *rest):
    return rope_cache.rope_cache(multiply(hidden, weight), *rest)


def walking(
    function: Callable[..., Tensor], fixed: list[Tensor], copies: list[tuple]
) -> Callable[[int], Tensor]:
    """A call whose last arguments are those of the i-th copy."""
    return lambda i: function(*fixed, *copies[i])


def sweep_tiles(n: int, rows: int, is_gated: bool) -> Iterator[Tile]:
    """Tiles worth a try: 90 to 400 programs, as many stages as one or two programs an SM leave."""
    shapes = [(64, 64, 4), (64, 128, 4), (64, 256, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8),
              (256, 64, 8)]  # fmt: skip
    if is_gated:
        shapes = [(64, 64, 4), (64, 64, 8), (64, 128, 8), (128, 64, 8)]
    width = sum(row_tiles(rows))
    for block_n, block_k, warps in shapes:
        stage_bytes = 2 * block_k * (width + block_n * (2 if is_gated else 1))
        tiles = -(-n // block_n)
        for splits in (1,) if is_gated else (1, 2, 3, 4, 6, 8):
            if not (90 <= tiles * splits <= 400 or (n == VOCAB and splits == 1)):
                continue
            for resident in (1, 2):
                stages = min(8, (SHARED_BYTES // resident - 2048) // stage_bytes)
                if stages >= 2:
                    yield Tile(block_n, block_k, splits, stages, warps, uses_tma=True)
                    if (block_n, block_k, warps) == (128, 64, 8):
                        yield Tile(block_n, block_k, splits, stages, warps, uses_tma=False)


def product_cases(is_sweep: bool, row_counts: Sequence[int]) -> Iterator[Case]:
    """Each matrix product by cuBLAS and by tiles of skinny_gemm; gate-up with SwiGLU as well."""
    for shape, (n, k) in SHAPES.items():
        copies = copies_of(2.0 * n * k)
        weights = [random(n, k, scale=k**-0.5) for _ in range(copies)]
        for rows in LOGIT_ROWS if shape == "head" else row_counts:
            hidden = random(rows, k)
            truth = hidden.float() @ weights[0].float().T
            case = Case(
                shape, rows, 2.0 * (n * k + rows * (n + k)), 2.0 * rows * n * k, copies
            )
            case.variants.append(
                Variant("cublas", lambda i, h=hidden, w=weights: F.linear(h, w[i]),
                        relative_error(F.linear(hidden, weights[0]), truth))
            )
            case.variants += fp8_variants(hidden, weights, truth) if shape != "head" else ()
            if rows <= MAX_ROWS:
                for tile in sweep_tiles(n, rows, False) if is_sweep else []:
                    add_tile(case, tile, hidden, weights, truth, False)
            yield case
            if shape != "gate_up":
                continue
            gate, up = truth.chunk(2, dim=-1)
            truth = F.silu(gate) * up
            case = Case(
                "gate_up+swiglu", rows, 2.0 * (n * k + rows * (n / 2 + k)), 2.0 * rows * n * k,
                copies,
            )
            for name, after in (
                ("torch", torch_swiglu),
                ("cublas+swiglu", swiglu.swiglu),
            ):
                case.variants.append(
                    Variant(
                        name, lambda i, h=hidden, a=after, w=weights: a(F.linear(h, w[i])),
                        relative_error(after(F.linear(hidden, weights[0])), truth),
                    )
                )
            if rows <= MAX_ROWS:
                for tile in sweep_tiles(n // 2, rows, True) if is_sweep else []:
                    add_tile(case, tile, hidden, weights, truth, True)
            yield case
        del weights


def add_tile(
    case: Case, tile: Tile, hidden: Tensor, weights: list[Tensor], truth: Tensor, is_gated: bool
) -> None:
    """One tile of skinny_gemm, and with splits also its parts alone (the sum fused elsewhere)."""
    name = tile_name(tile)
    try:
        error = relative_error(skinny_gemm(hidden, weights[0], tile, is_gated), truth)
    except triton.runtime.errors.OutOfResources as failure:
        print(f"  {case.operation} {case.rows} {name}: {failure}")
        return
    case.variants.append(
        Variant(f"skinny {name}", lambda i: skinny_gemm(hidden, weights[i], tile, is_gated), error)
    )
    if tile.splits > 1:
        case.variants.append(
            Variant(f"parts {name}", lambda i: skinny_parts(hidden, weights[i], tile, is_gated))
        )


def confidence_cases() -> Iterator[Case]:
    for rows in LOGIT_ROWS:
        copies = copies_of(2.0 * rows * VOCAB)
        logits = [random(rows, VOCAB) for _ in range(copies)]
        case = Case("confidence", rows, 2.0 * rows * VOCAB, 0, copies)
        exact = reference.confidence(logits[0].float(), VOCAB - 1)
        for name, choose in (("torch", reference.confidence), ("triton", confidence.confidence)):
            got = choose(logits[0], VOCAB - 1, None, 0)
            assert torch.equal(got[0], exact[0]), "a tie of bf16 logits was broken differently"
            case.variants += [
                Variant(name, lambda i, c=choose, x=logits: c(x[i], VOCAB - 1, None, 0),
                        relative_error(got[1], exact[1])),
                Variant(f"{name} top-5", lambda i, c=choose, x=logits: c(x[i], VOCAB - 1, None, 5)),
            ]  # fmt: skip
        yield case


def circumstances() -> dict[str, str]:
    """What a number is worth nothing without."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "device": torch.cuda.get_device_name(),
        "dtype": str(DTYPE).removeprefix("torch."),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }


def main() -> None:
    """Measure, print and append."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--sweep", action="store_true", help="try many tiles of skinny_gemm")
    cli.add_argument("--only", nargs="*", help="operations to measure (names as printed)")
    cli.add_argument("--rows", nargs="*", type=int, default=list(ROWS), help="rows of products")
    cli.add_argument("--repeats", type=int, default=20)
    cli.add_argument("--out", type=Path, default=RESULTS)
    options = cli.parse_args()
    if not torch.cuda.is_available():
        sys.exit("kernel_ops.py measures on a CUDA device; there is none here")
    torch.manual_seed(0)
    facts = circumstances()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    groups: list[tuple[set[str], Callable[[], Iterator[Case]]]] = [
        ({"rms_norm", "add_rms_norm", "swiglu"}, pointwise_cases),
        ({"rope_cache", "project_and_cache"}, project_cases),
        ({"confidence"}, confidence_cases),
        ({f"quantize_rows of {width}" for width in (D, FFN)}, quantize_cases),
        ({*SHAPES, "gate_up+swiglu"}, lambda: product_cases(options.sweep, options.rows)),
    ]
    results: list[dict[str, str]] = []
    with torch.inference_mode():
        for names, make in groups:
            if options.only and not names & set(options.only):
                continue
            for case in make():
                if options.only and case.operation not in options.only:
                    continue
                results += measure(case, options.repeats, facts, options.out)
    print("\nfastest")
    for key, rows in grouped(results).items():
        best = min(rows, key=microseconds_of)
        first = f"first {rows[0]['us']}, floor {best['floor_us']}"
        print(*key, best["variant"], best["us"], "us;", first)
    print("\ntables of kernels/routes.py")
    for line in earned(results):
        print(line)


def grouped(results: list[dict[str, str]]) -> dict[tuple[str, str], list[dict[str, str]]]:
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in results:
        groups.setdefault((row["operation"], row["rows"]), []).append(row)
    return groups


def microseconds_of(row: dict[str, str]) -> float:
    return float(row["us"])


def earned(results: list[dict[str, str]]) -> Iterator[str]:
    """Table rows of tiles at least 3 % faster than the library.

    Products before a norm count by their parts; what the norm pays for adding them up is measured
    with it (`add_rms_norm`, "fp32 parts") and added here.
    """
    norms = {(row["rows"], row["variant"]): microseconds_of(row) for row in results
             if row["operation"] == "add_rms_norm"}  # fmt: skip
    for (operation, count), rows in grouped(results).items():
        shape = operation.removesuffix("+swiglu")
        if shape not in SHAPES or operation == "gate_up":
            continue
        library = min(microseconds_of(row) for row in rows if row["variant"].startswith("cublas"))
        times: dict[str, float] = {}
        for row in rows:
            kind, _, tile = row["variant"].partition(" ")
            cost = microseconds_of(row)
            if kind == "parts" and operation in ("attn_out", "down"):
                splits = tile.split("x")[2]
                more = norms.get((count, f"triton, {splits} fp32 parts"), 0.0)
                cost += max(0.0, more - norms.get((count, "triton"), more))
            elif kind != "skinny":
                continue
            times[tile] = min(cost, times.get(tile, cost))
        if not times:
            continue
        tile, cost = min(times.items(), key=lambda item: item[1])
        verdict = f"{cost:.1f} us, library {library:.1f}"
        if cost < 0.97 * library:
            *numbers, uses_tma = (int(value) for value in tile.split("x"))
            arguments = ", ".join([*map(str, numbers), str(bool(uses_tma))])
            sizes = ", ".join([count, *map(str, SHAPES[shape])])
            yield f"({sizes}): Tile({arguments}),  # {operation} {verdict}"
        else:
            yield f"# {operation} {count}: the library stays, {tile} {verdict}"


def measure(
    case: Case, repeats: int, facts: dict[str, str], out: Path
) -> list[dict[str, str]]:
    """Time a case's variants and append them to the results."""
    print(f"{case.operation}, {case.rows} rows, floor {case.floor_us:.1f} us", flush=True)
    rows = []
    for variant in case.variants:
        times = microseconds(variant.call, case.copies, repeats)
        low, _, _, high = statistics.quantiles(times, n=5)
        median = statistics.median(times)
        error = "" if variant.error is None else f"{variant.error:.2e}"
        rows.append(
            {
                "operation": case.operation, "variant": variant.name, "rows": str(case.rows),
                "us": f"{median:.2f}", "us_p20": f"{low:.2f}", "us_p80": f"{high:.2f}",
                "floor_us": f"{case.floor_us:.2f}", "of_floor": f"{case.floor_us / median:.3f}",
                "error": error, "copies": str(case.copies), "repeats": str(repeats), **facts,
            }
        )  # fmt: skip
        print(
            f"  {variant.name:32s} {median:9.2f} us  {case.floor_us / median:6.1%} of floor  "
            f"error {error}",
            flush=True,
        )
    is_new = not out.exists()
    with out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
    return rows


if __name__ == "__main__":
    main()
