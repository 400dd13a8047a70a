"""Sweeps on the page: what the fields say, a sweep that runs, pauses and goes on, any study."""

import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app import sweep_share
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from app.sweep_form import lines_of, planned, read_lines
from app.sweeps import Place, SweepJob, Sweeps, in_minutes, progress
from flash_dllm.evaluation.study_table import Row, StudyTable, front, read_csv
from flash_dllm.evaluation.sweep_file import as_yaml, checked, read_sweep

optuna = pytest.importorskip("optuna", reason="pip install -r requirements.txt")

PRESET = {"strategy": {"name": "flash_verify"}, "cache": {"name": "flash"}, "config": {}}
SMALL = {"gen_length": 8, "block_length": 8, "cache": "none"}


@pytest.fixture
def sweeps(small_folder):
    return Sweeps(Runs(folder=str(small_folder), device="cpu"))


def plan(sweeps: Sweeps, **more):
    known = {"search": {"epsilon": [0.1, 0.9]}, "fixed": SMALL, "tasks": ["word"], "limit": 2}
    models = sweeps.runs.models
    return planned(models.preset(EMBEDDED), sweeps.storage, **{**known, **more},
                   **models.choice(EMBEDDED))  # fmt: skip


def finish(sweeps: Sweeps, number: str) -> SweepJob:
    *_, job = sweeps.watch(number)
    assert job.error == "", job.error
    return job


# --- the fields


def test_lines_are_knobs_with_values_or_a_range():
    text = "epsilon: 0.8, 0.9\nsearch size: 4 to 16\n\norder: position, confidence\ncorrect: true"
    read = read_lines(text, "search")
    assert read == {
        "epsilon": [0.8, 0.9], "search_size": {"low": 4, "high": 16},
        "order": ["position", "confidence"], "correct": [True],
    }  # fmt: skip
    assert read_lines(lines_of(read), "search") == read


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gamma", "must read like"),
        ("gamma: 1\ngamma: 2", "gamma stands twice under search"),
        ("gamma: a to b", "needs numbers before and behind"),
    ],
)
def test_a_line_that_can_not_be_read_is_one_sentence(text, sentence):
    with pytest.raises(RunError, match=sentence):
        read_lines(text, "search")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tasks": []}, "Choose a task, or type prompts"),
        ({"tasks": ["gsm8k"]}, "Tasks on this page are word, algebra, code, story"),
        ({"limit": 129}, "has 1 to 128 items, got 129"),
        ({"limit": 0}, "has 1 to 128 items, got 0"),
        ({"search": {"epsilon": [k / 1000 for k in range(257)]}}, "at most 256 points, got 257"),
        ({"search": {"gama": [1]}}, "Gama is no knob"),
        ({"search": {"epsilon": [2, 3]}}, "No point of this sweep is possible: epsilon must lie"),
        ({"search": {"epsilon": {"low": 0.1, "high": 1}}}, "must be a list for sampler grid"),
        ({"sampler": "random", "trials": 0}, "needs trials"),
        ({"quality": "speed"}, "Quality must be one of accuracy"),
        ({"fixed": {"gen_length": 1024}}, "gen_length goes up to 512"),
        ({"fixed": {"epsilon": 0.5}}, "Epsilon stands in search and in fixed"),
    ],
)
def test_an_impossible_sweep_is_one_sentence(more, sentence):
    known = {"search": {"epsilon": [0.1]}, "fixed": {}, "tasks": ["word"], "limit": 2}
    with pytest.raises(RunError, match=sentence) as error:
        planned(PRESET, "sqlite:///x.db", **{**known, **more})
    assert "\n" not in str(error.value)


def test_the_name_of_a_sweep_follows_from_its_content():
    def name(**more):
        known = {"search": {"epsilon": [0.1], "gamma": [0.5]}, "fixed": {}, "tasks": ["word"]}
        return planned(PRESET, "sqlite:///x.db", **{**known, **more}).study

    assert name().startswith("epsilon × gamma · ")
    assert name() == name()
    assert name() != name(limit=3) != name(fixed={"seed": 1})


