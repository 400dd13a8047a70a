"""The preset rule by hand, and the sweep end to end on a small random checkpoint."""

from __future__ import annotations

import json
from concurrent.futures import Future

from flash_dllm.caches.none import NoCache
from flash_dllm.evaluation.measurement import Decoded, Run, Spread
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.strategies.flash_verify import FlashVerify
from tests.random_model import ROOT
from training import sweep_preset
from training.generators.item import Item

TASKS = ROOT / "assets" / "tasks"


def decoded(domain: str, tokens: int, steps: int, rows: int = 100) -> Decoded:
    return Decoded(domain, "s", "", tokens, steps, 2 * steps, rows, 0)


def result(correct: list[bool], tokens: int, rows: int = 100, kind: str = "grid", gamma=0.5):
    strategy = FlashVerify(gamma=gamma) if kind == "grid" else Confidence(0.9)
    settings = Settings(strategy, NoCache(), sweep_preset.layout_config("blocks"))
    run = Run(tuple(decoded("word", tokens, 1, rows) for _ in correct), Spread(), 0.0)
    return sweep_preset.Result(sweep_preset.Case(kind, "blocks", settings), run, tuple(correct))


RIGHT = [True] * 380 + [False] * 20


def test_preset_is_the_fastest_setting_that_holds_the_accuracy():
    reference = result(RIGHT, 2, kind="baseline")
    # 40 of 400 lost: faster, and significantly worse
    worse = result([False] * 40 + RIGHT[40:], 9)
    slow, good = result(RIGHT, 3), result(RIGHT, 4)
    measured = [r.against(reference) for r in (worse, slow, good)]
    assert [r.is_admitted for r in measured] == [False, True, True]
    assert sweep_preset.choose_preset(measured, reference) is measured[2]


def test_ties_go_to_fewer_rows():
    reference = result(RIGHT, 2, kind="baseline")
    measured = [result(RIGHT, 4, rows).against(reference) for rows in (90, 80)]
    assert sweep_preset.choose_preset(measured, reference) is measured[1]


def test_reference_is_chosen_where_no_setting_holds():
    reference = result(RIGHT, 2, kind="baseline")
    assert sweep_preset.choose_preset([reference.against(reference)], reference) is reference


def test_too_few_items_admit_nothing():
    # 4 of 4 equal: the interval still reaches down to -49 points
    assert not result([True] * 4, 2).against(result([True] * 4, 2)).is_admitted


def test_grid_has_every_combination_once():
    cases = sweep_preset.Grid().cases("blocks")
    assert len({case.label for case in cases}) == len(cases) == 2 * 4 * 2 * 2 * 2 * 2


def test_preset_builds_the_settings_again():
    grid = sweep_preset.Grid().cases("suppress")[:7]
    for case in (*grid, *sweep_preset.baselines(Confidence(0.9))):
        built = from_preset(sweep_preset.preset_of(case), {"alternatives": 0})
        assert built.strategy == case.settings.strategy
        assert built.config == case.settings.config
        assert built.cache == case.settings.cache


def test_each_different_answer_is_scored_once(monkeypatch):
    asked: list[str] = []

    def counting(items, texts, workers, allow_unsandboxed):
        asked.extend(texts)
        return [text == item.gold for item, text in zip(items, texts, strict=True)]

    monkeypatch.setattr(sweep_preset, "are_correct", counting)
    scorer = sweep_preset.Scorer([Item("word", "f", str(n), "", "", "1") for n in range(2)], 1)
    assert scorer(["1", "2"]) == (True, False)
    assert scorer(["1", "1"]) == (True, True)
    assert asked == ["1", "2", "1"]


def test_no_case_is_started_once_the_budget_is_spent():
    started: list[sweep_preset.Case] = []

    def submit(case):
        started.append(case)
        future: Future = Future()
        future.set_result(None)
        return future

    cases = sweep_preset.Grid().cases("blocks")[:5]
    found = sweep_preset.runs(cases, submit, 1, lambda: len(started) < 2)
    assert [case for case, _ in found] == started == cases[:2]


def test_sweep_writes_its_tables_and_a_preset(small_folder, tmp_path, monkeypatch):
    arguments = sweep_preset.argument_parser().parse_args(
        ["--model", str(small_folder), "--tasks", str(TASKS), "--output", str(tmp_path)]
        + ["--limit", "1", "--device", "cpu", "--dtype", "float32", "--budget-seconds", "0"]
        + ["--check-domains", ""]
    )
    report = sweep_preset.sweep(arguments)
    assert (report["grid"]["planned"], report["grid"]["run"]) == (128, 0)
    assert {row["label"] for row in report["results"]} == {
        "confidence ε 0.9 none blocks",
        "confidence ε 0.9 none suppress",
    }
    assert json.loads((tmp_path / "preset.json").read_text()) == report["preset"]
    assert (tmp_path / "sweep.csv").read_text().count("\n") == 3
    assert "| confidence ε 0.9 none blocks |" in (tmp_path / "sweep.md").read_text()
