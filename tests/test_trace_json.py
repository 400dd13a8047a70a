"""Traces as JSON: what is written comes back equal, and every other file is refused in words."""

import json
import os
import stat
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm import trace_json
from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, start_trace
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace import DecodeTrace, StopReason, Verdict
from flash_dllm.trace_json import TraceError, from_json, load, run_id, save, to_json
from tests.hash_engine import EOS, MASK, HashEngine


def toy_trace() -> DecodeTrace:
    engine = toy_engine()
    strategy, cache = FlashVerify(epsilon=0.9, gamma=0.8), FlashCache(track_size=1)
    config = DecodeConfig(gen_length=4, window_size=2)
    return decode(engine, engine.ids("^"), strategy, cache, config, prompt="^")


def hash_trace(seed: int = 3, **more) -> DecodeTrace:
    choices = {
        "strategy": FlashVerify(epsilon=0.9, gamma=0.5),
        "cache": FlashCache(track_size=3),
        "config": DecodeConfig(gen_length=24, window_size=8, early_stop=False),
        **more,
    }
    return decode(HashEngine(seed), [1, 2, 3], **choices, prompt="one two three")


VARIANTS = [
    {"strategy": FlashVerify(0.8, 0.4, search_size=3, order="position")},
    {"strategy": FlashVerify(0.9, 0.5, acceptance="joint", correct=True)},
    {"strategy": Confidence(0.7), "cache": NoCache()},
    {"strategy": Greedy(), "cache": FlashCache(refresh=4, track_layers=(0, 1))},
    {"config": DecodeConfig(gen_length=24, block_length=8, window_size=6, decide_size=3)},
    {"config": DecodeConfig(gen_length=20, suppress_after_eos=True, alternatives=0)},
    {"cache": FlashCache(refresh="drift", drift_threshold=0.99, verify_rows=20)},
]


def refusal(text: str | bytes) -> str:
    """The sentence with which this file is refused."""
    with pytest.raises(TraceError) as caught:
        from_json(text)
    sentence = str(caught.value)
    assert sentence and "\n" not in sentence and len(sentence) <= 300
    return sentence


def edited(trace: DecodeTrace, path: str, value: object) -> str:
    """The trace's JSON with another value at a dotted path, e.g. "steps.0.window"."""
    tree = json.loads(to_json(trace))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    spot = tree
    for part in parents:
        spot = spot[part]
    spot[last] = value
    return json.dumps(tree)


# round trip


def test_the_toy_run_comes_back_equal_and_as_the_same_text():
    trace = toy_trace()
    again = from_json(to_json(trace))
    assert again == trace
    assert again.text == "AABB"
    assert to_json(again) == to_json(trace)


@pytest.mark.parametrize("variant", VARIANTS, ids=range(len(VARIANTS)))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_longer_runs_of_every_kind_come_back_equal(variant, seed):
    trace = hash_trace(seed, **variant)
    assert from_json(to_json(trace)) == trace
    assert from_json(to_json(trace).encode()) == trace


def test_tuples_and_enumerations_come_back_as_what_they_were():
    again = from_json(to_json(hash_trace(cache=FlashCache(track_layers=(0, 1)))))
    assert again.cache["track_layers"] == (0, 1)
    assert isinstance(again.steps[0].proposals[0].verdict, Verdict)
    assert isinstance(again.steps[0].stop, StopReason)
    assert all(isinstance(token, int) for token in again.token_texts)


def test_the_text_does_not_depend_on_the_order_of_the_token_texts():
    trace = toy_trace()
    turned = replace(trace, token_texts=dict(reversed(trace.token_texts.items())))
    assert to_json(turned) == to_json(trace)


def test_the_text_is_one_ascii_line_without_blanks_between_values():
    text = to_json(hash_trace())
    assert text.isascii() and "\n" not in text
    assert '", "' not in text and '": ' not in text


texts = st.one_of(
    st.sampled_from(["", "\udcc3\udca9", "🙂", "</script><script>", "\0\n\r\u2028"]),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"])),
)


@settings(max_examples=60, deadline=None)
@given(prompt=texts, name=texts.map(lambda text: text[:300]), token=texts)
def test_any_text_in_the_header_comes_back(prompt, name, token):
    toy = toy_trace()
    trace = replace(
        toy,
        prompt=prompt,
        model=replace(toy.model, name=name),
        token_texts={**toy.token_texts, 0: token[:1000]},
    )
    assert from_json(to_json(trace)) == trace


