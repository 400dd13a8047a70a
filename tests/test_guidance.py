"""LLaDA's classifier-free guidance against two plain forwards, in float64."""

import math
from dataclasses import replace
from random import Random

import pytest
import torch

from flash_dllm.caches import CACHES, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.settings import Settings
from flash_dllm.strategies import Greedy, Llada
from flash_dllm.trace_json import from_json, to_json
from tests.hash_engine import HashEngine
from tests.random_model import MASK, PROMPT, plain_logits
from tests.recorded_run import END, LENGTH, START, blocks_of


def guided_logits(config, tensors, tokens, scale):
    """u + (s + 1)(c − u): the second text has a mask for every token given at the start."""
    masked = [MASK] * START + tokens[START:]
    conditional = plain_logits(config, tensors, tokens)
    unconditional = plain_logits(config, tensors, masked)
    logits = unconditional + (scale + 1) * (conditional - unconditional)
    logits[:, MASK] = -math.inf
    return logits


def generate(config, tensors, scale, steps, block, remasking, seed, noise=None):
    """`generate` of LLaDA's repository with cfg_scale."""
    tokens = PROMPT + [MASK] * LENGTH
    decided = []
    per_block = steps * block // LENGTH
    for start in range(START, END, block):
        for i in range(per_block):
            logits = guided_logits(config, tensors, tokens, scale)
            share = logits.softmax(-1)
            masks = [p for p in range(start, start + block) if tokens[p] == MASK]
            drawn = {p: logits[p] if noise is None else logits[p] + noise[p] for p in masks}
            best = {p: int(drawn[p].argmax()) for p in masks}
            sure = {p: float(share[p, best[p]]) for p in masks}
            if remasking == "random":
                sure = {p: Random(f"{seed} {p}").random() for p in masks}
            count = block // per_block + (i < block % per_block)
            chosen = sorted(masks, key=lambda p: -sure[p])[:count]
            for p in chosen:
                tokens[p] = best[p]
            decided.append([(p, best[p]) for p in chosen])
    return decided


@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
@pytest.mark.parametrize(("scale", "steps", "block"), [(0.5, 24, 8), (1.5, 10, 24), (4.0, 6, 12)])
def test_guidance_equals_lladas_published_loop(
    engine, small_config, small_tensors, scale, steps, block, remasking
):
    strategy = Llada(steps, remasking, cfg_scale=scale)
    trace = decode(engine, PROMPT, strategy, NoCache(), replace(blocks_of(block), seed=3))
    published = generate(small_config, small_tensors, scale, steps, block, remasking, 3)
    assert [list(step.accepted) for step in trace.steps] == published
    # one pass a step, which reads the text twice and predicts the window in both
    records = [record for step in trace.steps for record in step.passes]
    assert len(records) == steps
    assert {record.rows for record in records} == {2 * END}
    assert [r.predicted for r in records] == [2 * len(step.window) for step in trace.steps]
    assert from_json(to_json(trace)) == trace


def test_guidance_perturbs_tokens_with_the_same_noise(engine, small_config, small_tensors):
    noise = {}
    for position in range(START, END):
        g = torch.Generator().manual_seed(5 * 1_000_003 + position)
        uniform = torch.rand(small_config["vocab_size"], generator=g, dtype=torch.float64)
        noise[position] = (-0.8 * torch.log(-torch.log(uniform))).float().double()
    config = replace(blocks_of(8), temperature=0.8, seed=5)
    trace = decode(engine, PROMPT, Llada(cfg_scale=1.0), NoCache(), config)
    published = generate(small_config, small_tensors, 1.0, 24, 8, "low_confidence", 5, noise)
    assert [list(step.accepted) for step in trace.steps] == published


def test_the_recorded_confidences_and_alternatives_are_the_guided_ones(
    engine, small_config, small_tensors
):
    trace = decode(engine, PROMPT, Llada(cfg_scale=2.0), NoCache(), blocks_of(24))
    tokens = PROMPT + [MASK] * LENGTH
    share = guided_logits(small_config, small_tensors, tokens, 2.0).softmax(-1)
    for proposal in trace.steps[0].proposals:
        assert proposal.confidence == round(float(share[proposal.position].max()), 6)
        token, probability = proposal.alternatives[1]
        assert probability == round(float(share[proposal.position, token]), 6)


def test_without_guidance_it_is_the_plain_loop(engine):
    plain = decode(engine, PROMPT, Greedy(), NoCache(), blocks_of(8))
    none = decode(engine, PROMPT, Llada(cfg_scale=0.0), NoCache(), blocks_of(8))
    assert [step.proposals for step in none.steps] == [step.proposals for step in plain.steps]
    assert none.rows == plain.rows
    guided = decode(engine, PROMPT, Llada(cfg_scale=1.0), NoCache(), blocks_of(8))
    assert guided.token_ids != plain.token_ids
    assert (guided.passes, guided.rows) == (plain.passes, 2 * plain.rows)


def test_a_batch_is_guided_prompt_by_prompt(engine):
    prompts = [PROMPT, PROMPT[:5], PROMPT[2:]]
    strategy = Llada(steps=12, cfg_scale=1.0)
    together = decode_batch(engine, prompts, strategy, NoCache(), blocks_of(8), 2)
    alone = [decode(engine, ids, strategy, NoCache(), blocks_of(8)) for ids in prompts]
    assert [t.token_ids for t in together] == [t.token_ids for t in alone]


def test_guidance_with_a_cache_is_refused():
    for name, kind in CACHES.items():
        if name != "none":
            with pytest.raises(ValueError, match=f"takes guidance, got {name}; use none"):
                Settings(Llada(cfg_scale=1.0), kind(), DecodeConfig())
    Settings(Llada(cfg_scale=1.0), NoCache(), DecodeConfig())


def test_traces_from_before_guidance_are_read():
    config = DecodeConfig(8, block_length=4, window_size=4)
    trace = decode(HashEngine(0), [1, 2], Llada(), NoCache(), config)
    text = to_json(trace)
    assert "cfg_scale" not in text
    assert from_json(text) == trace
    guided = decode(HashEngine(0), [1, 2], Llada(cfg_scale=0.5), NoCache(), config)
    assert from_json(to_json(guided)) == guided
