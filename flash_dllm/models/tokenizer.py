"""Text to ids and back, chat template included: the only file that imports transformers."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

# stands for the user's text while the template is rendered; private use, so no text holds it
_SENTINEL = "\ue0f0\ue0f1\ue0f2"


def _load(folder: Path) -> Any:
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise ImportError(
            f"transformers could not be imported ({error}); run pip install transformers, and if "
            "a package named kernels is installed beside this checkout, pip uninstall kernels"
        ) from error
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(f"tokenizer.json is missing in {folder}; copy it there again")
    try:
        return PreTrainedTokenizerFast.from_pretrained(str(folder))
    except Exception as error:
        # transformers and tokenizers raise bare Exception subclasses for damaged files
        raise ValueError(f"the tokenizer in {folder} could not be read ({error})") from error


class Tokenizer:
    """A fast tokenizer of a checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = _load(folder)
        # the length is checked by the loop, together with gen_length
        self._tokenizer.model_max_length = 1 << 30

    @cached_property
    def _special(self) -> dict[str, int]:
        """Text → id of the special tokens."""
        return {str(t): i for i, t in self._tokenizer.added_tokens_decoder.items()}

    @property
    def end_token_ids(self) -> tuple[int, ...]:
        """<|endoftext|> (whatever the tokenizer calls eos) and <|eot_id|>, where they exist."""
        ids = [self._tokenizer.eos_token_id, self._special.get("<|eot_id|>")]
        return tuple(dict.fromkeys(i for i in ids if i is not None))

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        """Ids of the prompt as one user turn of the chat template, or as plain text (`raw`).

        The template's special tokens become ids; whatever looks like one in the user's text
        stays text. Raises ValueError if the checkpoint has no chat template.
        """
        if raw:
            return self._plain(prompt)
        if self._tokenizer.chat_template is None:
            raise ValueError("this checkpoint has no chat template; use raw text")
        try:
            rendered = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": _SENTINEL}],
                tokenize=False,
                add_generation_prompt=True,
            )
        except Exception as error:
            # a template is a program of the checkpoint: anything may come out of it
            raise ValueError(f"the chat template could not be rendered ({error})") from error
        if rendered.count(_SENTINEL) != 1:
            raise ValueError("the chat template does not show the user's text once; use raw text")
        specials = "|".join(re.escape(text) for text in self._special)
        ids: list[int] = []
        for part in re.split(f"({specials})", rendered):
            if part in self._special:
                ids.append(self._special[part])
            elif part:
                ids += self._plain(part.replace(_SENTINEL, prompt))
        return ids

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A conversation in the chat template, as text. Raises ValueError without a template."""
        if self._tokenizer.chat_template is None:
            raise ValueError("this checkpoint has no chat template; leave the template out")
        return self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt
        )

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of text in which special tokens are meant as such: what `render` made.

        Whoever puts foreign text into it trusts that text.
        """
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )

    def token_text(self, token: int) -> str:
        """The token's bytes as text; bytes that are no UTF-8 on their own as surrogates."""
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:
            return ""
        if piece in self._special:
            return piece
        letters = _byte_letters()
        if all(letter in letters for letter in piece):
            data = bytes(letters[letter] for letter in piece)
            return data.decode("utf-8", "surrogateescape")
        return piece


@lru_cache(maxsize=1)
def _byte_letters() -> dict[str, int]:
    """Letter → byte of byte-level BPE: printable bytes stand for themselves, the rest for
    letters from U+0100 on (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    letters.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return letters