def test_prompts_alone_are_judged_by_agreement():
    sweep = planned(PRESET, "sqlite:///x.db", {"seed": [0, 1]}, {}, prompts=["hello"])
    assert list(sweep.objectives) == ["agreement", "tokens_per_pass"]
    with pytest.raises(ValueError, match="accuracy needs tasks"):
        checked({"study": "s", "storage": "x", "search": {"seed": [0]}, "prompts": ["a"],
                 "objectives": {"accuracy": "maximize"}})  # fmt: skip


def test_a_sweep_is_written_as_the_file_that_the_command_reads(tmp_path):
    search = {"epsilon": [0.1], "gamma": [0.5]}
    sweep = planned(PRESET, "sqlite:///x.db", search, {"seed": 3}, ["word"], quality="both")
    path = tmp_path / "s.yaml"
    path.write_text(as_yaml(sweep), encoding="utf-8")
    assert replace(read_sweep(path), storage=sweep.storage) == sweep


# --- a sweep that runs


def test_peers_are_swept_by_name(sweeps):
    fixed = {"gen_length": 8, "window_size": 8}
    sweep = plan(sweeps, search={"preset": ["prophet", "flash_dllm"]}, fixed=fixed, limit=1)
    assert finish(sweeps, sweeps.start(sweep)).state == "finished"
    rows = sweeps.table(Place(sweep.study, sweep.storage)).complete
    strategies = {row.knobs["preset"]: row.measured["settings"]["strategy"]["name"] for row in rows}
    assert strategies == {"prophet": "prophet", "flash_dllm": "flash_verify"}


def test_a_password_is_in_no_sentence_about_a_storage(sweeps):
    with pytest.raises(RunError) as error:
        sweeps.at("postgresql+no_driver://me:secret@nowhere/sweeps")
    assert "me:***@nowhere" in str(error.value) and "secret" not in str(error.value)


def test_a_sweep_on_the_page_is_the_commands_own(sweeps, small_folder, tmp_path):
    sweep = plan(sweeps, quality="both")
    assert finish(sweeps, sweeps.start(sweep)).state == "finished"
    table = sweeps.table(Place(sweep.study, sweep.storage))
    assert [row.knobs for row in table.complete] == [{"epsilon": 0.1}, {"epsilon": 0.9}]
    for row in table.complete:
        assert row.measured["settings"]["strategy"]["epsilon"] == row.knobs["epsilon"]
        assert len(row.measured["correct"]) == row.measured["items"] == 2
    # the study does not hold its own address, and can go on all the same
    assert table.sweep == sweep
    study = optuna.load_study(study_name=sweep.study, storage=sweep.storage)
    assert "storage" not in study.user_attrs["sweep"]
    # its file, run by the command, measures the same
    path = tmp_path / "same.yaml"
    sweeps.write(table_place := Place(sweep.study, sweep.storage), path)
    from flash_dllm import sweep as command

    assert command.main([str(path)]) == 0
    again = Sweeps(sweeps.runs)
    other = again.table(again.at(f"sqlite:///{tmp_path / 'same.db'}")[0])
    for one, two in zip(table.complete, other.complete, strict=True):
        for metric in ("accuracy", "agreement", "tokens", "passes", "rows", "correct"):
            assert one.measured[metric] == two.measured[metric], metric
    csv = tmp_path / "t.csv"
    sweeps.write(table_place, csv)
    assert csv.read_text().count("\n") == 3
    read = read_csv(csv, sweep)
    assert [row.measured for row in read.complete] == [row.measured for row in table.complete]


