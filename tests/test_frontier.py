"""The comparison of named settings: its numbers are those of single runs; its errors name names."""

import csv
import json
import shlex
from pathlib import Path

import pytest

from benchmarks import frontier, frontier_table
from flash_dllm.decoder import decode
from flash_dllm.evaluation.statistics import paired_difference
from flash_dllm.models import load_model
from flash_dllm.peers import PEERS
from flash_dllm.settings import from_preset

ROOT = Path(__file__).parents[1]
TASKS = ROOT / "assets" / "tasks"
EXPERIMENTS, _ = frontier_table.DOCUMENTS
COMMAND = "python -m benchmarks.frontier "
PATIENT = "patient c₀ .5, lead 4, every 4, flash 4"
FLASH_CONFIDENCE = "confidence ε 0.9, window 32, flash 8"
NARROW = "confidence ε 0.9, window 6, flash 2"
SETTINGS = {
    "ours": PEERS["flash_confidence"].settings,
    "wider": {"preset": "flash_confidence", "set": {"window_size": 48}},
    "confidence": {"preset": "preset", "set": {"strategy": "confidence"}},
}


def write(folder: Path, settings: dict) -> Path:
    path = folder / "settings.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def test_a_line_holds_the_counts_of_single_runs_and_is_measured_once(tmp_path, capsys):
    command = [
        "--settings", str(write(tmp_path, SETTINGS)), "--only-settings", "--no-reference",
        "--reference", "confidence", "--items", str(TASKS), "--domains", "word", "--limit", "2",
        "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    frontier.main(command)
    with (tmp_path / "out" / "frontier.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["setting"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(SETTINGS)

    engine = load_model(None, device="cpu", dtype="float32")
    lines = (TASKS / "word.jsonl").read_text(encoding="utf-8").splitlines()[:2]
    built = from_preset(PEERS["flash_confidence"].settings, {})
    traces = [
        decode(engine, engine.encode(json.loads(line)["prompt"]), built.strategy, built.cache,
               built.config)
        for line in lines
    ]  # fmt: skip
    tokens, asked = sum(t.tokens for t in traces), sum(t.rows for t in traces)
    assert int(rows["ours"]["tokens"]) == tokens
    # written with two digits: a half of the last one, and the rounding of that half
    assert float(rows["ours"]["rows_per_token"]) == pytest.approx(asked / tokens, abs=0.0051)
    layers = float(rows["ours"]["row_layers_per_token"])
    assert layers == pytest.approx(8 * asked / tokens, abs=0.05)
    assert float(rows["ours"]["tokens_per_pass"]) == pytest.approx(
        tokens / sum(t.passes for t in traces), abs=0.0005
    )
    right = {name: row["right"].count("1") for name, row in rows.items()}
    assert float(rows["ours"]["difference"]) == (right["ours"] - right["confidence"]) / 2
    assert json.loads(rows["wider"]["settings"])["config"]["window_size"] == 48

    assert (rows["ours"]["device"], rows["ours"]["dtype"]) == ("cpu", "float32")
    assert (rows["ours"]["impl"], rows["ours"]["batch"]) == ("torch", "32")

    capsys.readouterr()
    frontier.main(command)
    assert len(capsys.readouterr().out.strip().splitlines()) == len(SETTINGS)


def test_one_setting_is_shared_out_among_workers_and_its_line_is_that_of_one(tmp_path, capsys):
    """20 word items one at a time are two pieces, 10 and 10, for two processes."""
    lines = []
    for workers in ("1", "2"):
        frontier.main([
            "--settings", str(write(tmp_path, {"ours": SETTINGS["ours"]})), "--only-settings",
            "--no-reference", "--items", str(TASKS), "--domains", "word", "--limit", "20",
            "--batch", "1", "--workers", workers, "--output", str(tmp_path / workers),
        ])  # fmt: skip
        (line,) = frontier_table.read_rows(tmp_path / workers / "frontier.csv")
        lines.append({key: value for key, value in line.items() if key != "seconds"})
        # how far it is stands on the screen while it runs, with what is left
        assert "| 20/20 [" in capsys.readouterr().err
    assert lines[0] == lines[1] and len(lines[0]["right"]) == 20


def test_pieces_come_back_in_the_items_order_and_a_setting_that_can_not_be_is_named():
    bench = frontier.Bench(None, "cpu", "float32", TASKS, ("word",), 33, 1)
    assert bench.pieces() == 3
    case = frontier.Case("ours", SETTINGS["ours"], {})
    found = frontier.Measuring.of(case, bench)
    # 33 items in 3 pieces: every third one
    assert [found.add(p, 3, ([f"{n}" for n in range(p, 33, 3)], 1.5)) for p in (2, 0)] == [11, 11]
    assert found.left == {1} and found.seconds == 3.0
    found.add(1, 3, ([f"{n}" for n in range(1, 33, 3)], 1.5))
    assert found.answers == [str(number) for number in range(33)] and not found.left

    bad = frontier.Case("bad", SETTINGS["ours"], {"window_size": 0})
    (refused,) = frontier.measured(bench, [bad], 1)
    assert "window_size" in refused.problem and refused.answers == []
    with pytest.raises(RuntimeError, match="lost"):
        frontier.Measuring.of(case, bench).add(0, 3, RuntimeError("lost"))


def test_a_table_goes_on_with_columns_that_it_did_not_begin_with(tmp_path):
    path = tmp_path / "frontier.csv"
    frontier_table.write_rows(path, [{"setting": "a", "right": "1"}, {"setting": "b", "batch": 1}])
    assert frontier_table.read_rows(path) == [
        {"setting": "a", "right": "1", "batch": ""}, {"setting": "b", "right": "", "batch": "1"},
    ]  # fmt: skip


def test_settings_that_start_from_nothing_known_are_refused(tmp_path):
    path = write(tmp_path, {"mine": {"preset": "nobody"}})
    with pytest.raises(ValueError, match="mine starts from nobody, which is no peer"):
        frontier.cases(path, only=True)
    names = [case.name for case in frontier.cases(None, only=False)]
    assert names == ["greedy", "preset", *PEERS]


def test_the_tables_pair_with_the_row_that_their_mark_names_and_sort_by_work(tmp_path):
    """Two of four against three of four right: −25 points, one item apart, so p = 1."""
    shared = {"accuracy": "0.75", "low": "0.3", "high": "0.95", "word": "0.75",
              "tokens_per_step": "6", "tokens_per_pass": "3"}  # fmt: skip
    rows = [
        {"setting": "first", **shared, "rows_per_token": "17", "row_layers_per_token": "136",
         "right": "1110", "settings": "{}"},
        {"setting": "ours", **shared, "accuracy": "0.5", "rows_per_token": "9",
         "row_layers_per_token": "72", "right": "1100", "settings": "{}"},
        {"setting": "few", **shared, "rows_per_token": "1", "row_layers_per_token": "8",
         "right": "11", "settings": "{}"},
    ]  # fmt: skip
    path = tmp_path / "experiments.md"
    path.write_text(
        "before\n<!-- table: first -->\nold\n<!-- /table -->\nbetween\n"
        "<!-- beside: ours -->\n<!-- /beside -->\n"
        "<!-- table: ours | first -->\n<!-- /table -->\nafter\n",
        encoding="utf-8",
    )
    for _ in range(2):  # once more changes nothing
        frontier_table.write_document(rows, path)
    first, paired, last = path.read_text(encoding="utf-8").split("<!-- /")[:3]
    head, _, ours, whole = first.splitlines()[2:]  # few has other items, and is not named
    assert "| against first |" in head
    assert ours.startswith("| ours | 0.500 (0.300–0.950) | 0.750 |  |  |  | -25.0 points (")
    assert "), p 1.00 | 6.00 | 3.00 | 9.0 | 72 |" in ours
    assert whole.startswith("| first | 0.750 ") and " |  | 6.00 | 3.00 | 17.0 |" in whole
    ours, whole = paired.splitlines()[-2:]
    assert ours == "| ours | 2 |  | 3.00 | 72 |"
    assert whole.startswith("| first | 3 | -25.0 points (") and "p 1.00 |" in whole
    head, _, ours, whole = last.splitlines()[-4:]
    assert "| against ours |" in head and ours.startswith("| ours |")
    assert "| +25.0 points (" in whole


def test_a_row_on_fewer_items_is_paired_on_those_of_each_domain_that_both_have():
    """Of two domains of two, the first items: one right of the two, against both right."""
    shared = {"accuracy": "0.5", "low": "0.1", "high": "0.9", "word": "1", "story": "1",
              "tokens_per_step": "1", "tokens_per_pass": "1", "rows_per_token": "1"}  # fmt: skip
    whole = {"setting": "whole", **shared, "row_layers_per_token": "9", "right": "1001"}
    part = {"setting": "part", **shared, "row_layers_per_token": "8", "right": "11"}
    part_line, whole_line = frontier_table.table([whole, part], "whole").splitlines()[2:]
    assert part_line.startswith("| part (the first 1 of each) |")
    assert "| +50.0 points (" in part_line and whole_line.startswith("| whole |")
    other = {**part, "setting": "other", "story": ""}
    assert " points " not in frontier_table.table([whole, other], "whole")
    assert "part" not in frontier_table.beside([whole, part], "whole")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no marks", "0 tables begin in it and 0 end"),
        ("<!-- table: ours -->\n", "1 tables begin in it and 0 end"),
        ("<!-- beside: ours -->\n<!-- /table -->\n", "1 tables begin in it and 0 end"),
        ("<!-- beside: nobody -->\n<!-- /beside -->\n", "no row is named 'nobody'"),
        ("<!-- table: ours | nobody -->\n<!-- /table -->\n", "no row is named 'nobody'"),
    ],
)
def test_a_document_whose_tables_can_not_be_made_is_left_as_it_is(tmp_path, text, words):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"page.md: {words}"):
        frontier_table.write_document([{"setting": "ours", "right": "1"}], path)
    assert path.read_text(encoding="utf-8") == text


