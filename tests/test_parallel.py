"""Several devices, as gloo processes of this CPU: the same tokens as on one, in fp32."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flash_dllm.models import load_model
from flash_dllm.models.parallel import start_ranks
from tests.official_layouts import write_layout
from tests.parallel_worker import runs
from tests.torchrun import torchrun

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("parallel")
    return {name: write_layout(place / name, name) for name in ("llada", "illada", "dream")}


def test_devices_that_share_a_model_decode_as_one(folders):
    # two groups of two: tensor and data parallel together
    names = [str(folder) for folder in folders.values()]
    done = torchrun(4, "-m", "tests.parallel_worker", "2", *names)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    results = json.loads(line.removeprefix("RESULT"))
    for name, folder in folders.items():
        one = load_model(folder, device="cpu", dtype="float32")
        alone = json.loads(json.dumps(runs(one)))
        shared = results[str(folder)]
        assert shared["runs"] == alone
        # each device really holds half: 2 of 4 heads, half of the rows of q, k and v
        assert shared["heads"] == 2
        whole = one.model.weights.blocks[0].qkv.shape
        assert shared["qkv"] == [whole[0] // 2, whole[1]], name
        assert shared["device"] == "2 x cpu"
    assert results["gathered"] == [0, 1]


def test_many_prompts_are_divided_among_processes(folders, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    texts = ["2 + 2 =", "a b c", "Sam has 5 apples.", "x", "one two three"]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    options = ["--model", str(folders["llada"]), "--prompts", str(prompts), "--device", "cpu",
               "--dtype", "float32", "--length", "8", "--batch", "2", "--raw"]  # fmt: skip
    alone, shared = tmp_path / "alone.jsonl", tmp_path / "shared.jsonl"
    command = [sys.executable, "-m", "flash_dllm", *options, "--out", str(alone)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    done = torchrun(2, "-m", "flash_dllm", *options, "--out", str(shared))
    assert done.returncode == 0, done.stderr
    assert shared.read_text() == alone.read_text()
    reports = [json.loads(line) for line in alone.read_text().splitlines()]
    assert [report["prompt"] for report in reports] == texts
    assert [report["index"] for report in reports] == [0, 1, 2, 3, 4]
    assert all(len(report["token_ids"]) == 8 for report in reports)
    assert {report["prompt_format"] for report in reports} == {"raw text"}


def test_one_prompt_on_two_devices_is_printed_once(folders):
    options = ["--model", str(folders["dream"]), "--device", "cpu", "--dtype", "float32",
               "--length", "8", "--raw", "--json"]  # fmt: skip
    done = torchrun(2, "-m", "flash_dllm", "How many?", *options, "--tensor-parallel", "2")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1
    command = [sys.executable, "-m", "flash_dllm", "How many?", *options]
    alone = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert json.loads(lines[0])["token_ids"] == json.loads(alone.stdout)["token_ids"]
    assert "each of 2 devices" in done.stderr


def test_a_model_that_can_not_be_divided_is_a_sentence(folders, tmp_path):
    folder = write_layout(tmp_path / "lladamoe", "lladamoe")
    options = ["--model", str(folder), "--device", "cpu", "--tensor-parallel", "2"]
    done = torchrun(2, "-m", "flash_dllm", "x", *options)
    assert done.returncode != 0
    assert done.stderr.count("has experts, which tensor_parallel can't share") == 1
    done = torchrun(2, "-m", "flash_dllm", "x", "--device", "cpu")
    assert "One prompt can't be divided" in done.stderr


def test_without_torchrun_several_devices_are_refused(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(RuntimeError, match="one process each; run torchrun"):
        start_ranks(2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ValueError, match="must divide the 4 processes of torchrun, got 3"):
        start_ranks(3)
    with pytest.raises(ValueError, match="device must be auto, cpu or cuda"):
        start_ranks(2, "mps")
