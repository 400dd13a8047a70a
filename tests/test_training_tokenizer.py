"""The tokenizer in assets/tiny: ids, digits, template, round trip."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.tokenizer import SPECIAL_TOKENS, VOCABULARY_SIZE, train_tokenizer

ASSETS = Path(__file__).parents[1] / "assets" / "tiny"


@pytest.fixture(scope="module")
def tokenizer():
    return PreTrainedTokenizerFast.from_pretrained(ASSETS)


def test_special_tokens_have_ids_zero_to_five(tokenizer):
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [0, 1, 2, 3, 4, 5]
    assert len(tokenizer) == VOCABULARY_SIZE


def test_named_tokens_are_lladas(tokenizer):
    assert tokenizer.bos_token == "<|startoftext|>"
    assert tokenizer.eos_token == tokenizer.pad_token == "<|endoftext|>"
    assert tokenizer.mask_token == "<|mdm_mask|>"
    assert tokenizer.model_max_length == 512


@pytest.mark.parametrize(
    "text",
    [
        "48 / 2 = 24\n#### 24",
        "def f(x):\n    if x:\n        return [1,  2]\n",
        r"so $\boxed{3x^2 - \frac{5}{2}}$",
        "Noah's owl said: \"It isn't late!\"",
        "  lead\n\n\n\ttab é 日本 \U0001f989 ",
    ],
)
def test_text_survives_the_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_each_digit_is_a_token_and_the_first_carries_its_space(tokenizer):
    assert tokenizer.tokenize(" 128+15") == ["Ġ1", "2", "8", "+", "1", "5"]
    assert not any(
        sum(character.isdigit() for character in token) > 1 for token in tokenizer.get_vocab()
    )


def test_four_spaces_are_one_token(tokenizer):
    assert tokenizer.tokenize("\n        return")[:3] == ["Ċ", "ĠĠĠĠ", "ĠĠĠĠ"]


def test_chat_template_is_lladas(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": " Hi? "}], add_generation_prompt=True, tokenize=False
    )
    assert text == (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nHi?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_chat_template_takes_a_system_prompt_and_several_turns(tokenizer):
    turns = [("system", "Be kind."), ("user", "a"), ("assistant", "b"), ("user", "c")]
    text = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in turns], tokenize=False
    )
    assert text == "<|startoftext|>" + "".join(
        f"<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"
        for role, content in turns
    )


def test_auto_tokenizer_loads_beside_a_config_of_an_unregistered_type(tmp_path):
    for path in ASSETS.glob("*token*.json"):
        shutil.copy(path, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llada"}))
    assert AutoTokenizer.from_pretrained(tmp_path).mask_token_id == 5


def test_too_few_texts_are_an_error():
    with pytest.raises(RuntimeError, match="4096"):
        train_tokenizer(iter(["one two three"]))
