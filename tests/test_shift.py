"""Models whose row at p answers position p + 1: rows over pred(i), by hand and against the rule."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.caches.base import full_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.packing import pack
from flash_dllm.query import Query, Role, VerifyAsk, visible_slots
from flash_dllm.scripted import Script, ScriptedEngine
from flash_dllm.shift import shifted
from flash_dllm.strategies import FlashVerify
from tests.any_settings import CACHES, STRATEGIES, VERIFIES, check_answers, check_run, configs
from tests.hash_engine import HashEngine
from tests.official_layouts import write_layout
from tests.random_model import EOS, EOT, MASK

# six positions: ^ and A are given, four blanks follow; every state that a run can see
SIX = Script(
    vocabulary=("A", "B", "[MASK]", "^", "$"),
    answers={
        ("^ A _ _ _ _", 2): ("B", 0.95),
        ("^ A _ _ _ _", 3): ("A", 0.70),
        ("^ A _ _ _ _", 4): ("B", 0.60),
        ("^ A B _ _ _", 3): ("A", 0.85),
        ("^ A B A _ _", 4): ("A", 0.75),
        ("^ A B A _ _", 5): ("B", 0.92),
        ("^ A B A _ B", 4): ("A", 0.91),
    },
    mass={"^ A _ _ _ _": {0: 0.5, 1: 0.5}, "^ A B A _ _": {0: 0.4, 1: 0.2, 2: 0.3, 3: 0.1},
          "^ A B A _ B": {0: 1.0}},
)  # fmt: skip
CONFIG = DecodeConfig(gen_length=4, window_size=3)


def six(shift: int, cache) -> list:
    """What each step decides: (position, verdict, mask view) and the rows of its passes."""
    script = Script(SIX.vocabulary, {**SIX.answers, ("^ A B A _ _", 4): ("A", 0.75)},
                    SIX.mass, {("^ A B A _ _", 4): ("A", 0.75)}, shift=shift)  # fmt: skip
    engine = ScriptedEngine(script)
    trace = decode(engine, engine.ids("^ A"), FlashVerify(0.9, 0.8), cache, CONFIG)
    return [
        (
            [(p.position, p.verdict.value, p.verify_confidence) for p in step.proposals],
            [(record.kind, record.rows) for record in step.passes],
        )
        for step in trace.steps
    ]


# step 1: window 2, 3, 4. D = {2: B .95}; S = 3 (A .70), 4 (B .60). Mask view of 3 sees ^ A B _ _ _
# and says A .85: verified. Mask view of 4 sees ^ A B A _ _ and says A, the draft was B: mismatch.
# step 2: window 4, 5. 5 is B .92: confident. 4 (A .75) is searched; its view, ^ A B A _ B: A .91.
BY_HAND = [
    [(2, "CONFIDENT", None), (3, "VERIFIED", 0.85), (4, "MISMATCH", 0.75)],
    [(5, "CONFIDENT", None), (4, "VERIFIED", 0.91)],
]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("cache", [NoCache(), FlashCache(track_size=1)], ids=["none", "flash"])
def test_six_tokens_by_hand_decode_the_same_shifted_or_not(shift, cache):
    assert [decided for decided, _ in six(shift, cache)] == BY_HAND


def test_the_rows_of_six_tokens_by_hand():
    # step 1 reads all six; its verify pass has D, two draft views and two mask views.
    # step 2: T = {2} (newly decided, .3 against .1 of position 3) and the window 4, 5
    assert [rows for _, rows in six(0, FlashCache(track_size=1))] == [
        [("full", 6), ("verify", 5)], [("draft", 3), ("verify", 4)],
    ]  # fmt: skip
    # shifted, position 4 is answered by the row at 3, which is read besides
    assert [rows for _, rows in six(1, FlashCache(track_size=1))] == [
        [("full", 6), ("verify", 5)], [("draft", 4), ("verify", 4)],
    ]  # fmt: skip


def test_the_verify_rows_of_six_tokens_by_hand():
    canvas = Canvas.start([3, 0], CONFIG, (4,))
    plain = verify_query(canvas, (), Role.CONTEXT, VerifyAsk(((2, 1),), ((3, 0), (4, 1))), 2)
    query = shifted(plain, canvas, 2, 1)
    # D at 2; draft views of 3 and 4; then the rows at 2 (holding D's token) and 3 (its draft)
    assert query.positions == [2, 3, 4, 2, 3]
    assert query.tokens == [1, 0, 1, 1, 0]
    assert query.slots == [2, 6, 7, 8, 9]
    assert query.ranks == [0, 1, 2, 0, 1]
    assert query.predict == [3, 4]
    assert query.targets == [3, 4]
    # the row at 2 sees 3, 4 and 5 blank and itself once; the row at 3 replaces the draft view of 3
    assert visible_slots(query, 3) == [0, 1, 3, 4, 5, 8]
    assert visible_slots(query, 4) == [0, 1, 2, 4, 5, 9]
    # a draft view reads as in any model
    assert visible_slots(query, 2) == [0, 1, 2, 5, 6, 7]


def test_an_unshifted_query_is_left_alone():
    query = full_query(Canvas.start([1], CONFIG, (4,)), (1, 2), MASK)
    assert shifted(query, Canvas.start([1], CONFIG, (4,)), MASK, 0) is query


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, CACHES, configs(), st.integers(1, 5))
def test_a_shifted_model_that_answers_alike_decodes_alike(seed, strategy, cache, config, length):
    plain, moved = HashEngine(seed), HashEngine(seed, shift=1)
    a, b = (decode(e, list(range(length)), strategy, cache, config) for e in (plain, moved))
    check_run(b, moved)
    assert b.token_ids == a.token_ids
    assert [step.proposals for step in b.steps] == [step.proposals for step in a.steps]
    assert [step.tracked for step in b.steps] == [step.tracked for step in a.steps]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), VERIFIES, CACHES, configs())
def test_every_mask_view_of_a_shifted_model_answers_for_the_drafts_before_it(
    seed, strategy, cache, config
):
    engine = HashEngine(seed, shift=1)
    check_answers(decode(engine, [1, 2], strategy, cache, config), engine)


# the real network: packed = one position after another

PROMPT = [1, 2, 300, 3, 700, 264, 839]
EARLIER = [(8, 411), (11, 95)]
DECIDED = ((7, 650), (12, 77))
# contiguous in both directions, behind D, behind a blank and behind a given token
SEARCHED = ((13, 500), (9, 901), (15, 1200), (10, 33), (14, 21))


@pytest.fixture(scope="module")
def dream(tmp_path_factory):
    from flash_dllm.models import load_model

    folder = write_layout(tmp_path_factory.mktemp("dream"), "dream")
    return load_model(folder, device="cpu", dtype="float64")


@pytest.fixture
def canvas():
    config = DecodeConfig(gen_length=12, window_size=8)
    return Canvas.start(PROMPT, config, (EOS, EOT)).commit(EARLIER)


def logits_of(engine, session, handle, query):
    return engine.model.forward(
        pack([(handle, query)], session.cache.table, engine.model.device), session.cache
    )[0]


def opened(engine, canvas):
    session = engine.open(SessionRequest(1, canvas.length, max_views=16))
    handle = session.admit(canvas.length, seed=0)
    logits_of(engine, session, handle, full_query(canvas, canvas.window(), MASK))
    return session, handle


def packed_logits(engine, canvas, searched=SEARCHED):
    session, handle = opened(engine, canvas)
    query = verify_query(canvas, (2, 8), Role.TRACKED, VerifyAsk(DECIDED, searched), MASK)
    return logits_of(engine, session, handle, shifted(query, canvas, MASK, 1))


def one_by_one(engine, canvas):
    """Every searched position is asked from the row before it, whose entry is then put back."""
    session, handle = opened(engine, canvas)
    text = list(canvas.tokens)
    first = Query("draft", canvas.length)
    for position, token in [(2, text[2]), (8, text[8]), *DECIDED]:
        first.add(token, position, position, Role.DECIDED)
        text[position] = token
    first.predict.append(0)
    logits_of(engine, session, handle, first)
    cache, answers = session.cache, []
    for position, draft in SEARCHED:
        before = cache.keys.clone(), cache.values.clone()
        query = Query("draft", canvas.length)
        token = text[position - 1]
        query.add(MASK if token is None else token, position - 1, position - 1, Role.CONTEXT)
        query.predict.append(0)
        answers.append(logits_of(engine, session, handle, query)[0])
        cache.keys.copy_(before[0])
        cache.values.copy_(before[1])
        query = Query("draft", canvas.length)
        query.add(draft, position, position, Role.DECIDED)
        query.predict.append(0)
        logits_of(engine, session, handle, query)
        text[position] = draft
    return torch.stack(answers)


def test_packed_verify_of_a_shifted_model_equals_one_position_after_another(dream, canvas):
    packed, alone = packed_logits(dream, canvas), one_by_one(dream, canvas)
    assert (packed - alone).abs().max() < 1e-11
    # and the answers differ from each other, so this compares something
    assert (alone[1:] - alone[:-1]).abs().amax(1).min() > 0.1


def test_no_draft_moves_its_own_mask_view_and_each_moves_the_later_ones(dream, canvas):
    base = packed_logits(dream, canvas)
    for k, (position, draft) in enumerate(SEARCHED):
        changed = list(SEARCHED)
        changed[k] = (position, draft + 1)
        moved = (packed_logits(dream, canvas, tuple(changed)) - base).abs().amax(1)
        assert (moved[: k + 1] < 1e-12).all()
        assert (moved[k + 1 :] > 1e-6).all()


def test_noise_of_a_shifted_model_belongs_to_the_position_that_is_answered(dream):
    config = DecodeConfig(gen_length=6, window_size=6, temperature=5.0, seed=3)
    trace = decode(dream, PROMPT, FlashVerify(1.0, 0.0), NoCache(), config)
    logits = logits_at_first_step(dream, PROMPT, config)
    for proposal in trace.steps[0].proposals:
        generator = torch.Generator().manual_seed(3 * 1_000_003 + proposal.position)
        uniform = torch.rand(logits.shape[1], generator=generator, dtype=torch.float64)
        noise = -5.0 * torch.log(-torch.log(uniform.clamp(1e-300, 1 - 1e-16)))
        row = logits[proposal.position - len(PROMPT)] + noise.float()
        row[MASK] = -torch.inf
        assert proposal.draft_token == int(row.argmax())


def logits_at_first_step(engine, prompt, config):
    canvas = Canvas.start(prompt, config, ())
    session = engine.open(SessionRequest(1, canvas.length))
    handle = session.admit(canvas.length, seed=0)
    query = shifted(full_query(canvas, canvas.window(), MASK), canvas, MASK, 1)
    return logits_of(engine, session, handle, query)
