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
from app.words import Says
from flash_dllm.canvas import Canvas
from flash_dllm.query import Query, Role, visible_slots
from flash_dllm.trace import DecodeTrace
from flash_dllm.trace_replay import replay
from flash_dllm.trace_schema import read_settings

HIDDEN, SEEN, ITSELF = "0", "1", "2"
REREAD = (Role.TRACKED, Role.CONTEXT, Role.TRACKED_COPY, Role.PREDECESSOR)
SURE = (Role.DECIDED, Role.DECIDED_COPY)
MASKS = (Role.MASK_VIEW, Role.PREDECESSOR_VIEW)
REPLAYED = 4  # traces whose rows are kept: moving a slider asks again


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


def visibility(trace: DecodeTrace, index: int, language: str = "en") -> Visibility | None:
    """Who sees whom in the verify pass of a step (counted from 1); None if it had none."""
    query = verify_pass(trace, index)
    return None if query is None else _Reader(trace, index, query, language).table()


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


class _Reader:
    """Names for the rows and slots of one pass."""

    def __init__(self, trace: DecodeTrace, index: int, query: Query, language: str) -> None:
        self.say = Says("lab", language)
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
            Column("col_prompt", "written", self.say("help_prompt"), tuple(prompt)),
            Column("col_answer", "written", self.say("help_answer"), tuple(answer)),
        ]
        for row in sure:
            name = self.name(query.tokens[row])
            help_ = self.say("help_sure", text=name)
            columns.append(Column(name, "sure", help_, (query.slots[row],)))
        for position, k in self.order.items():
            name, help_ = self.say("col_blank", k=k), self.say("help_blank", k=k)
            columns.append(Column(name, "blanks", help_, (position,)))
        for kinds, group in (((Role.DRAFT_VIEW,), "draft views"), (MASKS, "mask views")):
            for row, role in enumerate(self.roles):
                # the authors' mask views stand in their positions' own slots
                if role in kinds and query.slots[row] >= query.length:
                    columns.append(self._view(row, group))
        columns.append(Column("col_other", "rest", self.say("help_other"), tuple(blanks)))
        return [column for column in columns if column.slots]

    def _view(self, row: int, group: str) -> Column:
        k, slot = self.order[self.searched(row)], (self.query.slots[row],)
        if group == "mask views":
            return Column(self.say("col_mask", k=k), group, self.say("help_mask", k=k), slot)
        name = self.name(self.query.tokens[row])
        return Column(f"{k} {name}", group, self.say("help_draft", k=k, text=name), slot)

    def _split(self, column: Column) -> list[Column]:
        """A column per way in which the rows see its slots; many slots are counted."""
        if column.group not in ("written", "rest"):
            return [column]
        ways: dict[tuple[bool, ...], list[int]] = {}
        for slot in column.slots:
            ways.setdefault(tuple(slot in seen for seen in self.seen), []).append(slot)
        parts = []
        for slots in sorted(ways.values(), key=len, reverse=True):
            name = self.say(column.name, len(slots))
            part = replace(column, name=name, slots=tuple(slots))
            if len(ways) > 1 and len(slots) == 1 and column.group == "written":
                part = self._single(part, slots[0])
            parts.append(part)
        return parts

    def _single(self, column: Column, slot: int) -> Column:
        """A written token that some row sees otherwise than the rest of the text."""
        rows = [row for row, other in enumerate(self.query.slots) if other == slot]
        position = self.query.positions[rows[0]] if rows else slot
        name = self.name(self.canvas.token(position))
        return replace(column, name=name, help=self.say("help_token", text=name))

    # --- rows

    def _rows(self, columns: Sequence[Column]) -> list[Row]:
        groups: dict[str, int] = {}
        rows = []
        for number, role in enumerate(self.roles):
            if role in REREAD:
                cells = self._cells(number, columns, is_group=True)
                groups[cells] = groups.get(cells, 0) + 1
        for cells, count in groups.items():
            rows.append(Row(self.say("row_reread", count), cells, self.say("why_reread")))
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
        say, name = self.say, self.name(self.query.tokens[row])
        if role in SURE:
            return say("row_sure", text=name), say("why_sure", text=name)
        position = self.searched(row)
        k, proposal = self.order[position], self.proposals[position]
        before = say.raw("before")[min(k, 3) - 1].format(last=k - 1)
        parts = {"k": k, "text": name, "before": before}
        if role is Role.DRAFT_VIEW:
            return say("row_draft", k=k, text=name), say("why_draft", **parts)
        key = "why_before" if role is Role.PREDECESSOR_VIEW else "why_mask"
        why = say(key, draft=self.name(proposal.draft_token), **parts)
        if proposal.verify_token is not None:
            other = self.name(proposal.verify_token)
            why += say("says", text=other, confidence=f"{proposal.verify_confidence:.2f}")
        return say("col_mask", k=k), why
