"""One plain sentence per step: what happened and why, in each language, from the record alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.said import Said, counted, said
from app.token_text import END, label
from app.words import LANGUAGES, words
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import DecodeTrace, Proposal, StepTrace, StopReason, Verdict

TextOf = Callable[[int], str]
Step = StepTrace | RejudgedStep
LISTED = 6  # tokens that a sentence names
# strategies that write a first draft for a reason of their own
_FORCED = {"llada": "SCHEDULED", "chain": "LEFTMOST"}


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
    if trace.guide is not None:
        return say.guided(step)
    gap = "" if language == "zh" else " "
    checked = say.ahead(step) if step.branches else say.checked(step)
    parts = say.written_first(step), checked, say.taken_back(step)
    return gap.join(part for part in parts if part)


def stop_label(
    trace: DecodeTrace, step: Step, text_of: TextOf | None = None, language: str = "en"
) -> str:
    """The name of the accept boundary; empty where nothing was checked."""
    say = _Speaker(trace, text_of, language)
    if step.branches:
        return ""  # no boundary: each state was kept or not as a whole
    failed = _failed(step)
    if failed is None or failed.verify_token is None:
        return say("stop_all") if step.stop is StopReason.EXHAUSTED else ""
    if trace.guide is not None:
        return say("stop_guide", other=say.quoted(failed.verify_token))
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
    if trace.guide is not None:
        kind = f"GUIDE_{verdict}"
    elif verdict is Verdict.CONFIDENT and strategy.get("epsilon") is None:
        kind = "RULED"
    elif verdict is Verdict.CONFIDENT and proposal.rank:
        kind = "LINK"
    elif verdict is Verdict.FORCED and strategy.get("name") in _FORCED:
        kind = _FORCED[strategy["name"]]
    elif verdict in (Verdict.VERIFIED, Verdict.CORRECTED) and "gamma" not in strategy:
        is_same = proposal.verify_token == proposal.draft_token
        kind = "AHEAD_SAME" if is_same else "AHEAD_OTHER"
    elif verdict is Verdict.AFTER_STOP and not proposal.has_view:
        kind = "UNVIEWED"
    return say.templates["why"].get(kind, "").format(
        epsilon=number(strategy.get("epsilon")),
        gamma=number(strategy.get("gamma")),
        other=say.quoted(proposal.verify_token or 0),
        own=say.own(proposal),
    )


def status_sentence(steps: int, masks: int, passes: int, seconds: float) -> Said:
    """The status line while a run is going on.

    >>> status_sentence(14, 83, 31, 4.13)
    'step 14, 83 masks left, 31 passes, 4.1 s'
    """
    return said(
        "step_line", step=steps, masks=counted(masks, "mask"), passes=counted(passes, "pass"),
        seconds=f"{seconds:.1f}",
    )  # fmt: skip


def queued_sentence(ahead: int, seconds: float = 0.0) -> Said:
    """The status line of a run that waits.

    >>> queued_sentence(2), queued_sentence(1, 3.4), queued_sentence(0)
    ('queued, 2 before you', 'queued, 1 before you, 3 s', 'queued, next in line')
    """
    line = said("queued", ahead=ahead) if ahead else said("queued_next")
    return said("waited", line=line, seconds=f"{seconds:.0f}") if seconds >= 1 else line


def end_sentence(trace: DecodeTrace, seconds: float) -> Said:
    """The status line when a run has ended."""
    took = f"{seconds:.1f}"
    if trace.status == "finished":
        return said("finished", summary=summaries(trace), seconds=took)
    passes = counted(trace.passes, "pass")
    return said("stopped_at", step=len(trace.steps), passes=passes, seconds=took)


def summary(trace: DecodeTrace, language: str = "en") -> str:
    """The run in one line, for the head of the player."""
    sentences = words(language)["sentences"]
    counts = {"token": trace.tokens, "step": len(trace.steps), "pass": trace.passes}
    parts = {
        noun + ("es" if noun == "pass" else "s"): _form(sentences["count"][noun], count)
        for noun, count in counts.items()
    }
    said = sentences["summary"].format(**parts)
    if trace.guide is None:
        return said
    return sentences["guided_summary"].format(summary=said, count=trace.guide_passes)


def summaries(trace: DecodeTrace) -> Said:
    """The run in one line, in every language."""
    return Said([summary(trace, language) for language in LANGUAGES])


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
        # a chain's sure links stand behind the first ones, and count as kept by the check
        sure = [p for p in step.proposals if p.verdict is Verdict.CONFIDENT and not p.rank]
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
        if forced and name == "chain":
            return self("leftmost", min(2, len(sure)), **{**parts, "count": len(sure)})
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
        kept = [p for p in step.proposals if p.keeps_view]
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

    def ahead(self, step: Step) -> str:
        """States of the text that were asked ahead, in the same pass."""
        kept = sum(branch.is_kept for branch in step.branches)
        states = self._counted("state", len(step.branches))
        if not kept:
            return self("ahead_none", states=states)
        more = sum(p.rank is not None and p.rank > 0 for p in step.proposals)
        tokens = self._counted("token", more)
        return self("ahead", int(kept > 1), states=states, kept=kept, tokens=tokens)

    def taken_back(self, step: Step) -> str:
        """Earlier tokens that the step masked again."""
        gone = [recheck for recheck in step.rechecks if recheck.is_revoked]
        if not gone:
            return ""
        first = gone[0]
        is_same = first.shadow_token == first.token
        instead = "" if is_same else self("instead", other=self.quoted(first.shadow_token))
        token = f"{self.quoted(first.token)} ({number(first.confidence)})"
        return self("taken", int(len(gone) > 1), token=token, count=len(gone), instead=instead)

    def guided(self, step: Step) -> str:
        """What a guide kept in this step, and what it would not have written."""
        kept = sum(p.verdict is Verdict.VERIFIED for p in step.proposals)
        form = int(kept != 1)
        rejected = next(
            (p for p in step.proposals if p.verdict in (Verdict.MISMATCH, Verdict.FORCED)), None
        )
        if rejected is None:
            return self("guide_all", form, count=kept)
        parts: dict[str, Any] = {
            "draft": self.quoted(rejected.draft_token), "own": self.own(rejected),
        }  # fmt: skip
        if rejected.verdict is Verdict.FORCED:
            return self("guide_forced", **parts)
        return self("guide_stop", form, count=kept, **parts)

    def own(self, proposal: Proposal) -> str:
        """What the guide would have written instead, where that is another token."""
        token = proposal.verify_token
        if token is None or token == proposal.draft_token:
            return ""
        return self("guide_own", other=self.quoted(token))

    def _counted(self, noun: str, count: int) -> str:
        return _form(self.templates["count"][noun], count)

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
