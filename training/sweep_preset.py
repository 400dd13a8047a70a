"""Choose a model's default settings by measurement: one command, a table and a `preset.json`.

    python -m training.held_out --output CHOOSING --seed 1 --exclude assets/tasks
    python -m training.sweep_preset --model assets/tiny --choose-on CHOOSING --output SWEEP \\
        --budget-seconds 150 --workers 8

Settings are chosen on items of their own, so that the figures on `assets/tasks` are not those of
the luckiest of many settings.

1. Confidence 0.9 without cache, with blocks of 32 and with one block that suppresses positions
   behind an end token. The layout of the faster one whose accuracy holds (rule below, against the
   more accurate of the two) is used from there on, and that decoder is the reference.
2. Greedy in both layouts, then Flash-Verify on a grid, the likeliest winners first, until the
   budget is spent.
3. The rule: among settings that hold the reference's accuracy, the most tokens a step; ties go to
   fewer rows. "Hold": exact McNemar p > 0.05 and the 95 % interval of the paired difference lies
   above -2.5 points, on all choosing items together.
4. The report: the chosen settings and the baselines on the shipped items, first the domains that
   chose, then those that took no part.

Writes `preset.json`, `sweep.csv`, `sweep.md` and `sweep.json` into `--output`. Processes share the
device, so seconds say how long the sweep took and are no benchmark.
"""

from __future__ import annotations

import argparse
import csv
import gc
import itertools
import json
import logging
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flash_dllm.caches.flash import FlashCache
from flash_dllm.caches.none import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.evaluation.measurement import (
    Run,
    Summary,
    by_domain,
    decode_items,
    encode_items,
    fitting,
    read_items,
    summarize,
    versions,
)
from flash_dllm.evaluation.scoring import WORKERS, are_correct
from flash_dllm.evaluation.statistics import PairedDifference, paired_difference
from flash_dllm.models import DTYPES, load_model
from flash_dllm.settings import Settings
from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.strategies.flash_verify import FlashVerify
from flash_dllm.strategies.greedy import Greedy
from training.generators import DOMAINS
from training.generators.item import Item

log = logging.getLogger(__name__)

GEN_LENGTH, WINDOW_SIZE, BLOCK_LENGTH = 128, 32, 32
REFERENCE_EPSILON = 0.9
LAYOUTS = ("blocks", "suppress")
SIGNIFICANCE = 0.05
# 3 points are promised; half a point less here, as the fastest of many settings is a lucky one
LOWEST_DIFFERENCE = -0.025


@dataclass(frozen=True)
class Grid:
    """What is tried, in each field the likeliest winners first, for a budget that ends early: the
    rule asks for tokens a step."""

    acceptance: tuple[str, ...] = ("each", "joint")
    track_size: tuple[int, ...] = (32,)
    correct: tuple[bool, ...] = (True, False)
    epsilon: tuple[float, ...] = (0.9, 0.95)
    search_size: tuple[int, ...] = (16, 8)
    order: tuple[str, ...] = ("position", "confidence")
    gamma: tuple[float, ...] = (0.6, 0.7, 0.5, 0.8)

    def cases(self, layout: str) -> list[Case]:
        """Flash-Verify with cache in every combination; the last field varies fastest."""
        found = []
        for values in itertools.product(*asdict(self).values()):
            knobs = dict(zip(asdict(self), values, strict=True))
            cache = FlashCache(track_size=knobs.pop("track_size"))
            settings = Settings(FlashVerify(**knobs), cache, layout_config(layout))
            found.append(Case("grid", layout, settings))
        return found


@dataclass(frozen=True)
class Case:
    """One line of the sweep. layout: how the answer's end is kept from wasting steps."""

    kind: str
    layout: str
    settings: Settings

    @property
    def label(self) -> str:
        """A short name, unique in a sweep."""
        strategy, cache = self.settings.strategy, self.settings.cache
        parts = [strategy.name]
        if isinstance(strategy, Confidence | FlashVerify):
            parts.append(f"ε {strategy.epsilon:g}")
        if isinstance(strategy, FlashVerify):
            size = "all" if strategy.search_size is None else strategy.search_size
            parts += [f"γ {strategy.gamma:g}", f"search {size}", strategy.acceptance]
            parts += [f"by {strategy.order}", *["corrected"] * strategy.correct]
        if isinstance(cache, FlashCache):
            return " ".join([*parts, f"flash {cache.track_size}", self.layout])
        return " ".join([*parts, cache.name, self.layout])


