"""FlashDLM: FreeCache and guided diffusion against straight-line versions in float64."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
import torch
from safetensors.torch import save_file

from flash_dllm.caches import FreeCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.evaluate import line_of
from flash_dllm.evaluation.run import Plan, measure
from flash_dllm.evaluation.tasks import load_task
from flash_dllm.guidance import Hearing, agreeing
from flash_dllm.guide import ModelGuideSession, score
from flash_dllm.models import load_guide, load_model
from flash_dllm.query import GuideAsk, Prediction, visible_slots
from flash_dllm.settings import Settings
from flash_dllm.strategies import Confidence, Greedy, Guided
from flash_dllm.strategies.guided import RULES
from flash_dllm.trace import GuideScore, StopReason, TraceError, Verdict
from flash_dllm.trace_json import from_json, to_json
from tests.guided_models import few_words, guide_logits, guide_tensors, write_guide
from tests.hash_engine import HashEngine
from tests.random_model import MASK, PROMPT, ROOT, VOCAB, plain_logits, write_checkpoint
from tests.recorded_run import END, LENGTH, START, blocks_of, check

WHOLE = DecodeConfig(gen_length=LENGTH, window_size=LENGTH, early_stop=False)


# FreeCache


def free_by_position(run, block, epsilon):
    """x[first:] in every pass, where all before `first` was read as clean prefix before; those
    entries are kept for good."""
    kept, first = None, 0
    while run.masks():
        answers, fresh = run.forward(range(first, END), kept)
        clean = run.masks()[0]
        whole = fresh if kept is None else [{**a, **b} for a, b in zip(kept, fresh, strict=True)]
        kept = [{p: kv for p, kv in layer.items() if p < clean} for layer in whole]
        first = clean
        start = START + (clean - START) // block * block
        run.commit_by_threshold(answers, run.masks(start, start + block), epsilon)


def free_by_block(run, block, epsilon):
    """x[block_start:] in every pass; in a block's last step everything up to its end is stored."""
    kept, first = None, 0
    for start in range(START, END, block):
        while masks := run.masks(start, start + block):
            answers, fresh = run.forward(range(first, END), kept)
            whole = (
                fresh if kept is None else [{**a, **b} for a, b in zip(kept, fresh, strict=True)]
            )
            run.commit_by_threshold(answers, masks, epsilon)
            first = start if run.masks(start, start + block) else start + block
            kept = [{p: kv for p, kv in layer.items() if p < first} for layer in whole]


@pytest.mark.parametrize("block", [6, 24])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize(
    ("unit", "published"), [("position", free_by_position), ("block", free_by_block)]
)
def test_free_cache_equals_its_description(
    engine, run, rows_read, unit, published, block, epsilon
):
    published(run, block, epsilon)
    trace = decode(engine, PROMPT, Confidence(epsilon), FreeCache(unit), blocks_of(block))
    check(trace, run, rows_read)


@pytest.mark.parametrize("unit", ["position", "block"])
def test_free_cache_never_reads_the_prompt_again(engine, unit):
    trace = decode(engine, PROMPT, Greedy(), FreeCache(unit), blocks_of(LENGTH))
    rows = [p.rows for step in trace.steps for p in step.passes]
    assert rows[0] == END
    assert max(rows[1:]) <= LENGTH
    if unit == "block":
        assert rows[1:] == [LENGTH] * (LENGTH - 1)


def test_a_run_of_one_step_has_nothing_to_keep_and_is_no_cache(engine):
    plain = decode(engine, PROMPT, Confidence(0.0), NoCache(), WHOLE)
    trace = decode(engine, PROMPT, Confidence(0.0), FreeCache(), WHOLE)
    assert len(trace.steps) == 1
    assert trace.steps[0].proposals == plain.steps[0].proposals
    assert trace.rows == plain.rows == END


