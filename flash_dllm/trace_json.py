"""Traces as JSON text and files. Whatever is read is checked: files come from strangers.

The text is plain ASCII, so single surrogates (bytes of a split character) survive, and equal
traces give equal texts. (A high surrogate followed by a low one is one character in JSON.)
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, fields
from typing import Any, NoReturn

from flash_dllm.caches import CACHES
from flash_dllm.config import DecodeConfig
from flash_dllm.files import write_text
from flash_dllm.json_reader import shown
from flash_dllm.strategies import STRATEGIES
from flash_dllm.trace import SCHEMA_VERSION, DecodeTrace, TraceError
from flash_dllm.trace_replay import replay
from flash_dllm.trace_schema import FORMAT, read_trace

__all__ = ["MAX_BYTES", "TraceError", "from_json", "load", "run_id", "save", "to_json"]

MAX_BYTES = 32 * 2**20


def to_json(trace: DecodeTrace) -> str:
    """The trace as one line of ASCII; `from_json` gives an equal trace back."""
    return _dump({"format": FORMAT, "schema_version": SCHEMA_VERSION, **_tree(trace)})


def from_json(text: str | bytes) -> DecodeTrace:
    """Read and check a trace; raises TraceError in one sentence that says where and what."""
    if len(text) > MAX_BYTES:
        raise TraceError(f"the file is larger than {MAX_BYTES // 2**20} MiB")
    trace, settings = read_trace(_parse(text))
    replay(trace, settings)
    return trace


def save(trace: DecodeTrace, path: str | os.PathLike[str]) -> None:
    """Write the trace to a file, all or nothing: on TraceError the previous file is as it was."""
    text = to_json(trace)
    if len(text) > MAX_BYTES:
        raise TraceError(f"the trace needs more than {MAX_BYTES // 2**20} MiB and is not saved")
    try:
        write_text(path, text)
    except ValueError as error:
        raise TraceError(str(error)) from None
    except OSError as error:
        raise TraceError(f"can't write {shown(str(path))}: {_reason(error)}") from None


def load(path: str | os.PathLike[str]) -> DecodeTrace:
    """Read a trace from a file. Raises TraceError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TraceError(f"can't read {shown(str(path))}: {_reason(error)}") from None
    return from_json(data)


def run_id(trace: DecodeTrace) -> str:
    """Short hash of header and settings: the same before, during and after the run."""
    tree = _tree(trace)
    header = {key: tree[key] for key in tree if key not in ("steps", "status", "token_texts")}
    return hashlib.sha256(_dump(header).encode("ascii")).hexdigest()[:12]


def _tree(trace: DecodeTrace) -> dict[str, Any]:
    """The trace as dicts and lists, in an order that depends on its values only."""
    tree = asdict(trace)
    for name in ("strategy", "cache", "config"):
        tree[name] = dict(sorted(tree[name].items()))
    for step in tree["steps"]:
        for name in ("rechecks", "branches"):
            if not step[name]:
                del step[name]  # of strategies that ask for no such thing
        for record in step["passes"]:
            if not record["route"]:
                del record["route"]  # there was no choice
            if not record["layers"]:
                del record["layers"], record["row_layers"]  # a file from before they were recorded
            if not record["compared"]:
                del record["compared"]
        for proposal in step["proposals"]:
            if proposal["change"] is None:
                del proposal["change"]  # not asked
        for name in ("guide_scores", "guide_passes"):
            if not step[name]:
                del step[name]  # there was no guide
        for record in step.get("guide_passes", ()):
            # a guide's passes have no choice, and its layers are not the model's
            del record["route"], record["layers"], record["row_layers"], record["compared"]
    for name, usual in (("shift", 0), ("causal_block", None)):
        # written for the models that need it: other files stay what they were
        if tree["model"][name] == usual:
            del tree["model"][name]
    if tree["guide"] is None:
        del tree["guide"]
    if not tree["prompt_format"]:
        del tree["prompt_format"]
    for part, kind in (
        ("config", DecodeConfig),
        ("strategy", STRATEGIES.get(trace.strategy["name"], DecodeConfig)),
        ("cache", CACHES.get(trace.cache["name"], DecodeConfig)),
    ):
        for item in fields(kind):
            if item.metadata.get("may_lack") and tree[part].get(item.name) == item.default:
                del tree[part][item.name]
    tree["token_texts"] = {str(token): s for token, s in sorted(tree["token_texts"].items())}
    return tree


def _dump(tree: dict[str, Any]) -> str:
    try:
        return json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise TraceError("the trace holds a number that is not finite") from None


def _parse(text: str | bytes) -> Any:
    """JSON of any content, but no duplicate keys and no NaN. Raises TraceError."""
    try:
        string = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(string, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except TraceError:
        raise
    except UnicodeDecodeError as error:
        raise TraceError(f"byte {error.start} of the file is not UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise TraceError(f"the file is not JSON at {place}: {error.msg}") from None
    except ValueError:
        raise TraceError("the file holds a number with too many digits") from None
    except RecursionError:
        raise TraceError("the file is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    done = dict(pairs)
    if len(done) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise TraceError(f"the file has the key {shown(key)} twice in one object")
            seen.add(key)
    return done


def _refuse_constant(name: str) -> NoReturn:
    raise TraceError(f"the file holds {name}, which is no number")


def _reason(error: Exception) -> str:
    """What the system says, without the path."""
    return getattr(error, "strerror", None) or str(error)
