"""The rules on plain numbers: canvas, acceptance, tracking, visibility, and any settings at all.

The last part runs random settings over `hash_engine.py`, whose answers depend on exactly the
text that a row sees: a wrong mask, a stale cache entry or a lost promotion changes a token.
"""

import doctest
import importlib
import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.acceptance import by_confidence, judge, search_order, split
from flash_dllm.caches import FlashCache
from flash_dllm.caches.base import full_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.query import Role, VerifyAsk, sees_slot, visible_slots
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace import StopReason, Verdict
from flash_dllm.tracking import by_mass, cosine, next_tracked
from tests.any_settings import CACHES, STRATEGIES, VERIFIES, check_answers, check_run, configs
from tests.hash_engine import EOS, HashEngine

CONFIDENT, VERIFIED, CORRECTED = Verdict.CONFIDENT, Verdict.VERIFIED, Verdict.CORRECTED
MISMATCH, UNSURE, AFTER_STOP = Verdict.MISMATCH, Verdict.UNSURE, Verdict.AFTER_STOP


@pytest.mark.parametrize(
    "module", ["trace", "canvas", "acceptance", "tracking", "query", "config", "rejudge"]
)
def test_the_examples_in_the_docstrings_are_true(module):
    result = doctest.testmod(importlib.import_module(f"flash_dllm.{module}"))
    assert result.failed == 0
    assert result.attempted > 0 or module == "config"


# canvas


def canvas(tokens, prompt=(7, 8), **config) -> Canvas:
    """A canvas whose answer holds these tokens; None where undecided; 0 ends the answer."""
    start = Canvas.start(prompt, DecodeConfig(gen_length=len(tokens), **config), (0,))
    pairs = [(2 + i, token) for i, token in enumerate(tokens) if token is not None]
    return start.commit(pairs)


_ = None


def test_the_window_skips_decided_positions():
    assert canvas([_, 5, _, _, 5, _], window_size=3).window() == (2, 4, 5)


def test_the_window_ends_with_the_first_unfinished_block():
    assert canvas([_, 5, _, _, _, _], block_length=3, window_size=4).window() == (2, 4)
    assert canvas([5, 5, 5, _, _, _], block_length=3, window_size=2).window() == (5, 6)


def test_a_later_block_waits_although_tokens_stand_in_it():
    assert canvas([5, 5, _, _, 5, _], block_length=3, window_size=6).window() == (4,)


def test_only_the_leftmost_part_of_the_window_may_be_committed():
    text = canvas([_, 5, _, _, _, _], window_size=4, decide_size=2)
    assert (text.window(), text.decidable()) == ((2, 4, 5, 6), (2, 4))


def test_behind_an_end_nothing_may_be_committed_when_that_is_suppressed():
    text = canvas([_, _, 0, _, _], window_size=5, suppress_after_eos=True, early_stop=False)
    assert text.decidable() == (2, 3)


def test_what_is_left_behind_an_end_may_be_committed_when_nothing_stands_before_it():
    text = canvas([5, 0, _, _], window_size=4, suppress_after_eos=True, early_stop=False)
    assert text.decidable() == (4, 5)


def test_an_end_stops_the_run_only_when_nothing_before_it_is_undecided():
    assert canvas([5, 5, 0, _]).is_finished
    assert not canvas([5, _, 0, _]).is_finished
    assert not canvas([5, 5, 0, _], early_stop=False).is_finished
    assert canvas([5, 5, 0, 5], early_stop=False).is_finished


def test_an_end_token_in_the_prompt_is_no_end():
    assert canvas([5, _, _], prompt=(0, 0)).first_end() is None
    assert canvas([_, 0, 0], prompt=(0, 0)).first_end() == 3


def test_decided_and_undecided_are_all_positions():
    text = canvas([_, 5, _])
    assert (text.decided(), text.undecided(), text.length) == ((0, 1, 3), (2, 4), 5)


@pytest.mark.parametrize("position", [0, 1, 3, 5, -1])
def test_a_decided_or_foreign_position_can_not_be_committed(position):
    with pytest.raises(ValueError, match=f"position {position} is not undecided"):
        canvas([_, 5, _]).commit([(position, 6)])


def test_a_position_can_not_be_committed_twice_at_once():
    with pytest.raises(ValueError, match="position 2 is not undecided"):
        canvas([_, _]).commit([(2, 6), (2, 6)])