def test_blocks_of_one_token_are_frozen_a_step_earlier_than_positions(engine):
    by_position = decode(engine, PROMPT, Greedy(), FreeCache(), blocks_of(1))
    by_block = decode(engine, PROMPT, Greedy(), FreeCache("block"), blocks_of(1))
    # a step reads from the position that the last one committed on, or from behind it
    assert [s.passes[0].rows for s in by_position.steps] == [END, *range(LENGTH, 1, -1)]
    assert [s.passes[0].rows for s in by_block.steps] == [END, *range(LENGTH - 1, 0, -1)]


# guided diffusion


@pytest.fixture(scope="module")
def tensors(small_tensors):
    return few_words(small_tensors)


@pytest.fixture(scope="module")
def told():
    return guide_tensors()


@pytest.fixture(scope="module")
def folders(small_config, tensors, told, tmp_path_factory):
    root = tmp_path_factory.mktemp("guided")
    model = write_checkpoint(root / "model", small_config)
    save_file(tensors, model / "model.safetensors")
    return model, write_guide(root / "guide", told)


@pytest.fixture(scope="module")
def guided_engine(folders):
    model, guide = folders
    return load_model(model, device="cpu", dtype="float64", guide=guide)


def keeps(strategy, draft, confidence, logits, draw):
    """The published test of one draft."""
    probabilities = logits.softmax(-1)
    share, top = float(probabilities[draft]), float(probabilities.max())
    rank = int((logits > logits[draft]).sum())
    is_high, is_near = rank < strategy.guide_top_k, share >= strategy.guide_threshold * top
    return {
        "deterministic": int(logits.argmax()) == draft,
        "topk": is_high,
        "dynamic_threshold": is_near,
        "topk_relative": is_high and is_near,
        "aggressive": is_high or is_near,
        "original": draw < min(1.0, share / confidence),
    }[strategy.guide_rule]


def flashdlm(small_config, tensors, told, strategy, window, seed=0):
    """Guided diffusion in full forwards: (accepted pairs, drafts read, chunks) of each step."""
    tokens, steps = PROMPT + [MASK] * LENGTH, []
    while MASK in tokens:
        logits = plain_logits(small_config, tensors, tokens)
        logits[:, MASK] = -math.inf
        sure, drafts = logits.softmax(-1).max(-1)
        first = tokens.index(MASK)
        last = min(END, first + window)
        text = tokens[:first] + drafts[first:last].tolist()
        says = guide_logits(told, text)
        accepted, is_rejected, chunks, read = [], False, 0, first
        while read < last and not is_rejected:
            end = min(last, read + strategy.verify_batch_size)
            chunks += 1
            for p in range(read, end):
                draw = Random(f"{seed} {len(steps) + 1} {p}").random()
                if not keeps(strategy, text[p], float(sure[p]), says[p - 1], draw):
                    is_rejected = True
                    break
                accepted.append((p, text[p]))
            read = end
        accepted = accepted or [(first, text[first])]
        for p, token in accepted:
            tokens[p] = token
        steps.append((accepted, read - first, chunks))
    return steps


@pytest.mark.parametrize(
    ("rule", "chunk"), [*((rule, 5) for rule in RULES), ("deterministic", 1), ("aggressive", 32)]
)
def test_guided_equals_its_description(guided_engine, small_config, tensors, told, rule, chunk):
    strategy = Guided(rule, chunk, guide_top_k=2, guide_threshold=0.3)
    config = replace(WHOLE, window_size=16, seed=3)
    expected = flashdlm(small_config, tensors, told, strategy, 16, seed=3)
    trace = decode(guided_engine, PROMPT, strategy, NoCache(), config)
    assert [list(step.accepted) for step in trace.steps] == [pairs for pairs, _, _ in expected]
    assert [len(step.guide_scores) for step in trace.steps] == [read for _, read, _ in expected]
    assert [len(step.guide_passes) for step in trace.steps] == [n for _, _, n in expected]
    assert trace.passes == len(expected)
    assert from_json(to_json(trace)) == trace
    # the test would say nothing if every step accepted one, or all
    sizes = Counter(len(pairs) for pairs, _, _ in expected)
    assert len(sizes) > 1


