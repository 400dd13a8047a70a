"""The attention kernels on a CUDA device at full size: LLaDA-8B's shape, graphs, races.

The equality tests of `test_attention.py` run on the real compiler too when a GPU is there; these
are what an interpreter can't show.
"""

import math
from dataclasses import replace

import pytest
import torch

from flash_dllm.pass_frame import block_table
from kernels import ops
from kernels.attention_mass import attention_mass
from kernels.schedule import most_blocks
from kernels.scheduled_attention import scheduled_attention
from tests.kernels.attention_cases import (
    assert_as_good_as_torch,
    draft,
    make_case,
    torch_case,
    verify,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SHAPES = {
    "LLaDA-8B": {"heads": 32, "kv_heads": 32, "size": 128},
    "grouped by 7": {"heads": 28, "kv_heads": 4, "size": 128},
    "embedded": {"heads": 6, "kv_heads": 6, "size": 64},
}
PASSES = {
    "draft 144": [draft(144, 1536, wanted=64)],
    "draft 128": [draft(128, 1536, wanted=64)],
    "verify 128": [verify(3, 3, 61, 1536)],
    "verify 32": [verify(13, 3, 8, 1536)],
    "a verify pass of 144": [verify(19, 3, 61, 1537)],
    "ragged": [draft(144, 1536, wanted=64), verify(13, 3, 8, 700), draft(1, 1), draft(100, 333)],
    "full": [draft(800, 800, wanted=64)],
}


def exact(case):
    """fp64 by the reference, which `test_attention.py` holds to `visible_slots`."""
    wide = replace(
        case, q=case.q.double(), keys=case.keys.double(), values=case.values.double()
    )
    return (None if part is None else part.cpu() for part in torch_case(wide))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PASSES)
def test_full_size_is_as_good_as_torch(name, shape, dtype):
    case = make_case(PASSES[name], dtype=dtype, **SHAPES[shape])
    true_out, true_lse, true_mass = exact(case)
    torch_out, torch_lse, torch_mass = torch_case(case)
    for splits in (None, 1, 4):
        out, lse = scheduled_attention(case.q, case.keys, case.values, case.schedule, splits)
        assert_as_good_as_torch(f"out in {splits}", out, torch_out, true_out)
        assert_as_good_as_torch(f"lse in {splits}", lse, torch_lse, true_lse)
    if torch_mass is not None:
        mass = attention_mass(case.q, lse, case.keys, case.schedule)
        assert_as_good_as_torch("mass", mass, torch_mass, true_mass)


@pytest.mark.parametrize("name", ["draft 144", "verify 128", "a verify pass of 144", "ragged"])
@pytest.mark.parametrize("tile_rows", [16, 32, 64, 128, 144])
def test_every_tile_of_this_gpu_repeats_itself_bit_by_bit(name, tile_rows):
    """A race between copies and products would show as a difference, if not as a wrong number."""
    case = make_case(PASSES[name] * 4, dtype=torch.bfloat16, block_size=tile_rows,
                     **SHAPES["LLaDA-8B"])  # fmt: skip
    true_out, true_lse, _ = exact(case)
    torch_out, torch_lse, _ = torch_case(case)
    first = scheduled_attention(case.q, case.keys, case.values, case.schedule)
    assert_as_good_as_torch("out", first[0], torch_out, true_out)
    assert_as_good_as_torch("lse", first[1], torch_lse, true_lse)
    for _ in range(50):
        again = scheduled_attention(case.q, case.keys, case.values, case.schedule)
        assert torch.equal(again[0], first[0]) and torch.equal(again[1], first[1])
    if case.schedule.mass_rows_BP is not None:
        mass = attention_mass(case.q, first[1], case.keys, case.schedule)
        for _ in range(20):
            assert torch.equal(attention_mass(case.q, first[1], case.keys, case.schedule), mass)


