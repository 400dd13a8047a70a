"""The passes that a step must have made: kind, rows and cost of each, without a model."""

from __future__ import annotations

from flash_dllm.caches.base import CachePolicy, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.extra_rows import with_extra_rows
from flash_dllm.layer_cost import counts_of, query_spans, total
from flash_dllm.query import Query, Role, VerifyAsk
from flash_dllm.shift import shifted
from flash_dllm.strategies.base import ModelAsk
from flash_dllm.trace import ModelInfo, PassRecord, StepTrace, TraceError


def check_passes(
    step: StepTrace,
    asks: list[ModelAsk],
    canvas: Canvas,
    cache: CachePolicy,
    model: ModelInfo,
    memory: object,
) -> list[Query]:
    """The questions as rows. Raises TraceError unless there is one pass of the right kind, size
    and cost for each."""
    if not cache.needs_mass and step.tracked != cache.tracked(memory):
        raise TraceError("is not what this cache re-reads", ".tracked")
    if len(step.passes) != len(asks):
        raise TraceError(f"must hold {len(asks)}, got {len(step.passes)}", ".passes")
    queries = []
    for place, (record, ask) in enumerate(zip(step.passes, asks, strict=True)):
        where = f".passes[{place}]"
        possible = {
            query.kind: _all_rows(query, ask, canvas, model)
            for query in _possible(step, ask, canvas, cache, model, memory)
        }
        if record.kind not in possible:
            raise TraceError(
                f"must be {' or '.join(possible)}, got {record.kind}", f"{where}.kind"
            )
        query = possible[record.kind]
        if record.predicted != len(query.predict):
            raise TraceError(
                f"must be {len(query.predict)}, got {record.predicted}", f"{where}.predicted"
            )
        if record.rows != query.rows:
            raise TraceError(f"must be {query.rows}, got {record.rows}", f"{where}.rows")
        try:
            check_cost(record, query, model.n_layers)
        except TraceError as error:
            raise error.inside(where) from None
        queries.append(query)
    return queries


def check_cost(record: PassRecord, query: Query, n_layers: int) -> None:
    """Raise TraceError unless the recorded cost is that of these rows; older files have none.

    What a plan chose inside the forward can't be replayed: then the cost must be one that its
    rows can have.
    """
    if query.plan is None and record.compared:
        raise TraceError("must be 0: no layer chose its rows", ".compared")
    if query.plan is None and not record.layers and not record.row_layers:
        return
    for name in ("layers", "row_layers"):
        if not getattr(record, name):
            raise TraceError("is missing", f".{name}")
    if record.row_layers != total(record.layers):
        raise TraceError(
            f"must be {total(record.layers)}, got {record.row_layers}", ".row_layers"
        )
    expected = query_spans(query, n_layers)
    if query.plan is None:
        if record.layers != expected:
            raise TraceError("is not what the rows of this pass cost", ".layers")
        return
    before = -1
    for first, last, layers in record.layers:
        if not before < first <= last < query.length:
            raise TraceError("must stand left to right, without overlap", ".layers")
        if layers > n_layers:
            raise TraceError(f"holds a position with more than {n_layers} layers", ".layers")
        before = last
    if not set(query.positions) <= set(counts_of(record.layers)):
        raise TraceError("leaves out a row of the first layer", ".layers")


def _all_rows(query: Query, ask: ModelAsk, canvas: Canvas, model: ModelInfo) -> Query:
    """The policy's rows and what the loop makes of them."""
    query = shifted(query, canvas, model.mask_token_id, model.shift)
    if isinstance(ask, VerifyAsk):
        return query
    return with_extra_rows(query, ask, canvas, model.mask_token_id)


def _possible(
    step: StepTrace,
    ask: ModelAsk,
    canvas: Canvas,
    cache: CachePolicy,
    model: ModelInfo,
    memory: object,
) -> list[Query]:
    """What the policy may have asked the model, by kind.

    The memory of a policy that needs mass can't be replayed: a trace holds the mass of the first
    positions only. Of such a one the trace says what was re-read, and that is taken.
    """
    mask_token_id = model.mask_token_id
    if isinstance(ask, VerifyAsk):
        if cache.needs_mass:
            # a policy that keeps copies apart writes nothing else
            writes = ask.is_dry or not cache.max_copies(canvas.config)
            reread = step.verify_tracked
            return [verify_query(canvas, reread, Role.TRACKED, ask, mask_token_id, writes)]
        return [cache.verify(memory, canvas, ask, mask_token_id, None)]
    if not cache.needs_mass:
        return [cache.draft(memory, canvas, ask, mask_token_id)]
    is_first = step.index == 1
    return cache.possible(canvas, ask, mask_token_id, () if is_first else step.tracked, is_first)
