"""The contamination gate fails when it should; nothing else in training reads evaluation files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from training import contamination, sources
from training.contamination import EvaluationTask, TrainingText, find_hits

TRAINING = Path(__file__).parents[1] / "training"
MAY_READ_EVALUATION = {"contamination.py"}
QUESTION = (
    "A farmer has 17 grey geese and sells 5 of them at the market on a rainy Friday. "
    "How many remain?"
)
TASK = EvaluationTask(
    frozenset({"below_limit"}),
    "def below_limit(values, limit):\n    return all numbers of the list that are below the limit",
)


def text_of(text: str) -> TrainingText:
    return TrainingText("test", text, "key")


def test_thirteen_shared_words_hit_whatever_the_punctuation():
    shared = "once, A FARMER has 17 grey geese; and sells 5 of them at the lake"
    hits = find_hits([text_of(shared)], [QUESTION], [])
    assert [hit.shared for hit in hits] == ["a farmer has 17 grey geese and sells 5 of them at the"]


def test_twelve_shared_words_do_not_hit():
    shared = "A farmer has 17 grey geese and sells 5 of them at noon"
    assert find_hits([text_of(shared)], [QUESTION], []) == []


def test_changed_number_breaks_the_run():
    assert find_hits([text_of(QUESTION.replace("5", "6"))], [QUESTION], []) == []


def test_function_name_with_eight_shared_words_hits():
    shared = "def below_limit(x):\n    '''All numbers of the list that are below the limit.'''"
    assert len(find_hits([text_of(shared)], [], [TASK])) == 1


def test_function_name_alone_does_not_hit():
    assert find_hits([text_of("def below_limit(x):\n    return x < 3")], [], [TASK]) == []


def test_shared_words_under_another_name_do_not_hit():
    shared = "def other(x):\n    '''All numbers of the list that are below the limit.'''"
    assert find_hits([text_of(shared)], [], [TASK]) == []


def test_hit_item_is_dropped_by_the_loaders(tmp_path, monkeypatch):
    """The whole path: a hit is written by hash, and the loader leaves the item out."""
    import lzma

    (tmp_path / "gsm8k").mkdir()
    rows = [{"question": QUESTION, "answer": "17-5=<<17-5=12>>12\n#### 12"}]
    rows.append({"question": "What is 1 + 1?", "answer": "1+1=2\n#### 2"})
    with lzma.open(tmp_path / "gsm8k" / "train.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    monkeypatch.setattr(sources, "EXCLUDED_PATH", tmp_path / "excluded.json")
    before = sources.gsm8k_items(tmp_path)
    assert [item.answer for item in before] == ["17 - 5 = 12\n#### 12", "1 + 1 = 2\n#### 2"]
    texts = [TrainingText("gsm8k", i.prompt, sources.text_hash(i.prompt)) for i in before]
    contamination.write_excluded(find_hits(texts, [QUESTION], []))
    assert [item.prompt for item in sources.gsm8k_items(tmp_path)] == ["What is 1 + 1?"]


def test_missing_data_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gsm8k"):
        sources.gsm8k_items(tmp_path)


def evaluation_literals(source: str) -> list[str]:
    """Strings in code, docstrings apart, that name an evaluation file."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    marks = ("EVAL_ONLY", "SVAMP.json")
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and any(mark in node.value for mark in marks)
    ]


def evaluation_imports(source: str) -> list[str]:
    """Imports of the modules that may read evaluation files."""
    modules = {f"training.{name.removesuffix('.py')}" for name in MAY_READ_EVALUATION}
    modules |= {f"flash_dllm.evaluation.{name}" for name in ("public_sets", "tasks", "run")}
    modules |= {"flash_dllm.evaluate"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name in modules]


def test_no_training_module_names_an_evaluation_file_or_imports_its_readers():
    # what a run leaves in training/local is nobody's module
    local = TRAINING / "local"
    modules = [path for path in TRAINING.rglob("*.py") if local not in path.parents]
    paths = [path for path in modules if path.name not in MAY_READ_EVALUATION]
    assert TRAINING / "sources.py" in paths
    for path in paths:
        source = path.read_text()
        assert evaluation_literals(source) == [], path
        assert evaluation_imports(source) == [], path


def test_the_scan_finds_what_it_looks_for():
    assert evaluation_literals("open('gsm8k/EVAL_ONLY_test.jsonl.xz')") != []
    assert evaluation_literals("f'{root}/EVAL_ONLY_x'") != []
    assert evaluation_literals("def f():\n    '''Not EVAL_ONLY_ files.'''") == []
    assert evaluation_imports("from training import contamination") != []
    assert evaluation_imports("import flash_dllm.evaluate") != []
    assert evaluation_imports("from flash_dllm.evaluation import public_sets") != []
