"""One forward of some rows against remembered keys and values, written out with dicts.

Independent of the decoder's cache: nothing is written anywhere; the caller keeps what came back.
"""

import math

import torch


def forward_rows(config, tensors, ids, positions, past=None):
    """(logits [rows, V], per layer {position: (key, value)} of the rows), in float64.

    ids        the text; positions: its rows that are computed
    past       per layer {position: (key, value)}; a computed row stands in for a remembered one
    """
    heads, kv_heads = config["n_heads"], config["n_kv_heads"]
    size, eps = config["d_model"] // heads, config["rms_norm_eps"]
    x = tensors["model.transformer.wte.weight"][torch.tensor([ids[p] for p in positions])]
    frequency = config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.outer(torch.tensor(positions).double(), frequency)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def norm(h, weight):
        return h / torch.sqrt((h * h).mean(-1, keepdim=True) + eps) * weight

    def turn(h):
        half = torch.cat((-h[..., size // 2 :], h[..., : size // 2]), -1)
        return h * cos[:, None] + half * sin[:, None]

    fresh = []
    for i in range(config["n_layers"]):
        w = {k.split(f"blocks.{i}.")[1]: t for k, t in tensors.items() if f"blocks.{i}." in k}
        h = norm(x, w["attn_norm.weight"])
        q = turn((h @ w["q_proj.weight"].T).view(-1, heads, size))
        k = turn((h @ w["k_proj.weight"].T).view(-1, kv_heads, size))
        v = (h @ w["v_proj.weight"].T).view(-1, kv_heads, size)
        own = {p: (k[row], v[row]) for row, p in enumerate(positions)}
        fresh.append(own)
        seen = {**(past[i] if past is not None else {}), **own}
        assert sorted(seen) == list(range(len(ids))), "every position has one entry"
        keys = torch.stack([seen[p][0] for p in range(len(ids))])
        values = torch.stack([seen[p][1] for p in range(len(ids))])
        mixed = []
        for head in range(heads):
            kv = head // (heads // kv_heads)
            weights = (q[:, head] @ keys[:, kv].T / math.sqrt(size)).softmax(-1)
            mixed.append(weights @ values[:, kv])
        x = x + torch.cat(mixed, -1) @ w["attn_out.weight"].T
        h = norm(x, w["ff_norm.weight"])
        gate = h @ w["ff_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * (h @ w["up_proj.weight"].T)) @ w["ff_out.weight"].T
    logits = norm(x, tensors["model.transformer.ln_f.weight"]) @ (
        tensors["model.transformer.ff_out.weight"].T
    )
    return logits, fresh