# settings


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DecodeConfig(gen_length=0), "gen_length must lie between 1 and 4096, got 0"),
        (lambda: DecodeConfig(gen_length=True), "gen_length must be a whole number, got True"),
        (lambda: DecodeConfig(10, block_length=4), "multiple of block_length, got 10 and 4"),
        (lambda: DecodeConfig(window_size=4, decide_size=5), "not exceed window_size, got 5 and 4"),
        (lambda: DecodeConfig(temperature=float("nan")), "temperature must be a number, got nan"),
        (lambda: DecodeConfig(early_stop=1), "early_stop must be true or false, got 1"),
        (lambda: FlashVerify(gamma="high"), "gamma must be a number, got 'high'"),
        (lambda: FlashVerify(order="length"), "order must be one of confidence, position"),
        (lambda: FlashVerify(search_size=-1), "search_size must lie between 0 and 1024, got -1"),
        (lambda: FlashCache(refresh="never"), "refresh must be one of init, drift, got 'never'"),
        (lambda: FlashCache(refresh=0), "refresh must lie between 1 and 4096, got 0"),
        (lambda: FlashCache(track_layers=(2, 1)), "track_layers must be two rising layer numbers"),
    ],
    ids=itertools.count(),
)
def test_impossible_settings_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# acceptance


def test_confidence_ties_go_to_the_lower_position():
    assert by_confidence([9, 4, 6], [0.5, 0.5, 0.7]) == [2, 1, 0]


def test_epsilon_is_inclusive_and_the_surest_is_always_decided():
    assert split([1, 2, 3], [0.9, 0.89, 0.95], epsilon=0.9) == ([2, 0], [1])
    assert split([1, 2, 3], [0.1, 0.3, 0.2], epsilon=0.9) == ([1], [2, 0])
    assert split([1, 2], [0.3, 0.3], epsilon=0.9) == ([0], [1])
    assert split([1], [0.0], epsilon=1.0) == ([0], [])


def test_the_search_cap_keeps_the_surest_and_then_sorts_by_position():
    ranked = [3, 0, 2]
    positions = [10, 11, 12, 13]
    assert search_order(ranked, positions, "confidence", None) == [3, 0, 2]
    assert search_order(ranked, positions, "confidence", 2) == [3, 0]
    assert search_order(ranked, positions, "position", 2) == [0, 3]
    assert search_order(ranked, positions, "position", 0) == []


@pytest.mark.parametrize(
    ("verified", "confidences", "knobs", "verdicts", "stop"),
    [
        ([7, 8, 9], [0.8, 0.9, 1.0], {}, [VERIFIED] * 3, StopReason.EXHAUSTED),
        ([7, 8, 9], [0.8, 0.7, 1.0], {}, [VERIFIED, UNSURE, AFTER_STOP], StopReason.BELOW_GAMMA),
        ([7, 1, 9], [0.8, 0.9, 1.0], {}, [VERIFIED, MISMATCH, AFTER_STOP], StopReason.MISMATCH),
        ([1, 8, 9], [0.1, 0.9, 1.0], {}, [MISMATCH, AFTER_STOP, AFTER_STOP], StopReason.MISMATCH),
        (
            [7, 8, 9],
            [0.9, 0.9, 0.9],
            {"acceptance": "joint"},
            [VERIFIED, VERIFIED, UNSURE],
            StopReason.BELOW_GAMMA,
        ),
        (
            [7, 1, 9],
            [0.9, 0.8, 0.9],
            {"correct": True},
            [VERIFIED, CORRECTED, AFTER_STOP],
            StopReason.MISMATCH,
        ),
        (
            [7, 1, 9],
            [0.9, 0.79, 0.9],
            {"correct": True},
            [VERIFIED, MISMATCH, AFTER_STOP],
            StopReason.MISMATCH,
        ),
        (
            [7, 1, 9],
            [0.9, 0.85, 0.9],
            {"correct": True, "acceptance": "joint"},
            [VERIFIED, MISMATCH, AFTER_STOP],
            StopReason.MISMATCH,
        ),
    ],
    ids=itertools.count(),
)
def test_the_accepted_prefix_at_gamma_8(verified, confidences, knobs, verdicts, stop):
    """Drafts 7, 8, 9. Jointly .9 · .9 = .81 passes and .729 does not; .9 · .85 = .765 neither."""
    judgement = judge([7, 8, 9], verified, confidences, 0.8, **knobs)
    assert (list(judgement.verdicts), judgement.stop) == (verdicts, stop)
    assert judgement.accepted == sum(v in (VERIFIED, CORRECTED) for v in verdicts)


def test_nothing_searched_is_no_search():
    assert judge([], [], [], 0.8).stop is StopReason.NO_SEARCH


