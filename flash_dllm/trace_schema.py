"""What a trace file may hold: one reader per field, with its type and bounds.

Nothing here decides whether the steps make sense together: `trace_replay.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from flash_dllm.caches import CACHES
from flash_dllm.config import DecodeConfig
from flash_dllm.json_reader import (
    Reader,
    check_keys,
    choice,
    flag,
    items,
    member,
    number,
    optional,
    pair,
    record,
    shown,
    text,
    triple,
    whole,
    within,
)
from flash_dllm.settings import Settings
from flash_dllm.strategies import STRATEGIES
from flash_dllm.trace import (
    SCHEMA_VERSION,
    Branch,
    DecodeTrace,
    GuideScore,
    ModelInfo,
    PassRecord,
    Proposal,
    Recheck,
    StepTrace,
    StopReason,
    TraceError,
    Verdict,
)

FORMAT = "flash-dllm-trace"
PASS_KINDS = ("full", "draft", "verify", "audit")
STATUSES = ("finished", "stopped")
MAX_VOCAB = 1_000_000
MAX_PROMPT = 32_768
MAX_GEN_LENGTH = 4_096
MAX_BRANCHES = 64
MAX_WINDOW = MAX_GEN_LENGTH  # prophet asks about every undecided position


def token_texts(vocab_size: int) -> Reader:
    """Token id → text; JSON keys are strings, so ids stand there in plain decimal digits."""
    read_id, read_text = whole(0, vocab_size - 1), text(1_000)

    def read(value: Any) -> dict[int, str]:
        if type(value) is not dict:
            raise TraceError(f"must be an object, got {shown(value)}")
        texts = {}
        for key, string in value.items():
            if not (key.isascii() and key.isdigit()) or len(key) > 7 or key != str(int(key)):
                raise TraceError(f"has the key {shown(key)}, which is no token id")
            token = within(f".{key}", read_id, int(key))
            texts[token] = within(f".{key}", read_text, string)
        return texts

    return read


def scalar(value: Any) -> Any:
    """Anything but a list or an object; the settings class checks type and range."""
    if isinstance(value, list | dict):
        raise TraceError(f"must be a single value, got {shown(value)}")
    return value


# settings whose class does not check their type
KNOB_READERS = {tuple[int, int] | None: optional(pair(whole(0, 1_000), whole(0, 1_000)))}


def build(kind: type, value: Any) -> Any:
    """A settings object of this class from its JSON; the class itself checks the values."""
    hints = get_type_hints(kind)
    names = tuple(item.name for item in fields(kind))
    later = tuple(item.name for item in fields(kind) if item.metadata.get("may_lack"))
    check_keys(value, names, later)
    knobs = {
        name: within(f".{name}", KNOB_READERS.get(hints[name], scalar), value[name])
        for name in names
        if name in value
    }
    try:
        return kind(**knobs)
    except ValueError as error:
        raise TraceError(str(error)) from None


def build_named(kinds: Mapping[str, type], what: str) -> Reader:
    """A strategy or cache policy: the one that "name" says, built from the other keys."""

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise TraceError(f"must be an object, got {shown(value)}")
        if "name" not in value:
            raise TraceError("is missing", ".name")
        name = value["name"]
        if type(name) is not str or name not in kinds:
            raise TraceError(
                f"{shown(name)} is no {what} known here; known are {', '.join(kinds)}", ".name"
            )
        return build(kinds[name], {key: v for key, v in value.items() if key != "name"})

    return read


UNIT = number(0, 1)
LABEL = text(300)
COUNT = whole(0, 10_000_000)
MAX_LAYERS = 10_000
COSTS = whole(0, 10**12)

MODEL = record(
    ModelInfo,
    optional=("shift", "causal_block"),
    name=LABEL,
    vocab_size=whole(1, MAX_VOCAB),
    n_layers=whole(1, MAX_LAYERS),
    mask_token_id=whole(0, MAX_VOCAB - 1),
    eos_token_ids=items(whole(0, MAX_VOCAB - 1), 64),
    fingerprint=LABEL,
    impl=LABEL,
    device=LABEL,
    dtype=LABEL,
    shift=whole(0, 1),
    causal_block=optional(whole(1, MAX_PROMPT)),
)


def step_reader(vocab_size: int, length: int) -> Reader:
    """A step of a run with that many token ids and that many positions."""
    token, position = whole(0, vocab_size - 1), whole(0, length - 1)
    proposal = record(
        Proposal,
        optional=("change",),
        position=position,
        draft_token=token,
        confidence=UNIT,
        verdict=member(Verdict),
        rank=optional(whole(0, MAX_WINDOW)),
        verify_token=optional(token),
        verify_confidence=optional(UNIT),
        alternatives=items(pair(token, UNIT), 64),
        change=optional(UNIT),
    )
    forward = record(
        PassRecord,
        optional=("route", "row_layers", "layers", "compared"),
        kind=choice(*PASS_KINDS),
        rows=COUNT,
        predicted=COUNT,
        seconds=number(0, 1e9),
        route=LABEL,
        row_layers=COSTS,
        layers=items(triple(position, position, whole(1, MAX_LAYERS)), length),
        compared=COSTS,
    )
    recheck = record(
        Recheck,
        position=position,
        token=token,
        confidence=UNIT,
        shadow_token=token,
        is_revoked=flag,
    )
    branch = record(
        Branch,
        filled=items(pair(position, token), MAX_WINDOW),
        answers=items(triple(position, token, UNIT), MAX_WINDOW),
        is_kept=flag,
    )
    score = record(
        GuideScore,
        position=position,
        probability=UNIT,
        rank=whole(0, MAX_VOCAB),
        token=token,
        top=UNIT,
    )
    return record(
        StepTrace,
        optional=("rechecks", "branches", "guide_scores", "guide_passes"),
        index=whole(1, MAX_GEN_LENGTH),
        window=items(position, MAX_WINDOW),
        proposals=items(proposal, MAX_WINDOW),
        stop=member(StopReason),
        tracked=items(position, length),
        verify_tracked=items(position, length),
        attention=items(pair(position, UNIT), length),
        decided_mass=UNIT,
        passes=items(forward, 16),
        rechecks=items(recheck, length),
        branches=items(branch, MAX_BRANCHES),
        guide_scores=items(score, MAX_WINDOW),
        guide_passes=items(forward, MAX_WINDOW),
    )


def read_settings(value: Mapping[str, Any]) -> Settings:
    """The settings in a trace's header (from JSON, or the dicts of a DecodeTrace)."""
    parts = (
        within(".strategy", build_named(STRATEGIES, "strategy"), value["strategy"]),
        within(".cache", build_named(CACHES, "cache policy"), value["cache"]),
        within(".config", lambda config: build(DecodeConfig, config), value["config"]),
    )
    try:
        return Settings(*parts)
    except ValueError as error:
        raise TraceError(str(error), ".strategy") from None


