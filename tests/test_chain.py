"""The chain against a straight-line version of its description, in float64: one forward of one row
after another, with remembered entries in plain dicts; and what follows from its rules."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.strategies import Chain, Confidence, Greedy
from flash_dllm.trace import StopReason, TraceError, Verdict
from flash_dllm.trace_json import from_json, to_json
from tests.hash_engine import HashEngine
from tests.plain_cache import forward_rows
from tests.random_model import MASK
from tests.test_peers import LENGTH, PROMPT, START
from tests.test_rules import check_run, configs

END = START + LENGTH


class Straight:
    """A text, its remembered entries (per layer, by position), and the rows of every pass."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.text = PROMPT + [MASK] * LENGTH
        self.rows, self.steps = [], []

    def forward(self, text, positions, past):
        """({position: (token, probability)}, entries) of these rows."""
        logits, fresh = forward_rows(self.config, self.tensors, text, positions, past)
        logits[:, MASK] = -math.inf
        sure, tokens = logits.softmax(-1).max(-1)
        answers = zip(positions, zip(tokens.tolist(), sure.tolist(), strict=True), strict=True)
        return dict(answers), fresh


def over(past, fresh):
    """The entries with newer ones in their places."""
    return [{**old, **new} for old, new in zip(past, fresh, strict=True)]


def chain(run, epsilon, hope, longest, window, keeps_entries):
    """The whole decoder. keeps_entries: rows outside of the window are read once, decided ones
    again only if their token was not written; else every draft pass reads everything."""
    entries, unwritten = None, []
    while masks := [p for p in range(START, END) if run.text[p] == MASK]:
        asked = masks[:window]
        rows = sorted(unwritten + asked) if keeps_entries and entries else list(range(END))
        answers, fresh = run.forward(run.text, rows, entries if keeps_entries else None)
        entries = over(entries, fresh) if keeps_entries and entries else fresh
        passes = [len(rows)]
        drafts = {p: answers[p] for p in asked}

        decided = [asked[0]]
        while len(decided) < len(asked) and drafts[asked[len(decided)]][1] >= epsilon:
            decided.append(asked[len(decided)])
        searched, product = [], 1.0
        for p in asked[len(decided) :][:longest]:
            product *= drafts[p][1]
            if product < hope:
                break
            searched.append(p)

        text = list(run.text)
        for p in decided:
            text[p] = drafts[p][0]
        pairs, unwritten = [(p, drafts[p][0]) for p in decided], list(decided)
        if searched:
            known = [p for p in range(END) if run.text[p] != MASK]
            again = decided if keeps_entries else known + decided
            _, fresh = run.forward(text, sorted(again), entries)
            entries, unwritten = over(entries, fresh), []
            views = [p for p in searched if drafts[p][1] < epsilon]
            passes.append(len(again) + len(searched) + len(views))
            for p in searched:
                token, sure = drafts[p]
                if sure < epsilon:
                    token = run.forward(text, [p], entries)[0][p][0]
                pairs.append((p, token))
                if token != drafts[p][0]:
                    unwritten = [p]
                    break
                text[p] = token
                entries = over(entries, run.forward(text, [p], entries)[1])
        for p, token in pairs:
            run.text[p] = token
        run.steps.append(pairs)
        run.rows += passes


SETTINGS = [(1.0, 0.0, 24, 24), (0.6, 0.0, 6, 10), (0.4, 0.02, 24, 12), (0.5, 0.3, 24, 5)]


@pytest.mark.parametrize("cache", [NoCache(), FlashCache(track_size=0, verify_rows=1)],
                         ids=["none", "flash"])  # fmt: skip
@pytest.mark.parametrize(("epsilon", "hope", "longest", "window"), SETTINGS)
def test_chain_equals_its_description(
    engine, small_config, small_tensors, cache, epsilon, hope, longest, window
):
    run = Straight(small_config, small_tensors)
    chain(run, epsilon, hope, longest, window, cache.keeps_entries)
    config = DecodeConfig(gen_length=LENGTH, window_size=window, early_stop=False)
    trace = decode(engine, PROMPT, Chain(epsilon, hope, longest), cache, config)
    assert [list(step.accepted) for step in trace.steps] == run.steps
    assert [p.rows for s in trace.steps for p in s.passes] == run.rows
    assert from_json(to_json(trace)) == trace
