"""What a pass costs, position by position: how many layers computed it.

A row of a query goes through every layer; a position that is two rows of a pass (a draft view and
a mask view) costs both. Passes with a plan (`layer_plan.py`) report what each layer computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from flash_dllm.layer_plan import LayerReport
from flash_dllm.query import Query

Span = tuple[int, int, int]


def spans_of(counts: Mapping[int, int]) -> tuple[Span, ...]:
    """(first, last, layers) of neighbouring positions of equal cost, both ends included.

    >>> spans_of({3: 12, 4: 12, 5: 6, 9: 6})
    ((3, 4, 12), (5, 5, 6), (9, 9, 6))
    """
    spans: list[Span] = []
    first = last = layers = -1
    for position in sorted(counts):
        if position == last + 1 and counts[position] == layers:
            last = position
            continue
        if layers > 0:
            spans.append((first, last, layers))
        first = last = position
        layers = counts[position]
    if layers > 0:
        spans.append((first, last, layers))
    return tuple(spans)


def counts_of(spans: Iterable[Span]) -> dict[int, int]:
    """Layers by position.

    >>> counts_of([(3, 4, 12), (5, 5, 6)])
    {3: 12, 4: 12, 5: 6}
    """
    return {
        position: layers for first, last, layers in spans for position in range(first, last + 1)
    }


def total(spans: Iterable[Span]) -> int:
    """Rows × layers.

    >>> total([(3, 4, 12), (5, 5, 6)])
    30
    """
    return sum((last + 1 - first) * layers for first, last, layers in spans)


def query_spans(query: Query, n_layers: int) -> tuple[Span, ...]:
    """The cost of a pass without a plan: every row goes through every layer."""
    positions = sorted(query.positions)
    first = positions[0]
    if query.kind == "full" and positions[-1] - first == len(positions) - 1:
        return ((first, positions[-1], n_layers),)
    # like `spans_of`, without a dict: this is done for every pass of every sequence
    spans: list[Span] = []
    last, rows, next_rows = first - 1, 0, 0
    previous = first
    for position in positions:
        if position == previous:
            next_rows += 1
            continue
        if next_rows != rows or previous != last + 1:
            if rows:
                spans.append((first, last, rows * n_layers))
            first, rows = previous, next_rows
        last, previous, next_rows = previous, position, 1
    if next_rows != rows or previous != last + 1:
        if rows:
            spans.append((first, last, rows * n_layers))
        first, rows = previous, next_rows
    spans.append((first, previous, rows * n_layers))
    return tuple(spans)


def report_spans(reports: Iterable[LayerReport]) -> tuple[Span, ...]:
    """The cost of a pass with a plan."""
    counts: Counter[int] = Counter()
    for report in reports:
        counts.update(report.rows)
    return spans_of(counts)
