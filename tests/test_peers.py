"""Each published decoder against a straight-line version of its description.

The versions here use full forwards of `tests/random_model.py` (float64), plain lists and no code
of the decoder; they must give the same tokens in the same steps.
"""

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.decoder import decode
from flash_dllm.models import load_model
from flash_dllm.peers import PEERS, table
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies import Confidence, Factor, FlashVerify, Greedy, Llada, Prophet
from flash_dllm.trace import Verdict
from flash_dllm.trace_json import from_json, to_json
from tests.random_model import MASK, PROMPT, plain_logits, write_checkpoint
from tests.recorded_run import LENGTH, START, blocks_of


class Plain:
    """A text and the model's answers for it, in full forwards."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.tokens = PROMPT + [MASK] * LENGTH
        self.steps = []

    def logits(self):
        logits = plain_logits(self.config, self.tensors, self.tokens)
        logits[:, MASK] = -math.inf
        return logits

    def masks(self, first, last):
        return [i for i in range(first, last) if self.tokens[i] == MASK]

    def commit(self, pairs):
        """Write what a step decides, in its order."""
        for position, token in pairs:
            assert self.tokens[position] == MASK
            self.tokens[position] = int(token)
        self.steps.append([(position, int(token)) for position, token in pairs])


@pytest.fixture
def plain(small_config, small_tensors):
    return Plain(small_config, small_tensors)


def best(logits):
    """Token and softmax probability per position."""
    sure, tokens = logits.softmax(-1).max(-1)
    return tokens.tolist(), sure.tolist()


def check(trace, steps):
    """The same tokens in the same steps, one pass each; and the file is read and replayed."""
    assert [list(step.accepted) for step in trace.steps] == steps
    assert trace.passes == len(steps)
    assert from_json(to_json(trace)) == trace


def llada(plain, steps, block, remasking="low_confidence", seed=0):
    """`generate` of LLaDA's repository: get_num_transfer_tokens, then top-k of each step."""
    per_block = steps * block // LENGTH
    for start in range(START, START + LENGTH, block):
        for i in range(per_block):
            tokens, sure = best(plain.logits())
            if remasking == "random":
                sure = [Random(f"{seed} {p}").random() for p in range(START + LENGTH)]
            share = block // per_block + (i < block % per_block)
            masks = plain.masks(start, start + block)
            chosen = sorted(masks, key=lambda p: -sure[p])[:share]
            plain.commit([(p, tokens[p]) for p in chosen])
    return plain.steps


@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
@pytest.mark.parametrize(("steps", "block"), [(24, 24), (10, 24), (9, 8), (6, 12), (1, 24)])
def test_llada_equals_its_published_loop(engine, plain, steps, block, remasking):
    strategy = Llada(steps=steps, remasking=remasking)
    trace = decode(engine, PROMPT, strategy, NoCache(), replace(blocks_of(block), seed=3))
    check(trace, llada(plain, steps, block, remasking, seed=3))
    assert trace.passes == steps


def test_llada_at_one_token_a_step_is_greedy(engine):
    config = blocks_of(8)
    greedy = decode(engine, PROMPT, Greedy(), NoCache(), config)
    published = decode(engine, PROMPT, Llada(), NoCache(), config)
    assert [step.proposals for step in published.steps] == [step.proposals for step in greedy.steps]


def test_lladas_temperature_perturbs_the_token_and_not_the_confidence(engine, plain):
    """Noise moves the argmax; positions are ranked by the un-noised probability of the result."""
    config = replace(blocks_of(8), temperature=0.8, seed=5)
    trace = decode(engine, PROMPT, Llada(), NoCache(), config)
    noise = {}
    for position in range(START, START + LENGTH):
        g = torch.Generator().manual_seed(5 * 1_000_003 + position)
        uniform = torch.rand(len(plain.logits()[0]), generator=g, dtype=torch.float64)
        noise[position] = (-0.8 * torch.log(-torch.log(uniform))).float().double()
    for start in range(START, START + LENGTH, 8):
        for _ in range(8):
            logits = plain.logits()
            sure, token = {}, {}
            for p in plain.masks(start, start + 8):
                token[p] = int((logits[p] + noise[p]).argmax())
                sure[p] = float(logits[p].softmax(-1)[token[p]])
            chosen = max(sure, key=lambda p: sure[p])
            plain.commit([(chosen, token[chosen])])
    check(trace, plain.steps)


