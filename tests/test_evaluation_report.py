"""Reports: cells are measured once, ratios stay inside a batch size, claims say what they found."""

from __future__ import annotations

import json

import pytest

from flash_dllm import report
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.report import bench, figure7, measuring, table1, table6
from flash_dllm.evaluation.report.bench import Bench, with_examples
from flash_dllm.evaluation.report.cell import Attention, Cell, Measured, Unmeasurable, pairs
from flash_dllm.evaluation.report.decoders import decoders
from flash_dllm.evaluation.report.every_decoder import ALL, every_decoder, lines
from flash_dllm.evaluation.report.figure1 import figure_1
from flash_dllm.evaluation.report.figure7 import figure_7
from flash_dllm.evaluation.report.figures56 import figures_5_and_6
from flash_dllm.evaluation.report.judging import noise_of
from flash_dllm.evaluation.report.page import claims_of, markdown, page
from flash_dllm.evaluation.report.parts import PARTS, sections
from flash_dllm.evaluation.report.plan import wanted
from flash_dllm.evaluation.report.records import Records, load_records
from flash_dllm.evaluation.report.section import Claim, Curve, Picture, Scope, Section
from flash_dllm.evaluation.report.shown import speed, speed_cell
from flash_dllm.evaluation.report.table1 import table_1
from flash_dllm.evaluation.report.table2 import table_2
from flash_dllm.evaluation.report.table4 import table_4
from flash_dllm.evaluation.report.table5 import table_5
from flash_dllm.evaluation.report.table6 import table_6
from flash_dllm.peers import PEERS

WORD = Scope(["word"], 32, (1, 4), 3)


def run_of(
    accuracy: float, speed: float | None, batch: int = 32, per_step: float = 2.0
) -> Measured:
    count = 100
    verdicts = {str(n): n < accuracy * count for n in range(count)}
    summary = {
        "accuracy": accuracy, "accuracy_ci95": [accuracy, accuracy], "tokens_per_second": speed,
        "tokens_per_step": per_step, "tokens_per_pass": per_step / 2,
    }  # fmt: skip
    if speed is None:
        del summary["tokens_per_second"]
    details = {
        "batch_size": batch, "row_layers_per_token": 9.0, "correct": sum(verdicts.values()),
        "tokens": 1000, "steps": 500, "passes": 1000, "row_layers": 9000,
    }  # fmt: skip
    return Measured(summary, details, verdicts)


class Lab:
    """Answers cells from a rule."""

    limit = 100

    def __init__(self, rule, noise=1.0):
        self.rule, self.asked, self.noise = rule, [], noise

    def measure(self, cell: Cell, timed: bool = True) -> Measured:
        self.asked.append(cell)
        return self.rule(cell)

    def attention(self) -> Attention:
        return Attention({1: 0.1, 32: 0.5}, [(0.2, 1), (0.4, 3), (0.9, 8)], 2)


SPEEDS = {"greedy": 10.0, "confidence": 20.0, "flash_verify": 30.0}


def by_strategy(cell: Cell) -> Measured:
    return run_of(0.8, SPEEDS[cell.knob("strategy")], cell.batch)


def test_table_1_has_the_papers_rows_and_columns_and_judges_its_claims():
    def rule(cell):
        cached = 1.5 if cell.knob("cache") == "flash" else 1.0
        # the only fast one loses 20 of 100 items at length 128
        is_ours = cell.knob("strategy") == "flash_verify" and cached > 1
        accuracy = 0.6 if is_ours and cell.knob("gen_length") == 128 else 0.8
        # 4 tokens a step against 2 on the cache
        per_step = 4 if is_ours else 2
        return run_of(accuracy, cached * SPEEDS[cell.knob("strategy")], per_step=per_step)

    made = table_1(Lab(rule), Scope(["word", "code"]))
    assert [row[0] for row in made.rows] == ["word 64", "word 128", "code 64", "code 128"]
    assert made.head[1:] == [label for label, _, _ in table1.COLUMNS]
    # greedy without cache is 10 tokens/s, Flash-Verify with it 45
    assert made.rows[0][6] == "80.0 (80–80) %, 45.0 tokens/s, 4.50 ×"
    fastest, accuracy, steps = made.claims
    assert steps.holds and "4.00 against 2.00 on word 128, 2.00 times" in steps.because
    assert fastest.holds and fastest.because == "fastest in 4 of 4 rows"
    # 20 items only the best one got: p = 2 / 2^20
    assert not accuracy.holds
    assert "word 128: -20.0 points" in accuracy.because and "p < 0.001" in accuracy.because
    assert any("GSM8K 512: 83.02 %, 210.6 tokens/s" in text for text in made.paper)


