"""GuideModel: an autoregressive model that answers how likely a diffusion model's drafts are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.query import Prediction
from flash_dllm.sampling import DIGITS
from flash_dllm.trace import ModelInfo
from kernels.reference import wide

if TYPE_CHECKING:
    from flash_dllm.engine import ModelEngine
    from flash_dllm.session import Asked, ModelSession


@dataclass(frozen=True)
class GuideModel:
    """A causal model, and the ids of the model that it guides.

    vocab_size, mask_token_id  of the guided model: the guide chooses among these ids, and never
                               the mask
    """

    engine: ModelEngine
    vocab_size: int
    mask_token_id: int

    @property
    def info(self) -> ModelInfo:
        return self.engine.info

    @property
    def max_length(self) -> int:
        return self.engine.max_length

    def open(self, request: SessionRequest) -> ModelGuideSession:
        """Raises RuntimeError if memory is short."""
        return ModelGuideSession(self, self.engine.open(request))


class ModelGuideSession:
    """The live sequences in the guide's own cache."""

    def __init__(self, guide: GuideModel, session: ModelSession) -> None:
        self._guide, self._session = guide, session

    def admit(self, length: int, seed: int) -> int:
        return self._session.admit(length, seed)

    def release(self, handle: int) -> None:
        self._session.release(handle)

    def close(self) -> None:
        self._session.close()

    def ask(self, queries: Asked) -> Callable[[], list[Prediction]]:
        """One pass for all of them; it runs when the answers are fetched."""
        return lambda: self._answers(queries)

    def _answers(self, queries: Asked) -> list[Prediction]:
        begin = time.perf_counter()
        logits = self._session.logits(queries)
        scored = [token for _, query in queries for token in query.scored]
        columns = score(
            logits, torch.tensor(scored), self._guide.vocab_size, self._guide.mask_token_id
        )
        tokens, tops, ranks, shares = columns.cpu().T.tolist()
        seconds = time.perf_counter() - begin
        answers, start = [], 0
        for _, query in queries:
            own = slice(start, start + len(query.scored))
            start = own.stop
            answers.append(
                Prediction(
                    [int(token) for token in tokens[own]],
                    [_rounded(top) for top in tops[own]],
                    [()] * len(query.scored),
                    seconds=seconds,
                    ranked=[
                        (_rounded(share), int(rank))
                        for share, rank in zip(shares[own], ranks[own], strict=True)
                    ],
                )
            )
        return answers


@torch.inference_mode()
def score(logits: Tensor, drafts: Tensor, vocab_size: int, mask_token_id: int) -> Tensor:
    """[P, 4]: likeliest token, its probability, rank and probability of the draft.

    logits [P, V] of the guide; drafts [P] int64. The softmax is over the guided model's ids but
    its mask. A draft that the guide has no id for has probability 0 and the last rank.
    """
    logits = logits[:, :vocab_size].to(wide(logits.dtype))
    if mask_token_id < logits.shape[1]:
        logits[:, mask_token_id] = -torch.inf
    probabilities = logits.softmax(-1)
    top, token = probabilities.max(-1)
    drafts = drafts.to(logits.device)
    is_known = drafts < logits.shape[1]
    place = torch.where(is_known, drafts, 0)[:, None]
    share = torch.where(is_known, probabilities.gather(1, place)[:, 0], 0.0)
    rank = torch.where(
        is_known, (logits > logits.gather(1, place)).sum(-1), logits.shape[1] - 1
    )
    return torch.stack([token.to(top.dtype), top, rank.to(top.dtype), share], dim=1)


def _rounded(value: float) -> float:
    return round(min(1.0, max(0.0, value)), DIGITS)