def options_of(document: Path) -> list:
    """The document's own commands, read by their parser."""
    lines = document.read_text(encoding="utf-8").splitlines()
    words = [shlex.split(line)[3:] for line in lines if line.startswith(COMMAND)]
    return [frontier.parser().parse_args(line) for line in words]


@pytest.fixture(scope="module")
def measured() -> list[Path]:
    """The files that the documents' tables are written from, as their command says."""
    (written,) = (options for options in options_of(EXPERIMENTS) if options.document)
    return [ROOT / path for path in written.document]


@pytest.fixture(scope="module")
def rows(measured) -> dict[str, dict]:
    return {row["setting"]: row for path in measured for row in frontier_table.read_rows(path)}


def test_the_shipped_cheap_preset_is_the_setting_that_was_measured(rows) -> None:
    shipped = from_preset(PEERS["flash_confidence"].settings, {"alternatives": 2}).described()
    described = json.loads(json.dumps(shipped))
    assert json.loads(rows[FLASH_CONFIDENCE]["settings"]) == described


@pytest.mark.parametrize("document", frontier_table.DOCUMENTS, ids=lambda path: path.name)
def test_a_document_is_what_is_written_from_the_rows(rows, document):
    text = document.read_text(encoding="utf-8")
    assert frontier_table.written(text, list(rows.values())) == text
    assert {len(row["right"]) for row in rows.values()} == {1024, 160}