@pytest.mark.parametrize("acceptance", ["each", "joint"])
def test_every_small_case_keeps_the_longest_prefix_that_passes(acceptance):
    """All agreements and confidences .5, .8, 1 of up to four tokens, against all prefixes."""

    def product(values):
        result = 1.0
        for value in values:
            result *= value
        return result

    for n in range(5):
        for agrees in itertools.product([True, False], repeat=n):
            for views in itertools.product([0.5, 0.8, 1.0], repeat=n):
                verified = [5 if yes else 6 for yes in agrees]
                good = [
                    k
                    for k in range(n + 1)
                    if all(agrees[:k])
                    and (
                        min(views[:k], default=1.0) >= 0.8
                        if acceptance == "each"
                        else product(views[:k]) >= 0.8
                    )
                ]
                judgement = judge([5] * n, verified, list(views), 0.8, acceptance)
                assert judgement.accepted == max(good)


# tracking


def test_dirty_positions_are_kept_beyond_the_size():
    mass = [0.5, 0.1, 0.2, 0.2]
    assert next_tracked([0, 2, 3, 1], [2, 3], [3, 2], mass, 1) == (2, 3)
    assert next_tracked([0, 2, 3, 1], [2, 3], [2], mass, 0) == (2,)


def test_newly_decided_positions_come_before_older_ones_with_more_mass():
    mass = [0.6, 0.3, 0.06, 0.04]
    assert next_tracked([0, 1, 2, 3], [3, 2], [], mass, 3) == (2, 3, 0)


def test_mass_ties_go_to_the_lower_position():
    mass = [0.1, 0.2, 0.2, 0.2]
    assert by_mass([3, 0, 2, 1], mass) == [1, 2, 3, 0]
    assert next_tracked([1, 2, 3, 0], [], [], mass, 2) == (1, 2)
    assert next_tracked([1, 0], [3, 2], [], mass, 3) == (2, 3, 1)


@given(st.data())
def test_the_tracked_set_is_made_of_decided_positions_and_holds_the_dirty_ones(data):
    decided = data.draw(st.lists(st.integers(0, 19), unique=True, min_size=1))
    newly = data.draw(st.lists(st.sampled_from(decided), unique=True))
    dirty = data.draw(st.lists(st.sampled_from(newly), unique=True)) if newly else []
    mass = data.draw(st.lists(st.floats(0, 1), min_size=20, max_size=20))
    size = data.draw(st.integers(0, 25))
    tracked = next_tracked(by_mass(decided, mass), newly, dirty, mass, size)
    assert set(dirty) <= set(tracked) <= set(decided)
    assert len(tracked) == len(set(tracked)) == max(len(dirty), min(size, len(decided)))


def test_the_cosine_of_mass_vectors():
    assert cosine([3.0, 4.0], [4.0, 3.0]) == pytest.approx(24 / 25)
    assert cosine([0.0, 0.0], [1.0, 0.0]) == 1.0


# who sees whom


def three_searched():
    """Positions 0 (prompt), 1 (D), 2, 3, 4 (searched as rank 1, 2, 3), 5 (left masked).

    Own slots 0…5, draft views in 6, 7, 8, mask views in 9, 10, 11.
    """
    text = Canvas.start([7], DecodeConfig(gen_length=5), (0,))
    ask = VerifyAsk(decided=((1, 5),), searched=((2, 6), (3, 6), (4, 6)))
    return verify_query(text, (0,), Role.TRACKED, ask, mask_token_id=9)


def test_who_sees_whom_with_three_searched_positions():
    """Tracked and decided rows see the searched positions masked; the k-th views see drafts in
    place of the masks before k; a later mask is seen through the draft pass's entry."""
    query = three_searched()
    visible = {row: sorted(visible_slots(query, row)) for row in range(query.rows)}
    assert visible == {
        0: [0, 1, 2, 3, 4, 5],  # tracked
        1: [0, 1, 2, 3, 4, 5],  # decided
        2: [0, 1, 3, 4, 5, 6],  # draft view 1
        3: [0, 1, 4, 5, 6, 7],  # draft view 2
        4: [0, 1, 5, 6, 7, 8],  # draft view 3
        5: [0, 1, 3, 4, 5, 9],  # mask view 1
        6: [0, 1, 4, 5, 6, 10],  # mask view 2
        7: [0, 1, 5, 6, 7, 11],  # mask view 3
    }


def test_every_row_sees_every_position_once():
    query = three_searched()
    at = {slot: query.positions[row] for row, slot in enumerate(query.slots)}
    for row in range(query.rows):
        slots = visible_slots(query, row)
        assert sorted(at.get(slot, slot) for slot in slots) == list(range(6))


