"""Awkward passes for the attention kernels, with the cache poisoned around the live slots."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flash_dllm.cache import FlatKVCache
from flash_dllm.packing import pack
from flash_dllm.query import Query, Role, visible_slots
from kernels import ops, reference
from kernels.schedule import Schedule

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def draft(rows: int, length: int, wanted: int | None = None) -> Query:
    """Rows spread over a sequence; the first `wanted` (all) give attention mass."""
    query = Query("draft", length, wants_mass=True)
    for row in range(rows):
        position = row * length // rows
        query.add(1, position, position, Role.WINDOW)
    query.predict = list(range(rows if wanted is None else wanted))
    return query


def verify(tracked: int, decided: int, searched: int, length: int) -> Query:
    """T_v, D and both views of `searched` positions, as `caches.base.verify_query` lays them."""
    query = Query("verify", length)
    for position in range(tracked):
        query.add(1, position, position, Role.TRACKED)
    for position in range(tracked, tracked + decided):
        query.add(1, position, position, Role.DECIDED)
    first = tracked + decided
    # the searched positions don't come in the order of their ranks
    places = [length - 1 - 2 * k if k % 2 else first + k for k in range(searched)]
    assert len(set(places)) == searched
    scratch = length
    for role in (Role.DRAFT_VIEW, Role.MASK_VIEW):
        for rank, position in enumerate(places, 1):
            query.searched[position] = rank
            query.add(1, position, scratch, role, rank)
            scratch += 1
    query.predict = list(range(query.rows - searched, query.rows))
    return query


@dataclass(frozen=True)
class Case:
    """q [R, H, E], caches [slots, G, E]; every slot that no sequence owns is NaN."""

    q: Tensor
    keys: Tensor
    values: Tensor
    schedule: Schedule
    queries: list[Query]
    table: Tensor

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(sequence, row of its query) of every row."""
        return [(b, r) for b, query in enumerate(self.queries) for r in range(query.rows)]


def make_case(
    queries: list[Query],
    heads: int = 4,
    kv_heads: int = 4,
    size: int = 32,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    block_size: int | None = None,
    spread: float = 1.0,
    is_run: bool = False,
) -> Case:
    """Random numbers for a pass.

    is_run  whether the pages of a sequence stand side by side; else apart and out of order
    """
    generator = torch.Generator().manual_seed(seed)
    longest = max(q.length + sum(r >= Role.DRAFT_VIEW for r in q.roles) for q in queries)
    cache = FlatKVCache(2 * len(queries), longest, 1, kv_heads, size, dtype, DEVICE)
    if is_run:
        # a page to nobody before each sequence, and another behind the last
        handles = []
        for _ in queries:
            cache._free_pages.pop(0)
            handles.append(cache.admit(longest))
    else:
        # leave every other page to nobody, and turn the order around
        cache._free_pages = cache._free_pages[::-2]
        handles = [cache.admit(longest) for _ in queries]
    live = torch.cat(
        [
            cache.table[handle, : q.length + sum(r >= Role.DRAFT_VIEW for r in q.roles)]
            for handle, q in zip(handles, queries, strict=True)
        ]
    )
    keys, values = cache.keys[0], cache.values[0]
    keys.fill_(math.nan)
    values.fill_(math.nan)
    shape = (len(live), kv_heads, size)
    for tensor in (keys, values):
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
        tensor[live.to(DEVICE)] = drawn.to(DEVICE, dtype)
    rows = sum(query.rows for query in queries)
    q = torch.randn((rows, heads, size), generator=generator, dtype=torch.float64) * spread
    packed = pack(
        list(zip(handles, queries, strict=True)), cache.table, DEVICE, heads // kv_heads, block_size
    )
    return Case(
        q.to(DEVICE, dtype), keys, values, packed.schedule, queries, cache.table[handles]
    )


def exact(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """(out [R, H, E], lse [R, H], mass [B, K]) in float64, row by row from `visible_slots`."""
    q, keys, values = (t.cpu().double() for t in (case.q, case.keys, case.values))
    heads, size = q.shape[1:]
    group = heads // keys.shape[1]
    out, lse = torch.zeros_like(q), torch.full(q.shape[:2], -math.inf, dtype=torch.float64)
    mass = torch.zeros(case.schedule.key_slots_BK.shape, dtype=torch.float64)
    wanted = {query_number: set(q.predict) if q.wants_mass else set()
              for query_number, q in enumerate(case.queries)}  # fmt: skip
    for number, (sequence, row) in enumerate(case.rows):
        query = case.queries[sequence]
        local = visible_slots(query, row)
        slots = case.table[sequence, local]
        k = keys[slots].repeat_interleave(group, 1)
        v = values[slots].repeat_interleave(group, 1)
        scores = torch.einsum("he,khe->hk", q[number], k) / math.sqrt(size)
        weights = scores.softmax(-1)
        out[number] = torch.einsum("hk,khe->he", weights, v)
        lse[number] = scores.logsumexp(-1)
        if row in wanted[sequence]:
            mass[sequence, local] += weights.mean(0) / len(wanted[sequence])
    return out, lse, mass


def error(got: Tensor, true: Tensor) -> tuple[float, float]:
    """(relative root-mean-square, largest absolute) difference; NaN counts as infinite."""
    difference = (got.cpu().double() - true).nan_to_num(math.inf, math.inf, math.inf)
    return float(difference.norm() / true.norm()), float(difference.abs().max())


def torch_case(case: Case) -> tuple[Tensor, Tensor, Tensor | None]:
    """(out, lse, mass) of plain torch in the case's dtype; it can't bear a poisoned cache."""
    keys, values = case.keys.nan_to_num(), case.values.nan_to_num()
    out, lse = reference.scheduled_attention(case.q, keys, values, case.schedule)
    if case.schedule.mass_rows_BP is None:
        return out, lse, None
    return out, lse, reference.attention_mass(case.q, lse, keys, case.schedule)


def assert_as_good_as_torch(name: str, got: Tensor, torchs: Tensor, true: Tensor) -> None:
    """Error against fp64 at most the stated multiple of plain torch's, and some last digits.

    The digits: torch can be exact by luck on a handful of numbers.
    """
    # a GPU's fp32 goes through base 2 and back: the four roundings of `ops.tolerated_error`
    roundings = 4 if got.dtype == torch.float32 else 1
    last_digits = (roundings * torch.finfo(got.dtype).eps, 32 * torch.finfo(torch.float32).eps)
    for kind, ours, theirs, digits in zip(
        ("rms", "largest"), error(got, true), error(torchs, true), last_digits, strict=True
    ):
        allowed = ops.ATTENTION_TOLERANCE * theirs + digits
        assert ours <= allowed, f"{name}: {kind} error {ours:.2e}, torch's {theirs:.2e}"
