"""The documents' measured tables come from a report's records and stand between their marks."""

from __future__ import annotations

import csv

import pytest

from benchmarks import peers_table, report_documents
from flash_dllm import report
from flash_dllm.evaluation.report.decoders import decoders
from flash_dllm.evaluation.report.page import markdown
from flash_dllm.evaluation.report.parts import sections
from flash_dllm.evaluation.report.plan import wanted
from flash_dllm.evaluation.report.records import Records, load_records
from flash_dllm.evaluation.report.section import Scope
from tests.report_lab import put_speeds, run_of

FACTS = {
    "model": "m", "fingerprint": "f", "device": "cpu", "dtype": "float32", "impl": "torch",
    "items": 100, "timed_items": None, "commit": "", "versions": {"torch": "2", "python": "3"},
}  # fmt: skip
MARKED = f"before\n{report_documents.BEGIN}\nold\n{report_documents.END}\nafter\n"


@pytest.fixture
def places(tmp_path, monkeypatch):
    for name in ("DECODERS", "PERFORMANCE", "CSV"):
        path = tmp_path / name
        monkeypatch.setattr(report_documents, name, path)
        if name != "CSV":
            path.write_text(MARKED)
    return tmp_path


def records(
    path, parts: list[str], device: str = "cpu", tasks=("word", "code"), names=(), **facts
):
    scope = Scope(tasks, 32, (1, 2, 32), 1, names)
    found = Records({**FACTS, "device": device, **facts}, scope, parts, 100)
    for cell in wanted(scope, parts, 100).cells:
        # greedy is right on 80 of 100, all others on 60
        is_greedy = cell.knob("strategy") == "greedy"
        found.cells[cell] = run_of(0.8 if is_greedy else 0.6, 100.0 * cell.batch, cell.batch)
    put_speeds(found)
    found.save(path)
    return path


