"""Runs side by side: clocks, costs and partings worked out by hand on the toy example."""

import json
from dataclasses import replace

import pytest

from app import compare, rival
from app.compare_view import compare_board, cost_rows
from app.jobs import RAW
from app.presets import EMBEDDED, TOY, variants
from app.real_run import prepare
from app.runs import Runs
from app.store import RunError
from app.words import Says
from flash_dllm.trace import DecodeTrace
from tests.app_traces import SlowEngine, hostile, rich, toy

ENGLISH = Says("compare", "en")


@pytest.fixture(scope="module")
def strict():
    """The toy example at γ = 0.9: the check of 0.85 is refused in step 1."""
    runs = Runs()
    return runs.decode(prepare(runs, toy(), 0.9, 0.9))


def test_clocks_count_steps_passes_and_rows():
    """Rows: 5 + (1 + 2), then (1 + 2) + (1 + 1 + 2), then 1 + 1."""
    assert compare.clock(toy(), "steps") == [1, 2, 3]
    assert compare.clock(toy(), "passes") == [2, 4, 5]
    assert compare.clock(toy(), "rows") == [8, 15, 17]
    assert compare.clock(toy(), "seconds")[-1] == pytest.approx(toy().seconds)


def test_an_unknown_clock_is_refused():
    with pytest.raises(ValueError, match="the clock must be one of steps, passes, rows, seconds"):
        compare.clock(toy(), "hours")


def test_a_position_is_written_when_its_step_ends():
    assert compare.written_at(toy(), "passes") == [2, 2, 4, 5]


def test_a_position_that_was_never_written_has_no_time():
    stopped = toy().with_steps(toy().steps[:1], "stopped", {})
    assert compare.written_at(stopped, "steps") == [1, 1, -1, -1]


def test_the_cost_of_the_toy_example():
    cost = compare.cost(toy())
    assert (cost.tokens, cost.steps, cost.passes, cost.rows) == (4, 3, 5, 17)
    assert cost.row_layers == 17 * toy().model.n_layers
    assert cost.tokens_per_pass == 0.8 and cost.verified == 1


def test_a_run_compared_with_itself_never_parts():
    found = compare.parting(toy(), toy(), ENGLISH)
    assert (found.step, found.position, found.settings) == (None, None, ())
    assert found.words == "All steps write the same tokens."


def test_two_runs_part_where_gamma_refuses(strict):
    found = compare.parting(toy(), strict, ENGLISH)
    assert found.step == 1
    assert found.settings == (("gamma", "0.8", "0.9"),)
    assert found.words.startswith(
        "The drafts there are the same; what differs is what was decided about them. "
        "In step 1 A writes “A”, “A”:"
    )
    assert "In step 1 B writes “A”:" in found.words and "below γ = 0.90" in found.words


def test_drafts_that_differ_already_are_named():
    """In step 2 the other run drafts, and is forced to write, A in place of B at position 2."""
    step = toy().steps[1]
    written = toy().steps[0].proposals[0].draft_token  # A
    forced = replace(step.proposals[0], draft_token=written)
    changed = replace(step, proposals=(forced, *step.proposals[1:]))
    other = replace(toy(), steps=(toy().steps[0], changed))
    assert compare.parting(toy(), other, ENGLISH).words.startswith(
        "Up to step 1 they write the same. There 1 of 2 drafts differ already, first at position "
        "2 (“B” and “A”): the model answered otherwise, before anything was decided. In step 2"
    )


def test_an_audit_is_no_difference(strict):
    audited = replace(toy(), strategy=toy().strategy | {"audit": True})
    assert compare.different_settings(toy(), audited) == ()


def test_tokens_differ_by_text_and_everything_behind_the_end_is_end():
    stopped = toy().with_steps(toy().steps[:1], "stopped", {})
    assert compare.differences(toy(), stopped) == [False, False, True, True]
    assert compare.differences(toy(), toy()) == [False] * 4
    longer = replace(toy(), config=toy().config | {"gen_length": 6})
    assert compare.differences(toy(), longer) == [False] * 6  # both have nothing at the end
    assert compare.differences(longer, toy()) == [False] * 4


def test_different_prompts_compare_by_cost_only():
    assert "different prompts" in compare.parting(toy(), rich(), ENGLISH).words
    assert compare.differences(toy(), rich()) == [False] * 48
    assert [row[-1] for row in cost_rows([toy(), rich()], ["A", "B"])] == ["100%", "–"]


