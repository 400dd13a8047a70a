"""Accuracy and tokens a step on 64 items stay what was accepted with a reason, and can fail."""

from __future__ import annotations

import json

import pytest
import torch

from flash_dllm.evaluation.lean import lean_settings
from tests.continuous import (
    GOLDEN,
    ITEMS,
    Numbers,
    changes,
    items,
    numbers_of,
    read_golden,
    seal_of,
    update,
)

FEW = 3
REASON = "the preset searches twice as many drafts"


@pytest.fixture(scope="module")
def embedded():
    from flash_dllm.models import load_model

    return load_model(device="cpu", dtype="float32", impl="torch")


def test_accuracy_and_tokens_a_step_are_those_that_were_accepted(embedded):
    asked = items()
    assert {task: sum(i.domain == task for i in asked) for task in ITEMS} == ITEMS
    accepted = read_golden()[1]
    assert len(accepted.correct) == len({item.specification for item in asked}) == 64
    found = changes(accepted, numbers_of(embedded))
    assert not found, (
        f"{'; '.join(found)}. If that is right, say why: "
        'python -m tests.continuous --update --reason "…"'
    )


def test_perturbed_weights_fail(embedded):
    accepted = read_golden()[1].first(FEW)
    head = embedded.model.weights.head
    noise = torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    kept = head.clone()
    head += 0.5 * head.std() * noise
    try:
        found = changes(accepted, numbers_of(embedded, count=FEW))
    finally:
        head.copy_(kept)
    assert any(sentence.startswith("tokens/step") for sentence in found)


def test_a_wrong_knob_fails(embedded):
    strict = lean_settings(embedded.preset, {"gamma": 1.0})
    found = changes(read_golden()[1].first(FEW), numbers_of(embedded, strict, FEW))
    assert [sentence.partition(":")[0] for sentence in found] == ["tokens/step"]


def test_allowed_is_one_item_and_two_per_cent():
    accepted = Numbers("1" * 50 + "0" * 14, (100,) * 64, (10,) * 64)
    less = Numbers("1" * 49 + "0" * 15, (98,) * 64, (10,) * 64)
    assert changes(accepted, less) == []
    worse = Numbers("1" * 48 + "0" * 16, (97,) * 64, (10,) * 64)
    accuracy, speed = changes(accepted, worse)
    assert accuracy == (
        "accuracy: 48 of 64 right, accepted are 50 give or take 1 (items 48, 49 differ)"
    )
    assert speed == "tokens/step: 9.700, accepted are 10.000 give or take 2 %"


def test_numbers_do_not_change_without_a_reason_of_their_own(tmp_path):
    path = tmp_path / "golden.json"
    path.write_bytes(GOLDEN.read_bytes())
    now = Numbers("1" * 64, (10,) * 64, (5,) * 64)
    with pytest.raises(ValueError, match="at least 20 characters"):
        update(now, "new", {}, path)
    with pytest.raises(ValueError, match="was given for an earlier change"):
        update(now, read_golden(path)[0][-1]["reason"], {}, path)
    assert path.read_bytes() == GOLDEN.read_bytes()
    update(now, REASON, {}, path)
    entries, accepted = read_golden(path)
    assert accepted == now and entries[-1]["reason"] == REASON
    # edited by hand: numbers, and the reason
    for key, value in (("numbers", {**entries[-1]["numbers"], "accuracy": 0.5}),
                       ("reason", "something else that is long enough")):  # fmt: skip
        edited = json.loads(path.read_text())
        edited["accepted"][-1][key] = value
        other = tmp_path / "edited.json"
        other.write_text(json.dumps(edited))
        with pytest.raises(ValueError, match="was edited by hand"):
            read_golden(other)


def test_a_seal_hangs_on_the_entry_before():
    assert seal_of({"a": 1}, "r", "x") != seal_of({"a": 1}, "r", "y")
