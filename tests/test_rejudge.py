"""What-if answers from a trace: against hand-worked numbers, an independent rule, real runs."""

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.rejudge import Certainty, rejudge
from flash_dllm.scripted import Script, ScriptedEngine, toy_engine
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace import DecodeTrace, StopReason, Verdict
from flash_dllm.trace_json import from_json, to_json
from tests.hash_engine import HashEngine

CONFIG = DecodeConfig(gen_length=24, window_size=8, early_stop=False)
CONFIGS = [
    CONFIG,
    DecodeConfig(gen_length=24, block_length=8, window_size=6, decide_size=4),
    DecodeConfig(gen_length=20, window_size=10, suppress_after_eos=True),
]
CACHES = [FlashCache(track_size=3), FlashCache(track_size=2, refresh=5), NoCache()]
STRATEGIES = [
    FlashVerify(0.9, 0.6),
    FlashVerify(0.8, 0.5, search_size=3, order="position"),
    FlashVerify(0.9, 0.4, acceptance="joint", correct=True),
]


def toy_trace(**knobs) -> DecodeTrace:
    engine = toy_engine()
    strategy = FlashVerify(**{"epsilon": 0.9, "gamma": 0.8, **knobs})
    config = DecodeConfig(gen_length=4, window_size=2)
    return decode(engine, engine.ids("^"), strategy, FlashCache(track_size=1), config)


def run(seed, strategy, cache=CACHES[0], config=CONFIG) -> DecodeTrace:
    return decode(HashEngine(seed), [1, 2, 3], strategy, cache, config)


# the toy example, by hand


def test_a_gamma_above_the_mask_views_confidence_takes_the_token_back():
    """Step 1: position 2 has c̃ = .85, so γ = .9 leaves only position 1."""
    result = rejudge(toy_trace(), gamma=0.9)
    first, second, third = result.steps
    assert first.accepted == ((1, 0),)
    assert [p.verdict for p in first.proposals] == [Verdict.CONFIDENT, Verdict.UNSURE]
    assert first.stop is StopReason.BELOW_GAMMA
    assert (first.certainty, second.certainty) == (Certainty.EXACT, Certainty.UNKNOWN)
    assert third.certainty is Certainty.UNKNOWN
    assert (result.first_change, result.tokens_gained, result.decided_gained) == (1, -1, 0)
    assert result.badge == "exact until step 1"
    assert result.explanation == (
        "Step 1 would commit 1 token fewer; what comes after it depends on that and needs a run."
    )


@pytest.mark.parametrize("gamma", [0.0, 0.7, 0.85, None])
def test_a_gamma_that_changes_no_token_is_exact(gamma):
    """.85 is inclusive; the mismatch of step 2 stays one at any γ."""
    trace = toy_trace()
    result = rejudge(trace, gamma=gamma)
    assert [step.proposals for step in result.steps] == [step.proposals for step in trace.steps]
    assert (result.badge, result.first_change, result.tokens_gained) == ("exact", None, 0)
    assert result.explanation == "Every recorded step decides the same at these thresholds."


def test_an_epsilon_that_only_renames_the_surest_token_is_exact():
    """At ε = .95, c = .92 is committed all the same: as the surest one."""
    result = rejudge(toy_trace(), epsilon=0.95)
    assert result.steps[0].proposals[0].verdict is Verdict.FORCED
    assert (result.badge, result.first_change) == ("exact", None)


def test_an_epsilon_that_decides_everything_needs_no_mask_view():
    """ε = .7: step 1 decides both positions (.92 and .70), so nothing is left to verify."""
    result = rejudge(toy_trace(), epsilon=0.7)
    assert result.steps[0].accepted == ((1, 0), (2, 0))
    assert result.steps[0].stop is StopReason.NO_SEARCH
    assert result.badge == "exact until step 1"
    assert (result.first_change, result.tokens_gained, result.decided_gained) == (1, 0, 1)
    assert result.explanation.startswith(
        "Step 1 would decide 1 token more before verifying and commit as many tokens in all;"
    )


def test_the_last_step_may_be_changed_and_still_end_the_run():
    """Were step 2's mask view to agree with c̃ = .6, γ = .5 would end the run there."""
    trace = toy_trace()
    second, third = trace.steps[1:]
    agreeing = replace(
        second.proposals[1],
        verify_token=0,
        verify_confidence=0.6,
        verdict=Verdict.UNSURE,
    )
    second = replace(second, proposals=(second.proposals[0], agreeing), stop=StopReason.BELOW_GAMMA)
    trace = replace(trace, steps=(trace.steps[0], second, third))
    result = rejudge(trace, gamma=0.5)
    assert result.badge == "exact"
    assert (result.first_change, result.tokens_gained, len(result.steps)) == (2, 1, 2)
    assert result.explanation == "Step 2 would commit 1 token more and end the run."