def test_scores_are_those_of_a_full_causal_forward(guided_engine, told):
    trace = decode(guided_engine, PROMPT, Guided(verify_batch_size=3), NoCache(), WHOLE)
    text = list(PROMPT)
    for step in trace.steps:
        drafts = {p.position: p.draft_token for p in step.proposals}
        last = step.guide_scores[-1].position
        ids = text + [drafts[p] for p in range(len(text), last + 1)]
        logits = guide_logits(told, ids)
        for said in step.guide_scores:
            row = logits[said.position - 1]
            share = row.softmax(-1)
            draft = ids[said.position]
            assert said.probability == pytest.approx(float(share[draft]), abs=1e-6)
            assert said.rank == int((row > row[draft]).sum())
            assert (said.token, said.top) == (
                int(row.argmax()), pytest.approx(float(share.max()), abs=1e-6),
            )  # fmt: skip
        text += [token for _, token in step.accepted]


def test_a_guide_that_always_agrees_takes_one_pass_of_the_model(guided_engine):
    """threshold 0 keeps every draft: one diffusion pass, and the guide reads in chunks of 5."""
    strategy = Guided("dynamic_threshold", 5, guide_threshold=0.0)
    trace = decode(guided_engine, PROMPT, strategy, NoCache(), WHOLE)
    plain = decode(guided_engine, PROMPT, Confidence(0.0), NoCache(), WHOLE)
    assert (len(trace.steps), trace.passes, trace.rows) == (1, 1, END)
    assert trace.token_ids == plain.token_ids
    assert trace.steps[0].stop is StopReason.EXHAUSTED
    # 24 drafts in chunks of 5. The first pass reads the prompt and 4 drafts; the next ones the
    # fifth draft, which the last pass did not need, and 4 more; the last chunk has 4 drafts
    assert [p.rows for p in trace.steps[0].guide_passes] == [START + 4, 5, 5, 5, 4]
    assert (trace.guide_passes, trace.guide_rows) == (5, START + LENGTH - 1)


def test_an_evaluation_says_the_guides_passes_by_item_and_in_all(guided_engine, tmp_path):
    settings = Settings(
        Guided("dynamic_threshold", 5, guide_threshold=0.0), NoCache(),
        replace(WHOLE, alternatives=0),
    )  # fmt: skip
    items = load_task("word", 2)
    summary = measure(guided_engine, Plan("word", items, settings, 2), tmp_path)
    # as above: one pass of the model and five of the guide each, which reads all but the last draft
    for item, line in zip(items, (tmp_path / "items.jsonl").read_text().splitlines(), strict=True):
        record = json.loads(line)
        rows = len(guided_engine.encode(item.prompt)) + LENGTH - 1
        assert (record["passes"], record["guide_passes"], record["guide_rows"]) == (1, 5, rows)
    details = json.loads((tmp_path / "details.json").read_text())
    assert summary["guide_passes"] == details["guide_passes"] == 10 and details["passes"] == 2
    # answers of two guides are not put together
    other = replace(guided_engine.guide.engine.info, fingerprint="another")
    guide = replace(guided_engine.guide, engine=replace(guided_engine.guide.engine, info=other))
    with pytest.raises(ValueError, match="another run .guide.fingerprint is .* there and .another"):
        measure(replace(guided_engine, find_guide=lambda: guide),
                Plan("word", items, settings, 2), tmp_path)  # fmt: skip
    assert "tokens/pass (without its guide's 10 passes)," in line_of(summary)


