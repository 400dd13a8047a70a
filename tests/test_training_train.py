"""Stream, optimiser, trainer, checkpoint and export on a tiny model on the CPU."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from tests.training_items import make_item
from training.export import export, load_weights, split_parts
from training.model import LLaDA, ModelConfig
from training.optimizer import StackedMuon, learning_rate_factor
from training.stream import (
    DOCUMENT,
    DOMAINS,
    Shard,
    answer_part,
    join,
    pack,
    segment_places,
)
from training.trainer import TrainConfig, Trainer, to_torch

TINY = ModelConfig(
    d_model=64, n_layers=1, n_heads=1, n_kv_heads=1, mlp_hidden_size=96, vocab_size=64
)
TOKENS = 1024
CONFIG = TrainConfig(tokens_per_step=TOKENS, compile=False, warmup=2, masked_share=1.0)


def tiny_shard(index: int) -> Shard:
    """Segments of one prompt token that tells which token the answer repeats."""
    rng = np.random.default_rng(index)
    count = 100
    answers = rng.integers(10, 20, count)
    tokens = np.repeat(answers, 48).astype(np.uint16)
    return Shard(
        index,
        tokens=tokens,
        lengths=np.full(count, 48, np.int32),
        answer_starts=np.full(count, 1, np.int32),
        answer_ends=np.full(count, 48, np.int32),
        domains=np.zeros(count, np.int8),
    )


def tiny_batch(step: int):
    return to_torch(pack(tiny_shard(step), TOKENS, segment_places(TOKENS))[0], pin=False)


def test_loss_falls():
    trainer = Trainer(TINY, CONFIG, torch.device("cpu"))
    losses = [float(trainer.step(tiny_batch(step), 0.0).loss) for step in range(40)]
    assert losses[0] == pytest.approx(np.log(64), rel=0.05)
    assert np.mean(losses[-5:]) < 0.5 * losses[0]


def test_resumed_run_has_the_same_next_losses_as_an_uninterrupted_one(tmp_path):
    whole = Trainer(TINY, CONFIG, torch.device("cpu"))
    for step in range(5):
        whole.step(tiny_batch(step), 0.0)
    whole.save(tmp_path, 12.5, 77, [tiny_shard(3)])
    expected = [float(whole.step(tiny_batch(step), 0.5).loss) for step in (5, 6, 7)]

    resumed = Trainer(TINY, CONFIG, torch.device("cpu"))
    next_shard, shards = resumed.load(tmp_path)
    assert (next_shard, resumed.step_number, resumed.earlier_seconds) == (77, 5, 12.5)
    assert resumed.tokens_seen == 5 * TOKENS
    assert np.array_equal(shards[0].tokens, tiny_shard(3).tokens)
    assert shards[0].tokens.dtype == np.uint16
    got = [float(resumed.step(tiny_batch(step), 0.5).loss) for step in (5, 6, 7)]
    assert got == expected


def test_losses_by_domain_name_only_what_is_there():
    trainer = Trainer(TINY, CONFIG, torch.device("cpu"))
    means = trainer.step(tiny_batch(0), 0.0).by_domain()
    assert means["word"] == means["all"]
    assert np.isnan(means["code"])


def test_export_round_trips_with_the_names_of_llada(tmp_path):
    model = LLaDA(TINY)
    model.initialize(3)
    files = export(model, tmp_path, torch.float32)
    tensors = load_weights(tmp_path)
    expected = model.state_dict()
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert [file.name for file in files] == [
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
        "config.json",
    ]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "llada"
    assert (config["mask_token_id"], config["eos_token_id"], config["pad_token_id"]) == (5, 0, 0)
    assert config["weight_tying"] is False
    assert config["vocab_size"] == config["embedding_size"] == 64


def test_full_size_export_is_in_parts_under_15_mib(tmp_path):
    files = export(LLaDA(ModelConfig()), tmp_path)
    assert max(file.stat().st_size for file in files) < 15 * 2**20
    assert len([file for file in files if file.suffix == ".safetensors"]) == 3


def test_parts_are_cut_in_order_when_the_limit_is_reached():
    assert split_parts({"a": 4, "b": 5, "c": 1}, limit=8) == [["a"], ["b", "c"]]


@pytest.mark.parametrize("shape", [(8, 8), (12, 8), (8, 12)])
def test_stacked_muon_steps_like_torch_muon(shape):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, *shape, generator=generator)
    ours = [torch.nn.Parameter(value.clone()) for value in values]
    theirs = [torch.nn.Parameter(value.clone()) for value in values]
    optimizers = [
        StackedMuon(ours, lr=0.1, momentum=0.9, weight_decay=0.2),
        torch.optim.Muon(theirs, lr=0.1, momentum=0.9, weight_decay=0.2, nesterov=True),
    ]
    for _ in range(3):
        gradients = torch.randn(3, *shape, generator=generator)
        for parameters, optimizer in zip((ours, theirs), optimizers, strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
    for our, their in zip(ours, theirs, strict=True):
        # orthogonalised in bf16
        torch.testing.assert_close(our, their, rtol=0.02, atol=0.004)


def test_rate_warms_up_stays_and_falls_to_nearly_zero():
    assert learning_rate_factor(0.0, 0, 200, 0.45) == pytest.approx(1 / 200)
    assert learning_rate_factor(0.55, 5000, 200, 0.45) == pytest.approx(1.0)
    assert learning_rate_factor(0.775, 5000, 200, 0.45) == pytest.approx(0.5)
    assert learning_rate_factor(1.0, 5000, 200, 0.45) == pytest.approx(0.002)


def test_packed_batch_lays_segments_end_to_end_and_junk_last():
    shard = Shard(
        0,
        tokens=np.arange(10, 22, dtype=np.uint16),
        lengths=np.array([5, 4, 3], np.int32),
        answer_starts=np.array([2, 1, 0], np.int32),
        answer_ends=np.array([4, 4, 3], np.int32),
        domains=np.array([0, 1, DOCUMENT], np.int8),
    )
    batch, count = pack(shard, 11, 6)
    assert count == 2
    assert batch.tokens.tolist() == [*range(10, 19), 0, 0]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1]
    assert batch.segments.tolist() == [0] * 5 + [1] * 4 + [2] * 2
    assert batch.cu_seqlens.tolist() == [0, 5, 9, 11, 11, 11, 11]
    assert batch.domains.tolist() == [0, 1, -1, -1, -1, -1]
    assert batch.answer_starts.tolist() == [2, 1, 2, 0, 0, 0]


def test_taken_segments_keep_their_tokens():
    shard = join([tiny_shard(0), tiny_shard(1)])
    order = np.random.default_rng(0).permutation(200)
    taken = shard.take(order)
    assert np.array_equal(taken.tokens.reshape(200, 48), shard.tokens.reshape(200, 48)[order])
    assert np.array_equal(taken.slice(3, 5).tokens, taken.tokens[3 * 48 : 5 * 48])


def test_answer_part_is_a_multiple_of_32_and_128_at_least_half_the_time():
    rng = np.random.default_rng(0)
    lengths = [answer_part(40, rng) for _ in range(1000)]
    assert set(lengths) == {64, 96, 128, 160}
    assert lengths.count(128) > 500
    assert {answer_part(150, rng) for _ in range(50)} == {160}
    assert answer_part(170, rng) == 192


def test_test_items_are_stable():
    assert make_item("word", random.Random(1)) == make_item("word", random.Random(1))
    assert "word" in DOMAINS
