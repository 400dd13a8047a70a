"""The LLaDA-8B benchmark at a tiny shape on the CPU: its loop, its rows, its document."""

import csv
import json
import statistics

import pytest

from benchmarks import gpu_smoke, host_share, kernel_table, llada_8b, performance_table
from benchmarks.acceptance_schedule import DRAFTED, VERIFIED, Schedule
from benchmarks.timing import Spread
from flash_dllm.trace_json import load
from tests.torchrun import torchrun


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """(rows, summary, folder) of one short run."""
    out = tmp_path_factory.mktemp("bench")
    code = llada_8b.main(
        ["--shape", "tiny", "--device", "cpu", "--impl", "torch", "--batches", "1", "2",
         "--repeats", "5", "--steps", "10", "--out", str(out),
         "--sections", "ceilings", "passes", "steps", "admission", "eager", "plain", "varlen"]
    )  # fmt: skip
    assert code == 0
    with (out / "llada_8b.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((out / "summary.json").read_text())["cpu"], out


def of(rows, section, name, batch):
    found = [r for r in rows if (r["section"], r["name"], r["batch"]) == (section, name, batch)]
    assert len(found) == 1
    return found[0]


def test_the_paper_accepts_2_8_and_2_9_tokens_a_step():
    assert Schedule(DRAFTED, VERIFIED, 16).tokens_per_step == pytest.approx(5.7)
    assert Schedule(DRAFTED, (), 16).tokens_per_step == pytest.approx(2.8)


@pytest.mark.parametrize("batch", ["1", "2"])
def test_the_loop_accepts_what_the_schedule_says(results, batch):
    rows, _, _ = results
    assert of(rows, "steps", "step_official", batch)["note"].startswith("5.70 tokens a step")
    assert of(rows, "steps", "step_confidence", batch)["note"].startswith("2.80 tokens a step")
    # ten steps are timed, and the speed is theirs
    step = of(rows, "steps", "step_official", batch)
    assert step["repeats"] == "10"


@pytest.mark.parametrize(("is_verify", "passes", "tokens"), [(True, 2, 5.7), (False, 1, 2.8)])
def test_the_hosts_share_is_measured_on_the_loops_own_steps(is_verify, passes, tokens):
    found = host_share.run(3, is_verify, wanted=16)
    assert len(found.waited) == len(found.recorded) == 16 and len(found.steps) == 3 * 20
    assert all(len(step.passes) == passes for _, step in found.steps)
    mine = [len(step.accepted) for number, step in found.steps if number == 1]
    assert sum(mine) / len(mine) == pytest.approx(tokens)
    assert all(time > 0 for time in found.waited)


def test_the_host_works_while_the_device_computes_the_other_group():
    one, two = (
        host_share.run(4, True, wanted=16, device_ms=(40.0, 24.0), groups=groups)
        for groups in (1, 2)
    )
    assert settled(two.steps) == settled(one.steps)
    # every step of one group leaves the device idle twice; of two it needs a host that is late by
    # a pass of a group, 12 ms or more
    assert min(one.idle) > 0.0
    assert statistics.median(two.idle) < 0.1 * statistics.median(one.idle)
    assert statistics.median(one.walls) > 64.0


def settled(steps):
    """What each sequence decided; the mass is drawn for a row of the pass, whoever stands in it."""
    return sorted((number, step.index, step.window, step.accepted) for number, step in steps)


def test_steps_in_a_forced_number_of_groups_have_rows_and_key_figures_of_their_own(tmp_path):
    code = llada_8b.main(
        ["--shape", "tiny", "--device", "cpu", "--impl", "torch", "--batches", "3", "--groups",
         "2", "--steps", "10", "--out", str(tmp_path), "--sections", "steps"]
    )  # fmt: skip
    assert code == 0
    rows = performance_table.read(tmp_path / "llada_8b.csv")
    names = {name for section, name, _, _ in rows}
    assert {"step_official_in_2", "step_official_outside_passes_in_2"} <= names
    assert all(name.endswith("_in_2") for name in names)
    assert rows["steps", "step_official_in_2", "torch", 3]["note"].startswith("5.70 tokens a step")
    step, outside = (
        float(rows["steps", f"step_official{part}_in_2", "torch", 3]["median"])
        for part in ("", "_outside_passes")
    )
    assert 0.0 < outside < step
    summary = json.loads((tmp_path / "summary.json").read_text())["cpu"]
    assert all(name.endswith("_in_2") for name in summary)


def test_passes_have_the_rows_that_their_names_say_at_full_size(results):
    rows, _, _ = results
    # tiny: window 16, tracked 16 or 20, D 3; two views of 4 or 13 searched, the rest tracked
    assert of(rows, "passes", "draft_128", "2")["rows"] == "64"
    assert of(rows, "passes", "draft_144", "2")["rows"] == "72"
    assert of(rows, "passes", "verify_32", "2")["rows"] == "32"
    assert of(rows, "passes", "verify_128", "2")["rows"] == "64"
    assert of(rows, "passes", "verify_32", "2")["logit_rows"] == "8"
    assert of(rows, "passes", "verify_128", "2")["logit_rows"] == "26"


def test_the_summary_holds_the_key_figures(results):
    _, summary, _ = results
    assert {"draft_144_b1_ms", "draft_128_b1_ms", "verify_32_b1_ms", "step_official_b1_ms",
            "tok_s_b1", "copy_tb_s", "matmul_tflop_s"} <= set(summary)  # fmt: skip


def test_the_fastest_of_ours_stands_beside_the_torch_twin():
    def row(variant, us, rows="32"):
        return {"operation": "add", "variant": variant, "rows": rows, "us": us, "floor_us": "1.0"}

    rows = [row("torch", "9"), row("a", "4"), row("b", "2.5"), row("b", "123.4", "64"),
            row("torch top-5", "20"), row("a top-5", "8")]  # fmt: skip
    assert kernel_table.operations(rows) == [
        ("add", "32", "2.5", "b", "9", "1", "40 %"),
        ("add", "64", "123", "b", "–", "1", "1 %"),
        ("add and five alternatives", "32", "8", "a", "20", "1", "12 %"),
    ]
    layers = {"pass": "draft", "batch": "1", "what": "mass", "us_per_layer": "10",
              "floor_ms": "0.16", "layers": "32"}  # fmt: skip
    assert kernel_table.attention([layers]) == [("draft", "1", "mass", "10", "5", "50 %")]


def test_what_stands_in_the_document_is_what_the_rows_say(tmp_path):
    written = performance_table.DOCUMENT.read_text("utf-8")
    again = tmp_path / "performance.md"
    again.write_text(written, "utf-8")
    assert performance_table.main(["--document", str(again)]) == 0
    assert again.read_text("utf-8") == written


def test_the_document_is_written_between_its_marks(results, tmp_path):
    _, _, out = results
    document = tmp_path / "performance.md"
    marks = f"{performance_table.BEGIN}\nold\n{performance_table.END}"
    document.write_text(f"before\n{marks}\nafter\n")
    arguments = ["--results", str(out / "llada_8b.csv"), "--document", str(document)]
    assert performance_table.main([*arguments, "--impl", "torch"]) == 0
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "| draft, 144 rows | 1 |" in text and "old" not in text
    document.write_text("no marks")
    assert performance_table.main([*arguments, "--impl", "torch"]) == 2


def test_fp8_has_rows_and_key_figures_of_its_own(tmp_path):
    bf16 = ["--shape", "tiny", "--device", "cpu", "--impl", "torch", "--batches", "1",
            "--repeats", "5", "--out", str(tmp_path), "--sections", "passes"]  # fmt: skip
    assert llada_8b.main(bf16) == llada_8b.main([*bf16, "--fp8"]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())["cpu"]
    assert {"draft_128_b1_ms", "fp8_draft_128_b1_ms"} <= set(summary)
    rows = performance_table.read(tmp_path / "llada_8b.csv")
    own, eight = (rows["passes", "draft_128", kind, 1] for kind in ("torch", "torch fp8"))
    shown = performance_table.render(rows, "torch").split("### Products in fp8 (W8A8)")[1]
    cells = [performance_table.figure(row) for row in (eight, own)]
    assert f"| draft, 128 rows | 1 | {cells[0]} | {cells[1]} |" in shown


def test_devices_that_share_the_model_have_rows_of_their_own(tmp_path):
    options = ["--shape", "tiny", "--device", "cpu", "--impl", "torch", "--batches", "1",
               "--repeats", "5", "--steps", "10", "--out", str(tmp_path),
               "--sections", "passes", "steps"]  # fmt: skip
    assert llada_8b.main(options) == 0
    done = torchrun(2, "benchmarks/llada_8b.py", *options)
    assert done.returncode == 0, done.stderr
    # the second process measured the same and wrote nothing
    assert done.stdout.count("draft_128_wall") == 1
    rows = performance_table.read(tmp_path / "llada_8b.csv")
    one, two = (rows["passes", "draft_128", kind, 1] for kind in ("torch", "torch, 2 devices"))
    shown = performance_table.render(rows, "torch").split("### Two GPUs that share the model")[1]
    cells = [performance_table.figure(row) for row in (two, one)]
    assert f"| draft, 128 rows | 1 | {cells[0]} | {cells[1]} |" in shown
    assert "| verify, tokens/s | 1 |" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())["cpu"]
    assert {"tok_s_b1", "tp2_tok_s_b1"} <= set(summary)


def test_a_section_that_fails_is_reported_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fail(bench):
        raise RuntimeError("out of order")

    monkeypatch.setitem(llada_8b.RUN, "passes", fail)
    code = llada_8b.main(
        ["--shape", "tiny", "--device", "cpu", "--impl", "torch", "--out", str(tmp_path),
         "--sections", "passes", "ceilings"]
    )  # fmt: skip
    assert code == 1
    assert "failed: passes" in capsys.readouterr().out
    assert "matmul" in (tmp_path / "llada_8b.csv").read_text()


def test_the_explorers_path_saves_a_trace_that_is_read_back(tmp_path):
    arguments = ["--impl", "torch", "--device", "cpu", "--presets", "1", "--out", str(tmp_path)]
    assert gpu_smoke.main(arguments) == 0
    assert load(tmp_path / "gpu-torch-word-1.json").status == "finished"


def test_the_spread_of_one_to_ten():
    # inclusive quintiles of 1…10: 1 + 0.2 · 9 and 1 + 0.8 · 9
    spread = Spread.of([float(n) for n in range(1, 11)])
    assert (spread.median, spread.p20, spread.p80) == pytest.approx((5.5, 2.8, 8.2))
