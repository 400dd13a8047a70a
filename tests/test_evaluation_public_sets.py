"""GSM8K and SVAMP from files, as items in plain wording with whole-number answers."""

from __future__ import annotations

import json
import lzma

import pytest

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
