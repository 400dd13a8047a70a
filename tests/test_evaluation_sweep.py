"""Sweeps: the file's checks, and studies whose trials are measured exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from flash_dllm import sweep as command
from flash_dllm.evaluation.coordinator import started
from flash_dllm.evaluation.sweep_file import read_sweep
from flash_dllm.evaluation.trial import Impossible, run_trial
from flash_dllm.evaluation.workers import Here, Processes, check_first
from tests.random_model import ROOT
from tests.sweep_studies import (
    FILE,
    GRID,
    calls,
    fake,
    fake_that_kills_its_process_once,
    states,
    studied,
    write,
)

optuna = pytest.importorskip("optuna", reason="pip install -r requirements.txt")

def test_a_grid_is_measured_point_by_point_once(tmp_path):
    study = studied(tmp_path)
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 6
    # ε 0.95 is impossible with both strategies
    assert states(study) == {"COMPLETE": 4, "PRUNED": 2}
    assert {tuple(trial.values) for trial in study.best_trials} == {(0.9, 1.0)}
    assert study.best_trials[0].user_attrs["note"] == "x"
    assert study.metric_names == ["accuracy", "rows_per_token"]
    # again: nothing is left to do
    studied(tmp_path)
    assert len(calls(tmp_path)) == 6
    with pytest.raises(ValueError, match="started with another search"):
        studied(tmp_path, text=GRID.replace("[0.1,", "[0.2, 0.1,"))


def test_stopped_in_the_middle_it_goes_on_and_nothing_is_double(tmp_path):
    count = 0

    def stopping(sweep, knobs):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return fake(sweep, knobs)

    with pytest.raises(KeyboardInterrupt):
        studied(tmp_path, stopping)
    assert len(calls(tmp_path)) == 2
    study = studied(tmp_path)
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 6
    done = [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]
    assert len({trial.user_attrs["point"] for trial in done}) == len(done) == 6


def test_trials_of_a_killed_coordinator_are_sent_out_again(tmp_path):
    from flash_dllm.evaluation import study as module

    sweep = read_sweep(write(tmp_path, GRID + f"data: {tmp_path / 'calls'}\n"))
    study = module.open_study(sweep)
    # what a process leaves behind that dies while a trial runs
    for knobs in module._unplanned(sweep, study):
        module._enqueue(study, knobs, module._point(knobs))
    module._suggest(sweep, study.ask())
    study.set_user_attr("coordinator", {"host": os.uname().nodename, "pid": 2**22, "time": 0.0})
    again = studied(tmp_path)
    assert states(again) == {"FAIL": 1, "COMPLETE": 4, "PRUNED": 2}
    assert len(calls(tmp_path)) == 6


def test_a_study_that_is_being_run_is_refused(tmp_path):
    from flash_dllm.evaluation import study as module

    study = module.open_study(read_sweep(write(tmp_path, GRID)))
    study.set_user_attr("coordinator", {"host": "elsewhere", "pid": 1, "time": time.time()})
    with pytest.raises(ValueError, match="being run by process 1 on elsewhere"):
        studied(tmp_path)


def test_a_storage_whose_tables_another_process_makes_meanwhile_is_opened(tmp_path, monkeypatch):
    from sqlalchemy.exc import OperationalError

    from flash_dllm.evaluation import study as module

    create, failures = optuna.create_study, [OperationalError("", {}, Exception("already exists"))]

    def raced(**how):
        if failures:
            raise failures.pop()
        return create(**how)

    monkeypatch.setattr(optuna, "create_study", raced)
    assert module.open_study(read_sweep(write(tmp_path, GRID))).trials == []


def test_another_process_with_a_dead_coordinators_number_is_not_taken_for_it(tmp_path):
    from flash_dllm.evaluation import study as module

    study = module.open_study(read_sweep(write(tmp_path, GRID + f"data: {tmp_path / 'calls'}\n")))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        me = {"host": os.uname().nodename, "pid": other.pid, "time": time.time()}
        begun = started(other.pid)
        study.set_user_attr("coordinator", {**me, "started": begun})
        with pytest.raises(ValueError, match=f"being run by process {other.pid} on"):
            studied(tmp_path)
        study.set_user_attr("coordinator", {**me, "started": begun - 1})
        assert states(studied(tmp_path)) == {"COMPLETE": 4, "PRUNED": 2}
        other.communicate(b"\n")


def test_a_worker_that_dies_takes_no_trial_with_it(tmp_path):
    workers = Processes(fake_that_kills_its_process_once, 2)
    study = studied(tmp_path, workers=workers)
    assert states(study) == {"COMPLETE": 4, "PRUNED": 2}
    assert len(set(calls(tmp_path))) == 6


def test_random_points_are_new_after_a_pause_and_failures_are_told(tmp_path):
    text = FILE + "search: {epsilon: {low: 0.1, high: 0.9}}\nsampler: random\nfixed: {}\n"
    text = text.replace("fixed: {gen_length: 8, block_length: 8, cache: none}\n", "")
    studied(tmp_path, text=text + "trials: 3\n")
    study = studied(tmp_path, text=text + "trials: 5\n")
    drawn = [trial.params["epsilon"] for trial in study.trials]
    assert len(set(drawn)) == 5 and all(0.1 <= value <= 0.9 for value in drawn)

    def broken(sweep, knobs):
        raise OSError("disk full")

    with pytest.raises(RuntimeError, match="1 trials failed, the first with: OSError: disk full"):
        studied(tmp_path, broken, text=text + "trials: 6\n")


def test_a_real_trial_measures_what_a_run_measures(small_folder, tmp_path):
    path = write(tmp_path, GRID + f"model: {small_folder}\n")
    sweep = read_sweep(path)
    result = run_trial(sweep, {"strategy": "confidence", "epsilon": 0.1})
    assert result["impl"] == "torch" and result["guide_passes"] == 0
    assert result["items"] == 2 and len(result["correct"]) == 2
    assert result["tokens_per_step"] == pytest.approx(result["tokens"] / result["steps"])
    assert result["settings"]["strategy"] == {"name": "confidence", "epsilon": 0.1}
    peer = read_sweep(write(tmp_path, FILE.replace("cache: none", "temperature: 0.0") + (
        f"model: {small_folder}\nsearch: {{preset: [fast_dllm_prefix, prophet, nobody]}}\n")))
    caches = {
        name: run_trial(peer, {"preset": name})["settings"]["cache"]["name"]
        for name in ("fast_dllm_prefix", "prophet")
    }
    assert caches == {"fast_dllm_prefix": "prefix", "prophet": "none"}
    with pytest.raises(Impossible, match="preset must be one of"):
        run_trial(peer, {"preset": "nobody"})
    with pytest.raises(Impossible, match="has no effect"):
        run_trial(sweep, {"strategy": "greedy", "epsilon": 0.1})


def test_the_command_runs_exports_and_says_what_is_best(small_folder, tmp_path, capsys):
    grid = GRID.replace("0.95", "1.5")
    path = write(tmp_path, grid + f"model: {small_folder}\nstudy: mine\n")
    table = tmp_path / "t.csv"
    assert command.main([str(path), "--export", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "best: accuracy" in printed and "study mine in sqlite:///" in printed
    assert "2 pruned, the first because epsilon must lie between 0.0 and 1.0" in printed
    assert table.read_text().count("\n") == 7
    assert (tmp_path / "s.db").is_file()
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pip install pyarrow")
    table = tmp_path / "t.parquet"
    assert command.main([str(path), "--no-run", "--export", str(table)]) == 0
    assert len(pandas.read_parquet(table)) == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("device: cuda", "Device='cuda' needs a CUDA GPU"),
        ("model: /nowhere", "The path /nowhere is not a folder"),
        ("tasks: [gsm8k]\ndata: /nowhere", "give the file of gsm8k"),
        ("tasks: [code]", "--allow-unsandboxed"),
    ],
)
def test_what_the_workers_lack_is_one_sentence_before_the_first_trial(
    change, sentence, small_folder, tmp_path, capsys, monkeypatch
):
    from flash_dllm.evaluation import sandbox

    monkeypatch.setattr(sandbox, "fence_problem", lambda: "bubblewrap is missing")
    keys = {line.split(":")[0] for line in change.splitlines()}
    base = [*GRID.splitlines(), f"model: {small_folder}"]
    kept = [line for line in base if line.split(":")[0] not in keys]
    path = write(tmp_path, "\n".join([*kept, change]))
    assert command.main([str(path)]) == 2
    error = capsys.readouterr().err.splitlines()
    assert sentence in error[-1] and "trials failed" not in error[-1]
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path / 's.db'}")
    assert study.trials == [] and study.user_attrs["coordinator"] is None


def test_a_sweep_that_was_corrected_before_its_first_trial_runs_under_its_name(tmp_path):
    asked = []

    def work(sweep, knobs):
        asked.append(knobs)
        if sweep.dtype == "float16":
            raise RuntimeError("no half floats here")
        return {} if knobs is None else fake(sweep, knobs)

    def ask(text):
        workers = Here(work)
        return studied(tmp_path, workers=workers, text=text,
                       check=lambda sweep: check_first(workers, sweep, None))  # fmt: skip

    wrong = GRID.replace("float32", "float16").replace("accuracy: maximize, ", "")
    with pytest.raises(RuntimeError, match="no half floats here"):
        ask(wrong)
    assert asked == [None]
    # what a begun study may not change, and one objective more
    assert states(ask(GRID)) == {"COMPLETE": 4, "PRUNED": 2}
    # the workers are asked once, and not at all where no trial is missing
    assert len(ask(GRID).trials) == 6 and asked.count(None) == 2 and len(asked) == 8
    with pytest.raises(ValueError, match="started with another"):
        ask(wrong)


def test_a_sweep_that_another_process_took_over_stops_and_leaves_it_its_trials(tmp_path):
    other = {"host": "elsewhere", "pid": 1, "time": time.time()}

    def taken(sweep, knobs):
        optuna.load_study(study_name="s", storage=sweep.storage).set_user_attr("coordinator", other)
        return fake(sweep, knobs)

    with pytest.raises(ValueError, match="is being run by process 1 on elsewhere"):
        studied(tmp_path, taken)
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path / 's.db'}")
    assert study.user_attrs["coordinator"] == other
    assert states(study) == {"RUNNING": 2, "WAITING": 4}


def test_a_long_trial_in_the_coordinators_own_process_leaves_a_sign_of_life(tmp_path, monkeypatch):
    from flash_dllm.evaluation import coordinator

    monkeypatch.setattr(coordinator, "BEAT_SECONDS", 0.05)
    seen = []

    def long(sweep, knobs):
        study = optuna.load_study(study_name="s", storage=sweep.storage)
        begun = study.user_attrs["coordinator"]["time"]
        # the study's own process is at work in here
        while study.user_attrs["coordinator"]["time"] == begun:
            time.sleep(0.02)
        seen.append(begun)
        return fake(sweep, knobs)

    studied(tmp_path, long, text=GRID.replace("[0.1, 0.9, 0.95]", "[0.1]"))
    assert len(seen) == 2


def test_a_storage_that_takes_no_more_is_one_sentence_and_the_sweep_goes_on(tmp_path):
    path = write(tmp_path, GRID + f"data: {tmp_path / 'calls'}\n")
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr[-2000:]
    sentence = run.stderr.strip().splitlines()[-1]
    assert sentence.startswith(f"The storage sqlite:///{tmp_path / 's.db'} can't be written (")
    assert sentence.endswith("and the same command goes on with the rest.")
    before = len(calls(tmp_path))
    study = studied(tmp_path)
    # every point is in the study once; what could not be written was measured again
    done = [t.user_attrs["point"] for t in study.trials if t.state.name in ("COMPLETE", "PRUNED")]
    assert len(done) == len(set(done)) == 6 and before < 6


FULL = """
import resource, signal, sys
from pathlib import Path

