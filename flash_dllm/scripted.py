"""A model that answers from a table: the paper review's toy example, tests, lessons.

The script says what the model would answer for a *state* of the text, e.g. "^ A _ _ _". Which
state a row sees is worked out from the cache slots that are visible to it, by the plain rule in
`query.py`, so a wrong mask, a forgotten promotion or a stale slot changes the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flash_dllm.caches.base import CachePolicy
from flash_dllm.engine_protocol import Guide, SessionRequest
from flash_dllm.query import Mass, Prediction, Query, visible_slots
from flash_dllm.trace import ModelInfo


@dataclass(frozen=True)
class Script:
    """answers: (state, position) → (token text, confidence); mass: state → {position: mass}.

    A state is the texts of all positions joined by blanks, "_" where masked. `mass` is looked up
    with the state that the draft pass's rows see. `views` overrides `answers` for mask views,
    because a real model's cache entries differ between the two passes.
    """

    vocabulary: tuple[str, ...]
    answers: Mapping[tuple[str, int], tuple[str, float]]
    mass: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    views: Mapping[tuple[str, int], tuple[str, float]] = field(default_factory=dict)
    end_token: str = "$"
    mask_token: str = "[MASK]"
    shift: int = 0


@dataclass(frozen=True)
class ScriptedEngine:
    """An engine whose network is a table. Ids are indices into the script's vocabulary."""

    script: Script
    name: str = "scripted"
    max_length: int = 64
    guide: Guide | None = None

    @property
    def info(self) -> ModelInfo:
        words = self.script.vocabulary
        return ModelInfo(
            name=self.name,
            vocab_size=len(words),
            n_layers=1,
            mask_token_id=words.index(self.script.mask_token),
            eos_token_ids=(words.index(self.script.end_token),),
            impl="scripted",
            device="cpu",
            dtype="table",
            shift=self.script.shift,
        )

    def ids(self, texts: str) -> list[int]:
        """Token ids of blank-separated texts."""
        return [self.script.vocabulary.index(text) for text in texts.split()]

    def token_text(self, token: int) -> str:
        return self.script.vocabulary[token]

    def suited(self, cache: CachePolicy) -> ScriptedEngine:
        """Itself: there is nothing else to take."""
        return self

    def open(self, request: SessionRequest) -> ScriptedSession:
        """Raises ValueError for what only a network has."""
        if request.by_layer:
            raise ValueError(
                f"{self.name} is a table without layers; use a cache that does not choose its "
                "rows layer by layer"
            )
        if request.wants_changes:
            raise ValueError(
                f"{self.name} is a table that knows no token probabilities; use another strategy"
            )
        return ScriptedSession(self)


class ScriptedSession:
    """Keeps, per sequence, which token each cache slot was last written with."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._slots: dict[int, dict[int, tuple[int, int]]] = {}

    def admit(self, length: int, seed: int) -> int:
        handle = len(self._slots)
        self._slots[handle] = {}
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
        return lambda: [self._answer(self._slots[handle], query) for handle, query in queries]

    def _answer(self, slots: dict[int, tuple[int, int]], query: Query) -> Prediction:
        if query.guidance:
            raise ValueError("a script has no logits to guide; use cfg_scale=0")
        for token, position, slot in zip(
            query.tokens, query.positions, query.slots, strict=True
        ):
            slots[slot] = (position, token)
        script = self._engine.script
        tokens, confidences = [], []
        for row, position in zip(query.predict, query.targets, strict=True):
            state = self.state(slots, query, row)
            is_view = query.kind in ("verify", "audit")
            table = {**script.answers, **script.views} if is_view else script.answers
            if (state, position) not in table:
                raise KeyError(f"the script has no answer for position {position} in «{state}»")
            text, confidence = table[state, position]
            tokens.append(script.vocabulary.index(text))
            confidences.append(confidence)
        scored = len(query.scored)
        scores = tuple(
            # all that is not the script's own answer is one other token
            round(confidence if token == wanted else 1 - confidence, 6)
            for token, confidence, wanted in zip(
                tokens[len(tokens) - scored :], confidences[len(tokens) - scored :], query.scored,
                strict=True,
            )
        )
        mass = None
        if query.wants_mass:
            state = self.state(slots, query, query.predict[0])
            shares = script.mass.get(state, {})
            values = [shares.get(position, 0.0) for position in range(query.length)]
            mass = Mass.of(values, query.decided, query.top)
        alternatives: list[tuple[tuple[int, float], ...]] = [
            ((token, confidence),)
            for token, confidence in zip(tokens, confidences, strict=True)
        ]
        return Prediction(tokens, confidences, alternatives, mass, scores=scores)

    def state(self, slots: dict[int, tuple[int, int]], query: Query, row: int) -> str:
        """What a row sees, as text. Raises ValueError if it sees a position twice or not at all."""
        seen: dict[int, int] = {}
        for slot in visible_slots(query, row):
            position, token = slots[slot]
            if position in seen:
                raise ValueError(f"row {row} sees position {position} twice")
            seen[position] = token
        missing = set(range(query.limit(row))) - set(seen)
        if missing:
            raise ValueError(f"row {row} does not see positions {sorted(missing)}")
        words, mask = self._engine.script.vocabulary, self._engine.info.mask_token_id
        return " ".join(
            "_" if seen[position] == mask else words[seen[position]]
            for position in range(query.limit(row))
        )


def toy_engine() -> ScriptedEngine:
    """The worked example of the paper's review: vocabulary {A, B, [MASK]}, N = 4, β_m = 2.

    Positions are 0-based here: ^ (the start token) is 0, the four masks are 1…4. The whole run
    is written out in docs/decisions.md.
    """
    return ScriptedEngine(
        Script(
            vocabulary=("A", "B", "[MASK]", "^", "$"),
            answers={
                ("^ _ _ _ _", 1): ("A", 0.92),
                ("^ _ _ _ _", 2): ("A", 0.70),
                ("^ A _ _ _", 2): ("A", 0.85),
                ("^ A A _ _", 3): ("B", 0.60),
                ("^ A A _ _", 4): ("A", 0.55),
                ("^ A A B _", 4): ("B", 0.95),
            },
            views={("^ A A B _", 4): ("B", 0.70)},
            mass={
                "^ _ _ _ _": {0: 0.5, 1: 0.3, 2: 0.2},
                "^ A A _ _": {0: 0.5, 1: 0.3, 2: 0.2},
                "^ A A B _": {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1},
            },
        ),
        name="toy example",
    )
