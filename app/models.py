"""The models of this server by name: loaded once for all visitors, unloaded on request.

A run holds the engine that it began with, so that unloading never breaks it; its memory is free
when the last such run has ended. Knows no gradio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.device_turns import DeviceTurns
from app.presets import EMBEDDED, TOY, complete_toy
from app.said import Said, either, listed, said
from app.store import RunError
from app.words import LANGUAGES
from flash_dllm.caches import CACHES
from flash_dllm.engine_protocol import Engine
from flash_dllm.models.presets import ModelPreset

LONGEST_NAME = 200
OWN = "own"  # the preset that the model's folder carries
NOT_HERE = said("not_here")


@dataclass(frozen=True)
class Facts:
    """What is loaded, in words and names.

    attention  "bidirectional" or "block-causal"
    line       name, parameters, dtype, device, implementation, memory
    """

    attention: str
    line: Said


class Models:
    """Names, how each is loaded, and the engines of those that are.

    choice   how the embedded model (or the folder in its place) is loaded
    engines  by name; only those that are loaded
    is_open  whether visitors may load other models
    """

    def __init__(self, choice: dict[str, Any], is_open: bool = True) -> None:
        self.is_open = is_open
        self.engines: dict[str, Any] = {}
        self._choices: dict[str, dict[str, Any]] = {EMBEDDED: choice, TOY: {}}
        self._loading = threading.Lock()
        self.turns = DeviceTurns()

    def names(self) -> list[str]:
        """The models that can be chosen, loaded or not."""
        return list(self._choices)

    def add(self, source: str, dtype: str = "auto", quantize: str = "none") -> str:
        """Make a hub name or a folder known; returns the name to choose it by.

        Raises RunError for what can't be one. Nothing is loaded yet.
        """
        if not self.is_open:
            raise RunError(NOT_HERE)
        source = source.strip()
        if not source or len(source) > LONGEST_NAME:
            raise RunError(said("type_a_source", most=LONGEST_NAME))
        from flash_dllm.models import is_source

        if not is_source(source):
            raise RunError(said("no_source", source=source))
        extras = [part for part, usual in ((dtype, "auto"), (quantize, "none")) if part != usual]
        name = ", ".join([source, *extras])
        shared = {key: self._choices[EMBEDDED][key] for key in ("impl", "device", "graphs")}
        self._choices[name] = {**shared, "folder": source, "dtype": dtype, "quantize": quantize}
        return name

    def forget(self, name: str) -> None:
        """No longer offer a model that can't be loaded."""
        if name not in (EMBEDDED, TOY) and name not in self.engines:
            self._choices.pop(name, None)

    def check(self, name: str) -> None:
        """Raise RunError if there is no model of that name."""
        if name not in self._choices:
            known = ", ".join(self._choices)
            raise RunError(said("model_one_of", known=known, name=repr(name)))

    def engine(self, name: str, say: Callable[[str], None] | None = None) -> Engine:
        """The engine of that name, loaded once; those that are loaded never wait. Raises RunError.

        say  gets a sentence per stage
        """
        if name in self.engines:
            return self.engines[name]
        self.check(name)
        with self._loading:
            if name not in self.engines:
                self.engines[name] = complete_toy() if name == TOY else self._load(name, say)
            return self.engines[name]

    def stages(self, name: str, every: float = 0.25) -> Iterator[Said]:
        """Load a model and say how far it is, with the seconds so far. Raises RunError."""
        stages, failures = [said("loading")], []
        begin = time.monotonic()

        def load() -> None:
            try:
                self.engine(name, lambda words: stages.append(Said([words] * len(LANGUAGES))))
            except Exception as error:
                failures.append(error)

        loader = threading.Thread(target=load, daemon=True)
        loader.start()
        while loader.is_alive():
            seconds = time.monotonic() - begin
            now = stages[-1]
            yield now if seconds < 1 else said("waited", line=now, seconds=f"{seconds:.0f}")
            loader.join(every)
        if failures:
            raise failures[0]

    def unload(self, name: str) -> Said:
        """Give a model's memory back; the sentence that says so. It stays in the list."""
        engine = self.engines.pop(name, None)
        if engine is None:
            return said("was_not_loaded", name=name)
        if hasattr(engine, "free"):
            engine.free()
            del engine
            from flash_dllm.models.memory import give_back

            give_back()
        return said("unloaded", name=name)

    def facts(self, name: str) -> Facts:
        """What is known of a model: all of it once it is loaded."""
        engine = self.engines.get(name)
        if engine is None:
            block = self._config(name).get("block_size") is not None
            attention = "block-causal" if block else "bidirectional"
            return Facts(attention, said("not_loaded", name=name))
        info = engine.info
        parts: list[str] = [info.dtype, info.device, info.impl]
        if hasattr(engine, "model"):
            from flash_dllm.models.memory import count, held, size

            parts[:0] = [said("parameters", count=count(engine.model.weights.count))]
            parts.append(said("of_memory", size=size(held(engine))))
            # looked up, not asked for: that would load it
            if (guide := vars(engine).get("guide")) is not None:
                taken = size(held(guide.engine))
                parts.append(said("of_guide", size=taken, name=guide.info.name))
        attention = said(info.attention)
        inside = listed([part for part in parts if part])
        return Facts(
            info.attention, said("is_loaded", name=info.name, parts=inside, attention=attention)
        )

    def caches(self, name: str) -> list[str]:
        """The caches that fit a model's attention."""
        attention = self.facts(name).attention
        return [key for key, kind in CACHES.items() if attention in kind.fits]

    def presets(self, name: str) -> dict[str, ModelPreset]:
        """The settings that a model can start from: its family's published ones, then the peers.

        Those whose cache does not fit its attention are left out.
        """
        from flash_dllm.models import presets_of

        path = self.folder(name)
        found = {} if path is None else presets_of(path)
        fitting = set(self.caches(name))
        return {key: p for key, p in found.items() if p.settings["cache"]["name"] in fitting}

    def preset(self, name: str) -> Mapping[str, Any]:
        """The settings that a model starts with. Raises ValueError for a broken preset.json."""
        from flash_dllm.models import load_preset

        path = self.folder(name)
        return {} if path is None else load_preset(path)

    def folder(self, name: str) -> Path | None:
        """Where a model's small files are; None while a hub name is not downloaded."""
        from flash_dllm.models import locate

        source = self._choices.get(name, {}).get("folder")
        try:
            return locate(source, offline=True)
        except (OSError, ValueError):
            return None

    def of(self, fingerprint: str, impl: str) -> str:
        """The model that a trace or a study was made with; the embedded one if it is not here."""
        if impl == "scripted":
            return TOY
        same = (n for n, e in self.engines.items() if e.info.fingerprint == fingerprint)
        return next(same, EMBEDDED)

    def named(self, source: str | None, dtype: str = "auto", quantize: str = "none") -> str:
        """The name of a model that is loaded this way, made known if it is not yet. Raises
        RunError."""
        embedded = self._choices[EMBEDDED]
        if source is None or source == embedded["folder"]:
            return EMBEDDED
        return self.add(source, dtype, quantize)

    def choice(self, name: str) -> dict[str, Any]:
        """How a model is loaded, in the keys of a sweep file."""
        keys = {"folder": "model", "dtype": "dtype", "device": "device", "impl": "impl",
                "quantize": "quantize"}  # fmt: skip
        chosen = self._choices[name]
        return {keys[key]: value for key, value in chosen.items() if key in keys}

    def _config(self, name: str) -> dict[str, Any]:
        from flash_dllm.files import read_json

        path = None if name == TOY else self.folder(name)
        try:
            return {} if path is None else read_json(path / "config.json")
        except (OSError, ValueError):
            return {}

    def _load(self, name: str, say: Callable[[str], None] | None) -> Engine:
        try:
            from flash_dllm.models import leave_one_core, load_model

            leave_one_core()
            return load_model(**self._choices[name], say=say)
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            others = [other for other in self.engines if other not in (name, TOY)]
            is_short = "but" in str(error) and "free" in str(error)
            advice = said("or_unload", names=either(others)) if is_short and others else ""
            raise RunError(said("model_failed", error=error, advice=advice)) from error
