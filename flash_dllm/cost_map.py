"""Where the work of a run goes: how many layers computed each position in each step."""

from __future__ import annotations

from collections import Counter

from flash_dllm.layer_cost import counts_of, query_spans
from flash_dllm.trace import DecodeTrace
from flash_dllm.trace_replay import replay
from flash_dllm.trace_schema import read_settings


def position_layers(trace: DecodeTrace) -> list[list[int]]:
    """Per step, and per position of prompt and answer: layers that computed it, over the step's
    passes (those of an audit left out). A pass through all of n layers counts n.

    Files from before costs were recorded are replayed: their rows are known, and each went
    through every layer. Raises TraceError if such a file does not follow from the rules.
    """
    length, n_layers = trace.prompt_length + trace.gen_length, trace.model.n_layers
    is_recorded = all(record.layers for step in trace.steps for record in step.passes)
    queries = None if is_recorded else replay(trace, read_settings(vars(trace)))
    rows = []
    for number, step in enumerate(trace.steps):
        counts: Counter[int] = Counter()
        for place, record in enumerate(step.passes):
            if record.kind == "audit":
                continue
            spans = record.layers
            if queries is not None and not spans:
                spans = query_spans(queries[number][place], n_layers)
            counts.update(counts_of(spans))
        rows.append([counts[position] for position in range(length)])
    return rows
