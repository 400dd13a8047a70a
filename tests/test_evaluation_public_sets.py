"""GSM8K and SVAMP from files, as items in plain wording with whole-number answers."""

from __future__ import annotations

import json
import logging
import lzma
import sys
from types import SimpleNamespace

import pytest

from flash_dllm import evaluate
from flash_dllm.evaluation.public_sets import read_public_set
from flash_dllm.evaluation.scoring import are_correct

# a line separator inside a text is no end of a JSON line
GSM8K = {"question": "Bo’s  tea?", "answer": "1+1\u2028=2\n#### 1,024"}


def test_gsm8k_and_svamp_are_read_from_a_folder_and_scored_as_numbers(tmp_path):
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "svamp").mkdir()
    with lzma.open(
        tmp_path / "gsm8k" / "EVAL_ONLY_test.jsonl.xz", "wt", encoding="utf-8"
    ) as file:
        file.write(json.dumps(GSM8K, ensure_ascii=False) + "\n")
    with lzma.open(tmp_path / "svamp" / "SVAMP.json.xz", "wt") as file:
        json.dump([{"Body": "Bo has 3 cups", "Question": "How many?", "Answer": 3.0}], file)
    (gsm8k,) = read_public_set("gsm8k", tmp_path)
    (svamp,) = read_public_set("svamp", tmp_path)
    assert (gsm8k.prompt, gsm8k.gold) == ("Bo's tea?", "1024")
    assert (svamp.prompt, svamp.gold) == ("Bo has 3 cups. How many?", "3")
    assert are_correct([gsm8k, svamp], ["#### 1024", "so 3 cups."]) == [True, True]
    assert are_correct([gsm8k, svamp], ["#### 24", ""]) == [False, False]


def test_an_unknown_set_is_named():
    with pytest.raises(ValueError, match="got 'poems'"):
        read_public_set("poems")


def test_without_a_network_only_the_sentence_is_read(tmp_path, monkeypatch, capfd):
    def load_dataset(repository, configuration, split):
        for name in ("huggingface_hub.utils._http", "datasets.load"):
            logging.getLogger(name).warning("Retrying in 1s [Retry 1/5].")
        raise ConnectionError(f"Couldn't reach '{repository}'\n on the Hub")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    logging.getLogger("datasets.load").setLevel(logging.NOTSET)
    assert evaluate.main(["--task", "svamp", "--output", str(tmp_path / "o")]) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err == (
        "Svamp could not be downloaded (Couldn't reach 'ChilleD/SVAMP' on the Hub); give the file "
        "of svamp, or its folder, with --data PATH (in a sweep, data: PATH).\n"
    )
    # and what they have to say later is heard
    assert logging.getLogger("datasets").getEffectiveLevel() < logging.CRITICAL