def test_no_ratio_is_made_across_batch_sizes():
    with pytest.raises(AssertionError, match="across batch sizes"):
        speed_cell(run_of(0.8, 2.0, batch=32), run_of(0.8, 1.0, batch=1))


def by_name(cell: Cell) -> Measured:
    """Greedy is slowest, one peer fastest, one peer wrong on 20 of greedy's 80 items."""
    if cell.preset == "dkv_cache":
        return run_of(0.6, 15.0)
    if cell.preset == "prophet":
        raise Unmeasurable("it needs what this model lacks")
    speeds = {"fast_dllm_dual": 40.0, "flash_dllm": 30.0, "": 10.0 if cell.knobs[1:] else 50.0}
    return run_of(0.8, speeds.get(cell.preset, 20.0))


def test_table_2_shows_every_peer_and_judges_the_papers_settings_and_the_preset():
    made = table_2(Lab(by_name), WORD)
    titles = [row[0] for row in made.rows]
    assert len(titles) == len(PEERS) + 1 and PEERS["prophet"].title not in titles
    assert "Not measured: Prophet (it needs what this model lacks)." in made.text
    rows = dict(zip(titles, made.rows, strict=True))
    # 20 items only the preset got
    assert rows["dKV-Cache, decode"][-1] == "-20.0 (p < 0.001)"
    paper, preset = made.claims
    assert not paper.holds and "30.0 tokens/s against 40.0 of Fast-dLLM, dual" in paper.because
    assert preset.holds and "50.0 tokens/s against 40.0" in preset.because


def test_every_decoder_is_compared_with_greedy_on_the_same_items():
    missing: dict[str, str] = {}
    found = list(lines(Lab(by_name), Scope(["word", "code"]), missing))
    assert missing == {"Prophet": "it needs what this model lacks"}
    names = [decoder.name for decoder in decoders() if decoder.name != "prophet"]
    assert [line.decoder.name for line in found if line.task == ALL] == names
    total = next(n for n in found if n.decoder.name == "dkv_cache" and n.task == ALL)
    # two tasks of 100 items: 120 right against 160; 2,000 tokens in 1,000 steps and 2,000 passes
    assert (total.items, total.accuracy, total.difference.only_second) == (200, 0.6, 40)
    assert (total.tokens_per_step, total.tokens_per_pass, total.row_layers_per_token) == (2, 1, 9)
    made = every_decoder(Lab(by_name), Scope(["word", "code"]))
    assert made.rows[0] == ["one token a step, no cache", "80.0", "80.0", "2.00", "1.00", "9", "–"]
    assert next(r for r in made.rows if r[0].startswith("dKV"))[-1].endswith("p < 0.001*")


def test_a_table_of_some_decoders_asks_for_those_and_what_they_are_compared_with():
    lab = Lab(by_name)
    made = every_decoder(lab, Scope(["word"], decoders=("wino", "dkv_cache")))
    titles = [PEERS[name].title for name in ("dkv_cache", "wino")]
    assert [row[0] for row in made.rows] == ["one token a step, no cache", *titles]
    assert len(lab.asked) == 3 and "below 0.05 / 2," in made.text


def test_table_4_gives_mean_and_deviation_over_seeds():
    lab = Lab(lambda cell: run_of(0.8 + 0.01 * cell.seed, 100.0 + 10 * cell.seed))
    made = table_4(lab, WORD)
    # 80, 81, 82 and 100, 110, 120
    assert made.rows[0][1] == "81.0 ± 1.0 %, 110.0 ± 10.0 tokens/s"
    assert {cell.seed for cell in lab.asked} == {0, 1, 2}
    assert len(made.rows) == 5 and len(made.head) == 4
    # nothing depends on γ here
    assert not made.claims[0].holds


