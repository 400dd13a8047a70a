"""Hub names, through huggingface_hub's own client against a hub on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from flash_dllm.models import hub, load_model, locate
from flash_dllm.models.hub import is_hub_name
from tests.hub_server import running
from tests.official_layouts import write_layout


@pytest.fixture
def server(tmp_path, monkeypatch):
    import huggingface_hub.constants as constants

    folder = write_layout(tmp_path / "served", "dream")
    (folder / "modeling_dream.py").write_text("raise SystemExit('remote code ran')")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with running(folder) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(
            "huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False
        )
        # made when the library is imported
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", server.address)
        yield server


def load(name="owner/open", **more):
    return load_model(name, device="cpu", dtype="float64", **more)


def test_a_hub_name_is_owner_and_model_and_no_folder(tmp_path, monkeypatch):
    assert is_hub_name("GSAI-ML/LLaDA-8B-Instruct")
    assert not is_hub_name("LLaDA-8B-Instruct")
    assert not is_hub_name("../models/llada")
    assert not is_hub_name("/models/llada")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "open").mkdir(parents=True)
    assert not is_hub_name("owner/open")


def test_a_model_is_fetched_without_its_code_or_pickles_and_loads_as_from_a_folder(
    server, tmp_path
):
    said = []
    engine = load(say=said.append)
    assert engine.info.name == "owner/open"
    here = load_model(server.folder, device="cpu", dtype="float64")
    assert engine.info.fingerprint == here.info.fingerprint
    fetched = {path.split("/")[-1] for _, path, _ in server.log if "/resolve/" in path}
    assert not any(name.endswith((".py", ".bin")) for name in fetched)
    assert said[0] == "asking the hub for owner/open"
    # the estimate comes before the weights: 2 layers of 64 wide, 4,096 words
    assert "million parameters" in said[1] and "MB in float64" in said[1]
    assert said[2] == "fetching the weights of owner/open"
    assert said[3].startswith("owner/open is loaded on cpu in float64")


def test_what_was_fetched_once_loads_offline(server):
    load()
    requests = len(server.log)
    assert load(offline=True).info.name == "owner/open"
    assert len(server.log) == requests


def test_a_download_that_broke_off_is_finished_where_it_stopped(server, monkeypatch):
    # the client counts whole chunks, of 10 MB by default
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 18)
    server.breaks = 1
    try:
        engine = load()
    except ConnectionError:
        # versions of the client differ in whether they go on by themselves
        engine = load()
    assert engine.info.n_layers == 2
    size = (server.folder / "model.safetensors").stat().st_size
    resumed = [r for _, path, r in server.log if path.endswith("model.safetensors") and r]
    starts = [int(r.removeprefix("bytes=").split("-")[0]) for r in resumed]
    assert any(0 < start < size for start in starts)


@pytest.mark.parametrize(
    ("name", "more", "error", "says"),
    [
        ("owner/gated", {}, PermissionError, "licence gate: accept it on .*hf auth login"),
        ("owner/none", {}, FileNotFoundError, "no model owner/none, or it is private"),
        ("owner/open", {"revision": "v9"}, FileNotFoundError, "no revision v9"),
        ("owner/open", {"offline": True}, FileNotFoundError, "not in the local cache"),
        ("owner/a..b", {}, ValueError, "is no hub name"),
    ],
)
def test_every_refusal_is_one_sentence_that_says_what_to_do(server, name, more, error, says):
    with pytest.raises(error, match=says) as caught:
        load(name, **more)
    assert "\n" not in str(caught.value)


def test_no_network_is_one_sentence(server):
    server.shutdown()
    server.server_close()
    with pytest.raises((FileNotFoundError, ConnectionError), match="owner/open") as caught:
        load()
    assert "\n" not in str(caught.value)
    assert hub.remote_shapes("owner/open", None) is None


def test_neither_folder_nor_name_is_a_sentence():
    with pytest.raises(FileNotFoundError, match="not a folder; .* or a hub name"):
        locate("no-such-thing")


def test_a_download_that_breaks_off_for_good_is_one_sentence(server, monkeypatch):
    def breaks(*_, **__):
        raise RuntimeError("peer closed connection\nwithout sending complete message body")

    load_model("owner/open", device="cpu", dtype="float64")
    monkeypatch.setattr("huggingface_hub.snapshot_download", breaks)
    says = "peer closed .* it resumes where it stopped"
    with pytest.raises(ConnectionError, match=says) as caught:
        load()
    assert "\n" not in str(caught.value)


COMMAND = ["-m", "flash_dllm", "hello", "--model", "owner/open", "--length", "8", "--block", "8",
           "--window", "8", "--strategy", "greedy"]  # fmt: skip


def test_the_command_line_shows_progress_and_then_answers_offline(tmp_path):
    """The library's own variables, in a process of its own: nothing is patched."""
    folder = write_layout(tmp_path / "served", "dream")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}

    def run(*more):
        return subprocess.run(
            [sys.executable, *COMMAND, *more], env=environment, capture_output=True, text=True,
            cwd=Path(__file__).parents[1], timeout=300,
        )  # fmt: skip

    with running(folder) as server:
        environment["HF_ENDPOINT"] = server.address
        first = run()
        asked = len(server.log)
        # the server would still answer; nobody asks it
        second = run("--offline")
        assert len(server.log) == asked
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0]
    shown = first.stderr
    # small files and the estimate, then the weights, each with how far they are
    places = [
        shown.index(words)
        for words in ("Fetching 4 files: 100%", "about 2.3 MB in float32", "fetching the weights",
                      "Fetching 5 files: 100%", "owner/open is loaded")
    ]  # fmt: skip
    assert places == sorted(places)


