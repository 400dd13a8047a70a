"""Small files in and out, with one clear sentence when it can't be done."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any


def _shown(path: str | os.PathLike[str]) -> str:
    """A path for a message: its end, if it is long."""
    text = str(path).encode("utf-8", "replace").decode()
    return text if len(text) <= 80 else f"…{text[-79:]}"


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise ValueError in one sentence if a file could not be written there.

    Meant for the door, before minutes of work: a folder, a device, a missing or closed folder.
    """
    if not str(path):
        raise ValueError("the file name is empty; give a name such as run.json")
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"{_shown(path)} is not a plain file; choose another name")
    if not target.parent.is_dir():
        raise ValueError(
            f"the folder of {_shown(path)} does not exist; create it or choose another"
        )
    if not os.access(target.parent, os.W_OK) or len(os.fsencode(target.name)) > 230:
        raise ValueError(
            f"{_shown(path)} can't be written; choose another folder or a shorter name"
        )


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file by a draft beside it, so that the previous one stays until this one is whole.

    Links are followed, devices refused. Raises ValueError as `check_target`, or OSError.
    """
    check_target(path)
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises FileNotFoundError or ValueError in one sentence."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path.name} is missing in {path.parent}; a model folder needs config.json, "
            "safetensors weights and tokenizer files"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} in {path.parent} is not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} in {path.parent} must hold a JSON object")
    return content
