"""What a draft question may ask beside its window: shadows, and other states of the text.

A cache policy says which rows a draft pass reads; here rows are added to it, whatever the policy.
All of them write to scratch slots, so a pass leaves behind what it would have left without them.
"""

from __future__ import annotations

from dataclasses import replace

from flash_dllm.canvas import Canvas
from flash_dllm.query import BranchAsk, DraftAsk, Query, Role


def with_extra_rows(query: Query, ask: DraftAsk, canvas: Canvas, mask_token_id: int) -> Query:
    """The rows of a draft pass, and the shadows and branches that its question wants.

    `predict` gets the shadows' rows, then the branches', window by window.
    """
    if not ask.shadows and not ask.branches:
        return query
    done = replace(
        query,
        tokens=list(query.tokens),
        positions=list(query.positions),
        slots=list(query.slots),
        roles=list(query.roles),
        ranks=list(query.ranks),
        predict=list(query.predict),
        scored=[],
        searched={},
        replaced={},
        guidance=ask.guidance,
    )
    # a draft pass has no scratch slots of its own
    assert query.rows == 0 or max(query.slots) < query.length
    _add_shadows(done, query.rows, ask.shadows, canvas, mask_token_id)
    for number, branch in enumerate(ask.branches, 1):
        _add_branch(done, query, branch, number, canvas, mask_token_id)
    return done


def _add_shadows(
    done: Query, first: int, shadows: tuple[int, ...], canvas: Canvas, mask_token_id: int
) -> None:
    """One row per shadow: [MASK] in place of its token's entry, seen by nobody else.

    The rows from `first` on write to scratch slots, one after the other.
    """
    for position in shadows:
        row = done.rows
        done.replaced[row] = position
        done.add(mask_token_id, position, done.length + row - first, Role.SHADOW)
        done.predict.append(row)
        done.scored.append(canvas.token(position))


def _add_branch(
    done: Query,
    query: Query,
    branch: BranchAsk,
    number: int,
    canvas: Canvas,
    mask_token_id: int,
) -> None:
    """All rows of `query` once more, holding this branch's text: its rows see their own copies
    in place of the originals, and whatever else the originals see."""
    filled = dict(branch.filled)
    row_at = {}
    for row in range(query.rows):
        position, slot, token = query.positions[row], query.slots[row], query.tokens[row]
        if branch.masks_prompt and position < canvas.prompt_length:
            token = mask_token_id
        row_at[position] = done.rows
        # hidden from rank 1 on: from every branch
        done.searched[slot] = 1
        scratch = done.length + done.rows - query.rows
        done.add(filled.get(position, token), position, scratch, Role.BRANCH, number)
    done.predict += [row_at[position - query.shift] for position in branch.window]
