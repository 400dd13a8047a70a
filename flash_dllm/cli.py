"""The command line: decode one prompt, printing the answer as it grows."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flash_dllm.caches import CACHES
from flash_dllm.decoder import decode_steps, finish_trace, start_trace
from flash_dllm.files import check_target, read_json, write_text
from flash_dllm.fit import check_prompt
from flash_dllm.many import decode_many, read_prompts
from flash_dllm.models import (
    DTYPES,
    QUANTIZATIONS,
    families,
    guide_families,
    leave_one_core,
    load_model,
    load_preset,
    locate,
)
from flash_dllm.models.presets import PRESETS
from flash_dllm.peers import PEERS
from flash_dllm.settings import Settings, from_preset
from flash_dllm.strategies import STRATEGIES
from flash_dllm.terminal import Growing, progress, report
from flash_dllm.trace import DecodeTrace, StepTrace
from flash_dllm.trace_json import save

if TYPE_CHECKING:
    from flash_dllm.engine import ModelEngine
    from flash_dllm.models.parallel import Ranks

KNOBS = {
    "strategy": "strategy", "cache": "cache", "epsilon": "epsilon", "gamma": "gamma",
    "window": "window_size", "decide": "decide_size", "search": "search_size",
    "verify_rows": "verify_rows", "tracked": "track_size", "order": "order",
    "acceptance": "acceptance", "refresh": "refresh", "block": "block_length",
    "temperature": "temperature", "seed": "seed", "length": "gen_length",
}  # fmt: skip


TURN = ("role", "content")  # of a turn in a --chat file


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
    add("--revision", metavar="REV", help="branch, tag or commit of a hub name")
    add("--offline", action="store_true", help="hub names: read the local cache only")
    add("--override", action="append", default=[], metavar="KEY=VALUE", type=key_and_value,
        help="a key that config.json lacks or has wrong; may be repeated")  # fmt: skip
    add("--quantize", default="none", choices=QUANTIZATIONS, help=QUANTIZE_HELP)
    add("--preset", metavar="NAME", help="settings to start from: the model's, or a peer's; --list "
        "names them")
    add("--prompts", metavar="FILE", help='many prompts instead of one: {"prompt": …} a line')
    add("--batch", type=int, metavar="N", help="how many of them at a time (default 32)")
    add("--out", metavar="FILE", help="where their answers go, one JSON object a line")
    add("--tensor-parallel", type=int, metavar="N", help="devices that share the model (torchrun)")
    add("--raw", action="store_true", help="plain text (few-shot, completion): no chat template")
    add("--system", metavar="TEXT", help="system prompt of the chat template")
    add("--chat", metavar="FILE", help='earlier turns: {"messages": [{"role": …, "content": …}]}')
    add("--trace", metavar="FILE", help="save the run as JSON")
    add("--html", metavar="FILE", help="save the run as an animated figure")
    add("--json", action="store_true", help="print one JSON object")
    add("--list", action="store_true", help="list strategies, caches, families, guides, peers")
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
        if (options.prompt is None) == (options.prompts is None):
            cli.error("a prompt is needed, or --prompts FILE instead of one")
        check_many(options)
        return run(options)
    except BrokenPipeError:
        # whoever read the output has gone; nothing more can be said there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        if is_first():
            complain(error)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def is_first() -> bool:
    """Whether this process speaks: the only one, or the first of torchrun's."""
    return os.environ.get("RANK", "0") == "0"


def check_many(options: argparse.Namespace) -> None:
    """Raise ValueError for options that need --prompts or can't go with it."""
    if options.prompts is None:
        idle = [f"--{name}" for name in ("batch", "out") if getattr(options, name) is not None]
    else:
        idle = [f"--{name}" for name in ("trace", "html", "chat") if getattr(options, name)]
    if idle:
        which = "without" if options.prompts is None else "with"
        raise ValueError(f"{' and '.join(idle)} has no effect {which} --prompts; leave it out")


def print_list(as_json: bool) -> None:
    """The shelves by name."""
    from kernels.ops import IMPLS

    shelves: dict[str, Any] = {
        "strategies": list(STRATEGIES),
        "caches": list(CACHES),
        "impls": list(IMPLS),
        "families": families(),
        "guides": guide_families(),
        "peers": {name: peer.described() for name, peer in PEERS.items()},
        "presets": {family: list(known) for family, known in PRESETS.items()},
    }
    if as_json:
        print(json.dumps(shelves))
        return
    for shelf, names in shelves.items():
        if shelf == "peers":
            for name, peer in PEERS.items():
                facts = peer.described()
                # as --set takes them
                knobs = " ".join(f"{knob}={json.dumps(v)}" for knob, v in facts["knobs"].items())
                print(
                    f"{shelf}: {name} – {peer.title} ({peer.paper}, {peer.year}): strategy "
                    f"{facts['strategy']}, cache {facts['cache']}; {knobs}"
                )
        elif isinstance(names, dict):
            for family, known in names.items():
                print(f"{shelf} of {family}: {', '.join(known)}")
        else:
            print(f"{shelf}: {', '.join(names)}")


def given_of(options: argparse.Namespace) -> dict[str, Any]:
    """The knobs that this command line names; None for those that it leaves to the preset."""
    return {knob: getattr(options, option) for option, knob in KNOBS.items()} | dict(options.set)


def settings_of(options: argparse.Namespace, preset: dict[str, Any]) -> Settings:
    """The preset with this command line's options on top."""
    return from_preset(preset, given_of(options))


