"""Texts around the player: complete in each language, and the English ones are the code's own."""

import json
import re
from dataclasses import replace

import gradio as gr
import pytest

from app.compare_view import compare_board
from app.controls import MAIN, controls
from app.lab_tables import in_words
from app.lab_view import lab_board
from app.tabs.labels import knob_words, update
from app.words import LANGUAGES, Says, page_words
from flash_dllm.rejudge import rejudge
from tests.app_traces import rich, toy

FIELD = re.compile(r"\{(\w+)\}")


def leaves(part, path=()):
    """(path, text) of every text inside."""
    if isinstance(part, str):
        yield path, part
        return
    pairs = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in pairs:
        yield from leaves(value, (*path, key))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_text_is_there_with_the_same_fields(language):
    english, other = page_words("en"), page_words(language)
    for part in ("lab", "compare", "sweep", "traces", "intro", "parts"):
        theirs = dict(leaves(other[part]))
        for path, text in leaves(english[part]):
            # a form for one may spell the number out
            missing = set(FIELD.findall(text)) - set(FIELD.findall(theirs[path])) - {"count"}
            assert not missing, (part, path)
        assert theirs.keys() == dict(leaves(english[part])).keys()
    assert other["knobs"].keys() == controls().keys()
    assert all(len(texts) == 2 and all(texts) for texts in other["knobs"].values())


def test_no_text_of_another_language_is_english():
    hangul, han = re.compile("[가-힣]"), re.compile("[一-鿿]")
    for language, script in (("ko", hangul), ("zh", han)):
        parts = ("lab", "compare", "sweep", "traces", "intro")
        for path, text in leaves({k: page_words(language)[k] for k in parts}):
            plain = FIELD.sub("", text)
            is_sign = not re.search("[A-Za-z]{3}", plain)
            assert script.search(plain) or is_sign, (language, path, text)


@pytest.mark.parametrize("trace", [toy(), rich()], ids=["toy", "rich"])
@pytest.mark.parametrize("share", [k / 20 for k in range(21)])
def test_the_labs_english_words_for_a_what_if_are_the_librarys(trace, share):
    say = Says("lab", "en")
    unaudited = replace(trace, strategy=trace.strategy | {"audit": False})
    for one in (trace, unaudited):
        for again in (rejudge(one, gamma=share), rejudge(one, epsilon=share)):
            assert in_words(say, one, again) == (again.badge, again.explanation)


def test_a_threshold_that_a_strategy_lacks_is_told():
    greedy = replace(toy(), strategy={"name": "greedy"}, steps=())
    again = rejudge(greedy, gamma=0.5)
    found = in_words(Says("lab", "en"), greedy, again)
    assert found == (again.badge, again.explanation)
    assert found[1] == "γ means nothing to the strategy greedy."


@pytest.mark.parametrize(("language", "script"), [("ko", "[가-힣]"), ("zh", "[一-鿿]")])
def test_boards_speak_the_language_and_draw_the_same(language, script):
    for make in (
        lambda name: lab_board(rich(), "x", 3, None, 0.7, 4, language=name),
        lambda name: compare_board([toy(), rich()], "k", language=name),
    ):
        english, other = (json.loads(make(name))["blocks"] for name in ("en", language))
        assert [block["id"] for block in english] == [block["id"] for block in other]
        for one, two in zip(english, other, strict=True):
            for key in ("title", "note"):
                if one.get(key):
                    assert re.search(script, two[key]), (one["id"], key)
            if one["kind"] == "table":
                assert len(one["columns"]) == len(two["columns"])
            if one["kind"] == "matrix":
                cells = [[row["cells"] for row in block["rows"]] for block in (one, two)]
                assert cells[0] == cells[1]


def test_controls_get_their_words_where_each_keeps_them():
    assert update(gr.Button("Run"), "실행")["value"] == "실행"
    assert update(gr.DownloadButton("Save"), "저장")["label"] == "저장"
    assert update(gr.Textbox(), {"label": "a", "info": "b"})["info"] == "b"
    for name, control in controls().items():
        words = knob_words(name, "en")
        assert words["label"] == control.label
        assert words.get("info", control.help) == control.help
        assert ("info" in words) == (name not in MAIN)
    assert knob_words("window_size", "ko") == {"label": "βₘ · 창 크기"}
