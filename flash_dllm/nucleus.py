"""Leaving out unlikely tokens, and the entropy of what is left (`drawing.py`), by torch.

P predicted rows, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flash_dllm.drawing import Drawing
from kernels.reference import wide

# rows whose sorted logits are held at once: LLaDA's vocabulary takes 1.5 MB a row
ROWS = 64
# added to the logits of tokens that are left out; finite, so that no sum is undefined
NEVER = -1e30


@torch.inference_mode()
def drawn(
    logits: Tensor, noise: Tensor | None, temperature: float, drawing: Drawing, mask_token_id: int
) -> tuple[Tensor | None, Tensor | None]:
    """(noise under which no token is chosen that is left out, confidences by entropy).

    logits  [P, V] any float; noise [P, V] or None at temperature 0
    Returns noise as it came (or None) where nothing is left out; None for confidences that are
    the chosen tokens' probabilities, else e^−H [P] in fp32 (fp64 for fp64).
    """
    noises, confidences = [], []
    parts = logits.split(ROWS)
    for number, rows in enumerate(parts):
        left = kept(rows, temperature, drawing, mask_token_id)
        if noise is not None:
            own = noise[number * ROWS : number * ROWS + len(rows)]
            noises.append(own.masked_fill(left.isneginf(), NEVER))
        if drawing.measure == "entropy":
            confidences.append(torch.special.entr(left.softmax(-1)).sum(-1).neg().exp())
    return torch.cat(noises) if noises else noise, torch.cat(confidences) if confidences else None


def kept(logits: Tensor, temperature: float, drawing: Drawing, mask_token_id: int) -> Tensor:
    """Logits over temperature [P, V] in at least fp32, −∞ where a token can't be drawn.

    The likeliest is always kept; a token stands in the nucleus if those before it hold at most
    top_p. The mask token is never drawn.
    """
    scaled = logits.to(wide(logits.dtype), copy=True)
    scaled[:, mask_token_id] = -torch.inf
    if temperature > 0:
        scaled = scaled / temperature
    if drawing.top_p < 1:
        falling, order = scaled.sort(dim=-1, descending=True, stable=True)
        before = falling.softmax(-1).cumsum(-1).roll(1, -1)
        before[:, 0] = 0.0
        # back from falling order to the vocabulary's
        is_out = (before > drawing.top_p).gather(1, order.argsort(dim=-1))
        scaled = scaled.masked_fill(is_out, -torch.inf)
    if drawing.top_k is not None:
        least = scaled.topk(min(drawing.top_k, scaled.shape[-1]), dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    return scaled
