"""A study in a real PostgreSQL: measured once, gone on with, read by others, no password shown."""

from __future__ import annotations

import pytest
from sqlalchemy.pool import NullPool

from flash_dllm import sweep as command
from flash_dllm.evaluation.study import open_study, run_study
from flash_dllm.evaluation.sweep_file import read_sweep
from flash_dllm.evaluation.workers import Here, Processes
from tests.postgres_server import PASSWORD, programs, server
from tests.sweep_studies import (
    GRID,
    calls,
    fake,
    fake_that_kills_its_process_once,
    states,
    write,
)

optuna = pytest.importorskip("optuna", reason="pip install -r requirements.txt")


@pytest.fixture(scope="module")
def address():
    if programs() is None:
        pytest.skip("PostgreSQL is missing (Debian: apt install postgresql); CI installs it")
    with server() as found:
        yield found


def sweep_of(tmp_path, address, study):
    text = GRID + f"storage: {address}\nstudy: {study}\ndata: {tmp_path / 'calls'}\n"
    return write(tmp_path, text)


def opened(address, name):
    """A study as others open it: by address and name; no connection stays open."""
    storage = optuna.storages.RDBStorage(address, engine_kwargs={"poolclass": NullPool})
    return optuna.load_study(study_name=name, storage=storage)


def test_a_study_runs_stops_and_goes_on(tmp_path, address):
    count = 0

    def stopping(sweep, knobs):
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return fake(sweep, knobs)

    sweep = read_sweep(sweep_of(tmp_path, address, "stopped"))
    with pytest.raises(KeyboardInterrupt):
        run_study(sweep, open_study(sweep), Here(stopping))
    # the rest in two processes, one of which dies
    study = open_study(sweep)
    run_study(sweep, study, Processes(fake_that_kills_its_process_once, 2))
    assert len(set(calls(tmp_path))) == 6
    # two were under way when it was stopped: one being measured, one sent ahead
    assert states(study) == {"COMPLETE": 4, "PRUNED": 2, "FAIL": 2}
    # as a dashboard opens it: with nothing but the address and the name
    seen = opened(address, "stopped")
    assert seen.metric_names == ["accuracy", "rows_per_token"]
    assert {tuple(trial.values) for trial in seen.best_trials} == {(0.9, 1.0)}
    assert len(optuna.visualization.plot_pareto_front(seen).data) >= 1


def test_the_command_shows_the_address_without_its_password(tmp_path, address, capsys):
    path = sweep_of(tmp_path, address, "shown")
    open_study(read_sweep(path))
    table = tmp_path / "t.csv"
    assert command.main([str(path), "--no-run", "--export", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "study shown in postgresql+psycopg://tester:***@127.0.0.1" in printed
    study = opened(address, "shown")
    assert PASSWORD not in printed and PASSWORD not in str(study.user_attrs)
    wrong = sweep_of(tmp_path, address.replace(PASSWORD, "another-secret"), "shown")
    assert command.main([str(wrong), "--no-run"]) == 2
    error = capsys.readouterr().err
    assert "can't be opened" in error and "another-secret" not in error
    assert error.count("\n") == 1
