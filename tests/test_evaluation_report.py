"""Reports: cells are measured once, ratios stay inside a batch size, claims say what they found."""

from __future__ import annotations

import json

import pytest

from flash_dllm import report
from flash_dllm.evaluation import report_tables as tables
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.report_cells import Cell, Laboratory, Measured, pairs, with_examples
from flash_dllm.evaluation.report_page import claims_of, markdown, page


def run_of(accuracy: float, speed: float, batch: int = 32, per_step: float = 2.0) -> Measured:
    count = 100
    verdicts = {str(n): n < accuracy * count for n in range(count)}
    summary = {
        "accuracy": accuracy, "accuracy_ci95": [accuracy, accuracy], "tokens_per_second": speed,
        "tokens_per_step": per_step, "tokens_per_pass": per_step / 2,
    }  # fmt: skip
    return Measured(summary, {"batch_size": batch, "rows_per_token": 9.0}, verdicts)


class Lab:
    """Answers cells from a rule."""

    limit = 100

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    def measure(self, cell: Cell) -> Measured:
        self.asked.append(cell)
        return self.rule(cell)


SPEEDS = {"greedy": 10.0, "confidence": 20.0, "flash_verify": 30.0}


def by_strategy(cell: Cell) -> Measured:
    return run_of(0.8, SPEEDS[cell.knob("strategy")], cell.batch)


def test_table_1_has_the_papers_rows_and_columns_and_judges_its_claims():
    def rule(cell):
        cached = 1.5 if cell.knob("cache") == "flash" else 1.0
        # the only fast one loses 20 of 100 items at length 128
        is_ours = cell.knob("strategy") == "flash_verify" and cached > 1
        accuracy = 0.6 if is_ours and cell.knob("gen_length") == 128 else 0.8
        return run_of(accuracy, cached * SPEEDS[cell.knob("strategy")])

    section = tables.table_1(Lab(rule), ["word", "code"], 32)
    assert [row[0] for row in section.rows] == ["word 64", "word 128", "code 64", "code 128"]
    assert section.head[1:] == [label for label, _, _ in tables.COLUMNS]
    # greedy without cache is 10 tokens/s, Flash-Verify with it 45
    assert section.rows[0][6] == "80.0 (80–80) %, 45.0 tokens/s, 4.50 ×"
    fastest, accuracy = section.claims
    assert fastest.holds and fastest.because == "fastest in 4 of 4 rows"
    # 20 items only the best one got: p = 2 / 2^20
    assert not accuracy.holds
    assert "word 128: -20.0 points" in accuracy.because and "p 0.00" in accuracy.because
    assert any("GSM8K 512: 83.02 %, 210.6 tokens/s" in text for text in section.paper)


def test_no_ratio_is_made_across_batch_sizes():
    with pytest.raises(AssertionError, match="across batch sizes"):
        tables.speed_cell(run_of(0.8, 2.0, batch=32), run_of(0.8, 1.0, batch=1))


def test_table_4_gives_mean_and_deviation_over_seeds():
    lab = Lab(lambda cell: run_of(0.8 + 0.01 * cell.seed, 100.0 + 10 * cell.seed))
    section = tables.table_4(lab, ["word"], 32, seeds=3)
    # 80, 81, 82 and 100, 110, 120
    assert section.rows[0][1] == "81.0 ± 1.0 %, 110.0 ± 10.0 tokens/s"
    assert {cell.seed for cell in lab.asked} == {0, 1, 2}
    assert len(section.rows) == 5 and len(section.head) == 4


def test_the_other_tables_and_figures_follow_their_runs():
    lab = Lab(by_strategy)
    second = tables.table_2(lab, ["word"], 32)
    assert second.claims[0].holds and [row[2] for row in second.rows] == [
        "10.0", "20.0", "20.0", "30.0",
    ]  # fmt: skip
    fifth = tables.table_5(lab, ["word"], 32)
    # the lead is 1.5 with and without examples: it does not shrink
    assert {row[-1] for row in fifth.rows} == {"1.50"} and not fifth.claims[0].holds
    sixth = tables.table_6(lab, ["word"], (1, 4))
    assert [row[0] for row in sixth.rows] == ["1", "4"] and sixth.claims[0].holds
    trade = tables.figures_5_and_6(lab, ["word"], 32)
    assert len(trade.rows) == 5 * 3 + 6 and len(trade.pictures) == 3 and trade.claims[0].holds
    seventh = tables.figure_7(lab, ["word"], 32)
    assert [row[-1] for row in seventh.rows] == ["1.50"] * 4 and seventh.claims[0].holds


def test_pairs_are_the_common_items_in_one_order():
    first = Measured({}, {}, {"a": True, "b": False, "c": True})
    second = Measured({}, {}, {"c": False, "a": True, "d": True})
    assert pairs(first, second) == ([True, True], [True, False])


def test_examples_stand_in_front_of_the_question():
    item = Item("word", "f", "s", "Q?", "A", gold="1")
    shown = with_examples(item, [Item("word", "f", "t", "P?", "B")])
    assert shown.prompt == "P?\nB\n\nQ?" and shown.gold == "1"


def test_a_cell_is_measured_once_and_its_folder_is_used_again(engine, tmp_path):
    lab = Laboratory(engine, tmp_path, limit=2)
    cell = Cell.of("word", 2, strategy="confidence", cache="none", gen_length=8, block_length=8)
    first = lab.measure(cell)
    assert lab.measure(cell) is first and len(first.verdicts) == 2
    (folder,) = tmp_path.iterdir()
    before = (folder / "answers.jsonl").read_bytes()
    again = Laboratory(engine, tmp_path, limit=2).measure(cell)
    assert (folder / "answers.jsonl").read_bytes() == before
    assert again.verdicts == first.verdicts and again.speed == first.speed
    other = Cell.of("word", 2, 1, strategy="confidence", cache="none", gen_length=8)
    assert set(lab.items(cell)) != set(lab.items(other))


def test_pages_hold_claims_tables_and_the_papers_values_apart():
    picture = tables.Picture("P", "x", "y", [tables.Curve("c", [(1, 2, "a")])])
    claim = tables.Claim("It is fast", False, "1 < 2")
    section = tables.Section("T <1>", "Words.", ("a", "b"), [["1", "2"]], (picture,), (claim,),
                             ("9 tokens/s",))  # fmt: skip
    assert claims_of([section]) == ["Does not hold: It is fast (1 < 2)."]
    text = markdown("R", "facts", [section])
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    assert "The paper's values (LLaDA-1.5, A100): 9 tokens/s." in text
    shown = page("R", "facts", [section, section])
    assert "T &lt;1&gt;" in shown and shown.count("class='paper'") == 2
    # plotly's script once, two pictures
    assert shown.count("plotly.js v") == 1 and shown.count("Plotly.newPlot(") >= 2


def test_the_command_writes_both_pages(small_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "WINDOWS", (4, 8))
    monkeypatch.setattr(tables, "LENGTHS", (8, 16))
    arguments = ["--model", str(small_folder), "--output", str(tmp_path), "--limit", "2"]
    arguments += ["--parts", "figure7", "figure1", "table6", "--batches", "1", "2"]
    arguments += ["--tasks", "word", "--batch", "2", "--device", "cpu", "--dtype", "float32"]
    assert report.main(arguments) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Figure 7: window" in text and "## Table 6: batch sizes" in text
    assert "old" in text.split("## Which of the paper's claims hold here")[1]
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    details = [json.loads(p.read_text()) for p in (tmp_path / "runs").glob("*/details.json")]
    assert {d["batch_size"] for d in details} == {1, 2}
