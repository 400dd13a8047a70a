"""One step of a run under the glass: the numbers behind the Verify lab, from the trace alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.sentences import texts_of
from app.token_text import label
from flash_dllm.caches.base import verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.query import Query, Role, VerifyAsk, visible_slots
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import COMMITTED, DecodeTrace, Proposal, StepTrace, Verdict
from flash_dllm.trace_schema import read_settings

HIDDEN, SEEN, ITSELF = "0", "1", "2"
Step = StepTrace | RejudgedStep


@dataclass(frozen=True)
class Bound:
    """How far a checked block may stand from the model writing the same block one by one.

    length   m, the drafts that the check accepted
    exact    1 − ∏ c̃ over them
    power    1 − γ^m: what γ alone promises
    linear   m(1 − γ), the simpler bound above it
    """

    length: int
    exact: float
    power: float
    linear: float


def bound(step: Step, gamma: float) -> Bound:
    """The bound of one step's accepted drafts at this γ (paper, Appendix C)."""
    chain = [p.verify_confidence or 0.0 for p in step.proposals if p.verdict is Verdict.VERIFIED]
    m = len(chain)
    return Bound(m, 1 - math.prod(chain), 1 - gamma**m, m * (1 - gamma))


@dataclass(frozen=True)
class Missed:
    """A draft that was right (it is the token that the run wrote there in the end) but was not
    written in this step. position counts from the first generated one.

    reason  "mismatch", "below_gamma", "after_stop" or "not_searched"
    later   how many steps later it was written
    """

    step: int
    position: int
    token: int
    confidence: float
    verify_token: int | None
    verify_confidence: float | None
    reason: str
    later: int


REASONS = {
    Verdict.MISMATCH: "mismatch",
    Verdict.UNSURE: "below_gamma",
    Verdict.AFTER_STOP: "after_stop",
    Verdict.WAITING: "not_searched",
}


def missed(trace: DecodeTrace) -> list[Missed]:
    """All missed chances of a run, step by step, in acceptance order."""
    final = dict(enumerate(trace.canvas_at(len(trace.steps)), trace.prompt_length))
    return [
        Missed(
            step.index,
            p.position - trace.prompt_length,
            p.draft_token,
            p.confidence,
            p.verify_token,
            p.verify_confidence,
            REASONS[p.verdict],
            trace.decided_step[p.position] - step.index,
        )
        for step in trace.steps
        for p in step.proposals
        if p.verdict not in COMMITTED and final.get(p.position) == p.draft_token
    ]


@dataclass(frozen=True)
class Column:
    """Slots that every row sees alike: a group's name, the column's, and what stands there."""

    name: str
    group: str
    help: str
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One row of the verify pass, or several that see the same.

    cells  one character per column: HIDDEN, SEEN or ITSELF
    """

    name: str
    cells: str
    why: str


@dataclass(frozen=True)
class Visibility:
    """Who sees whom in a verify pass."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def verify_pass(trace: DecodeTrace, index: int) -> Query | None:
    """The rows of the verify pass of a step (counted from 1); None if it had none."""
    step = trace.steps[index - 1]
    if not any(record.kind == "verify" for record in step.passes):
        return None
    canvas = canvas_before(trace, index)
    keeps = trace.cache.get("name") != "none"
    ask = VerifyAsk(
        tuple((p.position, p.draft_token) for p in step.proposals if p.rank == 0),
        tuple((p.position, p.draft_token) for p in _searched(step)),
        unviewed=tuple(p.position for p in _searched(step) if not p.has_view),
    )
    reread = step.verify_tracked if keeps else canvas.decided()
    role = Role.TRACKED if keeps else Role.CONTEXT
    return verify_query(canvas, tuple(reread), role, ask, trace.model.mask_token_id)


def canvas_before(trace: DecodeTrace, index: int) -> Canvas:
    """The text that a step (counted from 1) starts from."""
    settings = read_settings(vars(trace))
    canvas = settings.strategy.canvas(trace.prompt_token_ids, settings.config, trace.model)
    for step in trace.steps[: index - 1]:
        canvas = canvas.after(step)
    return canvas


def visibility(trace: DecodeTrace, index: int) -> Visibility | None:
    """Who sees whom in the verify pass of a step, by `flash_dllm.query.visible_slots`.

    Slots that no row tells apart share a column, rows that see the same share a row.
    """
    query = verify_pass(trace, index)
    if query is None:
        return None
    step = trace.steps[index - 1]
    canvas = canvas_before(trace, index)
    columns = _columns(trace, canvas, step, query)
    rows = []
    context = [r for r, role in enumerate(query.roles) if role in (Role.TRACKED, Role.CONTEXT)]
    if context:
        # every one of them has rank 0, so all see the same
        cells = _cells(query, context[0], columns, is_group=True)
        rows.append(Row(f"{len(context)} re-read", cells, WHY_REREAD))
    proposals = {p.position: p for p in step.proposals}
    for number, role in enumerate(query.roles):
        if role in (Role.TRACKED, Role.CONTEXT):
            continue
        proposal = proposals[query.positions[number]]
        name, why = _row_words(trace, Role(role), query.ranks[number], proposal)
        rows.append(Row(name, _cells(query, number, columns), why))
    return Visibility(columns, tuple(rows))


