"""The sentence of each step, in full."""

from dataclasses import replace

from app import sentences
from app.token_text import label, layout_parts
from flash_dllm.strategies import Greedy
from flash_dllm.trace import Proposal, StepTrace, StopReason, Verdict
from tests.app_traces import rich, toy


def step(*proposals: Proposal, stop: StopReason) -> StepTrace:
    return StepTrace(1, tuple(p.position for p in proposals), proposals, stop)


def test_the_toy_example_reads_as_a_story():
    trace = toy()
    assert [sentences.step_sentence(trace, s) for s in trace.steps] == [
        "“A” (0.92) was sure enough to write at once (c ≥ ε = 0.90). "
        "The check also kept “A”: every draft it was asked about held.",
        "No draft reached ε = 0.90, so the surest one, “B” (0.60), was written anyway. "
        "The check kept no further draft and stopped: “A” was drafted, but the mask view says "
        "“B” (0.70).",
        "“B” (0.95) was sure enough to write at once (c ≥ ε = 0.90).",
    ]


def test_the_boundary_names_its_reason():
    trace = toy()
    assert [sentences.stop_label(trace, s) for s in trace.steps] == [
        "all checked drafts kept",
        "stops here: the mask view says “B”, the draft said “A”",
        "",
    ]


def test_a_token_below_gamma_is_named_with_its_confidence():
    failed = Proposal(2, 0, 0.7, Verdict.UNSURE, 1, 0, 0.61)
    kept = Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0)
    text = sentences.step_sentence(toy(), step(kept, failed, stop=StopReason.BELOW_GAMMA))
    assert text.endswith(
        "The check kept no further draft and stopped at “A”: both views agree, but at 0.61, "
        "below γ = 0.80."
    )


def test_joint_acceptance_speaks_of_the_product():
    trace = replace(toy(), strategy={**toy().strategy, "acceptance": "joint"})
    proposals = (
        Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0),
        Proposal(2, 0, 0.8, Verdict.VERIFIED, 1, 0, 0.9),
        Proposal(3, 0, 0.7, Verdict.UNSURE, 2, 0, 0.8),
    )
    text = sentences.step_sentence(trace, step(*proposals, stop=StopReason.BELOW_GAMMA))
    assert "the product of all c̃ so far is 0.72, below γ = 0.80" in text


def test_a_corrected_token_is_told_with_both_texts():
    proposals = (
        Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0),
        Proposal(2, 0, 0.7, Verdict.CORRECTED, 1, 1, 0.9),
    )
    text = sentences.step_sentence(toy(), step(*proposals, stop=StopReason.MISMATCH))
    assert text.endswith(
        "The check kept no further draft, then wrote “B” in place of the draft “A”."
    )


def test_greedy_says_that_it_writes_one_token():
    trace = replace(toy(), strategy={"name": Greedy.name})
    forced = Proposal(1, 1, 0.42, Verdict.FORCED, 0)
    text = sentences.step_sentence(trace, step(forced, stop=StopReason.NO_SEARCH))
    assert text == "Greedy writes one token a step: “B” (0.42), the surest of the window."


def test_end_tokens_have_one_short_name():
    assert sentences.texts_of(toy())(4) == "⟨end⟩"


def test_every_step_of_a_richer_run_gets_a_sentence_and_every_token_a_reason():
    trace = rich()
    for record in trace.steps:
        assert sentences.step_sentence(trace, record).endswith(".")
        assert all(sentences.token_sentence(trace, p).endswith(".") for p in record.proposals)


def test_the_status_line_counts_in_words():
    assert sentences.status_sentence(14, 83, 31, 4.13) == "step 14, 83 masks left, 31 passes, 4.1 s"
    assert sentences.status_sentence(1, 1, 1, 0) == "step 1, 1 mask left, 1 pass, 0.0 s"


def test_token_labels_make_the_invisible_visible():
    assert [label(t) for t in (" the", "\n", "   ", "\udce9", "\x00", "a\tb")] == [
        "the",
        "⏎",
        "␣␣␣",
        "‹e9›",
        "‹00›",
        "a⇥b",
    ]


def test_layout_parts_join_to_the_room_of_the_text():
    assert layout_parts("    return x") == ("    ", "return x", "")
    assert layout_parts(":\n        ") == ("", ":", "\n        ")
    assert layout_parts("\n\n") == ("", "⏎", "\n\n")


def test_a_strategy_without_epsilon_is_not_told_as_if_it_had_one():
    trace = replace(toy(), strategy={"name": "factor", "factor": 1.0})
    texts = [sentences.step_sentence(trace, s) for s in trace.steps]
    texts += [sentences.token_sentence(trace, p) for s in trace.steps for p in s.proposals]
    assert not any("ε" in text for text in texts)
    sure = Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0)
    text = sentences.step_sentence(trace, step(sure, stop=StopReason.NO_SEARCH))
    assert text == "The strategy wrote 1 draft of this window at once."


def test_a_guided_step_speaks_of_the_guide():
    trace = replace(toy(), guide=toy().model)
    kept = Proposal(1, 1, 0.95, Verdict.VERIFIED, 1, 1, 0.9)
    failed = Proposal(2, 0, 0.7, Verdict.MISMATCH, 2, 1, 0.61)
    record = step(kept, failed, stop=StopReason.MISMATCH)
    assert sentences.step_sentence(trace, record) == (
        "The guide kept one draft and stopped at “A”, where it would rather write “B”."
    )
    assert sentences.stop_label(trace, record) == "stops here: the guide says “B”"
    assert sentences.token_sentence(trace, kept) == "Kept by the guide."
    forced = replace(failed, verdict=Verdict.FORCED)
    assert sentences.step_sentence(trace, step(forced, stop=StopReason.MISMATCH)) == (
        "The guide rejected the very first draft, “A”, where it would rather write “B”; it was "
        "written all the same, so that the step moves on."
    )
    everything = step(kept, replace(kept, position=2), stop=StopReason.EXHAUSTED)
    assert sentences.step_sentence(trace, everything) == (
        "The guide kept 2 drafts: it rejected none that it read."
    )
    assert sentences.summary(trace).endswith(" and 0 of the guide")