def recut(trace: DecodeTrace, texts: dict[int, str], name: str = "other") -> DecodeTrace:
    """The same ids as another model's words; the prompt was typed alike."""
    model = replace(trace.model, name=name, fingerprint=name)
    return replace(trace, model=model, token_texts=trace.token_texts | texts)


def test_tokens_are_the_same_while_no_id_has_two_texts_and_no_text_two_ids():
    texts = toy().token_texts
    a = next(token for token, text in texts.items() if text == "A")
    assert compare.same_tokens(toy(), recut(toy(), {}))
    assert compare.same_tokens(toy(), recut(toy(), {40: "C"}))
    assert not compare.same_tokens(toy(), recut(toy(), {a: "An"}))
    assert not compare.same_tokens(toy(), recut(toy(), {40: "A", a: "An"}))
    moved = replace(recut(toy(), {}), token_texts={40: "A"})
    assert not compare.same_tokens(toy(), moved)


def test_two_models_answer_the_same_prompt_if_the_same_was_typed():
    other = replace(recut(toy(), {}), prompt_token_ids=(0, *toy().prompt_token_ids))
    assert compare.same_prompt(toy(), other)  # a longer template
    assert not compare.same_prompt(toy(), replace(other, prompt="^^"))
    assert not compare.same_prompt(toy(), replace(toy(), prompt_token_ids=(0, 0)))
    typed = replace(toy(), prompt=" ")
    assert not compare.same_prompt(typed, replace(other, prompt=" "))


def test_a_longer_template_does_not_move_the_answers_apart():
    """The other model's prompt has one token more: its positions stand one to the right."""
    steps = tuple(
        replace(
            step,
            proposals=tuple(replace(p, position=p.position + 1) for p in step.proposals),
        )
        for step in toy().steps
    )
    other = replace(recut(toy(), {}), prompt_token_ids=(0, *toy().prompt_token_ids), steps=steps)
    assert compare.first_difference(toy(), other) is None
    assert compare.differences(toy(), other) == [False] * 4


def test_other_tokenizers_are_compared_by_words_that_both_answers_share():
    """A A B B as “red red blue blue” and as “red” + “ red” + “ green” + “ green”."""
    a, b = (next(t for t, x in toy().token_texts.items() if x == text) for text in "AB")
    first = recut(toy(), {a: "red ", b: "blue "}, "one")
    other = recut(toy(), {a: "red ", b: "green "}, "two")
    assert compare.differences(first, other) == [False, False, True, True]
    # 4 words, 4 spaces each; both “red ” are shared, and the space behind one more word or two
    assert compare.alike(first, other) == pytest.approx(2 * 6 / 16)
    found = compare.parting(first, other, ENGLISH)
    assert (found.step, found.position) == (None, 2)
    assert found.words == (
        "one and two cut text into different tokens, so their steps can't be laid side by side; "
        "their words can. “green” is the first that A's answer does not have there."
    )
    blocks = json.loads(compare_board([first, other], "k"))["blocks"]
    strip = next(block for block in blocks if block["id"] == "strip")
    assert strip["layout"]["yaxis"]["ticktext"] == ["A–B (other tokens)"]
    assert "B: the model cuts text into other tokens than A's" in strip["note"]
    assert strip["marks"][1]["x"] == [2, 3]


def test_answers_cut_otherwise_but_alike_in_words_do_not_differ():
    a, b = (next(t for t, x in toy().token_texts.items() if x == text) for text in "AB")
    first = recut(toy(), {a: "abab", b: ""}, "one")
    other = recut(toy(), {a: "ab", b: "ab"}, "two")
    assert not compare.same_tokens(first, other)
    assert compare.differences(first, other) == [False] * 4
    assert compare.alike(first, other) == 1
    found = compare.parting(first, other, ENGLISH)
    assert found.position is None and found.words.endswith("no word that A lacks.")


class Named(SlowEngine):
    """A hash model with a name of its own."""

    @property
    def info(self):
        name = f"model {self.seed}"
        return replace(super().info, name=name, fingerprint=name)


