"""The caches that choose rows inside the forward, against `plain_layers.py`: the same tokens, the
same number of passes, the same positions refreshed in every layer of every pass."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import CACHES, DllmCache, DynamicCache, ElasticCache, FlashCache, NoCache
from flash_dllm.caches.dynamic import layer_budgets, window_around
from flash_dllm.config import DecodeConfig
from flash_dllm.cost_map import position_layers
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.layer_cost import query_spans
from flash_dllm.movement import Movement
from flash_dllm.query import Query, Role
from flash_dllm.rejudge import rejudge
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import Adaptive, Confidence, FlashVerify, Greedy, Llada, Prophet
from flash_dllm.trace_json import TraceError, from_json, to_json
from tests.official_layouts import write_layout
from tests.plain_layers import Elastic, FourFeatures, Layers
from tests.random_model import MASK, PROMPT
from tests.recorded_run import END, LENGTH, START, blocks_of

ANSWER = range(START, END)


@pytest.fixture
def layers(small_config, small_tensors):
    return Layers(small_config, small_tensors)


@pytest.fixture
def asked(monkeypatch):
    """(query, answer) of every pass of the decoder's own session."""
    from flash_dllm.session import ModelSession

    pairs = []
    ask = ModelSession.ask

    def spy(session, queries):
        answers = ask(session, queries)

        def late():
            predictions = answers()
            pairs.extend(zip([query for _, query in queries], predictions, strict=True))
            return predictions

        return late

    monkeypatch.setattr(ModelSession, "ask", spy)
    return pairs


def laws(logits):
    logits = logits.clone()
    logits[:, MASK] = -math.inf
    return logits.softmax(-1)


class OneByOne:
    """Greedy: the surest mask of the block."""

    def commit(self, law, masks):
        sure, tokens = law.max(-1)
        chosen = max(masks, key=lambda p: float(sure[p]))
        return [(chosen, int(tokens[chosen]))]


