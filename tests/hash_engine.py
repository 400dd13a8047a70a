"""A deterministic model without weights: every answer is a hash of what the row can see.

Richer than a script (any length, any state) and as strict: a row that sees a position twice, or
not at all, is an error. About two thirds of the tokens depend on the position alone, so that
draft and mask view often agree; confidences come in steps of 0.01, so that ties happen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.query import Mass, Prediction, Query, visible_slots
from flash_dllm.trace import ModelInfo

VOCAB_SIZE = 50
MASK, EOS, END_OF_TURN = 49, 48, 47


@dataclass(frozen=True)
class HashEngine:
    """seed picks another model; `end_share` of the positions (in percent) would like to end."""

    seed: int = 0
    end_share: int = 6
    max_length: int = 256
    shift: int = 0
    causal_block: int | None = None
    guide: object = None

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=f"hash {self.seed}",
            vocab_size=VOCAB_SIZE,
            n_layers=2,
            mask_token_id=MASK,
            eos_token_ids=(EOS, END_OF_TURN),
            impl="hash",
            device="cpu",
            dtype="none",
            shift=self.shift,
            causal_block=self.causal_block,
        )

    def token_text(self, token: int) -> str:
        return {MASK: "[MASK]", EOS: "</s>", END_OF_TURN: "<|eot|>"}.get(token, f" w{token}")

    def suited(self, cache: object) -> HashEngine:
        return self

    def open(self, request: SessionRequest) -> HashSession:
        return HashSession(self, request)

    def number(self, *of: object) -> int:
        """A whole number below 2^32 that depends on the seed and on `of` only."""
        digest = hashlib.blake2b(repr((self.seed, *of)).encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big")

    def prediction(self, seen: tuple[int, ...], position: int) -> tuple[int, float]:
        """Token and confidence at a position of a text (MASK where undecided)."""
        is_steady = self.number("mix", seen, position) % 3 > 0
        source = self.number("token", position if is_steady else (seen, position))
        is_end = source % 100 < self.end_share
        token = (EOS, END_OF_TURN)[source % 2] if is_end else source // 100 % END_OF_TURN
        confidence = (30 + self.number("confidence", seen, position) % 71) / 100
        return token, confidence


class HashSession:
    """Keeps, per sequence, which token each cache slot was last written with."""

    def __init__(self, engine: HashEngine, request: SessionRequest) -> None:
        self._engine, self._request = engine, request
        self._slots: dict[int, dict[int, tuple[int, int]]] = {}
        self._lengths: dict[int, int] = {}

    def admit(self, length: int, seed: int) -> int:
        handle = len(self._slots)
        assert length <= self._request.max_length
        self._slots[handle], self._lengths[handle] = {}, length
        return handle

    def release(self, handle: int) -> None:
        self._slots[handle] = {}

    def close(self) -> None:
        self._slots.clear()

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        slots = self._slots[handle]
        for source, target in moves:
            slots[target] = slots[source]

    def groups_of(self, sequences: int) -> int:
        return 1

    def ask(self, queries: Sequence[tuple[int, Query]]) -> Callable[[], list[Prediction]]:
        return lambda: [self._answer(handle, query) for handle, query in queries]

    def _answer(self, handle: int, query: Query) -> Prediction:
        slots = self._slots[handle]
        room = self._lengths[handle] + self._request.max_views
        for token, position, slot in zip(query.tokens, query.positions, query.slots, strict=True):
            assert 0 <= slot < room, f"slot {slot} is outside the {room} slots of this sequence"
            slots[slot] = (position, token)
        seen = [self.seen(slots, query, row) for row in query.predict]
        if query.guidance:  # an answer depends on what both rows of its pair see
            half = len(seen) // 2
            seen = [own + other for own, other in zip(seen[:half], seen[half:], strict=True)]
        pairs = [
            self._engine.prediction(state, position)
            for state, position in zip(seen, query.targets, strict=True)
        ]
        return Prediction(
            [token for token, _ in pairs],
            [confidence for _, confidence in pairs],
            [self._alternatives(*pair) for pair in pairs],
            Mass.of(self._mass(seen[0]), query.decided, query.top) if query.wants_mass else None,
            scores=self._scores(query, pairs),
        )

    def _scores(self, query: Query, pairs: list[tuple[int, float]]) -> tuple[float, ...]:
        """The answer's confidence where it is the scored token, else a share of the rest."""
        last = pairs[len(pairs) - len(query.scored) :]
        return tuple(
            c if token == wanted else round(min(c, 1 - c) / 2, 6)
            for (token, c), wanted in zip(last, query.scored, strict=True)
        )

    def _alternatives(self, token: int, confidence: float) -> tuple[tuple[int, float], ...]:
        """The token itself, then its neighbours with shrinking shares of the rest."""
        rest = 1 - confidence
        shares = [min(confidence, rest / 2**k) for k in range(1, self._request.alternatives)]
        runners = [((token + k) % MASK, round(s, 6)) for k, s in enumerate(shares, 1)]
        return ((token, confidence), *runners)[: self._request.alternatives]

    def _mass(self, seen: tuple[int, ...]) -> list[float]:
        """Attention mass per position; all positions together have mass 1."""
        weights = [1 + self._engine.number("mass", seen, p) % 1000 for p in range(len(seen))]
        return [weight / sum(weights) for weight in weights]

    @staticmethod
    def seen(slots: dict[int, tuple[int, int]], query: Query, row: int) -> tuple[int, ...]:
        """The text that a row sees. Raises ValueError if a position occurs twice or never."""
        text: dict[int, int] = {}
        for slot in visible_slots(query, row):
            position, token = slots[slot]
            if position in text:
                raise ValueError(f"row {row} sees position {position} twice")
            text[position] = token
        if missing := set(range(query.limit(row))) - set(text):
            raise ValueError(f"row {row} does not see positions {sorted(missing)}")
        return tuple(text[position] for position in range(query.limit(row)))
