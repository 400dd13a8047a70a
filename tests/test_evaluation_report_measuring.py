"""A report's measuring: each cell once, speeds in turn, and on from where it was stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flash_dllm import report
from flash_dllm.evaluation.place import place
from flash_dllm.evaluation.report import bench, figure7, measuring, part_times, table6, timing
from flash_dllm.evaluation.report.bench import Bench
from flash_dllm.evaluation.report.cell import Cell
from flash_dllm.evaluation.report.judging import Open, is_above
from flash_dllm.evaluation.report.page import claims_of
from flash_dllm.evaluation.report.part_times import PartTimes
from flash_dllm.evaluation.report.parts import sections
from flash_dllm.evaluation.report.records import load_records
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.evaluation.report.timing_parts import Deadline, begun, time_part
from tests.report_lab import PLACE, run_of


def test_a_cell_is_measured_once_and_its_folder_is_used_again(small_folder, tmp_path):
    bench = Bench(tmp_path, str(small_folder), "torch", "cpu", "float64", limit=2)
    cell = Cell.of("word", 2, strategy="confidence", cache="none", gen_length=8, block_length=8)
    first = bench.measure(cell)
    assert len(first.verdicts) == 2
    # beside others a run has no times that mean anything
    assert first.speed is None and "tokens_per_second" not in first.summary
    (folder,) = tmp_path.iterdir()
    before = (folder / "answers.jsonl").read_bytes()
    assert bench.measure(cell).verdicts == first.verdicts
    assert (folder / "answers.jsonl").read_bytes() == before
    other = Cell.of("word", 2, 1, strategy="confidence", cache="none", gen_length=8)
    assert set(bench.items(cell)) != set(bench.items(other))
    # what is timed is what was counted
    assert bench.decode(cell, 2)() == first.details["tokens"]


class Machine:
    """A clock, and a bench whose decodes move it on: seconds by cell, times its load."""

    def __init__(self, seconds, load=lambda now: 1.0):
        self.now, self.seconds, self.load, self.order = 0.0, seconds, load, []

    def clock(self):
        return self.now

    def decode(self, cell, count):
        def run():
            self.order.append(cell.task)
            self.now += self.seconds(cell, self) * self.load(self.now)
            return 100

        return run


A, B, C = (Cell.of(name) for name in "ABC")


def timed(machine, cells, times=None, **more):
    times = times or PartTimes(PLACE, 4)
    arguments = {"deadline": Deadline(), "save": lambda: None, "clock": machine.clock, **more}
    return times, time_part(machine, times, cells, PLACE, **arguments)


def test_decoders_are_timed_in_turn_and_the_fastest_twice():
    machine = Machine(lambda cell, _: {"A": 3.0, "B": 1.0, "C": 2.0}[cell.task])
    times, is_done = timed(machine, [A, B, C])
    assert is_done and len(times.rounds) == 7
    # two warm-ups each, then rounds
    assert "".join(machine.order) == "AABBCC" + "ABCBBCBA" * 3 + "ABCB"
    # 100 tokens in 3 s
    assert times.timing(A).tokens_per_second == pytest.approx(100 / 3)
    assert times.noise == 1.0 and times.control == 1


def test_what_is_short_is_decoded_more_often_in_a_round():
    machine = Machine(lambda *_: 0.1)
    times, _ = timed(machine, [A])
    # 0.3 s a round, for itself and as control
    assert len(machine.order) == 2 + 7 * (3 + 3)
    assert times.timing(A).seconds == pytest.approx((0.1,) * 7)


@pytest.mark.parametrize(
    ("seconds", "count", "best"),
    [
        # compiled in the first, graphs in the second; the fourth gains nothing
        ([5.0, 2.0, 1.0, 0.99, 0.5], 4, 0.99),
        ([0.64 / 2**k for k in range(20)], 8, 0.005),
        ([30.0, 1.0], 1, 30.0),
    ],
)
def test_warm_ups_end_when_they_gain_nothing_or_at_a_bound(seconds, count, best):
    machine = Machine(lambda _, machine: seconds[len(machine.order) - 1])
    assert timing.warmed_up(machine.decode(A, 1), machine.clock) == (100, pytest.approx(best))
    assert len(machine.order) == count


def test_on_a_machine_that_slows_down_one_decoder_entered_twice_overlaps():
    # twice as slow after 60 seconds
    machine = Machine(lambda *_: 1.0, lambda now: 1 + min(now, 60.0) / 60)
    times, _ = timed(machine, [A, B])
    assert is_above(*(times.timing(cell).speeds for cell in (A, B)), times.noise) is Open.NOISY
    # the same seconds one decoder after the other are told apart
    both = sorted(seconds for found in times.rounds for seconds in found[:2])
    half = len(both) // 2
    one, other = ([100 / seconds for seconds in part] for part in (both[:half], both[half:]))
    assert is_above(one, other, times.noise) is True
    # a decoder that is twice as fast is found to be so
    machine = Machine(lambda cell, _: 1.0 + (cell == B), machine.load)
    times, _ = timed(machine, [A, B])
    assert is_above(*(times.timing(cell).speeds for cell in (A, B)), times.noise) is True


def test_uneven_times_get_more_rounds_up_to_a_bound():
    machine = Machine(lambda _, machine: 1.0 + len(machine.order) % 5)
    times, is_done = timed(machine, [A, B])
    assert is_done and len(times.rounds) == timing.MOST_ROUNDS
    assert times.timing(A).spread > timing.STEADY


def test_rounds_of_two_places_are_never_put_together(caplog):
    elsewhere = {**PLACE, "commit": "def"}
    machine = Machine(lambda *_: 1.0)
    times, _ = timed(machine, [A, B])
    stopped = replace(times, rounds=times.rounds[:3])
    assert begun(stopped, [A, B], 4, PLACE, "table1") is stopped and not caplog.text
    fresh = begun(stopped, [A, B], 4, elsewhere, "table1")
    assert fresh == PartTimes(elsewhere, 4)
    assert (
        "table1: 3 rounds of another place are measured again (commit abc there, def here)"
        in caplog.text
    )
    # complete ones stand, with their own place, and get no round from here
    assert begun(times, [A, B], 4, elsewhere, "table1") is times
    before = len(machine.order)
    assert time_part(machine, times, [A, B], elsewhere, Deadline(), lambda: None)
    assert len(machine.order) == before
    caplog.clear()
    assert begun(times, [A, B, C], 4, PLACE, "table1").rounds == []
    assert "other decoders or items" in caplog.text


def test_stopped_in_its_rounds_a_part_goes_on_with_them():
    machine = Machine(lambda *_: 1.0)
    saved = []

    def stop():
        saved.append(len(machine.order))
        if len(saved) == 3:
            raise KeyboardInterrupt

    times = PartTimes(PLACE, 4)
    with pytest.raises(KeyboardInterrupt):
        timed(machine, [A, B], times, save=stop)
    assert len(times.rounds) == 3
    machine.order.clear()
    timed(machine, [A, B], times)
    # warmed up again, and four rounds more
    assert "".join(machine.order) == "AABB" + "ABA" * 4 and len(times.rounds) == 7
    # a deadline stops between decoders and rounds
    times = PartTimes(PLACE, 4)
    assert timed(machine, [A, B], times, deadline=Deadline(0.0)) == (times, False)
    assert times.rounds == []


def test_what_was_stopped_before_its_first_round_begins_without_a_warning(caplog):
    nothing = PartTimes({**PLACE, "machine": "m2"}, 4)
    assert begun(nothing, [A, B], 4, PLACE, "table1") == PartTimes(PLACE, 4)
    assert not caplog.text
    # a decoder that failed is remembered
    nothing.problems = dict.fromkeys((A, B), "out of memory")
    assert begun(nothing, [A, B], 4, nothing.place, "table1") is nothing


def test_rounds_stop_where_other_parts_wait_for_their_first():
    machine = Machine(lambda _, machine: 1.0 + len(machine.order) % 5)
    times, is_complete = timed(machine, [A, B], most=timing.ROUNDS)
    assert is_complete and len(times.rounds) == timing.ROUNDS and not times.is_done
    before = len(machine.order)
    assert timed(machine, [A, B], times, most=timing.ROUNDS)[1] and len(machine.order) == before
    timed(machine, [A, B], times)
    assert len(times.rounds) == timing.MOST_ROUNDS


def test_a_decoder_that_fails_while_it_is_timed_costs_no_other(caplog):
    def seconds(cell, machine):
        if cell == C or (cell == B and len(machine.order) > 12):
            raise RuntimeError("out of memory.")
        return 1.0

    times, is_done = timed(Machine(seconds), [A, B, C])
    assert is_done and times.cells == [A] and len(times.rounds) == 7
    assert times.problems == dict.fromkeys((C, B), "RuntimeError: out of memory")
    assert times.timing(A).tokens_per_second == 100 and times.timing(B) is None


@pytest.fixture
def quick(monkeypatch):
    """One warm-up and two short rounds, however busy the machine is."""
    for module in (timing, part_times, measuring):
        monkeypatch.setattr(module, "ROUNDS", 2)
    monkeypatch.setattr(timing, "MOST_WARM_UPS", 1)
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(timing, "STEADY", 1e9)


def command(small_folder, tmp_path, *more: str) -> list[str]:
    arguments = ["--model", str(small_folder), "--output", str(tmp_path), "--limit", "2"]
    arguments += ["--tasks", "word", "--batch", "1", "--batches", "1"]
    arguments += ["--device", "cpu", "--dtype", "float32"]
    return [*arguments, *more]


def test_the_command_writes_both_pages(small_folder, tmp_path, monkeypatch, quick):
    monkeypatch.setattr(figure7, "WINDOWS", (8,))
    monkeypatch.setattr(bench, "TRACED", 1)
    for part in (figure7, table6):
        monkeypatch.setattr(part, "LENGTHS", (8, 16))
    parts = ("--parts", "figure7", "figure1", "table6", "--timed-items", "1", "--workers", "2")
    assert report.main(command(small_folder, tmp_path, *parts)) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Figure 7: window" in text and "## Table 6: batch sizes" in text
    assert "old" in text.split("## Which of the paper's claims hold here")[1]
    assert "Speeds: 2 rounds over the 3 decoders, 1 items" in text
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    details = [json.loads(p.read_text()) for p in (tmp_path / "runs").glob("*/details.json")]
    assert [d["batch_size"] for d in details] == [1] * 5
    # the pages come from the records alone
    (tmp_path / "report.md").unlink()
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    assert (tmp_path / "report.md").read_text() == text


@pytest.fixture
def measured(monkeypatch):
    """The cells that were measured; nothing is decoded."""
    found = []

    def measure(bench, cell):
        found.append(cell)
        run = run_of(0.5, None, cell.batch)
        return replace(run, details={**run.details, "places": [place("cpu")]})

    monkeypatch.setattr(Bench, "measure", measure)
    monkeypatch.setattr(Bench, "decode", lambda bench, cell, count: lambda: sum(range(200)))
    return found


@pytest.fixture
def small_report(small_folder, tmp_path, monkeypatch, quick, measured):
    """Arguments of a report of four runs."""
    monkeypatch.setattr(figure7, "WINDOWS", (4, 8))
    return command(small_folder, tmp_path, "--parts", "figure7", "--timed-items", "1",
                   "--measure-only")  # fmt: skip


def test_the_records_alone_are_enough_to_go_on_with(
    small_report, measured, tmp_path, monkeypatch, caplog
):
    def stopped(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "time_part", stopped)
        assert report.main(small_report) == 130
    assert len(measured) == 4 and not (tmp_path / "report.md").exists()
    assert report.main(small_report) == 0 and len(measured) == 4
    found = load_records(tmp_path / "measured.json")
    times = found.times["figure7"]
    assert len(times.cells) == 4 and times.is_done and times.items == 1
    assert times.place == place("cpu")
    # another commit: said, and both are named on the page
    content = json.loads((tmp_path / "measured.json").read_text())
    for cell in content["cells"]:
        cell["details"]["places"][0]["commit"] = "0ld"
    content["facts"]["commit"] = "0ld"
    content["times"]["figure7"]["place"]["commit"] = "0ld"
    (tmp_path / "measured.json").write_text(json.dumps(content))
    assert report.main(small_report) == 0 and len(measured) == 4
    assert "its runs were measured at commit 0ld and stand beside" in caplog.text
    assert report.main(["--output", str(tmp_path), "--render-only"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "commit 0ld. Speeds are of the first 1 items" in text and "(commit 0ld, cpu" in text


def test_out_of_time_it_stops_by_itself_and_goes_on(small_report, measured, tmp_path, capsys):
    assert report.main([*small_report, "--seconds", "0.001"]) == 3
    assert "out of time; the same command goes on from here" in capsys.readouterr().err
    assert len(measured) == 1
    assert report.main(small_report) == 0
    assert len(measured) == 4
    # what was measured stays when another part is asked for
    more = [a if a != "figure7" else "table6" for a in small_report]
    assert report.main([*more, "--timed-items", "0"]) == 0
    found = load_records(tmp_path / "measured.json")
    assert found.parts == ["table6", "figure7"] and "table6" not in found.times
    assert found.part("figure7").measure(measured[0]).speed > 0


def test_parts_are_measured_as_they_are_named_and_each_gets_a_speed_first_if_time_is_short(
    small_report, measured, monkeypatch
):
    asked = []

    def time_part(bench, times, cells, here, deadline, save, on_sample, most):
        asked.append(([cell.knob("window_size") is None for cell in cells], most))
        return True

    monkeypatch.setattr(measuring, "time_part", time_part)
    monkeypatch.setattr(table6, "LENGTHS", (8, 16))
    at = small_report.index("figure7")
    arguments = [*small_report[:at], "table6", *small_report[at:]]
    assert report.main([*arguments, "--seconds", "600"]) == 0
    # three decoders at one batch size, then two decoders at two window sizes
    sixth, seventh = [True] * 3, [False] * 4
    assert [cell.knob("window_size") is None for cell in measured] == sixth + seventh
    assert asked == [(sixth, 2), (seventh, 2), (sixth, 15), (seventh, 15)]
    asked.clear()
    assert report.main(arguments) == 0
    assert asked == [(sixth, 15), (seventh, 15)]


def test_another_choice_of_tasks_says_which_parts_it_leaves_out(small_report, tmp_path, caplog):
    assert report.main([*small_report, "--timed-items", "0"]) == 0
    at = small_report.index("figure7")
    other = [*small_report[:at], "table6", *small_report[at + 1 :], "--timed-items", "0"]
    assert report.main([*other, "--seeds", "2"]) == 0
    assert "figure7 was measured with another choice of seeds and will not be shown" in caplog.text
    assert load_records(tmp_path / "measured.json").parts == ["table6"]
    # named, it needs nothing more here, and is there again
    caplog.clear()
    other.insert(other.index("table6"), "figure7")
    assert report.main([*other, "--seeds", "2"]) == 0 and "another choice" not in caplog.text
    assert load_records(tmp_path / "measured.json").parts == ["table6", "figure7"]


def test_pages_are_made_of_the_parts_that_are_asked_for(small_report, tmp_path, capsys):
    assert report.main([*small_report, "--timed-items", "0"]) == 0
    show = ["--output", str(tmp_path), "--render-only"]
    assert report.main([*show, "--parts", "table6", "figure7"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Figure 7: window" in text and "Table 6: batch" not in text
    assert report.main([*show, "--parts", "table6"]) == 2
    assert "holds figure7, and none of --parts" in capsys.readouterr().err


def test_records_of_another_measuring_are_refused(small_report, tmp_path, capsys):
    assert report.main([*small_report, "--timed-items", "0"]) == 0
    before = (tmp_path / "measured.json").read_bytes()
    assert report.main([*small_report, "--limit", "3"]) == 2
    error = capsys.readouterr().err
    assert "holds records with another items (2, here 3)" in error.splitlines()[-1]
    # and more items than there are
    assert report.main([*small_report, "--limit", "257"]) == 2
    assert "Task word has 256 items" in capsys.readouterr().err
    assert (tmp_path / "measured.json").read_bytes() == before


def test_a_cell_that_fails_costs_only_what_needs_it(small_folder, tmp_path, monkeypatch, measured):
    bench = Bench(tmp_path, str(small_folder), "torch", "cpu", "float64", limit=2)
    real = Bench.measure

    def failing(self, cell):
        if cell.knob("strategy") == "flash_verify":
            raise RuntimeError("out of memory.")
        return real(self, cell)

    monkeypatch.setattr(Bench, "measure", failing)
    scope = Scope(["word"], 2, (1,), 1)
    records, is_complete = measuring.measure_report(
        bench, scope, ["table6"], tmp_path / "m.json", timed_items=0
    )
    assert is_complete
    (made,) = sections(records, scope, ["table6"])
    assert made.title == "Table 6" and made.text == "Not measured: RuntimeError: out of memory."
    assert claims_of([made]) == [
        "Can't be judged (Table 6): what the paper claims there (RuntimeError: out of memory)."
    ]