from flash_dllm import sweep
from flash_dllm.evaluation import trial
from tests.sweep_studies import fake

def measured(file, knobs):
    if knobs is None:
        return {}
    # as on a full disk: after the second trial the storage may not grow
    found = fake(file, knobs)
    if len(Path(file.data).read_text().splitlines()) == 2:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = Path(sys.argv[1]).with_suffix(".db").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return found | {"note": "x" * 1000}

trial.run_trial = measured
sys.exit(sweep.main([sys.argv[1]]))
"""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("sampler: magic", "sampler must be one of grid"),
        ("sampler: random", "needs trials"),
        ("objectives: {speed: maximize}", "objectives must be among accuracy"),
        ("objectives: {accuracy: up}", "maximize or minimize"),
        ("tasks: [poems]", "tasks must be a list among word"),
        ("search: {gama: [1]}", "gama is no knob"),
        ("search: {gen_length: [8]}", "stands in search and in fixed"),
        ("search: {epsilon: 3}", "must be a list or have low, high"),
        ("search: {epsilon: {low: 0, high: 1}}", "must be a list for sampler grid"),
        ("search: {epsilon: [[1]]}", "must list numbers, texts, true, false or null, got [1]"),
        ("search: {epsilon: [0.6, 0.7, 0.6]}", "search.epsilon holds 0.6 more than once"),
        ("study: 2026", "study must be a text, got 2026"),
        ("seed: x", "yaml: seed must be a whole number"),
        ("allow_unsandboxed: 3", "must be true or false"),
        ("objectives: {accuracy: [up]}", "maximize or minimize"),
        ("tasks: [[word]]", "tasks must be a list among word"),
        ("batch: 0", "batch must be"),
        ("device: gpu", "device must be auto, cpu, cuda or mps, got 'gpu'"),
        ("dtype: float8", "dtype must be one of auto, float32"),
        ("impl: cuda", "impl must be one of auto, torch, triton, got 'cuda'"),
        ("quantize: int4", "quantize must be one of none, int8"),
        ("colour: red", "unknown key colour"),
        ("]", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_one_sentence(change, sentence, tmp_path, capsys):
    key = change.split(":")[0]
    lines = [line for line in GRID.splitlines() if not line.startswith(f"{key}:")]
    path = write(tmp_path, "\n".join([*lines, change]))
    assert command.main([str(path)]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("{low: a, high: 1}", "numbers as low, high and step"),
        ("{low: 0.9, high: 0.1}", "low up to high"),
        ("{low: 0.1, high: 0.9, step: 0}", "a step above 0"),
        ("{low: 0, high: 0.9, log: true}", "a low above 0 and no step"),
    ],
)
def test_an_impossible_range_leaves_no_trial_behind(values, sentence, tmp_path, capsys):
    lines = GRID.replace("sampler: grid", "").splitlines()
    kept = [line for line in lines if not line.startswith(("search", "fixed", "  "))]
    text = "\n".join([*kept, "sampler: random", "trials: 1", f"search: {{gamma: {values}}}"])
    assert command.main([str(write(tmp_path, text))]) == 2
    error = capsys.readouterr().err
    # the file's own name of the knob, not an option's
    assert sentence in error and "search.gamma must" in error and error.count("\n") == 1
    assert not (tmp_path / "s.db").exists()


def test_two_ray_nodes_and_a_killed_worker_lose_nothing(tmp_path):
    pytest.importorskip("ray", reason="pip install -r requirements-ray.txt")
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip().splitlines()[-1] == "COMPLETE 4 PRUNED 2 points 6 nodes 2"


CLUSTER = """
import sys
from pathlib import Path

from ray.cluster_utils import Cluster

from flash_dllm.evaluation.study import open_study, run_study
from flash_dllm.evaluation.sweep_file import read_sweep
from flash_dllm.evaluation.workers import Ray
from tests.sweep_studies import GRID, fake_that_kills_its_process_once

folder = Path(sys.argv[1])
path = folder / "s.yaml"
path.write_text(GRID + f"data: {folder / 'calls'}\\n")
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
sweep = read_sweep(path)
study = open_study(sweep)
workers = Ray(fake_that_kills_its_process_once, cluster.address)
nodes = workers.size
run_study(sweep, study, workers)
cluster.shutdown()
names = [trial.state.name for trial in study.trials]
points = {trial.user_attrs["point"] for trial in study.trials}
assert (folder / "calls.killed").exists() and len(names) == 6
print("COMPLETE", names.count("COMPLETE"), "PRUNED", names.count("PRUNED"), "points", len(points),
      "nodes", nodes)
"""
