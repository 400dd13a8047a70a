"""Text to ids and back, chat template included: the only file that imports transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

# stand for a message while the template is rendered, which may trim what it shows
_BEFORE, _AFTER = "\t\n", "\n\t"
_PLACE = re.compile(f"({_BEFORE})?\ue0f0\ue0f1(\\d+)\ue0f2({_AFTER})?")


def _sentinel(number: int) -> str:
    return f"\ue0f0\ue0f1{number}\ue0f2"



# LLaDA's and Llama's, ChatML's (Dream, Qwen), LLaDA-MoE's and LLaDA2's
_ENDS_OF_TURN = ("<|eot_id|>", "<|im_end|>", "<|role_end|>")


def _load(folder: Path) -> Any:
    try:
        import transformers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise ImportError(
            f"transformers could not be imported ({error}); run pip install transformers, and if "
            "a package named kernels is installed beside this checkout, pip uninstall kernels"
        ) from error
    kind = PreTrainedTokenizerFast
    if not (folder / "tokenizer.json").is_file():
        # Dream ships Qwen's vocabulary and merges with a class of its own, which would be remote
        # code; the class it copies reads the same files
        if not all((folder / name).is_file() for name in ("vocab.json", "merges.txt")):
            raise FileNotFoundError(f"tokenizer.json is missing in {folder}; copy it there again")
        kind = transformers.Qwen2TokenizerFast  # type: ignore[attr-defined]
    try:
        return kind.from_pretrained(str(folder))
    except Exception as error:
        # transformers and tokenizers raise bare Exception subclasses for damaged files
        reason = " ".join(str(error).split())
        raise ValueError(f"the tokenizer in {folder} could not be read ({reason})") from error


class Tokenizer:
    """A fast tokenizer of a checkpoint folder.

    template_options  variables that the family's chat template is rendered with
    """

    def __init__(self, folder: Path, template_options: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = _load(folder)
        self._template_options = dict(template_options or {})
        # the length is checked by the loop, together with gen_length
        self._tokenizer.model_max_length = 1 << 30

    @cached_property
    def _special(self) -> dict[str, int]:
        """Text → id of the special tokens."""
        return {str(t): i for i, t in self._tokenizer.added_tokens_decoder.items()}

    @property
    def end_token_ids(self) -> tuple[int, ...]:
        """Whatever the tokenizer calls eos, and the ends of a turn that it declares."""
        ids = [self._tokenizer.eos_token_id, *(self._special.get(t) for t in _ENDS_OF_TURN)]
        return tuple(dict.fromkeys(i for i in ids if i is not None))

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._tokenizer.get_vocab().values()) + 1

    @property
    def vocabulary(self) -> dict[str, int]:
        """Text → id of the ordinary tokens."""
        known = self._tokenizer.get_vocab().items()
        return {text: token for text, token in known if text not in self._special}

    @property
    def mask_token_id(self) -> int | None:
        """The mask token that the tokenizer declares, if it does."""
        return self._tokenizer.mask_token_id

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        """Ids of the prompt as one user turn of the chat template, or as plain text (`raw`)."""
        return self._plain(prompt) if raw else self.encode_chat([("user", prompt)])

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Ids of a conversation of (role, text) in the chat template, up to the next answer.

        The template's special tokens become ids; whatever looks like one in a message stays
        text. Raises ValueError if the checkpoint has no chat template, or one that can't show
        this conversation.
        """
        if self._tokenizer.chat_template is None:
            raise ValueError("this checkpoint has no chat template; use raw text")
        texts = [text for _, text in messages]
        try:
            rendered = self._tokenizer.apply_chat_template(
                [
                    {"role": role, "content": _BEFORE + _sentinel(number) + _AFTER}
                    for number, (role, _) in enumerate(messages)
                ],
                tokenize=False,
                add_generation_prompt=True,
                **self._template_options,
            )
        except Exception as error:
            # a template is a program of the checkpoint: anything may come out of it
            raise ValueError(f"the chat template could not be rendered ({error})") from error
        if _PLACE.sub("", rendered) == rendered or any(
            rendered.count(_sentinel(number)) != 1 for number in range(len(texts))
        ):
            raise ValueError("the chat template does not show each message once; use raw text")

        def shown(place: re.Match[str]) -> str:
            """The message as the template would have shown it: trimmed where it trims."""
            text = texts[int(place[2])]
            text = text if place[1] else text.lstrip()
            return text if place[3] else text.rstrip()

        specials = "|".join(re.escape(text) for text in self._special)
        ids: list[int] = []
        for part in re.split(f"({specials})", rendered) if specials else [rendered]:
            if part in self._special:
                ids.append(self._special[part])
            elif part:
                ids += self._plain(_PLACE.sub(shown, part))
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
