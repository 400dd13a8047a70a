"""A trace as what the browser shows: one compact JSON string, live additions, what-if changes.

All meaning is made here; the player only sets class names, texts and chart arrays. Positions are
offsets into the answer (0 is the first generated token) unless a name says otherwise,
confidences are whole per-mille, texts are indices into one table, sentences into another: a
sentence stands there in every language, so that choosing one needs no new message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app import sentences
from app.lifeline import by_position, candidates, telling_position
from app.outline import outline
from app.step_view import StepWriter
from app.view_tables import dump
from app.words import LANGUAGES
from flash_dllm.trace import DecodeTrace, StepTrace, Verdict


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


