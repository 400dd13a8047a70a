"""Patient against a straight-line version of its description, in float64, and what follows from its
rule: where nothing is hopeless, or patience ends at once, it is confidence decoding."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import DualCache, FlashCache, NoCache, PrefixCache
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.strategies import Confidence, Patient
from flash_dllm.strategies.patient import LastRead
from flash_dllm.trace import TraceError
from flash_dllm.trace_json import from_json, to_json
from tests.any_settings import check_run, configs
from tests.hash_engine import HashEngine
from tests.random_model import PROMPT
from tests.recorded_run import EVERYTHING, LENGTH, Run, check


def patient(run, epsilon, floor, lead, patience, window, keeps_entries):
    """The whole decoder. keeps_entries: after the first pass only what is asked about and what the
    last step wrote is read; else every pass reads everything."""
    entries, unwritten, step = None, [], 0
    last = {}  # position → (confidence, step) of its last reading
    while masks := run.masks():
        step += 1
        asked = [
            p for place, p in enumerate(masks[:window])
            if place < lead or p not in last or last[p][0] >= floor
            or step - last[p][1] >= patience
        ]  # fmt: skip
        rows = unwritten + asked if keeps_entries and entries else EVERYTHING
        answers, fresh = run.forward(rows, entries if keeps_entries else None)
        if keeps_entries and entries:
            fresh = [{**old, **new} for old, new in zip(entries, fresh, strict=True)]
        entries = fresh
        run.commit_by_threshold(answers, asked, epsilon)
        unwritten = [position for position, _ in run.steps[-1]]
        last |= {p: (answers[p][1], step) for p in asked}


SETTINGS = [(0.9, 0.5, 4, 4, 24), (0.3, 0.1, 1, 6, 24), (0.3, 0.2, 2, 3, 9), (0.1, 1.0, 1, 50, 12)]


@pytest.mark.parametrize("cache", [NoCache(), FlashCache(track_size=0)], ids=["none", "flash"])
@pytest.mark.parametrize(("epsilon", "floor", "lead", "patience", "window"), SETTINGS)
def test_patient_equals_its_description(
    engine, small_config, small_tensors, rows_read, cache, epsilon, floor, lead, patience, window
):  # fmt: skip
    run = Run(small_config, small_tensors)
    patient(run, epsilon, floor, lead, patience, window, cache.keeps_entries)
    config = DecodeConfig(gen_length=LENGTH, window_size=window, early_stop=False)
    strategy = Patient(epsilon, floor, lead, patience)
    trace = decode(engine, PROMPT, strategy, cache, config)
    check(trace, run, rows_read)
    # it did leave something out
    assert any(len(s.window) < min(window, LENGTH - s.index) for s in trace.steps[1:])


@pytest.mark.parametrize("cache", [FlashCache(track_size=3), NoCache(), PrefixCache(), DualCache()],
                         ids=lambda cache: cache.name)  # fmt: skip
@pytest.mark.parametrize("knobs", [{"floor": 0.0}, {"patience": 1}, {"lead": 12}], ids=str)
def test_without_patience_it_is_confidence_decoding_row_by_row(engine, cache, knobs):
    config = DecodeConfig(gen_length=LENGTH, block_length=12, window_size=12)
    strategy = replace(Patient(epsilon=0.3, lead=1, patience=5), **knobs)
    ours = decode(engine, PROMPT, strategy, cache, config)
    plain = decode(engine, PROMPT, Confidence(0.3), cache, config)
    told = [(s.window, s.proposals, s.tracked, s.attention) for s in ours.steps]
    assert told == [(s.window, s.proposals, s.tracked, s.attention) for s in plain.steps]
    rows = [[(p.kind, p.rows, p.predicted) for p in s.passes] for s in ours.steps]
    assert rows == [[(p.kind, p.rows, p.predicted) for p in s.passes] for s in plain.steps]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.builds(Patient, st.floats(0, 1), st.floats(0, 1), st.integers(1, 6), st.integers(1, 9)),
    st.sampled_from([NoCache(), FlashCache(track_size=3), FlashCache(refresh=5), DualCache()]),
    configs(),
)
def test_any_settings_finish_and_replay_and_no_mask_waits_longer_than_patience(
    seed, strategy, cache, config
):
    engine = HashEngine(seed, end_share=seed % 20, shift=seed % 2)
    trace = decode(engine, [1, 2, 3], strategy, cache, config)
    check_run(trace, engine)
    read = {}
    for step in trace.steps:
        everything = trace_window(trace, step, config)
        assert everything[: strategy.lead] == step.window[: strategy.lead]
        read |= dict.fromkeys(step.window, step.index)
        assert all(step.index - read[p] < strategy.patience for p in everything)
    together = decode_batch(engine, [[1, 2, 3], [4]], strategy, cache, config, 2)
    assert together[0] == trace


def trace_window(trace, step, config):
    """The canvas's window before a step."""
    answer = trace.canvas_at(step.index - 1)
    start = len(trace.prompt_token_ids)
    masks = [start + n for n, token in enumerate(answer) if token is None]
    block = (masks[0] - start) // config.block
    end = start + (block + 1) * config.block
    return tuple(p for p in masks if p < end)[: config.window_size]


def test_what_is_read_by_hand():
    """Positions 1 to 6 are masks. 1 leads; 2 was .6 sure; 3 and 4 were not, 4 three steps ago; 5
    was never read; 6 was hopeless just now."""
    canvas = Canvas.start([9], DecodeConfig(gen_length=6), (0,))
    known = {
        1: LastRead(0.1, 1), 2: LastRead(0.6, 2), 3: LastRead(0.2, 2), 4: LastRead(0.2, 3),
        6: LastRead(0.49, 1),
    }  # fmt: skip
    assert Patient(floor=0.5, lead=1, patience=3).window(canvas, known) == (1, 2, 4, 5)
    assert Patient(floor=0.5, lead=3, patience=9).window(canvas, known) == (1, 2, 3, 5)


def test_a_trace_that_left_out_another_row_is_refused(engine):
    config = DecodeConfig(gen_length=LENGTH, window_size=12)
    trace = decode(engine, PROMPT, Patient(0.3, 0.2, 1, 6), FlashCache(track_size=2), config)
    assert from_json(to_json(trace)) == trace
    number, step = next(
        (n, s) for n, s in enumerate(trace.steps) if 1 < len(s.window) < len(trace.steps[0].window)
    )
    left_out = step.window[-1]
    short = replace(
        step, window=step.window[:-1],
        proposals=tuple(p for p in step.proposals if p.position != left_out),
    )  # fmt: skip
    steps = (*trace.steps[:number], short, *trace.steps[number + 1 :])
    with pytest.raises(TraceError, match="is not the window of the replayed text"):
        from_json(to_json(replace(trace, steps=steps)))