def fast_dllm(plain, block, chosen_of):
    """Fast-dLLM's loop: the block's masks by falling confidence, a rule says how many go."""
    for start in range(START, START + LENGTH, block):
        while masks := plain.masks(start, start + block):
            tokens, sure = best(plain.logits())
            ranked = sorted(masks, key=lambda p: -sure[p])
            count = max(1, chosen_of([sure[p] for p in ranked]))
            plain.commit([(p, tokens[p]) for p in ranked[:count]])
    return plain.steps


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.6, 1.0])
def test_confidence_equals_fast_dllms_threshold_loop(engine, plain, epsilon):
    trace = decode(engine, PROMPT, Confidence(epsilon), NoCache(), blocks_of(8))
    check(trace, fast_dllm(plain, 8, lambda sure: sum(c >= epsilon for c in sure)))


@pytest.mark.parametrize("factor", [0.0, 1.0, 2.0, 100.0])
def test_factor_equals_fast_dllms_factor_loop(engine, plain, factor):
    def rule(sure):
        for n, c in enumerate(sure, 1):
            if c < 1 - factor / (n + 1):
                return n - 1
        return len(sure)

    trace = decode(engine, PROMPT, Factor(factor), NoCache(), blocks_of(8))
    check(trace, fast_dllm(plain, 8, rule))
    if factor == 0:
        assert {len(step.accepted) for step in trace.steps} == {1}
    if factor == 100:
        assert len(trace.steps) == 3


def prophet(plain, block, answer_of, bars):
    """One token a step; everything at once where the mean gap of the answer reaches the bar.

    answer_of  the text, its masks filled with their drafts → offsets of the answer
    """
    number = 0
    for start in range(START, START + LENGTH, block):
        while masks := plain.masks(start, start + block):
            logits = plain.logits()
            tokens, sure = best(logits)
            two = logits.topk(2).values
            left = plain.masks(START, START + LENGTH)
            text = [tokens[p] if p in left else plain.tokens[p] for p in range(START + LENGTH)]
            answer = answer_of(text[START:])
            gaps = [float(two[p, 0] - two[p, 1]) for p in left if p - START in answer]
            progress = number / LENGTH
            bar = bars[0] if progress < 0.33 else bars[1] if progress < 0.67 else bars[2]
            number += 1
            if answer and (not gaps or sum(gaps) / len(gaps) >= bar):
                inside = sorted(masks, key=lambda p: p)
                others = [p for p in left if p not in inside]
                plain.commit([(p, tokens[p]) for p in inside + others])
                return plain.steps
            chosen = max(masks, key=lambda p: sure[p])
            plain.commit([(chosen, tokens[chosen])])
    return plain.steps


@pytest.mark.parametrize(
    ("answer_start", "bars", "ends_early"),
    [
        (None, (7.5, 5.0, 2.5), None),
        (None, (2.0, 1.5, 1.0), True),
        (18, (3.0, 1.5, 0.5), True),
        (22, (100.0, 100.0, 100.0), None),
        (None, (100.0, 100.0, 100.0), False),
        (None, (0.0, 0.0, 0.0), True),
    ],
)
def test_prophet_equals_greedy_with_an_early_commit(engine, plain, answer_start, bars, ends_early):
    strategy = Prophet(answer_start, 4, *bars)
    trace = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    answer = range(LENGTH) if answer_start is None else range(answer_start, answer_start + 4)
    check(trace, prophet(plain, 8, lambda text: answer, bars))
    if ends_early is not None:
        assert (len(trace.steps) < LENGTH) == ends_early
    if bars[0] == 0:
        assert len(trace.steps) == 1


@pytest.mark.parametrize("end", [3587, 973, 3], ids=["inside", "at once", "never"])
@pytest.mark.parametrize("bars", [(1.0, 0.5, 0.5), (2.0, 1.5, 1.0), (0.0, 0.0, 0.0)], ids=str)
def test_prophet_finds_the_answer_before_the_end_that_is_drafted(
    tmp_path, small_config, small_tensors, end, bars
):
    """The last four tokens before the first end token of the drafted text; all of a shorter one.
    A text of nothing but its end is never sure: the first draft of all begins with token 973."""

    def before_the_end(text):
        length = text.index(end) if end in text else LENGTH
        return range(max(0, length - 4), length)

    config = {**small_config, "eos_token_id": end}
    engine = load_model(write_checkpoint(tmp_path / "m", config), device="cpu", dtype="float64")
    strategy = Prophet(None, 4, *bars, answer_at="end")
    trace = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    plain = Plain(small_config, small_tensors)
    check(trace, prophet(plain, 8, before_the_end, bars))
    if bars[0] == 0:
        assert (len(trace.steps) == 1) == (end != 973)