def test_a_header_without_steps_is_a_stopped_run():
    engine = toy_engine()
    header = start_trace(engine, [3], Greedy(), NoCache(), DecodeConfig(gen_length=4))
    assert from_json(to_json(header)) == header


def test_a_run_that_was_stopped_comes_back():
    whole = hash_trace()
    part = replace(whole, steps=whole.steps[:4], status="stopped")
    assert from_json(to_json(part)) == part


def test_a_number_that_is_not_finite_is_not_written():
    with pytest.raises(TraceError, match="not finite"):
        to_json(replace(toy_trace(), config={"temperature": float("nan")}))


# files


def test_a_saved_trace_is_loaded(tmp_path):
    path = tmp_path / "run.json"
    save(toy_trace(), path)
    assert load(path) == toy_trace()
    assert load(str(path)) == toy_trace()
    assert os.listdir(tmp_path) == ["run.json"]


def test_saving_into_a_missing_folder_says_so(tmp_path):
    with pytest.raises(TraceError, match="the folder of .*run.json does not exist"):
        save(toy_trace(), tmp_path / "missing" / "run.json")


def test_a_full_disk_keeps_the_previous_file(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    save(toy_trace(), path)

    def no_space(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_json.os, "fsync", no_space)
    with pytest.raises(TraceError, match="No space left on device"):
        save(hash_trace(), path)
    assert load(path) == toy_trace()
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_folder_in_the_place_of_the_file_is_not_replaced(tmp_path):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(TraceError, match="not a plain file"):
        save(toy_trace(), tmp_path / "run.json")
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_link_is_followed_and_a_pipe_is_left_alone(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    save(toy_trace(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load(tmp_path / "real.json") == toy_trace()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="not a plain file"):
        save(toy_trace(), tmp_path / "pipe")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_saved_trace_is_as_readable_as_other_new_files(tmp_path):
    (tmp_path / "other").write_text("")
    save(toy_trace(), tmp_path / "run.json")
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("other", "run.json")}
    assert len(modes) == 1


@pytest.mark.parametrize("path", ["missing.json", ".", "nul\0byte"])
def test_a_path_that_can_not_be_read_says_so(tmp_path, path):
    with pytest.raises(TraceError, match="can't read"):
        load(tmp_path / path)


def test_a_trace_too_large_to_be_read_again_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_json, "MAX_BYTES", 1000)
    with pytest.raises(TraceError, match="not saved"):
        save(toy_trace(), tmp_path / "run.json")
    assert os.listdir(tmp_path) == []


# run_id


def test_run_id_does_not_depend_on_steps_status_or_texts():
    trace = toy_trace()
    assert run_id(replace(trace, steps=(), status="stopped", token_texts={})) == run_id(trace)
    assert len(run_id(trace)) == 12 and run_id(from_json(to_json(trace))) == run_id(trace)


def test_run_id_depends_on_prompt_model_and_every_settings_object():
    trace = toy_trace()
    others = [
        replace(trace, prompt="another"),
        replace(trace, prompt_token_ids=(3, 3)),
        replace(trace, model=replace(trace.model, fingerprint="f")),
        replace(trace, strategy={**trace.strategy, "gamma": 0.81}),
        replace(trace, cache={**trace.cache, "track_size": 2}),
        replace(trace, config={**trace.config, "seed": 1}),
    ]
    assert len({run_id(other) for other in [trace, *others]}) == 7


# refused as JSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON at line 1, column 1"),
        ("{", "not JSON at line 1"),
        ("null", "must hold an object, got None"),
        ("[1]", "must hold an object, got a list"),
        ("{}", "format: must be 'flash-dllm-trace', got None"),
        (b"\xff\xfe", "byte 0 of the file is not UTF-8"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ("9" * 5000, "too many digits"),
        ('{"format": NaN}', "NaN"),
        ('{"format": -Infinity}', "-Infinity"),
        ('{"a": 1, "a": 1}', "'a' twice"),
    ],
    ids=count(),
)
def test_what_is_no_trace_is_refused(text, words):
    assert words in refusal(text)


def test_a_file_beyond_the_size_limit_is_refused_before_it_is_parsed(tmp_path):
    assert "larger than 32 MiB" in refusal(" " * (32 * 2**20 + 1))
    path = tmp_path / "large.json"
    with open(path, "wb") as file:
        file.truncate(33 * 2**20)
    with pytest.raises(TraceError, match="larger than 32 MiB"):
        load(path)