# ε, with and without the mask views that it needs


def two_step_trace(second: float) -> DecodeTrace:
    """N = 4, β_m = 3, ε = .9, γ = .8. Step 1: c = .95, `second`, .60 at positions 1, 2, 3, and
    all mask views that are asked agree (.85); step 2: position 4 with .95."""
    script = Script(
        vocabulary=("A", "B", "[MASK]", "^", "$"),
        answers={
            ("^ _ _ _ _", 1): ("A", 0.95),
            ("^ _ _ _ _", 2): ("A", second),
            ("^ _ _ _ _", 3): ("B", 0.60),
            ("^ A _ _ _", 2): ("A", 0.85),
            ("^ A A _ _", 3): ("B", 0.85),
            ("^ A A B _", 4): ("B", 0.95),
        },
    )
    engine = ScriptedEngine(script)
    config = DecodeConfig(gen_length=4, window_size=3)
    trace = decode(engine, engine.ids("^"), FlashVerify(0.9, 0.8), FlashCache(), config)
    assert (trace.text, len(trace.steps)) == ("AABB", 2)
    return trace


def with_views(trace: DecodeTrace, views: dict[int, tuple[int, float]]) -> DecodeTrace:
    """The trace with these mask views added to step 1, as an audit records them."""
    first, *rest = trace.steps
    proposals = tuple(
        replace(p, verify_token=views[p.position][0], verify_confidence=views[p.position][1])
        if p.position in views
        else p
        for p in first.proposals
    )
    steps = (replace(first, proposals=proposals), *rest)
    return replace(trace, steps=steps, strategy={**trace.strategy, "audit": True})


def test_a_raised_epsilon_without_the_mask_view_of_a_dropped_draft_needs_a_run():
    """D = {1, 2} with .95 and .92; at ε = .94 position 2 would be searched, but was not."""
    result = rejudge(two_step_trace(0.92), epsilon=0.94)
    first = result.steps[0]
    assert first.certainty is Certainty.DECIDED
    assert first.accepted == ((1, 0),)
    assert [(p.position, p.rank) for p in first.proposals] == [(1, 0), (2, 1), (3, 2)]
    assert [p.verdict for p in first.proposals[1:]] == [Verdict.WAITING] * 2
    assert first.stop is None
    assert (result.badge, result.first_change) == ("needs a run", 1)
    assert (result.tokens_gained, result.decided_gained) == (None, -1)
    assert result.explanation == (
        "Step 1 would decide 1 token fewer before verifying; mask views that it would then need "
        "were not recorded."
    )


def test_a_raised_epsilon_on_an_audit_is_approximate():
    """The audit holds position 2's view (.81): accepted at γ = .8, and so is 3 (.85)."""
    trace = with_views(two_step_trace(0.92), {1: (0, 0.99), 2: (0, 0.81)})
    result = rejudge(trace, epsilon=0.94)
    assert result.steps[0].certainty is Certainty.APPROXIMATE
    assert result.steps[0].accepted == ((1, 0), (2, 0), (3, 1))
    assert result.badge == "approximate at step 1"
    assert (result.tokens_gained, result.decided_gained) == (0, -1)


def test_both_thresholds_can_move_at_once():
    """ε = .94 and γ = .83: position 2 (.81) is searched first and refused, 3 stands behind it."""
    trace = with_views(two_step_trace(0.92), {1: (0, 0.99), 2: (0, 0.81)})
    result = rejudge(trace, epsilon=0.94, gamma=0.83)
    verdicts = [p.verdict for p in result.steps[0].proposals]
    assert verdicts == [Verdict.CONFIDENT, Verdict.UNSURE, Verdict.AFTER_STOP]
    assert (result.badge, result.tokens_gained) == ("approximate at step 1", -2)
    assert "about 2 tokens fewer in all" in result.explanation


def test_a_lowered_epsilon_asks_only_for_mask_views_that_were_recorded():
    """c = .95, .70, .60 at ε = .9: 2 and 3 searched; at ε = .65 only 3 is, and was before."""
    result = rejudge(two_step_trace(0.70), epsilon=0.65)
    assert result.steps[0].certainty is Certainty.APPROXIMATE
    assert [p.verdict for p in result.steps[0].proposals] == [
        Verdict.CONFIDENT,
        Verdict.CONFIDENT,
        Verdict.VERIFIED,
    ]
    assert (result.badge, result.tokens_gained, result.decided_gained) == (
        "approximate at step 1",
        0,
        1,
    )


def test_a_search_that_reaches_further_than_the_recorded_one_is_not_known():
    """search_size = 3 of 8 and a lower ε: the search moves on to drafts nobody asked about."""
    badges = {}
    for seed in range(40):
        trace = run(seed, FlashVerify(0.9, 0.3, search_size=3))
        result = rejudge(trace, epsilon=0.75)
        if result.steps[result.first_change - 1].certainty is Certainty.DECIDED:
            badges[result.first_change] = result.badge
    assert badges[1] == "needs a run"
    assert badges[2] == "exact until step 1"


