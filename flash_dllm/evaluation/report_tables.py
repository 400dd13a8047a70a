"""The paper's tables and figures on any model: the same rows and columns, our tasks and peers.

Every section is a function of a `Laboratory`; lengths 64 and 128 stand for the paper's 256 and 512.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flash_dllm.evaluation import paper_values as paper
from flash_dllm.evaluation.report_cells import Cell, Laboratory, Measured, pairs
from flash_dllm.evaluation.statistics import paired_difference

LENGTHS = (64, 128)
SEEDS = 5
# (label, strategy, cache): Table 1's columns; the first is what speedups are against
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("greedy, no cache", "greedy", "none"),
    ("greedy, Flash-Cache", "greedy", "flash"),
    ("confidence, no cache", "confidence", "none"),
    ("confidence, Flash-Cache", "confidence", "flash"),
    ("Flash-Verify, no cache", "flash_verify", "none"),
    ("Flash-Verify, Flash-Cache", "flash_verify", "flash"),
)
# Table 2: (label, knobs). A peer is a line here once its strategy or cache is in the library.
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LLaDA (greedy, no cache)", {"strategy": "greedy", "cache": "none"}),
    ("Fast-dLLM without cache (confidence)", {"strategy": "confidence", "cache": "none"}),
    ("Flash-Cache, confidence", {"strategy": "confidence", "cache": "flash"}),
    ("Flash-dLLM", {"strategy": "flash_verify", "cache": "flash"}),
)
GAMMAS, TRACKED = (0.6, 0.7, 0.8, 0.9, 1.0), (16, 32, 64)
EPSILONS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
BATCHES = (1, 2, 4, 8, 16, 32)
WINDOWS = (8, 16, 32, 64)
SHOTS = (0, 1, 2)


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and whether it holds here, with the numbers."""

    text: str
    holds: bool
    because: str


