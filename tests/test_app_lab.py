"""The Verify lab's numbers by hand on the toy example, and its rules on a richer run."""

import json

import pytest

from app import lab, real_run
from app.lab_tables import missed_rows
from app.lab_view import lab_board
from app.presets import TRACES
from app.runs import Runs
from app.visibility import canvas_before, verify_pass, visibility
from flash_dllm.caches import CACHES, BlockCache, FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.query import Role, visible_slots
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace import COMMITTED, Verdict
from flash_dllm.trace_json import load
from tests.app_traces import hostile, rich, toy
from tests.hash_engine import HashEngine


def block(message: str, name: str) -> dict:
    return next(b for b in json.loads(message)["blocks"] if b["id"] == name)


def test_the_bound_of_one_kept_draft_is_one_minus_its_confidence():
    found = lab.bound(toy().steps[0], gamma=0.8)
    assert found.length == 1
    assert found.exact == pytest.approx(1 - 0.85)
    assert found.power == pytest.approx(0.2) and found.linear == pytest.approx(0.2)


def test_the_bound_of_a_step_that_kept_nothing_is_zero():
    assert lab.bound(toy().steps[1], gamma=0.8) == lab.Bound(0, 0, 0, 0)


def test_the_bounds_stand_in_order_wherever_every_kept_draft_passed_gamma():
    for step in rich().steps:
        found = lab.bound(step, 0.5)
        assert found.exact <= found.power + 1e-12 and found.power <= found.linear + 1e-12


def test_the_toy_example_missed_no_chance():
    """Position 3 was drafted A and written B: refusing it was right."""
    assert lab.missed(toy()) == []


def test_a_missed_chance_is_a_refused_draft_that_came_true():
    trace = rich()
    final = dict(pair for step in trace.steps for pair in step.accepted)
    found = {(item.step, item.position) for item in lab.missed(trace)}
    assert found
    for step in trace.steps:
        for p in step.proposals:
            was_right = final.get(p.position) == p.draft_token and p.verdict not in COMMITTED
            assert ((step.index, p.position - trace.prompt_length) in found) == was_right
    reasons = {item.reason for item in lab.missed(trace)}
    assert "not_searched" in reasons
    assert all(item.later >= 1 for item in lab.missed(trace))
    assert len(missed_rows(trace)) == len(found)


def test_who_sees_whom_in_the_toy_examples_first_check():
    """Columns: prompt, A (sure now), blank 1, draft 1, mask 1, the two other blanks."""
    seen = visibility(toy(), 1)
    assert [(c.name, c.group, c.slots) for c in seen.columns] == [
        ("prompt, 1", "written", (0,)),
        ("A", "sure", (1,)),
        ("blank 1", "blanks", (2,)),
        ("1 A", "draft views", (5,)),
        ("mask 1", "mask views", (6,)),
        ("other, 2", "rest", (3, 4)),
    ]
    assert [(r.name, r.cells) for r in seen.rows] == [
        ("sure: A", "121001"),
        ("draft 1: A", "110201"),
        ("mask 1", "110021"),
    ]
    assert seen.rows[2].why.endswith("or it would only repeat it. It says “A” (c̃ 0.85).")


def test_the_second_check_rereads_the_one_tracked_token():
    seen = visibility(toy(), 2)
    assert [c.name for c in seen.columns][:2] == ["prompt, 1", "answer, 2"]
    assert seen.rows[0].name == "1 re-read" and seen.rows[0].cells == "111100"


def test_the_last_step_had_nothing_to_check():
    assert visibility(toy(), 3) is None
    text = block(lab_board(toy(), "x", 3, None, None), "matrix")["text"]
    assert text[1].startswith("This step had no verify pass")


def test_the_rebuilt_verify_pass_has_the_recorded_size_and_hides_own_drafts():
    trace = rich()
    checked = 0
    for step in trace.steps:
        query = verify_pass(trace, step.index)
        record = next((r for r in step.passes if r.kind == "verify"), None)
        if query is None:
            assert record is None
            continue
        checked += 1
        assert (query.rows, len(query.predict)) == (record.rows, record.predicted)
        count = len(query.predict)
        for row in query.predict:
            own_draft = query.slots[row] - count
            assert Role(query.roles[row]) is Role.MASK_VIEW
            assert own_draft not in visible_slots(query, row)
        visibility(trace, step.index)
    assert checked > 3


