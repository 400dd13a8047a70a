"""The paper's tables and figures on a model: python -m flash_dllm.report --output DIR

Measuring and showing are apart where that helps (a GPU machine without Plotly, say):

    python -m flash_dllm.report --output DIR --measure-only      # writes DIR/measured.json
    python -m flash_dllm.report --output DIR --render-only       # writes the pages from it

`measured.json` alone is enough to go on with: on another machine, or where the runs are gone.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from flash_dllm.cli_options import OneLineParser, add_machine_options, complain, folder_name
from flash_dllm.evaluation.report.decoders import decoders
from flash_dllm.evaluation.report.parts import PARTS, sections
from flash_dllm.evaluation.report.records import FILE, Records, load_records
from flash_dllm.evaluation.report.section import BATCHES, SEEDS, Scope
from flash_dllm.evaluation.tasks import ASSETS, OWN_TASKS
from flash_dllm.full_disk import in_words


def parser() -> OneLineParser:
    """All options."""
    cli = OneLineParser(
        prog="python -m flash_dllm.report",
        description="The paper's tables and figures on a model of yours.",
        epilog="The same command goes on with what is missing in DIR/measured.json.",
        allow_abbrev=False,
    )
    add = cli.add_argument
    add("--output", required=True, type=folder_name, metavar="DIR")
    add_machine_options(cli)
    add("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
        help=", ".join(PARTS))  # fmt: skip
    add("--tasks", nargs="+", choices=OWN_TASKS, default=list(OWN_TASKS), metavar="TASK",
        help="of table1 and decoders; the first one is the other parts' task")  # fmt: skip
    add("--tasks-folder", type=Path, default=ASSETS, metavar="DIR", help="folder of the task sets")
    add("--limit", type=int, default=64, metavar="N", help="items a run")
    add("--batch", type=int, default=32, metavar="B", help="of every part but table6 and embedded")
    add("--batches", nargs="+", type=int, default=list(BATCHES), metavar="B",
        help="of table6; the smallest and the largest of embedded")  # fmt: skip
    add("--seeds", type=int, default=SEEDS, metavar="N", help="of table4")
    add("--decoders", nargs="+", choices=[d.name for d in decoders()[1:]], default=[],
        metavar="NAME", help="of part decoders: only these, beside one token a step; peers by "
        "their names, or preset")  # fmt: skip
    add("--workers", type=int, default=1, metavar="N", help="processes that measure accuracies "
        "and counts side by side; speeds come after, alone")  # fmt: skip
    add("--timed-items", type=int, default=64, metavar="N", help="items that a speed is of; 0 for "
        "no speeds")  # fmt: skip
    add("--seconds", type=float, metavar="N", help="stop by oneself after so long, with exit code "
        "3 if something is missing")  # fmt: skip
    add("--records", type=Path, metavar="FILE", help=f"default: DIR/{FILE}")
    stage = cli.add_mutually_exclusive_group()
    stage.add_argument("--measure-only", action="store_true", help="no pages")
    stage.add_argument("--render-only", action="store_true", help="pages from the records: no "
                       "model is loaded")  # fmt: skip
    add("--allow-unsandboxed", action="store_true", help="run code answers without bubblewrap")
    return cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error; 3 out of time; 130 when stopped."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser().parse_args(arguments)
    path = options.records or options.output / FILE
    try:
        for name in ("limit", "batch", "seeds", "workers"):
            if getattr(options, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be a whole number from 1 on")
        if options.timed_items < 0:
            raise ValueError("--timed-items must be a whole number from 0 on")
        if options.seconds is not None and not options.seconds > 0:
            raise ValueError("--seconds must be above 0")
        if min(options.batches) < 1:
            raise ValueError("--batches must be whole numbers from 1 on")
        for folder in (options.output, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
        records, is_complete = (
            (load_records(path), True) if options.render_only else measured(options, path)
        )
        if options.measure_only or not is_complete:
            print(path)
            if is_complete:
                return 0
            print("out of time; the same command goes on from here", file=sys.stderr)
            return 3
        # Plotly is needed from here on
        from flash_dllm.evaluation.report.page import write_report

        # measuring adds to what is there; showing alone may show less
        asked = options.parts if options.render_only else records.parts
        parts = [part for part in records.parts if part in asked]
        if not parts:
            raise ValueError(
                f"{path} holds {', '.join(records.parts) or 'no part'}, and none of --parts"
            )
        with readable(path) if options.render_only else nullcontext():
            made = sections(records, records.scope, parts)
            pages = write_report(options.output, TITLE, facts_in_words(records), made)
        for page in pages:
            print(page)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        complain(in_words(error, options.output))
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


TITLE = "The paper's tables on this model"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """A value of the file that was changed since it was measured is one sentence: it shows where
    the page wants to use it, whatever Python says there."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        raise ValueError(
            f"{path} holds a value that this report did not write ({error!r}); bring the file back "
            "as it was, or measure again into an empty folder"
        ) from error


def measured(options: argparse.Namespace, path: Path) -> tuple[Records, bool]:
    """Measure what the options ask for, with a progress bar that knows how much there is."""
    from tqdm import tqdm

    from flash_dllm.evaluation.report.bench import Bench
    from flash_dllm.evaluation.report.measuring import measure_report

    bench = Bench(
        options.output / "runs", options.model, options.impl, options.device, options.dtype,
        options.limit, options.tasks_folder, options.allow_unsandboxed,
    )  # fmt: skip
    scope = Scope(
        tuple(options.tasks), options.batch, tuple(options.batches), options.seeds,
        tuple(options.decoders),
    )  # fmt: skip
    with tqdm(desc="report", unit=" steps", mininterval=0.5) as bar:
        return measure_report(
            bench, scope, options.parts, path, options.workers, options.timed_items,
            options.seconds, bar.reset, bar.update,
        )  # fmt: skip


def facts_in_words(records: Records) -> str:
    """What stands on top of a page."""
    facts = records.facts
    found = facts["versions"]
    speeds = "No speeds were measured."
    if facts["timed_items"] is not None:
        speeds = (
            f"Speeds are of the first {facts['timed_items']} items, decoded with nothing else "
            "running: the decoders of a table in turn, several rounds of that; medians, 20 and 80 "
            "percentiles in brackets. Two speeds are compared by their ratio within each round; "
            "where its 20 and 80 percentiles include 1, or its median is no further from 1 than "
            "those of one decoder entered twice, a claim is too noisy to judge."
        )
    commit = f", commit {facts['commit']}" if facts["commit"] else ""
    return (
        f"Model {facts['model']} ({facts['fingerprint']}), {facts['device']}, {facts['dtype']}, "
        f"implementation {facts['impl']}, {facts['items']} items a run; torch {found['torch']}, "
        f"Python {found['python']}{commit}. {speeds} What a table does not name comes from the "
        "model's preset. The paper's values stand apart: another model, other tasks, another "
        "machine."
    )


if __name__ == "__main__":
    sys.exit(main())
