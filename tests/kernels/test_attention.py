"""The attention kernels against fp64, on awkward passes: interpreter on a CPU, compiler on a GPU.

Tiles are small so that a few keys already make several steps; bf16 is left to the compiler, the
interpreter computes it wrongly.
"""

import math
from dataclasses import replace

import pytest
import torch

from kernels import attention_mass as mass_file
from kernels import ops, skinny_gemm
from kernels import scheduled_attention as attention_file
from kernels.attention_mass import add_attention_mass
from kernels.configs_attention import Tile
from kernels.scheduled_attention import scheduled_attention
from tests.kernels.attention_cases import (
    DEVICE,
    assert_as_good_as_torch,
    draft,
    exact,
    make_case,
    torch_case,
    verify,
)

DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if DEVICE.type == "cuda" else [])
SMALL = Tile(keys=16, warps=4, stages=2)
# name → queries, options of make_case, query block
CASES = {
    "one row, one key": ([draft(1, 1)], {}),
    "63 rows, 100 keys": ([draft(63, 100)], {}),
    "100 rows, 37 keys": ([draft(100, 37)], {}),
    "144 rows": ([draft(144, 50, wanted=64)], {}),
    "144 rows, straight tail": ([draft(144, 50, wanted=64)], {"tail": False}),
    "two blocks and a tail": ([draft(150, 35)], {"block_size": 144}),
    "ragged": ([draft(1, 70), draft(40, 17), draft(7, 64)], {"block_size": 16}),
    "grouped heads": ([draft(20, 45), draft(3, 9)], {"heads": 6, "kv_heads": 2}),
    "a group of 7": ([draft(11, 30)], {"heads": 7, "kv_heads": 1}),
    "programs that share a block": ([draft(144, 50, wanted=64)], {"most_rows": 32}),
    "groups that share a block": ([draft(30, 20)], {"heads": 7, "kv_heads": 1, "most_rows": 16}),
    "a group with a tail": ([draft(75, 20)], {"heads": 4, "kv_heads": 2, "block_size": 72}),
    "heads of 12": ([draft(20, 33)], {"size": 12}),
    "views": ([verify(4, 2, 5, 40)], {}),
    "views, grouped": ([verify(4, 2, 5, 40)], {"heads": 6, "kv_heads": 2}),
    "views in a tail": ([verify(9, 5, 65, 200)], {"heads": 1, "kv_heads": 1, "keys": 64}),
    "views in a straight tail": (
        [verify(9, 5, 65, 200)],
        {"heads": 1, "kv_heads": 1, "keys": 64, "tail": False},
    ),
    "mixed phases": ([draft(20, 33), verify(3, 2, 4, 61), draft(1, 80), verify(0, 1, 1, 5)], {}),
    "nothing searched": ([verify(5, 2, 0, 30)], {}),
    # keys in one run of slots, copied tile by tile: whole tiles, and a last one that is moved back
    "a run": ([draft(63, 100)], {"is_run": True}),
    "a run of whole tiles": ([draft(20, 64)], {"is_run": True}),
    "runs, ragged": (
        [draft(1, 70), draft(40, 17), draft(7, 64)],
        {"block_size": 16, "is_run": True},
    ),
    "a run, 144 rows": ([draft(144, 50, wanted=64)], {"is_run": True}),
    "a run, grouped": ([draft(20, 45), draft(3, 19)], {"heads": 6, "kv_heads": 2, "is_run": True}),
    "a run, views": ([verify(4, 2, 5, 40)], {"is_run": True}),
    "runs, mixed phases": ([draft(20, 33), verify(3, 2, 4, 61), draft(1, 80)], {"is_run": True}),
    "a run, views in a tail": (
        [verify(9, 5, 65, 200)],
        {"heads": 1, "kv_heads": 1, "keys": 64, "is_run": True},
    ),
    "a run too short": ([draft(3, 9), draft(5, 40)], {"is_run": True}),
    "a run, heads of 12": ([draft(20, 33)], {"size": 12, "is_run": True}),
}
RUNS = [name for name in CASES if "run" in name]


@pytest.fixture(autouse=True)
def nothing_is_left_unwritten(monkeypatch):
    """Every buffer that the kernels allocate starts as NaN."""

    empty = torch.empty

    def poisoned(*arguments, **options):
        made = empty(*arguments, **options)
        return made.fill_(math.nan) if made.is_floating_point() else made

    monkeypatch.setattr(torch, "empty", poisoned)