@dataclass(frozen=True)
class Curve:
    """Points of a figure: (x, y, label)."""

    name: str
    points: Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class Picture:
    """A figure as plain data."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Section:
    """One table or figure: heading, sentences, a table of strings, pictures, claims."""

    title: str
    text: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[Picture] = ()
    claims: Sequence[Claim] = ()
    paper: Sequence[str] = field(default_factory=tuple)


def table_1(lab: Laboratory, tasks: Sequence[str], batch: int) -> Section:
    """Accuracy, tokens/s and speedup of every decoder, by task and length."""
    rows, fastest, losses = [], [], []
    for task in tasks:
        for length in LENGTHS:
            found = [
                lab.measure(decoder(task, strategy, cache, length, batch))
                for _, strategy, cache in COLUMNS
            ]
            rows.append([f"{task} {length}", *(speed_cell(run, found[0]) for run in found)])
            fastest.append(max(found, key=lambda run: run.speed) is found[-1])
            best = max(found, key=lambda run: run.accuracy)
            difference = paired_difference(*pairs(found[-1], best))
            losses.append((f"{task} {length}", difference))
    worse = [name for name, d in losses if d.p < 0.05 and d.difference < 0]
    claims = [
        Claim(
            "Flash-Verify with Flash-Cache is the fastest decoder in every row of Table 1",
            all(fastest),
            f"fastest in {sum(fastest)} of {len(fastest)} rows",
        ),
        Claim(
            "Its accuracy is not significantly below the best column's (paired, McNemar p ≥ 0.05)",
            not worse,
            "; ".join(
                f"{name}: {100 * d.difference:+.1f} points ({100 * d.low:+.1f} to "
                f"{100 * d.high:+.1f}), p {d.p:.2f}"
                for name, d in losses
            ),
        ),
    ]
    known = [
        f"{task} {length}: {accuracy} %, {speed} tokens/s, {times} × greedy without cache"
        for (task, length), (accuracy, speed, times) in paper.TABLE_1.items()
    ]
    text = (
        "Accuracy with its 95 % interval, tokens/s, and × greedy without cache at the same batch "
        f"size ({batch}). Lengths 64 and 128 stand for the paper's 256 and 512."
    )
    head = ["task, length", *(label for label, _, _ in COLUMNS)]
    return Section("Table 1: accuracy and speed", text, head, rows, (), claims, known)


def table_2(lab: Laboratory, tasks: Sequence[str], batch: int) -> Section:
    """Methods beside each other on the first task, the longer length."""
    task, length = tasks[0], LENGTHS[-1]
    found = {
        name: lab.measure(Cell.of(task, batch, gen_length=length, **knobs))
        for name, knobs in METHODS
    }
    ours = found["Flash-dLLM"]
    rows = []
    for name, run in found.items():
        difference = paired_difference(*pairs(run, ours))
        rows.append([
            name, percent(run), f"{run.speed:.1f}", f"{run.tokens_per_step:.2f}",
            f"{run.summary['tokens_per_pass']:.2f}", f"{run.details['rows_per_token']:.1f}",
            "–" if run is ours else f"{100 * difference.difference:+.1f} (p {difference.p:.2f})",
        ])  # fmt: skip
    known = [f"{name}: {speed} tokens/s on GSM8K-512" for name, speed in paper.TABLE_2.items()]
    best = max(run.speed for run in found.values() if run is not ours)
    claim = Claim(
        "Flash-dLLM is faster than every other method",
        ours.speed > best,
        f"{ours.speed:.1f} tokens/s against {best:.1f} of the next, all at batch {batch}",
    )
    text = f"Task {task}, length {length}, batch {batch}. Difference: accuracy minus Flash-dLLM's."
    head = ("method", "accuracy %", "tokens/s", "tokens/step", "tokens/pass", "rows/token",
            "difference")  # fmt: skip
    return Section("Table 2: methods", text, head, rows, (), (claim,), known)


def table_4(lab: Laboratory, tasks: Sequence[str], batch: int, seeds: int = SEEDS) -> Section:
    """Mean and standard deviation over seeds, by γ and tracked tokens."""
    task, length = tasks[0], LENGTHS[-1]
    rows = []
    for gamma in GAMMAS:
        row = [f"{gamma:g}"]
        for size in TRACKED:
            runs = [
                lab.measure(
                    verify(task, length, batch, seed=seed, gamma=gamma, track_size=size)
                )
                for seed in range(seeds)
            ]
            row.append(
                f"{spread([100 * run.accuracy for run in runs])} %, "
                f"{spread([run.speed for run in runs])} tokens/s"
            )
        rows.append(row)
    text = (
        f"Task {task}, length {length}, batch {batch}; mean ± standard deviation over {seeds} "
        f"seeds. At temperature 0 a decoder has no chance in it: a seed draws {lab.limit} of the "
        "task's items."
    )
    known = [
        f"γ {gamma:g}, β_t {size}: {accuracy} %, {speed} tokens/s"
        for (gamma, size), (accuracy, speed) in paper.TABLE_4.items()
    ]
    head = ["γ", *(f"β_t {size}" for size in TRACKED)]
    return Section("Table 4: seeds", text, head, rows, (), (), known)


def table_5(lab: Laboratory, tasks: Sequence[str], batch: int) -> Section:
    """Generation lengths, and worked examples in front of the question."""
    task = tasks[0]
    rows = []
    cases = [(length, 0) for length in (32, *LENGTHS)]
    cases += [(LENGTHS[0], shots) for shots in SHOTS if shots]
    leads: dict[tuple[int, int], float] = {}
    for length, shots in cases:
        plain = lab.measure(
            Cell.of(task, batch, 0, shots, strategy="confidence", cache="flash", gen_length=length)
        )
        ours = lab.measure(verify(task, length, batch, shots=shots))
        leads[length, shots] = ours.speed / plain.speed if plain.speed else math.nan
        rows.append([
            str(length), str(shots), percent(plain), f"{plain.speed:.1f}", percent(ours),
            f"{ours.speed:.1f}", f"{leads[length, shots]:.2f}",
        ])  # fmt: skip
    claim = Claim(
        "Flash-Verify's lead over confidence decoding shrinks with a longer prompt, but stays",
        1 < leads[LENGTHS[0], SHOTS[-1]] < leads[LENGTHS[0], 0],
        f"{leads[LENGTHS[0], 0]:.2f} times without examples, "
        f"{leads[LENGTHS[0], SHOTS[-1]]:.2f} with {SHOTS[-1]}",
    )
    text = f"Task {task}, batch {batch}, Flash-Cache. Shots are worked examples in the user's turn."
    head = ("length", "shots", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Table 5: lengths", text, head, rows, (), (claim,), (paper.TABLE_5,))


def table_6(lab: Laboratory, tasks: Sequence[str], batches: Sequence[int] = BATCHES) -> Section:
    """Tokens a second by batch size; ratios only inside a row."""
    task, length = tasks[0], LENGTHS[-1]
    rows, wins = [], []
    curves: dict[str, list[tuple[float, float, str]]] = {}
    for batch in batches:
        found = {
            name: lab.measure(decoder(task, name, "flash", length, batch))
            for name in ("greedy", "confidence", "flash_verify")
        }
        greedy = found["greedy"]
        rows.append([str(batch), *(speed_cell(run, greedy) for run in found.values())])
        wins.append(found["flash_verify"].speed > found["confidence"].speed)
        for name, run in found.items():
            curves.setdefault(name, []).append((batch, run.speed, f"{run.speed:.1f} tokens/s"))
    claim = Claim(
        "On Flash-Cache, Flash-Verify is faster than confidence decoding at every batch size",
        all(wins),
        f"at {sum(wins)} of {len(wins)} batch sizes",
    )
    known = [
        f"{name}: {one} tokens/s at batch 1, {many} at batch 32"
        for name, (one, many) in paper.TABLE_6.items()
    ]
    picture = Picture(
        "Tokens a second by batch size", "batch size", "tokens/s",
        [Curve(name, points) for name, points in curves.items()],
    )  # fmt: skip
    text = f"Task {task}, length {length}, Flash-Cache; × greedy on Flash-Cache in the same row."
    head = ("batch", "greedy", "confidence", "Flash-Verify")
    return Section("Table 6: batch sizes", text, head, rows, (picture,), (claim,), known)


def figure_1(lab: Laboratory) -> Section:
    """Where attention goes, and whether sure steps decode more. (1a is a kernel's time: see
    docs/performance.md.)"""
    shares: dict[int, list[float]] = {}
    confidences, counts = [], []
    for trace in lab.traces:
        for step in trace.steps:
            if step.attention and step.decided_mass:
                for size in (1, 2, 4, 8, 16, 32, 64):
                    top = sum(share for _, share in step.attention[:size])
                    shares.setdefault(size, []).append(top)
            if step.proposals:
                drafted = [proposal.confidence for proposal in step.proposals]
                confidences.append(statistics.fmean(drafted))
                counts.append(sum(value >= 0.9 for value in drafted))
    means = {size: statistics.fmean(values) for size, values in shares.items()}
    can_correlate = len(set(confidences)) > 1 and len(set(counts)) > 1
    correlation = statistics.correlation(confidences, counts) if can_correlate else math.nan
    rows = [[str(size), f"{100 * mean:.1f}"] for size, mean in means.items()]
    at_32 = means.get(32, math.nan)
    claims = [
        Claim(
            "32 decoded tokens hold about half of the attention mass (40 to 60 %)",
            0.4 <= at_32 <= 0.6,
            f"{100 * at_32:.1f} % of all mass, mean over all layers and steps",
        ),
        Claim(
            "Steps with higher mean confidence could decode more tokens (correlation above 0)",
            correlation > 0,
            f"correlation {correlation:.2f} over {len(counts)} steps",
        ),
    ]
    pictures = [
        Picture(
            "Attention mass on the most attended decided tokens", "tokens", "share of all mass, %",
            [Curve("mean over steps", [(n, 100 * m, f"{100 * m:.1f} %")
                                       for n, m in means.items()])],
        ),
        Picture(
            "Mean confidence of a step and tokens with c ≥ 0.9", "mean confidence", "tokens",
            [Curve("steps", [(c, n, "") for c, n in zip(confidences, counts, strict=True)])],
        ),
    ]  # fmt: skip
    known = (
        f"32 tokens hold about {100 * paper.TOP_32_SHARE:.0f} % in layers 5 to 20",
        f"correlation about {paper.CORRELATION}",
    )
    text = f"Confidence decoding on Flash-Cache, {len(lab.traces)} word problems."
    head = ("most attended decided tokens", "share of all mass, %")
    return Section("Figure 1: attention and confidence", text, head, rows, pictures, claims, known)


def figures_5_and_6(lab: Laboratory, tasks: Sequence[str], batch: int) -> Section:
    """Accuracy against speed, and against tokens a step, over the thresholds."""
    task, length = tasks[0], LENGTHS[-1]
    ours = {
        f"Flash-Verify, β_t {size}": [
            (f"γ {gamma:g}", lab.measure(verify(task, length, batch, gamma=gamma, track_size=size)))
            for gamma in GAMMAS
        ]
        for size in TRACKED
    }
    plain = {
        "confidence": [
            (f"ε {epsilon:g}", lab.measure(
                Cell.of(task, batch, strategy="confidence", cache="flash", gen_length=length,
                        epsilon=epsilon)))
            for epsilon in EPSILONS
        ]
    }  # fmt: skip
    families = ours | plain
    rows = [
        [name, label, percent(run), f"{run.speed:.1f}", f"{run.tokens_per_step:.2f}"]
        for name, runs in families.items()
        for label, run in runs
    ]

    def curves(y: Callable[[Measured], float], x: Callable[[Measured], float]) -> list[Curve]:
        return [
            Curve(name, [(x(run), y(run), label) for label, run in runs])
            for name, runs in families.items()
        ]

    pictures = [
        Picture("Figure 5: accuracy and speed", "tokens/s", "accuracy, %",
                curves(lambda run: 100 * run.accuracy, lambda run: run.speed)),
        Picture("Figure 6: accuracy and tokens a step", "tokens/step", "accuracy, %",
                curves(lambda run: 100 * run.accuracy, lambda run: run.tokens_per_step)),
        Picture("Figure 6: speed and tokens a step", "tokens/step", "tokens/s",
                curves(lambda run: run.speed, lambda run: run.tokens_per_step)),
    ]  # fmt: skip
    mine = [run for runs in ours.values() for _, run in runs]
    theirs = [run for _, run in plain["confidence"]]
    best = max(run.accuracy for run in theirs)
    close = [run for run in mine if run.accuracy >= best - 0.01]
    lead = max((run.speed for run in close), default=math.nan)
    other = max(run.speed for run in theirs if run.accuracy >= best - 0.01)
    claim = Claim(
        "Within one point of the best accuracy of confidence decoding, Flash-Verify is faster",
        lead > other,
        f"{lead:.1f} tokens/s against {other:.1f}",
    )
    text = f"Task {task}, length {length}, batch {batch}, Flash-Cache."
    head = ("decoder", "threshold", "accuracy %", "tokens/s", "tokens/step")
    known = [f"tokens/step, {name}: {value}" for name, value in paper.TOKENS_PER_STEP.items()]
    return Section("Figures 5 and 6: trade-offs", text, head, rows, pictures, (claim,), known)


def figure_7(lab: Laboratory, tasks: Sequence[str], batch: int) -> Section:
    """The window size."""
    task, length = tasks[0], LENGTHS[-1]
    rows, leads = [], []
    curves: dict[str, list[tuple[float, float, str]]] = {"confidence": [], "Flash-Verify": []}
    for window in WINDOWS:
        # one block, so that the window is what limits a step
        shared = {"gen_length": length, "block_length": length, "window_size": window}
        plain = lab.measure(Cell.of(task, batch, strategy="confidence", cache="flash", **shared))
        ours = lab.measure(Cell.of(task, batch, strategy="flash_verify", cache="flash", **shared))
        leads.append(ours.speed / plain.speed if plain.speed else math.nan)
        rows.append([str(window), percent(plain), f"{plain.speed:.1f}", percent(ours),
                     f"{ours.speed:.1f}", f"{leads[-1]:.2f}"])  # fmt: skip
        curves["confidence"].append((window, plain.speed, percent(plain)))
        curves["Flash-Verify"].append((window, ours.speed, percent(ours)))
    claim = Claim(
        "Flash-Verify stays ahead of confidence decoding at every window size",
        all(lead > 1 for lead in leads),
        ", ".join(f"{w}: {lead:.2f} times" for w, lead in zip(WINDOWS, leads, strict=True)),
    )
    picture = Picture("Speed by window size", "window", "tokens/s",
                      [Curve(name, points) for name, points in curves.items()])  # fmt: skip
    text = f"Task {task}, length {length} in one block, batch {batch}, Flash-Cache."
    head = ("window", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Figure 7: window", text, head, rows, (picture,), (claim,), (paper.FIGURE_7,))


def decoder(task: str, strategy: str, cache: str, length: int, batch: int) -> Cell:
    """A cell with the model's preset, but for strategy, cache and length."""
    return Cell.of(task, batch, strategy=strategy, cache=cache, gen_length=length)


def verify(
    task: str, length: int, batch: int, seed: int = 0, shots: int = 0, **knobs: Any
) -> Cell:
    """Flash-Verify on Flash-Cache."""
    return Cell.of(task, batch, seed, shots, strategy="flash_verify", cache="flash",
                   gen_length=length, **knobs)  # fmt: skip


def percent(run: Measured) -> str:
    """Accuracy with its interval."""
    low, high = run.summary["accuracy_ci95"]
    return f"{100 * run.accuracy:.1f} ({100 * low:.0f}–{100 * high:.0f})"


def speed_cell(run: Measured, against: Measured) -> str:
    """Accuracy, speed, and the ratio to a run of the same batch size."""
    assert run.batch == against.batch, "no ratio across batch sizes"
    times = f"{run.speed / against.speed:.2f} ×" if against.speed else "–"
    return f"{percent(run)} %, {run.speed:.1f} tokens/s, {times}"


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.1f} ± {deviation:.1f}"