def test_what_the_verdict_says_of_patient_follows_from_the_rows(rows):
    """Its right answers minus the other's, of 1,024, in points."""
    right = {name: row["right"].count("1") for name, row in rows.items()}
    mine = right[PATIENT]
    text = " ".join(EXPERIMENTS.read_text(encoding="utf-8").split())
    flash, dual = right[FLASH_CONFIDENCE], right["fast_dllm_dual"]
    assert flash == dual and f"it is {(flash - mine) / 10.24:.1f} points behind both" in text
    assert f"{(right['preset'] - mine) / 10.24:.1f} behind the preset" in text
    assert f"and {(right['greedy'] - mine) / 10.24:.1f} behind greedy" in text


def test_a_narrow_window_is_judged_by_the_rule_that_was_written_down(rows):
    """p ≥ .05 against both and an interval above −2.5 points: the last of them is missed."""
    right = {
        name: [mark == "1" for mark in rows[name]["right"]]
        for name in (NARROW, FLASH_CONFIDENCE, "greedy")
    }
    flash = paired_difference(right[NARROW], right[FLASH_CONFIDENCE])
    greedy = paired_difference(right[NARROW], right["greedy"])
    assert flash.p >= 0.05 and greedy.p >= 0.05 and f"{100 * flash.low:.2f}" == "-2.54"
    assert float(rows[NARROW]["row_layers_per_token"]) <= 85
    text = " ".join(EXPERIMENTS.read_text(encoding="utf-8").split())
    assert "It fails by its rule" in text and "the interval begins at −2.54 points" in text
    built = json.loads(rows[NARROW]["settings"])
    shipped = [from_preset(peer.settings, {"alternatives": 2}) for peer in PEERS.values()]
    assert built not in [json.loads(json.dumps(one.described())) for one in shipped]


def test_the_documents_commands_make_its_rows(measured):
    """Each command names settings that are there, and those of one file's rows."""
    runs = [options for path in frontier_table.DOCUMENTS for options in options_of(path)]
    runs = [options for options in runs if not options.document]
    files = {
        frozenset(row["setting"] for row in found): found
        for found in map(frontier_table.read_rows, measured)
    }
    assert {frozenset(options.names) for options in runs} == set(files)
    own = load_model(None, device="cpu", dtype="float32").preset
    for options in runs:
        found = {
            case.name: case
            for case in frontier.cases(ROOT / options.settings, options.only_settings)
        }
        for row in files[frozenset(options.names)]:
            described = found[row["setting"]].settings(own).described()
            recorded = json.loads(row["settings"])
            assert recorded == json.loads(json.dumps(described)), row["setting"]
            assert row.get("batch", str(options.batch)) == str(options.batch), row["setting"]