def test_another_schema_version_names_the_one_that_is_read():
    newer = to_json(toy_trace()).replace('"schema_version":1', '"schema_version":2')
    assert "schema_version: 2 is newer here; this program reads version 1" in refusal(newer)
    for other in ("0", "true", '"1"', "1.0", "null"):
        text = newer.replace('"schema_version":2', f'"schema_version":{other}')
        assert "this program reads version 1" in refusal(text)


def test_a_repeated_key_deep_inside_is_refused():
    text = to_json(toy_trace()).replace('"rank":1,', '"rank":1,"rank":1,', 1)
    assert "'rank' twice" in refusal(text)


# refused in the header


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("strategy.name", "unheard", "known are flash_verify, confidence, greedy"),
        ("strategy.name", ["greedy"], "strategy.name: a list is no strategy known here"),
        ("cache.name", "unheard", "known are flash, none"),
        ("strategy.gamma", 1.5, "strategy: gamma must lie between 0.0 and 1.0, got 1.5"),
        ("strategy.gamma", True, "strategy: gamma must be a number, got True"),
        ("strategy.order", "random", "strategy: order must be one of confidence, position"),
        ("strategy.search_size", 1.0, "strategy: search_size must be a whole number"),
        ("strategy.audit", 1, "strategy: audit must be true or false"),
        ("strategy.beta", 1, "strategy: has the unknown key 'beta'"),
        ("cache.track_layers", 5, "cache.track_layers: must be a list of two"),
        ("cache.track_layers", [0.0, 1], "cache.track_layers[0]: must be a whole number"),
        ("cache.track_layers", [1, 0], "cache: track_layers must be two rising"),
        ("cache.refresh", True, "cache: refresh must be a whole number"),
        ("cache.refresh", {}, "cache.refresh: must be a single value"),
        ("config.gen_length", 8192, "config: gen_length must lie between 1 and 4096"),
        ("config.block_length", 3, "config: gen_length must be a multiple of block_length"),
        ("config.temperature", 10**400, "config: temperature must lie between"),
        ("model.vocab_size", 1_000_001, "model.vocab_size: must lie between 1 and 1000000"),
        ("model.mask_token_id", 5, "model.mask_token_id: must lie between 0 and 4, got 5"),
        ("model.eos_token_ids", [0, 7], "model.eos_token_ids[1]: must lie between 0 and 4"),
        ("model.eos_token_ids", [2], "model.eos_token_ids: holds the mask token"),
        ("model.name", "x" * 301, "model.name: may have 300 characters, got 301"),
        ("prompt", "x" * 1_000_001, "prompt: may have 1000000 characters"),
        ("prompt_token_ids", [], "prompt_token_ids: is empty"),
        ("prompt_token_ids", [2], "prompt_token_ids: holds the mask token"),
        ("prompt_token_ids", [0] * 32769, "prompt_token_ids: may have 32768 entries, got 32769"),
        ("token_texts", {"05": "x"}, "token_texts: has the key '05', which is no token id"),
        ("token_texts", {"-1": "x"}, "token_texts: has the key '-1'"),
        ("token_texts", {"٣": "x"}, "token_texts: has the key '٣'"),
        ("token_texts", {"5": "x"}, "token_texts.5: must lie between 0 and 4"),
        ("token_texts", {"1": 1}, "token_texts.1: must be a text, got 1"),
        ("status", "done", "status: must be one of finished, stopped, got 'done'"),
        ("steps", {}, "steps: must be a list, got an object"),
        ("notes", "hello", "unknown key 'notes'"),
    ],
    ids=count(),
)
def test_a_header_with_a_wrong_value_is_refused_at_its_place(path, value, words):
    assert words in refusal(edited(toy_trace(), path, value))