@dataclass(frozen=True)
class Result:
    """One case, decoded and scored; `difference` is the case minus the reference."""

    case: Case
    run: Run
    correct: tuple[bool, ...]
    difference: PairedDifference | None = None

    @property
    def total(self) -> Summary:
        """All items together."""
        return summarize("all", self.run.decoded, self.correct)

    def against(self, reference: Result) -> Result:
        """The same with the paired difference to `reference`."""
        difference = paired_difference(self.correct, reference.correct)
        return Result(self.case, self.run, self.correct, difference)

    @property
    def is_admitted(self) -> bool:
        """Whether the accuracy holds against the reference."""
        assert self.difference is not None, "compare with a reference first"
        return self.difference.p > SIGNIFICANCE and self.difference.low > LOWEST_DIFFERENCE


def layout_config(layout: str) -> DecodeConfig:
    """Two ways to keep end tokens at the far end of the window from wasting steps."""
    return DecodeConfig(
        gen_length=GEN_LENGTH,
        window_size=WINDOW_SIZE,
        block_length=BLOCK_LENGTH if layout == "blocks" else None,
        suppress_after_eos=layout == "suppress",
        alternatives=0,
    )


def baselines(strategy: DecodingStrategy, layouts: Sequence[str] = LAYOUTS) -> list[Case]:
    """A strategy without cache, in each layout."""
    return [
        Case("baseline", layout, Settings(strategy, NoCache(), layout_config(layout)))
        for layout in layouts
    ]


def fastest(results: Sequence[Result]) -> Result:
    """Most tokens a step; ties by fewer rows a token."""
    return min(results, key=lambda r: (-r.total.tokens_per_step, r.total.rows_per_token))


def choose_reference(results: Sequence[Result]) -> Result:
    """The fastest confidence baseline that holds the accuracy of the most accurate one."""
    candidates = [r for r in results if isinstance(r.case.settings.strategy, Confidence)]
    best = max(candidates, key=lambda r: (sum(r.correct), r.total.tokens_per_step))
    return fastest([r for r in candidates if r is best or r.against(best).is_admitted])


def choose_preset(results: Sequence[Result], reference: Result) -> Result:
    """The rule; the reference itself where no setting of the grid holds its accuracy."""
    admitted = [r for r in results if r.case.kind == "grid" and r.is_admitted]
    return fastest(admitted) if admitted else reference


def preset_of(case: Case) -> dict[str, Any]:
    """What `preset.json` holds: only the knobs that the sweep decides or fixes."""
    strategy, cache, config = case.settings.described().values()
    wanted = ("name", "epsilon", "gamma", "search_size", "acceptance", "order", "correct")
    return {
        "strategy": {key: strategy[key] for key in wanted if key in strategy},
        "cache": {key: cache[key] for key in ("name", "track_size") if key in cache},
        "config": {
            key: config[key]
            for key in ("gen_length", "window_size", "block_length", "suppress_after_eos")
        },
    }


class Scorer:
    """`are_correct` that runs each different answer to an item once: settings agree on most."""

    def __init__(self, items: Sequence[Item], workers: int) -> None:
        self._items = items
        self._workers = workers
        self._known: dict[tuple[int, str], bool] = {}

    def __call__(self, texts: Sequence[str]) -> tuple[bool, ...]:
        keys = list(enumerate(texts))
        new = [key for key in keys if key not in self._known]
        verdicts = are_correct(
            [self._items[number] for number, _ in new],
            [text for _, text in new],
            self._workers,
            # the answers of a model in training: bubblewrap where it is installed, limits anyway
            allow_unsandboxed=True,
        )
        self._known |= dict(zip(new, verdicts, strict=True))
        return tuple(self._known[key] for key in keys)


# what a set of items is for, in the order of the module's docstring
SPLITS = ("choose", "report", "check")


