"""What the terminal shows of a run: how loading goes, the growing answer, its costs."""

from __future__ import annotations

import json
import sys
from typing import Any

from flash_dllm.trace import DecodeTrace, StepTrace, join_token_texts


def progress(sentence: str) -> None:
    """What happens while a model is fetched and loaded."""
    print(f"· {sentence}", file=sys.stderr)


def facts_of(trace: DecodeTrace) -> dict[str, Any]:
    """A run's answer and its counts as plain data."""
    return {
        "text": trace.text,
        "token_ids": list(trace.token_ids),
        "tokens": trace.tokens,
        "steps": len(trace.steps),
        "passes": trace.passes,
        "verified": trace.verified,
    }


def report(trace: DecodeTrace, as_json: bool) -> None:
    """The answer and its costs."""
    if as_json:
        facts = {
            **facts_of(trace),
            "seconds": round(trace.seconds, 4),
            "model": trace.model.name,
            "prompt_format": trace.prompt_format,
        }
        if trace.guide is not None:
            facts |= {
                "guide": trace.guide.name,
                "guide_passes": trace.guide_passes,
                "guide_rows": trace.guide_rows,
                "guide_seconds": round(trace.guide_seconds, 4),
            }
        print(json.dumps(facts))
        return
    print(trace.text)
    if trace.status == "stopped":
        print("(stopped: positions that were still masked are left out)")
    print(
        f"{trace.tokens} tokens, {len(trace.steps)} steps, {trace.passes} passes, "
        f"{trace.tokens_per_step:.2f} tokens/step, {trace.tokens_per_pass:.2f} tokens/pass, "
        f"{trace.verified} verified, {trace.seconds:.2f} s ({trace.model.name}, "
        f"{trace.prompt_format})"
    )
    if trace.guide is not None:
        print(
            f"beside them its guide ({trace.guide.name}): {trace.guide_passes} passes, "
            f"{trace.guide_rows} rows, {trace.guide_seconds:.2f} s"
        )


class Growing:
    """The answer while it grows, with a progress line; silent where output is no terminal."""

    def __init__(self, header: DecodeTrace, text_of) -> None:
        from rich.console import Console
        from rich.live import Live

        self._text_of = text_of
        self._start = header.prompt_length
        self._texts: list[str | None] = [None] * header.gen_length
        self._ends = header.model.eos_token_ids
        self._passes = 0
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=12)
        self._is_shown = self._live.console.is_terminal

    def __enter__(self) -> Growing:
        if self._is_shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._live.stop()

    def show(self, step: StepTrace) -> None:
        """Draw one more step."""
        from rich.text import Text

        for position, token in step.accepted:
            text = "" if token in self._ends else self._text_of(token)
            self._texts[position - self._start] = text
        for position in step.revoked:
            self._texts[position - self._start] = None
        self._passes += len(step.counted)
        left = self._texts.count(None)
        shown = join_token_texts("·" if text is None else text for text in self._texts)
        line = f"step {step.index}, {left} masks left, {self._passes} passes"
        if self._is_shown:
            self._live.update(Text(f"{shown.rstrip()}\n") + Text(line, style="dim"))
