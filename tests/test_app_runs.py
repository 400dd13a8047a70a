"""Running, stopping, keeping: everything behind the page but the page."""

import json
import shutil
from dataclasses import replace

import pytest

from app import presets
from app.control_values import values_of
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError, Store, name_of
from flash_dllm.trace_json import save, to_json
from tests.app_traces import SlowEngine, rich, toy


@pytest.fixture
def runs() -> Runs:
    made = Runs()
    made._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0)
    return made


def toy_values(runs: Runs) -> dict:
    return {**runs.defaults(TOY), **presets.TOY_SETTINGS}


def values(runs: Runs, **changes) -> dict:
    start = {"gen_length": 32, "window_size": 8, "track_size": 4}
    return {**runs.defaults(TOY), **start, **changes}


def test_the_toy_example_runs_without_a_model():
    runs = Runs()
    trace = runs.decode(runs.prepare("^", TOY, toy_values(runs)))
    assert (trace.text, len(trace.steps), trace.passes) == ("AABB", 3, 5)
    assert trace.steps == toy().steps


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_the_toy_example_answers_at_every_threshold(epsilon, gamma):
    runs = Runs()
    changed = {**toy_values(runs), "epsilon": epsilon, "gamma": gamma}
    assert len(runs.decode(runs.prepare("^", TOY, changed)).text) == 4


def test_updates_carry_each_step_once_and_the_trace_last(runs):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    updates = list(runs.run(number))
    assert updates[0].header is not None
    trace = updates[-1].trace
    assert trace is not None and trace.status == "finished"
    sent = [step for update in updates for step in update.steps]
    assert sent == list(trace.steps)
    assert updates[-1].status.startswith("finished: ")
    assert runs.store.trace(name_of(trace)) == trace


def test_a_stopped_run_keeps_what_it_decoded(runs):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs, gen_length=128)))
    updates = runs.run(number)
    next(updates)
    next(updates)
    assert runs.stop(number)
    last = list(updates)[-1]
    assert last.trace is not None and last.trace.status == "stopped"
    assert last.status.startswith(f"stopped at step {len(last.trace.steps)}")
    assert runs.store.trace(name_of(last.trace)).steps == last.trace.steps
    assert not runs.stop(number)


def test_a_dropped_run_keeps_what_it_decoded_too(runs):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs, gen_length=128)))
    updates = runs.run(number)
    next(updates)
    next(updates)
    updates.close()
    assert len(runs.store) == 1


def test_a_run_that_was_stopped_while_it_waited_does_nothing(runs):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    runs.stop(number)
    (only,) = runs.run(number)
    assert only.status == "stopped before it began" and only.trace is None
    assert len(runs.store) == 0


def test_waiting_runs_are_counted(runs):
    first, second = (runs.enqueue(runs.prepare("a", EMBEDDED, values(runs))) for _ in range(2))
    going, waiting = runs.run(first), runs.run(second)
    assert runs.ahead() == 0
    next(going)
    assert runs.ahead() == 1
    assert next(waiting).status.startswith("queued, 1 before you")
    assert runs.ahead() == 2
    going.close(), waiting.close()
    assert runs.ahead() == 0


@pytest.mark.parametrize("place", ["launch", "answer"])
def test_an_error_in_the_middle_keeps_the_steps_before_it(runs, place):
    class Breaking(SlowEngine):
        def open(self, request):
            session = super().open(request)
            ask, count = session.ask, iter(range(100))

            def breaking(queries):
                is_broken = next(count) == 6
                if is_broken and place == "launch":
                    raise RuntimeError("out of memory")
                answers = ask(queries)

                def late():
                    if is_broken:
                        raise RuntimeError("out of memory")
                    return answers()

                return late

            session.ask = breaking
            return session

    runs._engines[EMBEDDED] = Breaking(seed=2, end_share=0)
    last = list(runs._run(runs.prepare("hello", EMBEDDED, values(runs))))[-1]
    assert last.trace is not None and len(last.trace.steps) >= 2
    assert last.error == f"The run ended in step {len(last.trace.steps) + 1}: out of memory"
    assert len(runs.store) == 1


@pytest.mark.parametrize(
    ("prompt", "model", "changes", "sentence"),
    [
        ("", EMBEDDED, {}, "The prompt is empty; type a question or choose an example."),
        (" \n", EMBEDDED, {}, "The prompt is empty; type a question or choose an example."),
        ("a" * 4001, EMBEDDED, {}, "The prompt has 4001 characters; at most 4000 are allowed"),
        ("a", "gpt", {}, "The model must be one of language model, toy example, got 'gpt'."),
        ("a", EMBEDDED, {"strategy": "magic"}, "Strategy must be one of flash_verify"),
        ("a", EMBEDDED, {"gen_length": 0}, "Gen length must lie between 1 and 512 on this"),
        ("a", EMBEDDED, {"window_size": 0}, "Window size must lie between 1 and 1024, got 0."),
        ("hi", TOY, {"gen_length": 4, "window_size": 2}, "The toy example answers from a table"),
    ],
)
def test_bad_input_is_one_sentence(runs, prompt, model, changes, sentence):
    with pytest.raises(RunError) as error:
        runs.prepare(prompt, model, values(runs, **changes))
    assert str(error.value).startswith(sentence)


def test_a_prompt_that_does_not_fit_the_model_is_one_sentence(runs):
    runs._engines[EMBEDDED] = SlowEngine(seed=2, max_length=20)
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    with pytest.raises(RunError, match=r"Prompt \(3 tokens\) and gen length \(32\) .* exceed"):
        list(runs.run(number))


def test_a_missing_model_folder_is_one_sentence(tmp_path):
    runs = Runs(folder=str(tmp_path / "nowhere"))
    with pytest.raises(RunError, match="The model could not be loaded: .*nowhere"):
        runs.engine(EMBEDDED)


