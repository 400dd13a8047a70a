"""Steps as what the browser shows, one after the other; `app/views.py` says in which units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from app import sentences
from app.run_lines import model_line, settings_line
from app.sentences import TextOf
from app.theme import COMMITTED, MASKED, REVOKED, STATE_OF
from app.token_text import visible
from app.view_tables import Lines, Texts
from app.words import LANGUAGES
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import DecodeTrace, Proposal, StepTrace, Verdict

ATTENTION_SHOWN = 12
ALTERNATIVES_SHOWN = 5
PROMPT_SHOWN = 200
SEARCHED = (
    Verdict.VERIFIED,
    Verdict.CORRECTED,
    Verdict.MISMATCH,
    Verdict.UNSURE,
    Verdict.AFTER_STOP,
)


class StepWriter:
    """Writes the steps of one run, one after the other; live and recorded runs share it.

    text_of  id → text; the trace's own table by default
    """

    def __init__(self, trace: DecodeTrace, text_of: Callable[[int], str] | None = None) -> None:
        self.texts = Texts()
        self.lines = Lines()
        self._trace = trace
        self._text_of = sentences.texts_of(trace, text_of)
        self._row = [MASKED.digit] * trace.gen_length
        self._written: dict[int, int] = {}
        self._tracked: frozenset[int] = frozenset()
        self._passes = 0

    def head(self, run: str) -> dict:
        """What does not change from step to step."""
        trace = self._trace
        strategy, cache = trace.strategy, trace.cache
        return {
            "run": run,
            "n": trace.gen_length,
            "p0": trace.prompt_length,
            "typed": visible(trace.prompt[:PROMPT_SHOWN]),
            "prompt": [self.texts[self._text_of(token)] for token in trace.prompt_token_ids],
            "window": trace.config["window_size"],
            "eps": strategy.get("epsilon"),
            "gamma": strategy.get("gamma"),
            "audit": bool(strategy.get("audit")),
            "tracks": cache.get("track_size"),
            "settings": settings_line(trace),
            "model": model_line(trace),
        }

    def write(self, step: StepTrace) -> dict:
        """One step; steps must come in order."""
        written = judged(self._trace, step, self._row, self._text_of, self.lines)
        self._passes += len(step.counted)
        tracked = frozenset(step.tracked)
        mass = dict(step.attention)
        written |= {
            "x": [self.texts[self._text_of(p.draft_token)] for p in step.proposals],
            "c": [per_mille(p.confidence) for p in step.proposals],
            "alt": [self._alternatives(p) for p in step.proposals],
            "m": [
                -1 if p.verify_token is None else self.texts[self._text_of(p.verify_token)]
                for p in step.proposals
            ],
            "mc": [per_mille(p.verify_confidence) for p in step.proposals],
            "att": self._attention(step, tracked),
            "low": [[p, per_mille(mass.get(p, 0.0))] for p in step.tracked],
            "held": per_mille(sum(mass.get(p, 0.0) for p in tracked)),
            "decided": per_mille(step.decided_mass),
            "mass": [n for p, share in step.attention for n in (p, round(10_000 * share))],
            "look": looks(self._trace, step),
            "full": step.passes[0].kind == "full" if step.passes else False,
            "pass": self._passes,
            "again": self._again(step),
        }
        self._tracked = tracked
        for position, token in step.accepted:
            offset = position - self._trace.prompt_length
            self._row[offset] = COMMITTED.digit
            self._written[position] = self.texts[self._text_of(token)]
            written["put"].append([offset, self._written[position]])
        for position in step.revoked:
            offset = position - self._trace.prompt_length
            self._row[offset] = MASKED.digit
            del self._written[position]
            written["out"].append(offset)
        return written

    def _again(self, step: StepTrace) -> list[list[int]]:
        """[offset, per-mille of its token, text of the likeliest one] of what was judged again."""
        start = self._trace.prompt_length
        return [
            [r.position - start, per_mille(r.confidence), self.texts[self._text_of(r.shadow_token)]]
            for r in step.rechecks
        ]

    def _alternatives(self, proposal: Proposal) -> list[int]:
        """Text index and per-mille in turn, likeliest first."""
        return [
            number
            for token, probability in proposal.alternatives[:ALTERNATIVES_SHOWN]
            for number in (self.texts[self._text_of(token)], per_mille(probability))
        ]

    def _attention(self, step: StepTrace, tracked: frozenset[int]) -> list[list[int]]:
        """[position, text, per-mille, 0 not tracked | 1 tracked | 2 entered this step]."""
        return [
            [
                position,
                self._canvas_text(position),
                per_mille(mass),
                0 if position not in tracked else 1 if position in self._tracked else 2,
            ]
            for position, mass in step.attention[:ATTENTION_SHOWN]
        ]

    def _canvas_text(self, position: int) -> int:
        trace = self._trace
        if position < trace.prompt_length:
            return self.texts[self._text_of(trace.prompt_token_ids[position])]
        return self._written[position]


def judged(
    trace: DecodeTrace,
    step: StepTrace | RejudgedStep,
    before: list[str],
    text_of: TextOf,
    lines: Lines,
) -> dict:
    """The part of a step that depends on ε and γ; `trace` holds the thresholds in words.

    before  the row of state digits that the step started from
    """
    row = list(before)
    for p in step.proposals:
        row[p.position - trace.prompt_length] = STATE_OF[p.verdict].digit
    for position in step.revoked:
        row[position - trace.prompt_length] = REVOKED.digit
    counts = Counter(p.verdict for p in step.proposals)
    decided = counts[Verdict.CONFIDENT] + counts[Verdict.FORCED]
    verified = counts[Verdict.VERIFIED] + counts[Verdict.CORRECTED]
    return {
        "i": step.index,
        "w": [p.position - trace.prompt_length for p in step.proposals],
        "row": "".join(row),
        "v": "".join(STATE_OF[p.verdict].digit for p in step.proposals),
        "r": [-1 if p.rank is None else p.rank for p in step.proposals],
        "d": decided,
        "a": decided + verified,
        "s": decided + sum(counts[verdict] for verdict in SEARCHED),
        "n": [counts[Verdict.CONFIDENT], verified, counts[Verdict.FORCED]],
        "say": lines[tuple(sentences.step_sentence(trace, step, text_of, n) for n in LANGUAGES)],
        "stop": lines[tuple(sentences.stop_label(trace, step, text_of, n) for n in LANGUAGES)],
        "why": [
            lines.told(
                # all that a token's sentence depends on
                (p.verdict, p.verify_token if p.verdict is Verdict.MISMATCH else None),
                partial(sentences.token_sentence, trace, p, text_of),
            )
            for p in step.proposals
        ],
        "put": [],
        "out": [],
    }


def looks(trace: DecodeTrace, step: StepTrace) -> list[int]:
    """Where the window's attention goes: per-mille to the prompt and to the answer's written
    tokens, how many positions that counts, and whether those are all of the written ones."""
    prompt = sum(mass for p, mass in step.attention if p < trace.prompt_length)
    answer = sum(mass for p, mass in step.attention if p >= trace.prompt_length)
    # masses are rounded one by one
    is_all = step.decided_mass - prompt - answer < 0.001
    return [per_mille(prompt), per_mille(answer), len(step.attention), int(is_all)]


def per_mille(value: float | None) -> int:
    """A probability as whole per-mille; -1 for none.

    >>> per_mille(0.9237), per_mille(None)
    (924, -1)
    """
    return -1 if value is None else round(1000 * value)
