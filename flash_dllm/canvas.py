"""One sequence: prompt, decided tokens, masks. Immutable; knows nothing about models.

>>> canvas = Canvas.start([7, 8], DecodeConfig(gen_length=4, window_size=2), eos_token_ids=(0,))
>>> canvas.window()
(2, 3)
>>> canvas.commit([(2, 5)]).window()
(3, 4)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import cast

from flash_dllm.config import DecodeConfig
from flash_dllm.query import block_end


@dataclass(frozen=True)
class Canvas:
    """tokens: one entry per position, None where undecided.

    flags: one byte per position, 1 where decided. The other fields are kept up to date by
    `commit`, because walking over all positions in every step would cost more than the rest.
    causal_block: the model's block, counted from position 0, if its attention is block-causal:
    nothing behind the first unfinished block exists yet. None: bidirectional.
    is_revocable: tokens of the first unfinished `block_length` block may be taken back again.
    """

    tokens: tuple[int | None, ...]
    prompt_length: int
    config: DecodeConfig
    eos_token_ids: tuple[int, ...]
    flags: bytes = field(repr=False)
    _undecided: tuple[int, ...] = field(repr=False)
    _first_end: int | None = None
    causal_block: int | None = None
    is_revocable: bool = False

    @classmethod
    def start(
        cls,
        prompt,
        config: DecodeConfig,
        eos_token_ids,
        causal_block: int | None = None,
        is_revocable: bool = False,
    ) -> Canvas:
        """Prompt followed by `gen_length` masks."""
        prompt = tuple(prompt)
        start, count = len(prompt), config.gen_length
        return cls(
            tokens=prompt + (None,) * count,
            prompt_length=start,
            config=config,
            eos_token_ids=tuple(eos_token_ids),
            flags=b"\1" * start + bytes(count),
            _undecided=tuple(range(start, start + count)),
            causal_block=causal_block,
            is_revocable=is_revocable,
        )

    @property
    def length(self) -> int:
        return len(self.tokens)

    def token(self, position: int) -> int:
        """The token of a decided position."""
        token = self.tokens[position]
        assert token is not None, "only decided positions hold a token"
        return token

    def tokens_at(self, positions: Sequence[int]) -> list[int]:
        """The tokens of decided positions."""
        held = self.tokens
        tokens = [held[position] for position in positions]
        assert None not in tokens, "only decided positions hold a token"
        return cast(list[int], tokens)

    def decided(self) -> tuple[int, ...]:
        """Positions that hold a token, prompt included."""
        return tuple(compress(range(self.length), self.flags))

    def undecided(self) -> tuple[int, ...]:
        """Masked positions, left to right."""
        return self._undecided

    @property
    def horizon(self) -> int:
        """Where what the model may see ends: the first unfinished block's end if it is
        block-causal, else the end of the text."""
        if self.causal_block is None or not self._undecided:
            return self.length
        return min(self.length, block_end(self._undecided[0], self.causal_block))

    @property
    def past(self) -> int:
        """How many positions stand in finished blocks of a block-causal model."""
        if self.causal_block is None or not self._undecided:
            return 0
        return self._undecided[0] // self.causal_block * self.causal_block

    @property
    def block(self) -> tuple[int, int]:
        """First position of the first unfinished block of `block_length`, and where it ends; the
        end of the text twice if none is left."""
        if not self._undecided:
            return self.length, self.length
        block = self.config.block
        start = self.prompt_length + (self._undecided[0] - self.prompt_length) // block * block
        return start, start + block

    def window(self) -> tuple[int, ...]:
        """The leftmost `window_size` undecided positions of the first unfinished block."""
        return self._window

    @cached_property
    def _window(self) -> tuple[int, ...]:
        undecided = self._undecided
        if not undecided:
            return ()
        end = min(self.horizon, self.block[1])
        return undecided[: min(self.config.window_size, bisect_left(undecided, end))]

    def decidable(self) -> tuple[int, ...]:
        """The part of the window where this step may commit: its leftmost `decide_size`."""
        positions = self.window()[: self.config.decide]
        if self.config.suppress_after_eos and (end := self.first_end()) is not None:
            positions = tuple(pos for pos in positions if pos < end) or positions
        return positions

    def first_end(self) -> int | None:
        """Position of the leftmost committed end token."""
        return self._first_end

    def commit(self, accepted) -> Canvas:
        """Write (position, token) pairs. Raises ValueError on a decided or foreign position."""
        tokens, flags = list(self.tokens), bytearray(self.flags)
        undecided, end = list(self._undecided), self._first_end
        first, length = self.prompt_length, len(tokens)
        for position, token in accepted:
            if not first <= position < length or flags[position]:
                raise ValueError(f"position {position} is not undecided and can't be committed")
            tokens[position] = token
            flags[position] = 1
            del undecided[bisect_left(undecided, position)]
            if token in self.eos_token_ids and (end is None or position < end):
                end = position
        return self._with(tokens, flags, undecided, end)

    def revoke(self, positions) -> Canvas:
        """Mask decided positions of the answer again. Raises ValueError on any other position."""
        tokens, flags = list(self.tokens), bytearray(self.flags)
        for position in positions:
            if not self.prompt_length <= position < self.length or not flags[position]:
                raise ValueError(f"position {position} is not decided and can't be taken back")
            tokens[position] = None
            flags[position] = 0
        undecided = sorted((*self._undecided, *positions))
        ends = self.eos_token_ids
        end = next((p for p in range(self.prompt_length, self.length) if tokens[p] in ends), None)
        return self._with(tokens, flags, undecided, end)

    def _with(
        self,
        tokens: Sequence[int | None],
        flags: bytearray,
        undecided: Sequence[int],
        first_end: int | None,
    ) -> Canvas:
        """The same text with other tokens (`dataclasses.replace` takes four times as long)."""
        return Canvas(
            tuple(tokens), self.prompt_length, self.config, self.eos_token_ids, bytes(flags),
            tuple(undecided), first_end, self.causal_block, self.is_revocable,
        )  # fmt: skip

    def after(self, step) -> Canvas:
        """The text after a step (or its record): `accepted` written, `revoked` masked again."""
        written = self.commit(step.accepted)
        return written.revoke(step.revoked) if step.revoked else written

    @property
    def is_finished(self) -> bool:
        """All decided, or (with `early_stop`) an end token with nothing undecided before it.

        Committed tokens never change and everything behind the first end token is dropped from
        the answer, so stopping here gives the answer that decoding on would give. Where tokens
        may be taken back they never change once their block is finished: it must be the one
        before the first undecided position or an earlier one.
        """
        undecided = self.undecided()
        if not undecided:
            return True
        if not self.config.early_stop:
            return False
        end = self.first_end()
        settled = self.block[0] if self.is_revocable else undecided[0]
        return end is not None and end < settled
