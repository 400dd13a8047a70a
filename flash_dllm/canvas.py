"""One sequence: prompt, decided tokens, masks. Immutable; knows nothing about models.

>>> canvas = Canvas.start([7, 8], DecodeConfig(gen_length=4, window_size=2), eos_token_ids=(0,))
>>> canvas.window()
(2, 3)
>>> canvas.commit([(2, 5)]).window()
(3, 4)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from flash_dllm.config import DecodeConfig
from flash_dllm.query import block_end


@dataclass(frozen=True)
class Canvas:
    """tokens: one entry per position, None where undecided.

    causal_block  the model's block, counted from position 0, if its attention is block-causal:
                  nothing behind the first unfinished block exists yet. None: bidirectional.
    """

    tokens: tuple[int | None, ...]
    prompt_length: int
    config: DecodeConfig
    eos_token_ids: tuple[int, ...]
    causal_block: int | None = None

    @classmethod
    def start(
        cls, prompt, config: DecodeConfig, eos_token_ids, causal_block: int | None = None
    ) -> Canvas:
        """Prompt followed by `gen_length` masks."""
        prompt = tuple(prompt)
        masks = (None,) * config.gen_length
        return cls(prompt + masks, len(prompt), config, tuple(eos_token_ids), causal_block)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def token(self, position: int) -> int:
        """The token of a decided position."""
        token = self.tokens[position]
        assert token is not None, "only decided positions hold a token"
        return token

    def decided(self) -> tuple[int, ...]:
        """Positions that hold a token, prompt included."""
        return tuple(pos for pos, token in enumerate(self.tokens) if token is not None)

    def undecided(self) -> tuple[int, ...]:
        """Masked positions, left to right."""
        return self._undecided

    @cached_property
    def _undecided(self) -> tuple[int, ...]:
        start = self.prompt_length
        return tuple(
            pos for pos, token in enumerate(self.tokens[start:], start) if token is None
        )

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

    def window(self) -> tuple[int, ...]:
        """The leftmost `window_size` undecided positions of the first unfinished block."""
        undecided = self.undecided()
        if not undecided:
            return ()
        block = self.config.block
        first = undecided[0] - self.prompt_length
        end = min(self.horizon, self.prompt_length + (first // block + 1) * block)
        inside = undecided[: self.config.window_size]
        return tuple(pos for pos in inside if pos < end)

    def decidable(self) -> tuple[int, ...]:
        """The part of the window where this step may commit: its leftmost `decide_size`."""
        positions = self.window()[: self.config.decide]
        if self.config.suppress_after_eos and (end := self.first_end()) is not None:
            positions = tuple(pos for pos in positions if pos < end) or positions
        return positions

    def first_end(self) -> int | None:
        """Position of the leftmost committed end token."""
        for pos in range(self.prompt_length, self.length):
            if self.tokens[pos] in self.eos_token_ids:
                return pos
        return None

    def commit(self, accepted) -> Canvas:
        """Write (position, token) pairs. Raises ValueError on a decided or foreign position."""
        tokens = list(self.tokens)
        for position, token in accepted:
            if not self.prompt_length <= position < self.length or tokens[position] is not None:
                raise ValueError(f"position {position} is not undecided and can't be committed")
            tokens[position] = token
        return replace(self, tokens=tuple(tokens))

    @property
    def is_finished(self) -> bool:
        """All decided, or (with `early_stop`) an end token with nothing undecided before it.

        Committed tokens never change and everything behind the first end token is dropped from
        the answer, so stopping here gives the answer that decoding on would give.
        """
        undecided = self.undecided()
        if not undecided:
            return True
        if not self.config.early_stop:
            return False
        end = self.first_end()
        return end is not None and undecided[0] > end
