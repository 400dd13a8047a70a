"""FreeDave against a straight-line version of its description, and against the plain loop.

The version here forwards each candidate state by itself, against the entries that the block's
first pass left (`tests/plain_cache.py`); a state's whole block must match exactly.
"""

import json
import math
from dataclasses import replace

import pytest
import torch

from flash_dllm.caches import CACHES, DualCache, NoCache, PrefixCache
from flash_dllm.caches.base import full_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.extra_rows import with_extra_rows
from flash_dllm.packing import pack
from flash_dllm.query import BranchAsk, DraftAsk, visible_slots
from flash_dllm.strategies import Confidence, FreeDave, Greedy
from flash_dllm.trace import Verdict
from flash_dllm.trace_json import TraceError, from_json, to_json
from tests.hash_engine import HashEngine
from tests.plain_cache import forward_rows
from tests.random_model import MASK, PROMPT, plain_logits
from tests.recorded_run import END, LENGTH, START, blocks_of


class Published:
    """The loop of the description. `cache` says what a pass after the block's first one reads."""

    def __init__(self, config, tensors, cache, depth, threshold):
        self.config, self.tensors, self.cache = config, tensors, cache
        self.depth, self.threshold = depth, threshold
        self.passes, self.kept = [], []

    def answers(self, text, start, block, past=None):
        """(token, probability) of the masks of the block in this text."""
        everything = range(END)
        read = {
            "none": everything,
            "prefix": range(start, END),
            "dual": range(start, start + block),
        }
        rows = everything if past is None else read[self.cache]
        if self.cache == "none":
            past = None
        elif past is not None:
            past = [{p: e for p, e in layer.items() if p not in rows} for layer in past]
        logits, entries = forward_rows(self.config, self.tensors, text, list(rows), past)
        logits[:, MASK] = -math.inf
        sure, best = logits.softmax(-1).max(-1)
        found = {
            p: (int(best[n]), float(sure[n]))
            for n, p in enumerate(rows)
            if start <= p < start + block and text[p] == MASK
        }
        return found, entries, len(rows)

    def greedy(self, text, answers):
        """One step of the plain loop: (the text after it, how many tokens it wrote)."""
        ranked = sorted(answers, key=lambda p: -answers[p][1])
        count = 1
        if self.threshold is not None:
            count = max(1, sum(answers[p][1] >= self.threshold for p in ranked))
        after = list(text)
        for p in ranked[:count]:
            after[p] = answers[p][0]
        return after, ranked[count:]

    def run(self, block):
        text = PROMPT + [MASK] * LENGTH
        for start in range(START, END, block):
            inside = slice(start, start + block)
            draft, past, rows = self.answers(text, start, block)
            self.passes.append(rows)
            while MASK in text[inside]:
                state, rest = self.greedy(text, draft)
                states = [state]
                for p in rest[: self.depth - 1]:
                    states.append([draft[p][0] if q == p else t for q, t in enumerate(states[-1])])
                asked = [s for s in states if MASK in s[inside]]
                if asked:
                    found = [self.answers(s, start, block, past) for s in asked]
                    self.passes.append(sum(rows for *_, rows in found))
                else:
                    found = []
                targets = [self.greedy(s, f[0])[0] for s, f in zip(asked, found, strict=True)]
                best = 0
                while best < len(targets):
                    larger = [j for j in range(best + 1, len(states)) if states[j] == targets[best]]
                    if not larger:
                        break
                    best = larger[-1]
                self.kept.append(best)
                text = states[best]
                draft = found[best][0] if best < len(asked) else {}
        return text


CACHES_OF = {"none": NoCache, "prefix": PrefixCache, "dual": DualCache}


@pytest.mark.parametrize(
    ("depth", "block", "cache", "threshold"),
    [
        (4, 8, "dual", None), (4, 8, "prefix", None), (4, 8, "none", None), (2, 12, "dual", 0.6),
        (4, 24, "dual", None), (4, 24, "dual", 0.3), (8, 6, "dual", None), (32, 12, "dual", 0.1),
        (4, 24, "none", 0.3), (8, 12, "prefix", 0.6),
    ],
)
def test_freedave_equals_its_description(
    engine, small_config, small_tensors, cache, depth, block, threshold
):
    published = Published(small_config, small_tensors, cache, depth, threshold)
    text = published.run(block)
    strategy = FreeDave(depth, threshold)
    trace = decode(engine, PROMPT, strategy, CACHES_OF[cache](), blocks_of(block))
    assert trace.canvas_at(len(trace.steps)) == text[START:]
    assert [record.rows for step in trace.steps for record in step.passes] == published.passes
    assert from_json(to_json(trace)) == trace


def plain_loop(threshold):
    return Greedy() if threshold is None else Confidence(threshold)


