"""Many prompts from a file: decoded in batches, on one device or shared among torchrun's groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flash_dllm.decoder import decode_batch
from flash_dllm.engine_protocol import Engine
from flash_dllm.settings import Settings
from flash_dllm.terminal import facts_of

PROMPT = "prompt"


def read_prompts(path: str) -> list[str]:
    """The prompts of a JSONL file, one {"prompt": …} a line. Raises ValueError or OSError."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{path} is no file; name one with a prompt a line")
    prompts = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError:
            item = None
        if not isinstance(item, dict) or not isinstance(item.get(PROMPT), str):
            raise ValueError(f'line {number} of {path} must be {{"prompt": "…"}}')
        prompts.append(item[PROMPT])
    if not prompts:
        raise ValueError(f"{path} holds no prompts")
    return prompts


def decode_many(
    engine: Engine,
    prompts: Sequence[tuple[int, str, Sequence[int]]],
    settings: Settings,
    batch_size: int,
    prompt_format: str,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """One report for each (index, text, token ids), `batch_size` of them at a time."""
    traces = decode_batch(
        engine,
        [ids for _, _, ids in prompts],
        settings.strategy,
        settings.cache,
        settings.config,
        batch_size,
    )
    say(f"decoded {len(traces)} prompts")
    return [
        {
            "index": index,
            PROMPT: text,
            **facts_of(trace),
            "prompt_format": prompt_format,
        }
        for (index, text, _), trace in zip(prompts, traces, strict=True)
    ]
