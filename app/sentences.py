"""One plain sentence per step: what happened and why. Pure text, made from the record alone."""

from __future__ import annotations

from collections.abc import Callable

from app.guide_sentences import guided_step, guided_token
from app.token_text import END, label
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import DecodeTrace, Proposal, StepTrace, StopReason, Verdict

TextOf = Callable[[int], str]
Step = StepTrace | RejudgedStep


def texts_of(trace: DecodeTrace, text_of: TextOf | None = None) -> TextOf:
    """id → text by `text_of` or the trace's own table; end tokens have one short name."""
    ends = frozenset(trace.model.eos_token_ids)
    look_up = text_of or (lambda token: trace.token_texts.get(token, f"#{token}"))
    return lambda token: END if token in ends else look_up(token)


def step_sentence(trace: DecodeTrace, step: Step, text_of: TextOf | None = None) -> str:
    """What this step wrote, and why it wrote no more."""
    text_of = text_of or texts_of(trace)
    if trace.guide is not None:
        return guided_step(step, text_of)
    parts = (
        _written_first(trace, step, text_of),
        _ahead(step) if step.branches else _checked(trace, step, text_of),
        _taken_back(step, text_of),
    )
    return " ".join(part for part in parts if part)


def stop_label(trace: DecodeTrace, step: Step, text_of: TextOf | None = None) -> str:
    """The name of the accept boundary; empty where nothing was checked."""
    text_of = text_of or texts_of(trace)
    if step.branches:
        return ""  # no boundary: each state was kept or not as a whole
    failed = _failed(step)
    if failed is None or failed.verify_token is None:
        return "all checked drafts kept" if step.stop is StopReason.EXHAUSTED else ""
    if trace.guide is not None:
        return f"stops here: the guide says “{label(text_of(failed.verify_token))}”"
    if step.stop is StopReason.MISMATCH:
        return (
            f"stops here: the mask view says “{label(text_of(failed.verify_token))}”, "
            f"the draft said “{label(text_of(failed.draft_token))}”"
        )
    return f"stops here: {_below_gamma(trace, step, failed)}"


def token_sentence(trace: DecodeTrace, proposal: Proposal, text_of: TextOf | None = None) -> str:
    """What became of one draft, for its tooltip."""
    text_of = text_of or texts_of(trace)
    if trace.guide is not None:
        return guided_token(proposal, text_of)
    epsilon = trace.strategy.get("epsilon")
    match proposal.verdict:
        case Verdict.CONFIDENT:
            if epsilon is None:
                return "Written at once by the strategy's own rule."
            if proposal.rank:
                return (
                    f"Kept without a check: c ≥ ε = {number(epsilon)}, and every draft before it "
                    "held."
                )
            return f"Written at once: c ≥ ε = {number(epsilon)}."
        case Verdict.FORCED:
            if _is_chain(trace):
                return "Written as the leftmost draft of the window."
            return "Written as the surest draft of the window."
        case Verdict.VERIFIED | Verdict.CORRECTED if _gamma(trace) is None:
            is_same = proposal.verify_token == proposal.draft_token
            says = "the same token" if is_same else "this token instead of the draft"
            return f"Written by a state asked ahead that turned out right; it says {says}."
        case Verdict.VERIFIED:
            return f"Checked and kept: both views agree, c̃ ≥ γ = {number(_gamma(trace))}."
        case Verdict.CORRECTED:
            return "The check said another token and was sure of it, so that one was written."
        case Verdict.MISMATCH:
            other = label(text_of(proposal.verify_token or 0))
            return f"Not kept: the mask view says “{other}”."
        case Verdict.UNSURE:
            return f"Not kept: both views agree, but below γ = {number(_gamma(trace))}."
        case Verdict.AFTER_STOP:
            if not proposal.has_view:
                return "Sure, but behind the first failure, so not kept."
            return "Checked, but behind the first failure, so not kept."
    return "Drafted only; this step did not check it."


def status_sentence(steps: int, masks: int, passes: int, seconds: float) -> str:
    """The status line while a run is going on.

    >>> status_sentence(14, 83, 31, 4.13)
    'step 14, 83 masks left, 31 passes, 4.1 s'
    """
    return (
        f"step {steps}, {counted(masks, 'mask')} left, {counted(passes, 'pass')}, {seconds:.1f} s"
    )


def queued_sentence(ahead: int, seconds: float = 0.0) -> str:
    """The status line of a run that waits.

    >>> queued_sentence(2), queued_sentence(1, 3.4), queued_sentence(0)
    ('queued, 2 before you', 'queued, 1 before you, 3 s', 'queued, next in line')
    """
    place = f"{ahead} before you" if ahead else "next in line"
    waited = f", {seconds:.0f} s" if seconds >= 1 else ""
    return f"queued, {place}{waited}"


def end_sentence(trace: DecodeTrace, seconds: float) -> str:
    """The status line when a run has ended."""
    passes = counted(trace.passes, "pass")
    if trace.status == "finished":
        return f"finished: {summary(trace)}, {seconds:.1f} s"
    return f"stopped at step {len(trace.steps)}, {passes}, {seconds:.1f} s"