def test_a_paused_sweep_goes_on_and_measures_each_point_once(sweeps):
    values = [k / 100 for k in range(1, 91)]
    sweep = plan(sweeps, search={"epsilon": values})
    number = sweeps.start(sweep)
    for job in sweeps.watch(number):
        if job.done and not job.stop.is_set():
            sweeps.pause(number)
    assert job.state == "paused" and job.done < 90
    assert progress(job) == f"Paused: {job.done} of 90 points measured. Resume goes on from here."
    place = Place(sweep.study, sweep.storage)
    assert sweeps.table(place).is_open
    assert finish(sweeps, sweeps.resume(place)).state == "finished"
    table = sweeps.table(place)
    assert not table.is_open and table.settled == 90
    assert sorted(row.knobs["epsilon"] for row in table.complete) == values


def test_whoever_stops_watching_pauses_the_sweep(sweeps):
    sweep = plan(sweeps, search={"epsilon": [k / 100 for k in range(1, 91)]})
    number = sweeps.start(sweep)
    watching = sweeps.watch(number)
    job = next(watching)
    watching.close()
    # a model that is being loaded is loaded first
    assert job.ended.wait(60) and job.state == "paused"
    assert not sweeps.is_running(number)


def test_a_cancelled_sweep_keeps_what_was_measured_and_is_not_open(sweeps):
    sweep = plan(sweeps, search={"epsilon": [k / 100 for k in range(1, 91)]})
    number, place = sweeps.start(sweep), Place(sweep.study, sweep.storage)
    for job in sweeps.watch(number):
        if job.done and not job.stop.is_set():
            sweeps.cancel(number, place)
    table = sweeps.table(place)
    assert job.state == "paused" and table.is_cancelled and not table.is_open
    assert 1 <= table.settled < 90
    # the watcher may tell its last state after the page has told of the cancelling
    assert progress(job) == f"Cancelled after {job.done} of 90 points."


def test_the_next_sweep_waits_for_the_one_that_runs(sweeps):
    one = plan(sweeps, search={"epsilon": [k / 100 for k in range(1, 91)]})
    two = plan(sweeps)
    first, second = sweeps.start(one), sweeps.start(two)
    time.sleep(0.1)
    assert sweeps.job(second).state == "waiting"
    assert progress(sweeps.job(second)).startswith("Another sweep is running")
    with pytest.raises(RunError, match="running already"):
        sweeps.start(one)
    sweeps.pause(first)
    assert finish(sweeps, second).state == "finished"


# --- a page that many share


@pytest.fixture
def shared(small_folder):
    return Sweeps(Runs(folder=str(small_folder), device="cpu", is_open=False))


def test_a_shared_page_takes_so_many_answers_and_says_how_many_it_was_asked_for(shared, sweeps):
    search = {"epsilon": [k / 1000 for k in range(129)]}
    big = plan(shared, search=search, limit=2)
    with pytest.raises(RunError) as error:
        shared.start(big)
    assert str(error.value) == (
        "On this page, which others use too, a sweep has at most 256 answers (points × items), got "
        "258 (129 points of 2 items); leave out values or items, or run the page yourself "
        "(python app.py)."
    )
    sweep_share.check_size(plan(shared, search={"epsilon": search["epsilon"][:128]}, limit=2))
    sweep_share.check_size(plan(shared, tasks=[], prompts=["a", "b"], quality="agreement"))
    with pytest.raises(RunError, match="got whole tasks"):
        sweep_share.check_size(replace(plan(shared), limit=None))
    # a page of one's own goes by the form's bounds
    number = sweeps.start(plan(sweeps, search=search, limit=2))
    sweeps.pause(number)


def test_one_visitor_has_one_sweep_and_four_are_in_the_line(shared):
    many = {"epsilon": [k / 100 for k in range(1, 91)]}
    numbers = [
        shared.start(plan(shared, search=many, fixed={**SMALL, "seed": k}), visitor=who)
        for k, who in enumerate("ab")
    ]
    with pytest.raises(RunError, match="One visitor may have one sweep"):
        shared.start(plan(shared), visitor="b")
    numbers += [
        shared.start(plan(shared, search=many, fixed={**SMALL, "seed": k}))
        for k in (2, 3)
    ]
    with pytest.raises(RunError, match="4 sweeps are running or waiting already"):
        shared.start(plan(shared), visitor="e")
    deadline = time.monotonic() + 20
    last = shared.job(numbers[3])
    while last.ahead != 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert progress(last) == "3 sweeps of this server come before this one."
    jobs = [shared.job(number) for number in reversed(numbers)]
    for job in jobs:
        job.stop.set()
    assert all(job.ended.wait(60) and job.state == "paused" for job in jobs)
    # whoever has paused may start again
    assert finish(shared, shared.start(plan(shared), visitor="b")).state == "finished"


