"""The rule of the preset by hand, on the measured table, and behind two small sweeps."""

from __future__ import annotations

import csv
import json
import re

import pytest

from flash_dllm import sweep
from flash_dllm.evaluation.study_table import Row
from flash_dllm.evaluation.sweep_file import read_sweep
from tests.random_model import ROOT
from training import choose_preset
from training.choose_preset import Candidate, choose, chosen, preset_of

RIGHT = "1" * 380 + "0" * 20
SWEEPS = ROOT / "training" / "sweeps"


def row(number: int, correct: str, per_step: float, rows: float = 9.0, strategy="flash_verify"):
    settings = {
        "strategy": {"name": strategy, "gamma": 0.5, "audit": False},
        "cache": {"name": "flash", "track_size": number, "track_layers": None},
        "config": {"gen_length": 128, "window_size": 32, "block_length": 32, "seed": 0,
                   "suppress_after_eos": False},
    }  # fmt: skip
    accuracy = correct.count("1") / len(correct)
    return Row(number, "COMPLETE", {"track_size": number}, {
        "correct": correct, "tokens_per_step": per_step, "rows_per_token": rows,
        "tokens_per_pass": per_step / 2, "seconds": 1.0, "accuracy": accuracy,
        "accuracy_by_task": {"word": accuracy}, "settings": settings,
    })  # fmt: skip


REFERENCE = row(0, RIGHT, 2.0, strategy="confidence")


def test_the_fastest_setting_that_holds_the_accuracy_is_chosen():
    # 40 of 400 lost: faster, and significantly worse
    worse = row(1, "0" * 40 + RIGHT[40:], 9.0)
    slow, good = row(2, RIGHT, 3.0), row(3, RIGHT, 4.0)
    best, table = choose([REFERENCE], [worse, slow, good])
    assert best is good
    assert [(line["setting"], line["admitted"]) for line in table] == [
        ("track_size 1", "no"), ("track_size 3", "yes"), ("track_size 2", "yes"),
        ("track_size 0", "yes"),
    ]  # fmt: skip
    assert table[0]["difference"] == "-10.0" and table[0]["p"] == "0.000"


def test_ties_go_to_fewer_rows_and_without_a_holder_the_reference_stays():
    assert choose([REFERENCE], [row(1, RIGHT, 4.0, 9.0), row(2, RIGHT, 4.0, 8.0)])[0].number == 2
    assert choose([REFERENCE], [row(1, "0" * 400, 4.0)])[0] is REFERENCE
    # 4 of 4 equal: the interval still reaches down to -49 points
    few = row(0, "1111", 2.0, strategy="confidence")
    assert choose([few], [row(1, "1111", 4.0)])[0] is few


def test_a_preset_holds_what_the_sweep_decides():
    assert preset_of(row(32, RIGHT, 4.0)) == {
        "strategy": {"name": "flash_verify", "gamma": 0.5},
        "cache": {"name": "flash", "track_size": 32},
        "config": {"gen_length": 128, "window_size": 32, "block_length": 32,
                   "suppress_after_eos": False},
    }  # fmt: skip


def test_the_rule_on_the_measured_table_gives_the_shipped_preset():
    with (ROOT / "benchmarks" / "results" / "sweep_preset.csv").open(newline="") as file:
        rows = [line for line in csv.DictReader(file) if line["setting"].startswith("flash")]
    candidates = [
        Candidate(
            line["setting"], float(line["tokens/step"]), float(line["rows/token"]),
            float(line["95 % interval"].split(" to ")[0]) / 100, float(line["p"]),
        )
        for line in rows
    ]  # fmt: skip
    best = chosen(candidates)
    assert best is not None
    found = re.fullmatch(
        r"flash_verify ε (\S+) γ (\S+) search (\d+) (each) by (position) (corrected) flash (\d+)"
        r" blocks", best.name,
    )  # fmt: skip
    assert found is not None
    epsilon, gamma, search, acceptance, order, _, tracked = found.groups()
    shipped = json.loads((ROOT / "assets" / "tiny" / "preset.json").read_text())
    assert shipped["strategy"] == {
        "name": "flash_verify", "epsilon": float(epsilon), "gamma": float(gamma),
        "search_size": int(search), "acceptance": acceptance, "order": order, "correct": True,
    }  # fmt: skip
    assert shipped["cache"] == {"name": "flash", "track_size": int(tracked)}
    # the sweep's file asks for the same settings
    grid = read_sweep(SWEEPS / "preset_grid.yaml")
    asked = {
        (knobs["epsilon"], knobs["gamma"], knobs["search_size"], knobs["track_size"])
        for knobs in grid.combinations()
    }
    assert len(asked) == len(rows) == 32
    assert (float(epsilon), float(gamma), int(search), int(tracked)) in asked


def test_two_small_sweeps_and_the_rule_write_a_preset(small_folder, tmp_path, capsys):
    items = tmp_path / "items"
    items.mkdir()
    lines = (ROOT / "assets" / "tasks" / "word.jsonl").read_text().splitlines()
    (items / "word.jsonl").write_text("\n".join(lines[7:9]) + "\n")
    storage = f"sqlite:///{tmp_path}/s.db"
    for name in ("preset_reference", "preset_grid"):
        text = (SWEEPS / f"{name}.yaml").read_text()
        for old, new in (
            ("sqlite:///training/local/preset.db", storage),
            ("training/local/choosing", str(items)),
            ("[word, code]", "[word]"), ("256", "2"), ("128", "8"),
            ("[0.55, 0.6, 0.65, 0.7]", "[0.6]"), ("[0.95, 0.9]", "[0.9]"), ("[16, 8]", "[8]"),
        ):  # fmt: skip
            text = text.replace(old, new)
        text += f"model: {small_folder}\ndevice: cpu\ndtype: float32\n"
        if name == "preset_reference":
            # a random model has no end: 16 tokens are enough
            text += "fixed: {gen_length: 16}\n"
        (tmp_path / f"{name}.yaml").write_text(text.replace("block_length: 32", "block_length: 8"))
        assert sweep.main([str(tmp_path / f"{name}.yaml")]) == 0
    capsys.readouterr()
    assert choose_preset.main([storage, "--output", str(tmp_path / "out")]) == 0
    preset = json.loads((tmp_path / "out" / "preset.json").read_text())
    assert json.loads(capsys.readouterr().out) == preset
    # two items say nothing of an accuracy: the reference stays
    assert preset["strategy"] == {"name": "confidence", "epsilon": 0.9}
    with (tmp_path / "out" / "sweep.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 + 2 and {line["admitted"] for line in table} == {"no"}


def test_without_the_sweeps_it_says_what_to_do(tmp_path, capsys):
    assert choose_preset.main([f"sqlite:///{tmp_path}/no.db", "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "there is no file" in error and error.count("\n") == 1
    with pytest.raises(ValueError, match="run the sweeps first"):
        choose([row(1, RIGHT, 2.0)], [row(2, RIGHT, 3.0)])
