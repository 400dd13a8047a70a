"""The training model: LLaDA's names, packed batches, and the gather of masked rows."""

from __future__ import annotations

import pytest
import torch

from tests.packed_batch import packed
from training.model import (
    ATTENTIONS,
    MAX_SEGMENT,
    GatherRows,
    LLaDA,
    ModelConfig,
    RMSNorm,
    local_attention,
)

TINY = ModelConfig(
    d_model=64, n_layers=2, n_heads=2, n_kv_heads=2, mlp_hidden_size=96, vocab_size=50
)


def tiny_model(config: ModelConfig = TINY) -> LLaDA:
    model = LLaDA(config)
    model.initialize(0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            # no zero weights, so that every part takes part
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


def test_state_dict_has_the_names_and_shapes_of_llada():
    shapes = {name: tuple(tensor.shape) for name, tensor in LLaDA(TINY).state_dict().items()}
    expected = {
        "model.transformer.wte.weight": (50, 64),
        "model.transformer.ln_f.weight": (64,),
        "model.transformer.ff_out.weight": (50, 64),
    }
    for layer in range(2):
        block = f"model.transformer.blocks.{layer}."
        for name in ("q_proj", "k_proj", "v_proj", "attn_out"):
            expected[f"{block}{name}.weight"] = (64, 64)
        expected[f"{block}attn_norm.weight"] = expected[f"{block}ff_norm.weight"] = (64,)
        expected[f"{block}ff_proj.weight"] = expected[f"{block}up_proj.weight"] = (96, 64)
        expected[f"{block}ff_out.weight"] = (64, 96)
    assert shapes == expected


def test_full_size_has_17_3_million_parameters():
    with torch.device("meta"):
        model = LLaDA(ModelConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 17_308_032


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_packed_forward_equals_one_by_one(kv_heads):
    config = ModelConfig(**{**TINY.__dict__, "n_kv_heads": kv_heads})
    model = tiny_model(config)
    lengths = [5, 1, 63, 100]
    tokens = torch.randint(0, 50, (sum(lengths),), generator=torch.Generator().manual_seed(2)).int()
    together = model.hidden(tokens, *packed(lengths))
    alone = torch.cat([model.hidden(part, *packed([len(part)])) for part in tokens.split(lengths)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_later_tokens_change_earlier_hidden_states_of_the_same_segment_only():
    model = tiny_model()
    tokens = torch.full((20,), 7, dtype=torch.int32)
    before = model.hidden(tokens, *packed([10, 10]))
    tokens[9] = 8
    after = model.hidden(tokens, *packed([10, 10]))
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[10:], after[10:])


def test_local_attention_is_exact_across_block_borders():
    lengths = [300, 400, 512, 37]
    _, cu_seqlens, segments = packed(lengths)
    q, k, v = torch.randn(3, sum(lengths), 2, 8, generator=torch.Generator().manual_seed(0))
    expected = []
    for part_q, part_k, part_v in zip(
        q.split(lengths), k.split(lengths), v.split(lengths), strict=True
    ):
        scores = torch.einsum("qhd,khd->hqk", part_q, part_k) / 8**0.5
        expected.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), part_v))
    assert max(lengths) <= MAX_SEGMENT
    torch.testing.assert_close(
        local_attention(q, k, v, cu_seqlens, segments), torch.cat(expected), rtol=1e-4, atol=1e-5
    )


def test_gathered_rows_have_the_gradient_of_indexing():
    hidden = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([4, 0, 3])
    assert torch.autograd.gradcheck(lambda x: GatherRows.apply(x, rows), hidden)


def test_rms_norm_squares_in_fp32_and_scales_after_the_cast():
    norm = RMSNorm(4, eps=1e-5)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    x = torch.tensor([[1.0, -2.0, 3.0, 0.5]], dtype=torch.bfloat16)
    # mean of squares (1 + 4 + 9 + 0.25) / 4 = 3.5625
    expected = (x.float() / 3.56251**0.5).bfloat16() * torch.tensor([1, 2, 3, 4]).bfloat16()
    assert torch.equal(norm(x), expected)


def test_loss_is_the_cross_entropy_of_a_dense_forward():
    model = tiny_model()
    lengths = [12, 8]
    tokens = torch.arange(20).int()
    rows, targets = torch.tensor([3, 15, 9]), torch.tensor([1, 2, 3])
    weights = torch.tensor([1.0, 2.0, 0.0])
    loss, losses = model(tokens, *packed(lengths), rows, targets, weights)
    logits = model.logits(model.hidden(tokens, *packed(lengths)))
    expected = torch.nn.functional.cross_entropy(logits[rows], targets, reduction="none")
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(loss, (expected[0] + 2 * expected[1]) / 3)


# torch's tracer makes an autograd.Function object itself and warns about it
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["local", "varlen"])
def test_forward_and_loss_are_one_graph_without_breaks(name):
    """Traced on the CPU with the public variable-length kernel too (its fake version)."""
    model = tiny_model()
    assert name in ATTENTIONS
    model.attention = name
    rows, targets, weights = torch.tensor([3, 15]), torch.tensor([1, 2]), torch.ones(2)
    arguments = (torch.arange(20).int(), *packed([12, 8]), rows, targets, weights)
    explanation = torch._dynamo.explain(model)
    if name == "varlen":
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fakes = [mode.from_tensor(argument) for argument in arguments]
            loss, _ = model(*fakes)
        assert loss.shape == ()
        return
    assert explanation(*arguments).graph_break_count == 0
