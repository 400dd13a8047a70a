"""Other thresholds on a recorded run: what the browser needs to lay over the recorded steps."""

from __future__ import annotations

from dataclasses import replace

from app import sentences
from app.lab_tables import in_words
from app.said import Said, said
from app.step_view import judged
from app.theme import COMMITTED, MASKED
from app.view_tables import Lines, dump
from app.words import LANGUAGES, Says
from flash_dllm.rejudge import Rejudged, rejudge
from flash_dllm.trace import DecodeTrace


def what_if(
    trace: DecodeTrace, run: str, epsilon: float | None, gamma: float | None
) -> tuple[str, str]:
    """The recorded steps decided again at other thresholds: (message, badge in words).

    first    index (from 0) of the first step that decides otherwise, -1 if none does
    steps    index → the judged part, for steps up to `first` whose verdicts differ
    says     index → the sentence, for steps that only have other thresholds in their words
    """
    again = rejudge(trace, epsilon, gamma)
    strategy = dict(trace.strategy)
    strategy |= {
        knob: value
        for knob, value in (("epsilon", epsilon), ("gamma", gamma))
        if knob in strategy and value is not None
    }
    other = replace(trace, strategy=strategy)
    text_of = sentences.texts_of(trace)
    row = [MASKED.digit] * trace.gen_length
    steps, says, lines = {}, {}, Lines()
    last = again.first_change or len(trace.steps)
    for index, (recorded, now) in enumerate(zip(trace.steps, again.steps, strict=False)):
        if index >= last:
            break
        if now.proposals != recorded.proposals:
            steps[index] = judged(other, now, row, text_of, lines)
        else:
            told = tuple(sentences.step_sentence(other, now, text_of, n) for n in LANGUAGES)
            says[index] = lines[told]
        for position, _ in now.accepted:
            row[position - trace.prompt_length] = COMMITTED.digit
        for position in now.revoked:
            row[position - trace.prompt_length] = MASKED.digit
    is_same = strategy == trace.strategy
    message = dump(
        {
            "kind": "whatif",
            "run": run,
            "eps": strategy.get("epsilon"),
            "gamma": strategy.get("gamma"),
            "same": is_same,
            "badge": again.badge,
            "explain": again.explanation,
            "first": -1 if again.first_change is None else again.first_change - 1,
            "ends": len(again.steps),
            "steps": {} if is_same else steps,
            "says": {} if is_same else says,
            "lines": [] if is_same else lines.unsent(),
        }
    )
    return message, "" if is_same else _in_words(trace, again)


def _in_words(trace: DecodeTrace, again: Rejudged) -> Said:
    badges = [in_words(Says("lab", language), trace, again) for language in LANGUAGES]
    return said(
        "whatif", badge=Said([badge for badge, _ in badges]),
        explanation=Said([explanation for _, explanation in badges]),
    )  # fmt: skip
