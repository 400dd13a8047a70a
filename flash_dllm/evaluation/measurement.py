"""Decode items with one choice of settings and count what it took; scoring comes on top.

It decodes with the library's own loop and reads no evaluation file but the procedural ones of
`assets/tasks`.
"""

from __future__ import annotations

import gc
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode_batch_steps, finish_trace, start_trace
from flash_dllm.engine_protocol import Engine
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.statistics import wilson_interval
from flash_dllm.settings import Settings
from flash_dllm.trace import COMMITTED, StepTrace, Verdict

# data.md section 4: drafts that are neither hopeless nor sure are what verification is for
UNSURE_LOW, UNSURE_HIGH = 0.3, 0.9
PACKAGES = ("torch", "triton", "transformers", "tokenizers", "safetensors", "numpy", "scipy")


@dataclass(frozen=True)
class Decoded:
    """One item's answer and what it took; the numbers are those of `DecodeTrace`.

    token_ids  all `gen_length` of them, end tokens behind the first one
    """

    domain: str
    specification: str
    text: str
    tokens: int
    steps: int
    passes: int
    rows: int
    verified: int
    guide_passes: int = 0
    guide_rows: int = 0
    token_ids: tuple[int, ...] = ()
    row_layers: int = 0


@dataclass
class Spread:
    """How sure the drafts were, summed over all steps of all items.

    positions        masked window positions that were drafted
    unsure           those with 0.3 <= c < 0.9
    searched         drafts that were verified
    accepted         those of them that verification accepted
    unsure_searched, unsure_accepted   the same for drafts with 0.3 <= c < 0.9
    """

    positions: int = 0
    unsure: int = 0
    searched: int = 0
    accepted: int = 0
    unsure_searched: int = 0
    unsure_accepted: int = 0

    def add(self, step: StepTrace) -> None:
        """Count one step's proposals."""
        self.positions += len(step.proposals)
        for proposal in step.proposals:
            is_unsure = UNSURE_LOW <= proposal.confidence < UNSURE_HIGH
            self.unsure += is_unsure
            if proposal.rank:
                is_accepted = proposal.verdict is Verdict.VERIFIED
                self.searched += 1
                self.accepted += is_accepted
                self.unsure_searched += is_unsure
                self.unsure_accepted += is_unsure and is_accepted

    def shares(self) -> dict[str, float]:
        """The acceptance test of data.md section 4; aims: 0.15-0.5 and 0.3-0.7."""
        return {
            "unsure": ratio(self.unsure, self.positions),
            "accepted": ratio(self.accepted, self.searched),
            "unsure_accepted": ratio(self.unsure_accepted, self.unsure_searched),
        }


@dataclass(frozen=True)
class Run:
    """All items decoded with one choice of settings, in the items' order."""

    decoded: tuple[Decoded, ...]
    spread: Spread
    seconds: float