def check_version(value: Any) -> None:
    """Refuse what is no trace, or one of another schema version."""
    if type(value) is not dict:
        raise TraceError(f"the file must hold an object, got {shown(value)}")
    if value.get("format") != FORMAT:
        raise TraceError(f"must be {FORMAT!r}, got {shown(value.get('format'))}", ".format")
    version = value.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        age = "newer" if type(version) is int and version > SCHEMA_VERSION else "not known"
        raise TraceError(
            f"{shown(version)} is {age} here; this program reads version {SCHEMA_VERSION}",
            ".schema_version",
        )


def read_trace(value: Any) -> tuple[DecodeTrace, Settings]:
    """A trace of well-formed parts, and its settings as objects. Raises TraceError."""
    check_version(value)
    names = tuple(item.name for item in fields(DecodeTrace))
    check_keys(value, ("format", "schema_version", *names), ("prompt_format", "guide"))
    model = within(".model", MODEL, value["model"])
    token = whole(0, model.vocab_size - 1)
    within(".model.mask_token_id", token, model.mask_token_id)
    within(".model.eos_token_ids", items(token, 64), list(model.eos_token_ids))
    settings = read_settings(value)
    prompt_ids = within(".prompt_token_ids", items(token, MAX_PROMPT), value["prompt_token_ids"])
    if not prompt_ids:
        raise TraceError("is empty; a run starts from at least one token", ".prompt_token_ids")
    gen_length = settings.config.gen_length
    step = step_reader(model.vocab_size, len(prompt_ids) + gen_length)
    trace = DecodeTrace(
        prompt=within(".prompt", text(1_000_000), value["prompt"]),
        prompt_token_ids=prompt_ids,
        prompt_format=within(".prompt_format", LABEL, value.get("prompt_format", "")),
        model=model,
        **settings.described(),
        token_texts=within(".token_texts", token_texts(model.vocab_size), value["token_texts"]),
        steps=within(".steps", items(step, gen_length), value["steps"]),
        status=within(".status", choice(*STATUSES), value["status"]),
        guide=within(".guide", optional(MODEL), value.get("guide")),
    )
    return trace, settings