def case_named(name, dtype=torch.float32):
    queries, options = CASES[name]
    options = dict(options)
    keys, is_transposed = options.pop("keys", 16), options.pop("tail", True)
    most_rows = options.pop("most_rows", SMALL.most_rows)
    tile = replace(
        SMALL, keys=keys, is_tail_transposed=is_transposed, most_rows=most_rows
    )
    return make_case(queries, dtype=dtype, **options), tile


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_attention_equals_fp64_as_well_as_torch_does(name, dtype):
    case, tile = case_named(name, dtype)
    true_out, true_lse, _ = exact(case)
    torch_out, torch_lse, _ = torch_case(case)
    for splits in (1, 3):
        out, lse = scheduled_attention(
            case.q, case.keys, case.values, case.schedule, splits, tile
        )
        assert out.dtype == dtype and lse.dtype == torch.float32
        assert_as_good_as_torch(f"out in {splits}", out, torch_out, true_out)
        assert_as_good_as_torch(f"lse in {splits}", lse, torch_lse, true_lse)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_door_takes_the_tile_of_the_table(name, dtype):
    case, _ = case_named(name, dtype)
    true_out, true_lse, true_mass = exact(case)
    torch_out, torch_lse, torch_mass = torch_case(case)
    out, lse = ops.scheduled_attention(case.q, case.keys, case.values, case.schedule, "triton")
    assert_as_good_as_torch("out", out, torch_out, true_out)
    assert_as_good_as_torch("lse", lse, torch_lse, true_lse)
    if torch_mass is not None:
        mass = ops.attention_mass(case.q, lse, case.keys, case.schedule, "triton")
        assert_as_good_as_torch("mass", mass, torch_mass, true_mass)
        wants = torch.tensor([float(query.wants_mass) for query in case.queries])
        torch.testing.assert_close(mass.sum(1).cpu(), wants, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", RUNS)
def test_keys_in_runs_give_what_pages_give(name, monkeypatch):
    """To the last digits: a last tile that is moved back adds up in another order."""
    case, tile = case_named(name)
    asked = []
    monkeypatch.setattr(
        attention_file, "descriptor", lambda *a: asked.append(a) or skinny_gemm.descriptor(*a)
    )
    found = scheduled_attention(case.q, case.keys, case.values, case.schedule, 2, tile)
    assert len(asked) == (0 if "too short" in name or "12" in name else 2)
    pages = replace(case.schedule, run_keys=0)
    expected = scheduled_attention(case.q, case.keys, case.values, pages, 2, tile)
    for pair in zip(found, expected, strict=True):
        torch.testing.assert_close(*pair, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("tile", [(16, Tile(16, 4, 1)), (32, Tile(64, 4, 2))], ids=str)
def test_mass_of_several_layers_adds_up_in_place(tile):
    case, _ = case_named("mixed phases")
    other = make_case(case.queries, seed=1)
    heads = case.q.shape[1]
    total = torch.zeros(4, heads, case.schedule.key_slots_BK.shape[1], device=DEVICE)
    expected = torch.zeros(total.shape[::2], dtype=torch.float64)
    for layer in (case, other):
        true_lse = exact(layer)[1].float().to(DEVICE)
        add_attention_mass(layer.q, true_lse, layer.keys, layer.schedule, total, tile)
        expected += exact(layer)[2] / 2
    mean = total.sum(1).cpu().double() / (2 * heads)
    torch.testing.assert_close(mean, expected, rtol=1e-5, atol=1e-7)


def test_mass_through_the_door_adds_what_the_reference_adds():
    case, _ = case_named("grouped heads")
    _, lse, _ = torch_case(case)
    totals = {}
    for impl in ops.IMPLS:
        keys = case.keys.nan_to_num() if impl == "torch" else case.keys
        shape = (2, 2, case.schedule.key_slots_BK.shape[1])
        totals[impl] = torch.full(shape, 0.5, device=DEVICE)
        ops.add_attention_mass(case.q, lse, keys, case.schedule, totals[impl], impl)
    torch.testing.assert_close(totals["triton"], totals["torch"], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="total must be contiguous"):
        ops.add_attention_mass(
            case.q, lse, case.keys, case.schedule, totals["torch"].transpose(0, 1), "triton"
        )


def test_padding_blocks_padding_rows_and_sequences_without_keys_are_defined():
    """As a CUDA graph pads: 3 rows of a sequence without keys, then blocks of 0 rows."""
    case = make_case([draft(10, 40), draft(3, 40)], block_size=16)
    alone = make_case([draft(10, 40)], block_size=16)
    schedule = case.schedule
    blocks = torch.tensor(
        [[0, 1, 0, 0], [0, 10, 0, 0], [10, 3, 0, 0]], dtype=torch.int32, device=DEVICE
    )
    padded = replace(
        schedule,
        key_count_B=torch.tensor([40, 0], device=DEVICE),
        block_sequence=blocks[0], block_first=blocks[1], block_rows=blocks[2],
        mass_weight_BP=schedule.mass_weight_BP * torch.tensor([[1.0], [0.0]], device=DEVICE),
    )  # fmt: skip
    true_out, true_lse, _ = exact(case)
    for splits in (1, 2):
        out, lse = scheduled_attention(case.q, case.keys, case.values, padded, splits, SMALL)
        torch.testing.assert_close(out[:10].cpu().double(), true_out[:10], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(lse[:10].cpu().double(), true_lse[:10], rtol=1e-5, atol=1e-6)
        assert (out[10:] == 0).all() and (lse[10:] == -math.inf).all()
    mass = mass_file.attention_mass(case.q, lse, case.keys, padded)
    torch.testing.assert_close(mass.sum(1).cpu(), torch.tensor([1.0, 0.0]))
    assert alone.schedule.block_rows.tolist() == [10]


def test_a_row_that_sees_nothing_gives_zero_and_no_nan():
    """All keys searched at rank 1, none in the cache for rank 1: a state no strategy asks for."""
    case = make_case([verify(2, 1, 2, 20)], block_size=16)
    none = torch.zeros_like(case.schedule.key_until_BK)
    hidden = replace(
        case.schedule, key_until_BK=none, key_row_BK=torch.full_like(case.schedule.key_row_BK, -1),
        key_mixed_BT=torch.ones_like(case.schedule.key_mixed_BT),
    )  # fmt: skip
    for splits in (1, 2):
        out, lse = scheduled_attention(case.q, case.keys, case.values, hidden, splits, SMALL)
        assert (out == 0).all() and (lse == -math.inf).all()


def test_very_low_and_very_high_scores_stay_finite():
    """The running maximum starts at a floor that no score lies under."""
    case = make_case([draft(5, 40)], spread=1e4)
    true_out, true_lse, _ = exact(case)
    for sign in (1, -1):
        turned = replace(case, q=case.q * sign)
        out, lse = scheduled_attention(
            turned.q, case.keys, case.values, case.schedule, 2, SMALL
        )
        assert out.isfinite().all() and lse.isfinite().all()
        if sign == 1:  # scores of 1e8 leave fp32 a few units: compare the sums' size only
            torch.testing.assert_close(lse.cpu().double(), true_lse, rtol=1e-5, atol=0)
            assert out.cpu().abs().max() <= true_out.abs().max() * 1.01


def test_the_same_bits_in_any_batch_with_the_same_number_of_parts():
    queries = [draft(20, 70), draft(33, 90), verify(3, 2, 3, 25)]
    together = make_case([*queries[:2]], block_size=16)
    alone = make_case([queries[0]], block_size=16)
    slots = together.schedule.key_slots_BK[0, :70]
    own = alone.schedule.key_slots_BK[0, :70]
    alone.keys[own], alone.values[own] = together.keys[slots], together.values[slots]
    for splits in (1, 3):
        both = scheduled_attention(
            together.q, together.keys, together.values, together.schedule, splits, SMALL
        )
        one = scheduled_attention(
            together.q[:20], alone.keys, alone.values, alone.schedule, splits, SMALL
        )
        assert torch.equal(both[0][:20], one[0]) and torch.equal(both[1][:20], one[1])


def test_queries_may_be_a_view_with_other_strides():
    case = make_case([draft(9, 30)])
    wide = torch.full((9, 7, 32), math.nan, device=DEVICE)
    wide[:, 1:5] = case.q
    out, lse = ops.scheduled_attention(
        wide[:, 1:5], case.keys, case.values, case.schedule, "triton"
    )
    expected = ops.scheduled_attention(case.q, case.keys, case.values, case.schedule, "triton")
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: {"q": c.q.double()}, "takes float16, bfloat16 or float32"),
        (lambda c: {"keys": c.keys.half()}, "must share one dtype"),
        (lambda c: {"values": c.values.transpose(0, 1).contiguous().transpose(0, 1)},
         "the same strides"),
        (lambda c: {"q": torch.zeros(c.q.numel() + 1, device=DEVICE)[1:].view(c.q.shape)},
         "address modulo 16 4"),
        (lambda c: {"schedule": replace(c.schedule, block_size=20)}, "query blocks must hold"),
    ],
)  # fmt: skip
def test_what_the_kernel_cannot_take_is_one_sentence(spoil, message):
    case = make_case([draft(5, 20)])
    given = {"q": case.q, "keys": case.keys, "values": case.values, "schedule": case.schedule}
    given |= spoil(case)
    with pytest.raises(ValueError, match=message):
        ops.scheduled_attention(
            given["q"], given["keys"], given["values"], given["schedule"], "triton"
        )