class Decoder:
    """A loaded model with the prompt ids of every split's items; one per process."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._engine = load_model(arguments.model, device=arguments.device, dtype=arguments.dtype)
        sources = {
            "choose": (arguments.choose_on or arguments.tasks, arguments.domains),
            "report": (arguments.tasks, arguments.domains if arguments.choose_on else []),
            "check": (arguments.tasks, arguments.check_domains),
        }
        self.items: dict[str, list[Item]] = {}
        self._prompts: dict[str, list[list[int]]] = {}
        for split, (folder, domains) in sources.items():
            items = [
                item for domain in domains for item in read_items(folder, domain, arguments.limit)
            ]
            self.items[split], self._prompts[split] = fitting(
                self._engine,
                items,
                encode_items(self._engine, items),
                layout_config(LAYOUTS[0]),
            )
        self._batch_size = arguments.batch
        # the model's objects live to the end; collections need not look at them
        gc.freeze()

    @property
    def model(self) -> dict[str, Any]:
        return asdict(self._engine.info)

    def decode(self, case: Case, split: str) -> Run:
        """Decode the items of this split."""
        return decode_items(
            self._engine,
            self.items[split],
            self._prompts[split],
            case.settings,
            self._batch_size,
        )


_decoder: Decoder  # of this worker process


def _start_worker(arguments: argparse.Namespace) -> None:
    """Load the model in a worker process."""
    import torch

    global _decoder
    torch.set_num_threads(1)
    _decoder = Decoder(arguments)


def _work(case: Case, split: str) -> Run:
    return _decoder.decode(case, split)


def runs(
    cases: Sequence[Case],
    submit: Callable[[Case], Future],
    at_once: int,
    may_start: Callable[[], bool],
) -> Iterator[tuple[Case, Run]]:
    """Finished cases as they come, `at_once` under way; none is started after `may_start`
    turns false."""
    waiting = deque(cases)
    under_way: dict[Future, Case] = {}
    while waiting or under_way:
        while waiting and len(under_way) < at_once and may_start():
            case = waiting.popleft()
            under_way[submit(case)] = case
        if not under_way:
            return
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield under_way.pop(future), future.result()


def sweep(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole command; returns what `sweep.json` holds."""
    started = time.monotonic()
    grid = Grid(**{field.name: getattr(arguments, field.name) for field in fields(Grid)})
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, context, _start_worker, (arguments,)) as pool:
        # the workers load their models while this one loads its own, for the items that fit
        warm = [pool.submit(time.sleep, 0) for _ in range(arguments.workers)]
        here = Decoder(arguments)
        wait(warm)
        scorers = {split: Scorer(here.items[split], arguments.scorers) for split in SPLITS}

        def results(cases: Sequence[Case], split: str, has_budget: bool) -> Iterator[Result]:
            limit = arguments.budget_seconds if has_budget else float("inf")
            found = runs(
                cases,
                lambda case: pool.submit(_work, case, split),
                # more than there are processes, so that none idles while answers are scored
                arguments.workers + arguments.workers // 2,
                lambda: time.monotonic() - started < limit,
            )
            for case, run in tqdm(found, total=len(cases), desc="settings"):
                yield Result(case, run, scorers[split](tuple(d.text for d in run.decoded)))

        confidence = baselines(Confidence(REFERENCE_EPSILON), arguments.layouts)
        greedy = baselines(Greedy(), arguments.layouts)
        # the reference is needed whatever the budget says
        first = list(results(confidence, "choose", has_budget=False))
        reference = choose_reference(first)
        measured = [result.against(reference) for result in first]
        # greedy takes longest, so it starts first
        rest = [*greedy, *grid.cases(reference.case.layout)]
        measured += [r.against(reference) for r in results(rest, "choose", has_budget=True)]
        chosen = choose_preset(measured, reference)
        shown = {case.label: case for case in [*greedy, *confidence, chosen.case]}
        reported: dict[str, list[Result]] = {}
        for split in ("report", "check"):
            if here.items[split]:
                found = list(results(list(shown.values()), split, has_budget=False))
                base = next(r for r in found if r.case.label == reference.case.label)
                reported[split] = [result.against(base) for result in found]

    measured.sort(key=lambda r: (r.case.kind != "baseline", -r.total.tokens_per_step))
    report = {
        "model": here.model,
        "versions": versions(),
        "domains": arguments.domains,
        "items": len(reference.correct),
        "batch_size": arguments.batch,
        "workers": arguments.workers,
        "seconds": round(time.monotonic() - started, 1),
        "grid": {
            **asdict(grid),
            "planned": len(grid.cases(reference.case.layout)),
            "run": sum(result.case.kind == "grid" for result in measured),
        },
        "rule": {"p_above": SIGNIFICANCE, "interval_above": LOWEST_DIFFERENCE},
        "reference": reference.case.label,
        "chosen": chosen.case.label,
        "preset": preset_of(chosen.case),
        "results": [_described_result(result) for result in measured],
        **{
            split: [_described_result(result) for result in found]
            for split, found in reported.items()
        },
    }
    _write(arguments.output, report, measured, reported)
    return report


def _described_result(result: Result) -> dict[str, Any]:
    return {
        "label": result.case.label,
        **result.case.settings.described(),
        "seconds": round(result.run.seconds, 2),
        "domains": [asdict(s) for s in by_domain(result.run.decoded, result.correct)],
        "drafts": result.run.spread.shares(),
        "difference": asdict(result.difference) if result.difference else None,
        "admitted": result.is_admitted if result.difference else None,
    }