WHY_REREAD = (
    "Written tokens that are read again see all that is written and this step's sure tokens, and "
    "the searched positions only as blanks: a draft that may still be refused must leave nothing "
    "behind in the cache."
)


def _searched(step: StepTrace) -> list[Proposal]:
    return sorted((p for p in step.proposals if p.rank), key=lambda p: p.rank or 0)


def _columns(
    trace: DecodeTrace, canvas: Canvas, step: StepTrace, query: Query
) -> tuple[Column, ...]:
    text_of = texts_of(trace)
    decided = [p for p in step.proposals if p.rank == 0]
    searched = _searched(step)
    prompt = tuple(range(trace.prompt_length))
    written = tuple(p for p in canvas.decided() if p >= trace.prompt_length)
    taken = {*prompt, *written, *(p.position for p in (*decided, *searched))}
    blanks = tuple(p for p in range(query.length) if p not in taken)
    columns = [Column(f"prompt, {len(prompt)}", "written", "the prompt", prompt)]
    if written:
        columns.append(
            Column(f"answer, {len(written)}", "written", "what is written of the answer", written)
        )
    for p in decided:
        name = label(text_of(p.draft_token))
        columns.append(
            Column(name, "sure", f"“{name}”, written in this step already", (p.position,))
        )
    for k, p in enumerate(searched, 1):
        help_ = f"the blank that draft {k} would fill, as [MASK]"
        columns.append(Column(f"blank {k}", "blanks", help_, (p.position,)))
    for k, p in enumerate(searched, 1):
        name = label(text_of(p.draft_token))
        help_ = f"draft {k}, “{name}”"
        columns.append(Column(f"{k} {name}", "draft views", help_, (query.length + k - 1,)))
    viewed = [k for k, p in enumerate(searched, 1) if p.has_view]
    for slot, k in enumerate(viewed, query.length + len(searched)):
        columns.append(Column(f"mask {k}", "mask views", f"mask view {k}", (slot,)))
    if blanks:
        help_ = "the blanks that nobody searches, as [MASK]"
        columns.append(Column(f"other, {len(blanks)}", "rest", help_, blanks))
    return tuple(columns)


def _cells(query: Query, row: int, columns: Sequence[Column], is_group: bool = False) -> str:
    visible = set(visible_slots(query, row))
    cells = []
    for column in columns:
        seen = [slot in visible for slot in column.slots]
        assert all(seen) or not any(seen), "a column's slots are seen alike"
        is_own = not is_group and column.slots == (query.slots[row],)
        cells.append(ITSELF if is_own and all(seen) else SEEN if all(seen) else HIDDEN)
    return "".join(cells)


def _row_words(
    trace: DecodeTrace, role: Role, rank: int, proposal: Proposal
) -> tuple[str, str]:
    text_of = texts_of(trace)
    name = label(text_of(proposal.draft_token))
    if role is Role.DECIDED:
        return f"sure: {name}", (
            f"“{name}” was sure enough to be written before the check. It sees all that is "
            "written, and the searched positions only as blanks."
        )
    before = {1: "", 2: ", draft 1 in place of its blank"}.get(
        rank, f", drafts 1 to {rank - 1} in place of their blanks"
    )
    if role is Role.DRAFT_VIEW:
        return f"draft {rank}: {name}", (
            f"Draft view {rank}: position filled with “{name}”. It sees all that is written"
            f"{before}, and itself; later drafts are still blanks to it. It is there so that "
            "later mask views can read it."
        )
    says = ""
    if proposal.verify_token is not None:
        other = label(text_of(proposal.verify_token))
        says = f" It says “{other}” (c̃ {proposal.verify_confidence:.2f})."
    return f"mask {rank}", (
        f"Mask view {rank}: the same position as a blank, asked again. It sees all that is written"
        f"{before}, but not its own draft “{name}”, or it would only repeat it.{says}"
    )


def held(step: StepTrace) -> list[tuple[int, int, float]]:
    """For each β_t that the record can answer: (β_t, position that it adds, share held by all).

    By the recorded attention alone: exact as a ranking of this step's draft pass. It says
    nothing of what re-reading fewer tokens would have changed.
    """
    shares, total = [], 0.0
    for count, (position, mass) in enumerate(step.attention, 1):
        total += mass
        shares.append((count, position, total))
    return shares


def pairs(steps: Iterable[Step]) -> list[tuple[int, Proposal]]:
    """(step, proposal) of every draft that has a mask view: the points of the c–c̃ plane.

    D has no check of its own in a decoding pass; an audit's views of it are left out.
    """
    return [
        (step.index, p)
        for step in steps
        for p in step.proposals
        if p.verify_confidence is not None and p.rank != 0
    ]