class ByThreshold:
    """Every mask at least ε sure, the surest always; by falling confidence."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def threshold(self, law, masks, p):
        return self.epsilon

    def commit(self, law, masks):
        sure, tokens = law.max(-1)
        ranked = sorted(masks, key=lambda p: -float(sure[p]))
        return [
            (p, int(tokens[p])) for n, p in enumerate(ranked)
            if n == 0 or float(sure[p]) >= self.threshold(law, masks, p)
        ]  # fmt: skip


class Apd(ByThreshold):
    """τ ← τ − α·PC + β·DS in every step; one τ by the means over the block's masks, or one for
    each position."""

    def __init__(self, start, alpha, beta, scope):
        self.tau = {p: start for p in ANSWER} if scope == "token" else start
        self.alpha, self.beta = alpha, beta
        self.before = None
        self.history = []

    def commit(self, law, masks):
        certain = 1 - law.topk(2).values[:, 1]
        moved = law.new_zeros(len(law))
        if self.before is not None:
            norms = law.norm(dim=-1) * self.before.norm(dim=-1)
            moved = 1 - (law * self.before).sum(-1) / norms
        shift = self.beta * moved - self.alpha * certain
        if isinstance(self.tau, dict):
            self.tau = {p: t + float(shift[p]) for p, t in self.tau.items()}
        else:
            self.tau += float(shift[masks].mean())
        self.before = law
        self.history.append(self.tau)
        return super().commit(law, masks)

    def threshold(self, law, masks, p):
        return self.tau[p] if isinstance(self.tau, dict) else self.tau


def four_features(layers, block, intervals, choose, rule):
    """Decode with dLLM-Cache's skeleton. `choose(step, moved, last)` gives the step's `select`.

    Returns the steps' commits and what every layer of every pass refreshed.
    """
    tokens, steps, refreshed = PROMPT + [MASK] * LENGTH, [], []
    cache, moved, last = FourFeatures(layers, START, END, *intervals), [], None
    for start in range(START, END, block):
        while masks := [p for p in range(start, start + block) if tokens[p] == MASK]:
            select = choose(len(steps) + 1, moved, last)
            logits, rows, now = cache.forward(tokens, select)
            moved = now or moved
            refreshed.append(rows)
            pairs = rule.commit(laws(logits), masks)
            for position, token in pairs:
                tokens[position] = token
            last = pairs[-1][0]
            steps.append(pairs)
    return steps, refreshed


def lowest(cosine, count):
    return sorted(cosine, key=lambda p: (cosine[p], p))[:count]


def dllm(ratio):
    """⌊ρ · gen_length⌋ least similar values, in every layer alike."""
    select = lambda layer, cosine: lowest(cosine, math.floor(ratio * LENGTH))  # noqa: E731
    return lambda step, moved, last: select if ratio > 0 else None


def dcu(window, budget, clamp):
    """The window around the newest token, and the layer's share of the budget besides."""

    def choose(step, moved, last):
        near = {p for p in ANSWER if last is not None and 0 <= p - last + window // 2 < window}

        def select(layer, cosine):
            size = float(budget)
            if moved:
                powers = [math.exp(200 * m) for m in moved]
                size = budget * (len(moved) + 1) * powers[layer - 1] / sum(powers)
            if clamp and step >= 3:
                size = min(1.0, size)
            far = {p: c for p, c in cosine.items() if p not in near}
            return near | set(lowest(far, int(size)))

        return select

    return choose


def check(trace, asked, steps, refreshed):
    """Same tokens in the same steps, one pass each, the same rows in every layer; the file says
    what that cost, position by position, and is read and replayed."""
    assert [list(step.accepted) for step in trace.steps] == steps
    assert trace.passes == len(steps)
    rows = [[list(report.rows) for report in answer.layers] for _, answer in asked]
    assert rows == refreshed
    assert position_layers(trace) == [
        [sum(p in layer for layer in of_pass) for p in range(END)] for of_pass in refreshed
    ]
    assert trace.row_layers == sum(len(layer) for of_pass in refreshed for layer in of_pass)
    assert from_json(to_json(trace)) == trace


@pytest.mark.parametrize("block", [8, 24])
@pytest.mark.parametrize(
    ("prompt_interval", "answer_interval", "ratio"),
    [(1, 1, 0.25), (3, 5, 0.25), (5, 3, 0.5), (100, 7, 0.25), (100, 100, 0.3), (4, 6, 0.0),
     (4, 6, 0.02)],
)  # fmt: skip
def test_dllm_cache_equals_its_description(
    engine, layers, asked, block, prompt_interval, answer_interval, ratio
):
    intervals = prompt_interval, answer_interval
    steps, refreshed = four_features(layers, block, intervals, dllm(ratio), OneByOne())
    trace = decode(engine, PROMPT, Llada(), DllmCache(*intervals, ratio), blocks_of(block))
    check(trace, asked, steps, refreshed)
    # a plain step computes everything once, and between refreshes exactly ⌊ρ·gen_length⌋ a layer
    share = math.floor(ratio * LENGTH)
    for number, rows in enumerate(refreshed):
        due = START * (number % prompt_interval == 0)
        due += LENGTH if number % answer_interval == 0 else share
        assert [len(layer) for layer in rows] == [END, due, due]


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_dllm_cache_takes_several_tokens_a_step(engine, layers, asked, epsilon):
    steps, refreshed = four_features(layers, 8, (6, 4), dllm(0.25), ByThreshold(epsilon))
    trace = decode(engine, PROMPT, Confidence(epsilon), DllmCache(6, 4, 0.25), blocks_of(8))
    check(trace, asked, steps, refreshed)


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize(
    ("intervals", "window", "budget"),
    [((5000, 5000), 4, 2), ((5000, 5000), 5, 6), ((7, 5), 4, 3), ((5000, 5000), 0, 4)],
)
def test_dynamic_cache_equals_its_description(
    engine, layers, asked, intervals, window, budget, clamp
):
    choose = dcu(window, budget, clamp)
    steps, refreshed = four_features(layers, 8, intervals, choose, OneByOne())
    trace = decode(
        engine, PROMPT, Greedy(), DynamicCache(*intervals, window, budget, clamp), blocks_of(8)
    )
    check(trace, asked, steps, refreshed)
    if clamp:
        for rows in refreshed[2:]:
            in_answer = [sum(p >= START for p in layer) for layer in rows[1:]]
            assert max(in_answer) <= window + 1 or max(in_answer) == LENGTH


@pytest.mark.parametrize("scope", ["mean", "token"])
@pytest.mark.parametrize("clamp", [False, True])
def test_dynamic_dllm_whole_equals_its_description(engine, layers, asked, scope, clamp):
    numbers = 0.6, 0.02, 0.3
    steps, refreshed = four_features(
        layers, 8, (5000, 5000), dcu(6, 4, clamp), Apd(*numbers, scope)
    )
    cache = DynamicCache(newest_size=6, layer_budget=4, clamp=clamp)
    trace = decode(engine, PROMPT, Adaptive(*numbers, scope), cache, blocks_of(8))
    check(trace, asked, steps, refreshed)


@pytest.mark.parametrize("scope", ["mean", "token"])
@pytest.mark.parametrize(
    ("start", "alpha", "beta"), [(0.9, 0.01, 0.15), (0.5, 0.05, 0.0), (0.4, 0.0, 0.5), (1.0, 1, 0)]
)
def test_the_adaptive_threshold_equals_its_description(
    engine, layers, start, alpha, beta, scope
):
    """Without a cache: every pass refreshes everything."""
    rule = Apd(start, alpha, beta, scope)
    steps, _ = four_features(layers, 8, (1, 1), dllm(0.0), rule)
    strategy = Adaptive(start, float(alpha), float(beta), scope)
    trace = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    assert [list(step.accepted) for step in trace.steps] == steps
    assert from_json(to_json(trace)) == trace
    assert len({repr(tau) for tau in rule.history}) > 1  # it moves


@pytest.mark.parametrize("scope", ["mean", "token"])
def test_an_adaptive_run_is_judged_again_as_it_was(engine, scope):
    trace = decode(engine, PROMPT, Adaptive(0.6, 0.02, 0.3, scope), NoCache(), blocks_of(8))
    again = rejudge(trace, epsilon=0.3)
    assert (again.first_change, again.badge) == (None, "exact")
    assert [step.accepted for step in again.steps] == [step.accepted for step in trace.steps]
    assert "means nothing to the strategy adaptive" in again.explanation


@pytest.mark.parametrize("scope", ["mean", "token"])
def test_an_adaptive_threshold_that_never_moves_is_confidence(engine, scope):
    fixed = decode(engine, PROMPT, Confidence(0.4), NoCache(), blocks_of(8))
    trace = decode(engine, PROMPT, Adaptive(0.4, 0.0, 0.0, scope), NoCache(), blocks_of(8))
    assert [s.accepted for s in trace.steps] == [s.accepted for s in fixed.steps]
    verdicts = [[p.verdict for p in s.proposals][: len(s.accepted)] for s in trace.steps]
    assert verdicts == [[p.verdict for p in s.proposals][: len(s.accepted)] for s in fixed.steps]


def elastic(layers, window_size, threshold, rule):
    """No blocks: the window is the leftmost masks. Returns commits and computed rows by layer."""
    tokens, steps, computed = PROMPT + [MASK] * LENGTH, [], []
    cache, fresh = Elastic(layers, END, threshold), []
    while masks := [p for p in ANSWER if tokens[p] == MASK]:
        decided = [p for p in range(END) if tokens[p] != MASK]
        window = masks[:window_size]
        logits, rows = cache.forward(tokens, decided, window, fresh)
        pairs = rule.commit(laws(logits), window)
        for position, token in pairs:
            tokens[position] = token
        fresh = [position for position, _ in pairs]
        steps.append(pairs)
        computed.append(rows)
    return steps, computed


def sliding(window_size):
    return DecodeConfig(gen_length=LENGTH, window_size=window_size, early_stop=False)


@pytest.mark.parametrize("window_size", [6, 16])
@pytest.mark.parametrize("epsilon", [0.3, 0.9])
@pytest.mark.parametrize("threshold", [0.0, 0.9, 0.97, 0.995, 1 - 1e-9])
def test_elastic_cache_equals_its_description(
    engine, layers, asked, window_size, epsilon, threshold
):
    steps, computed = elastic(layers, window_size, threshold, ByThreshold(epsilon))
    cache = ElasticCache(threshold)
    trace = decode(engine, PROMPT, Confidence(epsilon), cache, sliding(window_size))
    check(trace, asked, steps, computed)
    drifts = [len(rows[-1]) == END for rows in computed[1:]]
    if threshold == 0:
        assert not any(drifts)
        assert all(rows[0] == rows[2] for rows in computed)
    if threshold > 0.999:
        # the first layer's test fails at once; only its own rows stay few
        assert all(len(rows[0]) < END and len(rows[1]) == END for rows in computed[1:])


LIMITS = [
    DllmCache(1, 1, 0.25),
    DllmCache(1, 1, 0.0),
    DllmCache(1, 100, 1.0),
    DynamicCache(1, 1),
    DynamicCache(1, 100, newest_size=2 * LENGTH),
    ElasticCache(1.0),
]


@pytest.mark.parametrize("cache", LIMITS, ids=str)
@pytest.mark.parametrize(
    "strategy",
    [Greedy(), Confidence(0.4), Prophet(gap_early=2.0), Adaptive(0.5)], ids=lambda s: s.name,
)
def test_refreshing_everything_is_the_plain_decoder(engine, cache, strategy):
    """K = 1; ρ = 1 or a window over everything, with the prompt refreshed; a threshold of 1."""
    plain = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    trace = decode(engine, PROMPT, strategy, cache, blocks_of(8))
    assert [step.proposals for step in trace.steps] == [step.proposals for step in plain.steps]
    assert position_layers(trace) == position_layers(plain)
    assert trace.row_layers == plain.row_layers == plain.rows * 3


@pytest.mark.parametrize(
    "cache", [DllmCache(1, 1), DynamicCache(1, 1), ElasticCache(1.0)], ids=lambda c: c.name
)
def test_verification_over_a_fresh_cache_is_that_without_one(engine, cache):
    strategy = FlashVerify(0.6, 0.1)
    plain = decode(engine, PROMPT, strategy, NoCache(), blocks_of(8))
    trace = decode(engine, PROMPT, strategy, cache, blocks_of(8))
    assert [step.proposals for step in trace.steps] == [step.proposals for step in plain.steps]
    assert [s.passes[-1].rows for s in trace.steps] == [s.passes[-1].rows for s in plain.steps]


LAZY = [
    DllmCache(4, 3, 0.25),
    DynamicCache(newest_size=4, layer_budget=2),
    ElasticCache(0.97),
]


@pytest.mark.parametrize("cache", LAZY, ids=lambda c: c.name)
@pytest.mark.parametrize("strategy", [FlashVerify(0.6, 0.1), Adaptive(0.5)], ids=lambda s: s.name)
def test_a_batch_decodes_each_prompt_as_if_alone(engine, cache, strategy):
    prompts = [PROMPT, [7, 8, 9], PROMPT[::-1]]
    config = replace(blocks_of(6), gen_length=12)
    together = decode_batch(engine, prompts, strategy, cache, config, batch_size=2)
    for prompt, trace in zip(prompts, together, strict=True):
        alone = decode(engine, prompt, strategy, cache, config)
        assert [s.proposals for s in trace.steps] == [s.proposals for s in alone.steps]
        assert position_layers(trace) == position_layers(alone)
        assert from_json(to_json(trace)) == trace


@pytest.fixture(scope="module", params=["dream", "a2d_qwen3", "lladamoe"])
def other(request, tmp_path_factory):
    """A shifted head with biases; norms of queries and keys; experts."""
    from flash_dllm.models import load_model

    folder = write_layout(tmp_path_factory.mktemp(request.param), request.param)
    return load_model(folder, device="cpu", dtype="float64")


@pytest.mark.parametrize("cache", LIMITS, ids=str)
def test_the_limits_hold_in_other_families(other, cache):
    plain = decode(other, PROMPT, Confidence(0.4), NoCache(), blocks_of(12))
    trace = decode(other, PROMPT, Confidence(0.4), cache, blocks_of(12))
    assert [step.proposals for step in trace.steps] == [step.proposals for step in plain.steps]


@pytest.mark.parametrize("cache", LAZY, ids=lambda c: c.name)
@pytest.mark.parametrize("strategy", [FlashVerify(0.6, 0.1), Adaptive(0.5)], ids=lambda s: s.name)
def test_other_families_decode_and_their_traces_are_read_back(other, cache, strategy):
    trace = decode(other, PROMPT, strategy, cache, blocks_of(12))
    assert from_json(to_json(trace)) == trace
    assert trace.status == "finished"


# what a step costs, position by position


ROW_CACHES = [name for name, kind in CACHES.items()
              if not kind.by_layer and "bidirectional" in kind.fits]  # fmt: skip


@pytest.mark.parametrize("name", ROW_CACHES)
@pytest.mark.parametrize("strategy", [Confidence(0.4), FlashVerify(0.6, 0.1)], ids=lambda s: s.name)
def test_every_row_of_a_row_cache_costs_all_layers(engine, asked, name, strategy):
    trace = decode(engine, PROMPT, strategy, CACHES[name](), blocks_of(8))
    passes = [record for step in trace.steps for record in step.passes]
    for record, (query, _) in zip(passes, asked, strict=True):
        assert record.row_layers == 3 * len(query.positions)
        listed = [(p, n) for first, last, n in record.layers for p in range(first, last + 1)]
        assert listed == [(p, 3 * query.positions.count(p)) for p in sorted({*query.positions})]
    assert sum(map(sum, position_layers(trace))) == trace.row_layers == 3 * trace.rows


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=14), st.integers(1, 9))
def test_spans_hold_each_position_as_often_as_it_is_a_row(positions, n_layers):
    query = Query("draft", 20)
    for position in positions:
        query.add(1, position, position, Role.CONTEXT)
    spans = query_spans(query, n_layers)
    listed = {p: n for first, last, n in spans for p in range(first, last + 1)}
    assert listed == {p: n_layers * positions.count(p) for p in positions}
    assert sum(last + 1 - first for first, last, _ in spans) == len(listed)
    # neighbours of equal cost are one span
    assert all(a[1] + 1 < b[0] or a[2] != b[2] for a, b in pairwise(spans))


