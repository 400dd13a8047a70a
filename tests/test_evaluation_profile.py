"""A profile: parts add up to passes, labels leave nothing behind."""

from __future__ import annotations

import csv
import json

import pytest

from flash_dllm import layerwise
from flash_dllm import session as session_file
from flash_dllm.caches import DllmCache, FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.evaluation import profile as profile_file
from flash_dllm.evaluation.profile import PARTS, PassTimes, profile, summary, table
from flash_dllm.settings import Settings
from flash_dllm.strategies import Confidence, FlashVerify
from kernels import ops

SETTINGS = Settings(
    FlashVerify(gamma=0.3, search_size=4),
    FlashCache(track_size=4),
    DecodeConfig(16, window_size=8, alternatives=0),
)


def test_a_profile_has_every_pass_with_parts_that_add_up(engine, tmp_path):
    names = (*profile_file.OPERATIONS, "linear")
    before = [getattr(ops, name) for name in names]
    launch, choose = session_file.ModelSession.launch, session_file.choose
    passes = profile(engine, [[7, 8, 9], [10, 11]], SETTINGS, tmp_path)
    assert [getattr(ops, name) for name in names] == before
    assert (session_file.ModelSession.launch, session_file.choose) == (launch, choose)
    # both prompts are admitted in one pass: 3 + 16 and 2 + 16 rows, 8 window rows each
    first = passes[0]
    assert (first.kind, first.rows, first.logit_rows) == ("full", 37, 16)
    assert any("verify" in one.kind for one in passes)
    for one in passes:
        assert set(one.parts) == set(PARTS)
        assert all(one.parts[part] > 0 for part in PARTS if part != "other")
        assert sum(one.parts.values()) == pytest.approx(one.total, rel=1e-6)
    assert all(one.host > 0 for one in passes[:-1])
    rows = list(csv.DictReader((tmp_path / "passes.csv").read_text().splitlines()))
    assert len(rows) == len(passes)
    found = json.loads((tmp_path / "summary.json").read_text())
    assert sum(facts["passes"] for facts in found.values()) == len(passes)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    labels = {event.get("name") for event in events}
    assert {"part:attention", "part:mlp", "part:logits", "part:decision"} <= labels


def test_passes_layer_by_layer_are_taken_apart_too(engine, tmp_path):
    before = layerwise.row_attention, session_file.ModelSession._by_layer
    settings = Settings(
        Confidence(0.3), DllmCache(), DecodeConfig(16, window_size=8, alternatives=0)
    )
    passes = profile(engine, [[7, 8, 9]], settings, tmp_path)
    assert (layerwise.row_attention, session_file.ModelSession._by_layer) == before
    trace = decode(engine, [7, 8, 9], settings.strategy, settings.cache, settings.config)
    assert len(passes) == trace.passes > 2
    for one in passes:
        assert all(one.parts[part] > 0 for part in ("attention", "mlp", "logits", "decision"))
        assert sum(one.parts.values()) == pytest.approx(one.total, rel=1e-6)


def test_a_profile_ends_after_its_passes(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(profile_file, "PASSES", 3)
    assert len(profile(engine, [[7, 8, 9]], SETTINGS, tmp_path)) == 3


def test_tables_of_a_profile_by_hand():
    draft = {"attention": 0.002, "mlp": 0.001}
    passes = [
        PassTimes("draft", 8, 4, draft, 0.004, 0.001),
        PassTimes("draft", 8, 4, {**draft, "mlp": 0.003}, 0.006, 0.002),
        PassTimes("full", 90, 4, {}, 0.01, 0.0),
    ]
    found = summary(passes)
    assert found["draft"]["passes"] == 2 and found["draft"]["mlp"] == 2.0
    assert (found["draft"]["pass"], found["draft"]["host"]) == (5.0, 1.5)
    assert table(passes).splitlines()[1] == (
        "1,draft,8,4,0.0000,2.0000,1.0000,0.0000,0.0000,0.0000,0.0000,4.0000,1.0000"
    )
