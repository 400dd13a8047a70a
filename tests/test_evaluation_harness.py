"""lm-evaluation-harness runs the model on local tasks; likelihoods against a sum over all masks."""

from __future__ import annotations

import itertools
import json
import logging
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flash_dllm import harness
from flash_dllm.evaluation.likelihood import log_likelihood, stratified_masks
from flash_dllm.harness import with_defaults
from tests.random_model import MASK, ROOT, plain_logits

lm_eval = pytest.importorskip("lm_eval", reason="pip install -r requirements-harness.txt")


def test_likelihood_is_the_mean_over_sizes_and_sets_of_masks(engine, small_config, small_tensors):
    prefix, target = [7, 8, 9], [11, 12, 13]
    sums = []
    for size in (1, 2, 3):
        values = []
        for masked in itertools.combinations(range(3), size):
            ids = prefix + [MASK if n in masked else target[n] for n in range(3)]
            logs = plain_logits(small_config, small_tensors, ids).log_softmax(-1)
            values.append(3 / size * sum(logs[3 + n, target[n]].item() for n in masked))
        sums.append(sum(values) / len(values))
    exact = sum(sums) / 3
    draws = log_likelihood(engine, prefix, target, draws=1536, batch_size=48)
    # the spread of a single draw is below 8 nats, so of the mean below 0.21; four times that
    assert draws == pytest.approx(exact, abs=0.9)
    # all masked at once has one set only: no chance left
    one = log_likelihood(engine, prefix, target[:1], draws=4, batch_size=2)
    ids = [*prefix, MASK]
    logs = plain_logits(small_config, small_tensors, ids).log_softmax(-1)
    assert one == pytest.approx(logs[3, target[0]].item(), abs=1e-4)


def test_mask_sizes_of_a_batch_cover_all_sizes_evenly():
    generator = torch.Generator().manual_seed(3)
    masks = stratified_masks(8, 16, generator)
    sizes = [len(mask) for mask in masks]
    assert {size: sizes.count(size) for size in sizes} == dict.fromkeys(range(1, 9), 2)
    assert all(len(set(mask)) == len(mask) and max(mask) < 8 for mask in masks)


@pytest.mark.parametrize(("target", "draws"), [([], 4), ([1], 3), ([1] * 300, 4)])
def test_impossible_likelihoods_are_refused(engine, target, draws):
    with pytest.raises(ValueError):
        log_likelihood(engine, [1], target, draws=draws, batch_size=2)


def test_options_of_the_harness_are_kept():
    assert with_defaults(["--model", "hf", "--include_path", "x"]) == [
        "run", "--model", "hf", "--include_path", "x",
    ]  # fmt: skip
    kept = with_defaults(["--device", "cpu", "--tasks", "gsm8k"])
    assert kept[:3] == ["run", "--model", "flash_dllm"] and kept.count("--device") == 1
    assert with_defaults(["--model", "flash_dllm"])[1:3] == ["--device", "auto"]


HUMANEVAL = {
    "task_id": "HumanEval/0", "prompt": "def g(x):\n    'double'\n", "entry_point": "g",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}  # fmt: skip
GENERATE = """
task: local_generate
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: generate_until
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 16}
metric_list: [{metric: exact_match}]
"""
CHOOSE = """
task: local_choose
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{question}}"
doc_to_choice: [" 1", " 2"]
doc_to_target: 1
metric_list: [{metric: acc}]
"""


