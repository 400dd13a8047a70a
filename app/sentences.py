"""One plain sentence per step: what happened and why, in each language, from the record alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.token_text import END, label
from app.words import words
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import DecodeTrace, Proposal, StepTrace, StopReason, Verdict

TextOf = Callable[[int], str]
Step = StepTrace | RejudgedStep
LISTED = 6  # tokens that a sentence names


def texts_of(trace: DecodeTrace, text_of: TextOf | None = None) -> TextOf:
    """id → text by `text_of` or the trace's own table; end tokens have one short name."""
    ends = frozenset(trace.model.eos_token_ids)
    look_up = text_of or (lambda token: trace.token_texts.get(token, f"#{token}"))
    return lambda token: END if token in ends else look_up(token)


def step_sentence(
    trace: DecodeTrace, step: Step, text_of: TextOf | None = None, language: str = "en"
) -> str:
    """What this step wrote, and why it wrote no more, in one of `words.LANGUAGES`."""
    say = _Speaker(trace, text_of, language)
    gap = "" if language == "zh" else " "
    return gap.join(part for part in (say.written_first(step), say.checked(step)) if part)


def stop_label(
    trace: DecodeTrace, step: Step, text_of: TextOf | None = None, language: str = "en"
) -> str:
    """The name of the accept boundary; empty where nothing was checked."""
    say = _Speaker(trace, text_of, language)
    failed = _failed(step)
    if failed is None or failed.verify_token is None:
        return say("stop_all") if step.stop is StopReason.EXHAUSTED else ""
    if step.stop is StopReason.MISMATCH:
        return say(
            "stop_mismatch",
            other=say.quoted(failed.verify_token),
            draft=say.quoted(failed.draft_token),
        )
    return say("stop_unsure", reason=say.below_gamma(step, failed))


def token_sentence(
    trace: DecodeTrace, proposal: Proposal, text_of: TextOf | None = None, language: str = "en"
) -> str:
    """What became of one draft, for its tooltip and for its line in the lifeline."""
    say = _Speaker(trace, text_of, language)
    strategy, verdict = trace.strategy, proposal.verdict
    kind = str(verdict)
    if verdict is Verdict.CONFIDENT and strategy.get("epsilon") is None:
        kind = "RULED"
    elif verdict is Verdict.FORCED and strategy.get("name") == "llada":
        kind = "SCHEDULED"
    return say.templates["why"].get(kind, "").format(
        epsilon=number(strategy.get("epsilon")),
        gamma=number(strategy.get("gamma")),
        other=say.quoted(proposal.verify_token or 0),
    )


def status_sentence(steps: int, masks: int, passes: int, seconds: float) -> str:
    """The status line while a run is going on.

    >>> status_sentence(14, 83, 31, 4.13)
    'step 14, 83 masks left, 31 passes, 4.1 s'
    """
    return (
        f"step {steps}, {counted(masks, 'mask')} left, {counted(passes, 'pass')}, {seconds:.1f} s"
    )


def end_sentence(trace: DecodeTrace, seconds: float) -> str:
    """The status line when a run has ended."""
    passes = counted(trace.passes, "pass")
    if trace.status == "finished":
        return f"finished: {summary(trace)}, {seconds:.1f} s"
    return f"stopped at step {len(trace.steps)}, {passes}, {seconds:.1f} s"


def summary(trace: DecodeTrace, language: str = "en") -> str:
    """The run in one line, for the head of the player."""
    sentences = words(language)["sentences"]
    counts = {"token": trace.tokens, "step": len(trace.steps), "pass": trace.passes}
    parts = {
        noun + ("es" if noun == "pass" else "s"): _form(sentences["count"][noun], count)
        for noun, count in counts.items()
    }
    return sentences["summary"].format(**parts)


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "pass"), counted(2, "pass"), counted(0, "mask")
    ('1 pass', '2 passes', '0 masks')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def number(value: float | None) -> str:
    """A confidence or threshold as the page writes it.

    >>> number(0.9), number(0.7034), number(None)
    ('0.90', '0.70', '–')
    """
    return "–" if value is None else f"{value:.2f}"