def test_an_audit_costs_nothing_that_counts(engine):
    strategy = FlashVerify(0.6, 0.1)
    trace = decode(engine, PROMPT, strategy, FlashCache(4), blocks_of(8))
    audited = decode(engine, PROMPT, replace(strategy, audit=True), FlashCache(4), blocks_of(8))
    assert position_layers(audited) == position_layers(trace)
    assert audited.row_layers == trace.row_layers


def test_the_values_that_only_choose_are_counted_apart(engine):
    trace = decode(engine, PROMPT, Greedy(), DllmCache(100, 4, 0.25), blocks_of(8))
    # two of three layers compare all answer positions, in three of four steps
    assert [s.passes[0].compared for s in trace.steps] == [0, 48, 48, 48] * 6
    assert trace.compared == 18 * 48
    assert '"compared":48' in to_json(trace)
    assert "compared" not in to_json(decode(engine, PROMPT, Greedy(), NoCache(), blocks_of(8)))


def edited(trace, change):
    """The file with its third step's first pass changed."""
    tree = json.loads(to_json(trace))
    change(tree["steps"][2]["passes"][0])
    return json.dumps(tree)


@pytest.mark.parametrize(
    "cache", [NoCache(), FlashCache(4), CACHES["dkv"](), CACHES["prefix"]()], ids=lambda c: c.name
)
def test_files_from_before_costs_were_recorded_are_read_and_drawn(engine, cache):
    trace = decode(engine, PROMPT, FlashVerify(0.6, 0.1), cache, blocks_of(8))
    tree = json.loads(to_json(trace))
    for step in tree["steps"]:
        for record in step["passes"]:
            del record["row_layers"], record["layers"]
    old = from_json(json.dumps(tree))
    assert json.loads(to_json(old)) == tree
    assert position_layers(old) == position_layers(trace)
    assert old.row_layers == trace.row_layers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.update(row_layers=5), "row_layers: must be 96, got 5"),
        (lambda p: p.update(layers=[[0, 30, 3], [31, 31, 2]], row_layers=95), "is not what the"),
        (lambda p: p.update(compared=4), "compared: must be 0"),
        (lambda p: p.update(layers=[[0, 31]]), r"layers\[0\]: must be a list of three"),
        (lambda p: p.update(layers=[[0, 32, 3]]), r"layers\[0\]\[1\]: must lie between 0 and 31"),
    ],
    ids=range(5),
)
def test_a_forged_cost_of_rows_is_refused(engine, change, words):
    trace = decode(engine, PROMPT, Greedy(), NoCache(), blocks_of(8))
    with pytest.raises(TraceError, match=words):
        from_json(edited(trace, change))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([[0, 31, 4]], "more than 3 layers"),
        ([[0, 20, 1], [20, 31, 1]], "without overlap"),
        ([[21, 31, 1], [0, 20, 1]], "without overlap"),
        ([[5, 4, 1], [6, 31, 1]], "without overlap"),
        ([[0, 30, 1]], "leaves out a row of the first layer"),
        ([], "layers: is missing"),
    ],
    ids=range(6),
)
def test_a_cost_that_no_plan_can_have_is_refused(engine, layers, words):
    trace = decode(engine, PROMPT, Greedy(), DllmCache(100, 100), blocks_of(8))
    cost = sum((last + 1 - first) * n for first, last, n in layers)
    change = lambda record: record.update(layers=layers, row_layers=max(0, cost))  # noqa: E731
    with pytest.raises(TraceError, match=words):
        from_json(edited(trace, change))