class Listening(HashEngine):
    """The hash engine, and every verify question that came down to it."""

    def open(self, request):
        session, heard = super().open(request), self.heard
        ask = session.ask

        def listen(questions):
            heard.extend(query for _, query in questions if query.kind == "verify")
            return ask(questions)

        session.ask = listen
        return session


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("name", CACHES)
def test_the_rows_of_the_lab_are_those_that_were_asked(name, shift):
    """Whatever a cache re-reads: the engine heard the same rows, and all of them have names."""
    cache = {"elastic": lambda: CACHES["elastic"](1.0)}.get(name, CACHES[name])()
    engine = Listening(1, end_share=0, shift=shift, causal_block=4 if name == "block" else None)
    object.__setattr__(engine, "heard", [])
    # the authors' mask views, in their positions' own slots, in one case that takes them
    views = "isolated" if shift or name != "prefix" else "shared"
    rule = FlashVerify(0.9, 0.5, mask_views=views)
    config = DecodeConfig(gen_length=32, window_size=8, block_length=8)
    trace = decode(engine, [1, 2, 3], rule, cache, config)
    found = [verify_pass(trace, step.index) for step in trace.steps]
    shown = [query for query in found if query is not None]
    assert len(shown) == len(engine.heard) > 5
    for ours, asked in zip(shown, engine.heard, strict=True):
        assert (ours.positions, ours.tokens, ours.slots, ours.ranks) == (
            asked.positions, asked.tokens, asked.slots, asked.ranks
        )  # fmt: skip
    for step, query in zip(trace.steps, found, strict=True):
        seen = visibility(trace, step.index)
        assert (seen is None) == (query is None)
        if seen is not None:
            words = [row.name for row in seen.rows if "re-read" not in row.name]
            reread = sum(int(row.name.split()[0]) for row in seen.rows if "re-read" in row.name)
            assert len(words) + reread == query.rows


def test_copies_that_leave_the_cache_alone_hide_what_they_stand_in_for():
    """With writes off, re-read tokens are copies: the column is the copy, seen in its stead."""
    engine = HashEngine(seed=1, end_share=0)
    config = DecodeConfig(gen_length=32, window_size=8)
    cache = FlashCache(track_size=4, verify_writes=False)
    trace = decode(engine, [1, 2, 3], FlashVerify(0.9, 0.5), cache, config)
    step = next(s for s in trace.steps if s.verify_tracked and verify_pass(trace, s.index))
    seen = visibility(trace, step.index)
    written = [column for column in seen.columns if column.group == "written"]
    slots = {slot for column in written for slot in column.slots}
    assert slots.isdisjoint(step.verify_tracked)
    assert len(slots) == len(canvas_before(trace, step.index).decided())
    masks = [row for row in seen.rows if row.name.startswith("mask")]
    for row in masks:
        assert all(row.cells[k] == "1" for k, c in enumerate(seen.columns) if c in written)


def test_points_of_the_plane_are_the_checked_drafts():
    assert [(i, p.confidence, p.verify_confidence) for i, p in lab.pairs(toy().steps)] == [
        (1, 0.70, 0.85),
        (2, 0.55, 0.70),
    ]
    assert all(p.rank != 0 for _, p in lab.pairs(rich().steps))


def test_gamma_above_the_check_refuses_it_and_the_badge_says_how_far_that_is_known():
    message = lab_board(toy(), "x", 1, None, 0.9)
    assert block(message, "badge")["badge"] == "exact until step 1"
    ladder = block(message, "ladder")
    assert ladder["marks"][0]["marker"]["color"] == ["@direct-cell", "@unsure-cell"]
    assert ladder["lines"][1] == {
        "axis": "y", "value": 0.9, "name": "γ", "colour": "gamma", "drag": "gamma"
    }  # fmt: skip
    assert "below γ = 0.90" in block(message, "say")["text"][0]
    assert block(message, "bound")["bars"][0]["value"] == 0


