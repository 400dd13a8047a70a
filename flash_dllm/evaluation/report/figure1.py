"""Figure 1: where attention goes, and whether sure steps decode more. (1a is a kernel's time: see
docs/performance.md.)"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Attention, Source
from flash_dllm.evaluation.report.section import Claim, Curve, Picture, Scope, Section
from flash_dllm.trace import DecodeTrace

SIZES = (1, 2, 4, 8, 16, 32, 64)
SURE = 0.9


def attention_of(traces: Sequence[DecodeTrace]) -> Attention:
    """The numbers of Figure 1 in complete traces."""
    shares: dict[int, list[float]] = {size: [] for size in SIZES}
    steps: list[tuple[float, int]] = []
    for trace in traces:
        for step in trace.steps:
            if step.attention and step.decided_mass:
                for size in SIZES:
                    shares[size].append(sum(share for _, share in step.attention[:size]))
            if step.proposals:
                drafted = [proposal.confidence for proposal in step.proposals]
                steps.append((statistics.fmean(drafted), sum(c >= SURE for c in drafted)))
    means = {size: statistics.fmean(values) for size, values in shares.items() if values}
    return Attention(means, steps, len(traces))


def figure_1(lab: Source, scope: Scope) -> Section:
    """A table of shares, two pictures, two claims."""
    found = lab.attention()
    confidences = [confidence for confidence, _ in found.steps]
    counts = [count for _, count in found.steps]
    can_correlate = len(set(confidences)) > 1 and len(set(counts)) > 1
    correlation = statistics.correlation(confidences, counts) if can_correlate else math.nan
    rows = [[str(size), f"{100 * mean:.1f}"] for size, mean in found.shares.items()]
    at_32 = found.shares.get(32, math.nan)
    claims = (
        Claim(
            "32 decoded tokens hold about half of the attention mass (40 to 60 %)",
            0.4 <= at_32 <= 0.6,
            f"{100 * at_32:.1f} % of all mass, mean over all layers and steps",
        ),
        Claim(
            "Steps with higher mean confidence could decode more tokens (correlation above 0)",
            correlation > 0,
            f"correlation {correlation:.2f} over {len(counts)} steps"
            if can_correlate
            else f"all {len(counts)} steps are alike, so there is no correlation",
        ),
    )
    mass = [(float(n), 100 * m, f"{100 * m:.1f} %") for n, m in found.shares.items()]
    pictures = (
        Picture("Attention mass on the most attended decided tokens", "tokens",
                "share of all mass, %", [Curve("mean over steps", mass)]),
        Picture("Mean confidence of a step and tokens with c ≥ 0.9", "mean confidence", "tokens",
                [Curve("steps", [(c, n, "") for c, n in found.steps])]),
    )  # fmt: skip
    known = (
        f"32 tokens hold about {100 * paper.TOP_32_SHARE:.0f} % in layers 5 to 20",
        f"correlation about {paper.CORRELATION}",
    )
    text = f"Confidence decoding on Flash-Cache, {found.traces} word problems."
    head = ("most attended decided tokens", "share of all mass, %")
    return Section("Figure 1: attention and confidence", text, head, rows, pictures, claims, known)