def test_a_draft_that_does_not_say_how_it_changed_is_refused(engine):
    trace = decode(engine, PROMPT, Adaptive(), NoCache(), blocks_of(8))
    tree = json.loads(to_json(trace))
    del tree["steps"][1]["proposals"][3]["change"]
    with pytest.raises(TraceError, match=r"steps\[1\].proposals: must say of each draft how far"):
        from_json(json.dumps(tree))
    other = json.loads(to_json(decode(engine, PROMPT, Greedy(), NoCache(), blocks_of(8))))
    other["steps"][1]["proposals"][3]["change"] = 0.5
    with pytest.raises(TraceError, match=r"proposals\[3\].change: the rules give nothing"):
        from_json(json.dumps(other))


def test_a_law_that_stays_has_not_moved_back():
    """In fp32 the cosine of a law with nearly itself is often rounded above 1; a movement below 0
    would be recorded, and the file refused."""
    movement, positions = Movement(mask_token_id=2), range(64)
    generator = torch.Generator().manual_seed(0)
    logits = 6 * torch.randn(64, 512, generator=generator)
    movement.since_last(0, positions, logits)
    moved = movement.since_last(0, positions, logits + 1e-6)
    assert float(moved.min()) >= 0 and float(moved.max()) < 1e-5
    opposite = torch.full((1, 3), -100.0)
    opposite[0, 0] = 100.0
    movement.since_last(1, [5], opposite)
    assert movement.since_last(1, [5], opposite.roll(1, 1)).tolist() == [1.0]