def row_of(result: Result) -> dict[str, Any]:
    """One line of the CSV and Markdown tables; accuracies in %, differences in points."""
    summaries = by_domain(result.run.decoded, result.correct)
    total, shares = result.total, result.run.spread.shares()
    row: dict[str, Any] = {"setting": result.case.label}
    row |= {s.name: f"{100 * s.accuracy:.1f}" for s in summaries}
    row |= {
        "tokens/step": f"{total.tokens_per_step:.2f}",
        "tokens/pass": f"{total.tokens_per_pass:.2f}",
        "rows/token": f"{total.rows_per_token:.1f}",
        "unsure": f"{shares['unsure']:.2f}",
        "accepted": f"{shares['accepted']:.2f}",
        "unsure accepted": f"{shares['unsure_accepted']:.2f}",
        "seconds": f"{result.run.seconds:.1f}",
    }
    if (d := result.difference) is not None:
        row |= {
            "difference": f"{100 * d.difference:+.1f}",
            "95 % interval": f"{100 * d.low:+.1f} to {100 * d.high:+.1f}",
            "p": f"{d.p:.3f}",
            "admitted": "yes" if result.is_admitted else "no",
        }
    return row


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with the same keys as a Markdown table."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([str(row[key]) for key in head] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write(
    folder: Path,
    report: dict[str, Any],
    measured: Sequence[Result],
    reported: dict[str, list[Result]],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row_of(result) for result in measured]
    with (folder / "sweep.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    model = report["model"]
    lines = [
        "# Sweep of the preset",
        "",
        f"Model {model['name']} ({model['fingerprint']}), {model['device']}, {model['dtype']}, "
        f"{report['items']} items of {', '.join(report['domains'])}; length {GEN_LENGTH}, "
        f"window {WINDOW_SIZE}, batch {report['batch_size']}, {report['workers']} processes on one "
        f"device, so seconds are no benchmark. {report['grid']['run']} of "
        f"{report['grid']['planned']} settings of the grid in {report['seconds']} s.",
        "",
        f"Reference: {report['reference']}. Chosen: **{report['chosen']}**. Difference is accuracy "
        "minus the reference's on the same items, in points; p is McNemar's exact test. Unsure: "
        "share of drafted window positions with 0.3 ≤ c < 0.9; accepted: share of the searched.",
        "",
        markdown_table(rows),
    ]
    headings = {
        "report": "The shipped items of the same domains, which took no part in the choice:",
        "check": "The other domains:",
    }
    for split, found in reported.items():
        lines += ["", headings[split], "", markdown_table([row_of(result) for result in found])]
    (folder / "sweep.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "sweep.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    preset = json.dumps(report["preset"], indent=2)
    (folder / "preset.json").write_text(preset + "\n", encoding="utf-8")


def argument_parser() -> argparse.ArgumentParser:
    """The command line of `python -m training.sweep_preset`."""
    parser = argparse.ArgumentParser(description="choose a model's preset by measurement")
    add = parser.add_argument
    add("--model", type=Path, required=True, help="checkpoint folder")
    add("--tasks", type=Path, default=Path("assets/tasks"))
    add("--choose-on", type=Path, help="folder of other items that choose; default: --tasks")
    add("--domains", type=_names_of(DOMAINS), default=["word", "code"], help="these choose")
    names = _names_of(DOMAINS)
    add("--check-domains", type=names, default=["algebra", "story"], help='"" for none')
    add("--limit", type=int, help="items per domain")
    add("--batch", type=int, default=256)
    add("--device", default="auto")
    add("--dtype", choices=DTYPES, default="auto")
    add("--workers", type=int, default=1, help="decoding processes on the one device")
    add("--scorers", type=int, default=WORKERS, help="code answers that are run at a time")
    add(
        "--budget-seconds",
        type=float,
        default=150.0,
        help="then no setting is started but the check",
    )
    add("--layouts", type=_names_of(LAYOUTS), default=list(LAYOUTS))
    for name, values in asdict(Grid()).items():
        of = _truths if name == "correct" else _values(type(values[0]))
        flag = "--" + name.replace("_", "-")
        add(flag, type=of, default=values, help=f"tried; default: {','.join(map(str, values))}")
    add("--output", type=Path, required=True, help="folder for the tables and preset.json")
    return parser


def _names_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """A reader of comma-separated names."""

    def read(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(allowed)}")
        return names

    return read


def _values(of: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """A reader of comma-separated values."""
    return lambda text: tuple(of(value) for value in text.split(","))


def _truths(text: str) -> tuple[bool, ...]:
    """Comma-separated yes and no."""
    return tuple(name == "yes" for name in _names_of(("yes", "no"))(text))


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    parser = argument_parser()
    arguments = parser.parse_args()
    try:
        report = sweep(arguments)
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{error}\n")
    print((arguments.output / "sweep.md").read_text(encoding="utf-8"))
    print(json.dumps(report["preset"], indent=2))


if __name__ == "__main__":
    main()
