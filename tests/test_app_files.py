"""Files in and out of the server when something is wrong: a full disk, damage, two visitors."""

import html
import json
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest

from app.opening import opening
from app.runs import Runs
from app.store import MOST_PASSING, RunError, Store
from app.sweeps import Sweeps
from app.tabs.traces import MAKERS
from app.tabs.watch_events import STATUS, WatchEvents
from flash_dllm.trace_json import load, save, to_json
from tests.app_traces import rich, toy

ROOT = Path(__file__).resolve().parents[1]

# a real limit of the system: no file may grow beyond 64 bytes, so that every write breaks off
FULL = """
import json, resource, sys
from app.opening import opening
from app.runs import Runs
from app.store import RunError
from app.tabs.traces import MAKERS
from app.tabs.watch_events import WatchEvents
from tests.app_traces import toy
runs = Runs()
name = runs.store.keep(toy())
resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
found = {}
for kind, (writer, _) in MAKERS.items():
    try:
        runs.store.file(name, "." + kind, lambda path: writer(toy(), path))
    except RunError as error:
        found[kind] = str(error)
try:
    runs.store.file_of(name)
except RunError as error:
    found["json"] = str(error)
shown = WatchEvents(runs, ["epsilon"]).shown(name, "finished: 4 tokens")
left = [path.name for path in runs.store.folder.rglob("*") if path.is_file()]
print(json.dumps({"found": found, "status": json.loads(shown[3]), "file": shown[4], "left": left,
                  "view": json.loads(shown[0])["n"]}))
"""


def test_a_full_disk_is_one_sentence_and_the_run_is_shown_all_the_same():
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    told = json.loads(done.stdout or "{}")
    assert told, done.stderr
    sentence = (
        "The file can't be saved: file too large; free some room on the server, then try again."
    )
    assert told["found"] == dict.fromkeys(["html", "png", "gif", "zip", "json"], sentence)
    assert told["status"][0] == f"finished: 4 tokens. {sentence}"
    assert told["file"] is None and told["view"] == 4
    assert told["left"] == [], "half a file was left"


def test_no_space_left_on_the_device_is_said_without_a_path(monkeypatch):
    store = Store()
    name = store.keep(toy())

    def full(file):
        raise OSError(28, "No space left on device", str(store.folder))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError) as error:
        store.file_of(name)
    assert str(error.value) == (
        "The file can't be saved: no space left on device; free some room on the server, then "
        "try again."
    )
    monkeypatch.undo()
    assert load(store.file_of(name)) == toy()


def damaged(how: str) -> bytes:
    text = to_json(toy()).encode()
    return {
        "cut off": text[: len(text) // 2],
        "no text": bytes([255, 254]) + text.decode().encode("utf-16-le"),
        "a number changed": text.replace(b'"gen_length":4', b'"gen_length":5', 1),
        "a token changed": text.replace(b'"draft_token":1', b'"draft_token":2', 1),
        "compressed": b"\x1f\x8b\x08\x00" + text,
        "nothing": b"",
    }[how]


@pytest.mark.parametrize(
    "how", ["cut off", "no text", "a number changed", "a token changed", "compressed", "nothing"]
)
def test_a_damaged_file_is_one_sentence_and_nothing_is_kept(tmp_path, how):
    path = tmp_path / "run.json"
    path.write_bytes(damaged(how))
    assert path.read_bytes() != to_json(toy()).encode()
    runs = Runs()
    with pytest.raises(gr.Error) as error:
        list(WatchEvents(runs, []).load(str(path)))
    message = error.value.message
    assert message.startswith("This file holds no trace that can be shown: ")
    assert message.endswith(".") and "\n" not in message and len(message) < 300
    assert str(tmp_path) not in message and len(runs.store) == 0


def test_reading_a_file_is_told_before_and_after(tmp_path):
    save(toy(), tmp_path / "run.json")
    events = WatchEvents(Runs(), ["epsilon", "gamma"])
    first, last = events.load(str(tmp_path / "run.json"))
    assert json.loads(first[STATUS])[0] == "reading the file …"
    assert json.loads(last[STATUS])[0].endswith(": 3 steps.") and len(first) == len(last)
    assert [part for k, part in enumerate(first) if k != STATUS] == [gr.skip()] * (len(first) - 1)
    (tmp_path / "run.json").write_text("{")
    left = []
    with pytest.raises(gr.Error) as error:
        left.extend(part[STATUS] for part in events.load(str(tmp_path / "run.json")))
    assert json.loads(left[-1])[0] == html.unescape(error.value.message)


def test_a_damaged_bundled_run_does_not_keep_the_page_from_opening(tmp_path, monkeypatch):
    path = tmp_path / "word-1.json"
    path.write_bytes(damaged("cut off"))
    monkeypatch.setattr("app.presets.TRACES", tmp_path)
    runs = Runs()
    assert runs.store.trace(opening(runs)).text == "AABB"


@pytest.mark.parametrize("kind", [*MAKERS, "json"])
def test_two_visitors_saving_the_same_run_at_once_both_get_a_whole_file(kind):
    store = Store()
    trace = rich()
    name = store.keep(trace)
    both = threading.Barrier(2)
    found: list[bytes] = []

    def visitor():
        def write(path):
            both.wait(20)  # both are writing now
            writer = MAKERS[kind][0] if kind != "json" else save
            writer(trace, path)

        found.append(store.file(name, f".{kind}", write).read_bytes())

    threads = [threading.Thread(target=visitor) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    first, second = found
    if kind != "zip":  # a ZIP holds the time of day
        assert first == second
    alone = store.folder / f"alone.{kind}"
    (MAKERS[kind][0] if kind != "json" else save)(trace, alone)
    assert len(first) == len(second) == alone.stat().st_size
    assert [path.name for path in (store.folder / name).iterdir()] == [f"flash-dllm-{name}.{kind}"]


def test_two_visitors_at_two_steps_get_a_picture_each():
    from app.tabs.traces import Traces

    runs = Runs()
    name = runs.store.keep(rich())
    tab = Traces.__new__(Traces)
    tab.runs = runs
    first, second = (tab._file("png", name, step) for step in (1, 2))
    assert first.name == f"flash-dllm-{name}-step1.png" and first != second
    assert first.read_bytes() != second.read_bytes()
    table = tab._file("zip", name, 2)
    assert "passes.csv" in zipfile.ZipFile(table).namelist()


def test_files_go_with_their_run():
    store = Store(max_traces=1)
    name = store.keep(toy())
    file = Path(store.file_of(name))
    picture = store.file(name, ".txt", lambda path: path.write_text("x"))
    assert file.is_file() and picture.is_file()
    store.keep(replace(toy(), prompt="another"))
    assert not file.exists() and not picture.exists()
    with pytest.raises(RunError, match="no longer kept"):
        store.file_of(name)


def test_files_of_studies_are_kept_for_a_while_and_go_with_the_page():
    store = Runs().store
    paths = [store.passing("study.csv") for _ in range(MOST_PASSING + 3)]
    assert len(set(paths)) == len(paths) and all(path.name == "study.csv" for path in paths)
    there = [path.parent.is_dir() for path in paths]
    assert there == [False] * 3 + [True] * MOST_PASSING
    assert paths[-1].is_relative_to(store.folder)


@pytest.mark.parametrize("kind", ["csv", "yaml"])
def test_a_study_that_can_not_be_written_is_one_sentence(tmp_path, kind):
    sweeps = Sweeps(Runs())
    with pytest.raises(RunError, match="^The file can't be saved: no such file or directory; "):
        sweeps.write(sweeps.bundled()[0], tmp_path / "gone" / f"study.{kind}")