# who can't


def test_an_implementation_without_layers_refuses_in_one_sentence(small_folder):
    from flash_dllm.models import load_model

    fast = load_model(small_folder, device="cpu", dtype="float32", impl="triton")
    for cache in LAZY:
        with pytest.raises(ValueError, match="needs impl='torch' on one device; load the model"):
            decode(fast, PROMPT, Greedy(), cache, blocks_of(8))


def test_the_same_weights_answer_by_layer_with_torch(small_folder):
    from flash_dllm.models import load_model

    fast, truth = (
        load_model(small_folder, device="cpu", dtype="float32", impl=impl)
        for impl in ("triton", "torch")
    )
    assert fast.suited(NoCache()) is fast and truth.suited(LAZY[0]) is truth
    assert (fast.info.impl, fast.suited(LAZY[0]).info.impl) == ("triton", "torch")
    for cache in LAZY:
        own = fast.suited(cache)
        assert own is fast.suited(LAZY[0]) and own.model.weights is fast.model.weights
        found, expected = (
            decode(one, PROMPT, Greedy(), cache, blocks_of(8)) for one in (own, truth)
        )
        assert found.token_ids == expected.token_ids
        assert [s.passes[0].row_layers for s in found.steps] == [
            s.passes[0].row_layers for s in expected.steps
        ]
    own._idle.append("memory of a session")
    fast.free()
    assert not own._idle


