"""WINO against a straight-line version of its description: full forwards, a whole shadow block."""

import json
import math
from dataclasses import replace

import pytest
import torch

from flash_dllm.caches import (
    CACHES,
    DelayedDecodeCache,
    DualCache,
    FlashCache,
    NoCache,
    PrefixCache,
)
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.rejudge import rejudge
from flash_dllm.strategies import STRATEGIES, Confidence, Wino
from flash_dllm.trace_json import TraceError, from_json, to_json
from tests.hash_engine import EOS, HashEngine
from tests.random_model import MASK, PROMPT, plain_logits
from tests.recorded_run import END, LENGTH, START, blocks_of


class Published:
    """The loop of the description on a model in float64: what each step wrote and took back."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.tokens = PROMPT + [MASK] * LENGTH
        self.written, self.revoked, self.shadows = [], [], []

    def forward(self, start, block):
        """Probabilities [text, V] and [block, V] of the text and of the shadow block behind it."""
        total = END + block
        sees = torch.zeros(total, total, dtype=torch.bool)
        sees[:, :END] = True  # nobody sees the shadow block
        for i in range(block):
            sees[END + i, start + i] = False  # but for its own token a shadow sees everything
            sees[END + i, END + i] = True
        positions = [*range(END), *range(start, start + block)]
        ids = self.tokens + [MASK] * block
        logits = plain_logits(self.config, self.tensors, ids, mask=sees, positions=positions)
        logits[:, MASK] = -math.inf
        share = logits.softmax(-1)
        return share[:END], share[END:]

    def run(self, block, wide_in, narrow_out, share, least, most):
        for start in range(START, END, block):
            inside = range(start, start + block)
            while masks := [p for p in inside if self.tokens[p] == MASK]:
                text, shadow = self.forward(start, block)
                for p in masks:  # the shadow of a mask is the mask's own row
                    assert (text[p] - shadow[p - start]).abs().max() < 1e-12
                sure, best = text.max(-1)
                ranked = sorted(masks, key=lambda p: -sure[p])
                allowed = min(max(int(len(masks) * share), least), most)
                chosen = [p for p in ranked if sure[p] >= wide_in][:allowed] or ranked[:1]
                decided = [p for p in inside if self.tokens[p] != MASK]
                odds = {p: float(shadow[p - start, self.tokens[p]]) for p in decided}
                bad = sorted((p for p in decided if odds[p] < narrow_out), key=lambda p: odds[p])
                bad = bad[: len(chosen) - 1]
                for p in chosen:
                    self.tokens[p] = int(best[p])
                self.written.append([(p, int(best[p])) for p in chosen])
                for p in bad:
                    self.tokens[p] = MASK
                self.revoked.append(sorted(bad))
                self.shadows.append({p: round(odds[p], 6) for p in decided})


KNOBS = [
    (0.6, 0.9, 0.7, 5, 20),
    (0.3, 0.9, 0.7, 5, 20),
    (0.1, 0.6, 0.7, 2, 4),
    (0.05, 0.99, 0.4, 1, 6),
    (0.2, 0.05, 1.0, 5, 5),
]


@pytest.mark.parametrize("block", [8, 24])
@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_wino_equals_its_description(engine, small_config, small_tensors, knobs, block):
    published = Published(small_config, small_tensors)
    published.run(block, *knobs)
    trace = decode(engine, PROMPT, Wino(*knobs), NoCache(), blocks_of(block))
    assert [list(step.accepted) for step in trace.steps] == published.written
    assert [list(step.revoked) for step in trace.steps] == published.revoked
    shadows = [{r.position: r.confidence for r in step.rechecks} for step in trace.steps]
    assert shadows == published.shadows
    assert trace.passes == len(published.written)
    # the text, and one shadow for each token that an earlier step of the block decided
    rows = [record.rows for step in trace.steps for record in step.passes]
    assert rows == [END + len(odds) for odds in published.shadows]
    assert trace.canvas_at(len(trace.steps)) == published.tokens[START:]
    assert from_json(to_json(trace)) == trace


def test_the_knobs_above_take_tokens_back_and_come_to_other_texts(engine):
    traces = [decode(engine, PROMPT, Wino(*knobs), NoCache(), blocks_of(24)) for knobs in KNOBS]
    assert sum(trace.revocations > 0 for trace in traces) >= 3
    assert len({trace.token_ids for trace in traces}) > 2


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("cache", [NoCache(), DualCache(), FlashCache(4)], ids=lambda c: c.name)
def test_with_nothing_taken_back_and_no_cap_it_is_the_threshold_loop(engine, cache, epsilon):
    never = Wino(epsilon, 0.0, 1.0, 4096, 4096)
    plain = decode(engine, PROMPT, Confidence(epsilon), cache, blocks_of(8))
    trace = decode(engine, PROMPT, never, cache, blocks_of(8))
    assert [step.proposals for step in trace.steps] == [step.proposals for step in plain.steps]
    assert trace.passes == plain.passes
    assert trace.revocations == 0


def test_a_step_that_commits_one_token_takes_nothing_back(engine):
    trace = decode(engine, PROMPT, Wino(1.0, 1.0), NoCache(), blocks_of(8))
    assert {len(step.accepted) for step in trace.steps} == {1}
    assert trace.revocations == 0
    assert any(recheck.confidence < 0.5 for step in trace.steps for recheck in step.rechecks)


def test_a_token_reaches_its_own_shadow_only_through_rows_that_saw_it(engine, monkeypatch):
    """Leave-one-out is one layer deep, as in the description: the other rows have seen the token,
    and the shadow sees them. With one layer nothing of the token reaches its shadow."""
    from flash_dllm.caches.base import full_query
    from flash_dllm.engine_protocol import SessionRequest
    from flash_dllm.extra_rows import with_extra_rows
    from flash_dllm.packing import pack
    from flash_dllm.query import DraftAsk

    config = blocks_of(24)
    places = (9, 12, 13)

    def shadows(tokens):
        canvas = Canvas.start(PROMPT, config, (0,)).commit(zip(places, tokens, strict=True))
        session = engine.open(SessionRequest(1, canvas.length, max_views=24))
        handle = session.admit(canvas.length, 0)
        query = full_query(canvas, canvas.window(), MASK)
        query = with_extra_rows(query, DraftAsk(canvas.window(), places), canvas, MASK)
        packed = pack([(handle, query)], session.cache.table, engine.model.device)
        return engine.model.forward(packed, session.cache)[0][-3:]

    def moved():
        return (shadows((411, 95, 650)) - shadows((411, 96, 650))).abs().amax(1)

    assert (moved() > 1e-3).all()
    weights = engine.model.weights
    monkeypatch.setattr(engine.model, "weights", replace(weights, blocks=weights.blocks[:1]))
    one = moved()
    assert one[1] < 1e-12
    assert one[0] > 1e-3 and one[2] > 1e-3


def test_a_shadow_leaves_nothing_behind(engine):
    """Shadows write to scratch slots only: the same run with and without them, entry by entry."""
    never = Wino(0.2, 0.0, 1.0, 24, 24)
    for cache in (DualCache(), PrefixCache(), DelayedDecodeCache(), FlashCache(4)):
        trace = decode(engine, PROMPT, never, cache, blocks_of(12))
        plain = decode(engine, PROMPT, Confidence(0.2), cache, blocks_of(12))
        assert [s.proposals for s in trace.steps] == [s.proposals for s in plain.steps]


def test_a_flash_cache_that_reads_everything_is_no_cache(engine):
    knobs = Wino(0.1, 0.6, 0.7, 2, 4)
    everything = FlashCache(track_size=4096, refresh=1)
    trace = decode(engine, PROMPT, knobs, everything, blocks_of(8))
    plain = decode(engine, PROMPT, knobs, NoCache(), blocks_of(8))
    assert plain.revocations > 0
    assert [s.accepted for s in trace.steps] == [s.accepted for s in plain.steps]
    assert [s.revoked for s in trace.steps] == [s.revoked for s in plain.steps]


@pytest.mark.parametrize("name", [n for n, kind in CACHES.items() if "revocation" in kind.takes])
@pytest.mark.parametrize("seed", range(12))
def test_any_cache_that_takes_revocations_ends_and_replays(name, seed):
    """The hash engine refuses a row that sees a position twice or not at all."""
    config = DecodeConfig(24, block_length=12, window_size=8, decide_size=5)
    trace = decode(HashEngine(seed), [1, 2, 3], Wino(0.5, 0.8), CACHES[name](), config)
    assert trace.status == "finished"
    assert from_json(to_json(trace)) == trace
    assert len(trace.steps) <= 24
    for step in trace.steps:
        assert len(step.revoked) < max(1, len(step.accepted))


@pytest.mark.parametrize("seed", range(20))
def test_early_stop_gives_the_answer_of_decoding_on(seed):
    """Tokens before an end token may still be taken back, so its block must be finished first."""
    config = DecodeConfig(32, block_length=16, window_size=16)
    strategy = Wino(0.4, 0.9, 0.7, 2, 6)
    engine = HashEngine(seed, end_share=12)
    stopped = decode(engine, [1, 2, 3], strategy, NoCache(), config)
    on = decode(engine, [1, 2, 3], strategy, NoCache(), replace(config, early_stop=False))
    assert stopped.token_ids == on.token_ids
    assert [s.accepted for s in stopped.steps] == [
        s.accepted for s in on.steps[: len(stopped.steps)]
    ]


def test_early_stop_waits_for_the_end_of_the_block():
    config = DecodeConfig(8, block_length=4, window_size=4)
    text = Canvas.start([1, 2], config, (EOS,), None, is_revocable=True)
    ended = text.commit([(2, 7), (3, EOS)])
    assert not ended.is_finished
    assert replace(ended, is_revocable=False).is_finished
    assert ended.commit([(4, 8), (5, 9)]).is_finished


def test_a_revoked_position_is_masked_again():
    config = DecodeConfig(6, block_length=3, window_size=2)
    text = Canvas.start([1, 2], config, (EOS,)).commit([(2, 7), (3, EOS), (4, 9)])
    assert (text.window(), text.first_end()) == ((5, 6), 3)
    again = text.revoke([3])
    assert again.tokens[3] is None and not again.flags[3]
    assert (again.window(), again.undecided(), again.first_end()) == ((3,), (3, 5, 6, 7), None)
    assert again.commit([(3, 8)]).decided() == (0, 1, 2, 3, 4)
    for position in (0, 5, 99):
        with pytest.raises(ValueError, match=f"position {position} is not decided"):
            text.revoke([position])


def test_a_batch_decodes_each_prompt_as_if_it_were_alone(engine):
    prompts = [PROMPT, PROMPT[:5], PROMPT[2:]]
    for cache in (NoCache(), DualCache(), FlashCache(4)):
        together = decode_batch(engine, prompts, Wino(0.2), cache, blocks_of(8), 2)
        alone = [decode(engine, ids, Wino(0.2), cache, blocks_of(8)) for ids in prompts]
        assert [t.token_ids for t in together] == [t.token_ids for t in alone]
        assert [[s.rechecks for s in t.steps] for t in together] == [
            [s.rechecks for s in t.steps] for t in alone
        ]


@pytest.fixture(scope="module")
def trace():
    config = DecodeConfig(24, block_length=12, window_size=12)
    trace = decode(HashEngine(4), [1, 2, 3], Wino(0.5, 0.9), NoCache(), config)
    assert trace.revocations > 1
    return trace


def test_the_record_says_which_step_wrote_the_token_that_stands(trace):
    last = {}
    for step in trace.steps:
        for position, _ in step.accepted:
            last[position] = step.index
        for position in step.revoked:
            last.pop(position)
    assert trace.decided_step == last
    number = next(i for i, step in enumerate(trace.steps) if step.revoked)
    gone = trace.steps[number].revoked[0] - trace.prompt_length
    assert trace.canvas_at(number)[gone] is not None
    assert trace.canvas_at(number + 1)[gone] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda step: step["rechecks"][0].update(is_revoked=not step["rechecks"][0]["is_revoked"]),
         "is not what the rules give"),
        (lambda step: step["rechecks"][0].update(token=3), "is not what the rules give"),
        (lambda step: step["rechecks"].pop(), "must hold what was decided in this block"),
        (lambda step: step.pop("rechecks"), "must hold what was decided in this block"),
        (lambda step: step["rechecks"][0].update(confidence=2), "must lie between 0 and 1"),
        (lambda step: step["rechecks"][0].update(is_revoked=1), "must be true or false"),
    ],
)  # fmt: skip
def test_a_changed_revocation_is_found(trace, change, words):
    tree = json.loads(to_json(trace))
    change(next(s for s in tree["steps"] if any(r["is_revoked"] for r in s.get("rechecks", ()))))
    with pytest.raises(TraceError, match=words):
        from_json(json.dumps(tree))


def test_other_thresholds_leave_a_revocable_run_as_it_is(trace):
    """γ and ε are no knobs of it; the recorded steps are decided again, revocations included."""
    again = rejudge(trace, epsilon=0.5, gamma=0.5)
    assert again.badge == "exact" and again.first_change is None
    assert [s.revoked for s in again.steps] == [s.revoked for s in trace.steps]


def test_traces_of_other_strategies_are_written_as_before():
    config = DecodeConfig(12, block_length=6, window_size=6)
    text = to_json(decode(HashEngine(1), [1, 2], Confidence(0.6), NoCache(), config))
    assert "rechecks" not in text and "branches" not in text


def test_a_cache_that_can_not_mask_again_is_refused_by_name(engine):
    unfit = next(n for n, kind in CACHES.items() if "revocation" not in kind.takes)
    if "bidirectional" not in CACHES[unfit].fits:
        unfit = "dkv_greedy"
    with pytest.raises(ValueError, match="takes revocation, got .*; use .*none"):
        decode(engine, PROMPT, Wino(), CACHES[unfit](), blocks_of(8))


def test_models_that_it_does_not_fit_are_refused():
    config = DecodeConfig(8, block_length=4, window_size=4)
    for engine in (HashEngine(0, shift=1), HashEngine(0, causal_block=4)):
        with pytest.raises(ValueError, match="can't be asked of hash 0"):
            decode(engine, [1, 2], Wino(), NoCache(), config)


def test_impossible_bounds_are_refused():
    with pytest.raises(ValueError, match="commit_least must not exceed commit_most, got 9 and 3"):
        Wino(commit_least=9, commit_most=3)
    assert STRATEGIES["wino"] is Wino