def test_the_other_tables_and_figures_follow_their_runs():
    lab = Lab(by_strategy)
    fifth = table_5(lab, WORD)
    # the lead is 1.5 with and without examples: it does not shrink
    assert {row[-1] for row in fifth.rows} == {"1.50"} and not fifth.claims[0].holds
    sixth = table_6(lab, WORD)
    assert [row[0] for row in sixth.rows] == ["1", "4"] and sixth.claims[0].holds
    trade = figures_5_and_6(lab, WORD)
    assert len(trade.rows) == 5 * 3 + 6 and len(trade.pictures) == 3 and trade.claims[0].holds
    seventh = figure_7(lab, WORD)
    assert [row[-1] for row in seventh.rows] == ["1.50"] * 4 and seventh.claims[0].holds
    first = figure_1(lab, WORD)
    assert [claim.holds for claim in first.claims] == [True, True]
    # by hand: deviations (-0.3, -0.1, 0.4) and (-3, -1, 4), r = 2.6 / sqrt(0.26 · 26) = 1
    assert "correlation 1.00 over 3 steps" in first.claims[1].because


def without_speeds(cell: Cell) -> Measured:
    return run_of(0.8, None, cell.batch)


@pytest.mark.parametrize(
    ("make", "count"),
    [(table_1, 12), (table_2, len(PEERS) + 2), (table_4, 45), (table_5, 10), (table_6, 6),
     (figures_5_and_6, 21), (figure_7, 8)],
)  # fmt: skip
def test_without_any_speed_a_table_stands_and_its_speed_claims_are_open(make, count):
    made = make(Lab(without_speeds), WORD)
    assert made.note.startswith(f"{count} of these {count} runs have no speed (–): ")
    assert made.rows and all("–" in " ".join(row) for row in made.rows)
    # what needs no speed is judged all the same: accuracies are alike, tokens a step too
    known = [True, False] if make is table_1 else []
    # a decoder that is no less accurate refutes "faster and less accurate" whatever its speed
    known = [False] if make is table_4 else known
    assert [claim.holds for claim in made.claims if claim.holds is not None] == known
    words = " ".join([*map(str, made.rows), *claims_of([made]), markdown("R", "", [made])])
    assert "nan" not in words and "None" not in words
    # a picture without a point is a sentence, others are drawn
    assert page("R", "", [made]).count(made.note) == 1


def test_one_counterexample_refutes_and_one_missing_speed_leaves_open():
    def rule(missing, verify=30.0):
        def measure(cell):
            speed = verify if cell.knob("strategy") == "flash_verify" else 20.0
            return run_of(0.8, None if cell.batch in missing else speed, cell.batch)

        return Lab(measure)

    assert table_6(rule([]), WORD).claims[0].holds is True
    made = table_6(rule([4]), WORD)
    assert made.claims[0].holds is None
    assert claims_of([made])[0].startswith("Can't be judged (Table 6): On Flash-Cache")
    assert "at 1 of 2 batch sizes, 1 undecided" in made.claims[0].because
    assert made.note.startswith("3 of these 6 runs") and made.rows[1][3].endswith("– tokens/s, –")
    assert [len(curve.points) for curve in made.pictures[0].curves] == [1, 1, 1]
    # slower at batch 1: the other batch size can't save it
    assert table_6(rule([4], verify=15.0), WORD).claims[0].holds is False


def test_table_5_without_its_examples_shows_the_lengths():
    def rule(cell):
        if cell.shots:
            raise Unmeasurable("the set is too small")
        return by_strategy(cell)

    made = table_5(Lab(rule), WORD)
    assert [row[-1] for row in made.rows] == ["1.50", "1.50", "1.50", "–", "–"]
    assert made.claims[0].holds is None and "with 2: –" in made.claims[0].because
    assert "(the set is too small)" in made.text and made.note == ""


def test_speeds_within_the_noise_of_the_measuring_decide_nothing():
    # Flash-Verify is 1.5 times as fast as confidence decoding
    assert table_6(Lab(by_strategy, noise=1.4), WORD).claims[0].holds is True
    assert table_6(Lab(by_strategy, noise=1.6), WORD).claims[0].holds is None

    def timed(speed, name):
        return Measured({"settings": {"name": name}}, {}, {}, {"tokens_per_second": speed})

    runs = [timed(10.0, "a"), timed(25.0, "a"), timed(90.0, "b"), timed(20.0, "a")]
    assert noise_of(runs) == (1, 2.5) and noise_of(runs[1:3]) == (0, 1.0)