def test_prophet_without_an_exit_is_greedy(engine):
    never = Prophet(gap_early=100.0, gap_middle=100.0, gap_late=100.0)
    trace = decode(engine, PROMPT, never, NoCache(), blocks_of(8))
    greedy = decode(engine, PROMPT, Greedy(), NoCache(), blocks_of(8))
    assert [s.accepted for s in trace.steps] == [s.accepted for s in greedy.steps]


@pytest.mark.parametrize("strategy", [Llada(steps=9), Factor(2.0), Prophet(gap_early=2.0)], ids=str)
def test_the_flash_cache_takes_every_published_strategy(engine, strategy):
    trace = decode(engine, PROMPT, strategy, FlashCache(track_size=4), blocks_of(8))
    assert from_json(to_json(trace)) == trace
    assert trace.rows < decode(engine, PROMPT, strategy, NoCache(), blocks_of(8)).rows


@pytest.mark.parametrize(
    ("strategy", "config", "words"),
    [
        (Llada(steps=10), blocks_of(8), "steps must be a multiple of the 3 blocks"),
        (Llada(steps=48), blocks_of(8), "at most gen_length"),
        (Prophet(), replace(blocks_of(8), alternatives=1), "alternatives must be at least 2"),
        (Prophet(answer_start=24), blocks_of(8), "answer_start must be below gen_length"),
        (Prophet(answer_start=2, answer_at="end"), blocks_of(8), "answer_start does not go with"),
    ],
    ids=["blocks", "long", "alternatives", "answer", "two answers"],
)
def test_knobs_that_do_not_go_with_the_lengths_are_refused(engine, strategy, config, words):
    with pytest.raises(ValueError, match=words):
        decode(engine, PROMPT, strategy, NoCache(), config)
    with pytest.raises(ValueError, match=words):
        Settings(strategy, NoCache(), config)


def test_a_preset_with_steps_that_do_not_fit_is_refused_in_one_sentence():
    preset = {"strategy": {"name": "llada"}, "config": {"gen_length": 24, "block_length": 8}}
    with pytest.raises(ValueError, match="steps must be a multiple"):
        from_preset(preset, {"steps": 10})


def released(plain, epsilon, gamma):
    """The authors' verification where D and S are all that is masked: so every key of the verify
    pass is a row of it, and one dense mask says who sees whom. Joint acceptance."""
    while masks := plain.masks(START, START + LENGTH):
        tokens, sure = best(plain.logits())
        ranked = sorted(masks, key=lambda p: -sure[p])
        decided = [p for n, p in enumerate(ranked) if n == 0 or sure[p] >= epsilon]
        searched = ranked[len(decided) :]
        pairs = [(p, tokens[p]) for p in decided]
        if searched:
            text = [p for p in range(START + LENGTH) if p not in masks]
            own = len(text) + len(decided)
            m = len(searched)
            ids = [plain.tokens[p] for p in text] + [tokens[p] for p in decided + searched]
            positions = text + decided + searched + searched
            sees = torch.zeros(own + 2 * m, own + 2 * m, dtype=torch.bool)
            sees[:, :own] = True
            for k in range(m):
                draft, mask = own + k, own + m + k
                sees[:own, mask] = True  # the text sees [MASK] at every searched position
                # filled in up to itself, or before itself; [MASK] from there on
                sees[draft, own : own + k + 1] = sees[mask, own : own + k] = True
                sees[draft, own + m + k + 1 :] = sees[mask, own + m + k :] = True
            logits = plain_logits(
                plain.config, plain.tensors, ids + [MASK] * m, mask=sees, positions=positions
            )[own + m :]
            logits[:, MASK] = -math.inf
            views, certain = best(logits)
            product = 1.0
            for p, view, c in zip(searched, views, certain, strict=True):
                product *= c
                if view != tokens[p] or product < gamma:
                    break
                pairs.append((p, view))
        plain.commit(pairs)
    return plain.steps


@pytest.mark.parametrize(("epsilon", "gamma"), [(0.9, 0.0), (0.6, 0.05), (0.5, 0.2)])
def test_shared_mask_views_equal_the_released_visibility(engine, plain, epsilon, gamma):
    strategy = FlashVerify(epsilon, gamma, acceptance="joint", mask_views="shared")
    trace = decode(engine, PROMPT, strategy, NoCache(), blocks_of(24))
    steps = released(plain, epsilon, gamma)
    assert [list(step.accepted) for step in trace.steps] == steps
    assert from_json(to_json(trace)) == trace
    isolated = replace(strategy, mask_views="isolated")
    other = decode(engine, PROMPT, isolated, NoCache(), blocks_of(24))
    # the first draft passes are the same, so only what the views saw can differ
    views, others = (
        {p.position: p.verify_confidence for p in run.steps[0].proposals} for run in (trace, other)
    )
    assert views != others


