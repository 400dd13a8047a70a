"""The loop on a real (small, random) network: equalities that must hold exactly."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch, decode_steps
from flash_dllm.models import load_model
from flash_dllm.strategies import FlashVerify, Greedy
from tests.random_model import EOS, EOT, MASK, PROMPT, VOCAB, plain_logits
from tests.small_settings import REFRESHED, STRATEGIES, without_rows

CONFIG = DecodeConfig(gen_length=20, window_size=8)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_fully_refreshed_flash_cache_equals_no_cache(engine, strategy):
    flash = decode(engine, PROMPT, strategy, REFRESHED, CONFIG)
    none = decode(engine, PROMPT, strategy, NoCache(), CONFIG)
    assert [without_rows(s) for s in flash.steps] == [without_rows(s) for s in none.steps]
    assert flash.rows == none.rows


@pytest.mark.parametrize("cache", [FlashCache(track_size=4), NoCache()], ids=["flash", "none"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_batch_of_mixed_lengths_decodes_as_one_by_one_in_fp32(small_folder, strategy, cache):
    engine = load_model(small_folder, device="cpu", dtype="float32")
    prompts = [PROMPT, [1, 9, 8, 7], list(range(20, 51)), [77], PROMPT[::-1]]
    together = decode_batch(engine, prompts, strategy, cache, CONFIG, batch_size=3)
    for prompt, trace in zip(prompts, together, strict=True):
        alone = decode(engine, prompt, strategy, cache, CONFIG)
        assert trace.token_ids == alone.token_ids
        assert [s.accepted for s in trace.steps] == [s.accepted for s in alone.steps]
        assert [[(p.kind, p.rows) for p in s.passes] for s in trace.steps] == [
            [(p.kind, p.rows) for p in s.passes] for s in alone.steps
        ]


def llada_greedy(config, tensors, prompt, gen_length, block_length):
    """LLaDA's published loop at one token a step: full forward, argmax everywhere, commit the
    surest masked position of the current block."""
    tokens = prompt + [MASK] * gen_length
    for block in range(len(prompt), len(tokens), block_length):
        for _ in range(block_length):
            logits = plain_logits(config, tensors, tokens)
            logits[:, MASK] = -torch.inf
            best = logits.argmax(-1)
            sure = logits.softmax(-1).gather(1, best[:, None])[:, 0]
            eligible = [
                i for i in range(block, block + block_length) if tokens[i] == MASK
            ]
            chosen = max(eligible, key=lambda i: float(sure[i]))
            tokens[chosen] = int(best[chosen])
    return tokens[len(prompt):]


@pytest.mark.parametrize("block_length", [20, 5])
def test_greedy_equals_lladas_published_loop(engine, small_config, small_tensors, block_length):
    config = DecodeConfig(
        gen_length=20, block_length=block_length, window_size=block_length, early_stop=False
    )
    trace = decode(engine, PROMPT, Greedy(), NoCache(), config)
    expected = llada_greedy(small_config, small_tensors, PROMPT, 20, block_length)
    assert trace.canvas_at(len(trace.steps)) == expected
    assert trace.passes == len(trace.steps) == 20


@pytest.mark.parametrize("cache", [FlashCache(track_size=4), NoCache()], ids=["flash", "none"])
@pytest.mark.parametrize("strategy", STRATEGIES[:3], ids=str)
def test_early_stop_gives_the_answer_of_decoding_on(small_folder, strategy, cache, tmp_path):
    folder = shutil.copytree(small_folder, tmp_path / "ends")
    settings = json.loads((folder / "config.json").read_text())
    engine = load_model(folder, device="cpu", dtype="float64")
    config = replace(CONFIG, early_stop=False)
    # every token that this random model says takes its turn as the end token
    saved = []
    for token in set(decode(engine, PROMPT, strategy, cache, config).token_ids):
        (folder / "config.json").write_text(json.dumps(settings | {"eos_token_id": token}))
        engine = load_model(folder, device="cpu", dtype="float64")
        on = decode(engine, PROMPT, strategy, cache, config)
        stopped = decode(engine, PROMPT, strategy, cache, CONFIG)
        assert stopped.token_ids == on.token_ids
        assert stopped.tokens == on.tokens
        saved.append(len(on.steps) - len(stopped.steps))
    assert min(saved) >= 0
    assert max(saved) > 0


@pytest.mark.parametrize("cache", [FlashCache(track_size=4), NoCache()], ids=["flash", "none"])
def test_an_audit_changes_no_token_and_no_count(engine, cache):
    plain = decode(engine, PROMPT, STRATEGIES[3], cache, CONFIG)
    audit = decode(engine, PROMPT, replace(STRATEGIES[3], audit=True), cache, CONFIG)
    assert audit.passes == plain.passes
    for step, audited in zip(plain.steps, audit.steps, strict=True):
        assert audited.accepted == step.accepted
        assert audited.tracked == step.tracked
        assert audited.stop == step.stop
        assert all(p.verify_confidence is not None for p in audited.proposals)
        for before, after in zip(step.proposals, audited.proposals, strict=True):
            assert after.verdict == before.verdict
            if before.verify_token is not None:
                assert after.verify_token == before.verify_token
                assert after.verify_confidence == pytest.approx(before.verify_confidence, abs=2e-6)


def test_the_forced_token_of_a_flat_model_makes_progress(engine):
    trace = decode(engine, PROMPT, FlashVerify(epsilon=1.0, gamma=1.0), FlashCache(), CONFIG)
    assert [len(step.accepted) for step in trace.steps] == [1] * 20


def test_a_committed_position_is_re_read_in_the_very_next_draft_unless_it_was_written(engine):
    for strategy in STRATEGIES:
        cache = FlashCache(track_size=1)
        trace = decode(engine, PROMPT, strategy, cache, CONFIG)
        for step, after in zip(trace.steps, trace.steps[1:], strict=False):
            has_verify = any(p.kind == "verify" for p in step.passes)
            for proposal in step.proposals:
                written = has_verify and proposal.verdict in ("CONFIDENT", "FORCED", "VERIFIED")
                if proposal.committed_token is not None and not written:
                    assert proposal.position in after.tracked


def test_sampling_repeats_for_a_seed_and_differs_between_seeds(engine):
    config = replace(CONFIG, temperature=1.0, seed=11)
    first = decode(engine, PROMPT, STRATEGIES[2], FlashCache(), config)
    again = decode(engine, PROMPT, STRATEGIES[2], FlashCache(), config)
    other = decode(engine, PROMPT, STRATEGIES[2], FlashCache(), replace(config, seed=12))
    assert first.token_ids == again.token_ids
    assert first.token_ids != other.token_ids


def test_sampled_tokens_do_not_depend_on_the_batch(small_folder):
    engine = load_model(small_folder, device="cpu", dtype="float32")
    config = replace(CONFIG, temperature=0.7, seed=3)
    prompts = [PROMPT, [5 + 4, 8, 7], list(range(40, 60))]
    together = decode_batch(engine, prompts, STRATEGIES[2], FlashCache(), config, batch_size=3)
    for prompt, trace in zip(prompts, together, strict=True):
        alone = decode(engine, prompt, STRATEGIES[2], FlashCache(), config)
        assert alone.token_ids == trace.token_ids


def test_sampling_follows_the_softmax(engine, small_config, small_tensors):
    """The first greedy token over many seeds, against the model's own distribution there."""
    config = DecodeConfig(gen_length=1, window_size=1, temperature=1.0)
    logits = plain_logits(small_config, small_tensors, [*PROMPT, MASK])[-1]
    logits[MASK] = -torch.inf
    expected = logits.softmax(-1)
    likeliest = int(expected.argmax())
    share = float(expected[likeliest])
    hits = sum(
        decode(engine, PROMPT, Greedy(), NoCache(), replace(config, seed=seed)).token_ids[0]
        == likeliest
        for seed in range(400)
    )
    spread = (share * (1 - share) / 400) ** 0.5
    assert abs(hits / 400 - share) < 4 * spread