def test_a_table_has_neither_layers_nor_probabilities():
    toy = toy_engine()
    config = DecodeConfig(gen_length=4, window_size=2)
    with pytest.raises(ValueError, match="toy example is a table without layers"):
        decode(toy, toy.ids("^"), Greedy(), DllmCache(), config)
    with pytest.raises(ValueError, match="knows no token probabilities"):
        decode(toy, toy.ids("^"), Adaptive(), NoCache(), config)


def test_one_alternative_is_too_few_for_the_adaptive_threshold(engine):
    config = replace(blocks_of(8), alternatives=1)
    with pytest.raises(ValueError, match="alternatives must be at least 2 for adaptive"):
        decode(engine, PROMPT, Adaptive(), NoCache(), config)


def test_the_examples_in_the_docstrings_are_true():
    import doctest

    from flash_dllm import layer_cost, layer_plan
    from flash_dllm.caches import dynamic
    from flash_dllm.strategies import adaptive

    for module in (layer_cost, layer_plan, dynamic, adaptive):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0


def test_budgets_follow_the_movement_and_keep_their_sum():
    budgets = layer_budgets([0.001, 0.002, 0.004], 5)
    assert sum(budgets) == pytest.approx(20)
    assert budgets[2] / budgets[0] == pytest.approx(math.exp(0.6))
    # movements of any size are no overflow
    assert layer_budgets([0.0, 9.0], 1) == [0.0, 3.0]


def test_the_window_around_a_token_is_cut_at_the_ends_of_the_answer():
    assert list(window_around(10, 4, 8, 20)) == [8, 9, 10, 11]
    assert list(window_around(8, 4, 8, 20)) == [8, 9]
    assert list(window_around(19, 5, 8, 20)) == [17, 18, 19]
    assert list(window_around(12, 0, 8, 20)) == []
