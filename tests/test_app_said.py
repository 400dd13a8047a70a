"""The page's own lines and errors: complete in each language, and each reader gets one."""

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import pytest

from app.controls import controls
from app.player import packed
from app.runs import Runs
from app.said import Said, counted, either, listed, said, together
from app.store import RunError
from app.sweep_choice import View
from app.sweep_form import QUALITIES
from app.sweep_view import sweep_board
from app.sweeps import Sweeps
from app.tabs.labels import CHOICES
from app.traces_view import traces_board
from app.what_if import what_if
from app.words import FOLDER, LANGUAGES
from tests.app_traces import rich, toy

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(r"\{(\w+)\}")
SCRIPTS = {"ko": re.compile("[가-힣]"), "zh": re.compile("[一-鿿]")}
# only signs around what is filled in
SIGNS = {"whatif", "not_saved", "waited", "stage", "and_then", "variant", "time_seconds"}


def told(language: str) -> dict:
    return json.loads((FOLDER / f"told-{language}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_line_is_there_in_its_own_script_with_the_same_fields(language):
    english, other = told("en"), told(language)
    assert list(other["lines"]) == list(english["lines"])
    assert list(other["counts"]) == list(english["counts"])
    for key, text in english["lines"].items():
        assert set(FIELD.findall(other["lines"][key])) == set(FIELD.findall(text)), key
        assert key in SIGNS or SCRIPTS[language].search(other["lines"][key]), key
    for key, forms in other["counts"].items():
        assert len(forms) == 2 and all(SCRIPTS[language].search(form) for form in forms), key


def called(name: str) -> set[str]:
    """The first arguments of all calls of a function in `app`, as far as they are written out."""
    found = set()
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                found |= {
                    part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)
                }
    return found


def test_every_line_that_is_said_is_known_and_every_known_one_is_said():
    lines = set(told("en")["lines"])
    made = {
        *(f"example_{kind}" for kind in ("word", "algebra", "code", "story")),
        *(f"variant_{key}" for key in ("confidence", "careless", "no-cache", "greedy", "paper")),
        *(f"quality_{key}" for key in QUALITIES), "bidirectional", "block-causal",
    }  # fmt: skip
    written = {key for key in called("said") if isinstance(key, str)}
    assert made <= lines and lines - made <= written


def test_no_sentence_of_the_page_is_written_in_one_language_alone():
    """What `RunError` and the status lines say goes through `said`; /decode's own door, which only
    programs use, speaks English."""
    for path in sorted((ROOT / "app").rglob("*.py")):
        if path.name in ("api.py", "arguments.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            if ast.unparse(node.func) in ("RunError", "packed", "Update"):
                first = node.args[0] if node.args else None
                is_text = isinstance(first, ast.Constant) and first.value != ""
                is_words = isinstance(first, ast.JoinedStr) and any(
                    isinstance(part, ast.Constant) and re.search("[A-Za-z]{3}", str(part.value))
                    for part in first.values
                )
                assert not is_text and not is_words, f"{path.name}: {ast.unparse(node)}"


def test_a_line_is_english_to_programs_and_keeps_its_translations():
    line = said("step_line", step=3, masks=counted(1, "mask"), passes=counted(2, "pass"),
                seconds="0.5")  # fmt: skip
    assert line == "step 3, 1 mask left, 2 passes, 0.5 s"
    assert line.within("ko") == "3스텝, 남은 빈칸 1개, 순전파 2번, 0.5초"
    assert line.within("zh") == "第 3 步，还剩 1 个空格，2 次前向，0.5 秒"
    for again in (copy.deepcopy(line), pickle.loads(pickle.dumps(line))):
        assert again == line and again.texts == line.texts
    assert json.loads(packed(line)) == list(line.texts) and json.loads(packed("a")) == "a"
    assert json.dumps(line) == json.dumps(str(line))


def test_lines_are_joined_in_each_language():
    both = together(said("toy_note"), "", said("recorded"))
    assert both == f"{said('toy_note')} {said('recorded')}"
    assert both.within("zh") == said("toy_note").within("zh") + said("recorded").within("zh")
    assert listed(["a", said("no_run")]).within("zh") == "a，无"
    names = either(["a", "b", "c"])
    assert isinstance(names, Said) and names.within("ko") == "a 또는 b 또는 c"


def test_an_error_carries_its_translations_as_far_as_it_is_the_pages_own():
    runs = Runs()
    with pytest.raises(RunError, match="^The prompt is empty") as error:
        runs.prepare(" ", "language model", runs.defaults("language model"))
    assert error.value.line.within("ko").startswith("프롬프트가 비어 있습니다")
    # a sentence of the library stays what it is
    with pytest.raises(RunError, match="^Gamma must lie between") as error:
        runs.prepare("a", "language model", {**runs.defaults("language model"), "gamma": 2})
    assert not isinstance(error.value.line, Said)


def test_a_what_if_is_told_in_each_language():
    badge = what_if(toy(), "x", None, 0.9)[1]
    assert badge.startswith("exact until step 1: ")
    assert badge.within("ko").startswith("1스텝까지 정확함: ")


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_the_boards_of_sweep_and_traces_speak_the_language_and_draw_the_same(language):
    sweeps = Sweeps(Runs())
    table = sweeps.table(sweeps.bundled()[0])
    for make in (
        lambda name: sweep_board(table, View(trial=3), ["a"] * 32, name),
        lambda name: traces_board(rich(), "x", name),
    ):
        english, other = (json.loads(make(name))["blocks"] for name in ("en", language))
        assert [block["id"] for block in english] == [block["id"] for block in other]
        for one, two in zip(english, other, strict=True):
            for key in ("note", "spoken"):
                if one.get(key):
                    assert SCRIPTS[language].search(two[key]), (one["id"], key)
            if one["kind"] == "chart":
                numbers = [[mark.get(k) for mark in block["marks"] for k in "xyz"]
                           for block in (one, two)]  # fmt: skip
                assert numbers[0] == numbers[1]
            if one["kind"] == "table":
                assert len(one["columns"]) == len(two["columns"])
                assert any(SCRIPTS[language].search(column) for column in two["columns"])


def test_pickers_offer_the_same_in_each_language():
    for name, offered in CHOICES.items():
        values = [[value for _, value in offered(language)] for language in LANGUAGES]
        assert values[0] == values[1] == values[2], name
        labels = [label for label, value in offered("ko") if value not in controls()]
        assert any(SCRIPTS["ko"].search(label) for label in labels), name
