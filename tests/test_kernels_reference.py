"""The torch truths against plain formulas, on awkward shapes."""

import math

import pytest
import torch

from flash_dllm.packing import pack
from flash_dllm.query import Query, Role
from kernels import ops, reference


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_rms_norm_of_a_row_of_threes_and_fours():
    # mean square (9 + 16) / 2 = 12.5
    out = reference.rms_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]), 0.0)
    assert out[0].tolist() == pytest.approx([3 / math.sqrt(12.5), 8 / math.sqrt(12.5)])


def test_rotate_by_a_quarter_turn_swaps_the_halves():
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    cos, sin = torch.zeros(1, 2), torch.ones(1, 2)
    assert reference.rotate(x, cos, sin)[0, 0].tolist() == [-3.0, -4.0, 1.0, 2.0]


@pytest.mark.parametrize("rows", [1, 63, 100])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_projection_writes_exactly_the_given_slots(rows, kv_heads):
    heads, size, d_model = 4, 8, 24
    hidden = random(rows, d_model)
    weight = random((heads + 2 * kv_heads) * size, d_model, seed=1)
    slots = torch.randperm(2 * rows, generator=torch.Generator().manual_seed(2))[:rows]
    keys = torch.full((2 * rows, kv_heads, size), math.nan, dtype=torch.float64)
    values = keys.clone()
    cos, sin = torch.ones(rows, size // 2).double(), torch.zeros(rows, size // 2).double()
    q = ops.project_and_cache(
        hidden, weight, None, None, cos, sin, slots, keys, values, heads, "torch"
    )
    expected = (hidden @ weight.T).view(rows, -1, size)
    torch.testing.assert_close(q, expected[:, :heads])
    torch.testing.assert_close(keys[slots], expected[:, heads : heads + kv_heads])
    torch.testing.assert_close(values[slots], expected[:, heads + kv_heads :])
    untouched = [slot for slot in range(2 * rows) if slot not in slots.tolist()]
    assert keys[untouched].isnan().all() and values[untouched].isnan().all()


def ragged(shapes):
    """A schedule of draft rows: (rows, length) per sequence, sequences 128 slots apart."""
    queries = []
    for handle, (rows, length) in enumerate(shapes):
        query = Query("draft", length, wants_mass=True)
        for position in range(rows):
            query.predict.append(position)
            query.add(1, position, position, Role.WINDOW)
        queries.append((handle, query))
    table = torch.arange(len(shapes) * 128).view(len(shapes), 128)
    return pack(queries, table, torch.device("cpu")).schedule


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("shapes", [[(1, 1)], [(63, 100)], [(1, 7), (63, 64), (20, 128)]], ids=str)
def test_attention_and_mass_equal_a_loop_over_sequences_and_heads(shapes, kv_heads):
    heads, size = 4, 8
    total = sum(rows for rows, _ in shapes)
    q = random(total, heads, size)
    keys = random(len(shapes) * 128, kv_heads, size, seed=1)
    values = random(len(shapes) * 128, kv_heads, size, seed=2)
    schedule = ragged(shapes)
    out, lse = ops.scheduled_attention(q, keys, values, schedule, "torch")
    mass = ops.attention_mass(q, lse, keys, schedule, "torch")
    start = 0
    for number, (rows, length) in enumerate(shapes):
        own = slice(number * 128, number * 128 + length)
        expected_mass = torch.zeros(length, dtype=torch.float64)
        for head in range(heads):
            kv = head // (heads // kv_heads)
            scores = q[start : start + rows, head] @ keys[own, kv].T / math.sqrt(size)
            weights = scores.softmax(-1)
            expected_mass += weights.mean(0) / heads
            torch.testing.assert_close(
                out[start : start + rows, head], weights @ values[own, kv]
            )
            torch.testing.assert_close(
                lse[start : start + rows, head], scores.logsumexp(-1)
            )
        torch.testing.assert_close(mass[number, :length], expected_mass)
        assert (mass[number, length:] == 0).all()
        start += rows


def test_swiglu_of_ones():
    # gate = up = 2, silu(2) * 2 summed over 3 hidden units
    out = reference.swiglu(torch.ones(1, 2), torch.ones(6, 2), torch.ones(2, 3))
    assert out[0].tolist() == pytest.approx([3 * 2 * 2 / (1 + math.exp(-2))] * 2)


def test_confidence_takes_the_lowest_id_on_ties_and_gives_the_mask_no_probability():
    logits = torch.tensor([[1.0, 2.0, 2.0, 9.0]])
    tokens, sure, other, other_p = reference.confidence(logits, excluded_id=3, alternatives=2)
    total = math.e + 2 * math.e**2
    assert tokens.tolist() == [1]
    assert sure.tolist() == pytest.approx([math.e**2 / total])
    assert sorted(other[0].tolist()) == [1, 2]
    assert other_p[0].tolist() == pytest.approx([math.e**2 / total] * 2)


def test_noise_moves_the_choice_but_not_the_reported_probability():
    logits = torch.tensor([[0.0, 1.0]])
    noise = torch.tensor([[5.0, 0.0]])
    tokens, sure, _, _ = reference.confidence(
        torch.cat((logits, torch.tensor([[0.0]])), 1), 2, torch.cat((noise, noise[:, :1]), 1)
    )
    assert tokens.tolist() == [0]
    assert sure.tolist() == pytest.approx([1 / (1 + math.e)])


def test_an_unknown_or_absent_implementation_is_refused():
    with pytest.raises(ValueError, match="impl must be one of"):
        ops.resolve_impl("cuda", "cpu")
    with pytest.raises(RuntimeError, match="use impl='torch'"):
        ops.resolve_impl("triton", "cpu")
    assert ops.resolve_impl("auto", "cpu") == "torch"