@dataclass(frozen=True)
class Summary:
    """One line of a table: a domain or all of them together."""

    name: str
    items: int
    correct: int
    tokens: int
    steps: int
    passes: int
    rows: int
    verified: int
    guide_passes: int = 0
    guide_rows: int = 0
    accuracy: float = field(init=False)
    interval: tuple[float, float] = field(init=False)
    tokens_per_step: float = field(init=False)
    tokens_per_pass: float = field(init=False)
    rows_per_token: float = field(init=False)

    def __post_init__(self) -> None:
        derived = {
            "accuracy": ratio(self.correct, self.items),
            "interval": wilson_interval(self.correct, self.items),
            "tokens_per_step": ratio(self.tokens, self.steps),
            "tokens_per_pass": ratio(self.tokens, self.passes),
            "rows_per_token": ratio(self.rows, self.tokens),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def ratio(part: float, whole: float) -> float:
    """part / whole, and 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def read_items(tasks: Path, domain: str, limit: int | None = None) -> list[Item]:
    """Held-out items of one domain, as `training.held_out` wrote them.

    Raises FileNotFoundError or ValueError in one sentence.
    """
    path = tasks / f"{domain}.jsonl"
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path}: write it with python -m training.held_out --output {tasks}"
        )
    items = []
    for number, line in enumerate(path.read_bytes().splitlines()[:limit], 1):
        try:
            row = json.loads(line)
            items.append(Item(**{**row, "tests": tuple(row["tests"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"line {number} of {path} is no item ({error}); write the file again with python "
                f"-m training.held_out --output {tasks}"
            ) from None
    return items


def encode_items(engine, items: Sequence[Item]) -> list[list[int]]:
    """Prompt ids in the model's chat template; many settings share them."""
    return [engine.encode(item.prompt) for item in items]


def fitting(
    engine: Engine, items: Sequence[Item], prompts: Sequence[list[int]], config: DecodeConfig
) -> tuple[list[Item], list[list[int]]]:
    """The items whose prompt and answer fit into the model; the rest can't be asked at all."""
    kept = [
        (item, ids)
        for item, ids in zip(items, prompts, strict=True)
        if len(ids) + config.gen_length <= engine.max_length
    ]
    return [item for item, _ in kept], [ids for _, ids in kept]


def finished(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    batch_size: int,
    watch: Callable[[StepTrace], StepTrace] = lambda step: step,
) -> Iterator[tuple[int, list[StepTrace]]]:
    """Decode all prompts, `batch_size` at a time; (number of the prompt, its steps) as they end.

    watch  sees every step as it comes and returns what is kept of it
    Errors as in `decode_steps`.
    """
    # neighbours of equal length leave few padded keys
    order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
    canvases = [
        settings.strategy.canvas(prompts[number], settings.config, engine.info)
        for number in order
    ]
    steps: list[list[StepTrace]] = [[] for _ in order]
    for place, step in decode_batch_steps(
        engine,
        [prompts[number] for number in order],
        settings.strategy,
        settings.cache,
        settings.config,
        batch_size,
    ):
        canvases[place] = canvases[place].after(step)
        steps[place].append(watch(step))
        if canvases[place].is_finished:
            yield order[place], steps[place]
            # what is done needs no memory any more
            steps[place] = []


def decode_items(
    engine: Engine,
    items: Sequence[Item],
    prompts: Sequence[list[int]],
    settings: Settings,
    batch_size: int,
    on_step: Callable[[], object] = lambda: None,
) -> Run:
    """Decode every item; `on_step` is called once per step of an item.

    Errors as in `decode_steps`.
    """
    spread = Spread()
    steps: list[list[StepTrace]] = [[] for _ in items]

    def watch(step: StepTrace) -> StepTrace:
        spread.add(step)
        on_step()
        return slim(step)

    started = time.perf_counter()
    with no_garbage_collection():
        for number, record in finished(engine, prompts, settings, batch_size, watch):
            steps[number] = record
    seconds = time.perf_counter() - started
    decoded = []
    for item, ids, record in zip(items, prompts, steps, strict=True):
        header = start_trace(engine, ids, settings.strategy, settings.cache, settings.config)
        trace = finish_trace(engine, header, record)
        decoded.append(
            Decoded(
                item.domain,
                item.specification,
                trace.text,
                trace.tokens,
                len(trace.steps),
                trace.passes,
                trace.rows,
                trace.verified,
                trace.guide_passes,
                trace.guide_rows,
                trace.token_ids,
                trace.row_layers,
            )
        )
    return Run(tuple(decoded), spread, seconds)


def summarize(name: str, decoded: Iterable[Decoded], correct: Iterable[bool]) -> Summary:
    """Sums over items; ratios are ratios of sums, not means of ratios."""
    items = list(decoded)
    return Summary(
        name,
        len(items),
        sum(correct),
        *(
            sum(getattr(item, key) for item in items)
            for key in (
                "tokens", "steps", "passes", "rows", "verified", "guide_passes", "guide_rows"
            )
        ),
    )


def by_domain(decoded: Sequence[Decoded], correct: Sequence[bool]) -> list[Summary]:
    """One summary per domain and, if there are several, one of all."""
    domains = list(dict.fromkeys(item.domain for item in decoded))
    summaries = []
    for domain in domains:
        chosen = [n for n, item in enumerate(decoded) if item.domain == domain]
        summaries.append(
            summarize(domain, [decoded[n] for n in chosen], [correct[n] for n in chosen])
        )
    return summaries + ([summarize("all", decoded, correct)] if len(domains) > 1 else [])


def versions() -> dict[str, str]:
    """Python and the packages that a number may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            # triton is there on Linux only
            continue
    return found


def slim(step: StepTrace) -> StepTrace:
    """The step without what the counts do not need: memory for hundreds of items."""
    committed = tuple(p for p in step.proposals if p.verdict in COMMITTED)
    return replace(step, proposals=committed, attention=(), window=(), branches=())


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Decoding makes millions of small objects and no cycles; walking them takes a third of the
    host's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