def test_a_guide_that_never_agrees_leaves_the_greedy_left_to_right_loop(guided_engine, folders):
    """Every first draft is rejected and committed: the model's own argmax, left to right."""
    silent = load_guide(guided_engine, folders[1], device="cpu", dtype="float64")
    engine = replace(guided_engine, find_guide=lambda: NeverGuide(silent))
    trace = decode(engine, PROMPT, Guided(), NoCache(), WHOLE)
    assert [len(step.accepted) for step in trace.steps] == [1] * LENGTH
    leftmost = replace(WHOLE, window_size=1)
    plain = decode(guided_engine, PROMPT, Greedy(), NoCache(), leftmost)
    assert [s.accepted for s in trace.steps] == [s.accepted for s in plain.steps]
    assert {p.verdict for s in trace.steps for p in s.proposals[:1]} == {Verdict.FORCED}


def test_the_guide_reads_only_what_its_cache_does_not_hold(guided_engine):
    trace = decode(guided_engine, PROMPT, Guided(), NoCache(), WHOLE)
    held = 0
    for step in trace.steps:
        first = step.window[0]
        (record,) = step.guide_passes
        # from the last committed position on, or from what was never read
        assert record.rows == END - 1 - min(held, first - 1)
        committed = len(step.accepted)
        # the drafts that were committed were read, except the text's very last one
        held = min(first + committed, END - 1)


def test_free_cache_and_guide_together(guided_engine, small_config, tensors, told):
    strategy = Guided("topk", 8, guide_top_k=3)
    trace = decode(guided_engine, PROMPT, strategy, FreeCache(), WHOLE)
    # a pass reads from the first position that the last step committed on
    starts = [0] + [step.window[0] for step in trace.steps[:-1]]
    assert [s.passes[0].rows for s in trace.steps] == [END - start for start in starts]
    assert from_json(to_json(trace)) == trace


@pytest.mark.parametrize("groups", [None, 2])
def test_a_batch_decodes_each_prompt_as_if_alone(guided_engine, groups):
    prompts = [PROMPT, [1, 2], [1, 300, 301, 302], PROMPT[:5]]
    strategy = Guided("topk", 4, guide_top_k=3)
    config = replace(WHOLE, gen_length=12)
    together = decode_batch(guided_engine, prompts, strategy, FreeCache(), config, 3, groups)
    for prompt, trace in zip(prompts, together, strict=True):
        alone = decode(guided_engine, prompt, strategy, FreeCache(), config)
        assert [s.accepted for s in trace.steps] == [s.accepted for s in alone.steps]
        assert [[p.rows for p in s.guide_passes] for s in trace.steps] == [
            [p.rows for p in s.guide_passes] for s in alone.steps
        ]


class NeverGuide:
    """A guide whose own token is never the draft."""

    def __init__(self, guide):
        self.guide, self.info, self.max_length = guide, guide.info, guide.max_length

    def open(self, request):
        return NeverSession(self.guide, self.guide.engine.open(request))


class NeverSession(ModelGuideSession):
    def ask(self, queries):
        answers = super().ask(queries)
        return lambda: [
            replace(answer, tokens=[(token + 1) % VOCAB for token in query.scored])
            for (_, query), answer in zip(queries, answers(), strict=True)
        ]


class AgreeingGuide:
    """Answers from a script: (token, top, share, rank) by position."""

    max_length = 256

    def __init__(self, says):
        self.says = says
        self.opened = self.closed = 0
        self.live = set()

    @property
    def info(self):
        return HashEngine().info

    def open(self, request):
        self.opened += 1
        return self

    def admit(self, length, seed):
        self.live.add(len(self.live))
        return len(self.live) - 1

    def release(self, handle):
        self.live.remove(handle)

    def close(self):
        self.closed += 1

    def ask(self, queries):
        def answers():
            return [
                Prediction(
                    [self.says[p][0] for p in query.targets],
                    [self.says[p][1] for p in query.targets],
                    [()] * len(query.targets),
                    ranked=[self.says[p][2:] for p in query.targets],
                )
                for _, query in queries
            ]

        return answers


