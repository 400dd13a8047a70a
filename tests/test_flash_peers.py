"""The Flash-dLLM peers whole, attention mass and tracked set included, against a straight-line
version of their descriptions in float64: same tokens, same steps, the same rows in every pass.

The paper's reading verifies one position after another, each by forwards of its own; the released
one by one packed pass with a dense mask, because there rows see one another.
"""

import math

import pytest
import torch

from flash_dllm.caches import FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.strategies import Confidence, FlashVerify
from tests.plain_layers import Layers
from tests.random_model import MASK, PROMPT
from tests.recorded_run import END, LENGTH, START, check


class FlashRun:
    """A text, its entries (per layer, by position), and what every pass read.

    decide   of the window's masks, how many may be committed
    tracked  in order of preference; unwritten: decided, but their entries are still [MASK]
    """

    def __init__(self, config, tensors, window, decide, track_size):
        self.layers = Layers(config, tensors)
        self.window, self.decide, self.track_size = window, decide, track_size
        self.tokens = PROMPT + [MASK] * LENGTH
        self.tracked, self.read, self.steps, self.kept = [], [], [], None

    def forward(self, rows, past, sees=None):
        """(logits [rows, V], per layer each row's (key, value), per layer attention to positions).

        rows   (position, token); the same position may be several rows
        past   per layer {position: (key, value)}
        sees   row → (rows, positions of the past) that it sees; None: all rows, and the past of
               all positions that are no row
        """
        layers, count = self.layers, len(rows)
        places = [p for p, _ in rows]
        if sees is None:
            others = [p for p in range(END) if p not in places]
            sees = [(range(count), others)] * count
        # columns: the rows, then the past by position
        visible = torch.zeros(count, count + END, dtype=torch.bool)
        for row, (near, far) in enumerate(sees):
            visible[row, list(near)] = True
            visible[row, [count + p for p in far]] = True
        columns = torch.tensor([*places, *range(END)])
        x = layers.embed([token for _, token in rows])
        nothing = x.new_zeros(layers.kv_heads, layers.size)
        fresh, looks = [], []
        for i in range(layers.count):
            q, k, v = self.project(i, x, places)
            old = [past[i][p] if past else (nothing, nothing) for p in range(END)]
            keys = torch.cat([k, torch.stack([key for key, _ in old])])
            values = torch.cat([v, torch.stack([value for _, value in old])])
            mixed, look = [], x.new_zeros(count, END)
            for head in range(layers.heads):
                kv = head // (layers.heads // layers.kv_heads)
                scores = q[:, head] @ keys[:, kv].T / math.sqrt(layers.size)
                share = scores.masked_fill(~visible, -math.inf).softmax(-1)
                mixed.append(share @ values[:, kv])
                look.index_add_(1, columns, share / layers.heads)
            x = x + torch.cat(mixed, -1) @ layers.weights[i]["attn_out.weight"].T
            x = x + layers.feed_forward(i, x)
            fresh.append([(k[n], v[n]) for n in range(count)])
            looks.append(look)
        logits = layers.logits(x)
        logits[:, MASK] = -math.inf
        return logits, fresh, looks

    def project(self, i, x, places):
        """Queries, keys and values of rows that stand at these positions: `Layers` turns rows by
        their place in a list, so they are put there."""
        spread = x.new_zeros(max(places) + 1, x.shape[1])
        found = [None] * len(places)
        # rows that share a position go one after another
        left = list(range(len(places)))
        while left:
            now = {places[row]: row for row in reversed(left)}
            for p, row in now.items():
                spread[p] = x[row]
            q, k, v = self.layers.qkv(i, spread)
            for p, row in now.items():
                found[row] = q[p], k[p], v[p]
            left = [row for row in left if found[row] is None]
        return [torch.stack(parts) for parts in zip(*found, strict=True)]

    def write(self, rows, fresh, wanted=None):
        """Keep what these rows computed at their positions."""
        for layer, new in zip(self.kept, fresh, strict=True):
            for n, (p, _) in enumerate(rows):
                if wanted is None or n in wanted:
                    layer[p] = new[n]

    def draft(self):
        """(answers of the window by position, mass by position)."""
        masks = [p for p in range(START, END) if self.tokens[p] == MASK][: self.window]
        read = sorted([*self.tracked, *masks]) if self.kept else list(range(END))
        rows = [(p, self.tokens[p]) for p in read]
        logits, fresh, looks = self.forward(rows, self.kept)
        self.kept = self.kept or [{} for _ in fresh]
        self.write(rows, fresh)
        self.read.append(read)
        asked = [read.index(p) for p in masks]
        mass = sum(look[asked].mean(0) for look in looks) / len(looks)
        return {p: best(logits[read.index(p)]) for p in masks}, [round(float(m), 6) for m in mass]

    def finish(self, pairs, unwritten, mass):
        """Commit, and choose what the next pass reads again."""
        before = [p for p in range(END) if self.tokens[p] != MASK]
        for p, token in pairs:
            self.tokens[p] = token
        self.steps.append(pairs)
        heavy = lambda places: sorted(places, key=lambda p: (-mass[p], p))  # noqa: E731
        newly = [p for p, _ in pairs if p not in unwritten]
        order = [*sorted(unwritten), *heavy(newly), *heavy(before)]
        self.tracked = order[: max(self.track_size, len(unwritten))]

    def split(self, answers, epsilon, search):
        """(D, S), both by falling confidence."""
        ranked = sorted(sorted(answers)[: self.decide], key=lambda p: -answers[p][1])
        decided = [p for n, p in enumerate(ranked) if n == 0 or answers[p][1] >= epsilon]
        return decided, ranked[len(decided) :][:search]


