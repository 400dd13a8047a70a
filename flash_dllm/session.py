"""ModelSession: answers the loop's queries with a network (pack → forward → choose)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flash_dllm.cache import FlatKVCache
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.layer_plan import LayerReport
from flash_dllm.layerwise import LayerFeatures, forward_by_layer
from flash_dllm.models.transformer import Transformer
from flash_dllm.movement import Movement
from flash_dllm.nucleus import drawn
from flash_dllm.pass_layout import Packed
from flash_dllm.pass_sizes import PassSizes
from flash_dllm.query import Prediction, Query
from flash_dllm.sampling import GumbelField, choose, guided, rank_mass, read_choice, scores
from flash_dllm.transfer import Transfer
from flash_dllm.workspace import FULL_ROWS, GRAPH_ROWS, Workspace
from kernels.routes import qkv_route
from kernels.scaled import product_route

# a full pass of more multiplications (rows × weights) is not captured: launching its kernels
# costs nothing beside its work, and it seldom comes again
FULL_GRAPH_WORK = 4e12

# from so many sequences on half of them take half the time (docs/performance.md), if the model has
# so many weights that the device is at work for longer than the host
FEWEST_IN_GROUPS = 16
GROUPED_WEIGHTS = 1e9

Asked = Sequence[tuple[int, Query]]


@dataclass(frozen=True)
class _Flight:
    """A pass on its way: what was asked, where its result comes, how it was launched, how long
    the device waited for that, and what its layers did if it had a plan."""

    queries: Asked
    transfer: Transfer
    sizes: PassSizes
    alternatives: int
    route: str
    seconds: float
    reports: tuple[LayerReport, ...] = ()


class ModelSession:
    """The live sequences in the flat cache."""

    def __init__(
        self,
        model: Transformer,
        request: SessionRequest,
        workspace: Workspace,
        idle: list[Workspace],
    ) -> None:
        self._model = model
        self._request = request
        self._space = workspace
        self._idle = idle
        self._seeds: dict[int, int] = {}
        self._lengths: dict[int, int] = {}
        self._features: dict[int, LayerFeatures] = {}
        self._movement = Movement(model.spec.mask_token_id)
        self._moves: list[tuple[int, int, int]] = []
        self._noise = GumbelField(model.spec.vocab_size, request.temperature, model.device)

    @property
    def model(self) -> Transformer:
        return self._model

    @property
    def cache(self) -> FlatKVCache:
        return self._space.cache

    def admit(self, length: int, seed: int) -> int:
        handle = self._space.cache.admit(length + self._request.max_views)
        self._seeds[handle], self._lengths[handle] = seed, length
        return handle

    def release(self, handle: int) -> None:
        self._space.cache.release(handle)
        del self._seeds[handle], self._lengths[handle]
        self._features.pop(handle, None)
        self._movement.forget(handle)
        self._moves = [move for move in self._moves if move[0] != handle]

    def close(self) -> None:
        self._space.settle()
        for handle in list(self._seeds):
            self.release(handle)
        if self._space.graphs is not None and not self._idle:
            self._idle.append(self._space)

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        """Noted here; all sequences' entries are copied together before the next pass."""
        self._moves += [(handle, source, target) for source, target in moves]

    def groups_of(self, sequences: int) -> int:
        """Two where the device would wait for the host and a launch is one call: an eager launch
        or one that waits for the device leaves nothing to hide the host's work behind."""
        model = self._model
        if model.device.type != "cuda" or not self._may_replay or self._request.by_layer:
            return 1
        is_large = model.weights.count >= GROUPED_WEIGHTS
        return 2 if is_large and sequences >= FEWEST_IN_GROUPS else 1

    def ask(self, queries: Asked) -> Callable[[], list[Prediction]]:
        """One pass, or several where that is faster: full passes run apart, a few sequences at a
        time. On CUDA the (first) pass is launched at once, behind those that are on their way;
        elsewhere everything waits for the call, because there a launch is the whole work."""
        passes = list(passes_of(queries))
        first = self._start(passes[0]) if self._model.device.type == "cuda" else None

        def answers() -> list[Prediction]:
            predictions: dict[int, Prediction] = {}
            for number, asked in enumerate(passes):
                flight = first if number == 0 and first is not None else self._start(asked)
                predictions |= self._finish(flight)
            return [predictions[handle] for handle, _ in queries]

        return answers

    def answer(self, queries: Asked) -> list[Prediction]:
        """`ask` without a pause."""
        return self.ask(queries)()

    def _start(self, queries: Asked) -> _Flight:
        """Launch a pass, and the copies that the last one's decisions ask for before it."""
        begin = time.perf_counter()
        is_behind = self._space.is_busy
        transfer = self._space.depart()
        self._space.cache.promote(self._moves)
        self._moves = []
        # drafts keep runner-ups for the trace, verify answers do not need them
        wants_more = any(query.kind in ("full", "draft") for _, query in queries)
        alternatives = self._request.alternatives if wants_more else 0
        alternatives = min(alternatives, self._model.spec.vocab_size)
        replays = self._space.replays
        reports: tuple[LayerReport, ...] = ()
        if queries[0][1].plan is None:
            flat, sizes = self.launch(queries, alternatives)
        else:
            flat, sizes, reports = self._by_layer(queries, alternatives)
        route = self._route(sizes, self._space.replays > replays)
        transfer.start(flat)
        # behind another pass a launch costs the device nothing
        seconds = 0.0 if is_behind else time.perf_counter() - begin
        return _Flight(queries, transfer, sizes, alternatives, route, seconds, reports)

    def _finish(self, flight: _Flight) -> dict[int, Prediction]:
        """Wait for a pass and read its answers."""
        begin = time.perf_counter()
        queries, sizes = flight.queries, flight.sizes
        mass_shape = (sizes.sequences, sizes.keys) if sizes.mass else (0, 0)
        flat, on_device = self._space.arrive(flight.transfer)
        # a guided pass answers fewer rows than it predicts
        paired = sum(len(query.predict) - query.answers for _, query in queries)
        rows = sizes.predicted - paired
        choice = read_choice(
            flat, rows, flight.alternatives, mass_shape, self._request.wants_changes
        )
        masses = rank_mass(choice.mass, [query for _, query in queries])
        # what the host did between start and finish is no part of the pass, nor what it does while
        # the device is at another one
        waited = 0.0 if self._space.is_busy else time.perf_counter() - begin
        seconds = max(on_device, flight.seconds + waited)
        predictions = {}
        start = scored = 0
        for (handle, query), mass in zip(queries, masses, strict=True):
            end = start + query.answers
            last = scored + len(query.scored)
            predictions[handle] = Prediction(
                choice.tokens[start:end],
                choice.confidences[start:end],
                choice.alternatives[start:end],
                mass,
                seconds,
                flight.route,
                flight.reports,
                choice.changes[start:end],
                tuple(choice.scores[scored:last]),
            )
            start, scored = end, last
        return predictions

    def logits(self, queries: Asked) -> Tensor:
        """Logits [P, V] of all predicted rows, query after query: one pass without a choice.

        For likelihoods (`evaluation/likelihood.py`); decoding never moves logits off the device.
        """
        packed = self._space.free.fill(queries, self._space.cache.table)
        return self._model.forward(packed, self._space.cache)[0]

    def launch(self, queries: Asked, alternatives: int) -> tuple[Tensor, PassSizes]:
        """Start a pass without waiting for it; (what `choose` delivers, sizes it was run with).

        The next launch may write over the result.
        """
        space, exact = self._space, PassSizes.of(queries)
        table = space.cache.table
        if not self._is_captured(queries, exact):
            packed = space.free.fill(queries, table)
            return self._pass(packed, alternatives, queries), exact
        assert space.graphs is not None and space.fixed is not None, "asked before"
        sizes = exact.padded(keys=table.shape[1])
        packed = space.fixed.fill(queries, table, sizes)
        launch = lambda: self._pass(packed, alternatives)  # noqa: E731
        return space.graphs.run((sizes, alternatives, packed.schedule.run_keys), launch), sizes

    @property
    def _may_replay(self) -> bool:
        """Whether passes of this session may be CUDA graphs at all."""
        request = self._request
        if self._space.graphs is None or self._space.fixed is None:
            return False
        if request.temperature > 0:
            return False  # the noise comes from the host
        if request.wants_changes:
            return False  # the last pass's probabilities lie in memory of their own
        return request.drawing.is_plain  # sorting a vocabulary is no matter of launches

    def _is_captured(self, queries: Asked, sizes: PassSizes) -> bool:
        """Whether a pass may be a CUDA graph, and is worth it."""
        if not self._may_replay or sizes.rows > GRAPH_ROWS:
            return False
        if any(query.guidance or query.scored for _, query in queries):
            return False  # what is done with their logits depends on the question
        is_full = any(query.kind == "full" for _, query in queries)
        return not is_full or sizes.rows * self._model.weights.count < FULL_GRAPH_WORK

    def _route(self, sizes: PassSizes, is_replay: bool) -> str:
        """How a pass ran, for the record; nothing where there was no choice."""
        model = self._model
        is_scaled = model.weights.is_scaled
        ways = [] if self._space.graphs is None else ["graph" if is_replay else "eager"]
        if model.impl == "triton":
            size, wanted = model.spec.head_dim, model.qkv_route
            ways.append(qkv_route(sizes.rows, size, model.device, wanted, is_scaled))
        if is_scaled:
            ways.append(product_route(model.device))
        return ", ".join(ways)

    def _pass(self, packed: Packed, alternatives: int, queries: Asked = ()) -> Tensor:
        logits, mass = self._model.forward(packed, self._space.cache, self._request.mass_layers)
        return self._chosen(logits, mass, alternatives, queries)

    def _chosen(
        self, logits: Tensor, mass: Tensor | None, alternatives: int, queries: Asked
    ) -> Tensor:
        """What the host wants of a pass; `queries` may be left out where it is a CUDA graph:
        such a pass is neither guided nor scored."""
        model = self._model
        mask_token_id = model.spec.mask_token_id
        asked = [query for _, query in queries]
        logits = guided(logits, asked)
        noise = self._noise_of(queries)
        changes = self._changes(logits, queries)
        drawing, temperature = self._request.drawing, self._request.temperature
        confidences = None
        if not drawing.is_plain:
            noise, confidences = drawn(logits, noise, temperature, drawing, mask_token_id)
        flat = choose(
            logits, mask_token_id, noise, alternatives, mass, model.impl, changes, confidences
        )
        if not any(query.scored for query in asked):
            return flat
        return torch.cat([flat, scores(logits, asked, mask_token_id).to(flat.dtype)])

    def _by_layer(
        self, queries: Asked, alternatives: int
    ) -> tuple[Tensor, PassSizes, tuple[LayerReport, ...]]:
        """A pass with a plan, of one sequence; `passes_of` leaves it alone."""
        ((handle, query),) = queries
        model, cache = self._model, self._space.cache
        if handle not in self._features:
            self._features[handle] = LayerFeatures.of(model, self._lengths[handle])
        slots = cache.table[handle, : self._lengths[handle]].to(model.device)
        features = self._features[handle]
        logits, reports = forward_by_layer(model, query, slots, cache, features)
        flat = self._chosen(logits, None, alternatives, queries)
        return flat, PassSizes.of(queries), reports

    def _changes(self, logits: Tensor, queries: Asked) -> Tensor | None:
        """How far each predicted row's probabilities have moved [P]; None where not wanted."""
        if not self._request.wants_changes:
            return None
        parts, start = [], 0
        for handle, query in queries:
            rows = logits[start : (start := start + query.answers)]
            if query.kind in ("full", "draft"):
                parts.append(self._movement.since_last(handle, query.targets, rows))
            else:
                parts.append(rows.new_zeros(len(rows)))
        return torch.cat(parts)

    def _noise_of(self, queries: Asked) -> Tensor | None:
        if self._request.temperature == 0:
            return None
        return torch.cat(
            [
                self._noise.rows(self._seeds[handle], query.targets)
                for handle, query in queries
            ]
        )


def passes_of(queries: Asked) -> Iterator[Asked]:
    """The queries of one pass each: everybody else together, full ones a few at a time, those
    with a plan alone."""
    plain = [pair for pair in queries if pair[1].plan is None]
    if others := [pair for pair in plain if pair[1].kind != "full"]:
        yield others
    some: list[tuple[int, Query]] = []
    for pair in plain:
        if pair[1].kind == "full":
            if some and sum(query.rows for _, query in [*some, pair]) > FULL_ROWS:
                yield some
                some = []
            some.append(pair)
    if some:
        yield some
    yield from ([pair] for pair in queries if pair[1].plan is not None)