def test_shared_mask_views_are_read_by_old_and_new_files(engine):
    strategy = FlashVerify(0.6, 0.1)
    trace = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    assert "mask_views" not in to_json(trace)
    shared = decode(
        engine, PROMPT, replace(strategy, mask_views="shared"), FlashCache(4), blocks_of(8)
    )
    assert '"mask_views":"shared"' in to_json(shared)
    assert from_json(to_json(shared)) == shared


def test_an_audit_of_shared_mask_views_is_refused():
    with pytest.raises(ValueError, match="audit needs mask_views='isolated'"):
        FlashVerify(audit=True, mask_views="shared")


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_decodes_and_its_trace_is_read_back(engine, name):
    built = from_preset(PEERS[name].settings, {"gen_length": 64})
    trace = decode(engine, PROMPT, built.strategy, built.cache, built.config)
    assert from_json(to_json(trace)) == trace
    assert trace.status == "finished"


def test_the_table_of_decoders_is_written_from_the_code():
    text = (Path(__file__).parents[1] / "docs" / "decoders.md").read_text(encoding="utf-8")
    assert text.partition("<!-- peers -->\n")[2] == table(), "write it: -m flash_dllm.peers"


def test_presets_have_the_lengths_that_the_document_names():
    configs = {name: peer.settings["config"] for name, peer in PEERS.items()}
    assert {config["gen_length"] for config in configs.values()} == {128}
    blocks = {name: config["block_length"] for name, config in configs.items()}
    whole = {"elastic_cache", "flashdlm", "flash_dllm_official"}
    assert blocks == {name: None if name in whole else 32 for name in PEERS}


def test_the_released_preset_has_the_numbers_of_its_scripts():
    """Window 64, decide 16, at most 8 searched, so 32 verify rows; 64 tracked; joint; shared."""
    built = from_preset(PEERS["flash_dllm_official"].settings, {})
    assert (built.config.window_size, built.config.decide_size) == (64, 16)
    assert (built.strategy.search_size, built.strategy.acceptance) == (8, "joint")
    assert built.strategy.mask_views == "shared"
    assert (built.cache.track_size, built.cache.verify_rows) == (64, None)
    assert (built.cache.verify_first, built.cache.verify_writes) == ("recent", False)


def test_the_released_preset_keeps_to_its_windows_rows_and_rules(engine):
    """The authors' loop, read off a run of the preset: 64 queried, 16 of them decide, 8 searched by
    falling confidence, 32 verify rows filled up with the last decided tokens, the running product
    against γ, one full pass, nothing committed behind an end token."""
    settings = from_preset(PEERS["flash_dllm_official"].settings, {"gen_length": 96})
    strategy = replace(settings.strategy, epsilon=0.3, gamma=0.05)
    trace = decode(engine, PROMPT, strategy, settings.cache, settings.config)
    assert [p.kind for s in trace.steps for p in s.passes].count("full") == 1
    undecided, decided_in, searched_steps = list(range(START, START + 96)), {}, 0
    for step in trace.steps:
        assert list(step.window) == undecided[:64]
        judged = [p for p in step.proposals if p.rank is not None]
        ends = [p for p in decided_in if trace.canvas_at(96)[p - START] in (0, 4)]
        assert {p.position for p in judged} <= set(undecided[:16])
        assert all(p.position < min(ends, default=START + 96) for p in judged)
        searched = [p for p in judged if p.rank]
        assert len(searched) <= 8
        assert [p.confidence for p in searched] == sorted(p.confidence for p in searched)[::-1]
        product, kept = 1.0, []
        for p in searched:
            product *= p.verify_confidence
            if p.verify_token != p.draft_token or product < 0.05:
                break
            kept.append(p.position)
        assert [p.position for p in searched if p.verdict is Verdict.VERIFIED] == kept
        if searched:
            searched_steps += 1
            own = len(judged) - len(searched)
            room = max(0, 32 - own - 2 * len(searched))
            assert step.passes[1].rows == own + 2 * len(searched) + min(room, len(step.tracked))
            # the last step's tokens come first; then mass decides
            last = [p for p, number in decided_in.items() if number == step.index - 1]
            assert set(step.verify_tracked) >= set(last) or len(last) > room
        # nothing was written by the last verify pass: what it decided is read again, all of it
        assert set(step.tracked) >= {p for p, n in decided_in.items() if n == step.index - 1}
        assert len(step.tracked) <= 64
        decided_in |= {position: step.index for position, _ in step.accepted}
        undecided = [p for p in undecided if p not in decided_in]
    assert searched_steps > 3 and trace.verified > 0