def test_the_rows_of_a_verify_pass():
    query = three_searched()
    assert query.kind == "verify"
    assert query.positions == [0, 1, 2, 3, 4, 2, 3, 4]
    assert query.tokens == [7, 5, 6, 6, 6, 9, 9, 9]
    assert query.slots == [0, 1, 6, 7, 8, 9, 10, 11]
    assert query.ranks == [0, 0, 1, 2, 3, 1, 2, 3]
    assert query.predict == [5, 6, 7]
    assert query.searched == {2: 1, 3: 2, 4: 3}


def test_the_slot_rule_for_ranks_0_to_3():
    table = [[sees_slot(rank, searched) for searched in range(4)] for rank in range(4)]
    assert table == [
        [True, True, True, True],
        [True, False, True, True],
        [True, False, False, True],
        [True, False, False, False],
    ]


def test_a_full_pass_reads_every_position_and_predicts_the_window():
    text = canvas([5, _, 5, _, _, _], window_size=2)
    query = full_query(text, text.window(), mask_token_id=9)
    assert query.tokens == [7, 8, 5, 9, 5, 9, 9, 9]
    assert query.positions == query.slots == list(range(8))
    assert query.predict == [3, 5]
    context, window, far = Role.CONTEXT, Role.WINDOW, Role.FAR
    assert query.roles == [context, context, context, window, context, window, far, far]


# any settings


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, CACHES, configs(), st.integers(1, 5))
def test_any_settings_finish_and_replay(seed, strategy, cache, config, prompt_length):
    engine = HashEngine(seed, end_share=seed % 20)
    trace = decode(engine, list(range(prompt_length)), strategy, cache, config)
    check_run(trace, engine)
    check_answers(trace, engine)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, CACHES, configs())
def test_stopping_early_loses_nothing(seed, strategy, cache, config):
    engine = HashEngine(seed, end_share=15)
    early, whole = (
        decode(engine, [1, 2], strategy, cache, replace(config, early_stop=stop))
        for stop in (True, False)
    )
    assert early.token_ids == whole.token_ids
    assert early.answer == whole.answer
    assert early.steps == whole.steps[: len(early.steps)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, CACHES, configs(), st.integers(1, 4))
def test_a_batch_decodes_each_prompt_as_if_alone(seed, strategy, cache, config, batch_size):
    engine = HashEngine(seed)
    prompts = [[1], [2, 3, 4], [5, 6], [1, 1, 1, 1], [7]]
    together = decode_batch(engine, prompts, strategy, cache, config, batch_size)
    for prompt, trace in zip(prompts, together, strict=True):
        assert trace == decode(engine, prompt, strategy, cache, config)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), VERIFIES, CACHES, configs())
def test_an_audit_changes_no_token_and_answers_for_the_text_in_acceptance_order(
    seed, strategy, cache, config
):
    engine = HashEngine(seed)
    plain = decode(engine, [1, 2], strategy, cache, config)
    audit = decode(engine, [1, 2], replace(strategy, audit=True), cache, config)
    assert [step.accepted for step in audit.steps] == [step.accepted for step in plain.steps]
    assert (audit.passes, audit.token_ids) == (plain.passes, plain.token_ids)
    for step in audit.steps:
        assert all(p.verify_token is not None for p in step.proposals)
    check_run(audit, engine)
    check_answers(audit, engine)


def test_the_hash_engine_covers_every_verdict_and_stop_reason():
    """A guard for the tests above: the model agrees with itself often enough, and not always."""
    config = DecodeConfig(gen_length=24, window_size=8, decide_size=6)
    verdicts, stops, ends = set(), set(), 0
    for seed in range(10):
        strategy = FlashVerify(0.9, 0.6, search_size=4, correct=True)
        trace = decode(HashEngine(seed), [1, 2], strategy, FlashCache(), config)
        verdicts |= {p.verdict for step in trace.steps for p in step.proposals}
        stops |= {step.stop for step in trace.steps}
        ends += EOS in trace.token_ids
    assert (verdicts, stops) == (set(Verdict), set(StopReason))
    assert 0 < ends <= 10


@pytest.mark.parametrize(
    "layers", [3, ["a", "b"], [0, 1, 2], [0.5, 1.5], (False, True), [2, 1], [-1, 2]], ids=str
)
def test_track_layers_are_two_rising_whole_numbers(layers):
    with pytest.raises(ValueError, match="track_layers"):
        FlashCache(track_layers=layers)


def test_track_layers_from_json_equal_those_from_python():
    assert FlashCache(track_layers=[0, 3]) == FlashCache(track_layers=(0, 3))