def scripted(says, **config):
    """A hash engine with a scripted guide, and its trace of one prompt of 2 tokens."""
    guide = AgreeingGuide(says)
    engine = HashEngine(end_share=0, guide=guide)
    return engine, guide, DecodeConfig(gen_length=4, window_size=4, early_stop=False, **config)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [("topk", 1), ("dynamic_threshold", 2), ("topk_relative", 1), ("aggressive", 3)],
)
def test_rules_by_hand(rule, kept):
    """Drafts 2 … 5: near and high; near only; high only; neither."""
    says = {
        2: (9, 0.5, 0.06, 1), 3: (9, 0.5, 0.05, 5), 4: (9, 0.5, 0.04, 4), 5: (9, 0.5, 0.04, 5),
    }  # fmt: skip
    engine, _, config = scripted(says)
    trace = decode(engine, [1, 2], Guided(rule), NoCache(), config)
    step = trace.steps[0]
    assert len(step.accepted) == kept
    verdicts = [p.verdict for p in step.proposals]
    assert verdicts == [
        *[Verdict.VERIFIED] * kept, Verdict.MISMATCH, *[Verdict.AFTER_STOP] * (3 - kept),
    ]  # fmt: skip
    assert step.guide_scores[1] == GuideScore(3, 0.05, 5, 9, 0.5)


def test_the_guides_session_is_freed_with_the_loops(guided_engine):
    says = {p: (9, 0.5, 0.0, 99) for p in range(2, 6)}
    engine, guide, config = scripted(says)
    trace = decode(engine, [1, 2], Guided("topk"), NoCache(), config)
    assert len(trace.steps) == 4  # every first draft is rejected, and committed
    assert (guide.opened, guide.closed, guide.live) == (1, 1, set())


def test_acceptance_ends_with_an_end_token():
    """A step commits nothing behind an end token that the guide accepts, if the run stops there."""
    for seed in range(40):
        guide = AgreeingGuide({p: (9, 1.0, 1.0, 0) for p in range(99)})
        engine = HashEngine(seed, end_share=40, guide=guide)
        config = DecodeConfig(gen_length=8, window_size=8)
        trace = decode(engine, [1, 2], Guided("topk"), NoCache(), config)
        (step,) = trace.steps
        ends = [token in trace.model.eos_token_ids for _, token in step.accepted]
        assert not any(ends[:-1])
        whole = replace(config, early_stop=False)
        further = decode(engine, [1, 2], Guided("topk"), NoCache(), whole)
        assert further.answer == trace.answer


# what the guide reads


def test_agreeing_counts_from_the_first_token_on():
    assert [agreeing([1, 2, 3], t) for t in ([1, 2, 3, 4], [1, 9, 3], [], [1, 2])] == [3, 1, 0, 2]


def test_a_guides_rows_see_themselves_and_what_stands_before_them():
    from flash_dllm.canvas import Canvas

    canvas = Canvas.start([5, 6, 7], DecodeConfig(gen_length=4), (0,))
    hearing = Hearing()
    query = hearing.query(canvas, GuideAsk(((3, 8), (4, 9)), 2))
    assert (query.kind, query.tokens, query.positions) == ("full", [5, 6, 7, 8], [0, 1, 2, 3])
    assert (query.targets, query.scored) == ([3, 4], [8, 9])
    assert [visible_slots(query, row) for row in range(4)] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    # draft 8 was committed, 9 was not; 4 now stands in its place and is followed by 2
    after = canvas.commit([(3, 8)])
    query = hearing.query(after, GuideAsk(((4, 4), (5, 2)), 2))
    assert (query.kind, query.tokens, query.positions) == ("draft", [8, 4], [3, 4])
    # where another token than the draft was committed, the guide reads again from there
    other = Hearing((5, 6, 7, 8)).query(canvas.commit([(3, 1)]), GuideAsk(((4, 4), (5, 2)), 1))
    assert (other.tokens, other.positions, other.targets) == ([1, 4], [3, 4], [5])
    # the second chunk reads on where the first one ended
    query = hearing.query(after, GuideAsk(((4, 4), (5, 2), (6, 3)), 1))
    assert (query.tokens, query.positions, query.targets) == ([2], [5], [6])


