"""The verify pass: packed = one position after another, and no view confirms itself."""

import random

import pytest
import torch

from flash_dllm.caches.base import full_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.packing import pack
from flash_dllm.query import Query, Role, VerifyAsk, visible_slots
from kernels.schedule import DRAFT_VIEW, MASK_VIEW, SLOT, Schedule
from tests.random_model import EOS, EOT, MASK

PROMPT = [1, 2, 300, 3, 700, 264, 839]
# answer positions that earlier steps decided, with their tokens
EARLIER = [(8, 411), (11, 95)]
TRACKED = (2, 8, 11)
DECIDED = ((7, 650), (12, 77))
# acceptance order, deliberately not left to right
SEARCHED = ((13, 500), (9, 901), (15, 1200), (10, 33))


@pytest.fixture
def canvas():
    config = DecodeConfig(gen_length=12, window_size=8)
    return Canvas.start(PROMPT, config, (EOS, EOT)).commit(EARLIER)


def opened(engine, canvas):
    """A session whose cache a draft pass has just filled."""
    session = engine.open(SessionRequest(1, canvas.length, max_views=16))
    handle = session.admit(canvas.length, seed=0)
    logits_of(engine, session, handle, full_query(canvas, canvas.window(), MASK))
    return session, handle


def logits_of(engine, session, handle, query):
    packed = pack([(handle, query)], session.cache.table, engine.model.device)
    return engine.model.forward(packed, session.cache)[0]


def packed_logits(engine, canvas, searched=SEARCHED):
    session, handle = opened(engine, canvas)
    ask = VerifyAsk(DECIDED, searched)
    query = verify_query(canvas, TRACKED, Role.TRACKED, ask, MASK)
    return logits_of(engine, session, handle, query)


def sequential_logits(engine, canvas):
    """Each searched position asked alone, its draft then written to its slot: no views at all."""
    session, handle = opened(engine, canvas)
    query = Query("draft", canvas.length)
    for position in TRACKED:
        query.add(canvas.tokens[position], position, position, Role.TRACKED)
    for position, token in DECIDED:
        query.add(token, position, position, Role.DECIDED)
    query.predict.append(0)
    logits_of(engine, session, handle, query)
    answers = []
    for position, draft in SEARCHED:
        for token in (MASK, draft):
            query = Query("draft", canvas.length)
            query.add(token, position, position, Role.WINDOW)
            query.predict.append(0)
            logits = logits_of(engine, session, handle, query)
            if token == MASK:
                answers.append(logits[0])
    return torch.stack(answers)


def largest_difference(engine, canvas):
    return (packed_logits(engine, canvas) - sequential_logits(engine, canvas)).abs().max().item()


def largest_self_influence(engine, canvas):
    """How far a mask view moves when only its own draft is changed."""
    base = packed_logits(engine, canvas)
    moved = 0.0
    for k, (position, draft) in enumerate(SEARCHED):
        changed = list(SEARCHED)
        changed[k] = (position, draft + 1)
        moved = max(moved, (packed_logits(engine, canvas, tuple(changed))[k] - base[k]).abs().max())
    return float(moved)


def test_packed_verify_equals_one_position_after_another(engine, canvas):
    assert largest_difference(engine, canvas) < 1e-11


def test_changing_a_draft_never_moves_its_own_mask_view(engine, canvas):
    assert largest_self_influence(engine, canvas) < 1e-12


def test_changing_a_draft_moves_every_later_mask_view_and_no_earlier_one(engine, canvas):
    base = packed_logits(engine, canvas)
    for k, (position, draft) in enumerate(SEARCHED):
        changed = list(SEARCHED)
        changed[k] = (position, draft + 1)
        moved = (packed_logits(engine, canvas, tuple(changed)) - base).abs().amax(1)
        assert (moved[: k + 1] < 1e-12).all()
        assert (moved[k + 1 :] > 1e-6).all()



def _context_sees_drafts(schedule, right):
    is_context = (schedule.row_rank_R == 0)[schedule.rows_BW][:, :, None]
    return right | (is_context & (schedule.key_view_BK == DRAFT_VIEW)[:, None])


def _later_masks_through_mask_views(schedule, right):
    """Row k sees the mask view of a later position in place of its cached [MASK] entry."""
    rank = schedule.row_rank_R[schedule.rows_BW][:, :, None]
    later_view = (schedule.key_view_BK == MASK_VIEW) & (schedule.key_rank_BK > 0)
    sees = right | (later_view[:, None] & (schedule.key_rank_BK[:, None] > rank) & (rank > 0))
    stale = ((schedule.key_searched_BK > 0)[:, None]) & (rank > 0)
    return sees & ~stale


def _stale_masks_visible(schedule, right):
    return right | (schedule.key_view_BK == SLOT)[:, None]