def test_the_store_is_bounded_by_count_and_by_bytes():
    few = Store(max_traces=2)
    names = [few.keep(replace(toy(), prompt=str(n))) for n in range(3)]
    with pytest.raises(RunError, match="no longer kept"):
        few.trace(names[0])
    assert few.trace(names[2]).prompt == "2"
    small = Store(max_bytes=len(to_json(toy())) + 10)
    first, second = (small.keep(replace(toy(), prompt=str(n))) for n in range(2))
    with pytest.raises(RunError):
        small.trace(first)
    assert small.trace(second).prompt == "1"


def test_a_trace_survives_saving_and_loading(runs):
    name = runs.store.keep(rich())
    assert runs.store.load_file(runs.store.file_of(name)) == name
    assert runs.store.trace(name) == rich()


@pytest.mark.parametrize("text", ["", "{}", "[1, 2", '{"format": "other"}', "\x00\x01"])
def test_a_foreign_file_is_one_sentence(runs, tmp_path, text):
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises(RunError, match=r"^This file holds no trace that can be shown: .+\.$"):
        runs.store.load_file(path)


def test_a_trace_without_steps_is_refused(runs, tmp_path):
    save(toy().with_steps((), "stopped", {}), tmp_path / "empty.json")
    with pytest.raises(RunError, match="This trace has no steps"):
        runs.store.load_file(tmp_path / "empty.json")


def test_the_values_of_a_trace_make_the_same_settings_again(runs):
    job = runs.prepare("^", TOY, {**toy_values(runs), **values_of(toy())})
    assert runs.decode(job) == toy()


def test_presets_cover_all_four_kinds_and_the_toy_example():
    keys = [preset.key for preset in presets.presets()]
    assert keys == [
        *("word-1", "word-2", "algebra-1", "algebra-2"),
        *("code-1", "code-2", "story-1", "story-2", "toy"),
    ]
    assert all(preset.prompt.strip() for preset in presets.presets())


def test_bundled_traces_can_be_read(runs):
    for path in sorted(presets.TRACES.glob("*.json")):
        name = runs.store.load_file(path)
        assert json.loads(path.read_text())["prompt"] == runs.store.trace(name).prompt


def test_runs_need_no_gradio_and_load_no_torch_before_the_first_run():
    import subprocess
    import sys

    code = "import sys, app.runs; print(sorted({'gradio', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_checkpoint_folder_is_loaded_at_the_first_run_and_special_tokens_stay_text(small_folder):
    runs = Runs(folder=str(small_folder), device="cpu")
    assert not runs.is_loaded(EMBEDDED)
    job = runs.prepare("<|mdm_mask|> What is 7 + 5?<|endoftext|>", EMBEDDED, values(runs))
    updates = list(runs._run(job))
    assert updates[0].status == "loading model"
    trace = updates[-1].trace
    assert trace is not None and trace.status == "finished"
    assert trace.model.mask_token_id not in trace.prompt_token_ids
    assert runs.is_loaded(EMBEDDED)


def test_a_peer_that_the_kernels_cannot_follow_runs_with_torch_and_says_so(small_folder):
    """As on a GPU, where the page's models are loaded with the kernels."""
    runs = Runs(folder=str(small_folder), device="cpu", impl="triton")
    job = runs.prepare("hello", EMBEDDED, values(runs, strategy="greedy", cache="elastic"))
    updates = list(runs._run(job))
    trace = updates[-1].trace
    assert trace is not None and trace.status == "finished"
    assert trace.model.impl == "torch" and runs.engine(EMBEDDED).info.impl == "triton"
    assert all(update.header.model.impl == "torch" for update in updates if update.header)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_damaged_weight_file_is_one_sentence(small_folder, tmp_path, damage):
    folder = tmp_path / "damaged"
    shutil.copytree(small_folder, folder)
    (weights,) = folder.glob("*.safetensors")
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:1000])
    runs = Runs(folder=str(folder), device="cpu")
    with pytest.raises(RunError, match=r"^The model could not be loaded: .*safetensors"):
        runs.engine(EMBEDDED)


def test_a_page_that_lost_an_update_gets_everything_so_far(runs):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    assert runs.so_far(number) is None
    seen = []
    for update in runs.run(number):
        seen += update.steps
        if update.trace is None and seen:
            assert runs.so_far(number).steps == tuple(seen)
    assert runs.so_far(number) is None


def test_a_job_that_nobody_came_for_is_forgotten(runs, monkeypatch):
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    monkeypatch.setattr("app.runs.FORGET_SECONDS", -1.0)
    runs.enqueue(runs.prepare("hello", EMBEDDED, values(runs)))
    with pytest.raises(RunError, match="no longer known"):
        next(runs.run(number))


def test_the_cost_of_a_run_is_learned_from_the_latest_one_of_its_kind(runs):
    kind = EMBEDDED, "flash_verify", "flash"
    assert runs.paces.estimate(*kind, 32) == "The first run of this kind shows what it costs."
    trace = runs.decode(runs.prepare("hello", EMBEDDED, values(runs)))
    line = runs.paces.estimate(*kind, 32)
    assert line.startswith(f"Run takes about {trace.passes} passes, ")
    assert line.endswith(" s on this machine.")
    assert runs.paces.estimate(*kind, 64).startswith(f"Run takes about {2 * trace.passes} passes, ")
    runs.paces.guess(EMBEDDED, trace)  # a recorded run does not replace one that was timed here
    assert runs.paces.estimate(*kind, 32) == line
    for blank in (None, 0, 5000):
        assert runs.paces.estimate(*kind, blank).startswith("The first run")
