"""Hub names, through huggingface_hub's own client against a hub on this machine."""

import pytest

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
