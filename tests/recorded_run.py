"""A text that a straight-line version of a decoder fills, and what each of its passes read."""

import math

from flash_dllm.config import DecodeConfig
from flash_dllm.trace_json import from_json, to_json
from tests.plain_cache import forward_rows
from tests.random_model import MASK, PROMPT

LENGTH = 24
START = len(PROMPT)
END = START + LENGTH
EVERYTHING = range(END)


def blocks_of(size):
    """Settings of a semi-autoregressive run that asks for its whole block."""
    return DecodeConfig(
        gen_length=LENGTH, block_length=size, window_size=size, early_stop=False
    )


class Run:
    """A text, what each pass read, and what each step decided."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.tokens = PROMPT + [MASK] * LENGTH
        self.read, self.steps = [], []

    def forward(self, positions, past=None):
        """Token and probability by position, and the entries of the rows."""
        positions = sorted(positions)
        logits, fresh = forward_rows(self.config, self.tensors, self.tokens, positions, past)
        logits[:, MASK] = -math.inf
        sure, tokens = logits.softmax(-1).max(-1)
        self.read.append(positions)
        pairs = zip(positions, tokens.tolist(), sure.tolist(), strict=True)
        return {p: (token, c) for p, token, c in pairs}, fresh

    def masks(self, first=START, last=END):
        return [i for i in range(first, last) if self.tokens[i] == MASK]

    def commit_by_threshold(self, answers, masks, epsilon):
        ranked = sorted(masks, key=lambda p: -answers[p][1])
        chosen = [p for n, p in enumerate(ranked) if n == 0 or answers[p][1] >= epsilon]
        self.commit([(p, answers[p][0]) for p in chosen])

    def commit(self, pairs):
        for position, token in pairs:
            self.tokens[position] = token
        self.steps.append(pairs)


def check(trace, run, rows_read):
    """The same tokens in the same steps, by passes that read the same rows; the file is read."""
    assert [list(step.accepted) for step in trace.steps] == run.steps
    assert rows_read == run.read
    assert [p.rows for s in trace.steps for p in s.passes] == [len(rows) for rows in run.read]
    assert from_json(to_json(trace)) == trace
