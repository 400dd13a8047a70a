"""A sweep as its YAML file says it.

    study: preset-word            # name; studies of one storage are told apart by it
    storage: sqlite:///sweep.db   # default: a SQLite file beside this one; or postgresql+psycopg://…
    sampler: grid                 # grid, random, tpe (Optuna's default) or nsga2
    trials: 40                    # how many, all samplers but grid
    seed: 0
    objectives: {accuracy: maximize, tokens_per_pass: maximize}
    model: assets/tiny            # default: the embedded model
    tasks: [word, algebra]
    limit: 64                     # items a task
    prompts: [Tell a story.]      # prompts of your own, beside the tasks or instead of them
    batch: 32
    fixed: {strategy: flash_verify, cache: flash}
    search:
      gamma: [0.6, 0.7, 0.8]                  # one of these
      preset: [fast_dllm, dkv_cache]          # a peer, on top of whose settings the others come
      epsilon: {low: 0.8, high: 0.99}         # a number between; step and log as in Optuna
      track_size: {low: 16, high: 64, step: 16}
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from flash_dllm.caches import CACHES
from flash_dllm.config import DecodeConfig
from flash_dllm.evaluation.tasks import TASKS
from flash_dllm.models import DTYPES, QUANTIZATIONS
from flash_dllm.settings import knobs_of
from flash_dllm.strategies import STRATEGIES

SAMPLERS = ("grid", "random", "tpe", "nsga2")
# what a prompt of one's own has no answer for
NEEDS_TASKS = ("accuracy",)
METRICS = (
    "accuracy", "agreement", "tokens_per_step", "tokens_per_pass", "rows_per_token", "seconds",
    "tokens_per_second",
)  # fmt: skip
DIRECTIONS = ("maximize", "minimize")
TEXTS = ("study", "storage", "model", "device", "dtype", "impl", "quantize", "data")
MAY_BE_NONE = ("model", "data")
# what a machine computes with; whether the workers' machine can is theirs to say
CHOICES = {"dtype": DTYPES, "impl": ("auto", "torch", "triton"), "quantize": QUANTIZATIONS}


@dataclass(frozen=True)
class SweepFile:
    """A checked sweep; the fields are the file's keys."""

    study: str
    storage: str
    search: dict[str, Any]
    objectives: dict[str, str]
    tasks: tuple[str, ...]
    sampler: str = "grid"
    trials: int | None = None
    seed: int = 0
    model: str | None = None
    limit: int | None = None
    batch: int = 32
    device: str = "auto"
    dtype: str = "auto"
    impl: str = "auto"
    quantize: str = "none"
    data: str | None = None
    allow_unsandboxed: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)
    prompts: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The storage as it may be shown: without a password."""
        return shown_address(self.storage)

    def combinations(self) -> list[dict[str, Any]]:
        """All points of a grid, the last knob changing fastest."""
        values = itertools.product(*self.search.values())
        return [dict(zip(self.search, point, strict=True)) for point in values]

    @property
    def total(self) -> int:
        """How many trials the sweep has in all."""
        if self.sampler == "grid":
            return len(self.combinations())
        assert self.trials is not None, "checked when the file was read"
        return self.trials


def shown_address(storage: str) -> str:
    """A storage's address without its password.

    >>> shown_address("postgresql://me:secret@host/sweeps")
    'postgresql://me:***@host/sweeps'
    """
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:***@", storage)


def read_sweep(path: Path) -> SweepFile:
    """Read and check a sweep. Raises OSError or ValueError in one sentence."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not valid YAML ({reason})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold keys and values; see docs/evaluation.md")
    known = {item.name for item in fields(SweepFile)}
    if foreign := [str(key) for key in content if key not in known]:
        raise ValueError(
            f"{path}: unknown key {', '.join(foreign)}; known are {', '.join(sorted(known))}"
        )
    content.setdefault("study", path.stem)
    content.setdefault("storage", f"sqlite:///{path.resolve().with_suffix('.db')}")
    try:
        return checked(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def checked(content: dict[str, Any]) -> SweepFile:
    """The sweep that a file's keys say, `study` and `storage` among them. Raises ValueError."""
    content = dict(content)
    content.setdefault("prompts", [])
    content.setdefault("tasks", [] if content["prompts"] else ["word"])
    quality = "accuracy" if content["tasks"] else "agreement"
    content.setdefault("objectives", {quality: "maximize", "tokens_per_pass": "maximize"})
    problem = _problem(content)
    if problem is not None:
        raise ValueError(problem)
    lists = {key: tuple(content[key]) for key in ("tasks", "prompts")}
    return SweepFile(**{**content, **lists})


def as_yaml(sweep: SweepFile) -> str:
    """The file that describes a sweep, without the place of its storage."""
    import yaml

    content = {
        item.name: getattr(sweep, item.name)
        for item in fields(SweepFile)
        if item.name != "storage" and getattr(sweep, item.name) != item.default
    }
    content = {key: list(v) if isinstance(v, tuple) else v for key, v in content.items() if v}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _problem(content: dict[str, Any]) -> str | None:
    """What is wrong with a file's content, in words."""
    sampler, objectives = content.get("sampler", "grid"), content["objectives"]
    tasks, search, fixed = content["tasks"], content.get("search"), content.get("fixed", {})
    if sampler not in SAMPLERS:
        return f"sampler must be one of {', '.join(SAMPLERS)}, got {sampler!r}"
    if sampler != "grid" and not _is_count(content.get("trials")):
        return f"sampler {sampler} needs trials, a whole number from 1 on"
    if not isinstance(objectives, dict) or not objectives or not set(objectives) <= set(METRICS):
        return f"objectives must be among {', '.join(METRICS)}, got {objectives!r}"
    if not all(direction in DIRECTIONS for direction in objectives.values()):
        return f"objectives must each be maximize or minimize, got {objectives!r}"
    prompts = content["prompts"]
    if not isinstance(prompts, list) or not all(isinstance(p, str) and p.strip() for p in prompts):
        return f"prompts must be a list of texts, got {prompts!r}"
    is_listed = isinstance(tasks, list) and all(task in TASKS for task in tasks)
    if not is_listed or not (tasks or prompts):
        return f"tasks must be a list among {', '.join(TASKS)}, got {tasks!r}"
    if not tasks and (unknown := [name for name in NEEDS_TASKS if name in objectives]):
        return f"objectives: {unknown[0]} needs tasks; prompts alone have agreement"
    if content.get("limit") is not None and not _is_count(content["limit"]):
        return f"limit must be a whole number from 1 on, got {content['limit']!r}"
    if not _is_count(content.get("batch", 1)):
        return f"batch must be a whole number from 1 on, got {content['batch']!r}"
    if (problem := _kind_problem(content)) is not None:
        return problem
    if not isinstance(search, dict) or not search:
        return "search must name at least one knob"
    if not isinstance(fixed, dict):
        return f"fixed must be knobs and values, got {fixed!r}"
    named = ("preset", "strategy", "cache")
    knobs = knobs_of(*STRATEGIES.values(), *CACHES.values(), DecodeConfig)
    for name in (*search, *fixed):
        if name not in (*named, *knobs):
            return f"{name} is no knob; knobs are {', '.join([*named, *sorted(knobs)])}"
    if both := set(search) & set(fixed):
        return f"{', '.join(sorted(both))} stands in search and in fixed; leave one out"
    problems = (_search_problem(f"search.{n}", c, sampler) for n, c in search.items())
    return next((problem for problem in problems if problem is not None), None)


def _kind_problem(content: dict[str, Any]) -> str | None:
    """What is wrong with keys that hold a text, a seed, yes or no; YAML reads 2026 as a number."""
    for name in TEXTS:
        value = content.get(name, "")
        if not isinstance(value, str) and not (value is None and name in MAY_BE_NONE):
            return f"{name} must be a text, got {value!r} (quotes make one)"
    for name, choices in CHOICES.items():
        if content.get(name, choices[0]) not in choices:
            return f"{name} must be one of {', '.join(choices)}, got {content[name]!r}"
    if not re.fullmatch(r"auto|cpu|(cuda|mps)(:\d+)?", device := content.get("device", "auto")):
        return f"device must be auto, cpu, cuda or mps, got {device!r}"
    seed = content.get("seed", 0)
    if seed != 0 and not _is_count(seed):
        return f"seed must be a whole number from 0 on, got {seed!r}"
    if not isinstance(content.get("allow_unsandboxed", False), bool):
        return f"allow_unsandboxed must be true or false, got {content['allow_unsandboxed']!r}"
    return None


def _search_problem(name: str, choices: Any, sampler: str) -> str | None:
    """What is wrong with one knob's values: what Optuna would say only in the middle of a trial."""
    if isinstance(choices, list) and choices:
        if odd := [c for c in choices if not isinstance(c, (str, int, float, type(None)))]:
            return f"{name} must list numbers, texts, true, false or null, got {odd[0]!r}"
        written = [repr(choice) for choice in choices]
        if twice := [text for text in written if written.count(text) > 1]:
            # it would be measured twice
            return f"{name} holds {twice[0]} more than once"
        return None
    is_range = isinstance(choices, dict) and {"low", "high"} <= set(choices)
    if not is_range or not set(choices) <= {"low", "high", "step", "log"}:
        return f"{name} must be a list or have low, high (step, log), got {choices!r}"
    if sampler == "grid":
        return f"{name} must be a list for sampler grid, got {choices!r}"
    low, high, step = choices["low"], choices["high"], choices.get("step")
    numbers = [low, high] if step is None else [low, high, step]
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        return f"{name} must have numbers as low, high and step, got {choices!r}"
    if not low <= high or (step is not None and step <= 0):
        return f"{name} must have low up to high and a step above 0, got {choices!r}"
    if choices.get("log") and (low <= 0 or step is not None):
        return f"{name} must have a low above 0 and no step where log is true, got {choices!r}"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