def summary(trace: DecodeTrace) -> str:
    """The run in one line, for the head of the player."""
    tokens, steps = counted(trace.tokens, "token"), counted(len(trace.steps), "step")
    beside = f" and {trace.guide_passes} of the guide" if trace.guide is not None else ""
    return f"{tokens} in {steps}, {counted(trace.passes, 'pass')}{beside}"


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


def _written_first(trace: DecodeTrace, step: Step, text_of: TextOf) -> str:
    forced = [p for p in step.proposals if p.verdict is Verdict.FORCED]
    # a chain's sure links stand behind the first ones, and count as kept by the check
    sure = [p for p in step.proposals if p.verdict is Verdict.CONFIDENT and not p.rank]
    threshold = trace.strategy.get("epsilon")
    epsilon = number(threshold)
    if forced:
        name = f"“{label(text_of(forced[0].draft_token))}” ({number(forced[0].confidence)})"
        if _is_chain(trace):
            return _leftmost_first(name, len(sure))
        if trace.strategy.get("name") == "greedy":
            return f"Greedy writes one token a step: {name}, the surest of the window."
        if threshold is None:
            return f"The strategy wrote no draft by its own rule, so the surest one, {name}, was."
        return f"No draft reached ε = {epsilon}, so the surest one, {name}, was written anyway."
    if threshold is None:
        # a schedule, a factor or a gap decided, not a threshold on c
        return f"The strategy wrote {counted(len(sure), 'draft')} of this window at once."
    if len(sure) == 1:
        name = f"“{label(text_of(sure[0].draft_token))}” ({number(sure[0].confidence)})"
        return f"{name} was sure enough to write at once (c ≥ ε = {epsilon})."
    return f"{len(sure)} tokens were sure enough to write at once (c ≥ ε = {epsilon})."


def _is_chain(trace: DecodeTrace) -> bool:
    return trace.strategy.get("name") == "chain"


def _leftmost_first(name: str, sure: int) -> str:
    """A chain's first draft, below ε, and how many sure ones follow it."""
    behind = f", and {counted(sure, 'sure draft')} right behind it" if sure else ""
    return f"A chain starts with the leftmost draft, {name}{behind}."
def _ahead(step: Step) -> str:
    """States of the text that were asked ahead, in the same pass."""
    kept = sum(branch.is_kept for branch in step.branches)
    more = sum(p.rank is not None and p.rank > 0 for p in step.proposals)
    asked = f"{counted(len(step.branches), 'state')} asked ahead in the same pass"
    if not kept:
        return f"Of {asked}, none was what the text became."
    was = "was" if kept == 1 else "were"
    return f"Of {asked}, {kept} {was} what the text became: {counted(more, 'token')} more."


def _taken_back(step: Step, text_of: TextOf) -> str:
    """Earlier tokens that the step masked again, or that it looked at again and kept."""
    gone = [recheck for recheck in step.rechecks if recheck.is_revoked]
    if not gone:
        return ""
    first = gone[0]
    name = f"“{label(text_of(first.token))}” ({number(first.confidence)})"
    instead = "" if first.shadow_token == first.token else (
        f", where the model would now say “{label(text_of(first.shadow_token))}”"
    )
    if len(gone) == 1:
        return f"It took {name} back{instead}: too unlikely given all the others."
    return f"It took {len(gone)} tokens back, among them {name}{instead}."


def _checked(trace: DecodeTrace, step: Step, text_of: TextOf) -> str:
    if step.stop is StopReason.NO_SEARCH:
        return ""
    if step.stop is None:
        return "What the check would say there was not recorded."
    kept = [p for p in step.proposals if p.keeps_view]
    if not kept:
        start = "The check kept no further draft"
    elif len(kept) == 1:
        start = f"The check also kept “{label(text_of(kept[0].draft_token))}”"
    else:
        start = f"The check kept {len(kept)} more"
    failed = _failed(step)
    if failed is None:
        return f"{start}: every draft it was asked about held." if kept else ""
    name = label(text_of(failed.draft_token))
    if step.stop is StopReason.MISMATCH:
        other = label(text_of(failed.verify_token)) if failed.verify_token is not None else "?"
        reason = f"“{name}” was drafted, but the mask view says “{other}”"
        if failed.verdict is Verdict.CORRECTED:
            return f"{start}, then wrote “{other}” in place of the draft “{name}”."
        return f"{start} and stopped: {reason} ({number(failed.verify_confidence)})."
    return f"{start} and stopped at “{name}”: {_below_gamma(trace, step, failed)}."


def _below_gamma(trace: DecodeTrace, step: Step, failed: Proposal) -> str:
    gamma = number(_gamma(trace))
    if trace.strategy.get("acceptance") == "joint":
        product = 1.0
        for p in step.proposals:
            if p.rank and failed.rank and p.rank <= failed.rank:
                product *= p.verify_confidence or 0.0
        return f"the product of all c̃ so far is {number(product)}, below γ = {gamma}"
    return f"both views agree, but at {number(failed.verify_confidence)}, below γ = {gamma}"


def _failed(step: Step) -> Proposal | None:
    failures = (Verdict.MISMATCH, Verdict.UNSURE, Verdict.CORRECTED)
    return next((p for p in step.proposals if p.verdict in failures), None)


def _gamma(trace: DecodeTrace) -> float | None:
    return trace.strategy.get("gamma")
