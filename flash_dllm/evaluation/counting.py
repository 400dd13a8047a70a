"""Two ways to count tokens: ours, and the convention of Fast-dLLM's published throughput.

Ours: answer tokens strictly before the first end token. Fast-dLLM's (its evaluation script, as
read): the answer is decoded with special tokens kept, cut at the task's stop strings, tokenized
again, and every id but <|endoftext|> counts, so <|eot_id|> counts and so does what stands behind
the first <|endoftext|>; for HumanEval the prompt counts too; the time is the wall time of the whole
loop, tokenizing and prefill included. Its tokens a second are comparable with published ones only
at the same batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flash_dllm.trace import DecodeTrace, join_token_texts

# lm-evaluation-harness's stop strings of the tasks that Fast-dLLM reports
STOP_STRINGS: dict[str, tuple[str, ...]] = {
    "gsm8k": ("Question:", "</s>", "<|im_end|>"),
    "humaneval": ("\nclass", "\ndef", "\n#", "\nif", "\nprint"),
    "mbpp": ("[DONE]",),
}
COUNTS_PROMPT = ("humaneval",)


def fast_dllm_tokens(
    trace: DecodeTrace,
    encode: Callable[[str], Sequence[int]],
    text_of: Callable[[int], str],
    stop_strings: Sequence[str] = (),
    counts_prompt: bool = False,
) -> int:
    """How many tokens Fast-dLLM's script would report for this answer.

    encode   plain text → ids, without special tokens
    text_of  id → text
    The first of the model's end tokens is taken for <|endoftext|>. Positions that early stop left
    undecided are end tokens, as in the answer they would have become.
    """
    info = trace.model
    special = {*info.eos_token_ids, info.mask_token_id}
    end_of_text = info.eos_token_ids[0] if info.eos_token_ids else None
    # runs of ordinary text between special tokens, and the special tokens
    parts: list[str | int] = []
    run: list[str] = []
    for token in _ids(trace):
        if token in special:
            parts += [join_token_texts(run), token]
            run = []
        else:
            run.append(text_of(token))
    parts.append(join_token_texts(run))
    count = trace.prompt_length if counts_prompt else 0
    for part in parts:
        if isinstance(part, int):
            count += part != end_of_text
            continue
        cuts = [place for stop in stop_strings if (place := part.find(stop)) >= 0]
        kept = part[: min(cuts)] if cuts else part
        count += len(encode(kept)) if kept else 0
        if cuts:
            break
    return count


def _ids(trace: DecodeTrace) -> list[int]:
    """All answer positions as decoded; what stayed masked behind the end is <|endoftext|>."""
    end = trace.model.eos_token_ids[0] if trace.model.eos_token_ids else 0
    return [end if token is None else token for token in trace.canvas_at(len(trace.steps))]