# strategies without these thresholds


def test_gamma_means_nothing_to_confidence_decoding_and_the_badge_says_so():
    result = rejudge(run(1, Confidence(0.8)), gamma=0.3)
    assert (result.badge, result.first_change) == ("exact", None)
    assert result.explanation == "γ means nothing to the strategy confidence."


def test_epsilon_on_confidence_decoding_is_exact_in_the_first_step_that_changes():
    trace = run(1, Confidence(0.8))
    result = rejudge(trace, epsilon=0.5, gamma=0.3)
    changed = result.steps[result.first_change - 1]
    window = trace.steps[result.first_change - 1].proposals
    assert {pos for pos, _ in changed.accepted} >= {
        p.position for p in window if p.confidence >= 0.5
    }
    assert result.badge == f"exact until step {result.first_change}"
    assert result.explanation.startswith("γ means nothing to the strategy confidence. Step ")


def test_neither_threshold_means_anything_to_greedy_decoding():
    result = rejudge(run(1, Greedy()), epsilon=0.5, gamma=0.3)
    assert result.badge == "exact"
    assert result.explanation == (
        "ε means nothing to the strategy greedy. γ means nothing to the strategy greedy."
    )


@pytest.mark.parametrize("thresholds", [{"epsilon": 1.1}, {"gamma": -0.1}, {"gamma": True}])
def test_a_threshold_outside_its_range_is_refused(thresholds):
    with pytest.raises(ValueError, match="must"):
        rejudge(toy_trace(), **thresholds)


def test_a_trace_read_from_a_file_gives_the_same_answer():
    trace = run(2, STRATEGIES[0], FlashCache(track_layers=(0, 1)))
    assert rejudge(from_json(to_json(trace)), gamma=0.9) == rejudge(trace, gamma=0.9)


# against an independent statement of the rule


def accepted_by_definition(step, decide, strategy) -> set[tuple[int, int]]:
    """What Alg. 2 commits, read off its definition: try every prefix length, keep the longest."""
    drafts = {p.position: p for p in step.proposals}
    may = [drafts[position] for position in step.window[:decide]]
    sure = [p for p in may if p.confidence >= strategy["epsilon"]]
    best = [p for p in may if not any(_precedes(q, p) for q in may)]
    decided = {p.position for p in sure + best}
    rest = [p for p in may if p.position not in decided]
    ranked = sorted(rest, key=lambda p: sum(_precedes(q, p) for q in rest))
    searched = ranked[: strategy["search_size"]]
    if strategy["order"] == "position":
        searched = sorted(searched, key=lambda p: p.position)

    def passes(n: int) -> bool:
        """Whether the n-th searched token alone would pass γ."""
        views = [p.verify_confidence for p in searched[: n + 1]]
        if strategy["acceptance"] == "each":
            return views[n] >= strategy["gamma"]
        product = 1.0
        for confidence in views:
            product *= confidence
        return product >= strategy["gamma"]

    def agrees(n: int) -> bool:
        return searched[n].draft_token == searched[n].verify_token

    length = max(
        n for n in range(len(searched) + 1) if all(agrees(k) and passes(k) for k in range(n))
    )
    accepted = {(p.position, p.draft_token) for p in may if p.position in decided}
    accepted |= {(p.position, p.draft_token) for p in searched[:length]}
    if strategy["correct"] and length < len(searched) and not agrees(length) and passes(length):
        accepted.add((searched[length].position, searched[length].verify_token))
    return accepted


def _precedes(one, other) -> bool:
    return one.confidence > other.confidence or (
        one.confidence == other.confidence and one.position < other.position
    )