def test_a_strangers_study_does_not_run_on_a_shared_page(shared, sweeps):
    """A file may name tasks whose answers are programs, and run them without a sandbox."""
    sweep = plan(sweeps)
    finish(sweeps, sweeps.start(sweep))
    (place,) = shared.uploaded(sweep.storage.removeprefix("sqlite:///"))
    with pytest.raises(RunError, match="Only a sweep that was started on this page"):
        shared.resume(place)
    again = plan(shared)
    finish(shared, shared.start(again))
    assert finish(shared, shared.resume(Place(again.study, again.storage))).state == "finished"


def test_a_sweep_stands_back_while_visitors_decode_but_never_for_good(monkeypatch):
    monkeypatch.setattr(sweep_share, "STAND_BACK", 0.1)
    ways = []
    begin = time.monotonic()
    sweep_share.stand_back(lambda: True, lambda: ways.append(1), lambda: False)
    assert time.monotonic() - begin >= 0.1 and ways
    ways.clear()
    sweep_share.stand_back(lambda: False, lambda: ways.append(1), lambda: False)
    sweep_share.stand_back(lambda: True, lambda: ways.append(1), lambda: True)
    assert ways == []


def test_a_shared_pages_sweep_looks_at_the_line_of_runs_before_each_step(shared, monkeypatch):
    lengths = []

    def watched(is_busy, give_way, is_over):
        lengths.append(is_busy())

    monkeypatch.setattr(sweep_share, "stand_back", watched)
    place = shared.runs.turns.join("somebody", threading.Event())
    finish(shared, shared.start(plan(shared)))
    assert lengths and all(lengths)
    shared.runs.turns.leave(place)
    lengths.clear()
    finish(shared, shared.start(plan(shared, fixed={**SMALL, "seed": 1})))
    assert lengths and not any(lengths)


def test_what_can_not_be_run_is_one_sentence(sweeps):
    with pytest.raises(RunError, match="The toy example answers from a table"):
        sweeps.start(plan(sweeps), TOY)
    with pytest.raises(RunError, match="no longer known"):
        next(sweeps.watch("99"))
    with pytest.raises(RunError, match="started on this page"):
        sweeps.resume(sweeps.bundled()[0])


# --- studies


def test_any_study_of_optuna_is_read(sweeps, tmp_path):
    address = f"sqlite:///{tmp_path / 'foreign.db'}"
    study = optuna.create_study(storage=address, study_name="other")
    study.optimize(lambda trial: trial.suggest_float("lr", 0, 1) ** 2, n_trials=3)
    places = sweeps.at(address)
    assert places == [Place("other", address)]
    table = sweeps.table(places[0])
    assert table.sweep is None and table.objectives == {"value 0": "minimize"}
    for row, trial in zip(table.complete, study.trials, strict=True):
        assert row.knobs == trial.params and row.measured["value 0"] == trial.value


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("", "Type a storage's address"),
        ("sqlite:////nowhere/x.db", "no file /nowhere/x.db"),
        ("/nowhere/x.db", "no file /nowhere/x.db"),
        ("postgresql+psycopg://nobody@127.0.0.1:1/x", "can't be opened"),
    ],
)
def test_an_address_without_studies_is_one_sentence(sweeps, address, sentence):
    with pytest.raises(RunError, match=sentence) as error:
        sweeps.at(address)
    assert "\n" not in str(error.value)


