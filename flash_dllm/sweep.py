"""Run a sweep that a YAML file describes: python -m flash_dllm.sweep FILE"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from flash_dllm.cli_options import OneLineParser, complain
from flash_dllm.evaluation.sweep_file import SweepFile, read_sweep
from flash_dllm.evaluation.workers import Here, Processes, Ray, Workers, check_first


def parser() -> OneLineParser:
    """All options."""
    cli = OneLineParser(
        prog="python -m flash_dllm.sweep",
        description="Measure a decoder over a space of settings, on Optuna.",
        epilog="The same command goes on with what is missing. optuna-dashboard opens the storage.",
        allow_abbrev=False,
    )
    add = cli.add_argument
    add("file", type=Path, help="the sweep as YAML; docs/evaluation.md says what it holds")
    add("--workers", type=int, default=1, metavar="N", help="local processes")
    add("--ray", metavar="ADDRESS", help="auto, or the address of a Ray cluster")
    add("--export", type=Path, metavar="FILE", help="write the trials as .csv or .parquet")
    add("--no-run", action="store_true", help="only look at what is there, and export it")
    return cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error; 130 when stopped."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser().parse_args(arguments)
    try:
        if options.export is not None and options.export.suffix not in (".csv", ".parquet"):
            raise ValueError(f"--export must end in .csv or .parquet, got {options.export}")
        if options.workers < 1:
            raise ValueError(f"--workers must be a whole number from 1 on, got {options.workers}")
        sweep = read_sweep(options.file)
        run(sweep, options)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        complain(error, {})
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def run(sweep: SweepFile, options) -> None:
    """Run, export, and print the best trials."""
    from flash_dllm.evaluation.study import open_study, run_study, storage_in_words

    study = open_study(sweep)
    if not options.no_run:
        from tqdm import tqdm

        workers = workers_of(options)
        with tqdm(desc=sweep.study, unit=" trials", mininterval=0.5) as bar:

            def start(done: int, total: int) -> None:
                bar.reset(total)
                bar.initial = done
                bar.update(done)

            with storage_in_words(sweep):
                run_study(
                    sweep, study, workers, start, bar.update,
                    # one sentence now, not one a trial
                    lambda: check_first(workers, sweep, None),
                )  # fmt: skip
    if options.export is not None:
        export(study, options.export)
        print(options.export)
    if refused := [t for t in study.get_trials(deepcopy=False) if t.state.name == "PRUNED"]:
        print(f"{len(refused)} pruned, the first because {refused[0].user_attrs.get('reason')}")
    for trial in study.best_trials:
        measured = zip(sweep.objectives, trial.values, strict=True)
        values = ", ".join(f"{name} {value:.4g}" for name, value in measured)
        knobs = ", ".join(f"{name} {value}" for name, value in trial.params.items())
        print(f"best: {values} with {knobs} (trial {trial.number})")
    print(f"study {sweep.study} in {sweep.address}")


def workers_of(options) -> Workers:
    """Where the trials run."""
    from flash_dllm.evaluation.trial import run_trial

    if options.ray is not None:
        return Ray(run_trial, options.ray)
    if options.workers > 1:
        return Processes(run_trial, options.workers)
    return Here(run_trial)


def export(study, path: Path) -> None:
    """All trials as a table. Raises ImportError if Parquet has no writer here."""
    export_table(study.trials_dataframe(), path)


def export_table(table, path: Path) -> None:
    """A table of trials (pandas) as .csv or .parquet. Raises ImportError as `export`."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
        return
    # settings and versions differ in shape from trial to trial; as text they fit a column
    for name in [name for name in table.columns if str(table[name].dtype) == "object"]:
        table[name] = [None if value is None else str(value) for value in table[name]]
    try:
        table.to_parquet(path, index=False)
    except ImportError:
        raise ImportError("Parquet needs a writer; run pip install pyarrow") from None


if __name__ == "__main__":
    sys.exit(main())
