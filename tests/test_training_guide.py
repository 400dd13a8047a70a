"""The guide's training: next tokens, causal attention, and the export as transformers' Llama."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.packed_batch import packed
from training.guide import (
    GUIDE_SHAPE,
    PROMPT_WEIGHT,
    CausalTwin,
    decode,
    export_guide,
    held_out_losses,
    load_guide_weights,
    next_tokens,
)
from training.model import ModelConfig, local_attention
from training.stream import ChatTokenizer, Shard, pack
from training.trainer import TrainConfig, Trainer, to_torch

TINY = ModelConfig(
    d_model=64, n_layers=2, n_heads=2, n_kv_heads=1, mlp_hidden_size=96, vocab_size=50
)
TOKENIZER = "assets/tiny/tokenizer.json"


def twin(config: ModelConfig = TINY) -> CausalTwin:
    model = CausalTwin(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


def two_segments(total: int = 12):
    """[11 12 | 13 14 15 | 0] with a prompt of 2 and an answer of 3, then a document [21 22 23]."""
    shard = Shard(
        0,
        tokens=np.array([11, 12, 13, 14, 15, 0, 21, 22, 23], np.uint16),
        lengths=np.array([6, 3], np.int32),
        answer_starts=np.array([2, 0], np.int32),
        answer_ends=np.array([5, 3], np.int32),
        domains=np.array([0, 5], np.int8),
    )
    return to_torch(pack(shard, total, 4)[0], pin=False)


def test_what_is_learnt_is_the_next_token_of_the_same_segment():
    learnt = next_tokens(two_segments(), 5, 12, torch.Generator())
    weight = dict(zip(learnt.rows.tolist(), learnt.weights.tolist(), strict=True))
    target = dict(zip(learnt.rows.tolist(), learnt.targets.tolist(), strict=True))
    # rows 5 and 8 are the last of their segments, 9 … 11 are junk
    assert {row for row, value in weight.items() if value} == {0, 1, 2, 3, 4, 6, 7}
    assert [target[row] for row in (0, 1, 2, 3, 4, 6, 7)] == [12, 13, 14, 15, 0, 22, 23]
    # 12 is prompt, 0 is padding, everything else is answer or document
    assert [weight[row] for row in (0, 1, 2, 3, 4, 6, 7)] == pytest.approx(
        [PROMPT_WEIGHT, 1, 1, 1, 0.2, 1, 1]
    )
    assert torch.equal(learnt.tokens, two_segments().tokens)


def test_local_attention_is_causal_across_block_borders():
    lengths = [300, 400, 512, 37]
    _, cu_seqlens, segments = packed(lengths)
    q, k, v = torch.randn(3, sum(lengths), 2, 8, generator=torch.Generator().manual_seed(0))
    parts = zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True)
    expected = []
    for part_q, part_k, part_v in parts:
        scores = torch.einsum("qhd,khd->hqk", part_q, part_k) / 8**0.5
        later = torch.ones(len(part_q), len(part_q), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        expected.append(torch.einsum("hqk,khd->qhd", weights, part_v))
    torch.testing.assert_close(
        local_attention(q, k, v, cu_seqlens, segments, is_causal=True),
        torch.cat(expected),
        rtol=1e-4,
        atol=1e-5,
    )


def test_export_is_transformers_llama(tmp_path):
    from transformers import LlamaForCausalLM

    model = twin()
    files = export_guide(model, tmp_path, ChatTokenizer(TOKENIZER), torch.float32)
    assert [file.name for file in files] == ["model.safetensors", "config.json"]
    network = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.randint(0, 50, (33,), generator=torch.Generator().manual_seed(2))
    ours = model.logits(model.hidden(ids.int(), *packed([33])))
    torch.testing.assert_close(ours, network(ids[None]).logits[0], rtol=1e-4, atol=1e-5)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["eos_token_id"], config["mask_token_id"]) == ([0, 4], 5)


def test_export_comes_back_and_is_about_8_mb(tmp_path):
    model = CausalTwin(GUIDE_SHAPE)
    model.initialize(0)
    weights, _ = export_guide(model, tmp_path, ChatTokenizer(TOKENIZER))
    # 4096 * 256 + 5 * (256*256*2 + 2*256*128 + 3*256*512) + 11 * 256 = 4,000,512
    assert sum(p.numel() for p in model.parameters()) == 4_000_512
    assert 8_001_024 < weights.stat().st_size < 8_010_000
    loaded = load_guide_weights(model, tmp_path)
    assert all(
        torch.equal(loaded[name], tensor.bfloat16()) for name, tensor in model.state_dict().items()
    )


def test_it_learns_to_count():
    """Segments [start, a, a + 1, a + 2, a + 3, end]: only a itself is a surprise, or the end."""
    rng = np.random.default_rng(0)
    config = TrainConfig(tokens_per_step=600, compile=False, warmup=2, masked_share=1.0)
    one_layer = replace(TINY, n_layers=1)
    trainer = Trainer(one_layer, config, torch.device("cpu"), CausalTwin, next_tokens)

    def batch(count: int = 100):
        rows = [[1, a, a + 1, a + 2, a + 3, 4] for a in rng.integers(10, 20, count)]
        shard = Shard(
            0,
            tokens=np.array(rows, np.uint16).flatten(),
            lengths=np.full(count, 6, np.int32),
            answer_starts=np.full(count, 2, np.int32),
            answer_ends=np.full(count, 6, np.int32),
            domains=np.zeros(count, np.int8),
        )
        return to_torch(pack(shard, 6 * count, count + 1)[0], pin=False)

    losses = [float(trainer.step(batch(), 0.0).loss) for _ in range(35)]
    assert losses[0] == pytest.approx(np.log(50), rel=0.1)
    # a is drawn among ten (weight 0.1 of 4.1); 4 follows where a + 3 stands, which a says
    assert losses[-1] < 0.35
    assert held_out_losses(trainer.model, batch())["word"] < 0.2


def test_greedy_decoding_takes_the_argmax_of_a_full_forward_until_an_end_token():
    chat = ChatTokenizer(TOKENIZER)
    model = twin(replace(TINY, vocab_size=4096))
    prompts = [[1, 300, 301], [1, 44, 45, 46, 47]]
    places = 128
    from training.corruption import PackedBatch

    ids = [token for prompt in prompts for token in [*prompt, *[chat.mask] * places]]
    lengths = [len(prompt) + places for prompt in prompts]
    positions, cu_seqlens, segments = packed(lengths)
    starts = torch.tensor([3, 5])
    batch = PackedBatch(
        torch.tensor(ids).int(), positions, segments, cu_seqlens[:3], starts, starts + places,
        torch.zeros(2), torch.zeros(2, dtype=torch.bool),
    )  # fmt: skip
    decoded = decode(model, batch, chat)
    for prompt, row in zip(prompts, decoded.tokens.tolist(), strict=True):
        text = list(prompt)
        for _ in range(6):
            logits = model.logits(model.hidden(torch.tensor(text).int(), *packed([len(text)])))
            logits[:, chat.mask] = -torch.inf
            text.append(int(logits[-1].argmax()))
        assert row[:6] == text[len(prompt) :]
