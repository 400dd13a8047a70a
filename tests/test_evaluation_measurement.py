"""Decoding many items and counting what it took."""

from __future__ import annotations

import pytest

from flash_dllm.caches.none import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.measurement import (
    Decoded,
    Spread,
    by_domain,
    decode_items,
    encode_items,
    fitting,
    read_items,
)
from flash_dllm.settings import Settings
from flash_dllm.strategies.flash_verify import FlashVerify
from flash_dllm.trace import Proposal, StepTrace, StopReason, Verdict
from tests.random_model import ROOT

TASKS = ROOT / "assets" / "tasks"


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"gen_length": "sixteen"}, "gen_length must be a whole number, got 'sixteen'"),
        ({"gen_length": [16]}, "gen_length must be a whole number"),
        ({"preset": ["wino"]}, "preset must be one of"),
    ],
)
def test_a_knob_of_the_wrong_kind_is_a_sentence(knobs, sentence):
    """From YAML, from --model_args, from --set."""
    with pytest.raises(ValueError, match=sentence):
        lean_settings({"config": {"block_length": 32}}, knobs)


def test_decoding_a_batch_counts_what_each_trace_counts(engine):
    items = [item for domain in ("word", "story") for item in read_items(TASKS, domain, 2)]
    settings = Settings(
        FlashVerify(gamma=0.5, search_size=8),
        NoCache(),
        DecodeConfig(16, window_size=16, alternatives=0),
    )
    prompts = encode_items(engine, items)
    run = decode_items(engine, items, prompts, settings, batch_size=3)
    for item, ids, decoded in zip(items, prompts, run.decoded, strict=True):
        trace = decode(engine, ids, settings.strategy, settings.cache, settings.config)
        assert decoded == Decoded(
            item.domain,
            item.specification,
            trace.text,
            trace.tokens,
            len(trace.steps),
            trace.passes,
            trace.rows,
            trace.verified,
            token_ids=trace.token_ids,
            row_layers=trace.row_layers,
        )


def proposal(confidence: float, verdict: Verdict, rank: int | None) -> Proposal:
    return Proposal(1, 1, confidence, verdict, rank)


def test_spread_counts_drafts_searches_and_acceptances():
    spread = Spread()
    proposals = (
        proposal(0.9, Verdict.CONFIDENT, 0),
        proposal(0.8, Verdict.VERIFIED, 1),
        proposal(0.3, Verdict.MISMATCH, 2),
        proposal(0.29, Verdict.AFTER_STOP, 3),
        proposal(0.1, Verdict.WAITING, None),
    )
    spread.add(StepTrace(1, (), proposals, StopReason.MISMATCH))
    assert spread == Spread(5, 2, 3, 1, 2, 1)
    assert spread.shares() == pytest.approx(
        {"unsure": 2 / 5, "accepted": 1 / 3, "unsure_accepted": 1 / 2}
    )


def decoded(domain: str, tokens: int, steps: int, rows: int = 100) -> Decoded:
    return Decoded(domain, "s", "", tokens, steps, 2 * steps, rows, 0)


def test_summaries_are_ratios_of_sums():
    items = [decoded("word", 10, 2), decoded("word", 20, 4), decoded("code", 6, 6)]
    word, code, everything = by_domain(items, [True, False, True])
    assert (word.name, word.items, word.correct, word.accuracy) == ("word", 2, 1, 0.5)
    assert (word.tokens_per_step, word.tokens_per_pass) == (5.0, 2.5)
    assert (code.tokens_per_step, everything.tokens_per_step) == (1.0, 3.0)
    assert everything.rows_per_token == pytest.approx(300 / 36)


def test_items_too_long_for_the_model_are_left_out(engine):
    items = read_items(TASKS, "word", 2)
    prompts = [[1] * (engine.max_length - 64), [1] * (engine.max_length - 63)]
    assert fitting(engine, items, prompts, DecodeConfig(64)) == (items[:1], prompts[:1])