def test_records_without_speeds_render(tmp_path):
    scope = Scope(("word",), 32, (1, 32), 2)
    facts = {
        "model": "m", "fingerprint": "f", "device": "cpu", "dtype": "float32", "impl": "torch",
        "items": 100, "timed_items": 8, "commit": "", "versions": {"torch": "2", "python": "3"},
    }  # fmt: skip
    parts = [name for name in PARTS if name != "decoders"]
    records = Records(facts, scope, parts, 100)
    records.cells = {cell: without_speeds(cell) for cell in wanted(scope, parts, 100).cells}
    records.save(tmp_path / "measured.json")
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert text.count(" runs have no speed (–)") == 7 and "Can't be judged (Figure 1)" in text
    held = [line for line in text.splitlines() if line.startswith("- Holds")]
    assert not [line for line in held if "fast" in line or "ahead" in line or "lead" in line]
    assert "Speed by window size: no point of it was measured." in (
        tmp_path / "report.html"
    ).read_text()


def test_a_plan_asks_for_what_the_parts_ask_for_once():
    notes = wanted(Scope(["word", "code"], 32, (1, 32), 2), list(PARTS), 100)
    lab = Lab(lambda cell: run_of(0.8, 1.0, cell.batch))
    sections(lab, Scope(["word", "code"], 32, (1, 32), 2), list(PARTS))
    assert list(notes.cells) == list(dict.fromkeys(lab.asked)) and notes.wants_attention
    # a peer's speed is shown for the first task alone
    peers = {cell: timed for cell, timed in notes.cells.items() if cell.preset == "fast_dllm"}
    assert {cell.task: timed for cell, timed in peers.items()} == {"word": True, "code": False}


def test_records_come_back_as_they_were(tmp_path):
    timing = {"tokens_per_second": 7.0, "repeats": 3, "p20": 6.0, "p80": 8.0}
    timed = Measured(run_of(0.5, 1.0).summary, {"batch_size": 2}, {"a": True, "b": False}, timing)
    cell, other = Cell.of("word", 2, gen_length=8, epsilon=0.5), Cell.of("code", preset="wino")
    records = Records({"model": "m"}, Scope(("word",)), ["table1"], 2)
    records.cells = {cell: timed, other: "no such peer"}
    records.seen = Attention({1: 0.25}, [(0.5, 2)], 1)
    records.save(tmp_path / "m.json")
    again = load_records(tmp_path / "m.json")
    assert again.measure(cell) == timed and again.attention() == records.seen
    assert speed(again.measure(cell)) == "7.0 (6–8)"
    with pytest.raises(Unmeasurable, match="no such peer"):
        again.measure(other)
    with pytest.raises(Unmeasurable, match="hold no such run"):
        again.measure(Cell.of("story"))
    (tmp_path / "n.json").write_text('{"version": 1}')
    with pytest.raises(ValueError, match="holds no records"):
        load_records(tmp_path / "n.json")


def test_pairs_are_the_common_items_in_one_order():
    first = Measured({}, {}, {"a": True, "b": False, "c": True})
    second = Measured({}, {}, {"c": False, "a": True, "d": True})
    assert pairs(first, second) == ([True, True], [True, False])


def test_examples_stand_in_front_of_the_question():
    item = Item("word", "f", "s", "Q?", "A", gold="1")
    shown = with_examples(item, [Item("word", "f", "t", "P?", "B")])
    assert shown.prompt == "P?\nB\n\nQ?" and shown.gold == "1"


def test_a_cell_is_measured_once_and_its_folder_is_used_again(small_folder, tmp_path):
    bench = Bench(tmp_path, str(small_folder), "torch", "cpu", "float64", limit=2)
    cell = Cell.of("word", 2, strategy="confidence", cache="none", gen_length=8, block_length=8)
    first = bench.measure(cell)
    assert len(first.verdicts) == 2 and first.speed > 0
    (folder,) = tmp_path.iterdir()
    before = (folder / "answers.jsonl").read_bytes()
    again = bench.measure(cell)
    assert (folder / "answers.jsonl").read_bytes() == before
    assert again.verdicts == first.verdicts and again.speed == first.speed
    other = Cell.of("word", 2, 1, strategy="confidence", cache="none", gen_length=8)
    assert set(bench.items(cell)) != set(bench.items(other))
    # beside others a run has no times that mean anything
    beside = bench.measure(cell, is_alone=False)
    assert beside.verdicts == first.verdicts and "tokens_per_second" not in beside.summary
    timing = bench.timed(cell, 1)
    assert timing["items"] == 1 and timing["p20"] <= timing["tokens_per_second"] <= timing["p80"]