def test_a_foreign_database_is_refused_and_left_as_it_is(sweeps, tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    (tmp_path / "text.db").write_text("no database")
    for name in ("other.db", "text.db"):
        # where the server keeps what visitors bring is nobody's business
        with pytest.raises(RunError, match="^This file holds no study that can be read; drop "):
            sweeps.uploaded(str(tmp_path / name))
    assert path.read_bytes() == before


def test_a_page_for_many_opens_no_address_of_the_server():
    closed = Sweeps(Runs(is_open=False))
    with pytest.raises(RunError, match="keeps to the models that its owner chose"):
        closed.at("sqlite:////etc/passwd")
    assert closed.table(closed.bundled()[0]).complete


def test_the_bundled_study_is_complete_and_says_how_it_was_made(sweeps):
    (place,) = sweeps.bundled()
    table = sweeps.table(place)
    assert table.sweep is not None and len(table.complete) == table.sweep.total == 36
    assert set(table.knob_values()) == {"epsilon", "gamma"}
    for row in table.complete:
        assert row.measured["items"] == len(row.measured["correct"]) == 32
        right = row.measured["correct"].count("1")
        assert row.measured["accuracy"] == pytest.approx(right / 32)
        assert row.measured["tokens_per_pass"] == pytest.approx(
            row.measured["tokens"] / row.measured["passes"]
        )


def test_a_sqlite_file_keeps_the_pages_studies(small_folder, tmp_path):
    path = tmp_path / "deep" / "sweeps.db"
    sweeps = Sweeps(Runs(folder=str(small_folder), device="cpu"))
    sweeps.keep_in(path)
    assert sweeps.mine() == []
    sweep = plan(sweeps)
    finish(sweeps, sweeps.start(sweep))
    later = Sweeps(Runs())
    later.keep_in(path)
    assert later.mine() == [Place(sweep.study, f"sqlite:///{path}")]


# --- rows


def rows(*points: tuple[float, float]) -> list[Row]:
    return [Row(n, "COMPLETE", {}, {"x": x, "y": y}) for n, (x, y) in enumerate(points)]


def test_the_front_keeps_what_nothing_else_beats_in_both():
    some = rows((1, 0.9), (2, 0.9), (3, 0.5), (2.5, 0.4), (3, 0.5))
    assert [row.number for row in front(some, "x", "y")] == [1, 2]
    # less x is better: the first point has the best of both
    assert [row.number for row in front(some, "x", "y", True)] == [0]
    assert front([], "x", "y") == []


def test_the_front_is_optunas(tmp_path):
    study = optuna.create_study(directions=["maximize", "maximize"])
    points = [(0.1, 5), (0.5, 4), (0.4, 4.5), (0.5, 3), (0.9, 1), (0.2, 1)]
    for x, y in points:
        study.add_trial(optuna.trial.create_trial(values=[x, y]))
    ours = {row.number for row in front(rows(*points), "x", "y")}
    assert ours == {trial.number for trial in study.best_trials}


def test_a_study_knows_its_values_and_what_is_missing():
    sweep = checked({"study": "s", "storage": "x", "search": {"seed": [2, 10, 1]}})
    done = [Row(0, "COMPLETE", {"seed": 10}, {"accuracy": 0.5, "note": "x"}),
            Row(1, "PRUNED", {"seed": 2}), Row(2, "WAITING", {"seed": 1})]  # fmt: skip
    table = StudyTable("s", tuple(done), sweep.objectives, sweep)
    assert table.knob_values() == {"seed": [1, 2, 10]}
    assert table.metrics() == ["accuracy", "tokens_per_pass"]
    assert (table.settled, table.is_open) == (2, True)


def test_durations_are_words():
    assert [in_minutes(s) for s in (0.6, 59.4, 61, 3599, 3660)] == [
        "1 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 1 min",
    ]  # fmt: skip


def test_the_bundled_files_lie_side_by_side():
    from app.sweeps import BUNDLED

    assert {path.stem for path in Path(BUNDLED).glob("*.csv")} == {
        path.stem for path in Path(BUNDLED).glob("*.yaml")
    }
