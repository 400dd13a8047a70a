"""FlatKVCache: keys and values of every live sequence in one flat, preallocated buffer.

The unit is a page of 16 slots; a sequence owns pages, and its page table maps local slots (its
positions, then scratch for the views) to slots of the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

PAGE = 16


def first_run(pages: Sequence[int], count: int) -> int:
    """Where `count` pages begin that stand side by side in the buffer; 0 if there are none.

    Attention reads keys that stand side by side faster (`kernels/scheduled_attention.py`).

    >>> first_run([0, 3, 4, 7, 8, 9], 2), first_run([0, 3, 4, 7, 8, 9], 3), first_run([0, 2], 2)
    (1, 3, 0)
    """
    ends = range(len(pages) - count + 1)
    return next((at for at in ends if pages[at + count - 1] - pages[at] == count - 1), 0)


class FlatKVCache:
    """keys, values: [layers, slots, kv_heads, head_dim], allocated once, one behind the other.

    table [sequences, local slots] int64 on the host: local slot → slot of the buffer.
    """

    def __init__(
        self,
        sequences: int,
        slots_per_sequence: int,
        n_layers: int,
        n_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        pages = -(-slots_per_sequence // PAGE)
        shape = (2, n_layers, sequences * pages * PAGE, n_kv_heads, head_dim)
        # zeros, not empty: padded keys are read with weight 0, and 0 × NaN would be NaN
        self._entries = torch.zeros(shape, dtype=dtype, device=device)
        self.keys, self.values = self._entries
        self.table = torch.zeros(sequences, pages * PAGE, dtype=torch.int64)
        self._free_pages = list(range(sequences * pages))
        self._pages: dict[int, list[int]] = {}
        self._free_handles = list(range(sequences - 1, -1, -1))

    def admit(self, slots: int) -> int:
        """Give a new sequence its pages; returns its row in `table`.

        Raises RuntimeError when the buffer has no room: the caller opened too small a session.
        """
        count = -(-slots // PAGE)
        if not self._free_handles or count > len(self._free_pages):
            raise RuntimeError(f"the cache has no room for {slots} more slots")
        handle = self._free_handles.pop()
        first = first_run(self._free_pages, count)
        pages = self._free_pages[first : first + count]
        del self._free_pages[first : first + count]
        self._pages[handle] = pages
        starts = torch.tensor(pages, dtype=torch.int64)[:, None] * PAGE
        self.table[handle, : count * PAGE] = (starts + torch.arange(PAGE)).flatten()
        return handle

    def release(self, handle: int) -> None:
        """Give the pages back; their contents are simply written over later."""
        self._free_pages = sorted(self._pages.pop(handle) + self._free_pages)
        self._free_handles.append(handle)

    def promote(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy K and V of all layers from local scratch slots to positions' slots.

        moves: (handle, source, target) of any sequences. Nothing here waits for the device.
        """
        if not moves:
            return
        # few calls, since the device waits for them: one tensor of both, keys with values
        sources = [self._slot(handle, source) for handle, source, _ in moves]
        targets = [self._slot(handle, target) for handle, _, target in moves]
        device = self._entries.device
        slots = torch.tensor([sources, targets], pin_memory=device.type == "cuda")
        slots = slots.to(device, non_blocking=True)
        self._entries.index_copy_(2, slots[1], self._entries.index_select(2, slots[0]))

    def _slot(self, handle: int, local: int) -> int:
        """What `table` says, in plain numbers: the buffer's slot of a sequence's local slot."""
        page, within = divmod(local, PAGE)
        return self._pages[handle][page] * PAGE + within
