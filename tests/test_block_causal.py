"""Block-causal models: a row sees its own block and the blocks before it; the cache is exact."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import BlockCache, FlashCache, NoCache
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.packing import pack
from flash_dllm.query import DraftAsk, VerifyAsk, visible_slots
from flash_dllm.shift import shifted
from flash_dllm.strategies import Greedy
from tests.any_settings import STRATEGIES, check_run, configs
from tests.hash_engine import MASK, HashEngine


def canvas_of(prompt: int, gen_length: int, block: int, **config) -> Canvas:
    settings = DecodeConfig(gen_length=gen_length, **config)
    return Canvas.start(range(prompt), settings, (0,), causal_block=block)


def test_the_blocks_of_a_model_are_counted_from_the_start_of_the_text():
    # 6 given and 8 blank positions in blocks of 4: the answer begins inside the second block
    canvas = canvas_of(6, 8, 4)
    assert (canvas.past, canvas.horizon, canvas.window()) == (4, 8, (6, 7))
    canvas = canvas.commit([(6, 1), (7, 1)])
    assert (canvas.past, canvas.horizon, canvas.window()) == (8, 12, (8, 9, 10, 11))
    # the last block is cut off by gen_length
    canvas = canvas.commit([(p, 1) for p in (8, 9, 10, 11)])
    assert (canvas.past, canvas.horizon, canvas.window()) == (12, 14, (12, 13))
    assert canvas.commit([(12, 1), (13, 1)]).window() == ()


def test_blocks_of_the_run_may_be_smaller_than_the_models():
    canvas = canvas_of(4, 8, 8, block_length=2)
    assert canvas.window() == (4, 5)
    assert canvas.horizon == 8


def test_the_first_pass_of_a_block_writes_the_last_block_once_more():
    cache, canvas = BlockCache(), canvas_of(5, 8, 4)
    first = cache.draft(cache.start(), canvas, DraftAsk(canvas.window()), MASK)
    assert (first.kind, first.length, first.positions) == ("full", 8, list(range(8)))
    # blocks 0 to 3 and 4 to 7: nobody sees behind its own
    assert visible_slots(first, 3) == [0, 1, 2, 3]
    assert visible_slots(first, 4) == list(range(8))
    # one token of block 4…7 is committed: positions before 4 are final
    memory = 4
    again = cache.draft(memory, canvas.commit([(6, 1)]), DraftAsk((5, 7)), MASK)
    assert (again.kind, again.positions) == ("draft", [4, 5, 6, 7])
    assert [again.positions[row] for row in again.predict] == [5, 7]
    # the block is finished: the next pass writes it a last time and reads the new one
    after = canvas.commit([(p, 1) for p in (5, 6, 7)])
    new = cache.draft(memory, after, DraftAsk(after.window()), MASK)
    assert (new.length, new.positions) == (12, list(range(4, 12)))
    assert visible_slots(new, 0) == list(range(8))


def test_a_shifted_blocks_first_position_is_answered_by_the_last_row_of_the_block_before():
    canvas = canvas_of(8, 8, 4)
    query = BlockCache().draft(4, canvas, DraftAsk(canvas.window()), MASK)
    moved = shifted(query, canvas, MASK, 1)
    assert [moved.positions[row] for row in moved.predict] == [7, 8, 9, 10]
    assert visible_slots(moved, moved.predict[0]) == list(range(8))
    # later in the block that row is no longer read anyway and comes back for its answer
    again = shifted(BlockCache().draft(8, canvas, DraftAsk((8, 9)), MASK), canvas, MASK, 1)
    assert [again.positions[row] for row in again.predict] == [7, 8]
    ask = VerifyAsk(((9, 5),), ((8, 6), (10, 7)))
    verify = shifted(BlockCache().verify(8, canvas, ask, MASK, []), canvas, MASK, 1)
    first, second = verify.predict
    assert (verify.positions[first], verify.slots[first]) == (7, 7)
    assert visible_slots(verify, first) == list(range(8))
    # the row at 9 holds D's token, knows the draft of 8 and sees 10 and 11 blank
    assert (verify.positions[second], verify.tokens[second]) == (9, 5)
    seen = visible_slots(verify, second)
    assert [s for s in seen if s < 12] == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11]
    assert len(seen) == 12


def check_answers(trace, engine):
    """Drafts and mask views answer for the text up to the end of the answering row's block."""
    block = engine.causal_block
    for step in trace.steps:
        answer = trace.canvas_at(step.index - 1)
        text = [*trace.prompt_token_ids, *(MASK if t is None else t for t in answer)]
        length = len(text)

        def seen(position, text=text, length=length):
            row = position - engine.shift
            return tuple(text[: min(length, (row // block + 1) * block)])

        for p in step.proposals:
            asked = engine.prediction(seen(p.position), p.position)
            assert asked == (p.draft_token, p.confidence)
        for p in step.proposals:
            if p.verify_token is not None:
                view = engine.prediction(seen(p.position), p.position)
                assert view == (p.verify_token, p.verify_confidence)
            text[p.position] = p.draft_token


ENGINES = st.builds(
    HashEngine,
    seed=st.integers(0, 1000),
    end_share=st.integers(0, 20),
    shift=st.integers(0, 1),
    causal_block=st.integers(1, 9),
)


@settings(max_examples=200, deadline=None)
@given(ENGINES, STRATEGIES, configs(), st.integers(1, 20))
def test_the_block_cache_decodes_as_no_cache_and_replays(engine, strategy, config, length):
    prompt = [n % 40 for n in range(length)]
    block, none = (
        decode(engine, prompt, strategy, cache, config) for cache in (BlockCache(), NoCache())
    )
    assert [step.proposals for step in block.steps] == [step.proposals for step in none.steps]
    assert block.rows <= none.rows
    for trace in (block, none):
        check_run(trace, engine)
        check_answers(trace, engine)


@settings(max_examples=40, deadline=None)
@given(ENGINES, STRATEGIES, configs(), st.integers(1, 4))
def test_a_batch_decodes_each_prompt_as_if_alone(engine, strategy, config, batch_size):
    prompts = [[1], [2, 3, 4], [5, 6], [1] * 11, [7]]
    together = decode_batch(engine, prompts, strategy, BlockCache(), config, batch_size)
    for prompt, trace in zip(prompts, together, strict=True):
        assert trace == decode(engine, prompt, strategy, BlockCache(), config)


@pytest.mark.parametrize(
    ("engine", "cache", "says"),
    [
        (HashEngine(causal_block=4), FlashCache(), "flash .* block-causal; use none or block"),
        (HashEngine(), BlockCache(), "cache block .* bidirectional; use flash or none"),
    ],
)
def test_a_cache_that_does_not_fit_the_attention_is_refused(engine, cache, says):
    with pytest.raises(ValueError, match=says):
        decode(engine, [1], Greedy(), cache, DecodeConfig(gen_length=4))


def test_tensor_visibility_equals_the_plain_rule():
    rng = random.Random(3)
    for number in range(40):
        shift, queries = number % 2, []
        for handle in range(rng.randint(1, 3)):
            canvas = canvas_of(rng.randint(1, 9), 12, rng.choice([3, 4, 8]), window_size=6)
            window = canvas.window()
            if rng.random() < 0.4 or len(window) < 2:
                query = BlockCache().draft(0, canvas, DraftAsk(window), MASK)
            else:
                pairs = [(p, 40 + p) for p in rng.sample(window, len(window))]
                ask = VerifyAsk(tuple(pairs[:1]), tuple(pairs[1:]))
                query = NoCache().verify(None, canvas, ask, MASK, [])
            queries.append((handle, shifted(query, canvas, MASK, shift)))
        schedule = pack(queries, torch.arange(3 * 64).view(3, 64), torch.device("cpu")).schedule
        dense = schedule.visible_BWK
        for place, (handle, query) in enumerate(queries):
            for row in range(query.rows):
                slots = schedule.key_slots_BK[place]
                keys = range(len(slots)) if dense is None else dense[place, row].nonzero()[:, 0]
                seen = sorted(int(slots[key]) - 64 * handle for key in keys)
                assert seen == sorted(visible_slots(query, row))
