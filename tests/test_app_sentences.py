"""The sentence of each step, in full."""

import json
import re
from dataclasses import replace

import pytest

from app import sentences
from app.theme import STATES
from app.token_text import label, layout_parts
from app.words import LANGUAGES, player_words, words
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
    trace = replace(toy(), strategy={"name": "other"})
    texts = [sentences.step_sentence(trace, s) for s in trace.steps]
    texts += [sentences.token_sentence(trace, p) for s in trace.steps for p in s.proposals]
    assert not any("ε" in text for text in texts)
    sure = Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0)
    text = sentences.step_sentence(trace, step(sure, stop=StopReason.NO_SEARCH))
    assert text == "The strategy's own rule wrote one draft of this window at once: “B” (0.95)."


def first_sentence(*proposals: Proposal, language: str = "en", **strategy) -> str:
    trace = replace(toy(), strategy=strategy)
    record = step(*proposals, stop=StopReason.NO_SEARCH)
    return sentences.step_sentence(trace, record, language=language)


FORCED = (Proposal(1, 1, 0.42, Verdict.FORCED, 0), Proposal(2, 0, 0.41, Verdict.FORCED, 0))
SURE = (Proposal(1, 1, 0.95, Verdict.CONFIDENT, 0), Proposal(2, 0, 0.91, Verdict.CONFIDENT, 0))


def test_llada_tells_of_its_schedule_and_never_of_a_forced_token():
    """Several tokens of one step are FORCED there, because the schedule wants them."""
    assert first_sentence(*FORCED, name="llada", remasking="low_confidence") == (
        "The schedule asked for 2 tokens in this step; the surest drafts were written: “B”, “A”."
    )
    assert first_sentence(FORCED[0], name="llada", remasking="random") == (
        "The schedule asked for one token in this step, drawn at random: “B” (0.42)."
    )
    trace = replace(toy(), strategy={"name": "llada"})
    assert sentences.token_sentence(trace, FORCED[0]) == (
        "Written because the schedule asked for it."
    )


def test_the_factor_rule_and_prophet_are_told_by_their_own_rules():
    assert first_sentence(*SURE, name="factor", factor=1.5).startswith(
        "2 drafts passed the factor rule"
    )
    assert first_sentence(FORCED[0], name="factor", factor=1.0) == (
        "No draft passed the factor rule (f = 1), so the surest one, “B” (0.42), was written "
        "anyway."
    )
    assert "all 2 blanks were written at once" in first_sentence(*SURE, name="prophet")
    assert "only the surest draft, “B” (0.42)" in first_sentence(FORCED[0], name="prophet")


def test_the_toy_example_in_korean_and_chinese():
    trace = toy()
    assert sentences.step_sentence(trace, trace.steps[1], language="ko") == (
        "ε = 0.90에 닿은 초안이 없어, 가장 확신하는 “B” (0.60) 토큰을 그래도 썼습니다. "
        "검증은 더 받아들이지 않고 멈췄습니다. 초안은 “A”, 마스크 시점은 “B”(0.70)라고 합니다."
    )
    assert sentences.step_sentence(trace, trace.steps[1], language="zh") == (
        "没有草稿达到 ε = 0.90，所以仍写下最有把握的 “B” (0.60)。"
        "验证没有再接受草稿就停下：草稿是 “A”，掩码视图说 “B”（0.70）。"
    )
    assert [sentences.summary(trace, language) for language in LANGUAGES] == [
        "4 tokens in 3 steps, 5 passes",
        "토큰 4개, 3스텝, 순전파 5번",
        "4 个词元，3 步，5 次前向",
    ]


def leaves(value, path=""):
    """path → text of a tree of texts."""
    if isinstance(value, str):
        return {path: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for name, part in parts for k, v in leaves(part, f"{path}/{name}").items()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_template_with_the_same_blanks(language):
    english, here = leaves(words("en")), leaves(words(language))
    assert list(here) == list(english)
    for path, text in here.items():
        assert text.strip(), path
        blanks = set(re.findall(r"{\w+}", text))
        # a form for one may name the token instead of the number
        assert blanks == set(re.findall(r"{\w+}", english[path])), path
        if language != "en" and len(english[path]) > 12 and english[path] != "{token}":
            assert text != english[path], path


def test_the_words_of_the_states_are_those_of_the_palette():
    told = words("en")["states"]
    assert {state.key: [state.label, state.help] for state in STATES} == {
        key: told[key] for key in told if key not in ("stops", "tracked")
    }
    assert set(json.loads(player_words())) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_step_of_a_richer_run_is_told_without_a_blank_left_open(language):
    trace = rich()
    for record in trace.steps:
        texts = [
            sentences.step_sentence(trace, record, language=language),
            sentences.stop_label(trace, record, language=language),
            *(sentences.token_sentence(trace, p, language=language) for p in record.proposals),
        ]
        assert texts[0] and all(texts[2:])
        assert not any("{" in text or "None" in text for text in texts)


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
