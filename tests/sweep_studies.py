"""A small sweep, and trials that only write down that they were asked."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from flash_dllm.evaluation.sweep_file import read_sweep
from flash_dllm.evaluation.trial import Impossible
from flash_dllm.evaluation.workers import Here

FILE = """
objectives: {accuracy: maximize, rows_per_token: minimize}
tasks: [word]
limit: 2
batch: 2
device: cpu
dtype: float32
fixed: {gen_length: 8, block_length: 8, cache: none}
"""
GRID = FILE + "search: {strategy: [flash_verify, confidence], epsilon: [0.1, 0.9, 0.95]}\n"


def write(tmp_path, text: str) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return path


# workers import these by name: what a trial measures is beside the point here


def fake(sweep, knobs):
    """Numbers that follow from the knobs, and a line in a file for every call."""
    with open(sweep.data, "a") as file:
        file.write(f"{knobs}\n")
    if knobs.get("epsilon") == 0.95:
        raise Impossible("no")
    return {"accuracy": knobs["epsilon"], "rows_per_token": 1.0, "note": "x"}


def fake_that_kills_its_process_once(sweep, knobs):
    flag = Path(f"{sweep.data}.killed")
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return fake(sweep, knobs)


def studied(tmp_path, work=fake, workers=None, text=GRID, check=lambda sweep: None):
    from flash_dllm.evaluation.study import open_study, run_study

    path = write(tmp_path, text + f"data: {tmp_path / 'calls'}\n")
    sweep = read_sweep(path)
    study = open_study(sweep)
    run_study(sweep, study, workers or Here(work), check=lambda: check(sweep))
    return study


def calls(tmp_path) -> list[str]:
    return sorted((tmp_path / "calls").read_text().splitlines())


def states(study) -> dict[str, int]:
    names = [trial.state.name for trial in study.trials]
    return {name: names.count(name) for name in names}