def test_pages_hold_claims_tables_and_the_papers_values_apart():
    picture = Picture("P", "x", "y", [Curve("c", [(1, 2, "a")])])
    claim = Claim("It is fast", False, "1 < 2")
    made = Section("T <1>", "Words.", ("a", "b"), [["1", "2"]], (picture,), (claim,),
                   ("9 tokens/s",))  # fmt: skip
    assert claims_of([made]) == ["Does not hold (T <1>): It is fast (1 < 2)."]
    text = markdown("R", "facts", [made])
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    assert "The paper's values (LLaDA-1.5, A100): 9 tokens/s." in text
    shown = page("R", "facts", [made, made])
    assert "T &lt;1&gt;" in shown and shown.count("class='paper'") == 2
    # plotly's script once, two pictures
    assert shown.count("plotly.js v") == 1 and shown.count("Plotly.newPlot(") >= 2


def command(small_folder, tmp_path, *more: str) -> list[str]:
    arguments = ["--model", str(small_folder), "--output", str(tmp_path), "--limit", "2"]
    arguments += ["--tasks", "word", "--batch", "2", "--device", "cpu", "--dtype", "float32"]
    return [*arguments, *more]


def test_the_command_writes_both_pages(small_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(figure7, "WINDOWS", (4, 8))
    monkeypatch.setattr(bench, "TRACED", 1)
    for part in (figure7, table6):
        monkeypatch.setattr(part, "LENGTHS", (8, 16))
    parts = ("--parts", "figure7", "figure1", "table6", "--batches", "1", "2")
    assert report.main(command(small_folder, tmp_path, *parts)) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Figure 7: window" in text and "## Table 6: batch sizes" in text
    assert "old" in text.split("## Which of the paper's claims hold here")[1]
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    details = [json.loads(p.read_text()) for p in (tmp_path / "runs").glob("*/details.json")]
    assert {d["batch_size"] for d in details} == {1, 2}
    # the pages come from the records alone
    (tmp_path / "report.md").unlink()
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    assert (tmp_path / "report.md").read_text() == text


def test_measured_side_by_side_and_stopped_it_goes_on(small_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(figure7, "WINDOWS", (4, 8))
    monkeypatch.setattr(figure7, "LENGTHS", (8, 16))
    arguments = command(small_folder, tmp_path, "--parts", "figure7", "--workers", "2",
                        "--timed-items", "1", "--measure-only")  # fmt: skip
    timed = Bench.timed
    count = 0

    def stopping(bench, cell, items):
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return timed(bench, cell, items)

    monkeypatch.setattr(Bench, "timed", stopping)
    assert report.main(arguments) == 130
    assert not (tmp_path / "report.md").exists()
    assert report.main(arguments) == 0
    # four cells: one timed before the stop, three after it
    assert count == 2 + 3
    found = load_records(tmp_path / "measured.json").cells
    assert [run.timing["items"] for run in found.values()] == [1] * 4


def test_a_cell_that_fails_costs_only_what_needs_it(small_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(table6, "LENGTHS", (8, 16))
    bench = Bench(tmp_path, str(small_folder), "torch", "cpu", "float64", limit=2)
    real = Bench.measure

    def failing(self, cell, is_alone=True):
        if cell.knob("strategy") == "flash_verify":
            raise RuntimeError("out of memory.")
        return real(self, cell, is_alone)

    monkeypatch.setattr(Bench, "measure", failing)
    scope = Scope(["word"], 2, (1,), 1)
    records = measuring.measure_report(bench, scope, ["table6"], tmp_path / "m.json")
    (made,) = sections(records, scope, ["table6"])
    assert made.title == "Table 6" and made.text == "Not measured: RuntimeError: out of memory."
    assert claims_of([made]) == [
        "Can't be judged (Table 6): what the paper claims there (RuntimeError: out of memory)."
    ]
