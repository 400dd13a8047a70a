"""A small evaluation that must not change unnoticed: 64 items, the model's preset, fp32 on a CPU.

    python -m tests.continuous                          # measure and compare
    python -m tests.continuous --update --reason "…"    # accept what is measured now

`golden/evaluation.json` holds what was accepted and why, the newest last. Every entry is sealed
with a hash over its numbers, its reason and the entry before it: numbers that are edited without
a new reason do not pass.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.measurement import decode_items, encode_items, ratio
from flash_dllm.evaluation.scoring import are_correct
from flash_dllm.evaluation.tasks import load_task
from flash_dllm.settings import Settings

GOLDEN = Path(__file__).parent / "golden" / "evaluation.json"
# stories take five times as many steps as the others
ITEMS = {"word": 20, "algebra": 20, "code": 20, "story": 4}
BATCH = 16
# what may change without a reason: one item of 64, and tokens a step by 2 %
ALLOWED_ITEMS, ALLOWED_SHARE = 1, 0.02
SHORTEST_REASON = 20


@dataclass(frozen=True)
class Numbers:
    """What was measured, item by item, so that a part of it can be compared as well.

    correct  "1" or "0" for each item
    tokens, steps  of each item
    """

    correct: str
    tokens: tuple[int, ...]
    steps: tuple[int, ...]

    def first(self, count: int) -> Numbers:
        return Numbers(self.correct[:count], self.tokens[:count], self.steps[:count])

    @property
    def right(self) -> int:
        return self.correct.count("1")

    @property
    def tokens_per_step(self) -> float:
        return ratio(sum(self.tokens), sum(self.steps))

    def described(self) -> dict[str, Any]:
        """For the file: the two figures first, then what they are made of."""
        return {
            "accuracy": ratio(self.right, len(self.correct)),
            "tokens_per_step": round(self.tokens_per_step, 4),
            **asdict(self),
        }


def items(count: int | None = None) -> list[Item]:
    """The first items of the shipped sets, the domains in turn while they last."""
    each = [load_task(task, most) for task, most in ITEMS.items()]
    turns = chain.from_iterable(zip_longest(*each))
    return [item for item in turns if item is not None][:count]


def numbers_of(
    engine: Any, settings: Settings | None = None, count: int | None = None
) -> Numbers:
    """Decode and score the first `count` items; settings are the model's preset if left out."""
    asked = items(count)
    settings = settings or lean_settings(engine.preset, {})
    run = decode_items(engine, asked, encode_items(engine, asked), settings, BATCH)
    right = are_correct(asked, [decoded.text for decoded in run.decoded])
    return Numbers(
        "".join("01"[verdict] for verdict in right),
        tuple(decoded.tokens for decoded in run.decoded),
        tuple(decoded.steps for decoded in run.decoded),
    )


def changes(accepted: Numbers, now: Numbers) -> list[str]:
    """What differs by more than is allowed, in sentences; nothing if all is well."""
    found = []
    count = len(accepted.correct)
    if abs(now.right - accepted.right) > ALLOWED_ITEMS:
        differing = [n for n in range(count) if now.correct[n] != accepted.correct[n]]
        found.append(
            f"accuracy: {now.right} of {count} right, accepted are {accepted.right} give or take "
            f"{ALLOWED_ITEMS} (items {', '.join(map(str, differing))} differ)"
        )
    share = now.tokens_per_step / accepted.tokens_per_step - 1
    if abs(share) > ALLOWED_SHARE:
        found.append(
            f"tokens/step: {now.tokens_per_step:.3f}, accepted are "
            f"{accepted.tokens_per_step:.3f} give or take {100 * ALLOWED_SHARE:g} %"
        )
    return found


def seal_of(numbers: dict[str, Any], reason: str, before: str) -> str:
    """A hash over an entry and the one before it."""
    text = json.dumps([before, reason, numbers], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_golden(path: Path = GOLDEN) -> tuple[list[dict[str, Any]], Numbers]:
    """All entries, and the numbers of the newest.

    Raises ValueError for an entry without a reason of its own, or with a seal that is not its own.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))["accepted"]
    before, reasons = "", set()
    for entry in entries:
        reason = checked_reason(entry["reason"], reasons)
        if entry["seal"] != seal_of(entry["numbers"], reason, before):
            raise ValueError(
                f"{path.name}: the entry '{reason[:40]}' was edited by hand; take the old file and "
                'run python -m tests.continuous --update --reason "…"'
            )
        reasons.add(reason)
        before = entry["seal"]
    newest = entries[-1]["numbers"]
    return entries, Numbers(newest["correct"], tuple(newest["tokens"]), tuple(newest["steps"]))


def checked_reason(reason: str, earlier: set[str]) -> str:
    """Raises ValueError for a reason that says nothing, or that was given before."""
    reason = " ".join(reason.split())
    if len(reason) < SHORTEST_REASON:
        raise ValueError(
            f"a reason of at least {SHORTEST_REASON} characters is needed: what changed the "
            f"numbers, and why that is right; got {reason!r}"
        )
    if reason in earlier:
        raise ValueError(f"the reason {reason!r} was given for an earlier change; say what is new")
    return reason


def update(now: Numbers, reason: str, settings: dict[str, Any], path: Path = GOLDEN) -> None:
    """Accept these numbers. Raises ValueError as `checked_reason`."""
    entries = read_golden(path)[0] if path.is_file() else []
    reason = checked_reason(reason, {entry["reason"] for entry in entries})
    numbers = json.loads(json.dumps(now.described()))
    entries.append(
        {
            "reason": reason,
            "settings": settings,
            "numbers": numbers,
            "seal": seal_of(numbers, reason, entries[-1]["seal"] if entries else ""),
        }
    )
    # one list a line: a change is then readable as a diff
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"accepted": entries}, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing changed or the change was accepted, 1 if something did, 2 for a bad reason."""
    from flash_dllm.models import load_model

    cli = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cli.add_argument("--update", action="store_true", help="accept what is measured now")
    cli.add_argument("--reason", default="", help="why the numbers are others now")
    options = cli.parse_args(arguments)
    try:
        if options.update:
            checked_reason(options.reason, set())
        engine = load_model(device="cpu", dtype="float32", impl="torch")
        now = numbers_of(engine)
        print(f"{now.right} of {len(now.correct)} right, {now.tokens_per_step:.3f} tokens/step")
        if options.update:
            settings = lean_settings(engine.preset, {}).described()
            update(now, options.reason, settings)
            print(GOLDEN)
            return 0
        found = changes(read_golden()[1], now)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