def test_scores_of_plain_logits():
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.2, 0.1, 0.9]]))
    # the softmax over ids 0 … 3 but the mask 3: 5/9, 2/9, 2/9
    said = score(logits.repeat(3, 1), torch.tensor([0, 2, 3]), vocab_size=4, mask_token_id=3)
    assert said[:, 0].tolist() == [0, 0, 0]
    assert said[:, 1].tolist() == pytest.approx([5 / 9] * 3)
    assert said[:, 2].tolist() == [0, 1, 3]
    assert said[:, 3].tolist() == pytest.approx([5 / 9, 2 / 9, 0])
    # an id that the guide lacks
    said = score(logits[:, :3], torch.tensor([7]), vocab_size=9, mask_token_id=8)
    assert said[0, 2:].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Llama", {"tie_word_embeddings": True, "head_dim": 16}),
        ("Qwen2", {"tie_word_embeddings": False}),
        ("Qwen3", {"tie_word_embeddings": True, "head_dim": 32}),
    ],
)
def test_guide_families_equal_transformers_networks(engine, tmp_path, kind, more):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, intermediate_size=64, max_position_embeddings=64,
        rope_theta=10000.0, eos_token_id=[0, 4], bos_token_id=1, pad_token_id=0, **more,
    )  # fmt: skip
    network = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for name, parameter in network.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
        else:
            torch.nn.init.normal_(parameter, 0.0, 0.2)
    network.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / file).write_bytes((ROOT / "assets" / "tiny" / file).read_bytes())
    guide = load_guide(engine, tmp_path, device="cpu", dtype="float32")
    assert guide.info.attention == "causal"
    ids = [1, 300, 301, 302, 17, 900, 12, 11]
    from flash_dllm.canvas import Canvas

    canvas = Canvas.start(ids[:3], DecodeConfig(gen_length=5), (0,))
    session = guide.open(SessionRequest(1, 8))
    handle = session.admit(8, 0)
    hearing = Hearing()
    expected = network(torch.tensor([ids])).logits[0].detach()
    expected[:, MASK] = -math.inf
    shares = expected.softmax(-1)
    drafts = tuple(enumerate(ids))[3:]
    for end, scored in ((2, 2), (5, 3)):  # in two chunks, so that its cache is read
        query = hearing.query(canvas, GuideAsk(drafts[:end], scored))
        (answer,) = session.ask([(handle, query)])()
        for (position, draft), (share, rank) in zip(
            drafts[end - scored : end], answer.ranked, strict=True
        ):
            row = expected[position - 1]
            assert share == pytest.approx(float(shares[position - 1, draft]), abs=2e-6)
            assert rank == int((row > row[draft]).sum())
        tokens = [int(expected[p - 1].argmax()) for p, _ in drafts[end - scored : end]]
        assert answer.tokens == tokens
    session.close()


def test_a_guide_by_itself_is_its_argmax_and_its_perplexity(guided_engine, told):
    from training.evaluate_guide import decode_alone, losses

    guide = guided_engine.guide
    prompts, answers = [PROMPT, [1, 2, 300]], [[300, 301, 17], [303, 0]]
    expected = []
    for prompt, answer in zip(prompts, answers, strict=True):
        rows = guide_logits(told, prompt + answer, bans_mask=False).log_softmax(-1)
        places = range(len(prompt), len(prompt) + len(answer))
        expected += [-float(rows[p - 1, (prompt + answer)[p]]) for p in places]
    assert losses(guide, prompts, answers) == pytest.approx(expected)
    for prompt, answer in zip(prompts, decode_alone(guide, prompts, 2), strict=True):
        text = list(prompt)
        for token in answer[:9]:
            assert token == int(guide_logits(told, text)[-1].argmax())
            text.append(token)
        assert len(answer) == 128 or int(guide_logits(told, prompt + answer)[-1].argmax()) in (0, 4)


