"""Measure one decoder on one task: python -m flash_dllm.evaluate --task word --output DIR …"""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flash_dllm.cli_options import (
    QUANTIZE_HELP,
    OneLineParser,
    add_decoder_options,
    complain,
    folder_name,
    given_of,
)
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.run import Plan, measure
from flash_dllm.evaluation.sandbox import WORKERS
from flash_dllm.evaluation.tasks import ASSETS, OWN_TASKS, TASKS, load_task
from flash_dllm.full_disk import in_words
from flash_dllm.models import QUANTIZATIONS, load_model, load_preset, locate


def parser() -> OneLineParser:
    """All options; those of the decoder take the model's preset where they are left out."""
    cli = OneLineParser(
        prog="python -m flash_dllm.evaluate",
        description="Accuracy and cost of one decoder on one task.",
        epilog="A folder that holds a part of the same run is gone on with.",
        allow_abbrev=False,
    )
    add = cli.add_argument
    add("--task", required=True, metavar="NAME", help=", ".join(TASKS))
    add("--output", required=True, type=folder_name, metavar="DIR", help="folder of the results")
    add("--limit", type=int, metavar="N", help="only the first N items")
    add("--batch", type=int, default=1, metavar="B", help="sequences at a time")
    add_decoder_options(cli)
    add("--quantize", default="none", choices=QUANTIZATIONS, help=QUANTIZE_HELP)
    add("--preset", metavar="NAME", help="settings to start from: the model's, or a peer's "
        "(python -m flash_dllm --list)")  # fmt: skip
    add("--raw", action="store_true", help="prompts as plain text: no chat template")
    add("--tasks", type=Path, default=ASSETS, metavar="DIR", help="folder of the own task sets")
    add("--data", type=Path, metavar="PATH", help="file or folder of a public set; without it "
        "the package datasets downloads it")  # fmt: skip
    add("--traces", action="store_true", help="keep the trace of each item")
    add("--profile", action="store_true", help="also profile the first batch: trace and times of "
        "each pass, in DIR/profile")  # fmt: skip
    add("--workers", type=int, default=WORKERS, metavar="N", help="code answers run at a time")
    add("--allow-unsandboxed", action="store_true", help="run code answers without bubblewrap: "
        "model-written code then has your rights")  # fmt: skip
    return cli


def _check(options: Namespace) -> None:
    """What would otherwise fail after minutes. Raises ValueError."""
    for name in ("batch", "workers"):
        if (value := getattr(options, name)) < 1:
            raise ValueError(f"--{name} must be a whole number from 1 on, got {value}")
    if options.data is not None and options.task in OWN_TASKS:
        raise ValueError(
            f"--data is for public sets; give the folder of {options.task}.jsonl with --tasks"
        )
    if options.output.exists() and not options.output.is_dir():
        raise ValueError(f"--output names a folder, and {options.output} is a file")


def _make(folder: Path) -> None:
    """Raises ValueError where that is impossible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"the folder {folder} can't be made ({error.strerror}); choose another --output"
        ) from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the folder {folder} can't be written; choose another --output")


def line_of(summary: dict[str, Any]) -> str:
    """A summary in one line."""
    low, high = summary["accuracy_ci95"]
    guide = f" (without its guide's {n} passes)" if (n := summary.get("guide_passes")) else ""
    return (
        f"{summary['task']}: {100 * summary['accuracy']:.1f} % of {summary['items']} items right "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f}), "
        f"{summary['tokens_per_step']:.2f} tokens/step, "
        f"{summary['tokens_per_pass']:.2f} tokens/pass{guide}, "
        f"{summary['tokens_per_second']:.1f} tokens/s at batch "
        f"{summary['settings']['batch_size']}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error; 130 when stopped."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser().parse_args(arguments)
    try:
        _check(options)
        preset = load_preset(locate(options.model), options.preset)
        settings = lean_settings(preset, given_of(options))
        items = load_task(options.task, options.limit, options.tasks, options.data)
        _make(options.output)
        engine = load_model(
            options.model, options.impl, options.device, options.dtype, not options.no_graphs,
            options.quantize, guide=options.guide,
        )  # fmt: skip
        if options.impl == "auto":
            engine = engine.suited(settings.cache)
        plan = Plan(
            options.task,
            items,
            settings,
            options.batch,
            options.raw,
            options.traces,
            options.workers,
            options.allow_unsandboxed,
        )
        summary = _with_progress(engine, plan, options.output)
        if options.profile:
            print(_profiled(engine, plan, options.output / "profile"))
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        complain(in_words(error, options.output))
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(line_of(summary))
    print(options.output / "summary.json")
    return 0


def _with_progress(engine: Any, plan: Plan, folder: Path) -> dict[str, Any]:
    """`measure` with a line that says how far it is and how long it will take."""
    from tqdm import tqdm

    bar: tqdm | None = None

    def start(done: int, total: int) -> None:
        nonlocal bar
        bar = tqdm(desc=plan.task, total=total, initial=done, unit=" items", mininterval=0.5)

    def advance() -> None:
        if bar is not None:
            bar.update()

    try:
        return measure(engine, plan, folder, start, advance)
    finally:
        if bar is not None:
            bar.close()


def _profiled(engine: Any, plan: Plan, folder: Path) -> str:
    """Profile the first batch apart from the measured run; a table in words."""
    from flash_dllm.evaluation.measurement import fitting
    from flash_dllm.evaluation.profile import profile, summary

    prompts = [engine.encode(item.prompt, plan.raw) for item in plan.items]
    _, prompts = fitting(engine, plan.items, prompts, plan.settings.config)
    passes = profile(engine, prompts[: plan.batch_size], plan.settings, folder)
    lines = [
        f"{kind} ({facts.pop('passes'):.0f} passes), median ms: "
        + ", ".join(f"{name} {value:.2f}" for name, value in facts.items())
        for kind, facts in summary(passes).items()
    ]
    return "\n".join([*lines, str(folder)])


if __name__ == "__main__":
    sys.exit(main())
