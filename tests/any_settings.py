"""Settings drawn at random, and what holds for every run of `hash_engine.py` under them."""

from hypothesis import strategies as st

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace import DecodeTrace
from flash_dllm.trace_json import from_json, to_json
from tests.hash_engine import MASK, HashEngine

CACHES = st.one_of(
    st.just(NoCache()),
    st.builds(
        FlashCache,
        track_size=st.integers(0, 30),
        verify_rows=st.none() | st.integers(1, 60),
        refresh=st.sampled_from(["init", "drift"]) | st.integers(1, 10),
        drift_threshold=st.floats(0, 1),
    ),
)
UNIT = st.floats(0, 1)
VERIFIES = st.builds(
    FlashVerify,
    epsilon=UNIT,
    gamma=UNIT,
    search_size=st.none() | st.integers(0, 10),
    order=st.sampled_from(["confidence", "position"]),
    acceptance=st.sampled_from(["each", "joint"]),
    correct=st.booleans(),
)
STRATEGIES = st.one_of(VERIFIES, st.builds(Confidence, epsilon=UNIT), st.just(Greedy()))


@st.composite
def configs(draw):
    window = draw(st.integers(1, 12))
    block = draw(st.integers(1, 8))
    blocks = draw(st.integers(1, 24 // block))
    return DecodeConfig(
        gen_length=block * blocks,
        block_length=draw(st.sampled_from([None, block])),
        window_size=window,
        decide_size=draw(st.none() | st.integers(1, window)),
        early_stop=draw(st.booleans()),
        suppress_after_eos=draw(st.booleans()),
        alternatives=draw(st.integers(0, 4)),
    )


def check_run(trace: DecodeTrace, engine: HashEngine) -> None:
    """What holds for every run, whatever its settings."""
    assert len(trace.steps) <= trace.gen_length
    committed = [position for step in trace.steps for position, _ in step.accepted]
    assert all(step.accepted for step in trace.steps)
    assert len(committed) == len(set(committed))
    assert len(trace.token_ids) == trace.gen_length
    assert MASK not in trace.answer
    assert from_json(to_json(trace)) == trace


def check_answers(trace: DecodeTrace, engine: HashEngine) -> None:
    """Every draft answers for the text of that moment; every mask view for that text with the
    drafts of the proposals before it filled in (D first, then the searched ones)."""
    for step in trace.steps:
        answer = trace.canvas_at(step.index - 1)
        text = [*trace.prompt_token_ids, *(MASK if t is None else t for t in answer)]
        for p in step.proposals:
            assert engine.prediction(tuple(text), p.position) == (p.draft_token, p.confidence)
        for p in step.proposals:
            if p.verify_token is not None:
                view = engine.prediction(tuple(text), p.position)
                assert view == (p.verify_token, p.verify_confidence)
            text[p.position] = p.draft_token
