"""The journal of a run: whole records only, whatever happens while one is written."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from flash_dllm.evaluation.journal import Journal
from tests.random_model import ROOT

LOOP = """
import resource, signal, sys
from pathlib import Path
from flash_dllm.evaluation.journal import Journal
if len(sys.argv) > 2:
    # as on a full disk: the system takes a part of a record and no more
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
journal = Journal(Path(sys.argv[1]), {"a": 1})
number = len(journal.records)
try:
    while True:
        journal.add({"n": number, "text": "x" * 100_000})
        number += 1
except OSError as error:
    print(number, error)
"""


def child(path, *more: str) -> subprocess.Popen:
    command = [sys.executable, "-c", LOOP, str(path), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def records(path):
    journal = Journal(path, {"a": 1})
    journal.close()
    return journal.records


def test_an_unfinished_line_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_text('{"a": 1}\n{"n": 0}\n{"n": 1')
    journal = Journal(path, {"a": 1})
    journal.add({"n": 2})
    journal.close()
    assert path.read_text() == '{"a": 1}\n{"n": 0}\n{"n": 2}\n'
    with pytest.raises(ValueError, match="b.c is 1 there and 2 here"):
        Journal(tmp_path / "k.jsonl", {"b": {"c": 1}}).close()
        Journal(tmp_path / "k.jsonl", {"b": {"c": 2}})


def test_two_processes_do_not_write_one_journal(tmp_path):
    path = tmp_path / "j.jsonl"
    journal = Journal(path, {"a": 1})
    code = (
        "import sys; from pathlib import Path; from flash_dllm.evaluation.journal import Journal\n"
        "try: Journal(Path(sys.argv[1]), {'a': 1})\n"
        "except ValueError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert "is being written by another process" in shown
    journal.close()
    assert subprocess.run(command, capture_output=True, cwd=ROOT, check=True).stdout == b""


def test_killed_while_it_writes_a_journal_holds_whole_records(tmp_path):
    path = tmp_path / "j.jsonl"
    for _ in range(2):
        process = child(path)
        size = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < size + 2_000_000:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        # the lock went with the process, and the next one goes on behind the last whole record
        found = records(path)
        assert [record["n"] for record in found] == list(range(len(found))) and len(found) >= 20
        assert {len(record["text"]) for record in found} == {100_000}


def test_on_a_full_disk_what_was_measured_stays_and_the_sentence_says_what_to_do(tmp_path):
    path = tmp_path / "j.jsonl"
    said, _ = child(path, "250000").communicate(timeout=60)
    # two records of 100 kB fit, the third is cut off again
    assert said.startswith(f"2 {path} can't be written (") and said.endswith(
        " bytes were written); what was measured so far is kept: make room, and the same command "
        "goes on\n"
    )
    assert path.read_bytes().endswith(b"\n") and len(records(path)) == 2


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_text('{"a": 1}\n{"n": 0}\n{"n" 1}\n')
    with pytest.raises(ValueError, match="line 3 of .*j.jsonl is damaged; delete that line"):
        Journal(path, {"a": 1})
