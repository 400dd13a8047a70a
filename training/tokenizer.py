"""Train the embedded model's tokenizer on the training mixture.

    python -m training.tokenizer --data DIR --output assets/tiny

A byte-level BPE of 4,096 entries. Digits are one token each, a number's first digit may carry its
leading space, and four spaces are one pre-token (one level of Python). Special tokens and chat
template are LLaDA's, so that one code path serves both models.

Source     LLaDA's tokenizer (names, template); sizes: our choice, see docs/decisions.md.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training import sources
from training.generators import DOMAINS
from training.mixture import training_item

VOCABULARY_SIZE = 4096
ITEMS_PER_DOMAIN = 15_000
MODEL_MAX_LENGTH = 512
SEED = 0

# ids 0-5, in this order
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|startoftext|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|mdm_mask|>",
)
NAMED_TOKENS = {
    "bos_token": "<|startoftext|>",
    "eos_token": "<|endoftext|>",
    "pad_token": "<|endoftext|>",
    "mask_token": "<|mdm_mask|>",
}
ROLES = ("system", "user", "assistant")
PRE_TOKEN_PATTERN = (
    r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\n+|[ ]{4}|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{ message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{% endif %}"
)


def training_texts(data: Path, items_per_domain: int, seed: int) -> Iterator[str]:
    """Prompts and answers of the training split of every domain, then the real texts."""
    for domain in DOMAINS:
        rng = random.Random(f"tokenizer/{domain}/{seed}")
        for _ in range(items_per_domain):
            item = training_item(domain, rng)
            yield item.prompt
            yield item.answer
            # the template's roles stand in every sequence: one token each
            yield from ROLES
    for item in (*sources.gsm8k_items(data), *sources.mbpp_items(data)):
        yield item.prompt
        yield item.answer
    yield from sources.storybooks(data)
    yield from sources.standard_library_functions()


def train_tokenizer(texts: Iterator[str]) -> Tokenizer:
    """A byte-level BPE with exactly `VOCABULARY_SIZE` entries.

    Raises     RuntimeError if the texts are too few for that many merges.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKEN_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != VOCABULARY_SIZE:
        raise RuntimeError(
            f"the texts gave {tokenizer.get_vocab_size()} entries, {VOCABULARY_SIZE} are needed; "
            "raise --items"
        )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, output: Path) -> None:
    """Write the three files that `PreTrainedTokenizerFast.from_pretrained` reads."""
    output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(output / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **NAMED_TOKENS,
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": MODEL_MAX_LENGTH,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {
            str(number): {
                "content": token,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "single_word": False,
                "special": True,
            }
            for number, token in enumerate(SPECIAL_TOKENS)
        },
    }
    _write_json(output / "tokenizer_config.json", settings)
    _write_json(output / "special_tokens_map.json", NAMED_TOKENS)


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def main() -> None:
    """Train on the mixture and write the tokenizer's files."""
    parser = argparse.ArgumentParser(description="train the tokenizer of the embedded model")
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k/, mbpp/, …")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--items", type=int, default=ITEMS_PER_DOMAIN, help="items per domain")
    arguments = parser.parse_args()
    tokenizer = train_tokenizer(training_texts(arguments.data, arguments.items, SEED))
    save_tokenizer(tokenizer, arguments.output)
    print(f"{arguments.output}/tokenizer.json: {tokenizer.get_vocab_size()} entries")


if __name__ == "__main__":
    main()