def test_both_documents_and_the_table_are_written(places):
    path = records(places / "m.json", ["decoders", "embedded"])
    assert report_documents.main([str(path)]) == 0
    text = (places / "DECODERS").read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| one token a step, no cache | 80.0 | 80.0 | 2.00 | 1.00 | 9 | – |" in text
    with (places / "CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # each on both tasks and on all of it
    assert len(rows) == 3 * len(decoders())
    last = rows[-1]
    assert (last["decoder"], last["task"], last["items"]) == ("preset", "all", "200")
    assert (last["accuracy"], last["difference_difference"]) == ("0.6", "-0.2")
    assert last["difference_only_second"] == "40" and last["torch"] == "2"
    speeds = (places / "PERFORMANCE").read_text()
    # smallest and largest batch, four decoders each
    assert speeds.count("\n| 1 |") == speeds.count("\n| 32 |") == 4 and "| 2 |" not in speeds
    verified = "| 32 | flash_verify | flash | 60.0 (60–60) | 2.00 | 1.00 | 3200.0 (3200–3200) |"
    assert verified in speeds
    assert "| 1 | greedy | none | 80.0 (80–80) | 2.00 | 1.00 | 100.0 (100–100) |" in speeds


def test_the_embedded_models_speeds_are_those_of_its_own_rounds(places):
    """At batch 32 confidence decoding is timed for Table 1, too, here four times as fast."""
    path = places / "m.json"
    found = load_records(records(path, ["table1", "embedded"]))
    first = found.times["table1"]
    first.rounds = [[seconds / 4 for seconds in one] for one in first.rounds]
    assert set(first.cells) & set(found.times["embedded"].cells)
    found.save(path)
    assert report_documents.main([str(path)]) == 0
    speeds = (places / "PERFORMANCE").read_text()
    assert "| 32 | confidence | flash | 60.0 (60–60) | 2.00 | 1.00 | 3200.0 (3200–3200) |" in speeds
    assert "Speeds: 7 rounds over the 8 decoders, 8 items;" in speeds


def test_a_missing_speed_is_a_dash_and_a_line_under_the_table(places):
    path = places / "m.json"
    found = load_records(records(path, ["embedded"]))
    found.cells = {cell: run_of(0.6, None, cell.batch) for cell in found.cells}
    found.times.clear()
    found.save(path)
    assert report_documents.main([str(path)]) == 0
    speeds = (places / "PERFORMANCE").read_text()
    assert "| 32 | flash_verify | flash | 60.0 (60–60) | 2.00 | 1.00 | – |" in speeds
    assert "\n8 of these 8 runs have no speed (–): " in speeds


def test_what_was_not_measured_is_left_alone(places):
    path = records(places / "m.json", ["embedded"])
    assert report_documents.main([str(path)]) == 0
    assert (places / "DECODERS").read_text() == MARKED and not (places / "CSV").exists()


def test_a_document_without_marks_is_an_error():
    with pytest.raises(ValueError, match="has no <!-- measured"):
        report_documents.between_marks("text", "table")


@pytest.mark.parametrize("path", [report_documents.DECODERS, report_documents.PERFORMANCE])
def test_the_documents_have_the_marks(path):
    assert "new" in report_documents.between_marks(path.read_text(), "new")


def shown(places) -> list[list[str]]:
    """The decoders of each table of the document."""
    text = (places / "DECODERS").read_text()
    rows = [part.split("| --- |")[-1].splitlines()[1:] for part in text.split("### ")[1:]]
    return [[row.split(" | ")[0][2:] for row in part if row.startswith("| ")] for part in rows]


def test_another_device_adds_what_is_missing_and_gives_way_to_more_items(places):
    path, greedy = places / "m.json", "one token a step, no cache"
    small = ("wino", "prophet")
    assert report_documents.main([str(records(path, ["decoders"], "cpu", ("word",), small))]) == 0
    assert shown(places) == [[greedy, "Prophet", "WINO"]]
    assert "Not measured: LLaDA / " in (places / "DECODERS").read_text()
    # more items: replaces one of the two, the other stays beside its own reference
    report_documents.main([str(records(path, ["decoders"], "gpu", names=("wino", "fast_dllm",
                                                                         "freedave")))])
    assert shown(places) == [[greedy, "Fast-dLLM, no cache", "FreeDave", "WINO"],
                             [greedy, "Prophet"]]
    text = (places / "DECODERS").read_text()
    assert "### Measured apart: cpu, float32, implementation torch" in text
    assert "The first 100 items of each task, with another device; each decoder beside" in text
    assert "not how accurate it is." in text
    # a star by the comparisons of its own table
    assert "below 0.05 / 3," in text and "below 0.05 / 1," in text
    # fewer items later replace nothing
    before = (places / "CSV").read_text()
    report_documents.main([str(records(path, ["decoders"], "cpu", ("word",), ("wino",)))])
    assert (places / "CSV").read_text() == before
    # all of it on one device: nothing is left of the others
    report_documents.main([str(records(path, ["decoders"], "gpu"))])
    assert shown(places) == [[decoder.title for decoder in decoders()]]
    assert "Not measured" not in (places / "DECODERS").read_text()


def test_a_table_apart_says_what_is_other_about_it(places):
    path = places / "m.json"
    report_documents.main([str(records(path, ["decoders"], "gpu", impl="triton",
                                       names=("wino", "freedave")))])  # fmt: skip
    report_documents.main([str(records(path, ["decoders"], "gpu", names=("elastic_cache",)))])
    text = (places / "DECODERS").read_text()
    assert "### Measured apart: gpu, float32, implementation torch" in text
    assert "of each task, with another implementation; each decoder beside" in text
    report_documents.main([str(records(path, ["decoders"], names=("prophet",), dtype="float64",
                                       impl="triton", commit="abc"))])  # fmt: skip
    text = (places / "DECODERS").read_text()
    assert "### Measured apart: cpu, float64, implementation triton" in text
    assert "with another device and data type; each" in text


def test_what_stands_in_the_repository_is_what_is_read_and_shown():
    path = report_documents.CSV
    found = peers_table.read(path)
    shown = "\n\n".join(
        report_documents.as_markdown(*table) for table in peers_table.tables(found)
    )
    text = report_documents.DECODERS.read_text("utf-8")
    assert report_documents.between_marks(text, shown) == text


def test_the_report_in_the_repository_is_what_its_records_give():
    folder = report_documents.CSV.parent / "report"
    found = load_records(folder / "measured.json")
    shown = markdown(
        report.TITLE, report.facts_in_words(found), sections(found, found.scope, found.parts)
    )
    assert (folder / "report.md").read_text("utf-8") == shown


def test_a_figure_that_is_rounded_twice_is_shown_as_the_file_has_it(places):
    """1765.47 is 1765.5 in the file, and that is 1766."""
    path = places / "m.json"
    found = load_records(records(path, ["decoders"]))
    for run in found.cells.values():
        run.details.update(row_layers_per_token=1765.47, row_layers=1_765_470)
    found.save(path)
    assert report_documents.main([str(path)]) == 0
    with (places / "CSV").open(newline="") as file:
        assert {row["row_layers_per_token"] for row in csv.DictReader(file)} == {"1765.5"}
    text = (places / "DECODERS").read_text()
    assert "| 1766 |" in text and "| 1765 |" not in text


def test_another_table_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "peers.csv").write_text("decoder,task\nwino,word\n")
    with pytest.raises(ValueError, match="is no table of decoders"):
        peers_table.read(tmp_path / "peers.csv")
