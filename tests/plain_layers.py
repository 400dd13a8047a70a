"""The parts of a layer written out in plain torch (float64), and the published loops that refresh
layer by layer, from their descriptions.

Independent of the decoder: every layer's projections, attention and feed-forward are computed for
all positions in every step, and what a method would not have computed is thrown away.
"""

import math

import torch


class Layers:
    """A model's layers as functions of all positions."""

    def __init__(self, config, tensors):
        self.heads, self.kv_heads = config["n_heads"], config["n_kv_heads"]
        self.size, self.eps = config["d_model"] // self.heads, config["rms_norm_eps"]
        self.theta, self.count = config["rope_theta"], config["n_layers"]
        self.ends = {k.removeprefix("model.transformer."): t for k, t in tensors.items()}
        self.weights = [
            {k.split(f"blocks.{i}.")[1]: t for k, t in tensors.items() if f"blocks.{i}." in k}
            for i in range(self.count)
        ]

    def embed(self, ids):
        return self.ends["wte.weight"][torch.tensor(ids)]

    def norm(self, x, weight):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * weight

    def turn(self, h):
        """Rotary embedding of rows that stand at 0, 1, 2, …"""
        exponent = torch.arange(0, self.size, 2, dtype=torch.float64) / self.size
        angle = torch.outer(torch.arange(len(h)).double(), self.theta**-exponent)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        half = torch.cat((-h[..., self.size // 2 :], h[..., : self.size // 2]), -1)
        return h * cos[:, None] + half * sin[:, None]

    def qkv(self, i, x):
        w = self.weights[i]
        h = self.norm(x, w["attn_norm.weight"])
        return (
            self.turn((h @ w["q_proj.weight"].T).view(-1, self.heads, self.size)),
            self.turn((h @ w["k_proj.weight"].T).view(-1, self.kv_heads, self.size)),
            (h @ w["v_proj.weight"].T).view(-1, self.kv_heads, self.size),
        )

    def attention(self, i, q, k, v):
        """(what the branch adds, the heads' mean attention [T, T])."""
        mixed, shares = [], []
        for head in range(self.heads):
            kv = head // (self.heads // self.kv_heads)
            shares.append((q[:, head] @ k[:, kv].T / math.sqrt(self.size)).softmax(-1))
            mixed.append(shares[-1] @ v[:, kv])
        out = torch.cat(mixed, -1) @ self.weights[i]["attn_out.weight"].T
        return out, torch.stack(shares).mean(0)

    def feed_forward(self, i, x):
        w = self.weights[i]
        h = self.norm(x, w["ff_norm.weight"])
        gate = h @ w["ff_proj.weight"].T
        return (gate * torch.sigmoid(gate) * (h @ w["up_proj.weight"].T)) @ w["ff_out.weight"].T

    def logits(self, x):
        return self.norm(x, self.ends["ln_f.weight"]) @ self.ends["ff_out.weight"].T


class FourFeatures:
    """K, V, attention output and MLP output of every layer, as dLLM-Cache keeps them.

    `select(layer, cosine)` names answer positions that a layer refreshes in a step in which the
    answer is not due; `cosine` is by answer position. None: no comparison is made at all.
    """

    def __init__(self, layers, start, length, prompt_interval, answer_interval):
        self.layers, self.start, self.length = layers, start, length
        self.intervals = prompt_interval, answer_interval
        self.step = 0
        self.kept = [{} for _ in range(layers.count)]

    def forward(self, tokens, select):
        """(logits of all positions, per layer what was refreshed, per layer mean of 1 − cosine)."""
        self.step += 1
        prompt_due, answer_due = ((self.step - 1) % k == 0 for k in self.intervals)
        prompt, answer = range(self.start), range(self.start, self.length)
        x = self.layers.embed(tokens)
        refreshed, moved = [], []
        for i, kept in enumerate(self.kept):
            q, k, v = self.layers.qkv(i, x)
            chosen = set(prompt if prompt_due else ()) | set(answer if answer_due else ())
            if i == 0:
                chosen = set(range(self.length))
            elif not answer_due and select is not None:
                cosine = {
                    p: float(
                        (v[p] * kept["v"][p]).sum() / (v[p].norm() * kept["v"][p].norm())
                    )
                    for p in answer
                }
                moved.append(sum(1 - c for c in cosine.values()) / len(cosine))
                chosen |= set(select(i, cosine))
                for p in answer:
                    kept["v"][p] = v[p]
            rows = sorted(chosen)
            if not kept:
                kept.update(k=k.clone(), v=v.clone(), a=torch.zeros_like(x), m=torch.zeros_like(x))
            kept["k"][rows], kept["v"][rows] = k[rows], v[rows]
            a, _ = self.layers.attention(i, q, kept["k"], kept["v"])
            kept["a"][rows] = a[rows]
            x = x + kept["a"]
            kept["m"][rows] = self.layers.feed_forward(i, x)[rows]
            x = x + kept["m"]
            refreshed.append(rows)
        return self.layers.logits(x), refreshed, moved


class Elastic:
    """K, V and the hidden states before every layer; the attention of every row when it was last
    computed. One tracked token a layer."""

    def __init__(self, layers, length, threshold):
        self.layers, self.length, self.threshold = layers, length, threshold
        self.hidden = self.entries = self.seen = None
        self.tracked = []

    def forward(self, tokens, decided, window, fresh):
        """(logits, per layer what was computed)."""
        everything = list(range(self.length))
        count = self.layers.count
        read = sorted({*self.tracked, *fresh, *window})
        if self.hidden is None:
            x = self.layers.embed(tokens)
            self.hidden = [torch.zeros_like(x) for _ in range(count + 1)]
            self.entries, self.seen = [None] * count, [None] * count
            read = everything
        self.hidden[0][read] = self.layers.embed(tokens)[read]
        rows, computed, tracked = read, [], []
        for i in range(count):
            q, k, v = self.layers.qkv(i, self.hidden[i])
            if self.entries[i] is None:
                self.entries[i] = k.clone(), v.clone()
            for kept, new in zip(self.entries[i], (k, v), strict=True):
                kept[rows] = new[rows]
            out, attention = self.layers.attention(i, q, *self.entries[i])
            x = self.hidden[i] + out
            x = x + self.layers.feed_forward(i, x)
            self.hidden[i + 1][rows] = x[rows]
            computed.append(rows)
            following = rows
            if self.tracked:
                token = self.tracked[i]
                now, before = attention[token], self.seen[i][token]
                if float(now @ before / (now.norm() * before.norm())) < self.threshold:
                    following = everything
            if self.seen[i] is None:
                self.seen[i] = attention.clone()
            self.seen[i][rows] = attention[rows]
            mass = attention[window].sum(0)
            tracked.append(max(sorted(decided), key=lambda p, mass=mass: float(mass[p])))
            rows = following
        self.tracked = tracked
        return self.layers.logits(self.hidden[count]), computed