def test_the_attention_that_a_smaller_beta_t_would_hold():
    """Step 2 of the toy example: BOS .5, position 2 .3, position 3 .2; the list is not cut."""
    found = lab.held(toy().steps[1])
    assert [(count, position) for count, position, _ in found] == [(1, 0), (2, 1), (3, 2)]
    assert [share for _, _, share in found] == pytest.approx([0.5, 0.8, 1.0])
    chart = block(lab_board(toy(), "x", 2, None, None), "held")
    assert chart["marks"][0]["x"] == [1, 2, 3]
    assert chart["marks"][0]["hovertext"][1] == "βₜ 2: adds 1 “A”, 80%"


def test_a_run_without_a_check_says_so_and_draws_no_plane():
    message = lab_board(load(TRACES / "word-1-greedy.json"), "x", 1, None, None)
    names = [part["id"] for part in json.loads(message)["blocks"]]
    assert names == ["say", "badge", "ladder", "none", "held", "missed"]
    assert block(message, "ladder")["lines"] == []


def test_a_step_behind_the_change_says_that_only_a_run_knows():
    message = lab_board(toy(), "x", 3, None, 0.9)
    assert "only a real run knows" in block(message, "say")["text"][0]


def test_the_plane_draws_epsilon_upright_and_gamma_across():
    lines = block(lab_board(toy(), "x", 1, 0.75, 0.6), "plane")["lines"]
    assert [(line["axis"], line["value"], line["drag"]) for line in lines] == [
        ("x", 0.75, "epsilon"),
        ("y", 0.6, "gamma"),
    ]


@pytest.mark.parametrize("step", [0, 4])
def test_a_step_that_the_run_does_not_have_is_refused(step):
    with pytest.raises(ValueError, match=f"step must lie between 1 and 3, got {step}"):
        lab_board(toy(), "x", step, None, None)


def test_token_texts_never_act_as_markup_in_a_board():
    for step in range(1, len(hostile().steps) + 1):
        message = lab_board(hostile(), "x", step, None, None)
        assert "<" not in message
        ladder = block(message, "ladder")
        chart = json.dumps([ladder["marks"], ladder["layout"]])
        assert "<img" not in chart and "<b>bold" not in chart


def test_a_what_if_is_confirmed_by_the_real_run():
    runs = Runs()
    toy_trace = runs.store.trace(runs.store.keep(toy()))
    real = runs.decode(real_run.prepare(runs, toy_trace, 0.9, 0.9))
    assert real.strategy["gamma"] == 0.9
    words = real_run.verdict(toy_trace, real, 0.9, 0.9)
    assert "The what-if held for all 1 step that it knew; the first other step is 1." in words
    same = runs.decode(real_run.prepare(runs, toy_trace, 0.9, 0.81))
    assert "The same as recorded, as the what-if said." in real_run.verdict(
        toy_trace, same, 0.9, 0.81
    )


def test_a_refused_draft_in_the_lab_is_named_by_its_reason():
    words = {row[4].split(":")[0] for row in missed_rows(rich())}
    assert words <= {"refused", "behind the stop", "not checked"}
    assert any(p.verdict is Verdict.MISMATCH for s in rich().steps for p in s.proposals)


def test_a_block_causal_text_ends_with_the_block_that_is_being_filled():
    """Prompt 3, blocks of 4: in the first step positions 4 to 14 don't exist yet."""
    engine = HashEngine(causal_block=4, end_share=0)
    config = DecodeConfig(gen_length=12, window_size=4)
    trace = decode(engine, [1, 2, 3], FlashVerify(0.9, 0.5), BlockCache(), config)
    assert canvas_before(trace, 1).horizon == 4
    asked = [verify_pass(trace, step.index) for step in trace.steps]
    lengths = [query.length for query in asked if query is not None]
    assert lengths and set(lengths) <= {4, 8, 12, 15}
