"""The command line: decode one prompt, printing the answer as it grows."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from flash_dllm.caches import CACHES
from flash_dllm.decoder import check_prompt, decode_steps, finish_trace, start_trace
from flash_dllm.files import check_target
from flash_dllm.models import DTYPES, families, leave_one_core, load_model, load_preset
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies import STRATEGIES
from flash_dllm.trace import DecodeTrace, StepTrace, join_token_texts
from flash_dllm.trace_json import save

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


def add_decoder_options(cli: argparse.ArgumentParser) -> None:
    """Model, strategy, cache and their knobs: the same words in every command."""
    add = cli.add_argument
    add("--model", metavar="DIR", help="checkpoint folder (default: the embedded model)")
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
    add("--impl", default="auto", choices=("auto", "torch", "triton"))
    add("--device", default="auto", help="auto, cpu, cuda or mps")
    add("--dtype", default="auto", choices=DTYPES)
    add("--no-graphs", action="store_true", help="run without CUDA graphs")


def parser() -> argparse.ArgumentParser:
    """All options; defaults come from the model's preset."""
    cli = OneLineParser(
        prog="python -m flash_dllm",
        description="Decode a prompt with a masked diffusion language model.",
        epilog="Options that are left out take the value of the model's preset.",
        allow_abbrev=False,
    )
    add = cli.add_argument
    add("prompt", nargs="?", help="the question; the model's chat template is put around it")
    add_decoder_options(cli)
    add("--raw", action="store_true", help="plain text: no chat template")
    add("--trace", metavar="FILE", help="save the run as JSON")
    add("--html", metavar="FILE", help="save the run as an animated figure")
    add("--json", action="store_true", help="print one JSON object")
    add("--list", action="store_true", help="list strategies, caches, implementations, families")
    return cli


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one sentence on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a narrow terminal still gets its answer
    cli = parser()
    options = cli.parse_args(arguments)
    try:
        if options.list:
            if options.prompt is not None:
                cli.error("--list takes no prompt")
            print_list(options.json)
            return 0
        if options.prompt is None:
            cli.error("a prompt is needed")
        return run(options)
    except BrokenPipeError:
        # whoever read the output has gone; nothing more can be said there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        complain(error)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def print_list(as_json: bool) -> None:
    """The shelves by name."""
    from kernels.ops import IMPLS

    shelves = {
        "strategies": list(STRATEGIES),
        "caches": list(CACHES),
        "impls": list(IMPLS),
        "families": families(),
    }
    if as_json:
        print(json.dumps(shelves))
        return
    for shelf, names in shelves.items():
        print(f"{shelf}: {', '.join(names)}")


def settings_of(
    options: argparse.Namespace, preset: dict[str, Any], **given: Any
) -> Settings:
    """The preset with this command line's options on top, and knobs that the command fixes."""
    given |= {knob: getattr(options, option) for option, knob in KNOBS.items()}
    return from_preset(preset, given)


def run(options: argparse.Namespace) -> int:
    """Decode, save, print. Whatever was decoded is saved and printed, also after an error."""
    for name in (options.trace, options.html):
        if name is not None:
            check_target(name)
    # wrong settings are refused before the model is loaded
    folder = Path(options.model) if options.model is not None else None
    settings = settings_of(options, load_preset(folder))
    engine = load_model(
        options.model, options.impl, options.device, options.dtype, not options.no_graphs
    )
    leave_one_core()
    prompt_ids = engine.encode(options.prompt, options.raw)
    check_prompt(engine, prompt_ids, settings.config)
    choice = (settings.strategy, settings.cache, settings.config)
    header = start_trace(engine, prompt_ids, *choice, options.prompt)
    steps: list[StepTrace] = []
    code = 0
    problems: list[BaseException] = []
    with nullcontext() if options.json else Growing(header, engine.token_text) as growing:
        try:
            for step in decode_steps(engine, prompt_ids, *choice):
                steps.append(step)
                if growing is not None:
                    growing.show(step)
        except KeyboardInterrupt:
            code = 130
        except (ValueError, RuntimeError, MemoryError) as error:
            problems.append(error)
    trace = finish_trace(engine, header, steps)
    for name, write in ((options.trace, save), (options.html, write_picture)):
        try:
            if name is not None:
                write(trace, name)
        except (ValueError, OSError) as error:
            problems.append(error)
    report(trace, options.json)
    for problem in problems:
        complain(problem)
    return 2 if problems else code


def write_picture(trace: DecodeTrace, path: str) -> None:
    """The animated figure. The picture lives in the explorer, which the decoder does not know:
    the only place where this package reaches for `app`, and only when asked on the command line."""
    import importlib

    importlib.import_module("app.embed").write_html(trace, path)


def complain(error: BaseException) -> None:
    """One sentence on standard error."""
    message = " ".join(str(error).split()) or type(error).__name__
    for option, knob in KNOBS.items():
        # errors of the library name its fields; here the reader knows the options
        message = re.sub(rf"\b{knob}\b(?= must)", f"--{option.replace('_', '-')}", message)
    print(f"{message[:1].upper()}{message[1:].rstrip('.')}.", file=sys.stderr)


def report(trace: DecodeTrace, as_json: bool) -> None:
    """The answer and its costs."""
    if as_json:
        facts = {
            "text": trace.text,
            "token_ids": list(trace.token_ids),
            "tokens": trace.tokens,
            "steps": len(trace.steps),
            "passes": trace.passes,
            "verified": trace.verified,
            "seconds": round(trace.seconds, 4),
        }
        print(json.dumps(facts))
        return
    print(trace.text)
    if trace.status == "stopped":
        print("(stopped: positions that were still masked are left out)")
    print(
        f"{trace.tokens} tokens, {len(trace.steps)} steps, {trace.passes} passes, "
        f"{trace.tokens_per_step:.2f} tokens/step, {trace.tokens_per_pass:.2f} tokens/pass, "
        f"{trace.verified} verified, {trace.seconds:.2f} s"
    )


class Growing:
    """The answer while it grows, with a progress line; silent where output is no terminal."""

    def __init__(self, header: DecodeTrace, text_of) -> None:
        from rich.console import Console
        from rich.live import Live

        self._text_of = text_of
        self._start = header.prompt_length
        self._texts: list[str | None] = [None] * header.gen_length
        self._ends = header.model.eos_token_ids
        self._passes = 0
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=12)
        self._is_shown = self._live.console.is_terminal

    def __enter__(self) -> Growing:
        if self._is_shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._live.stop()

    def show(self, step: StepTrace) -> None:
        """Draw one more step."""
        from rich.text import Text

        for position, token in step.accepted:
            text = "" if token in self._ends else self._text_of(token)
            self._texts[position - self._start] = text
        self._passes += len(step.counted)
        left = self._texts.count(None)
        shown = join_token_texts("·" if text is None else text for text in self._texts)
        line = f"step {step.index}, {left} masks left, {self._passes} passes"
        if self._is_shown:
            self._live.update(Text(f"{shown.rstrip()}\n") + Text(line, style="dim"))
