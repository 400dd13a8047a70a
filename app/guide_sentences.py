"""The sentences of guided diffusion, where another model says which drafts are kept."""

from __future__ import annotations

from collections.abc import Callable

from app.token_text import label
from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import Proposal, StepTrace, Verdict

TextOf = Callable[[int], str]


def guided_step(step: StepTrace | RejudgedStep, text_of: TextOf) -> str:
    """What the guide kept in this step, and what it would not have written."""
    kept = [p for p in step.proposals if p.verdict is Verdict.VERIFIED]
    rejected = next(
        (p for p in step.proposals if p.verdict in (Verdict.MISMATCH, Verdict.FORCED)), None
    )
    count = "one draft" if len(kept) == 1 else f"{len(kept)} drafts"
    if rejected is None:
        return f"The guide kept {count}: it rejected none that it read."
    name, other = label(text_of(rejected.draft_token)), _own(rejected, text_of)
    if rejected.verdict is Verdict.FORCED:
        return (
            f"The guide rejected the very first draft, “{name}”{other}; it was written all the "
            "same, so that the step moves on."
        )
    return f"The guide kept {count} and stopped at “{name}”{other}."


def guided_token(proposal: Proposal, text_of: TextOf) -> str:
    """What became of one draft, for its tooltip."""
    other = _own(proposal, text_of)
    match proposal.verdict:
        case Verdict.VERIFIED:
            return f"Kept by the guide{other}."
        case Verdict.FORCED:
            return f"Rejected by the guide{other}, but written: a step writes at least one draft."
        case Verdict.MISMATCH:
            return f"Rejected by the guide{other}."
        case Verdict.AFTER_STOP:
            return "Read by the guide, but behind the last draft that was kept."
    return "Drafted only; the guide did not read so far."


def _own(proposal: Proposal, text_of: TextOf) -> str:
    """What the guide would have written instead, where that is another token."""
    token = proposal.verify_token
    if token is None or token == proposal.draft_token:
        return ""
    return f", where it would rather write “{label(text_of(token))}”"
