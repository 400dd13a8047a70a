"""Reports: cells are measured once, ratios stay inside a batch size, claims say what they found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flash_dllm import report
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.report import table1
from flash_dllm.evaluation.report.bench import with_examples
from flash_dllm.evaluation.report.cell import Attention, Cell, Measured, Unmeasurable, pairs
from flash_dllm.evaluation.report.decoders import decoders
from flash_dllm.evaluation.report.every_decoder import ALL, every_decoder, lines
from flash_dllm.evaluation.report.figure1 import figure_1
from flash_dllm.evaluation.report.figure7 import figure_7
from flash_dllm.evaluation.report.figures56 import figures_5_and_6
from flash_dllm.evaluation.report.judging import Open, is_faster, leads, means
from flash_dllm.evaluation.report.page import claims_of, markdown, page
from flash_dllm.evaluation.report.part_times import PartTimes
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
from flash_dllm.evaluation.report.timing import ROUNDS, Timing
from flash_dllm.peers import PEERS
from tests.report_lab import PLACE, Lab, records_of, run_of

WORD = Scope(["word"], 32, (1, 4), 3)


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
    assert made.rows[0][6] == "80.0 (80–80) %, 45.0 (45–45) tokens/s, 4.50 ×"
    fastest, accuracy, steps = made.claims
    assert steps.holds and "4.00 against 2.00 on word 128, 2.00 times" in steps.because
    assert fastest.holds and fastest.because == "fastest in 4 of 4 rows"
    # 20 items only the best one got: p = 2 / 2^20
    assert not accuracy.holds
    assert "word 128: -20.0 points" in accuracy.because and "p < 0.001" in accuracy.because
    assert any("GSM8K 512: 83.02 %, 210.6 tokens/s" in text for text in made.paper)


def test_table_1_corrects_for_its_rows():
    def rule(lost):
        def measure(cell):
            is_ours = (cell.knob("strategy"), cell.knob("cache")) == ("flash_verify", "flash")
            less = lost if is_ours and cell.knob("gen_length") == 64 else 0.0
            return run_of(0.8 - less, 10.0)

        return Lab(measure)

    # items that only the best column got: 6, p = 2 / 2⁶, and 7, p = 2 / 2⁷; two rows
    chance, sure = (table_1(rule(lost), Scope(["word"])).claims[1] for lost in (0.06, 0.07))
    assert "for the 2 rows" in chance.text
    assert chance.holds and "p 0.031, corrected p 0.062; word 128" in chance.because
    assert not sure.holds and "p 0.016, corrected p 0.031; word 128" in sure.because


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


def test_table_4_says_when_a_loss_of_accuracy_is_within_chance():
    def rule(loose):
        return lambda cell: run_of(*((loose, 20.0) if cell.knob("gamma") == 0.6 else (0.8, 10.0)))

    # 4 items of 100 differ, all one way: p = 2 / 2⁴; then 20, p = 2 / 2²⁰
    chance, sure = (table_4(Lab(rule(accuracy)), WORD).claims[0] for accuracy in (0.76, 0.6))
    assert chance.holds is Open.NOISY and "p 0.125, which leaves" in chance.because
    assert sure.holds is True and sure.because.endswith("p < 0.001")


def test_the_other_tables_and_figures_follow_their_runs():
    lab = Lab(by_strategy)
    fifth = table_5(lab, WORD)
    # the lead is 1.5 with and without examples: it does not shrink
    assert {row[-1] for row in fifth.rows} == {"1.50 (1.50–1.50)"} and not fifth.claims[0].holds
    assert fifth.claims[0].because.endswith("the former by the latter: 1.00 (1.00–1.00)")
    sixth = table_6(lab, WORD)
    assert [row[0] for row in sixth.rows] == ["1", "4"] and sixth.claims[0].holds
    trade = figures_5_and_6(lab, WORD)
    assert len(trade.rows) == 5 * 3 + 6 and len(trade.pictures) == 3 and trade.claims[0].holds
    seventh = figure_7(lab, WORD)
    assert [row[-1] for row in seventh.rows] == ["1.50 (1.50–1.50)"] * 4
    assert seventh.claims[0].holds
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
    assert [claim.holds for claim in made.claims if claim.holds is not Open.MISSING] == known
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
    assert made.claims[0].holds is Open.MISSING
    assert claims_of([made])[0].startswith("Can't be judged (Table 6): On Flash-Cache")
    assert "at 1 of 2 batch sizes, 1 without a speed" in made.claims[0].because
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
    assert [row[-1] for row in made.rows] == ["1.50 (1.50–1.50)"] * 3 + ["–"] * 2
    assert made.claims[0].holds is Open.MISSING and "with 2: –" in made.claims[0].because
    assert "(the set is too small)" in made.text and made.note == ""


def test_speeds_that_are_too_alike_decide_nothing():
    # Flash-Verify is 1.5 times as fast as confidence decoding
    assert table_6(Lab(by_strategy, noise=1.4), WORD).claims[0].holds is True
    made = table_6(Lab(by_strategy, noise=1.6), WORD)
    assert made.claims[0].holds is Open.NOISY
    assert claims_of([made]) == [
        "Too noisy to judge (Table 6): On Flash-Cache, Flash-Verify is faster than confidence "
        "decoding at every batch size (at 0 of 2 batch sizes, 2 too noisy to judge)."
    ]

    def uneven(cell):
        # confidence decoding: 16 to 40 tokens/s, the 80 percentile is 32; Flash-Verify 30
        if cell.knob("strategy") != "confidence":
            return by_strategy(cell)
        seconds = tuple(1000 / speed for speed in (16, 20, 20, 20, 20, 35, 40))
        return replace(run_of(0.8, None, cell.batch), timing=Timing(8, 1000, seconds))

    made = table_6(Lab(uneven), WORD)
    assert made.rows[0][2] == "80.0 (80–80) %, 20.0 (20–32) tokens/s, 2.00 ×"
    assert made.claims[0].holds is Open.NOISY


def test_a_lead_is_shown_as_it_is_judged_round_by_round():
    def rule(cell):
        speeds = (10, 10, 10, 20, 20, 30, 40)
        if cell.knob("strategy") == "flash_verify":
            speeds = (15, 15, 15, 24, 16, 33, 44)
        seconds = tuple(1000 / speed for speed in speeds)
        return replace(run_of(0.8, None, cell.batch), timing=Timing(8, 1000, seconds))

    # medians are 16 and 20, yet by round it is ahead: 1.5 1.5 1.5 1.2 0.8 1.1 1.1, sorted
    # 0.8 1.1 1.1 1.2 1.5 1.5 1.5; a fifth of six steps is 1.2 steps in
    made = figure_7(Lab(rule), WORD)
    assert made.rows[0][-1] == "1.20 (1.10–1.50)" and made.claims[0].holds is True
    assert "8: 1.20 (1.10–1.50), 16: " in made.claims[0].because
    cell = Cell.of("word", strategy="flash_verify")
    plain = rule(Cell.of("word", strategy="confidence"))
    assert speed_cell(rule(cell), plain).endswith("16.0 (15–31) tokens/s, 1.20 ×")


def test_drift_that_hits_all_alike_leaves_a_lead_in_rounds():
    def drifting(speed):
        seconds = tuple(1000 / speed * factor for factor in (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6))
        return replace(run_of(0.8, None), timing=Timing(8, 1000, seconds))

    assert leads(drifting(30.0), drifting(20.0)) == pytest.approx([1.5] * ROUNDS)
    # the speeds themselves overlap: 18.8 to 30 and 12.5 to 20 tokens/s
    assert is_faster(drifting(30.0), drifting(20.0), 1.4) is True
    assert is_faster(drifting(20.0), drifting(30.0), 1.4) is False
    assert is_faster(drifting(30.0), drifting(30.0), 1.0) is Open.NOISY
    assert means([drifting(30.0), drifting(10.0)])[0] == pytest.approx(20.0)
    assert means([drifting(30.0), run_of(0.8, None)]) == []


def test_records_without_speeds_render(tmp_path):
    scope = Scope(("word",), 32, (1, 32), 2)
    parts = [name for name in PARTS if name != "decoders"]
    records_of(scope, parts, without_speeds).save(tmp_path / "measured.json")
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert text.count(" runs have no speed (–)") == 8 and "Can't be judged (Figure 1)" in text
    held = [line for line in text.splitlines() if line.startswith("- Holds")]
    assert not [line for line in held if "fast" in line or "ahead" in line or "lead" in line]
    assert "Speed by window size: no point of it was measured." in (
        tmp_path / "report.html"
    ).read_text()


def test_each_table_says_how_and_where_its_speeds_were_measured(tmp_path):
    scope = Scope(("word",), 32, (1, 32), 2)
    records = records_of(scope, ["table6", "figure7"], by_strategy)
    # the control's second entry: 5 % slower, and in one round of seven far slower
    for number, found in enumerate(records.times["table6"].rounds):
        found[-1] *= 1.05 if number < 6 else 3.0
    records.times["figure7"].place = {**PLACE, "commit": "def", "machine": "m2"}
    records.save(tmp_path / "measured.json")
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    sixth, seventh = (tmp_path / "report.md").read_text().split("\n## ")[2:]
    assert (
        "Speeds: 7 rounds over the 6 decoders, 8 items; 80 by 20 percentile 1.00 in the median, "
        "1.00 at most; one decoder entered twice: 20 and 80 percentiles of its ratio to itself "
        "within 1.05 times (commit abc, cpu, machine m1, torch 2)." in sixth
    )
    assert "commit def, cpu, machine m2" in seventh


def leaves(content, path=()):
    """The places of all values in a JSON object that hold no others."""
    if not isinstance(content, (dict, list)) or not content:
        return [path]
    keys = content if isinstance(content, dict) else range(len(content))
    return [leaf for key in keys for leaf in leaves(content[key], (*path, key))]


@pytest.mark.parametrize("wrong", [None, "x", {}], ids=str)
def test_records_that_somebody_changed_are_one_sentence(tmp_path, capsys, wrong):
    records_of(Scope(("word",), 32, (1, 32), 2), ["figure7"], by_strategy).save(
        tmp_path / "measured.json"
    )
    text, refused = (tmp_path / "measured.json").read_text(), 0
    for place in leaves(json.loads(text))[::13]:
        content = parent = json.loads(text)
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = wrong
        (tmp_path / "measured.json").write_text(json.dumps(content))
        code = report.main(["--output", str(tmp_path), "--render-only"])
        said = capsys.readouterr().err
        assert code in (0, 2) and said.count("\n") == (1 if code else 0), (place, said)
        refused += code == 2
    assert refused > 1


def test_a_plan_asks_for_what_the_parts_ask_for_once():
    notes = wanted(Scope(["word", "code"], 32, (1, 32), 2), list(PARTS), 100)
    lab = Lab(lambda cell: run_of(0.8, 1.0, cell.batch))
    sections(lab, Scope(["word", "code"], 32, (1, 32), 2), list(PARTS))
    assert list(notes.cells) == list(dict.fromkeys(lab.asked)) and notes.wants_attention
    # a peer's speed is shown in Table 2, for the first task alone
    peers = [cell for cell in notes.cells if cell.preset == "fast_dllm"]
    assert {cell.task for cell in peers} == {"word", "code"} and "decoders" not in notes.timed
    timed = [cell for cells in notes.timed.values() for cell in cells if cell in peers]
    assert [cell.task for cell in timed] == ["word"] and timed[0] in notes.timed["table2"]
    # shared runs are measured once and timed in each table
    assert set(notes.timed["table4"]) & set(notes.timed["figure56"])


def test_records_come_back_as_they_were(tmp_path):
    run = Measured(run_of(0.5, 1.0).summary, {"batch_size": 2}, {"a": True, "b": False})
    cell, other = Cell.of("word", 2, gen_length=8, epsilon=0.5), Cell.of("code", preset="wino")
    records = Records({"model": "m"}, Scope(("word",)), ["table1"], 2)
    records.cells = {cell: run, other: "no such peer"}
    # 6, 6, 7, 7, 7, 8, 8 tokens/s
    rounds = [[84 / speed, 84 / speed] for speed in (7, 6, 8, 7, 6, 8, 7)]
    records.times["table1"] = PartTimes(PLACE, 2, [cell], [84], 0, rounds, {other: "no memory"})
    records.seen = Attention({1: 0.25}, [(0.5, 2)], 1)
    records.save(tmp_path / "m.json")
    again = load_records(tmp_path / "m.json")
    assert replace(again.measure(cell), timing=None) == run and again.attention() == records.seen
    assert speed(again.measure(cell)) == "7.0 (6–8)" == speed(again.part("table1").measure(cell))
    # each table has speeds of its own, and its own noise
    assert again.part("table2").measure(cell).speed is None
    assert again.times == records.times and again.part("table2").noise == 1.0
    with pytest.raises(Unmeasurable, match="no such peer"):
        again.measure(other)
    with pytest.raises(Unmeasurable, match="hold no such run"):
        again.measure(Cell.of("story"))
    # six rounds are too few to show
    del again.times["table1"].rounds[3]
    assert again.measure(cell).speed is None and again.speeds_note == ""
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
