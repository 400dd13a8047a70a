"""What the commands' options share: the same words for the same knob, errors in one sentence."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from flash_dllm.caches import CACHES
from flash_dllm.models import DTYPES
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies import STRATEGIES

# option → field of the library
KNOBS = {
    "strategy": "strategy", "cache": "cache", "epsilon": "epsilon", "gamma": "gamma",
    "window": "window_size", "decide": "decide_size", "search": "search_size",
    "verify_rows": "verify_rows", "tracked": "track_size", "order": "order",
    "acceptance": "acceptance", "refresh": "refresh", "block": "block_length",
    "temperature": "temperature", "seed": "seed", "length": "gen_length",
}  # fmt: skip


class OneLineParser(argparse.ArgumentParser):
    """argparse, but an error is one sentence without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message[:1].upper()}{message[1:]}; see --help.\n")


def number_or_word(text: str) -> int | str:
    """For --refresh: init, drift or a number of tokens."""
    try:
        return int(text)
    except ValueError:
        return text


def folder_name(text: str) -> Path:
    """For --output: an empty name, an unset variable of a shell, would be the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a folder")
    return Path(text)


def key_and_value(text: str) -> tuple[str, Any]:
    """For --override: KEY=VALUE, the value as JSON where it is some, else as a word."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def add_machine_options(cli: argparse.ArgumentParser) -> None:
    """Which model, and what computes it: the same words in every command."""
    add = cli.add_argument
    add("--model", metavar="NAME", help="checkpoint folder or hub name, owner/model (default: "
        "the embedded model)")  # fmt: skip
    add("--impl", default="auto", choices=("auto", "torch", "triton"))
    add("--device", default="auto", help="auto, cpu, cuda or mps")
    add("--dtype", default="auto", choices=DTYPES)


def add_decoder_options(cli: argparse.ArgumentParser) -> None:
    """Model, strategy, cache and their knobs: the same words in every command."""
    add_machine_options(cli)
    add = cli.add_argument
    add("--strategy", metavar="NAME", help=", ".join(STRATEGIES))
    add("--cache", metavar="NAME", help=", ".join(CACHES))
    add("--epsilon", type=float, metavar="ε", help="commit drafts at least this sure")
    add("--gamma", type=float, metavar="γ", help="accept mask views at least this sure")
    add("--window", type=int, metavar="N", help="undecided positions queried each step")
    add("--decide", type=int, metavar="N", help="how many of them may be committed")
    add("--search", type=int, metavar="N", help="how many drafts to verify")
    add("--verify-rows", type=int, metavar="N", help="row budget of the verify pass")
    add("--tracked", type=int, metavar="N", help="decided tokens re-read each step")
    add("--order", metavar="ORDER", help="confidence or position")
    add("--acceptance", metavar="RULE", help="each (paper) or joint (running product)")
    add("--refresh", type=number_or_word, metavar="WHEN", help="init, drift, or every N tokens")
    add("--block", type=int, metavar="N", help="semi-autoregressive block length")
    add("--temperature", type=float, metavar="T", help="0 takes the likeliest token")
    add("--seed", type=int, metavar="S", help="for temperatures above 0")
    add("--length", type=int, metavar="N", help="answer positions")
    add("--set", action="append", default=[], metavar="KNOB=VALUE", type=key_and_value,
        help="any other knob of strategy, cache or config; may be repeated")  # fmt: skip
    add("--guide", metavar="NAME", help="causal model that strategy guided asks: folder or hub "
        "name (default: the embedded guide)")  # fmt: skip
    add("--no-graphs", action="store_true", help="run without CUDA graphs")


# for the two commands that load a model in so many ways
QUANTIZE_HELP = "8 bits for the blocks: weights (int8, fp8: torchao) or products (fp8_w8a8)"


def given_of(options: argparse.Namespace) -> dict[str, Any]:
    """The knobs that this command line names; None for those that it leaves to the preset."""
    return {knob: getattr(options, option) for option, knob in KNOBS.items()} | dict(options.set)


def settings_of(options: argparse.Namespace, preset: dict[str, Any]) -> Settings:
    """The preset with this command line's options on top."""
    return from_preset(preset, given_of(options))


def complain(error: BaseException, options: Mapping[str, str] = KNOBS) -> None:
    """One sentence on standard error.

    options  option → field of the library; {} for a command whose settings have the fields' names
    """
    message = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and message.startswith("No module named"):
        package = (error.name or "").partition(".")[0]
        message = f"the package {package} is not installed; run pip install -r requirements.txt"
    for option, knob in options.items():
        # errors of the library name its fields; here the reader knows the options
        message = re.sub(rf"\b{knob}\b(?= must)", f"--{option.replace('_', '-')}", message)
    print(f"{message[:1].upper()}{message[1:].rstrip('.')}.", file=sys.stderr)
