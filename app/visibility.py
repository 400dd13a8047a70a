"""Who sees whom in a verify pass: the very rows that were asked, by `flash_dllm/trace_replay.py`.

What a row may see is decided by `flash_dllm.query.visible_slots` alone; here slots and rows get
names, and those that nothing tells apart share a column or a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.sentences import texts_of
from app.token_text import label
from flash_dllm.canvas import Canvas
from flash_dllm.query import Query, Role, visible_slots
from flash_dllm.trace import DecodeTrace, Proposal
from flash_dllm.trace_replay import replay
from flash_dllm.trace_schema import read_settings

HIDDEN, SEEN, ITSELF = "0", "1", "2"
REREAD = (Role.TRACKED, Role.CONTEXT, Role.TRACKED_COPY, Role.PREDECESSOR)
SURE = (Role.DECIDED, Role.DECIDED_COPY)
MASKS = (Role.MASK_VIEW, Role.PREDECESSOR_VIEW)
REPLAYED = 8  # traces whose rows are kept: moving a slider asks again


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


def visibility(trace: DecodeTrace, index: int) -> Visibility | None:
    """Who sees whom in the verify pass of a step (counted from 1); None if it had none."""
    query = verify_pass(trace, index)
    return None if query is None else _Reader(trace, index, query).table()


def verify_pass(trace: DecodeTrace, index: int) -> Query | None:
    """The rows of the verify pass of a step (counted from 1); None if it had none.

    Raises TraceError if the trace's steps don't follow from its settings.
    """
    asked = _asked(_Same(trace))[index - 1]
    passes = trace.steps[index - 1].passes
    for record, query in zip(passes, asked, strict=True):
        if record.kind == "verify":
            return query
    return None


def canvas_before(trace: DecodeTrace, index: int) -> Canvas:
    """The text that a step (counted from 1) starts from."""
    settings = read_settings(vars(trace))
    canvas = settings.strategy.canvas(trace.prompt_token_ids, settings.config, trace.model)
    for step in trace.steps[: index - 1]:
        canvas = canvas.after(step)
    return canvas


class _Same:
    """A trace as a key: that very one, since its settings can't be hashed."""

    def __init__(self, trace: DecodeTrace) -> None:
        self.trace = trace

    def __hash__(self) -> int:
        return id(self.trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.trace is other.trace


@lru_cache(maxsize=REPLAYED)
def _asked(same: _Same) -> list[list[Query]]:
    return replay(same.trace, read_settings(vars(same.trace)))


WHY_REREAD = (
    "Written tokens that are read again see all that is written and this step's sure tokens, and "
    "the searched positions only as blanks: a draft that may still be refused must leave nothing "
    "behind in the cache."
)


class _Reader:
    """Names for the rows and slots of one pass."""

    def __init__(self, trace: DecodeTrace, index: int, query: Query) -> None:
        self.query, self.shift = query, trace.model.shift
        self.canvas = canvas_before(trace, index)
        self.prompt_length = trace.prompt_length
        self.proposals = {p.position: p for p in trace.steps[index - 1].proposals}
        self.text_of = texts_of(trace)
        self.roles = [Role(role) for role in query.roles]
        self.seen = [frozenset(visible_slots(query, row)) for row in range(query.rows)]
        searched = [row for row, role in enumerate(self.roles) if role is Role.DRAFT_VIEW]
        # position → k, counted from 1 in the order of acceptance
        self.order = {query.positions[row]: k for k, row in enumerate(searched, 1)}

    def table(self) -> Visibility:
        columns = [part for column in self._columns() for part in self._split(column)]
        return Visibility(tuple(columns), tuple(self._rows(columns)))

    def name(self, token: int) -> str:
        return label(self.text_of(token))

    def searched(self, row: int) -> int:
        """The position that a view asks about; a shifted model's row stands before it."""
        is_before = self.roles[row] is Role.PREDECESSOR_VIEW
        return self.query.positions[row] + (self.shift if is_before else 0)

    # --- columns

    def _columns(self) -> list[Column]:
        query = self.query
        # a copy stands in for its position's own slot, which is hidden from all
        place = {
            query.positions[row]: query.slots[row]
            for row, role in enumerate(self.roles)
            if role in (Role.TRACKED_COPY, Role.DECIDED_COPY)
        }
        written = [p for p in self.canvas.decided() if p < query.length]
        sure = [row for row, role in enumerate(self.roles) if role in SURE]
        known = {*written, *(query.positions[row] for row in sure), *self.order}
        blanks = [p for p in range(query.length) if p not in known]
        prompt = [place.get(p, p) for p in written if p < self.prompt_length]
        answer = [place.get(p, p) for p in written if p >= self.prompt_length]
        columns = [
            Column("prompt", "written", "the prompt", tuple(prompt)),
            Column("answer", "written", "what is written of the answer", tuple(answer)),
        ]
        for row in sure:
            name = self.name(query.tokens[row])
            help_ = f"“{name}”, written in this step already"
            columns.append(Column(name, "sure", help_, (query.slots[row],)))
        for position, k in self.order.items():
            help_ = f"the blank that draft {k} would fill, as [MASK]"
            columns.append(Column(f"blank {k}", "blanks", help_, (position,)))
        for kinds, group in (((Role.DRAFT_VIEW,), "draft views"), (MASKS, "mask views")):
            for row, role in enumerate(self.roles):
                # the authors' mask views stand in their positions' own slots
                if role in kinds and query.slots[row] >= query.length:
                    columns.append(self._view(row, group))
        columns.append(
            Column("other", "rest", "the blanks that nobody searches, as [MASK]", tuple(blanks))
        )
        return [column for column in columns if column.slots]

    def _view(self, row: int, group: str) -> Column:
        k, slot = self.order[self.searched(row)], (self.query.slots[row],)
        if group == "mask views":
            return Column(f"mask {k}", group, f"mask view {k}", slot)
        name = self.name(self.query.tokens[row])
        return Column(f"{k} {name}", group, f"draft {k}, “{name}”", slot)

    def _split(self, column: Column) -> list[Column]:
        """A column per way in which the rows see its slots; many slots are counted."""
        if column.group not in ("written", "rest"):
            return [column]
        ways: dict[tuple[bool, ...], list[int]] = {}
        for slot in column.slots:
            ways.setdefault(tuple(slot in seen for seen in self.seen), []).append(slot)
        parts = []
        for slots in sorted(ways.values(), key=len, reverse=True):
            part = replace(column, name=f"{column.name}, {len(slots)}", slots=tuple(slots))
            if len(ways) > 1 and len(slots) == 1 and column.group == "written":
                part = self._single(part, slots[0])
            parts.append(part)
        return parts

    def _single(self, column: Column, slot: int) -> Column:
        """A written token that some row sees otherwise than the rest of the text."""
        rows = [row for row, other in enumerate(self.query.slots) if other == slot]
        position = self.query.positions[rows[0]] if rows else slot
        name = self.name(self.canvas.token(position))
        return replace(column, name=name, help=f"“{name}”, written before")

    # --- rows

    def _rows(self, columns: Sequence[Column]) -> list[Row]:
        groups: dict[str, int] = {}
        rows = []
        for number, role in enumerate(self.roles):
            if role in REREAD:
                cells = self._cells(number, columns, is_group=True)
                groups[cells] = groups.get(cells, 0) + 1
        for cells, count in groups.items():
            rows.append(Row(f"{count} re-read", cells, WHY_REREAD))
        for number, role in enumerate(self.roles):
            if role not in REREAD:
                name, why = self._words(number, role)
                rows.append(Row(name, self._cells(number, columns), why))
        return rows

    def _cells(self, row: int, columns: Sequence[Column], is_group: bool = False) -> str:
        cells = []
        for column in columns:
            seen = [slot in self.seen[row] for slot in column.slots]
            assert all(seen) or not any(seen), "a column's slots are seen alike"
            is_own = not is_group and column.slots == (self.query.slots[row],)
            cells.append(ITSELF if is_own and all(seen) else SEEN if all(seen) else HIDDEN)
        return "".join(cells)

    def _words(self, row: int, role: Role) -> tuple[str, str]:
        name = self.name(self.query.tokens[row])
        if role in SURE:
            return f"sure: {name}", (
                f"“{name}” was sure enough to be written before the check. It sees all that is "
                "written, and the searched positions only as blanks."
            )
        position = self.searched(row)
        k, proposal = self.order[position], self.proposals[position]
        before = {1: "", 2: ", draft 1 in place of its blank"}.get(
            k, f", drafts 1 to {k - 1} in place of their blanks"
        )
        if role is Role.DRAFT_VIEW:
            return f"draft {k}: {name}", (
                f"Draft view {k}: position filled with “{name}”. It sees all that is written"
                f"{before}, and itself; later drafts are still blanks to it. It is there so that "
                "later mask views can read it."
            )
        draft, says = self.name(proposal.draft_token), self._says(proposal)
        if role is Role.PREDECESSOR_VIEW:
            return f"mask {k}", (
                f"Mask view {k}: this model's rows answer the next position, so the row before the "
                f"blank, “{name}”, is asked again. It sees all that is written{before}, and the "
                f"blank itself, but not its own draft “{draft}”, or it would only repeat it.{says}"
            )
        return f"mask {k}", (
            f"Mask view {k}: the same position as a blank, asked again. It sees all that is written"
            f"{before}, but not its own draft “{draft}”, or it would only repeat it.{says}"
        )

    def _says(self, proposal: Proposal) -> str:
        if proposal.verify_token is None:
            return ""
        other = self.name(proposal.verify_token)
        return f" It says “{other}” (c̃ {proposal.verify_confidence:.2f})."
