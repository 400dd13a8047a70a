"""The paper's tables and figures on a model: python -m flash_dllm.report --output DIR"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flash_dllm.cli import OneLineParser, complain
from flash_dllm.evaluation import report_tables as tables
from flash_dllm.evaluation.measurement import versions
from flash_dllm.evaluation.report_cells import Laboratory
from flash_dllm.evaluation.report_page import write_report
from flash_dllm.evaluation.tasks import ASSETS, OWN_TASKS
from flash_dllm.models import DTYPES, load_model

PARTS = ("table1", "table2", "table4", "table5", "table6", "figure1", "figure56", "figure7")


def parser() -> OneLineParser:
    """All options."""
    cli = OneLineParser(
        prog="python -m flash_dllm.report",
        description="The paper's tables and figures on a model of yours.",
        epilog="Runs are kept in DIR/runs: the same command goes on with what is missing.",
        allow_abbrev=False,
    )
    add = cli.add_argument
    add("--output", required=True, type=Path, metavar="DIR")
    add("--model", metavar="DIR", help="checkpoint folder (default: the embedded model)")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
        help=", ".join(PARTS))  # fmt: skip
    add("--tasks", nargs="+", choices=OWN_TASKS, default=list(OWN_TASKS), metavar="TASK",
        help="Table 1's rows; the first one is the other parts' task")  # fmt: skip
    add("--tasks-folder", type=Path, default=ASSETS, metavar="DIR", help="folder of the task sets")
    add("--limit", type=int, default=64, metavar="N", help="items a run")
    add("--batch", type=int, default=32, metavar="B", help="of every part but table6")
    add("--batches", nargs="+", type=int, default=list(tables.BATCHES), metavar="B",
        help="of table6")  # fmt: skip
    add("--seeds", type=int, default=tables.SEEDS, metavar="N", help="of table4")
    add("--impl", default="auto", choices=("auto", "torch", "triton"))
    add("--device", default="auto", help="auto, cpu, cuda or mps")
    add("--dtype", default="auto", choices=DTYPES)
    add("--allow-unsandboxed", action="store_true", help="run code answers without bubblewrap")
    return cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error; 130 when stopped."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser().parse_args(arguments)
    try:
        for name in ("limit", "batch", "seeds"):
            if getattr(options, name) < 1:
                raise ValueError(f"--{name} must be a whole number from 1 on")
        for path in make(options):
            print(path)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        complain(error)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def make(options) -> list[Path]:
    """Measure and write; returns the pages."""
    from tqdm import tqdm

    engine = load_model(options.model, options.impl, options.device, options.dtype)
    with tqdm(desc="runs", unit=" runs", mininterval=0.5) as bar:
        lab = Laboratory(
            engine, options.output / "runs", options.limit, options.tasks_folder,
            options.allow_unsandboxed, lambda cell: bar.update(),
        )  # fmt: skip
        tasks, batch = options.tasks, options.batch
        makers: dict[str, Callable[[], tables.Section]] = {
            "table1": lambda: tables.table_1(lab, tasks, batch),
            "table2": lambda: tables.table_2(lab, tasks, batch),
            "table4": lambda: tables.table_4(lab, tasks, batch, options.seeds),
            "table5": lambda: tables.table_5(lab, tasks, batch),
            "table6": lambda: tables.table_6(lab, tasks, options.batches),
            "figure1": lambda: tables.figure_1(lab),
            "figure56": lambda: tables.figures_5_and_6(lab, tasks, batch),
            "figure7": lambda: tables.figure_7(lab, tasks, batch),
        }
        sections = [makers[part]() for part in PARTS if part in options.parts]
    info, found = engine.info, versions()
    facts = (
        f"Model {info.name} ({info.fingerprint}), {info.device}, {info.dtype}, implementation "
        f"{info.impl}, {options.limit} items a run; torch {found['torch']}, Python "
        f"{found['python']}. What a table does not name comes from the model's preset. The paper's "
        "values stand apart: another model, other tasks, another machine."
    )
    return write_report(options.output, "The paper's tables on this model", facts, sections)


if __name__ == "__main__":
    sys.exit(main())
