"""A trace as what the browser shows: one compact JSON string, live additions, what-if changes.

All meaning is made here; the player only sets class names, texts and chart arrays. Positions are
offsets into the answer (0 is the first generated token) unless a name says otherwise,
confidences are whole per-mille, texts are indices into one table, sentences into another: a
sentence stands there in every language, so that choosing one needs no new message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from app import sentences
from app.lifeline import by_position, candidates, telling_position
from app.outline import outline
from app.sentences import TextOf
from app.theme import COMMITTED, MASKED, REVOKED, STATE_OF
from app.token_text import label, layout_parts, visible
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


class Texts:
    """The text table: texts are added as they occur and keep their index."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sent = 0

    def __getitem__(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    def __len__(self) -> int:
        """How many were handed out."""
        return self._sent

    def unsent(self) -> list[list[str]]:
        """[label, indent, core, break] of the texts that were not handed out yet."""
        new = list(self._index)[self._sent :]
        self._sent = len(self._index)
        return [[label(text), *layout_parts(text)] for text in new]


class Lines:
    """The sentence table: each entry holds one sentence in every language."""

    def __init__(self) -> None:
        self._index: dict[tuple[str, ...], int] = {}
        self._sent = 0
        self._told: dict[tuple, int] = {}

    def __getitem__(self, line: tuple[str, ...]) -> int:
        return self._index.setdefault(line, len(self._index))

    def told(self, key: tuple, make: Callable[[str], str]) -> int:
        """The sentence that `make` gives for each language; `key` names it, so it's made once."""
        if key not in self._told:
            self._told[key] = self[tuple(make(language) for language in LANGUAGES)]
        return self._told[key]

    def __len__(self) -> int:
        """How many were handed out."""
        return self._sent

    def unsent(self) -> list[list[str]]:
        """Those that were not handed out yet."""
        new = list(self._index)[self._sent :]
        self._sent = len(self._index)
        return [list(line) for line in new]


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


def view(
    trace: DecodeTrace,
    run: str,
    was: str = "",
    is_live: bool = False,
    at: int | None = None,
    focus: str = "",
    judged_at: dict | None = None,
) -> str:
    """The whole trace as the player's value.

    was      the name that the run had while it was live, so that the player keeps its step
    is_live  the run is still going on: more will follow
    at       the step (counted from 1) to open at; by default a telling one
    focus    the part of the player to stand out: text, ladder, attention, map or progress
    judged_at  a what-if to lay over it at once, as `app/what_if.py` makes it
    """
    writer = StepWriter(trace)
    message = writer.head(run)
    message["steps"] = [writer.write(step) for step in trace.steps]
    lives = by_position(trace)
    text_of = sentences.texts_of(trace)
    is_mono = is_code(trace.text)
    canvas = trace.canvas_at(len(trace.steps))
    written = ["" if token is None else text_of(token) for token in canvas]
    rivals = [[writer.texts[text_of(token)] for token in candidates(life)] for life in lives]
    return dump(
        message
        | {
            "kind": "trace",
            "texts": writer.texts.unsent(),
            "lines": writer.lines.unsent(),
            "rivals": rivals,
            "life0": telling_position(lives),
            "tree": [[line.first, line.indent, line.below] for line in outline(written)]
            if is_mono
            else None,
            "was": was,
            "at0": telling_step(trace) if at is None else at - 1,
            "whatif": judged_at,
            "focus": focus,
            "live": is_live,
            "status": trace.status,
            "summary": [sentences.summary(trace, language) for language in LANGUAGES],
            "mono": is_mono,
        }
    )


class LiveView:
    """The messages of a run that is going on: a start, then only what is new."""

    def __init__(
        self, header: DecodeTrace, run: str, text_of: Callable[[int], str] | None = None
    ) -> None:
        self._writer = StepWriter(header, text_of)
        self._header = header
        self._run = run
        self._steps = 0

    def start(self) -> str:
        """The empty canvas."""
        message = self._writer.head(self._run)
        return dump(
            message
            | {
                "kind": "trace",
                "steps": [],
                "texts": self._writer.texts.unsent(),
                "lines": [],
                "at0": 0,
                "live": True,
                "status": "running",
                "summary": ["" for _ in LANGUAGES],
                "mono": False,
            }
        )

    def more(self, steps: Sequence[StepTrace]) -> str:
        """The steps since the last message."""
        first = self._steps
        self._steps += len(steps)
        written = [self._writer.write(step) for step in steps]
        return dump(
            {
                "kind": "delta",
                "run": self._run,
                "from": first,
                "steps": written,
                "base": len(self._writer.texts),
                "texts": self._writer.texts.unsent(),
                "lbase": len(self._writer.lines),
                "lines": self._writer.lines.unsent(),
            }
        )


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


def telling_step(trace: DecodeTrace) -> int:
    """Index (from 0) of the step worth showing first: most kinds of outcome, then most tokens."""

    def worth(index: int) -> tuple[int, int, int]:
        verdicts = [p.verdict for p in trace.steps[index].proposals]
        kinds = {
            kind
            for kind in (Verdict.CONFIDENT, Verdict.VERIFIED, Verdict.MISMATCH, Verdict.UNSURE)
            if kind in verdicts
        }
        return len(kinds), len(trace.steps[index].accepted), -index

    return max(range(len(trace.steps)), key=worth, default=0)


def is_code(text: str) -> bool:
    """Whether an answer should stand in a fixed-width font.

    >>> is_code("def f(a):\\n    return a"), is_code("We add: 1 + 2 = 3.\\n#### 3")
    (True, False)
    """
    lines = text.splitlines()
    return any(line.startswith(("    ", "\t", "def ", "import ", "class ")) for line in lines)


def settings_line(trace: DecodeTrace) -> str:
    """The settings in one line, symbols as in the paper."""
    strategy, cache, config = trace.strategy, trace.cache, trace.config
    parts = [str(strategy.get("name", "")).replace("_", "-")]
    for symbol, value in (("ε", strategy.get("epsilon")), ("γ", strategy.get("gamma"))):
        if value is not None:
            parts.append(f"{symbol} {value:g}")
    if strategy.get("name") == "flash_verify":
        parts.append(f"by {strategy.get('order', 'confidence')}")
        if strategy.get("correct"):
            parts.append("with correction")
        if strategy.get("acceptance", "each") != "each":
            parts.append(strategy["acceptance"])
    parts.append(f"βₘ {config['window_size']}")
    if cache.get("track_size") is not None:
        parts.append(f"βₜ {cache['track_size']}")
    if cache.get("name") == "none":
        parts.append("no cache")
    if config.get("block_length") is not None:
        parts.append(f"blocks of {config['block_length']}")
    if config.get("temperature"):
        parts.append(f"temperature {config['temperature']:g} · seed {config['seed']}")
    return " · ".join(parts)


def model_line(trace: DecodeTrace) -> str:
    """Who answered, and how its passes ran where there was a choice.

    The header of a run that has just begun has no passes yet.
    """
    model = trace.model
    ways = [f"{sentences.counted(count, 'pass')} {route}" for route, count in trace.routes.items()]
    parts = (model.name, model.impl, model.device, model.dtype, "; ".join(ways))
    return " · ".join(part for part in parts if part)


def per_mille(value: float | None) -> int:
    """A probability as whole per-mille; -1 for none.

    >>> per_mille(0.9237), per_mille(None)
    (924, -1)
    """
    return -1 if value is None else round(1000 * value)


def dump(message: dict) -> str:
    """Compact JSON without any `<`: texts of tokens must look like markup to nobody."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