@pytest.mark.parametrize(
    ("wrong", "leaks"),
    [
        (_context_sees_drafts, True),
        (_later_masks_through_mask_views, True),
        (_stale_masks_visible, False),
    ],
    ids=["context-sees-drafts", "later-masks-through-mask-views", "stale-masks-visible"],
)
def test_each_wrong_mask_is_caught(engine, canvas, monkeypatch, wrong, leaks):
    right = Schedule.__dict__["visible_BWK"].func

    def visible(schedule):
        seen = right(schedule)
        return wrong(schedule, seen) if schedule.has_views else seen

    monkeypatch.setattr(Schedule, "visible_BWK", property(visible))
    assert (largest_self_influence(engine, canvas) > 1e-6) is leaks
    assert largest_difference(engine, canvas) > 1e-3


def test_shared_mask_views_let_a_draft_reach_its_own_mask_view(engine, canvas):
    """As in the authors' code: through the mask views of later positions, which saw the draft."""

    def views(searched):
        session, handle = opened(engine, canvas)
        ask = VerifyAsk(DECIDED, searched, shares_masks=True)
        query = verify_query(canvas, TRACKED, Role.TRACKED, ask, MASK)
        return logits_of(engine, session, handle, query)

    base = views(SEARCHED)
    for k, (position, draft) in enumerate(SEARCHED):
        changed = list(SEARCHED)
        changed[k] = (position, draft + 1)
        moved = float((views(tuple(changed))[k] - base[k]).abs().max())
        # the last one has no later mask view to hear itself through
        assert (moved > 1e-6) is (k < len(SEARCHED) - 1)


def test_tensor_visibility_equals_the_plain_rule_for_ragged_batches():
    rng = random.Random(5)
    for _ in range(20):
        queries = []
        for handle in range(rng.randint(1, 4)):
            length = rng.randint(8, 20)
            config = DecodeConfig(gen_length=length - 3, window_size=8)
            canvas = Canvas.start([1, 2, 7], config, (EOS,)).commit([(3, 9)])
            free = rng.sample(canvas.undecided(), rng.randint(2, 4))
            if rng.random() < 0.3:
                queries.append((handle, full_query(canvas, canvas.window(), MASK)))
                continue
            ask = VerifyAsk(
                tuple((p, 50) for p in free[:1]),
                tuple((p, 60 + p) for p in free[1:]),
                shares_masks=rng.random() < 0.5,
            )
            queries.append((handle, verify_query(canvas, (0, 3), Role.TRACKED, ask, MASK)))
        table = torch.arange(4 * 64).view(4, 64)
        schedule = pack(queries, table, torch.device("cpu")).schedule
        dense = schedule.visible_BWK
        for number, (handle, query) in enumerate(queries):
            for row in range(query.rows):
                slots = schedule.key_slots_BK[number]
                keys = range(len(slots)) if dense is None else dense[number, row].nonzero()[:, 0]
                seen = sorted(int(slots[key]) - 64 * handle for key in keys)
                assert seen == sorted(visible_slots(query, row))


@pytest.mark.parametrize("shares_masks", [False, True])
def test_a_verify_pass_without_writes_answers_the_same_and_leaves_the_cache_alone(
    engine, canvas, shares_masks
):
    """What it computes of T and D is seen by all its rows and kept nowhere."""
    ask = VerifyAsk(DECIDED, SEARCHED, shares_masks=shares_masks)
    answers, entries = [], []
    for writes in (True, False):
        session = engine.open(SessionRequest(1, canvas.length, max_views=24))
        handle = session.admit(canvas.length, seed=0)
        logits_of(engine, session, handle, full_query(canvas, canvas.window(), MASK))
        slots = session.cache.table[handle, : canvas.length]
        before = session.cache.keys[:, slots].clone()
        query = verify_query(canvas, TRACKED, Role.TRACKED, ask, MASK, writes)
        answers.append(logits_of(engine, session, handle, query))
        moved = (session.cache.keys[:, slots] != before).flatten(2).any(2).any(0)
        entries.append(set(moved.nonzero()[:, 0].tolist()))
    assert (answers[0] - answers[1]).abs().max() < 1e-12
    # a shared mask view stands in its position's slot, which the next draft pass reads again
    shared = {position for position, _ in SEARCHED} if shares_masks else set()
    assert entries[0] >= {*TRACKED[1:], *(position for position, _ in DECIDED)}
    assert entries[1] == shared


def test_the_tensor_form_of_copies_equals_the_plain_rule(canvas):
    for shares_masks in (False, True):
        ask = VerifyAsk(DECIDED, SEARCHED, shares_masks=shares_masks)
        query = verify_query(canvas, TRACKED, Role.TRACKED, ask, MASK, writes=False)
        table = torch.arange(64).view(1, 64)
        schedule = pack([(0, query)], table, torch.device("cpu")).schedule
        for row in range(query.rows):
            seen = schedule.visible_BWK[0, row].nonzero()[:, 0].tolist()
            assert seen == sorted(visible_slots(query, row))
            place = dict(zip(query.slots, query.positions, strict=True))
            places = [place.get(slot, slot) for slot in seen]
            assert sorted(places) == list(range(canvas.length))  # each position once
            code = int(schedule.row_code_R[row])
            first, until = schedule.key_from_BK[0], schedule.key_until_BK[0]
            count = int(schedule.key_count_B[0])
            fast = [
                key for key in range(count)
                if first[key] <= code < until[key] or key == query.slots[row]
            ]
            assert fast == seen