@pytest.mark.parametrize(
    ("cache", "block", "threshold"),
    [
        ("none", 8, None), ("prefix", 24, None), ("dual", 8, None), ("dual", 24, None),
        ("none", 24, 0.6), ("prefix", 8, 0.6), ("dual", 24, 0.6), ("dual", 24, 0.4),
    ],
)
def test_freedave_is_lossless_against_the_plain_loop_under_the_same_cache(
    engine, cache, block, threshold
):
    config = blocks_of(block)
    plain = decode(engine, PROMPT, plain_loop(threshold), CACHES_OF[cache](), config)
    fast = decode(engine, PROMPT, FreeDave(6, threshold), CACHES_OF[cache](), config)
    assert order_of(fast) == order_of(plain)
    assert fast.passes < plain.passes
    kept = sum(branch.is_kept for step in fast.steps for branch in step.branches)
    # each state that the chain reached saved one pass, and nothing else did
    assert plain.passes - fast.passes == kept


def order_of(trace):
    return [pair for step in trace.steps for pair in step.accepted]


@pytest.mark.parametrize("cache", CACHES_OF)
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_one_state_is_the_plain_loop_pass_by_pass(engine, cache, threshold):
    plain = decode(engine, PROMPT, plain_loop(threshold), CACHES_OF[cache](), blocks_of(8))
    one = decode(engine, PROMPT, FreeDave(1, threshold), CACHES_OF[cache](), blocks_of(8))
    assert [step.proposals for step in one.steps] == [step.proposals for step in plain.steps]
    assert [p.rows for s in one.steps for p in s.passes] == [
        p.rows for s in plain.steps for p in s.passes
    ]


