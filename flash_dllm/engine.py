"""ModelEngine: answers the loop's queries with a network (pack → forward → choose)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from flash_dllm.cache import FlatKVCache
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.models.transformer import Transformer
from flash_dllm.packing import pack
from flash_dllm.query import Prediction, Query
from flash_dllm.sampling import GumbelField, choose
from flash_dllm.trace import ModelInfo


class TextCodec(Protocol):
    """What the engine needs of a tokenizer (`models/tokenizer.py`)."""

    def encode(self, prompt: str, raw: bool = False) -> list[int]: ...

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]: ...

    def token_text(self, token: int) -> str: ...


@dataclass(frozen=True)
class ModelEngine:
    """A loaded model with its tokenizer and its preset of default settings."""

    model: Transformer
    info: ModelInfo
    codec: TextCodec
    preset: dict[str, Any] = field(default_factory=dict)

    @property
    def max_length(self) -> int:
        return self.model.spec.max_length

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        """Token ids of a prompt in the model's chat template, or of plain text (`raw`).

        Text that looks like a special token stays text. Raises ValueError if it is empty.
        """
        _check_text(prompt)
        return self.codec.encode(prompt, raw)

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Token ids of a conversation, (role, text) by turn, up to the model's next answer.

        Roles are system (first only), user and assistant; the last turn is the user's. Raises
        ValueError otherwise, and where the checkpoint's template can't show it.
        """
        roles = [role for role, _ in messages]
        turns = roles[1:] if roles[:1] == ["system"] else roles
        wanted = ["user", "assistant"] * (len(turns) // 2) + ["user"]
        if turns != wanted:
            raise ValueError(
                "a conversation is an optional system prompt, then user and assistant in turn, "
                f"the user last; got {', '.join(roles) or 'nothing'}"
            )
        for _, text in messages:
            _check_text(text)
        return self.codec.encode_chat(messages)

    def token_text(self, token: int) -> str:
        return self.codec.token_text(token)

    def open(self, request: SessionRequest) -> ModelSession:
        layers = request.mass_layers
        if layers is not None and layers[1] >= self.model.spec.n_layers:
            raise ValueError(
                f"track_layers must stay below {self.model.spec.n_layers} for "
                f"{self.info.name}, got {layers[0]} to {layers[1]}"
            )
        return ModelSession(self.model, request)


def _check_text(text: str) -> None:
    """Raise ValueError for a prompt that says nothing or is no text."""
    if not text.strip():
        raise ValueError("the prompt is empty; type a question")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the prompt is not valid UTF-8; type it again as text") from None


class ModelSession:
    """The flat cache of the live sequences."""

    def __init__(self, model: Transformer, request: SessionRequest) -> None:
        spec = model.spec
        self._model = model
        self._request = request
        self._cache = FlatKVCache(
            request.sequences,
            request.max_length + request.max_views,
            spec.n_layers,
            spec.n_kv_heads,
            spec.head_dim,
            model.dtype,
            model.device,
        )
        self._seeds: dict[int, int] = {}
        self._noise = GumbelField(spec.vocab_size, request.temperature, model.device)

    def admit(self, length: int, seed: int) -> int:
        handle = self._cache.admit(length + self._request.max_views)
        self._seeds[handle] = seed
        return handle

    def release(self, handle: int) -> None:
        self._cache.release(handle)

    def promote(self, handle: int, moves: Sequence[tuple[int, int]]) -> None:
        self._cache.promote(handle, moves)

    def answer(self, queries: Sequence[tuple[int, Query]]) -> list[Prediction]:
        """One pass. `seconds` covers host work and device work of the whole launch."""
        started = time.perf_counter()
        packed = pack(queries, self._cache.table, self._model.device)
        logits, mass = self._model.forward(packed, self._cache, self._request.mass_layers)
        noise = None
        if self._request.temperature > 0:
            noise = torch.cat(
                [
                    self._noise.rows(self._seeds[handle], query.targets)
                    for handle, query in queries
                ]
            )
        # drafts keep runner-ups for the trace, verify answers do not need them
        wants_more = any(query.kind in ("full", "draft") for _, query in queries)
        tokens, confidences, alternatives, masses = choose(
            logits,
            self._model.spec.mask_token_id,
            noise,
            self._request.alternatives if wants_more else 0,
            mass,
            self._model.impl,
        )
        seconds = time.perf_counter() - started
        predictions = []
        start = 0
        for number, (_, query) in enumerate(queries):
            end = start + len(query.predict)
            predictions.append(
                Prediction(
                    tokens[start:end],
                    confidences[start:end],
                    alternatives[start:end],
                    masses[number][: query.length] if query.wants_mass else [],
                    seconds,
                )
            )
            start = end
        return predictions
