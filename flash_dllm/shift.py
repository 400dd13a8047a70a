"""Models whose row at p answers position p + 1 (Dream, DiffuCoder, Fast-dLLM v2).

Strategies and cache policies ask about positions; here their questions become rows over
pred(i) = i − shift. A draft question needs the row before each run of masks, which is decided.
A mask view becomes that row again, with the drafts before it filled in: it holds its position's
current token, stands in for that position's entry, and sees the searched position's own slot,
which still holds [MASK]. So it answers what decoding one position after another would
(docs/decisions.md, Shifted models).
"""

from __future__ import annotations

from dataclasses import replace

from flash_dllm.canvas import Canvas
from flash_dllm.query import VIEWS, Query, Role, block_end


def shifted(query: Query, canvas: Canvas, mask_token_id: int, shift: int) -> Query:
    """The same question for a model whose row at p answers p + `shift`; 0 changes nothing.

    Rows are added (decided predecessors) or rewritten in place (mask views); `predict` keeps its
    order, so the answer means the same.
    """
    if shift == 0:
        return query
    # everything but the rows is the same
    done = replace(
        query, tokens=[], positions=[], slots=[], roles=[], ranks=[], predict=[], replaced={},
        shift=shift,
    )  # fmt: skip
    asked = set(query.predict)
    for row in range(query.rows):
        token, position, slot = query.tokens[row], query.positions[row], query.slots[row]
        role, rank = Role(query.roles[row]), query.ranks[row]
        if role is Role.MASK_VIEW and row in asked:
            _add_view(done, query, row, canvas, mask_token_id, shift)
        else:
            done.add(token, position, slot, role, rank)
    row_at = {
        position: row
        for row, (position, slot) in enumerate(zip(done.positions, done.slots, strict=True))
        if position == slot
    }
    for row in query.predict:
        if query.roles[row] == Role.MASK_VIEW:
            done.predict.append(row)
            continue
        before = query.positions[row] - shift
        if before not in row_at:
            row_at[before] = done.rows
            # undecided where positions are asked out of order and the cache does not read it
            held = canvas.tokens[before]
            done.add(mask_token_id if held is None else held, before, before, Role.PREDECESSOR)
        done.predict.append(row_at[before])
    return done


def _add_view(
    done: Query, query: Query, row: int, canvas: Canvas, mask_token_id: int, shift: int
) -> None:
    """The predecessor's row in place of a mask view of rank k: k − 1 drafts are filled in."""
    position, rank = query.positions[row], query.ranks[row]
    before = position - shift
    token, replaced = canvas.tokens[before], before
    for other, place in enumerate(query.positions):
        if place != before:
            continue
        if query.roles[other] == Role.DRAFT_VIEW and query.ranks[other] < rank:
            token, replaced = query.tokens[other], query.slots[other]
        elif query.roles[other] == Role.DECIDED:
            token = query.tokens[other]
    size = query.block_size
    if size is not None and block_end(before, size) <= position:
        # a block that is past: its last row sees nothing of this block, so it is no view, and
        # its entry is exact already
        assert token is not None, "past blocks are decided"
        done.add(token, before, before, Role.PREDECESSOR)
        return
    done.replaced[done.rows] = replaced
    # scratch slots follow one another, also where a view has become a plain row
    scratch = done.length + sum(other in VIEWS for other in done.roles)
    token = mask_token_id if token is None else token
    done.add(token, before, scratch, Role.PREDECESSOR_VIEW, rank - 1)
