"""Presets by family, and end tokens that rank last."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.models import families, load_preset
from flash_dllm.models.presets import PRESETS
from flash_dllm.scripted import Script, ScriptedEngine
from flash_dllm.settings import from_preset
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace_json import from_json, to_json
from tests.hash_engine import END_OF_TURN, EOS, HashEngine
from tests.official_layouts import LAYOUTS, write_layout


def test_every_family_has_presets_and_each_builds():
    assert set(PRESETS) == set(families())
    for family, known in PRESETS.items():
        assert next(iter(known)) == "flash"
        for name, preset in known.items():
            built = from_preset(preset.settings, {})
            assert preset.source, (family, name)
            assert built.config.gen_length % built.config.block == 0


def test_the_official_settings_of_llada_1_5():
    """gen / block and end tokens last, as in EVAL.md."""
    table = {
        "gsm8k": (256, 16, True), "math": (1024, 128, True), "humaneval": (512, 32, True),
        "mbpp": (512, 32, True), "gpqa": (256, 16, False), "ifeval": (256, 16, True),
    }  # fmt: skip
    for task, wanted in table.items():
        made = from_preset(PRESETS["llada"][f"llada-1.5-{task}"].settings, {})
        config = made.config
        assert (config.gen_length, config.block_length, config.rank_ends_last) == wanted
        assert config.window_size == config.block_length
        assert (made.strategy, made.cache) == (Greedy(), NoCache())


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_without_a_preset_starts_from_its_familys(tmp_path, name):
    folder = write_layout(tmp_path / name, name)
    made = from_preset(load_preset(folder), {})
    wanted = "flash" if LAYOUTS[name].block is None else "block"
    assert made.cache.name == wanted
    assert made.strategy == FlashVerify(0.9, 0.8)


def test_an_unknown_preset_names_the_known_ones(tmp_path):
    folder = write_layout(tmp_path / "sdar", "sdar")
    with pytest.raises(ValueError, match="preset must be one of flash, sdar, got 'fast'"):
        load_preset(folder, "fast")
    assert load_preset(folder, "sdar")["config"]["temperature"] == 1.0


ENDING = Script(
    vocabulary=("A", "B", "[MASK]", "^", "$"),
    answers={
        ("^ _ _", 1): ("A", 0.5), ("^ _ _", 2): ("$", 0.99),
        ("^ A _", 2): ("$", 0.97), ("^ _ $", 1): ("B", 0.6), ("^ A $", 1): ("A", 0.5),
    },
)  # fmt: skip


def test_end_tokens_rank_last_by_hand():
    engine = ScriptedEngine(ENDING)
    plain = DecodeConfig(gen_length=2, window_size=2)
    late = DecodeConfig(gen_length=2, window_size=2, rank_ends_last=True)
    # plainly the sure end comes first, and the first word is then another one
    first = decode(engine, [3], Confidence(0.9), NoCache(), plain)
    assert [step.accepted for step in first.steps] == [((2, 4),), ((1, 1),)]
    # ranked last it counts as 0: A is surest (forced), then the end is all there is (forced)
    last = decode(engine, [3], Confidence(0.9), NoCache(), late)
    assert [step.accepted for step in last.steps] == [((1, 0),), ((2, 4),)]
    assert [p.confidence for p in last.steps[0].proposals] == [0.5, 0.0]
    assert last.steps[0].proposals[1].alternatives == ((4, 0.99),)
    assert from_json(to_json(last)) == last
    assert '"rank_ends_last":true' in to_json(last)
    assert "rank_ends_last" not in to_json(first)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([NoCache(), FlashCache(track_size=3)]))
def test_an_end_token_is_only_forced_and_never_verified_when_it_ranks_last(seed, cache):
    engine = HashEngine(seed, end_share=40)
    config = DecodeConfig(gen_length=16, window_size=8, rank_ends_last=True, early_stop=False)
    trace = decode(engine, [1, 2], FlashVerify(0.6, 0.5), cache, config)
    for step in trace.steps:
        for p in step.proposals:
            if p.committed_token in (EOS, END_OF_TURN):
                assert p.verdict.value == "FORCED"
                others = [q for q in step.proposals if q.draft_token not in (EOS, END_OF_TURN)]
                assert not others
    assert from_json(to_json(trace)) == trace
