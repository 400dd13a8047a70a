"""The chain against a straight-line version of its description, in float64: one forward of one row
after another, with remembered entries in plain dicts; and what follows from its rules."""

import doctest
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import sentences
from app.visibility import verify_pass, visibility
from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.query import Role, VerifyAsk
from flash_dllm.rejudge import Certainty, rejudge
from flash_dllm.strategies import Chain, Greedy
from flash_dllm.strategies import chain as chain_module
from flash_dllm.strategies.base import StepState
from flash_dllm.strategies.chain import judge_chain
from flash_dllm.trace import StopReason, TraceError, Verdict
from flash_dllm.trace_json import from_json, to_json
from tests.any_settings import check_run, configs
from tests.hash_engine import HashEngine
from tests.plain_cache import forward_rows
from tests.random_model import MASK, PROMPT
from tests.recorded_run import END, LENGTH, START


class Straight:
    """A text, its remembered entries (per layer, by position), and the rows of every pass."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.text = PROMPT + [MASK] * LENGTH
        self.rows, self.steps = [], []

    def forward(self, text, positions, past):
        """({position: (token, probability)}, entries) of these rows."""
        logits, fresh = forward_rows(self.config, self.tensors, text, positions, past)
        logits[:, MASK] = -math.inf
        sure, tokens = logits.softmax(-1).max(-1)
        answers = zip(positions, zip(tokens.tolist(), sure.tolist(), strict=True), strict=True)
        return dict(answers), fresh


def over(past, fresh):
    """The entries with newer ones in their places."""
    return [{**old, **new} for old, new in zip(past, fresh, strict=True)]


def chain(run, epsilon, hope, longest, window, keeps_entries):
    """The whole decoder. keeps_entries: rows outside of the window are read once, decided ones
    again only if their token was not written; else every draft pass reads everything."""
    entries, unwritten = None, []
    while masks := [p for p in range(START, END) if run.text[p] == MASK]:
        asked = masks[:window]
        rows = sorted(unwritten + asked) if keeps_entries and entries else list(range(END))
        answers, fresh = run.forward(run.text, rows, entries if keeps_entries else None)
        entries = over(entries, fresh) if keeps_entries and entries else fresh
        passes = [len(rows)]
        drafts = {p: answers[p] for p in asked}

        decided = [asked[0]]
        while len(decided) < len(asked) and drafts[asked[len(decided)]][1] >= epsilon:
            decided.append(asked[len(decided)])
        searched, product = [], 1.0
        for p in asked[len(decided) :][:longest]:
            product *= drafts[p][1]
            if product < hope:
                break
            searched.append(p)

        text = list(run.text)
        for p in decided:
            text[p] = drafts[p][0]
        pairs, unwritten = [(p, drafts[p][0]) for p in decided], list(decided)
        if searched:
            known = [p for p in range(END) if run.text[p] != MASK]
            again = decided if keeps_entries else known + decided
            _, fresh = run.forward(text, sorted(again), entries)
            entries, unwritten = over(entries, fresh), []
            views = [p for p in searched if drafts[p][1] < epsilon]
            passes.append(len(again) + len(searched) + len(views))
            for p in searched:
                token, sure = drafts[p]
                if sure < epsilon:
                    token = run.forward(text, [p], entries)[0][p][0]
                pairs.append((p, token))
                if token != drafts[p][0]:
                    unwritten = [p]
                    break
                text[p] = token
                entries = over(entries, run.forward(text, [p], entries)[1])
        for p, token in pairs:
            run.text[p] = token
        run.steps.append(pairs)
        run.rows += passes


SETTINGS = [(1.0, 0.0, 24, 24), (0.6, 0.0, 6, 10), (0.4, 0.02, 24, 12), (0.5, 0.3, 24, 5)]


@pytest.mark.parametrize("cache", [NoCache(), FlashCache(track_size=0, verify_rows=1)],
                         ids=["none", "flash"])  # fmt: skip
@pytest.mark.parametrize(("epsilon", "hope", "longest", "window"), SETTINGS)
def test_chain_equals_its_description(
    engine, small_config, small_tensors, cache, epsilon, hope, longest, window
):
    run = Straight(small_config, small_tensors)
    chain(run, epsilon, hope, longest, window, cache.keeps_entries)
    config = DecodeConfig(gen_length=LENGTH, window_size=window, early_stop=False)
    trace = decode(engine, PROMPT, Chain(epsilon, hope, longest), cache, config)
    assert [list(step.accepted) for step in trace.steps] == run.steps
    assert [p.rows for s in trace.steps for p in s.passes] == run.rows
    assert from_json(to_json(trace)) == trace


def one_by_one(engine, prompt, config):
    """The answer of one token at a time from left to right, by a whole pass each."""
    return decode(engine, prompt, Greedy(), NoCache(), replace(config, window_size=1)).answer


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1), st.none() | st.integers(0, 9), st.integers(1, 12))
def test_without_trust_nothing_is_lost(seed, hope, longest, window):
    """The engine's answer is a hash of the text that a row sees. It is never more than sure, so
    at ε = 1 only drafts that it is certain of go without a mask view."""
    engine = HashEngine(seed, end_share=seed % 20)
    config = DecodeConfig(gen_length=24, window_size=window)
    trace = decode(engine, [1, 2], Chain(1.0, hope, longest), FlashCache(track_size=2), config)
    trusted = [p for s in trace.steps for p in s.proposals if p.verdict is Verdict.CONFIDENT]
    if not trusted:
        assert trace.answer == one_by_one(engine, [1, 2], config)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.builds(Chain, st.floats(0, 1), st.floats(0, 1), st.none() | st.integers(0, 9),
              st.floats(0, 1)),
    st.sampled_from([NoCache(), FlashCache(track_size=3), FlashCache(refresh=5)]),
    configs(),
)  # fmt: skip
def test_any_settings_finish_and_replay(seed, strategy, cache, config):
    """The engine raises if a row sees a position twice or not at all."""
    engine = HashEngine(seed, end_share=seed % 20, shift=seed % 2)
    trace = decode(engine, [1, 2, 3], strategy, cache, config)
    check_run(trace, engine)
    for step in trace.steps:
        # nothing is written before its left context is
        written = {position for position, _ in step.accepted}
        assert min(step.window) in written
    together = decode_batch(engine, [[1, 2, 3], [4]], strategy, cache, config, 2)
    assert together[0] == trace


def test_verdicts_of_a_chain():
    """8 is trusted; 9 holds by its view; 4 is not what the view says; 5 comes after that."""
    views = [None, (9, 0.4), (3, 0.7), None]
    verdicts, stop = judge_chain([8, 9, 4, 5], views, gamma=0.3)
    assert verdicts == [
        Verdict.CONFIDENT, Verdict.VERIFIED, Verdict.CORRECTED, Verdict.AFTER_STOP,
    ]  # fmt: skip
    assert stop is StopReason.MISMATCH
    verdicts, stop = judge_chain([8, 9, 4, 5], views, gamma=0.5)
    assert verdicts == [
        Verdict.CONFIDENT, Verdict.UNSURE, Verdict.AFTER_STOP, Verdict.AFTER_STOP,
    ]  # fmt: skip
    assert stop is StopReason.BELOW_GAMMA
    assert judge_chain([4], [(3, 0.7)], gamma=0.8) == ([Verdict.MISMATCH], StopReason.MISMATCH)
    assert judge_chain([], [], gamma=0.0) == ([], StopReason.NO_SEARCH)


def test_the_examples_in_the_docstrings_are_true():
    result = doctest.testmod(chain_module)
    assert (result.failed, result.attempted) == (0, 2)


def asked(confidences, strategy):
    """The verify question of a step whose drafts have these confidences, by position."""
    from flash_dllm.canvas import Canvas
    from flash_dllm.query import Prediction

    canvas = Canvas.start([1], DecodeConfig(gen_length=len(confidences)), (0,))
    step = strategy.step(StepState.of(strategy, canvas, 1))
    next(step)
    count = len(confidences)
    try:
        return step.send(Prediction([7] * count, confidences, [()] * count))
    except StopIteration as end:
        return end.value


def test_a_chain_stands_behind_the_leftmost_draft_and_the_sure_ones_after_it():
    """.4 leftmost, .95 sure: decided. Then .6 · .9 = .54 and · .5 = .27 < .3 ends the chain; the
    sure link needs no mask view."""
    ask = asked([0.4, 0.95, 0.6, 0.9, 0.5, 0.9], Chain(epsilon=0.9, hope=0.3))
    assert ask == VerifyAsk(((1, 7), (2, 7)), ((3, 7), (4, 7)), unviewed=(4,))
    assert ask.viewed == [3]


def test_a_chain_without_hope_asks_nothing_again():
    decision = asked([0.4, 0.2, 0.9], Chain(epsilon=0.9, hope=0.3))
    assert decision.accepted == ((1, 7),)
    assert decision.stop is StopReason.NO_SEARCH
    assert [p.verdict for p in decision.judged] == [Verdict.FORCED]


@pytest.fixture(scope="module")
def links():
    """A run, and the first step whose chain held to its end, a sure link, which is less sure than
    what was decided before the chain."""
    for seed in range(200):
        trace = decode(HashEngine(seed), [1, 2], Chain(0.7, 0.1), FlashCache(track_size=4),
                       DecodeConfig(gen_length=24, window_size=12))  # fmt: skip
        for step in trace.steps:
            decided = [p.confidence for p in step.proposals if p.rank == 0]
            searched = [p for p in step.proposals if p.rank]
            last = searched[-1] if len(searched) > 2 else None
            if last and last.verdict is Verdict.CONFIDENT and last.confidence < min(decided[1:]
                                                                                   or [1.0]):
                return trace, step
    raise AssertionError("no run has such a step")


def test_the_lab_shows_the_pass_that_was_asked(links):
    trace, step = links
    query = verify_pass(trace, step.index)
    assert query.rows == step.passes[-1].rows
    views = [p.position for p in step.proposals if p.rank and p.has_view]
    masks = [p for p, role in zip(query.positions, query.roles, strict=True)
             if role == Role.MASK_VIEW]  # fmt: skip
    assert masks == views
    seen = visibility(trace, step.index)
    names = [column.name for column in seen.columns if column.group == "mask views"]
    ranks = [p.rank for p in step.proposals if p.rank and p.has_view]
    assert names == [f"mask {rank}" for rank in ranks]


def test_a_trusted_link_is_told_as_one(links):
    trace, step = links
    link = next(p for p in step.proposals if p.rank and not p.has_view)
    assert sentences.token_sentence(trace, link) == (
        "Kept without a check: c ≥ ε = 0.70, and every draft before it held."
    )
    kept = sum(bool(p.rank) for p in step.proposals)
    assert sentences.step_sentence(trace, step).endswith(
        f"The check kept {kept} more: every draft it was asked about held."
    )


def test_a_higher_epsilon_needs_mask_views_that_were_not_asked(links):
    """The decided ones stay the same, but the last link would have to be checked."""
    trace, step = links
    alone = replace(trace, steps=trace.steps[: step.index])
    link = max((p for p in step.proposals if p.rank), key=lambda p: p.rank)
    again = rejudge(alone, epsilon=link.confidence + 0.005)
    changed = again.steps[again.first_change - 1]
    assert changed.certainty is Certainty.DECIDED
    assert again.tokens_gained is None


def test_a_forged_link_is_refused(links):
    """A link whose confidence is below ε needs a mask view."""
    trace, step = links
    link = next(p for p in step.proposals if p.rank and not p.has_view)
    forged = replace(step, proposals=tuple(
        replace(p, confidence=0.69) if p is link else p for p in step.proposals
    ))  # fmt: skip
    steps = tuple(forged if s is step else s for s in trace.steps)
    with pytest.raises(TraceError, match="mask view|the rules give|passes"):
        from_json(to_json(replace(trace, steps=steps)))