def run(options: argparse.Namespace) -> int:
    """Decode, save, print. Whatever was decoded is saved and printed, also after an error."""
    for name in (options.trace, options.html, options.out):
        if name is not None:
            check_target(name)
    # wrong settings are refused before the model is loaded
    ranks = None
    if options.tensor_parallel is not None or "WORLD_SIZE" in os.environ:
        from flash_dllm.models.parallel import start_ranks, stop_ranks

        ranks = start_ranks(options.tensor_parallel or 1, options.device)
        try:
            return decode_and_report(options, ranks)
        finally:
            stop_ranks()
    return decode_and_report(options, ranks)


def decode_and_report(options: argparse.Namespace, ranks: Ranks | None) -> int:
    """The part of `run` between joining and leaving torchrun's processes."""
    say = progress if options.model is not None and is_first() else None
    folder = locate(options.model, options.revision, options.offline)
    settings = settings_of(options, load_preset(folder, options.preset))
    messages = conversation(options) if options.prompts is None else []
    prompts = read_prompts(options.prompts) if options.prompts is not None else []
    if ranks is not None and ranks.data_size > 1 and not prompts:
        raise ValueError(
            "one prompt can't be divided: give --prompts FILE, or --tensor-parallel as many as "
            "torchrun's processes"
        )
    engine = load_model(
        options.model, options.impl, options.device, options.dtype, not options.no_graphs,
        options.quantize, dict(options.override), options.revision, options.offline, say, ranks,
        options.guide,
    )  # fmt: skip
    if options.impl == "auto":
        engine = engine.suited(settings.cache)
    if ranks is None:
        leave_one_core()
    if prompts:
        return run_many(options, engine, settings, prompts, ranks)
    if options.raw:
        prompt_ids, prompt_format = engine.encode(options.prompt, raw=True), "raw text"
    else:
        prompt_ids, prompt_format = engine.encode_chat(messages), chat_format(messages)
    check_prompt(engine, prompt_ids, settings.config)
    choice = (settings.strategy, settings.cache, settings.config)
    header = start_trace(engine, prompt_ids, *choice, options.prompt, prompt_format)
    steps: list[StepTrace] = []
    code = 0
    problems: list[BaseException] = []
    is_quiet = options.json or not is_first()
    with nullcontext() if is_quiet else Growing(header, engine.token_text) as growing:
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
    if not is_first():
        return 2 if problems else code
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


def run_many(
    options: argparse.Namespace,
    engine: ModelEngine,
    settings: Settings,
    prompts: list[str],
    ranks: Ranks | None,
) -> int:
    """Decode this process group's share of the prompts; the first process writes all answers."""
    texts = list(enumerate(prompts))
    if ranks is not None:
        texts = texts[ranks.data_rank :: ranks.data_size]
    system = [] if options.system is None else [("system", options.system)]
    encoded = [
        (
            index,
            text,
            engine.encode(text, raw=True)
            if options.raw
            else engine.encode_chat([*system, ("user", text)]),
        )
        for index, text in texts
    ]
    kind = "raw text" if options.raw else chat_format([*system, ("user", "")])
    say = progress if is_first() else lambda sentence: None
    batch = 32 if options.batch is None else options.batch
    reports = decode_many(engine, encoded, settings, batch, kind, say) if encoded else []
    if ranks is not None:
        from flash_dllm.models.parallel import gather

        reports = gather(ranks, reports)
    if not is_first():
        return 0
    lines = "".join(
        json.dumps(report, ensure_ascii=False) + "\n"
        for report in sorted(reports, key=lambda report: report["index"])
    )
    if options.out is None:
        print(lines, end="")
    else:
        write_text(options.out, lines)
    return 0


def conversation(options: argparse.Namespace) -> list[tuple[str, str]]:
    """(role, text) of every turn, the prompt last. Raises ValueError in one sentence."""
    if options.raw and (options.system is not None or options.chat is not None):
        raise ValueError("--raw has no chat template, so leave --system and --chat out")
    messages = [] if options.system is None else [("system", options.system)]
    if options.chat is not None:
        if not Path(options.chat).is_file():
            raise FileNotFoundError(f"{options.chat} is no file; name one with earlier turns")
        turns = read_json(Path(options.chat)).get("messages")
        for turn in turns if isinstance(turns, list) else [None]:
            role, text = (turn.get(k) if isinstance(turn, dict) else None for k in TURN)
            if not isinstance(role, str) or not isinstance(text, str):
                raise ValueError(
                    f'{options.chat} must hold {{"messages": [{{"role": …, "content": …}}, …]}}'
                )
            messages.append((role, text))
    return [*messages, ("user", options.prompt)]


def chat_format(messages: list[tuple[str, str]]) -> str:
    """How a report names a conversation.

    >>> chat_format([("system", "Be brief."), ("user", "Hi")])
    'chat template, system prompt, 1 turn'
    """
    turns = sum(role == "user" for role, _ in messages)
    system = "system prompt, " if messages[0][0] == "system" else ""
    return f"chat template, {system}{turns} turn{'s' if turns > 1 else ''}"


def write_picture(trace: DecodeTrace, path: str) -> None:
    """The animated figure. The picture lives in the explorer, which the decoder does not know:
    the only place where this package reaches for `app`, and only when asked on the command line."""
    import importlib

    importlib.import_module("app.embed").write_html(trace, path)


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