def test_the_harness_runs_generation_choices_and_humaneval_with_both_scores(
    small_folder, tmp_path
):
    data = tmp_path / "data.jsonl"
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(2)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    human = tmp_path / "HumanEval.jsonl"
    human.write_text(json.dumps(HUMANEVAL) + "\n")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for name, text in (("generate", GENERATE), ("choose", CHOOSE)):
        (tasks / f"{name}.yaml").write_text(text.replace("DATA", str(data)))
    ours = ROOT / "flash_dllm" / "evaluation" / "harness_tasks"
    for path in ours.iterdir():
        if path.is_file():
            (tasks / path.name).write_bytes(path.read_bytes())
    arguments = [
        "--tasks", "local_generate,local_choose,humaneval_flash", "--include_path", str(tasks),
        "--model_args",
        f"pretrained={small_folder},strategy=confidence,cache=none,gen_length=16,mc_draws=4,"
        "mc_batch=2,dtype=float32",
        "--batch_size", "2", "--device", "cpu", "--apply_chat_template", "--log_samples",
        "--output_path", str(tmp_path / "out"),
        "--metadata", json.dumps({"data": str(human), "allow_unsandboxed": True}),
    ]  # fmt: skip
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "flash_dllm.harness", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    (path,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(Path(path).read_text())["results"]
    assert 0 <= found["local_generate"]["exact_match,none"] <= 1
    assert found["local_choose"]["acc,none"] in (0, 0.5, 1)
    # a random model writes no function
    assert found["humaneval_flash"]["pass_at_1_raw,none"] == 0
    assert found["humaneval_flash"]["pass_at_1_post_processed,none"] == 0
    (samples,) = (tmp_path / "out").rglob("samples_local_generate_*.jsonl")
    sample = json.loads(Path(samples).read_text().splitlines()[0])
    assert sample["arguments"]["gen_args_0"]["arg_0"].startswith("<|startoftext|>")
    (samples,) = (tmp_path / "out").rglob("samples_local_choose_*.jsonl")
    for line in Path(samples).read_text().splitlines():
        for value, is_greedy in json.loads(line)["filtered_resps"]:
            assert -math.inf < float(value) < 0 and is_greedy in (False, "False")


def test_both_humaneval_scores_of_a_fenced_and_of_a_bare_answer():
    from flash_dllm.evaluation.harness_tasks.humaneval_flash import process_results

    doc = {**HUMANEVAL, "allow_unsandboxed": True}
    fenced = "```python\ndef g(x):\n    return 2 * x\n```\nDone."
    assert process_results(doc, [fenced]) == {
        "pass_at_1_raw": 0.0,
        "pass_at_1_post_processed": 1.0,
    }
    bare = "    return 2 * x\n\nprint(g(1"
    assert process_results(doc, [bare])["pass_at_1_raw"] == 1.0


def test_stop_strings_templates_and_greedy_checks(small_folder, engine):
    from lm_eval.api.instance import Instance

    from flash_dllm.evaluation.harness_model import FlashDLLM

    model = FlashDLLM(
        str(small_folder), batch_size=2, device="cpu", dtype="float64", check_greedy=True,
        mc_draws=2, mc_batch=2, strategy="greedy", cache="none", gen_length=8, block_length=8,
    )  # fmt: skip
    chat = model.apply_chat_template([{"role": "user", "content": "1 + 1?"}])
    assert model._encode(chat) == engine.encode("1 + 1?")

    def ask(context, until):
        arguments = (context, {"until": until, "max_gen_toks": 99})
        return Instance("generate_until", {}, arguments, 0)

    (whole,) = model.generate_until([ask(chat, [])], disable_tqdm=True)
    assert whole
    stop = whole[len(whole) // 2 :]
    again = model.generate_until([ask(chat, [stop]), ask(chat, ["\0"])], disable_tqdm=True)
    assert again == [whole[: whole.find(stop)], whole]
    with pytest.raises(ValueError, match="auto is not supported"):
        FlashDLLM(str(small_folder), batch_size="auto")
    with pytest.raises(ValueError, match="gamma has no effect"):
        FlashDLLM(str(small_folder), strategy="greedy", gamma=0.5)


def test_a_cache_that_chooses_by_layer_runs_on_torch_and_the_harness_says_so(
    small_folder, monkeypatch, caplog
):
    from lm_eval.api.instance import Instance

    from flash_dllm.evaluation import harness_model
    from flash_dllm.models import load_model

    # as on a GPU, where "auto" takes the kernels
    loaded = load_model(small_folder, device="cpu", dtype="float32", impl="triton")
    monkeypatch.setattr(harness_model, "load_model", lambda *how: loaded)
    lengths = {"gen_length": 8, "block_length": 8}
    model, plain, named = (
        harness_model.FlashDLLM(str(small_folder), **lengths, **more)
        for more in ({"preset": "dllm_cache"}, {"preset": "fast_dllm"},
                     {"preset": "dllm_cache", "impl": "triton"})
    )  # fmt: skip
    assert [m.get_model_info()["flash_dllm"]["impl"] for m in (model, plain, named)] == [
        "torch", "triton", "triton",
    ]  # fmt: skip
    assert [record.getMessage() for record in caplog.records] == [
        f"cache dllm chooses its rows layer by layer: {loaded.info.name} is computed by torch, "
        "since the kernels can't follow"
    ]
    ask = Instance("generate_until", {}, ("Two and two", {"until": []}), 0)
    assert isinstance(model.generate_until([ask], disable_tqdm=True)[0], str)
    with pytest.raises(ValueError, match="needs impl='torch' on one device"):
        named.generate_until([ask], disable_tqdm=True)


def test_a_set_that_can_not_be_downloaded_is_one_sentence_with_what_to_do(monkeypatch, capsys):
    def unreachable():
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub (LocalEntryNotFoundError)")

    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", unreachable)
    monkeypatch.setattr(sys, "argv", sys.argv)
    assert harness.main(["--tasks", "gsm8k"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Couldn't reach 'openai/gsm8k' on the Hub (LocalEntry")
    assert "run it once with a network" in error and error.count("\n") == 1