def test_the_mask_token_is_never_committed(small_folder, tmp_path, small_tensors):
    """A head that adores the mask token must not be obeyed."""
    folder = tmp_path / "mask-lover"
    shutil.copytree(small_folder, folder)
    tensors = dict(small_tensors)
    head = tensors["model.transformer.ff_out.weight"].clone()
    head[MASK] = 50 * head.abs().max()
    tensors["model.transformer.ff_out.weight"] = head
    save_file(tensors, folder / "model.safetensors")
    engine = load_model(folder, device="cpu", dtype="float64")
    trace = decode(engine, PROMPT, STRATEGIES[2], FlashCache(), CONFIG)
    assert MASK not in trace.token_ids
    assert all(p.verify_token != MASK for s in trace.steps for p in s.proposals)


def test_attention_mass_is_the_mean_probability_of_a_plain_forward(engine, small_config):
    """Mass of one full pass sums to 1 over all keys; decided keys and the rest make the whole."""
    trace = decode(engine, PROMPT, Greedy(), FlashCache(), replace(CONFIG, gen_length=1))
    step = trace.steps[0]
    assert len(step.attention) == len(PROMPT)
    assert 0 < step.decided_mass < 1
    assert sum(m for _, m in step.attention) == pytest.approx(step.decided_mass, abs=1e-5)


def test_refresh_every_n_tokens_reads_everything_again(engine):
    trace = decode(engine, PROMPT, Greedy(), FlashCache(refresh=4), CONFIG)
    kinds = [step.passes[0].kind for step in trace.steps]
    assert kinds == (["full"] + ["draft"] * 3) * 5


def test_drift_refresh_follows_its_threshold(engine):
    never = decode(
        engine, PROMPT, Greedy(), FlashCache(refresh="drift", drift_threshold=0.0), CONFIG
    )
    always = decode(
        engine, PROMPT, Greedy(), FlashCache(refresh="drift", drift_threshold=1.0), CONFIG
    )
    assert [s.passes[0].kind for s in never.steps].count("full") == 1
    # the cosine of two real mass vectors is below 1, but T must have existed twice to compare
    assert [s.passes[0].kind for s in always.steps].count("full") > 5


def test_closing_the_generator_midway_frees_the_cache_for_the_next_run(engine):
    steps = decode_steps(engine, PROMPT, Greedy(), FlashCache(), CONFIG)
    first = next(steps)
    steps.close()
    assert decode(engine, PROMPT, Greedy(), FlashCache(), CONFIG).steps[0].accepted == (
        first.accepted
    )


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([], "empty"),
        ([1, MASK], "mask token"),
        ([1, VOCAB], "outside"),
        ([1] * 250, "exceed"),
    ],
)
def test_a_prompt_that_cannot_be_decoded_is_refused_in_one_sentence(engine, prompt, says):
    with pytest.raises(ValueError, match=says) as caught:
        decode(engine, prompt, Greedy(), NoCache(), CONFIG)
    assert "\n" not in str(caught.value)


def test_end_tokens_of_the_tokenizer_count_as_ends(engine):
    assert engine.info.eos_token_ids == (EOS, EOT)
