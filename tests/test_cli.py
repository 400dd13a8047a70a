"""The command line in a fresh process, and its parts in this one."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from flash_dllm import cli
from flash_dllm.caches import CACHES
from flash_dllm.models.presets import PRESETS
from flash_dllm.peers import PEERS
from flash_dllm.strategies import STRATEGIES
from flash_dllm.trace_json import load

ROOT = Path(__file__).resolve().parents[1]


def call(capsys, *arguments):
    """(exit code, output, errors) of the command line in this process."""
    try:
        code = cli.main(list(arguments))
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def small(small_folder):
    return ["--model", str(small_folder), "--device", "cpu", "--dtype", "float64"]


def complaints(err):
    """Standard error without the lines that tell how loading goes."""
    return "".join(f"{line}\n" for line in err.splitlines() if not line.startswith("· "))


def test_list_as_json_names_the_shelves(capsys):
    code, out, _ = call(capsys, "--list", "--json")
    assert code == 0
    assert json.loads(out) == {
        "strategies": list(STRATEGIES),
        "caches": list(CACHES),
        "impls": ["torch", "triton"],
        "families": [
            "a2d_qwen3", "dream", "fast_dllm_qwen", "llada", "llada2_moe", "lladamoe", "sdar",
        ],
        "guides": ["llama", "qwen2", "qwen3"],
        "peers": {name: peer.described() for name, peer in PEERS.items()},
        "presets": {family: list(known) for family, known in PRESETS.items()},
    }


def test_a_listed_peer_shows_paper_year_and_knobs_as_set_takes_them(capsys):
    _, out, _ = call(capsys, "--list")
    lines = [line for line in out.splitlines() if line.startswith("peers: ")]
    assert len(lines) == len(PEERS)
    assert lines[list(PEERS).index("dkv_cache")] == (
        "peers: dkv_cache – dKV-Cache, decode (arXiv 2505.15781, 2025): strategy llada, cache dkv; "
        'steps=null remasking="low_confidence" ask="window" cfg_scale=0.0 measure="probability" '
        "top_p=1.0 top_k=null reload_steps=8"
    )
    for line, peer in zip(lines, PEERS.values(), strict=True):
        shown = dict(cli.key_and_value(word) for word in line.rpartition("; ")[2].split())
        assert shown == peer.knobs


def test_a_prompt_as_json_gives_one_object(capsys, small):
    code, out, _ = call(capsys, "How many?", *small, "--length", "12", "--json")
    facts = json.loads(out)
    assert code == 0
    assert set(facts) == {
        "text", "token_ids", "tokens", "steps", "passes", "verified", "seconds", "model",
        "prompt_format",
    }  # fmt: skip
    assert len(facts["token_ids"]) == 12
    assert facts["steps"] <= facts["passes"] <= 2 * facts["steps"]


def test_every_option_reaches_the_trace(capsys, small, tmp_path):
    file = tmp_path / "run.json"
    code, out, err = call(
        capsys, "How many?", *small, "--strategy", "flash_verify", "--cache", "flash",
        "--epsilon", "0.5", "--gamma", "0.25", "--window", "8", "--decide", "6", "--search", "4",
        "--verify-rows", "20", "--tracked", "5", "--order", "position", "--acceptance", "joint",
        "--refresh", "7", "--block", "8", "--temperature", "0.5", "--seed", "9", "--length", "16",
        "--trace", str(file),
    )  # fmt: skip
    assert code == 0, err
    trace = load(file)
    assert trace.strategy == {
        "name": "flash_verify", "epsilon": 0.5, "gamma": 0.25, "search_size": 4,
        "order": "position", "acceptance": "joint", "correct": False, "audit": False,
        "mask_views": "isolated",
    }  # fmt: skip
    assert trace.cache["track_size"] == 5 and trace.cache["verify_rows"] == 20
    assert trace.cache["refresh"] == 7
    assert trace.config["window_size"] == 8 and trace.config["decide_size"] == 6
    assert trace.config["temperature"] == 0.5 and trace.config["seed"] == 9
    assert f"{trace.tokens} tokens, {len(trace.steps)} steps, {trace.passes} passes" in out


def test_html_is_one_file_that_asks_for_nothing(capsys, small, tmp_path):
    file = tmp_path / "run.html"
    code, _, err = call(capsys, "How many?", *small, "--length", "4", "--html", str(file))
    assert code == 0, err
    page = file.read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page
    assert 'src="http' not in page


def test_raw_text_leaves_the_template_out(capsys, small, tmp_path):
    file = tmp_path / "run.json"
    call(capsys, "5 + 7 =", *small, "--length", "4", "--raw", "--trace", str(file))
    trace = load(file)
    assert "".join(trace.token_texts[t] for t in trace.prompt_token_ids) == "5 + 7 ="


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "prompt is needed"),
        ([""], "empty"),
        (["   "], "empty"),
        (["x", "--strategy", "magic"], "must be one of flash_verify"),
        (["x", "--cache", "magic"], "must be one of flash"),
        (["x", "--epsilon", "1.5"], "between"),
        (["x", "--gamma", "nan"], "number"),
        (["x", "--window", "0"], "between"),
        (["x", "--length", "0"], "between"),
        (["x", "--length", "abc"], "invalid int"),
        (["x", "--length", "2000"], "together exceed"),
        (["word " * 600], "together exceed"),
        (["x", "--block", "7", "--length", "16"], "multiple"),
        (["x", "--decide", "64", "--window", "8"], "must not exceed"),
        (["x", "--refresh", "sometimes"], "must be one of"),
        (["x", "--refresh", "-3"], "between"),
        (["x", "--order", "random"], "must be one of"),
        (["x", "--impl", "triton"], "impl='torch'"),
        (["x", "--impl", "magic"], "invalid choice"),
        (["x", "--device", "toaster"], "device must be"),
        (["x", "--model", "/does/not/exist"], "not a folder"),
        (["x", "--trace", "/does/not/exist/run.json"], "does not exist"),
        (["x", "--nonsense"], "unrecognized"),
        (["x", "--length", "0"], "--length must"),
        (["x", "--refresh", "³"], "must be one of"),
        (["x", "--device", "meta"], "device must be"),
        (["x", "--device", "xpu"], "device must be"),
        (["\udcff hi"], "not valid UTF-8"),
        (["x", "--trace", ""], "file name is empty"),
        (["x", "--trace", "/tmp"], "not a plain file"),
        (["x", "--html", "/tmp"], "not a plain file"),
        (["x", "--strategy", "confidence", "--gamma", "0.7"], "gamma has no effect"),
        (["x", "--cache", "none", "--refresh", "zzz"], "refresh has no effect"),
        (["x", "--list"], "takes no prompt"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None,
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    capsys, small_folder, monkeypatch, arguments, says
):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # it would let Triton run on the CPU
    if "--model" not in arguments:
        arguments = [*arguments, "--model", str(small_folder)]
    if "--device" not in arguments:
        arguments = [*arguments, "--device", "cpu"]
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says.lower() in err.lower()
    assert complaints(err).count("\n") == 1
    assert "Traceback" not in err


def test_an_error_in_the_middle_keeps_what_was_decoded(capsys, small, tmp_path, monkeypatch):
    whole = cli.decode_steps

    def broken(*arguments):
        steps = whole(*arguments)
        for _ in range(3):
            yield next(steps)
        raise RuntimeError("out of luck")

    monkeypatch.setattr(cli, "decode_steps", broken)
    file = tmp_path / "run.json"
    code, out, err = call(capsys, "How many?", *small, "--length", "12", "--trace", str(file))
    assert code == 2
    assert complaints(err) == "Out of luck.\n"
    assert "3 steps" in out and "stopped" in out
    assert len(load(file).steps) == 3


def test_ctrl_c_in_the_middle_keeps_what_was_decoded(capsys, small, tmp_path, monkeypatch):
    whole = cli.decode_steps

    def interrupted(*arguments):
        steps = whole(*arguments)
        yield next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "decode_steps", interrupted)
    file = tmp_path / "run.json"
    code, out, _ = call(capsys, "How many?", *small, "--length", "12", "--trace", str(file))
    assert code == 130
    assert "1 steps" in out
    assert load(file).status == "stopped"


def test_a_reader_that_goes_away_does_not_lose_the_trace(small, tmp_path):
    file = tmp_path / "run.json"
    command = [sys.executable, "-m", "flash_dllm", "How many?", *small, "--length", "4"]
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*command, "--trace", str(file)], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE,
        text=True, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert "Traceback" not in result.stderr
    assert load(file).status == "finished"


def test_a_narrow_terminal_gets_its_help():
    result = subprocess.run(
        [sys.executable, "-m", "flash_dllm", "--help"], cwd=ROOT, capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0
    assert b"--epsilon" in result.stdout


def test_the_module_runs_in_a_fresh_process():
    result = subprocess.run(
        [sys.executable, "-m", "flash_dllm", "--list"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    names = ", ".join(STRATEGIES)
    assert result.stdout.startswith(f"strategies: {names}\n")


def test_loading_tells_its_stages_on_standard_error(capsys, small):
    code, out, err = call(capsys, "How many?", *small, "--length", "4")
    assert code == 0
    # outside 2 × 4,096 × 48 + 48; 3 layers of 2 × 48² + 2 × 24 × 48 + 3 × 48 × 96 + 2 × 48;
    # keys and values of 3 layers × 2 heads × 12 in eight bytes
    assert "· small0: 0.46 million parameters, about 3.6 MB in float64, and 1.125 KiB of" in err
    assert "· small0 is loaded on cpu in float64, computed by torch\n" in err
    assert "million" not in out


def test_an_override_is_a_key_of_the_config(capsys, small):
    code, _, err = call(capsys, "How many?", *small, "--override", "alibi=true")
    assert code == 2 and "alibi=True is not supported" in err
    code, _, err = call(capsys, "How many?", *small, "--override", "alibi")
    assert code == 2 and "must be KEY=VALUE, got 'alibi'" in err


def test_a_hub_name_that_is_not_in_the_cache_is_a_sentence_offline(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    code, out, err = call(capsys, "How many?", "--model", "owner/none", "--offline")
    assert (code, out) == (2, "")
    assert complaints(err).startswith("The model owner/none is not in the local cache")
    assert complaints(err).count("\n") == 1


def test_every_report_names_the_prompt_format(capsys, small, tmp_path):
    file, turns = tmp_path / "run.json", tmp_path / "turns.json"
    earlier = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    turns.write_text(json.dumps({"messages": earlier}))
    common = [*small, "--length", "4", "--trace", str(file)]
    for options, wanted in (
        (["--raw"], "raw text"),
        ([], "chat template, 1 turn"),
        (["--system", "Be brief."], "chat template, system prompt, 1 turn"),
        (["--system", "Be brief.", "--chat", str(turns)], "chat template, system prompt, 2 turns"),
    ):
        _, out, _ = call(capsys, "3 + 3?", *common, *options)
        assert f"(small0, {wanted})" in out
        assert load(file).prompt_format == wanted
        _, out, _ = call(capsys, "3 + 3?", *common, *options, "--json")
        assert json.loads(out)["prompt_format"] == wanted
    trace = load(file)
    text = "".join(trace.token_texts[token] for token in trace.prompt_token_ids)
    assert "Be brief." in text and "2 + 2?" in text and text.count("3 + 3?") == 1


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("[1]", [], "must hold a JSON object"),
        ("{}", [], 'must hold {"messages"'),
        ('{"messages": [{"role": "user"}]}', [], 'must hold {"messages"'),
        ('{"messages": [{"role": "user", "content": "x"}]}', [], "user and assistant in turn"),
        ('{"messages": []}', ["--raw"], "leave --system and --chat out"),
        (None, [], "is no file"),
    ],
)
def test_wrong_turns_are_a_sentence(capsys, small, tmp_path, content, options, says):
    file = tmp_path / "turns.json"
    if content is not None:
        file.write_text(content)
    code, _, err = call(capsys, "x", *small, "--chat", str(file), *options)
    assert code == 2 and says in err
    assert complaints(err).count("\n") == 1


def test_a_preset_of_the_family_is_the_start(capsys, small, tmp_path):
    file = tmp_path / "run.json"
    preset = ["--preset", "llada-instruct-gsm8k", "--length", "16"]
    code, _, err = call(capsys, "How many?", *small, *preset, "--trace", str(file))
    assert code == 0, err
    trace = load(file)
    assert (trace.strategy["name"], trace.cache["name"]) == ("greedy", "none")
    assert (trace.config["block_length"], trace.config["gen_length"]) == (8, 16)
    code, _, err = call(capsys, "How many?", *small, "--preset", "none")
    assert code == 2 and "Preset must be one of flash, llada" in err


def test_many_prompts_are_one_json_object_a_line(capsys, small, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "2 + 2?"}\n\n{"prompt": "Hi"}\n')
    code, out, err = call(capsys, "--prompts", str(file), *small, "--length", "8")
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["prompt"] for line in lines] == ["2 + 2?", "Hi"]
    # each as if it were alone
    for line in lines:
        _, out, _ = call(capsys, line["prompt"], *small, "--length", "8", "--json")
        assert json.loads(out)["token_ids"] == line["token_ids"]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("", [], "holds no prompts"),
        ('{"prompt": "x"}\n[1]', [], "line 2 of"),
        ("x", [], 'must be {"prompt"'),
        ('{"prompt": " "}', [], "the prompt is empty"),
        ('{"prompt": "x"}', ["--batch", "0"], "batch_size must be"),
        ('{"prompt": "x"}', ["--trace", "run.json"], "--trace has no effect with --prompts"),
        ('{"prompt": "x"}', ["--out", "/no/such/folder/x"], "does not exist"),
        (None, [], "is no file"),
    ],
)
def test_wrong_prompt_files_are_a_sentence(capsys, small, tmp_path, content, options, says):
    file = tmp_path / "prompts.jsonl"
    if content is not None:
        file.write_text(content)
    code, out, err = call(capsys, "--prompts", str(file), *small, *options)
    assert (code, out) == (2, "")
    assert says.lower() in err.lower()
    assert complaints(err).count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x", "--batch", "3"], "--batch has no effect without --prompts"),
        (["x", "--tensor-parallel", "2"], "run torchrun"),
        (["x", "--prompts", "y"], "--prompts FILE instead of one"),
    ],
)
def test_options_of_many_prompts_and_devices_need_their_place(capsys, arguments, says, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    code, _, err = call(capsys, *arguments)
    assert code == 2 and says in err


def test_a_peer_is_a_preset_and_set_changes_any_knob(capsys, small, tmp_path):
    path = tmp_path / "run.json"
    code, _, problem = call(
        capsys, "How many?", *small, "--preset", "dkv_cache", "--set", "reload_steps=3",
        "--set", "block_length=6", "--length", "12", "--trace", str(path),
    )  # fmt: skip
    assert code == 0, problem
    header = json.loads(path.read_text())
    assert header["strategy"]["name"] == "llada"
    assert header["cache"] == {"name": "dkv", "reload_steps": 3}
    assert (header["config"]["gen_length"], header["config"]["block_length"]) == (12, 6)


def test_a_set_knob_that_nothing_has_is_refused(capsys, small):
    code, _, problem = call(capsys, "x", *small, "--preset", "fast_dllm_dual", "--set", "tau=0.9")
    assert code == 2
    assert "Tau has no effect with strategy confidence and cache dual" in problem


def test_a_missing_package_is_named_with_what_installs_it(capsys):
    with pytest.raises(ModuleNotFoundError) as caught:
        import_module("no_such_package.part")
    cli.complain(caught.value)
    assert capsys.readouterr().err == (
        "The package no_such_package is not installed; run pip install -r requirements.txt.\n"
    )
    # who names another command is left alone
    cli.complain(ImportError("Ray is not installed; run pip install -r requirements-ray.txt"))
    assert capsys.readouterr().err.endswith("requirements-ray.txt.\n")
