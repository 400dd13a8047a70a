"""A run that was asked for, and the news of it. Knows neither model nor page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flash_dllm.caches.base import CachePolicy
from flash_dllm.config import DecodeConfig
from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.trace import DecodeTrace, StepTrace

RAW = "raw text"  # a trace's prompt_format


@dataclass(frozen=True)
class Job:
    """A run that was asked for; `stop` ends it after the step that is going on.

    visitor  who asked for it; "" is a visitor of its own
    left   set when its page shows something else
    ended  set when its last update was taken
    steps  what was decoded so far
    kept   the name of its trace, when it has ended with steps
    born   when it was asked for, by the clock of `time.monotonic`
    raw    the prompt is plain text, without the model's chat template
    """

    prompt: str
    model: str
    strategy: DecodingStrategy
    cache: CachePolicy
    config: DecodeConfig
    visitor: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    steps: list[StepTrace] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    born: float = field(default_factory=time.monotonic)
    raw: bool = False

    @property
    def prompt_format(self) -> str:
        """What the trace says of it; "" leaves it to the model's template."""
        return RAW if self.raw else ""


@dataclass(frozen=True)
class Update:
    """News of a run.

    status  the status line
    header  with the first update of a run that has begun: the trace without steps
    steps   since the last update
    trace   with the last update: everything that was decoded
    name    with the trace, if it has steps: what it is kept under
    error   with the last update of a run that failed
    text_of with the header: id → text of any token
    """

    status: str
    header: DecodeTrace | None = None
    steps: tuple[StepTrace, ...] = ()
    trace: DecodeTrace | None = None
    name: str = ""
    error: str = ""
    text_of: Callable[[int], str] | None = None
