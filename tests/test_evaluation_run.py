"""The evaluation command end to end on a small random checkpoint: records, resuming, counting."""

from __future__ import annotations

import errno
import json

import pytest

from flash_dllm import evaluate
from flash_dllm.caches.none import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.evaluation import run
from flash_dllm.evaluation.clock import Clock, ClockedSession
from flash_dllm.evaluation.counting import fast_dllm_tokens
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.place import place
from flash_dllm.evaluation.run import Plan, measure
from flash_dllm.evaluation.tasks import ASSETS, load_task
from flash_dllm.query import Prediction, Query
from flash_dllm.settings import Settings
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.trace import DecodeTrace, ModelInfo, Proposal, StepTrace, StopReason, Verdict
from flash_dllm.trace_json import load

KEYS = {
    "task", "items", "accuracy", "accuracy_ci95", "tokens_per_step", "tokens_per_pass",
    "tokens_per_second", "settings", "versions",
}  # fmt: skip
SETTINGS = Settings(Confidence(0.05), NoCache(), DecodeConfig(16, alternatives=0))


def plan(count: int = 3, **changes) -> Plan:
    return Plan("word", load_task("word", count), SETTINGS, **{"batch_size": 2, **changes})


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_and_summary_are_what_single_decoding_gives(engine, tmp_path):
    summary = measure(engine, plan(traces=True), tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert summary.keys() == KEYS
    traces = [
        decode(engine, engine.encode(item.prompt), SETTINGS.strategy, NoCache(), SETTINGS.config)
        for item in load_task("word", 3)
    ]
    records = lines(tmp_path / "items.jsonl")
    for record, trace, item in zip(records, traces, load_task("word", 3), strict=True):
        assert record["id"] == item.specification and record["prompt"] == item.prompt
        assert (record["text"], record["tokens"]) == (trace.text, trace.tokens)
        assert (record["steps"], record["passes"]) == (len(trace.steps), trace.passes)
    tokens = sum(trace.tokens for trace in traces)
    steps = sum(len(trace.steps) for trace in traces)
    assert summary["tokens_per_step"] == pytest.approx(tokens / steps)
    details = json.loads((tmp_path / "details.json").read_text())
    assert details["tokens_per_second"] == pytest.approx(tokens / details["seconds"])
    assert details["seconds"] == pytest.approx(
        details["prefill_seconds"] + details["decode_seconds"]
    )
    kept = load(tmp_path / "traces" / "00001.json")
    assert kept.steps[0].accepted == traces[1].steps[0].accepted


def test_a_stopped_run_goes_on_and_decodes_nothing_twice(engine, tmp_path):
    whole = measure(engine, plan(), tmp_path / "whole")

    def stop_after_one() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(engine, plan(), tmp_path / "parts", on_item=stop_after_one)
    journal = tmp_path / "parts" / "answers.jsonl"
    assert len(lines(journal)) == 2
    # killed in the middle of a line
    with journal.open("a") as file:
        file.write('{"number": 1, "te')
    decoded: list[int] = []
    found: list[tuple[int, int]] = []
    parts = measure(
        engine,
        plan(),
        tmp_path / "parts",
        lambda done, total: found.append((done, total)),
        lambda: decoded.append(1),
    )
    assert (found, len(decoded)) == ([(1, 3)], 2)
    assert sorted(line["number"] for line in lines(journal)[1:]) == [0, 1, 2]
    for key in ("items", "accuracy", "tokens_per_step", "tokens_per_pass", "settings"):
        assert parts[key] == whole[key]
    assert json.loads((tmp_path / "parts" / "details.json").read_text())["parts"] == 2
    measure(engine, plan(), tmp_path / "parts", on_item=lambda: decoded.append(1))
    assert len(decoded) == 2


def test_a_run_that_goes_on_elsewhere_says_so(engine, tmp_path, monkeypatch, caplog):
    def stop_after_one() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(engine, plan(), tmp_path, on_item=stop_after_one)
    here = place("cpu")
    elsewhere = {**here, "commit": "0ther", "machine": "m2"}
    monkeypatch.setattr(run, "place", lambda device: elsewhere)
    measure(engine, plan(), tmp_path)
    assert "begun at another place (commit " in caplog.text
    assert f"machine {here['machine']} there, m2 here): tokens a second are" in caplog.text
    assert json.loads((tmp_path / "details.json").read_text())["places"] == [here, elsewhere]


@pytest.mark.parametrize(
    "change",
    [
        {"number": None}, {"number": "1"}, {"number": 2}, {"number": -1}, {"tokens": None},
        {"tokens": 1.5}, {"text": 5}, {"part": "x"}, {"elapsed": None}, {"clock": {}}, None,
        b"\xff",
    ],
)  # fmt: skip
def test_a_line_that_is_no_answer_is_named_and_nothing_is_lost(change, engine, tmp_path):
    whole = measure(engine, plan(2), tmp_path)
    journal = tmp_path / "answers.jsonl"
    kept = journal.read_text().splitlines()
    damaged = json.dumps(json.loads(kept[2]) | change if isinstance(change, dict) else {}).encode()
    if isinstance(change, bytes):
        damaged = kept[2].replace(', "', f', "{chr(0)}').encode().replace(b"\0", change)
    journal.write_bytes("\n".join(kept[:2]).encode() + b"\n" + damaged + b"\n")
    with pytest.raises(ValueError, match="line 3 of .* is damaged; delete that line"):
        measure(engine, plan(2), tmp_path)
    journal.write_text("\n".join(kept[:2]) + "\n")
    assert measure(engine, plan(2), tmp_path)["accuracy"] == whole["accuracy"]


def test_a_folder_of_another_run_is_refused(engine, tmp_path):
    measure(engine, plan(1), tmp_path)
    with pytest.raises(ValueError, match=r"batch_size is 2 there and 3 here"):
        measure(engine, plan(1, batch_size=3), tmp_path)


def test_traces_that_an_earlier_run_did_not_keep_are_not_passed_over(engine, tmp_path):
    measure(engine, plan(2), tmp_path / "bare")
    with pytest.raises(ValueError, match="2 of the 2 answers in .* have no trace"):
        measure(engine, plan(2, traces=True), tmp_path / "bare")
    measure(engine, plan(2, traces=True), tmp_path / "kept")
    assert measure(engine, plan(2, traces=True), tmp_path / "kept")["items"] == 2


def test_passes_are_timed_once_and_admissions_apart():
    answers: list[list[float]] = [[0.5, 0.5], [0.25, 0.25], [0.125, 2.0]]

    class Session:
        handles = iter(range(9))

        def admit(self, length, seed):
            return next(self.handles)

        def ask(self, queries):
            found = [Prediction([], [], [], seconds=s) for s in answers.pop(0)]
            return lambda: found

    clock = Clock()
    session = ClockedSession(Session(), clock)
    first, second = session.admit(9, 0), session.admit(9, 0)
    query = Query("full", 9)
    session.ask([(first, query), (second, query)])()
    session.ask([(first, query), (second, query)])()
    third = session.admit(9, 0)
    session.ask([(first, query), (third, query)])()
    # 0.5 admits two at once, 2.0 admits the third beside a pass of 0.125
    assert clock == Clock(prefill_seconds=2.5, decode_seconds=0.375, launches=4)


TEXTS = {1: "Q", 2: "uestion", 3: ": a", 4: " b", 7: "<end>", 8: "<turn>", 9: "<mask>"}


def trace_of(ids: list[int], prompt_length: int = 3) -> DecodeTrace:
    """A run whose one step wrote these ids."""
    proposals = tuple(
        Proposal(prompt_length + n, token, 0.9, Verdict.CONFIDENT) for n, token in enumerate(ids)
    )
    step = StepTrace(1, (), proposals, StopReason.NO_SEARCH)
    info = ModelInfo("m", 10, 1, 9, (7, 8), "f", "torch", "cpu", "float32")
    config = {"gen_length": 6}
    return DecodeTrace("", (1,) * prompt_length, info, {}, {}, config, TEXTS, (step,))


def fast(trace: DecodeTrace, **more) -> int:
    # a tokenizer that makes one token of every word
    return fast_dllm_tokens(trace, str.split, TEXTS.__getitem__, **more)


def test_fast_dllms_convention_counts_by_hand():
    # "a b" is 2 words after ": a b" → [":", "a", "b"]; the turn token counts, end tokens do not
    assert fast(trace_of([3, 4, 8, 7, 7, 7])) == 3 + 1
    # what stands behind the first end token counts as well
    assert fast(trace_of([3, 7, 4, 7, 7, 7])) == 2 + 1
    assert trace_of([3, 7, 4, 7, 7, 7]).tokens == 1
    # undecided positions behind the end are end tokens
    assert fast(trace_of([3, 4, 7])) == 3


def test_fast_dllms_convention_cuts_at_stop_strings_and_counts_humanevals_prompt():
    trace = trace_of([4, 1, 2, 3, 8, 7])
    assert fast(trace, stop_strings=("Question:",)) == 1
    # " bQuestion: a" is two words, then the turn token
    assert fast(trace) == 2 + 1
    assert fast(trace, stop_strings=("Question:",), counts_prompt=True) == 4


def test_the_command_runs_a_public_set_and_prints_one_line(small_folder, tmp_path, capsys):
    data = tmp_path / "test.jsonl"
    data.write_text(json.dumps({"question": "1 + 1?", "answer": "#### 2"}) + "\n")
    out = tmp_path / "out"
    arguments = ["--task", "gsm8k", "--data", str(data), "--model", str(small_folder)]
    arguments += ["--output", str(out), "--length", "8", "--strategy", "confidence"]
    arguments += ["--device", "cpu", "--dtype", "float32", "--seed", "7", "--batch", "2"]
    assert evaluate.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("gsm8k: ") and "at batch 2" in printed
    summary = json.loads((out / "summary.json").read_text())
    assert summary.keys() == KEYS
    assert summary["settings"]["config"]["seed"] == 7
    assert summary["settings"]["strategy"]["name"] == "confidence"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--task", "poem"], "task must be one of word"),
        (["--task", "word", "--limit", "0"], "limit must be"),
        (["--task", "word", "--limit", "9999"], "held_out --count 9999"),
        (["--task", "gsm8k", "--data", "/nowhere"], "give the file of gsm8k"),
        (["--task", "word", "--data", "/nowhere"], "give the folder of word.jsonl with --tasks"),
        (["--task", "code", "--workers", "0"], "--workers must be a whole number from 1 on, got 0"),
        (["--task", "word", "--batch", "0"], "--batch must be a whole number from 1 on, got 0"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, sentence, tmp_path, capsys):
    assert evaluate.main([*arguments, "--output", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert sentence.lower() in error.lower() and error.count("\n") == 1


def test_an_output_that_can_be_no_folder_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    for name, sentence in (("file", "--output names a folder"), ("file/o", "can't be made (Not")):
        assert evaluate.main(["--task", "word", "--output", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1


def test_an_empty_output_is_not_the_working_directory(capsys):
    with pytest.raises(SystemExit):
        evaluate.main(["--task", "word", "--output", ""])
    assert capsys.readouterr().err == "Argument --output: is empty; name a folder; see --help.\n"


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b"{", b"\xff", b'{"tests": [], "x": 1}', b'{"tests": 1}', b""]
)
def test_a_line_of_a_task_set_that_is_no_item_is_named(line, tmp_path):
    whole = (ASSETS / "word.jsonl").read_bytes().splitlines()[0]
    (tmp_path / "word.jsonl").write_bytes(whole + b"\n" + line + b"\n")
    assert len(load_task("word", 1, tmp_path)) == 1
    with pytest.raises(ValueError, match="line 2 of .*word.jsonl is no item"):
        load_task("word", None, tmp_path)


def test_a_full_disk_is_one_sentence(small_folder, tmp_path, monkeypatch, capsys):
    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run, "write_text", full)
    arguments = ["--task", "word", "--limit", "1", "--model", str(small_folder), "--length", "8"]
    arguments += ["--device", "cpu", "--output", str(tmp_path / "o")]
    assert evaluate.main(arguments) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert sentence == (
        f"There is no room left for {tmp_path / 'o'}; make room, and the same command goes on."
    )


def test_code_is_refused_before_decoding(engine, tmp_path, monkeypatch):
    from flash_dllm.evaluation import sandbox

    monkeypatch.setattr(sandbox, "fence_problem", lambda: "bubblewrap is missing")
    code = Plan("code", [Item("code", "f", "s", "p", "a", tests=("assert 1",))], SETTINGS)
    with pytest.raises(RuntimeError, match="--allow-unsandboxed"):
        measure(engine, code, tmp_path)
    assert list(tmp_path.iterdir()) == []
