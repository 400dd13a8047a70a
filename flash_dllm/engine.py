"""ModelEngine: a loaded model with its tokenizer, which opens sessions that answer the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from flash_dllm.cache import FlatKVCache
from flash_dllm.caches.base import CachePolicy
from flash_dllm.engine_protocol import Guide, SessionRequest
from flash_dllm.models.transformer import Transformer
from flash_dllm.session import ModelSession
from flash_dllm.trace import ModelInfo
from flash_dllm.workspace import Workspace


class TextCodec(Protocol):
    """What the engine needs of a tokenizer (`models/tokenizer.py`)."""

    def encode(self, prompt: str, raw: bool = False) -> list[int]: ...

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]: ...

    def token_text(self, token: int) -> str: ...


@dataclass(frozen=True)
class ModelEngine:
    """A loaded model with its tokenizer and its preset of default settings.

    has_graphs  replay passes as CUDA graphs (at temperature 0; the noise comes from the host)
    find_guide  loads the autoregressive guide, the first time that a strategy wants one
    """

    model: Transformer
    info: ModelInfo
    codec: TextCodec
    preset: dict[str, Any] = field(default_factory=dict)
    has_graphs: bool = False
    find_guide: Callable[[], Guide] | None = None
    _idle: list[Workspace] = field(default_factory=list, repr=False, compare=False)

    @property
    def max_length(self) -> int:
        return self.model.spec.max_length

    @cached_property
    def guide(self) -> Guide | None:
        """The guide, or None if there can't be one. Raises ValueError if it does not fit."""
        return None if self.find_guide is None else self.find_guide()

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
        """Raises ValueError for layers that the model lacks and for plans that this implementation
        can't follow, RuntimeError if memory is short."""
        if request.by_layer and (self.model.impl != "torch" or self.model.is_shared):
            raise ValueError(
                "a cache that chooses its rows layer by layer needs impl='torch' on one device; "
                "load the model that way, take `engine.suited(cache)`, or use another cache"
            )
        layers = request.mass_layers
        if layers is not None and layers[1] >= self.model.spec.n_layers:
            raise ValueError(
                f"track_layers must stay below {self.model.spec.n_layers} for "
                f"{self.info.name}, got {layers[0]} to {layers[1]}"
            )
        return ModelSession(self.model, request, self._workspace(request), self._idle)

    def suited(self, cache: CachePolicy) -> ModelEngine:
        """The engine for this cache: itself, or the same weights computed by torch if the cache
        chooses its rows layer by layer and the kernels can't follow."""
        is_able = self.model.impl == "torch" or self.model.is_shared or not cache.by_layer
        return self if is_able else self._on_torch

    @cached_property
    def _on_torch(self) -> ModelEngine:
        model = Transformer(self.model.spec, self.model.weights, "torch")
        return replace(self, model=model, info=replace(self.info, impl="torch"), _idle=[])

    @property
    def kept_cache(self) -> FlatKVCache | None:
        """The cache that is kept for the next session."""
        return self._idle[-1].cache if self._idle else None

    def free(self) -> None:
        """Give up the memory that is kept for the next session."""
        self._idle.clear()
        if "_on_torch" in vars(self):
            self._on_torch.free()

    def _workspace(self, request: SessionRequest) -> Workspace:
        """The last session's, with its graphs, if it fits; or a new one in its place."""
        last = self._idle.pop() if self._idle else None
        if last is not None and last.fits(request):
            return last
        del last
        has_graphs = self.has_graphs and request.temperature == 0
        return Workspace.make(self.model, request, has_graphs)


def _check_text(text: str) -> None:
    """Raise ValueError for a prompt that says nothing or is no text."""
    if not text.strip():
        raise ValueError("the prompt is empty; type a question")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the prompt is not valid UTF-8; type it again as text") from None
