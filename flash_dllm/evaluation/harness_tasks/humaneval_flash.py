"""What `humaneval_flash.yaml` calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flash_dllm.evaluation.counting import STOP_STRINGS
from flash_dllm.evaluation.harness_model import cut
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.public_sets import read_public_set
from flash_dllm.evaluation.sandbox import Sandbox
from flash_dllm.evaluation.scoring import program_of


def load(
    data: str | None = None, allow_unsandboxed: bool = False, **_: Any
) -> dict[str, Any]:
    """The set as the harness wants it: split → Dataset. Other metadata belongs to others."""
    from datasets import Dataset

    rows = [
        {
            "task_id": item.specification,
            "prompt": item.stub,
            "test": item.tests[0],
            "entry_point": item.tests[1].removeprefix("check(").removesuffix(")"),
            "allow_unsandboxed": allow_unsandboxed,
        }
        for item in read_public_set("humaneval", Path(data) if data else None)
    ]
    return {"test": Dataset.from_list(rows)}


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Both scores of one answer."""
    text = results[0]
    tests = (doc["test"], f"check({doc['entry_point']})")
    item = Item("humaneval", "humaneval", doc["task_id"], "", "", tests=tests, stub=doc["prompt"])
    raw = doc["prompt"] + cut(text, STOP_STRINGS["humaneval"])
    box = Sandbox.find(doc["allow_unsandboxed"])
    return {
        "pass_at_1_raw": float(box.run(raw, tests).is_passed),
        "pass_at_1_post_processed": float(box.run(program_of(item, text), tests).is_passed),
    }