# refused by the replay


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("steps.1.index", 3, "steps[1].index: must be 2, got 3"),
        ("steps.1.window", [3], "steps[1].window: is not the window of the replayed text"),
        ("steps.1.window", [4, 3], "steps[1].window: is not the window"),
        ("steps.0.proposals", [], "steps[0].proposals: must hold each window position once"),
        ("steps.0.proposals.1.position", 1, "steps[0].proposals: must hold each window position"),
        ("steps.0.proposals.1.rank", 2, "steps[0].proposals[1].rank: the rules give 1, the file"),
        ("steps.0.proposals.1.verdict", "UNSURE", "proposals[1].verdict: the rules give VERIFIED"),
        ("steps.1.proposals.1.verdict", "VERIFIED", "proposals[1].verdict: the rules give MISM"),
        ("steps.0.proposals.0.verdict", "FORCED", "proposals[0].verdict: the rules give CONFID"),
        ("steps.0.proposals.1.verify_confidence", 0.79, "the rules give UNSURE"),
        ("steps.0.proposals.1.verify_token", 1, "the rules give MISMATCH"),
        ("steps.0.proposals.1.verify_token", None, "must hold the mask view of position 2"),
        ("steps.0.proposals.1.verify_confidence", None, "must hold the mask view of position 2"),
        ("steps.2.proposals.0.verify_token", 1, "the rules give nothing, the file says 1"),
        ("steps.0.proposals.1.confidence", 0.91, "the rules give CONFIDENT"),
        ("steps.0.proposals.1.confidence", 0.93, "proposals[0].position: the rules give 2"),
        ("steps.0.stop", "mismatch", "steps[0].stop: the rules give exhausted, the file says mism"),
        ("steps.1.tracked", [3], "steps[1].tracked: holds position 3, which is undecided"),
        ("steps.1.tracked", [1, 1], "steps[1].tracked: must not hold a position twice"),
        ("steps.1.verify_tracked", [4], "steps[1].verify_tracked: holds position 4"),
        ("steps.1.attention", [[3, 0.1]], "steps[1].attention: holds position 3"),
        ("steps.1.attention", [[0, 0.1], [1, 0.2]], "steps[1].attention: must stand by falling"),
        ("steps.0.proposals.0.alternatives", [[0, 0.1], [1, 0.2]], "must stand likeliest first"),
        ("steps.0.passes", [], "steps[0].passes: must hold 2, got 0"),
        ("steps.0.passes.0.kind", "verify", "passes[0].kind: must be full, got verify"),
        ("steps.0.passes.1.kind", "audit", "steps[0].passes[1].kind: must be verify, got audit"),
        ("steps.0.passes.1.predicted", 2, "steps[0].passes[1].predicted: must be 1, got 2"),
        ("steps.0.passes.1.rows", 0, "steps[0].passes[1].rows: must be 3, got 0"),
        ("steps.0.passes.0.rows", 10**7, "steps[0].passes[0].rows: must be 5, got 10000000"),
        ("steps.0.passes.0.kind", "draft", "passes[0].kind: must be full, got draft"),
        ("steps.1.passes.0.kind", "full", "steps[1].passes[0].rows: must be 5, got 3"),
        ("steps.1.decided_mass", 0.5, "steps[1].decided_mass: is less than the masses"),
        ("steps.1.tracked", [], "steps[1].passes[0].rows: must be 2, got 3"),
        ("steps.0.proposals.0.draft_token", 2, "steps[0].proposals[0]: commits the mask token"),
        ("status", "stopped", "status: must be finished: the steps decide everything"),
        ("strategy.gamma", 0.9, "steps[0].proposals[1].verdict: the rules give UNSURE"),
        ("strategy.epsilon", 0.6, "steps[0].proposals[1].verdict: the rules give CONFIDENT"),
        ("config.window_size", 3, "steps[0].window: is not the window"),
        ("config.decide_size", 1, "steps[0].proposals[1].verdict: the rules give WAITING"),
        ("model.eos_token_ids", [0], "steps[1]: comes after the run was finished"),
    ],
    ids=count(),
)
def test_steps_that_break_the_rules_are_refused_at_their_place(path, value, words):
    assert words in refusal(edited(toy_trace(), path, value))


def test_a_missing_last_step_means_that_the_run_was_not_finished():
    tree = json.loads(to_json(toy_trace()))
    tree["steps"].pop()
    assert "status: must be stopped" in refusal(json.dumps(tree))


def test_a_step_behind_the_end_is_refused():
    tree = json.loads(to_json(toy_trace()))
    last = tree["steps"][-1]
    tree["steps"].append({**last, "index": 4})
    assert "steps[3]: comes after the run was finished" in refusal(json.dumps(tree))


def test_another_acceptance_order_is_refused():
    trace = hash_trace(5, strategy=FlashVerify(0.95, 0.4))
    text = edited(trace, "strategy.order", "position")
    assert "the rules give" in refusal(text)


def test_a_verdict_behind_the_end_token_is_refused_when_that_is_suppressed():
    config = DecodeConfig(gen_length=24, window_size=8)
    traces = (hash_trace(seed, config=config) for seed in range(20))
    trace = next(t for t in traces if _commits_behind_an_end(t))
    assert "steps[" in refusal(edited(trace, "config.suppress_after_eos", True))


def _commits_behind_an_end(trace: DecodeTrace) -> bool:
    canvas = trace.canvas_at(len(trace.steps) - 1)
    return EOS in canvas and canvas.index(EOS) < max(
        i for i, token in enumerate(canvas) if token not in (None, MASK)
    )
