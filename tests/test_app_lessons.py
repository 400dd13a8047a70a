"""Lessons: complete in three languages, and every challenge can be met and missed."""

import json

import pytest

from app import lessons, presets
from app.lesson_view import Progress, glossary_board, lesson_board
from app.lessons import LANGUAGES, LESSONS
from flash_dllm.trace_json import load
from tests.app_traces import rich, toy


def trace_of(lesson):
    return load(presets.TRACES / f"{lesson.example}.json")


def shape(value):
    """Keys, lengths and kinds of a tree of texts."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return [shape(part) for part in value] if isinstance(value, list) else "text"


def texts(value):
    """All texts of such a tree."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [text for part in parts for text in texts(part)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_text(language):
    words = lessons.words(language)
    assert shape(words) == shape(lessons.words("en"))
    assert list(words["lessons"]) == [lesson.key for lesson in LESSONS]
    for lesson in LESSONS:
        assert 0 <= lesson.right < len(words["lessons"][lesson.key]["options"])
    assert all(text.strip() for text in texts(words))
    assert "{step}" in words["ui"]["at"]


def test_the_languages_differ_in_every_sentence():
    """No sentence was left in English."""
    english = {t for key in lessons.words("en")["lessons"].values() for t in key["text"]}
    for language in ("ko", "zh"):
        texts = {t for key in lessons.words(language)["lessons"].values() for t in key["text"]}
        assert not english & texts and len(texts) == len(english)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.key)
def test_a_challenge_is_open_where_the_lesson_leaves_and_can_be_met(lesson):
    trace = trace_of(lesson)
    if lesson.key == "gamma":
        # the check says 0.85: at it the draft is kept, above it it is not
        assert not lesson.check(trace, 1, None) and not lesson.check(trace, 1, 0.85)
        assert lesson.check(trace, 1, 0.86)
        return
    after = lessons.at_step(trace, lesson.after)
    assert not lesson.check(trace, after, None)
    assert any(lesson.check(trace, step.index, None) for step in trace.steps)


def met(key, trace):
    return [s.index for s in trace.steps if lessons.lesson(key).check(trace, s.index, None)]


def test_challenges_by_hand_on_the_toy_example():
    assert met("views", toy()) == [2]  # A was drafted, the mask view says B
    assert met("epsilon", toy()) == [2]  # c = 0.60 was forced
    assert met("limits", toy()) == [2]  # two passes, one token
    assert met("tables", toy()) == [1]  # 2 of 4 tokens
    assert met("clash", toy()) == [3]  # position 4: drafted A, then B
    assert met("cost", toy()) == [] and met("stop", toy()) == []


def test_a_lesson_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is no lesson named 'x'"):
        lessons.lesson("x")
    with pytest.raises(ValueError, match="the language must be one of en, ko, zh, got 'fr'"):
        lessons.words("fr")


def blocks(message):
    return {block["id"]: block for block in json.loads(message)["blocks"]}


def test_the_answer_shows_only_after_a_prediction_and_the_first_one_counts():
    start = Progress(language="en")
    shown = blocks(lesson_board(start, 1))
    assert "explain" not in shown and not shown["question"]["locked"]
    wrong = start.answered(0)
    shown = blocks(lesson_board(wrong, 1))
    assert shown["explain"]["text"][0].startswith("Not quite. Each step writes")
    assert [o["state"] for o in shown["question"]["options"]] == ["wrong", "", "right"]
    assert wrong.answered(2) == wrong
    assert start.answered(7) == start


def test_a_challenge_is_checked_from_the_trace_and_remembered():
    lesson = lessons.lesson("views")
    trace = trace_of(lesson)
    progress = Progress("views", "ko").answered(2)
    missed = progress.checked(trace, 1, None)
    assert missed.said == "not_yet" and not missed.solved
    done = missed.checked(trace, 2, None)
    assert done.solved == {"views"}
    shown = blocks(lesson_board(done, 2))
    assert shown["result"]["text"][0].startswith("✓ 맞습니다.")
    assert shown["lessons"]["options"][3]["mark"] == "✓"
    assert shown["lessons"]["title"] == "도전 10개 중 1개 해결"
    assert done.at("stop").said == "" and done.at("stop").solved == {"views"}


def test_the_last_lesson_leads_to_the_first():
    assert Progress(lesson=LESSONS[-1].key).next == LESSONS[0].key


def test_a_step_outside_the_trace_is_drawn_inside():
    assert Progress("views", "en").checked(toy(), 99, None).said == "not_yet"
    assert lessons.at_step(rich(), -1) == len(rich().steps)


def test_the_glossary_has_all_terms_in_each_language():
    sizes = {len(blocks(glossary_board(name))["glossary"]["rows"]) for name in LANGUAGES}
    assert sizes == {13}
