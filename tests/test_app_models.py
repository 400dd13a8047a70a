"""The models of a page: known, loaded, unloaded, shared by all visitors; and settings to start."""

import shutil
import threading

import pytest

from app import decoder_presets
from app.controls import MAX_GEN_LENGTH, controls, settings
from app.models import NOT_HERE, OWN, Models
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from flash_dllm.models.presets import PRESETS
from flash_dllm.peers import PEERS
from flash_dllm.settings import from_preset
from tests.random_model import llada_config, write_checkpoint


@pytest.fixture
def runs(small_folder):
    return Runs(folder=str(small_folder), device="cpu")


@pytest.fixture
def other(tmp_path):
    """A second checkpoint, whose weights differ."""
    (tmp_path / "other").mkdir()
    return write_checkpoint(tmp_path / "other", llada_config(n_kv_heads=4))


def test_a_folder_is_loaded_by_name_and_said_with_dtype_device_impl_and_memory(runs, other):
    name = runs.models.add(f" {other} ", "float32")
    assert name == f"{other}, float32" and name in runs.models.names()
    assert runs.models.facts(name).line == f"{name}: not loaded; Run or Load loads it."
    stages = list(runs.models.stages(name))
    assert stages[0] == "loading model" and runs.is_loaded(name)
    engine = runs.engine(name)
    held = sum(tensor.nbytes for tensor in engine.model.weights.tensors)
    facts = runs.models.facts(name)
    assert facts.attention == "bidirectional"
    assert facts.line.startswith("other is loaded: ")
    assert f"float32, cpu, torch, {held / 1e6:.1f} MB of memory" in facts.line
    # the embedded one is another engine, and none of it is loaded by this
    assert not runs.is_loaded(EMBEDDED)


def test_a_guides_memory_is_told_once_it_is_loaded(runs):
    engine = runs.engine(EMBEDDED)
    assert "guide" not in runs.models.facts(EMBEDDED).line and "guide" not in vars(engine)
    assert engine.guide is not None
    # the embedded guide: 4.0 million parameters in float32, its tied head once
    assert ", 16.0 MB more of its guide guide;" in runs.models.facts(EMBEDDED).line


def test_unloading_leaves_the_run_that_goes_on_alone(runs):
    values = {**runs.defaults(EMBEDDED), "gen_length": 16, "block_length": None, "window_size": 16}
    number = runs.enqueue(runs.prepare("What is 1 + 1?", EMBEDDED, values))
    updates = runs.run(number)
    while next(updates).header is None:
        pass
    assert "is unloaded" in runs.models.unload(EMBEDDED)
    assert not runs.is_loaded(EMBEDDED)
    *_, last = updates
    assert last.trace is not None and last.trace.status == "finished"
    assert runs.models.unload(EMBEDDED) == f"{EMBEDDED} is not loaded."
    # the next run loads it again
    assert runs.decode(runs.prepare("again", EMBEDDED, values)).status == "finished"


def test_a_loaded_model_answers_while_another_one_is_loading(runs, monkeypatch):
    runs.engine(EMBEDDED)
    slow = threading.Event()
    monkeypatch.setattr(Models, "_load", lambda *_: slow.wait(10))
    name = runs.models.add(str(runs.models.folder(EMBEDDED)), "float32")
    loader = threading.Thread(target=runs.models.engine, args=(name,))
    loader.start()
    found = []
    asking = threading.Thread(target=lambda: found.append(runs.engine(EMBEDDED)))
    asking.start()
    asking.join(2)
    assert found and loader.is_alive()
    slow.set()
    loader.join(5)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("", "Type a hub name"),
        ("a" * 201, "at most 200 characters"),
        ("/nowhere/at/all", "/nowhere/at/all is neither a folder on this server nor a hub name"),
        ("just a name", "is neither a folder"),
    ],
)
def test_what_is_no_model_is_one_sentence(runs, source, sentence):
    before = runs.models.names()
    with pytest.raises(RunError, match=sentence):
        runs.models.add(source)
    assert runs.models.names() == before