def best(logits):
    sure, token = logits.softmax(-1).max(-1)
    return int(token), float(sure)


def confidence(run, epsilon):
    while MASK in run.tokens:
        answers, mass = run.draft()
        decided, _ = run.split(answers, epsilon, 0)
        run.finish([(p, answers[p][0]) for p in decided], decided, mass)


def verified(run, epsilon, gamma):
    """The paper's reading: D is written first, then the searched positions go one after another."""
    while MASK in run.tokens:
        answers, mass = run.draft()
        decided, searched = run.split(answers, epsilon, None)
        pairs, unwritten = [(p, answers[p][0]) for p in decided], decided
        if searched:
            unwritten = []
            room = max(0, 2 * run.decide - len(decided) - 2 * len(searched))
            again = sorted(run.tracked, key=lambda p: (-mass[p], p))[:room]
            rows = [*((p, run.tokens[p]) for p in again), *pairs]
            run.write(rows, run.forward(rows, run.kept)[1])
            run.read.append(sorted([*again, *decided, *searched, *searched]))
            for p in searched:
                token, sure = best(run.forward([(p, MASK)], run.kept)[0][0])
                if token != answers[p][0] or sure < gamma:
                    break
                run.write([(p, token)], run.forward([(p, token)], run.kept)[1])
                pairs.append((p, token))
        run.finish(pairs, unwritten, mass)


def released(run, epsilon, gamma, search):
    """As released: the rows before the views see fresh [MASK] rows at the searched positions, and
    so do the views from their own place on; nothing is written; the running product decides."""
    while MASK in run.tokens:
        answers, mass = run.draft()
        decided, searched = run.split(answers, epsilon, search)
        pairs = [(p, answers[p][0]) for p in decided]
        if searched:
            room = max(0, 2 * run.decide - len(decided) - 2 * len(searched))
            again = run.tracked[:room]
            drafts = [(p, answers[p][0]) for p in searched]
            rows = [*((p, run.tokens[p]) for p in again), *pairs, *drafts]
            rows += [(p, MASK) for p in searched]
            own, many = len(again) + len(decided), len(searched)
            far = [p for p in range(END) if p not in [place for place, _ in rows]]
            front, masks = [*range(own)], [own + many + k for k in range(many)]
            views = [own + k for k in range(many)]
            sees = [([*front, *masks], far)] * own
            sees += [([*front, *views[: k + 1], *masks[k + 1 :]], far) for k in range(many)]
            sees += [([*front, *views[:k], *masks[k:]], far) for k in range(many)]
            logits, _, _ = run.forward(rows, run.kept, sees)
            run.read.append(sorted(p for p, _ in rows))
            product = 1.0
            for k, p in enumerate(searched):
                token, sure = best(logits[masks[k]])
                product *= sure
                if token != answers[p][0] or product < gamma:
                    break
                pairs.append((p, token))
        run.finish(pairs, [p for p, _ in pairs], mass)


def settings(window, decide):
    return DecodeConfig(
        gen_length=LENGTH, window_size=window, decide_size=decide, early_stop=False
    )


@pytest.mark.parametrize(("window", "track_size"), [(8, 0), (24, 5)])
def test_confidence_over_the_flash_cache_equals_its_description(
    engine, small_config, small_tensors, rows_read, window, track_size
):
    run = FlashRun(small_config, small_tensors, window, window, track_size)
    confidence(run, 0.3)
    config = settings(window, None)
    trace = decode(engine, PROMPT, Confidence(0.3), FlashCache(track_size), config)
    check(trace, run, rows_read)


@pytest.mark.parametrize(
    ("window", "track_size", "epsilon", "gamma"), [(8, 1, 0.3, 0.05), (12, 5, 0.3, 0.03)]
)
def test_flash_dllm_equals_its_description(
    engine, small_config, small_tensors, rows_read, window, track_size, epsilon, gamma
):
    run = FlashRun(small_config, small_tensors, window, window, track_size)
    verified(run, epsilon, gamma)
    strategy, cache = FlashVerify(epsilon, gamma), FlashCache(track_size)
    trace = decode(engine, PROMPT, strategy, cache, settings(window, None))
    check(trace, run, rows_read)
    assert trace.verified > 0


@pytest.mark.parametrize(("track_size", "search"), [(4, 3), (9, 2)])
def test_flash_dllm_as_released_equals_its_description(
    engine, small_config, small_tensors, rows_read, track_size, search
):
    run = FlashRun(small_config, small_tensors, 12, 6, track_size)
    released(run, 0.3, 0.03, search)
    strategy = FlashVerify(0.3, 0.03, search, acceptance="joint", mask_views="shared")
    cache = FlashCache(track_size, verify_first="recent", verify_writes=False)
    trace = decode(engine, PROMPT, strategy, cache, settings(12, 6))
    check(trace, run, rows_read)
    assert trace.verified > 0
    assert any(step.verify_tracked for step in trace.steps)