@pytest.mark.parametrize("seed", range(30))
def test_lossless_on_many_models_with_early_stops(seed):
    """Ties, end tokens, small windows: the same tokens in the same order, also when it stops."""
    engine = HashEngine(seed, end_share=10)
    config = DecodeConfig(24, block_length=12, window_size=(12, 5, 3)[seed % 3])
    cache = (NoCache, PrefixCache, DualCache)[seed // 3 % 3]()
    threshold = (None, 0.9, 0.75)[seed // 9 % 3]
    plain = decode(engine, [1, 2, 3], plain_loop(threshold), cache, config)
    fast = decode(engine, [1, 2, 3], FreeDave(5, threshold), cache, config)
    assert order_of(fast) == order_of(plain)
    assert from_json(to_json(fast)) == fast


def test_lossless_with_noise_and_with_end_tokens_ranked_last(engine):
    for change in ({"temperature": 0.7, "seed": 3}, {"rank_ends_last": True}):
        config = replace(blocks_of(8), **change)
        plain = decode(engine, PROMPT, Greedy(), DualCache(), config)
        fast = decode(engine, PROMPT, FreeDave(4), DualCache(), config)
        assert order_of(fast) == order_of(plain)


@pytest.mark.parametrize("seed", range(4))
def test_lossless_on_shifted_models(seed):
    engine = HashEngine(seed, shift=1)
    config = DecodeConfig(24, block_length=8, window_size=8)
    for cache in (NoCache(), PrefixCache(), DualCache()):
        plain = decode(engine, [1, 2, 3], Greedy(), cache, config)
        fast = decode(engine, [1, 2, 3], FreeDave(4), cache, config)
        assert order_of(fast) == order_of(plain)
        assert from_json(to_json(fast)) == fast


def test_a_batch_decodes_each_prompt_as_if_it_were_alone(engine):
    prompts = [PROMPT, PROMPT[:5], PROMPT[2:]]
    together = decode_batch(engine, prompts, FreeDave(4), DualCache(), blocks_of(8), 2)
    alone = [decode(engine, ids, FreeDave(4), DualCache(), blocks_of(8)) for ids in prompts]
    assert [order_of(t) for t in together] == [order_of(t) for t in alone]
    assert [t.passes for t in together] == [t.passes for t in alone]


# --- branches: states of the text side by side in one pass


BRANCHES = (
    BranchAsk(((9, 411),), (8, 10, 14)),
    BranchAsk(((9, 411), (11, 95)), (8, 10)),
    BranchAsk((), (8, 9, 31), masks_prompt=True),
)


def branched(canvas, query=None, branches=BRANCHES):
    query = query or full_query(canvas, canvas.window(), MASK)
    return with_extra_rows(query, DraftAsk(canvas.window(), branches=branches), canvas, MASK)


@pytest.fixture
def canvas():
    return Canvas.start(PROMPT, blocks_of(24), (0,)).commit([(12, 500)])


def test_each_branch_answers_like_a_forward_of_its_own_text(
    engine, canvas, small_config, small_tensors
):
    session = engine.open(SessionRequest(1, END, max_views=3 * END))
    handle = session.admit(END, 0)
    query = branched(canvas)
    packed = pack([(handle, query)], session.cache.table, engine.model.device)
    logits = engine.model.forward(packed, session.cache)[0]
    start = 0
    for branch in (BranchAsk((), canvas.window()), *BRANCHES):
        text = [MASK if token is None else token for token in canvas.tokens]
        if branch.masks_prompt:
            text[:START] = [MASK] * START
        for position, token in branch.filled:
            text[position] = token
        rows = slice(start, start + len(branch.window))
        start = rows.stop
        truth = plain_logits(small_config, small_tensors, text)[list(branch.window)]
        assert (logits[rows] - truth).abs().max() < 1e-11


def test_the_tensor_form_of_branches_equals_the_plain_rule(canvas):
    table = torch.arange(2 * 256).view(2, 256)
    few = with_extra_rows(
        full_query(canvas, canvas.window(), MASK), DraftAsk(canvas.window(), shadows=(12,)),
        canvas, MASK,
    )  # fmt: skip
    queries = [(0, branched(canvas)), (1, few)]
    schedule = pack(queries, table, torch.device("cpu")).schedule
    for number, (_, query) in enumerate(queries):
        for row in range(query.rows):
            seen = schedule.visible_BWK[number, row].nonzero()[:, 0].tolist()
            assert seen == sorted(visible_slots(query, row))
            # the kernels' form: from <= code < until, or one's own entry, unless it is replaced
            code = int(schedule.row_code_R[sum(q.rows for _, q in queries[:number]) + row])
            first, until = schedule.key_from_BK[number], schedule.key_until_BK[number]
            own = query.slots[row]
            count = int(schedule.key_count_B[number])
            fast = [
                key
                for key in range(count)
                if (first[key] <= code < until[key] or key == own)
                and key != query.replaced.get(row)
            ]
            assert fast == seen


def test_no_branch_sees_another_and_nobody_sees_a_branch(canvas):
    query = branched(canvas)
    rows_of = {slot: row for row, slot in enumerate(query.slots)}
    for row in range(query.rows):
        branches = {query.ranks[rows_of[slot]] for slot in visible_slots(query, row)}
        assert branches == {query.ranks[row]}


# --- the record


@pytest.fixture(scope="module")
def trace():
    config = DecodeConfig(48, block_length=24, window_size=24)
    trace = decode(HashEngine(7), [1, 2, 3], FreeDave(4), DualCache(), config)
    assert sum(b.is_kept for s in trace.steps for b in s.branches) > 1
    return trace


def test_the_record_holds_every_state_that_was_asked(trace):
    for before, step in zip(trace.steps, trace.steps[1:], strict=False):
        fills = [branch.filled for branch in step.branches]
        assert [len(filled) for filled in fills] == list(range(1, len(fills) + 1))
        assert all(a == b[: len(a)] for a, b in zip(fills, fills[1:], strict=False))
        assert not {p for p, _ in before.accepted} & {p for filled in fills for p, _ in filled}
    ranks = [p.rank for step in trace.steps for p in step.proposals if p.rank]
    kinds = {p.verdict for step in trace.steps for p in step.proposals if p.rank}
    assert ranks and kinds <= {Verdict.VERIFIED, Verdict.CORRECTED}


def with_branches(tree):
    """The first recorded step that kept a state."""
    return next(s for s in tree["steps"] if any(b["is_kept"] for b in s.get("branches", ())))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda step: step["branches"].pop(), "must hold the states that the last step expected"),
        (lambda step: step.pop("branches"), "must hold the states that the last step expected"),
        (lambda step: step["branches"][0]["filled"][0].__setitem__(1, 40), "that the last step"),
        (lambda step: step["branches"][0].update(is_kept=False), "is not what the rules give"),
        (lambda step: step["branches"][0]["answers"][0].append(1), "must be a list of three"),
        (lambda step: step["branches"][0]["answers"].pop(), "that the last step expected"),
    ],
)
def test_a_changed_branch_is_found(trace, change, words):
    tree = json.loads(to_json(trace))
    change(with_branches(tree))
    with pytest.raises(TraceError, match=words):
        from_json(json.dumps(tree))


def test_another_answer_in_a_kept_state_changes_what_the_rules_give(trace):
    tree = json.loads(to_json(trace))
    branch = next(b for b in with_branches(tree)["branches"] if b["is_kept"])
    best = max(branch["answers"], key=lambda answer: answer[2])
    best[1] = (best[1] + 1) % 40
    with pytest.raises(TraceError, match="the rules give"):
        from_json(json.dumps(tree))


def test_a_cache_whose_passes_change_entries_is_refused_by_name(engine):
    for name in ("flash", "dkv"):
        with pytest.raises(ValueError, match="takes branches.*use none or prefix or dual"):
            decode(engine, PROMPT, FreeDave(), CACHES[name](), blocks_of(8))
        decode(engine, PROMPT, FreeDave(1), CACHES[name](), blocks_of(8))


def test_a_block_causal_model_is_refused():
    config = DecodeConfig(8, block_length=4, window_size=4)
    with pytest.raises(ValueError, match="whose attention is block-causal"):
        decode(HashEngine(0, causal_block=4), [1, 2], FreeDave(), NoCache(), config)