def test_a_model_that_can_not_be_loaded_is_told_and_no_longer_offered(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    name = runs.models.add(str(tmp_path / "empty"))
    with pytest.raises(RunError, match=r"^The model could not be loaded: .*config.json"):
        list(runs.models.stages(name))
    runs.models.forget(name)
    assert runs.models.names() == [EMBEDDED, TOY]


def test_short_memory_is_one_sentence_that_names_what_to_unload(runs, other, monkeypatch):
    runs.engine(EMBEDDED)
    monkeypatch.setattr("flash_dllm.models.memory.free_bytes", lambda device: 1000)
    name = runs.models.add(str(other))
    with pytest.raises(RunError, match=f"but 0.0 MB are free .*; or unload {EMBEDDED} first") as e:
        runs.engine(name)
    assert "\n" not in str(e.value)
    assert runs.is_loaded(EMBEDDED)


def test_a_page_for_many_keeps_to_its_models(small_folder):
    models = Runs(folder=str(small_folder), is_open=False).models
    with pytest.raises(RunError) as error:
        models.add("owner/model")
    assert str(error.value) == NOT_HERE
    assert models.names() == [EMBEDDED, TOY]


def test_only_caches_that_fit_the_attention_are_offered(runs, small_folder, tmp_path):
    assert "flash" in runs.models.caches(EMBEDDED) and "block" not in runs.models.caches(EMBEDDED)
    folder = tmp_path / "causal"
    shutil.copytree(small_folder, folder)
    config = (folder / "config.json").read_text().rstrip().rstrip("}")
    (folder / "config.json").write_text(config + ', "block_size": 4}')
    name = runs.models.add(str(folder))
    # before it is loaded its config says so
    assert runs.models.facts(name).attention == "block-causal"
    assert runs.models.caches(name) == ["none", "block"]
    assert not set(PEERS) & set(runs.models.presets(name))


def test_a_cache_that_does_not_fit_a_loaded_model_is_refused_before_the_run(runs):
    runs.engine(EMBEDDED)
    values = {**runs.defaults(EMBEDDED), "cache": "block"}
    with pytest.raises(RunError, match="Cache block does not fit .*; choose flash or none"):
        runs.prepare("hello", EMBEDDED, values)


def test_a_prompt_may_go_in_as_plain_text(runs):
    values = {**runs.defaults(EMBEDDED), "gen_length": 8, "block_length": None, "window_size": 8}
    engine = runs.engine(EMBEDDED)
    for raw in (False, True):
        trace = runs.decode(runs.prepare("hello", EMBEDDED, {**values, "raw": raw}))
        assert trace.prompt_token_ids == tuple(engine.encode("hello", raw))


def test_a_trace_and_a_study_find_the_model_that_made_them(runs, other):
    name = runs.models.add(str(other))
    fingerprint = runs.engine(name).info.fingerprint
    assert runs.models.of(fingerprint, "torch") == name
    assert runs.models.of("unknown", "torch") == EMBEDDED
    assert runs.models.of("", "scripted") == TOY
    assert runs.models.named(str(other)) == name
    assert runs.models.named(None) == EMBEDDED


# --- settings to start from


def test_every_peer_and_every_published_preset_can_be_started_from():
    runs = Runs()
    offered = decoder_presets.choices(runs.models, EMBEDDED)
    keys = [key for _, key in offered]
    assert keys[0] == OWN and set(keys[1:]) == {*PRESETS["llada"], *PEERS}
    assert ("Fast-dLLM, dual cache (2025)", "fast_dllm_dual") in offered
    assert len({label for label, _ in offered}) == len(offered)


@pytest.mark.parametrize("key", PEERS)
def test_a_peers_controls_build_the_peers_settings(key):
    runs = Runs()
    defaults = runs.defaults(EMBEDDED)
    values = decoder_presets.values(runs.models, EMBEDDED, key, defaults)
    made = settings(values["strategy"], values["cache"], {**defaults, **values})
    peer = from_preset(PEERS[key].settings, {})
    assert made[:2] == (peer.strategy, peer.cache)
    assert made[2] == peer.config
    words = decoder_presets.about(runs.models, EMBEDDED, key)
    assert PEERS[key].idea in words and PEERS[key].exact in words


def test_a_published_length_beyond_the_page_is_cut_and_said():
    runs = Runs()
    values = decoder_presets.values(runs.models, EMBEDDED, "llada-1.5-math", {})
    assert values["gen_length"] == MAX_GEN_LENGTH and values["block_length"] == 128
    assert "end at 512 tokens, not 1024" in decoder_presets.about(
        runs.models, EMBEDDED, "llada-1.5-math"
    )
    # what belongs to the visitor's run stays as it is
    assert not {"seed", "alternatives"} & set(values) and "seed" in controls()


def test_an_unknown_preset_is_one_sentence():
    with pytest.raises(RunError, match="no settings named 'magic'"):
        decoder_presets.values(Runs().models, EMBEDDED, "magic", {})
