"""The guide by itself on held-out items: perplexity of the reference answers, and accuracy when it
decodes alone, one likeliest token after another.

    python -m training.evaluate_guide --guide assets/guide --output guide.json

It runs through the library's own engine and the guide's own cache. Scoring runs code that the
model wrote (`flash_dllm/evaluation/sandbox.py` says with which limits).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import read_items, versions
from flash_dllm.evaluation.scoring import are_correct
from flash_dllm.evaluation.statistics import wilson_interval
from flash_dllm.guidance import Hearing
from flash_dllm.guide import GuideModel
from flash_dllm.models import DTYPES, load_guide, load_model
from flash_dllm.query import GuideAsk
from training.generators import DOMAINS
from training.stream import ChatTokenizer

GEN_LENGTH = 128


def losses(
    guide: GuideModel, prompts: Sequence[list[int]], answers: Sequence[list[int]]
) -> list[float]:
    """Cross-entropy of every answer token, in nats, given the prompt and the answer before it."""
    longest = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    session = guide.engine.open(SessionRequest(1, longest, alternatives=0))
    found: list[float] = []
    try:
        for prompt, answer in zip(prompts, answers, strict=True):
            canvas = Canvas.start(prompt, DecodeConfig(gen_length=len(answer)), ())
            handle = session.admit(canvas.length, 0)
            drafts = tuple(enumerate(answer, len(prompt)))
            query = Hearing().query(canvas, GuideAsk(drafts, len(drafts)))
            logits = session.logits([(handle, query)]).double()
            found += torch.nn.functional.cross_entropy(
                logits, torch.tensor(answer, device=logits.device), reduction="none"
            ).tolist()
            session.release(handle)
    finally:
        session.close()
    return found


def decode_alone(
    guide: GuideModel, prompts: Sequence[list[int]], batch_size: int
) -> list[list[int]]:
    """The guide's own answers: its likeliest token at every position, up to an end token."""
    ends = guide.info.eos_token_ids
    config = DecodeConfig(gen_length=GEN_LENGTH)
    answers: list[list[int]] = []
    for first in range(0, len(prompts), batch_size):
        batch = prompts[first : first + batch_size]
        longest = max(map(len, batch)) + GEN_LENGTH
        session = guide.open(SessionRequest(len(batch), longest, alternatives=0))
        try:
            canvases = [Canvas.start(prompt, config, ends) for prompt in batch]
            handles = [session.admit(canvas.length, 0) for canvas in canvases]
            hearings = [Hearing() for _ in batch]
            live = list(range(len(batch)))
            while live:
                # the token that is asked about does not matter: its row comes before it
                asked = [
                    (
                        handles[n],
                        hearings[n].query(
                            canvases[n], GuideAsk(((canvases[n].undecided()[0], ends[0]),), 1)
                        ),
                    )
                    for n in live
                ]
                for n, answer in zip(live, session.ask(asked)(), strict=True):
                    place = canvases[n].undecided()[0]
                    canvases[n] = canvases[n].commit([(place, answer.tokens[0])])
                live = [n for n in live if not canvases[n].is_finished]
        finally:
            session.close()
        for canvas in canvases:
            tokens = canvas.tokens[canvas.prompt_length :]
            stop = next((k for k, t in enumerate(tokens) if t is None or t in ends), len(tokens))
            answers.append([token for token in tokens[:stop] if token is not None])
    return answers


def measure(
    guide: GuideModel, chat: ChatTokenizer, items: Sequence[Item], batch_size: int
) -> dict[str, Any]:
    """Perplexity and accuracy of one kind of items."""
    turns = chat.turns(items)
    prompts = [[chat.start, *prompt] for prompt, _ in turns]
    references = [[*answer, chat.eot] for _, answer in turns]
    entropy = losses(guide, prompts, references)
    answers = decode_alone(guide, prompts, batch_size)
    correct = sum(
        are_correct(items, [chat.decode(ids) for ids in answers], allow_unsandboxed=True)
    )
    return {
        "items": len(items),
        "answer_tokens": len(entropy),
        "perplexity": round(math.exp(sum(entropy) / len(entropy)), 4),
        "correct": correct,
        "accuracy": round(correct / len(items), 4),
        "interval": [round(bound, 4) for bound in wilson_interval(correct, len(items))],
    }


def evaluate(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole command; returns what it wrote."""
    engine = load_model(arguments.model, device=arguments.device, dtype=arguments.dtype)
    guide = load_guide(
        engine, arguments.guide, device=arguments.device, dtype=arguments.dtype
    )
    chat = ChatTokenizer(str(arguments.guide / "tokenizer.json"))
    domains = {}
    for domain in arguments.domains:
        items = read_items(arguments.tasks, domain, arguments.limit)
        domains[domain] = row = measure(guide, chat, items, arguments.batch)
        print(
            f"{domain:<8} {row['items']:>4} items  perplexity {row['perplexity']:.3f}  "
            f"alone {row['accuracy']:.3f} ({row['interval'][0]:.3f} - {row['interval'][1]:.3f})",
            flush=True,
        )
    found = {
        "guide": guide.info.fingerprint,
        "dtype": guide.info.dtype,
        "gen_length": GEN_LENGTH,
        "domains": domains,
        "versions": versions(),
    }
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


def argument_parser() -> argparse.ArgumentParser:
    """The command line of `python -m training.evaluate_guide`."""
    parser = argparse.ArgumentParser(description="the guide by itself on held-out items")
    add = parser.add_argument
    add("--guide", type=Path, default=Path("assets/guide"))
    add("--model", type=Path, default=Path("assets/tiny"), help="the model that it guides")
    add("--tasks", type=Path, default=Path("assets/tasks"))
    add("--domains", type=lambda text: text.split(","), default=sorted(DOMAINS))
    add("--limit", type=int, help="items per domain")
    add("--batch", type=int, default=64)
    add("--device", default="auto")
    add("--dtype", choices=DTYPES, default="auto")
    add("--output", type=Path, help="a .json file")
    return parser


def main() -> None:
    parser = argument_parser()
    try:
        evaluate(parser.parse_args())
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