@pytest.mark.parametrize("gamma", [0.0, 0.35, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_known_step_agrees_with_the_definition(strategy, gamma):
    for seed in range(6):
        for config in CONFIGS[:2]:
            trace = run(seed, strategy, config=config)
            knobs = {**trace.strategy, "gamma": gamma}
            result = rejudge(trace, gamma=gamma)
            changes = None
            for step, again in zip(trace.steps, result.steps, strict=False):
                expected = accepted_by_definition(step, config.decide, knobs)
                assert set(again.accepted) == expected
                if expected != set(step.accepted):
                    changes = step.index
                    break
            assert result.first_change == changes


# against real runs


@pytest.mark.parametrize("gamma", [0.2, 0.45, 0.7, 0.95])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_another_gamma_is_what_a_real_run_does_up_to_the_first_change(strategy, cache, gamma):
    for seed in range(3):
        for config in CONFIGS:
            trace = run(seed, strategy, cache, config)
            real = run(seed, replace(strategy, gamma=gamma), cache, config)
            result = rejudge(trace, gamma=gamma)
            known = [step for step in result.steps if step.certainty is Certainty.EXACT]
            assert len(known) == (result.first_change or len(real.steps))
            for step, truth in zip(known, real.steps, strict=False):
                assert (step.proposals, step.stop) == (truth.proposals, truth.stop)
            if result.badge == "exact":
                assert len(result.steps) == len(real.steps)


@pytest.mark.parametrize("epsilon", [0.4, 0.7, 0.85, 0.97])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("strategy", [*STRATEGIES, Confidence(0.8)])
def test_another_epsilon_decides_what_a_real_run_decides(strategy, cache, epsilon):
    for seed in range(3):
        for config in CONFIGS:
            trace = run(seed, strategy, cache, config)
            real = run(seed, replace(strategy, epsilon=epsilon), cache, config)
            result = rejudge(trace, epsilon=epsilon)
            for step, truth in zip(result.steps, real.steps, strict=False):
                if step.certainty is Certainty.UNKNOWN:
                    break
                assert [(p.position, p.verdict) for p in step.proposals if p.rank == 0] == [
                    (p.position, p.verdict) for p in truth.proposals if p.rank == 0
                ]
                assert [p.rank for p in step.proposals] == [p.rank for p in truth.proposals]
                if step.certainty is Certainty.EXACT:
                    assert (step.proposals, step.stop) == (truth.proposals, truth.stop)


@pytest.mark.parametrize("cache", CACHES)
def test_approximate_steps_are_right_for_a_model_that_looks_at_the_text_only(cache):
    """A real model's cache entries differ with D, a hash of the visible text does not; mask
    views in draft order see the same text whether a draft before them is decided or searched."""
    approximate = 0
    for seed in range(6):
        trace = run(seed, FlashVerify(0.9, 0.4), cache)
        for epsilon in (0.5, 0.7, 0.8):
            result = rejudge(trace, epsilon=epsilon)
            real = run(seed, FlashVerify(epsilon, 0.4), cache)
            changed = result.steps[result.first_change - 1]
            approximate += changed.certainty is Certainty.APPROXIMATE
            if changed.certainty is not Certainty.DECIDED:
                assert changed.accepted == real.steps[result.first_change - 1].accepted
    assert approximate > 5


@pytest.mark.parametrize("epsilon", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("cache", CACHES)
def test_an_audit_knows_every_mask_view_that_another_epsilon_needs(cache, epsilon):
    """Raised or lowered, with a search cap: the audit holds the views, in draft order."""
    for seed in range(4):
        strategy = FlashVerify(0.7, 0.4, search_size=4, audit=True)
        result = rejudge(run(seed, strategy, cache), epsilon=epsilon)
        real = run(seed, replace(strategy, epsilon=epsilon), cache)
        changed = result.steps[result.first_change - 1]
        assert changed.certainty is not Certainty.DECIDED
        assert changed.accepted == real.steps[result.first_change - 1].accepted


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 500),
    st.sampled_from([*STRATEGIES, Confidence(0.8), Greedy()]),
    st.sampled_from(CACHES),
    st.sampled_from(CONFIGS),
    st.none() | st.floats(0, 1),
    st.none() | st.floats(0, 1),
)
def test_any_thresholds_give_one_of_four_badges(seed, strategy, cache, config, epsilon, gamma):
    trace = run(seed, strategy, cache, config)
    result = rejudge(trace, epsilon, gamma)
    badge = r"exact|exact until step \d+|approximate at step \d+|needs a run"
    assert re.fullmatch(badge, result.badge)
    assert [step.index for step in result.steps] == [*range(1, len(result.steps) + 1)]
    first = result.first_change or len(trace.steps) + 1
    for step, recorded in zip(result.steps, trace.steps, strict=False):
        assert (step.certainty is Certainty.UNKNOWN) == (step.index > first)
        assert sorted(p.position for p in step.proposals) == sorted(recorded.window)
        assert (step.accepted == recorded.accepted) or step.index == first
        assert all(p.verify_token != -1 for p in step.proposals)


def test_what_if_takes_less_than_20_ms_for_60_steps_of_32_positions():
    """Greedy-like thresholds: nearly a token a step, so 64 positions give about 60 steps."""
    config = DecodeConfig(gen_length=64, window_size=32, early_stop=False)
    trace = run(1, FlashVerify(1.0, 1.0), config=config)
    trace = replace(trace, steps=trace.steps[:60], status="stopped")
    assert len(trace.steps) >= 55
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        result = rejudge(trace, epsilon=0.999, gamma=0.999)
        seconds.append(time.perf_counter() - start)
    print(f"{1e3 * min(seconds):.1f} ms for {len(trace.steps)} steps, change {result.first_change}")
    assert min(seconds) < 0.020
