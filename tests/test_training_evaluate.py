"""Evaluation end to end on a small random checkpoint; statistics and the preset rule by hand."""

from __future__ import annotations

import json
import lzma
from concurrent.futures import Future

import pytest

from flash_dllm.caches.none import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.evaluation.measurement import (
    Decoded,
    Run,
    Spread,
    by_domain,
    decode_items,
    encode_items,
    fitting,
    read_items,
)
from flash_dllm.evaluation.statistics import mcnemar_p, paired_difference, wilson_interval
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.strategies.flash_verify import FlashVerify
from flash_dllm.trace import Proposal, StepTrace, StopReason, Verdict
from tests.random_model import ROOT
from training import evaluate, sweep_preset
from training.generators.item import Item

TASKS = ROOT / "assets" / "tasks"


# statistics


def test_wilson_interval_of_eight_in_ten():
    # centre (0.8 + z²/20) / (1 + z²/10) = 0.7167, half-width 0.2266, z = 1.959964
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)


def test_wilson_interval_of_no_success_starts_at_zero():
    # upper end z² / (n + z²) = 3.8415 / 13.8415
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.27753), abs=5e-6)


def test_wilson_interval_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one item"):
        wilson_interval(0, 0)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    # two-sided binomial tails: 2 · 1/32, 2 · (1 + 10) / 1024, and 1 where both agree
    [(0, 5, 0.0625), (1, 9, 22 / 1024), (9, 1, 22 / 1024), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_exact_mcnemar(only_first, only_second, p):
    assert mcnemar_p(only_first, only_second) == pytest.approx(p)


def pairs(both: int, only_first: int, only_second: int, neither: int):
    first = [True] * (both + only_first) + [False] * (only_second + neither)
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return first, second


def test_paired_difference_is_newcombes_example():
    # by hand: Wilson (0.8654, 0.9890) and (0.6259, 0.8570), φ = -24 / sqrt(48·2·38·12) = -0.1147,
    # below sqrt(0.0946² + 2·0.1147·0.0946·0.0970 + 0.0970²) = 0.1431, above likewise 0.1404
    result = paired_difference(*pairs(36, 12, 2, 0))
    assert result.difference == pytest.approx(0.2)
    assert (result.low, result.high) == pytest.approx((0.0569, 0.3404), abs=1e-4)
    assert (result.only_first, result.only_second) == (12, 2)
    # 2 · (1 + 14 + 91) / 2^14
    assert result.p == pytest.approx(212 / 16384)


def test_positive_correlation_is_corrected_for_continuity():
    # ad - bc = 20·20 - 5·5 = 375, minus n/2 = 25, over sqrt(25^4) = 625: φ = 0.56; both shares 0.5
    # with Wilson half-width 0.13356: half-width 0.13356 · sqrt(2 - 2 · 0.56) = 0.12529
    result = paired_difference(*pairs(20, 5, 5, 20))
    assert (result.low, result.high) == pytest.approx((-0.12529, 0.12529), abs=1e-5)


def test_equal_answers_still_leave_a_width():
    result = paired_difference(*pairs(10, 0, 0, 0))
    assert result.low == pytest.approx(-0.27753, abs=5e-6)
    assert result.high == pytest.approx(0.27753, abs=5e-6)
    assert result.p == 1.0


def test_pairs_of_unequal_length_are_an_error():
    with pytest.raises(ValueError, match="1 and 2"):
        paired_difference([True], [True, False])


# decoding and counting


def test_decoding_a_batch_counts_what_each_trace_counts(engine):
    items = [item for domain in ("word", "story") for item in read_items(TASKS, domain, 2)]
    settings = Settings(
        FlashVerify(gamma=0.5, search_size=8),
        NoCache(),
        DecodeConfig(16, window_size=16, alternatives=0),
    )
    prompts = encode_items(engine, items)
    run = decode_items(engine, items, prompts, settings, batch_size=3)
    for item, ids, decoded in zip(items, prompts, run.decoded, strict=True):
        trace = decode(engine, ids, settings.strategy, settings.cache, settings.config)
        assert decoded == Decoded(
            item.domain,
            item.specification,
            trace.text,
            trace.tokens,
            len(trace.steps),
            trace.passes,
            trace.rows,
            trace.verified,
            trace.token_ids,
        )


def proposal(confidence: float, verdict: Verdict, rank: int | None) -> Proposal:
    return Proposal(1, 1, confidence, verdict, rank)


def test_spread_counts_drafts_searches_and_acceptances():
    spread = Spread()
    proposals = (
        proposal(0.9, Verdict.CONFIDENT, 0),
        proposal(0.8, Verdict.VERIFIED, 1),
        proposal(0.3, Verdict.MISMATCH, 2),
        proposal(0.29, Verdict.AFTER_STOP, 3),
        proposal(0.1, Verdict.WAITING, None),
    )
    spread.add(StepTrace(1, (), proposals, StopReason.MISMATCH))
    assert spread == Spread(5, 2, 3, 1, 2, 1)
    assert spread.shares() == pytest.approx(
        {"unsure": 2 / 5, "accepted": 1 / 3, "unsure_accepted": 1 / 2}
    )


def decoded(domain: str, tokens: int, steps: int, rows: int = 100) -> Decoded:
    return Decoded(domain, "s", "", tokens, steps, 2 * steps, rows, 0)


def test_summaries_are_ratios_of_sums():
    items = [decoded("word", 10, 2), decoded("word", 20, 4), decoded("code", 6, 6)]
    word, code, everything = by_domain(items, [True, False, True])
    assert (word.name, word.items, word.correct, word.accuracy) == ("word", 2, 1, 0.5)
    assert (word.tokens_per_step, word.tokens_per_pass) == (5.0, 2.5)
    assert (code.tokens_per_step, everything.tokens_per_step) == (1.0, 3.0)
    assert everything.rows_per_token == pytest.approx(300 / 36)


def test_items_too_long_for_the_model_are_left_out(engine):
    items = read_items(TASKS, "word", 2)
    prompts = [[1] * (engine.max_length - 64), [1] * (engine.max_length - 63)]
    assert fitting(engine, items, prompts, DecodeConfig(64)) == (items[:1], prompts[:1])


# the command


def run_evaluate(small_folder, tmp_path, *more: str):
    output = tmp_path / "out.jsonl"
    arguments = evaluate.argument_parser().parse_args(
        ["--model", str(small_folder), "--tasks", str(TASKS), "--output", str(output)]
        + ["--limit", "3", "--length", "32", "--device", "cpu", "--dtype", "float32", *more]
    )
    summary = evaluate.evaluate(arguments)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert json.loads((tmp_path / "out.summary.json").read_text()) == json.loads(
        json.dumps(summary)
    )
    return lines, summary


def test_evaluate_writes_a_line_per_item_and_a_summary(small_folder, tmp_path, capsys):
    lines, summary = run_evaluate(small_folder, tmp_path, "--cache", "flash", "--search", "4")
    assert [line["domain"] for line in lines] == sorted(["word", "algebra", "code", "story"] * 3)
    kinds = {
        "domain": str, "specification": str, "text": str, "correct": bool, "tokens": int,
        "steps": int, "passes": int, "rows": int, "verified": int,
    }  # fmt: skip
    for line in lines:
        assert {key: type(value) for key, value in line.items()} == kinds
        assert 0 <= line["verified"] <= line["tokens"] <= 32
        assert line["steps"] <= line["passes"] <= line["rows"]
    assert [row["name"] for row in summary["domains"]] == [
        "algebra", "code", "story", "word", "all",
    ]  # fmt: skip
    assert summary["strategy"]["search_size"] == 4
    assert summary["cache"]["name"] == "flash"
    assert len(summary["model"]["fingerprint"]) == 12
    assert {"python", "torch", "scipy"} <= summary["versions"].keys()
    assert "95 % interval" in capsys.readouterr().out


def test_evaluate_reads_the_public_sets_and_scores_them_as_word_problems(small_folder, tmp_path):
    data = tmp_path / "data"
    (data / "gsm8k").mkdir(parents=True)
    (data / "svamp").mkdir()
    with lzma.open(data / "gsm8k" / "EVAL_ONLY_test.jsonl.xz", "wt") as file:
        file.write(json.dumps({"question": "Bo’s  tea?", "answer": "1+1\n#### 1,024"}) + "\n")
    with lzma.open(data / "svamp" / "SVAMP.json.xz", "wt") as file:
        json.dump([{"Body": "Bo has 3 cups", "Question": "How many?", "Answer": 3.0}], file)
    gsm8k, svamp = evaluate.load_items(["gsm8k", "svamp"], TASKS, data, None)
    assert (gsm8k.prompt, gsm8k.gold) == ("Bo's tea?", "1024")
    assert (svamp.prompt, svamp.gold) == ("Bo has 3 cups. How many?", "3")
    run = Run((decoded("gsm8k", 1, 1), decoded("svamp", 1, 1)), Spread(), 0.0)
    assert evaluate.score([gsm8k, svamp], run) == [False, False]
    lines, _ = run_evaluate(
        small_folder, tmp_path, "--domains", "gsm8k,svamp", "--data", str(data), "--strategy",
        "confidence",
    )  # fmt: skip
    assert [line["domain"] for line in lines] == ["gsm8k", "svamp"]


@pytest.mark.parametrize(
    ("domains", "problem"), [("word,poems", "poems"), ("gsm8k", "needs --data")]
)
def test_unknown_domain_or_missing_data_is_named(domains, problem):
    with pytest.raises(ValueError, match=problem):
        evaluate.load_items(domains.split(","), TASKS, None, None)


# the sweep


def result(correct: list[bool], tokens: int, rows: int = 100, kind: str = "grid", gamma=0.5):
    strategy = FlashVerify(gamma=gamma) if kind == "grid" else Confidence(0.9)
    settings = Settings(strategy, NoCache(), sweep_preset.layout_config("blocks"))
    run = Run(tuple(decoded("word", tokens, 1, rows) for _ in correct), Spread(), 0.0)
    return sweep_preset.Result(sweep_preset.Case(kind, "blocks", settings), run, tuple(correct))


RIGHT = [True] * 380 + [False] * 20


def test_preset_is_the_fastest_setting_that_holds_the_accuracy():
    reference = result(RIGHT, 2, kind="baseline")
    # 40 of 400 lost: faster, and significantly worse
    worse = result([False] * 40 + RIGHT[40:], 9)
    slow, good = result(RIGHT, 3), result(RIGHT, 4)
    measured = [r.against(reference) for r in (worse, slow, good)]
    assert [r.is_admitted for r in measured] == [False, True, True]
    assert sweep_preset.choose_preset(measured, reference) is measured[2]


def test_ties_go_to_fewer_rows():
    reference = result(RIGHT, 2, kind="baseline")
    measured = [result(RIGHT, 4, rows).against(reference) for rows in (90, 80)]
    assert sweep_preset.choose_preset(measured, reference) is measured[1]


def test_reference_is_chosen_where_no_setting_holds():
    reference = result(RIGHT, 2, kind="baseline")
    assert sweep_preset.choose_preset([reference.against(reference)], reference) is reference


def test_too_few_items_admit_nothing():
    # 4 of 4 equal: the interval still reaches down to -49 points
    assert not result([True] * 4, 2).against(result([True] * 4, 2)).is_admitted


def test_grid_has_every_combination_once():
    cases = sweep_preset.Grid().cases("blocks")
    assert len({case.label for case in cases}) == len(cases) == 2 * 4 * 2 * 2 * 2 * 2


def test_preset_builds_the_settings_again():
    grid = sweep_preset.Grid().cases("suppress")[:7]
    for case in (*grid, *sweep_preset.baselines(Confidence(0.9))):
        built = from_preset(sweep_preset.preset_of(case), {"alternatives": 0})
        assert built.strategy == case.settings.strategy
        assert built.config == case.settings.config
        assert built.cache == case.settings.cache


def test_each_different_answer_is_scored_once(monkeypatch):
    asked: list[str] = []

    def counting(items, texts, workers, allow_unsandboxed):
        asked.extend(texts)
        return [text == item.gold for item, text in zip(items, texts, strict=True)]

    monkeypatch.setattr(sweep_preset, "are_correct", counting)
    scorer = sweep_preset.Scorer([Item("word", "f", str(n), "", "", "1") for n in range(2)], 1)
    assert scorer(["1", "2"]) == (True, False)
    assert scorer(["1", "1"]) == (True, True)
    assert asked == ["1", "2", "1"]


def test_no_case_is_started_once_the_budget_is_spent():
    started: list[sweep_preset.Case] = []

    def submit(case):
        started.append(case)
        future: Future = Future()
        future.set_result(None)
        return future

    cases = sweep_preset.Grid().cases("blocks")[:5]
    found = sweep_preset.runs(cases, submit, 1, lambda: len(started) < 2)
    assert [case for case, _ in found] == started == cases[:2]


def test_sweep_writes_its_tables_and_a_preset(small_folder, tmp_path, monkeypatch):
    arguments = sweep_preset.argument_parser().parse_args(
        ["--model", str(small_folder), "--tasks", str(TASKS), "--output", str(tmp_path)]
        + ["--limit", "1", "--device", "cpu", "--dtype", "float32", "--budget-seconds", "0"]
        + ["--check-domains", ""]
    )
    report = sweep_preset.sweep(arguments)
    assert (report["grid"]["planned"], report["grid"]["run"]) == (128, 0)
    assert {row["label"] for row in report["results"]} == {
        "confidence ε 0.9 none blocks",
        "confidence ε 0.9 none suppress",
    }
    assert json.loads((tmp_path / "preset.json").read_text()) == report["preset"]
    assert (tmp_path / "sweep.csv").read_text().count("\n") == 3
    assert "| confidence ε 0.9 none blocks |" in (tmp_path / "sweep.md").read_text()