# guides that can't be had


def test_a_model_without_a_guide_says_so(engine):
    with pytest.raises(ValueError, match=r"strategy guided asks an autoregressive guide, and hash"):
        decode(HashEngine(), [1], Guided(), NoCache(), DecodeConfig(gen_length=4))


def test_a_missing_guide_is_named(folders):
    engine = load_model(folders[0], device="cpu", dtype="float64", guide="no/such/folder")
    with pytest.raises((FileNotFoundError, ConnectionError), match="the guide could not be loaded"):
        decode(engine, PROMPT, Guided(), NoCache(), WHOLE)


def test_a_diffusion_model_can_not_guide(folders):
    engine = load_model(folders[0], device="cpu", dtype="float64")
    with pytest.raises(ValueError, match=r"'llada' in .* can't be a guide; supported are llama"):
        load_guide(engine, folders[0], device="cpu", dtype="float64")


def test_a_guide_can_not_decode_alone(folders):
    with pytest.raises(ValueError, match=r"'llama' in .* \(a causal language model"):
        load_model(folders[1], device="cpu")


def test_a_guide_with_other_tokens_is_refused(folders, told, tmp_path):
    guide = write_guide(tmp_path / "other", told)
    tokenizer = json.loads((guide / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    one, two = [text for text, number in vocabulary.items() if number in (400, 401)]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (guide / "tokenizer.json").write_text(json.dumps(tokenizer))
    engine = load_model(folders[0], device="cpu", dtype="float64")
    with pytest.raises(ValueError, match="the guide other has other tokens than model"):
        load_guide(engine, guide, device="cpu", dtype="float64")


def test_a_guide_that_is_too_short_is_refused(folders, told, tmp_path):
    guide = write_guide(tmp_path / "short", told, max_position_embeddings=30)
    engine = load_model(folders[0], device="cpu", dtype="float64", guide=guide)
    with pytest.raises(ValueError, match=r"\(32\) exceed the 30 positions of the guide short"):
        decode(engine, PROMPT, Guided(), NoCache(), WHOLE)


# traces


def test_a_trace_with_other_scores_is_refused(guided_engine):
    trace = decode(guided_engine, PROMPT, Guided(), NoCache(), WHOLE)
    number, step = next((n, s) for n, s in enumerate(trace.steps) if len(s.accepted) > 1)

    def forged(**changes):
        steps = list(trace.steps)
        steps[number] = replace(step, **changes)
        return to_json(replace(trace, steps=tuple(steps)))

    first = step.guide_scores[0]
    lied = (replace(first, token=(first.token + 1) % VOCAB), *step.guide_scores[1:])
    with pytest.raises(TraceError, match=rf"steps\[{number}\].proposals\[0\].verdict"):
        from_json(forged(guide_scores=lied))
    with pytest.raises(TraceError, match="must hold the guide's score of position"):
        from_json(forged(guide_scores=step.guide_scores[1:]))
    more = replace(step.guide_passes[0], rows=step.guide_passes[0].rows + 1)
    with pytest.raises(TraceError, match=rf"steps\[{number}\].guide_passes\[0\]: must be"):
        from_json(forged(guide_passes=(more,)))
    with pytest.raises(TraceError, match="guide: must name the guide"):
        from_json(to_json(replace(trace, guide=None)))


def test_a_trace_without_a_guide_is_written_as_before(engine):
    trace = decode(engine, PROMPT, Greedy(), NoCache(), WHOLE)
    assert "guide" not in to_json(trace)