@pytest.fixture
def models(server, small_folder):
    """The models of a page."""
    return Runs(folder=str(small_folder), device="cpu").models


def test_the_pages_picker_downloads_says_every_stage_and_loads_again_after_unloading(
    server, models
):
    name = models.add("owner/open", "float32")
    assert models.facts(name).line == "owner/open, float32: not loaded; Run or Load loads it."
    said = []
    models.engine(name, said.append)
    assert said[0] == "asking the hub for owner/open"
    assert said[2] == "fetching the weights of owner/open"
    assert said[3] == "owner/open is loaded on cpu in float32, computed by torch"
    assert models.facts(name).line.startswith("owner/open is loaded: 0.59 million parameters")
    assert "dream-chat" in models.presets(name)
    assert "is unloaded" in models.unload(name)
    # its files are here: nothing of the weights is sent again
    seen = len(server.log)
    stages = list(models.stages(name))
    assert stages and name in models.engines
    again = [size for method, path, size in server.log[seen:]
             if method == "GET" and path.endswith("model.safetensors")]  # fmt: skip
    # what is read of the file is its head, for the estimate
    assert all(size is not None and not size.endswith("-") for size in again)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("owner/gated", "licence gate: accept it on .*hf auth login"),
        ("owner/none", "no model owner/none, or it is private"),
    ],
)
def test_the_pages_picker_tells_a_refusal_and_forgets_the_name(models, name, says):
    models.add(name)
    with pytest.raises(RunError, match=f"^The model could not be loaded: .*{says}") as caught:
        list(models.stages(name))
    assert "\n" not in str(caught.value)
    models.forget(name)
    assert models.names() == [EMBEDDED, TOY]


def test_the_pages_picker_goes_on_with_a_download_that_broke_off(server, models, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 18)
    server.breaks = 1
    name = models.add("owner/open", "float32")
    try:
        models.engine(name)
    except RunError as error:
        # versions of the client differ in whether they go on by themselves
        assert "it resumes where it stopped" in str(error)
        models.engine(name)
    assert any(r for _, path, r in server.log if path.endswith("model.safetensors") and r)
    assert name in models.engines


def test_the_harness_starts_from_the_preset_of_a_hub_name(server, monkeypatch):
    pytest.importorskip("lm_eval", reason="pip install -r requirements-harness.txt")
    from flash_dllm.evaluation.harness_model import FlashDLLM
    from flash_dllm.models import load_preset

    expected = load_preset(server.folder)
    model = FlashDLLM("owner/open", device="cpu", dtype="float64")
    assert expected and model._preset == expected
