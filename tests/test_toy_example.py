"""The paper review's toy example, end to end; every number here was worked out by hand.

Vocabulary {A, B, [MASK]}, N = 4, β_m = 2, β_t = 1, ε = .9, γ = .8 (docs/decisions.md).
The page counts positions from 1; here ^ is position 0 and the four masks are 1…4. Ids: A 0, B 1.
"""

import pytest

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace import DecodeTrace, StopReason, Verdict

A, B, M = 0, 1, None


def toy_run(cache) -> DecodeTrace:
    engine = toy_engine()
    strategy = FlashVerify(epsilon=0.9, gamma=0.8)
    config = DecodeConfig(gen_length=4, window_size=2)
    return decode(engine, engine.ids("^"), strategy, cache, config)


@pytest.fixture(scope="module")
def trace() -> DecodeTrace:
    return toy_run(FlashCache(track_size=1))


def test_the_window_is_the_two_leftmost_masks(trace):
    assert [step.window for step in trace.steps] == [(1, 2), (3, 4), (4,)]


def test_step_1_decides_the_first_a_and_verifies_the_second(trace):
    """c = .92 ≥ ε decides position 1; position 2 (.70) is searched, its mask view says A, .85."""
    first, second = trace.steps[0].proposals
    assert (first.position, first.rank, first.draft_token, first.confidence) == (1, 0, A, 0.92)
    assert first.verdict is Verdict.CONFIDENT
    assert (first.verify_token, first.verify_confidence) == (None, None)
    assert (second.position, second.rank, second.draft_token, second.confidence) == (2, 1, A, 0.7)
    assert (second.verify_token, second.verify_confidence) == (A, 0.85)
    assert second.verdict is Verdict.VERIFIED
    assert trace.steps[0].stop is StopReason.EXHAUSTED


def test_step_2_forces_the_surest_token_and_refuses_the_other(trace):
    """Both are below ε: B (.60) is forced; for position 4 the draft says A, its view B (.70)."""
    first, second = trace.steps[1].proposals
    assert (first.position, first.rank, first.draft_token, first.confidence) == (3, 0, B, 0.6)
    assert first.verdict is Verdict.FORCED
    assert (second.position, second.rank, second.draft_token, second.confidence) == (4, 1, A, 0.55)
    assert (second.verify_token, second.verify_confidence) == (B, 0.7)
    assert second.verdict is Verdict.MISMATCH
    assert trace.steps[1].stop is StopReason.MISMATCH


def test_step_3_has_nothing_left_to_search(trace):
    (only,) = trace.steps[2].proposals
    assert (only.position, only.rank, only.draft_token, only.confidence) == (4, 0, B, 0.95)
    assert only.verdict is Verdict.CONFIDENT
    assert trace.steps[2].stop is StopReason.NO_SEARCH


def test_the_tracked_sets(trace):
    """T_1 = ∅. Step 1 wrote both new positions: the one with more mass (.3) is T_2. Step 2
    wrote position 3: it is newly decided, so T_3 = {3} although others have more mass."""
    assert [step.tracked for step in trace.steps] == [(), (1,), (3,)]
    assert [step.verify_tracked for step in trace.steps] == [(), (1,), ()]


def test_the_attention_mass_of_decided_positions(trace):
    assert [step.attention for step in trace.steps] == [
        ((0, 0.5),),
        ((0, 0.5), (1, 0.3), (2, 0.2)),
        ((0, 0.4), (1, 0.3), (2, 0.2), (3, 0.1)),
    ]
    assert [step.decided_mass for step in trace.steps] == [0.5, 1.0, 1.0]


def test_the_rows_of_every_pass(trace):
    """Step 1: all 5 positions; then D and two views. Step 2: T and the window (1 + 2), then T, D
    and two views (1 + 1 + 2 = the budget of 2 · β_m). Step 3: T and the window (1 + 1)."""
    passes = [[(p.kind, p.rows, p.predicted) for p in step.passes] for step in trace.steps]
    assert passes == [
        [("full", 5, 2), ("verify", 3, 1)],
        [("draft", 3, 2), ("verify", 4, 1)],
        [("draft", 2, 1)],
    ]
    assert (trace.passes, trace.rows) == (5, 17)


def test_the_text_after_each_step(trace):
    assert [trace.canvas_at(n) for n in range(4)] == [
        [M, M, M, M],
        [A, A, M, M],
        [A, A, B, M],
        [A, A, B, B],
    ]
    assert trace.decided_step == {1: 1, 2: 1, 3: 2, 4: 3}


def test_the_result_and_its_counts(trace):
    assert (trace.text, trace.token_ids, trace.status) == ("AABB", (A, A, B, B), "finished")
    assert (trace.tokens, len(trace.steps), trace.verified) == (4, 3, 1)
    assert trace.tokens_per_step == pytest.approx(4 / 3)
    assert trace.tokens_per_pass == pytest.approx(4 / 5)


def test_without_a_cache_the_tokens_are_the_same_and_the_rows_are_not(trace):
    """Draft: always 5 rows. Verify: the decided ones, D and two views: 1 + 1 + 2 and 3 + 1 + 2."""
    plain = toy_run(NoCache())
    assert plain.token_ids == trace.token_ids
    assert [step.proposals for step in plain.steps] == [step.proposals for step in trace.steps]
    assert [step.tracked for step in plain.steps] == [(), (), ()]
    assert [[(p.kind, p.rows) for p in step.passes] for step in plain.steps] == [
        [("full", 5), ("verify", 4)],
        [("full", 5), ("verify", 6)],
        [("full", 5)],
    ]