class _Speaker:
    """The templates of one language, for one run."""

    def __init__(self, trace: DecodeTrace, text_of: TextOf | None, language: str) -> None:
        self.templates = words(language)["sentences"]
        self.trace = trace
        self.text_of = text_of or texts_of(trace)

    def __call__(self, key: str, form: int | None = None, **parts: Any) -> str:
        template = self.templates[key]
        return (template if form is None else template[form]).format(**parts)

    def quoted(self, token: int) -> str:
        return self("quoted", text=label(self.text_of(token)))

    def written_first(self, step: Step) -> str:
        forced = [p for p in step.proposals if p.verdict is Verdict.FORCED]
        sure = [p for p in step.proposals if p.verdict is Verdict.CONFIDENT]
        strategy = self.trace.strategy
        threshold, name = strategy.get("epsilon"), strategy.get("name")
        if not forced and not sure:
            return self("ruled" if threshold is None else "sure", 1, count=0, epsilon=threshold)
        first = (forced or sure)[0]
        parts: dict[str, Any] = {
            "epsilon": number(threshold),
            "factor": f"{strategy.get('factor', 0):g}",
            "token": f"{self.quoted(first.draft_token)} ({number(first.confidence)})",
            "count": len(forced or sure),
            "tokens": self._listed(forced),
        }
        form = int(len(forced or sure) > 1)
        if name == "llada":
            random = "_random" if strategy.get("remasking") == "random" else ""
            return self(f"schedule{random}", form, **parts)
        if name == "prophet":
            # the last blank of all may be written in either way
            return self("prophet_waits", **parts) if forced else self("prophet", form, **parts)
        if forced:
            if name in ("greedy", "factor"):
                return self("greedy" if name == "greedy" else "factor_forced", **parts)
            if threshold is None:
                return self("ruled_forced", form, **parts)
            return self("forced", **parts)
        if name == "factor":
            return self("factor", form, **parts)
        return self("ruled" if threshold is None else "sure", form, **parts)

    def _listed(self, proposals: Sequence[Proposal]) -> str:
        names = [self.quoted(p.draft_token) for p in proposals[:LISTED]]
        return ", ".join(names) + (" …" if len(proposals) > LISTED else "")

    def checked(self, step: Step) -> str:
        if step.stop is StopReason.NO_SEARCH:
            return ""
        if step.stop is None:
            return self("unrecorded")
        kept = [p for p in step.proposals if p.verdict is Verdict.VERIFIED]
        parts: dict[str, Any] = {"count": len(kept)}
        if kept:
            parts["token"] = self.quoted(kept[0].draft_token)
        form = min(2, len(kept))
        failed = _failed(step)
        if failed is None:
            return self("kept_all", form - 1, **parts) if kept else ""
        parts["draft"] = self.quoted(failed.draft_token)
        if step.stop is not StopReason.MISMATCH:
            return self("unsure", form, reason=self.below_gamma(step, failed), **parts)
        has_other = failed.verify_token is not None
        parts["other"] = self.quoted(failed.verify_token or 0) if has_other else "?"
        parts["confidence"] = number(failed.verify_confidence)
        is_corrected = failed.verdict is Verdict.CORRECTED
        return self("corrected" if is_corrected else "mismatch", form, **parts)

    def below_gamma(self, step: Step, failed: Proposal) -> str:
        gamma = number(self.trace.strategy.get("gamma"))
        if self.trace.strategy.get("acceptance") == "joint":
            product = 1.0
            for p in step.proposals:
                if p.rank and failed.rank and p.rank <= failed.rank:
                    product *= p.verify_confidence or 0.0
            return self("joint", product=number(product), gamma=gamma)
        return self("each", confidence=number(failed.verify_confidence), gamma=gamma)


def _failed(step: Step) -> Proposal | None:
    failures = (Verdict.MISMATCH, Verdict.UNSURE, Verdict.CORRECTED)
    return next((p for p in step.proposals if p.verdict in failures), None)


def _form(forms: Sequence[str], count: int) -> str:
    return forms[count != 1].format(count=count)