@pytest.fixture
def two_models():
    """A page with two models, one of them block-causal."""
    runs = Runs()
    runs._engines[EMBEDDED] = Named(seed=2, end_share=0, pause=0)
    runs.models._choices["blocks"] = {}
    runs._engines["blocks"] = Named(seed=3, end_share=0, pause=0, causal_block=4)
    return runs


def run_of(runs: Runs, **values) -> DecodeTrace:
    short = {"gen_length": 12, "window_size": 4, "block_length": None}
    job = runs.prepare("a question", EMBEDDED, {**runs.defaults(EMBEDDED), **short, **values})
    return runs.decode(job)


def test_run_as_prompt_is_decoded_by_another_model_with_the_recorded_settings(two_models):
    trace = run_of(two_models, gamma=0.6)
    real = two_models.decode(rival.prepare(two_models, trace, "blocks", cache="block"))
    assert real.model.name == "model 3" and real.prompt == "a question"
    assert real.strategy == trace.strategy and real.config == trace.config
    assert real.cache["name"] == "block"
    assert compare.different_settings(trace, real)[0] == ("model", "model 2", "model 3")


def test_another_strategy_keeps_the_model_and_a_raw_prompt_stays_raw(two_models):
    trace = run_of(two_models, raw=False)
    job = rival.prepare(two_models, replace(trace, prompt_format=RAW), EMBEDDED, "greedy")
    assert job.raw and job.prompt_format == RAW
    assert not rival.prepare(two_models, trace, EMBEDDED, "greedy").raw
    real = two_models.decode(rival.prepare(two_models, trace, EMBEDDED, "greedy"))
    assert real.strategy["name"] == "greedy" and len(real.steps) == 12


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("nobody",), "The model must be one of"),
        (("blocks",), "Cache flash does not fit blocks, whose attention is block-causal; choose"),
        ((EMBEDDED, "best"), "The strategy must be one of"),
        ((TOY,), f"{TOY} answers its own prompt only"),
    ],
)
def test_a_run_that_can_not_be_laid_beside_is_refused_in_a_sentence(two_models, asked, reason):
    with pytest.raises(RunError, match=reason):
        rival.prepare(two_models, run_of(two_models), *asked)


def test_the_board_has_a_lane_for_each_run_on_one_clock(strict):
    message = compare_board([toy(), strict], "k", "passes")
    blocks = {block["id"]: block for block in json.loads(message)["blocks"]}
    lanes = blocks["lanes"]
    assert lanes["most"] == max(5, compare.clock(strict, "passes")[-1])
    assert [lane["at"] for lane in lanes["lanes"]][0] == [2, 2, 4, 5]
    assert lanes["lanes"][0]["states"] == [2, 3, 6, 2]
    assert lanes["lanes"][1]["label"] == "B: gamma 0.9"
    assert blocks["costs"]["rows"][0][:4] == ["A", "4", "3", "5"]
    assert blocks["progress"]["marks"][0]["y"] == [0, 2, 3, 4]


def test_the_strip_marks_differences_twice():
    stopped = toy().with_steps(toy().steps[:1], "stopped", {})
    message = compare_board([toy(), stopped], "k")
    strip = next(b for b in json.loads(message)["blocks"] if b["id"] == "strip")
    assert strip["marks"][0]["z"] == [[0, 0, 1, 1]]
    assert strip["marks"][1]["x"] == [2, 3]
    assert strip["layout"]["yaxis"]["ticktext"] == ["A–B (2 differences)"]


@pytest.mark.parametrize("count", [1, 5])
def test_two_to_four_runs_are_compared(count):
    with pytest.raises(ValueError, match=f"two to four runs to compare, got {count}"):
        compare_board([toy()] * count, "k")


def test_texts_are_inert_in_the_board():
    message = compare_board([hostile(), rich()], "k")
    assert "<" not in message
    for block in json.loads(message)["blocks"]:
        if block["kind"] == "chart":
            chart = json.dumps([block["marks"], block["layout"]])
            assert "<img" not in chart and "<b>bold" not in chart


def test_the_cost_rows_say_how_much_is_the_same():
    stopped = toy().with_steps(toy().steps[:1], "stopped", {})
    assert [row[-1] for row in cost_rows([toy(), stopped], ["A", "B"])] == ["100%", "50%"]


def test_variants_answer_the_first_examples_prompt_and_are_recorded():
    assert len({v.prompt for v in variants()}) == 1
    assert all(v.trace_path is not None for v in variants())