def test_one_graph_serves_passes_of_other_lengths():
    """Everything but the shapes is data: blocks, key counts, pages, codes, intervals."""
    options = {"dtype": torch.float16, "block_size": 64, **SHAPES["embedded"]}
    cases = [
        make_case([verify(9, 3, 8, 300), verify(2, 1, 12, 300)], seed=0, **options),
        make_case([verify(1, 1, 20, 284), verify(3, 5, 2, 296)], seed=1, **options),
    ]
    rows = max(len(case.q) for case in cases)
    keys = max(case.schedule.key_slots_BK.shape[1] for case in cases)
    blocks = most_blocks(rows, 3, 64)

    def padded(case):
        """Padding rows belong to a third sequence without keys."""
        schedule = case.schedule
        counts = torch.tensor([q.rows for q in case.queries] + [rows - len(case.q)])
        table = torch.from_numpy(block_table(counts.numpy(), 64, blocks)).cuda()

        def grown(tensor, width, value=0):
            out = torch.full((3, width), value, dtype=tensor.dtype, device="cuda")
            out[:2, : tensor.shape[1]] = tensor
            return out

        return replace(
            schedule,
            key_slots_BK=grown(schedule.key_slots_BK, keys),
            key_count_B=torch.cat((schedule.key_count_B, schedule.key_count_B.new_zeros(1))),
            block_sequence=table[0], block_first=table[1], block_rows=table[2],
            page_table_BN=grown(schedule.page_table_BN, -(-keys // 16)),
            row_code_R=torch.nn.functional.pad(schedule.row_code_R, (0, rows - len(case.q))),
            key_from_BK=grown(schedule.key_from_BK, keys),
            key_until_BK=grown(schedule.key_until_BK, keys),
            key_row_BK=grown(schedule.key_row_BK, keys, -1),
            key_mixed_BT=grown(schedule.key_mixed_BT, -(-keys // 128) * 2, 1),
        )  # fmt: skip

    fixed = padded(cases[0])
    q = torch.zeros((rows, *cases[0].q.shape[1:]), dtype=torch.float16, device="cuda")
    cached = [torch.zeros_like(cases[0].keys) for _ in range(2)]
    scheduled_attention(q, *cached, fixed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = scheduled_attention(q, *cached, fixed)
    for case in cases:
        schedule = padded(case)
        for name in ("key_count_B", "block_sequence", "block_first", "block_rows",
                     "page_table_BN", "row_code_R", "key_from_BK", "key_until_BK", "key_row_BK",
                     "key_mixed_BT"):  # fmt: skip
            getattr(fixed, name).copy_(getattr(schedule, name))
        n_real = len(case.q)
        q[:n_real] = case.q
        for static, tensor in zip(cached, (case.keys, case.values), strict=True):
            static.fill_(math.nan)
            static[: len(tensor)] = tensor
        graph.replay()
        true_out, true_lse, _ = exact(case)
        torch_out, torch_lse, _ = torch_case(case)
        assert_as_good_as_torch("out", out[:n_real], torch_out, true_out)
        assert_as_good_as_torch("lse", lse[:n_real], torch_lse, true_lse)
        assert (out[n_real:] == 0).all() and (lse[n_real:] == -math.inf).all()


def test_slots_beyond_two_to_the_31_elements():
    """524,288 slots of 32 heads × 128 are 2^31 elements; the pass reads beyond them."""
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB of free GPU memory")
    case = make_case([draft(144, 300, wanted=64)], dtype=torch.bfloat16, **SHAPES["LLaDA-8B"])
    shift = 2**31 // (32 * 128)
    far = []
    for tensor in (case.keys, case.values):
        large = torch.empty((shift + len(tensor), *tensor.shape[1:]), dtype=tensor.dtype,
                            device="cuda")  # fmt: skip
        large[shift:] = tensor
        far.append(large)
    schedule = replace(
        case.schedule, page_table_BN=case.schedule.page_table_BN + shift // 16,
        key_slots_BK=case.schedule.key_slots_BK + shift,
    )  # fmt: skip
    near = scheduled_attention(case.q, case.keys, case.values, case.schedule)
    got = scheduled_attention(case.q, *far, schedule)
    assert torch.equal(got[0], near[0]) and torch.equal(got[1], near[1])
    assert torch.equal(
        attention_mass(case.q, near[1], far[0], schedule),
        attention_mass(case.q, near[1], case.keys, case.schedule),
    )


def test_the_door_offers_triton_here_and_auto_takes_it():
    assert ops.available_impls("cuda") == ("torch", "triton")
    assert ops.resolve_impl("auto", "cuda") == "triton"
