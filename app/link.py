"""A link that restores what a page shows, in its query string: run, settings, step and tab, the
runs that are compared, the lesson.

Everything that comes from a link is a stranger's: it is bounded, checked and clamped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from app.compare import CLOCKS
from app.controls import MAX_PROMPT_CHARACTERS, controls, raw_of, value_of
from app.lessons import LESSONS
from app.presets import EMBEDDED
from app.words import LANGUAGES
from flash_dllm.caches import CACHES
from flash_dllm.strategies import STRATEGIES

TABS = ("watch", "lab", "compare", "sweep", "learn", "traces", "figure")
LONGEST = 64  # characters of a setting's value
LONGEST_STEP = 6  # digits
MOST_COMPARED = 4
MOST = 100  # parameters
FIRST_CLOCK = "passes"
# what is no setting
OWN = ("example", "run", "prompt", "model", "step", "tab", "job", "lang", "strategy", "cache",
       "compare", "clock", "lesson")  # fmt: skip


@dataclass(frozen=True)
class Link:
    """What a link asks for; what it leaves out has its default.

    example   key of an example's recorded run, or ""
    run       name of a kept run, or ""
    model     a name of `app/models.py`; whoever follows the link checks that it is known there
    settings  control values that differ from the defaults of `model`
    step      counted from 1; 0 for a telling one
    job       number of a run that was waiting or going on, or ""; only for a reload of the page
    language  of the sentences, or "" for the reader's own
    compared  values of `app/shelf.py::choices` of the runs in Compare, A first; () for none
    clock     Compare's, one of `app/compare.py::CLOCKS`
    lesson    key of the open lesson
    """

    example: str = ""
    run: str = ""
    prompt: str = ""
    model: str = EMBEDDED
    settings: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    tab: str = "watch"
    job: str = ""
    language: str = ""
    compared: tuple[str, ...] = ()
    clock: str = FIRST_CLOCK
    lesson: str = LESSONS[0].key

    @property
    def is_language_only(self) -> bool:
        """Whether it asks for nothing but a language."""
        return self == Link(language=self.language)


def query_of(link: Link) -> str:
    """The query string of a link, without the question mark."""
    parts: dict[str, str] = {}
    for name in ("example", "run"):
        if getattr(link, name):
            parts[name] = getattr(link, name)
    if link.prompt:
        parts["prompt"] = link.prompt
    if link.model != EMBEDDED:
        parts["model"] = link.model
    known = controls()
    for name, value in link.settings.items():
        raw = raw_of(known[name], value) if name in known else value
        parts[name] = str(raw)
    if link.step:
        parts["step"] = str(link.step)
    if link.tab != "watch":
        parts["tab"] = link.tab
    if link.job:
        parts["job"] = link.job
    if link.language:
        parts["lang"] = link.language
    if link.compared:
        parts["compare"] = ",".join(link.compared)
    if link.clock != FIRST_CLOCK:
        parts["clock"] = link.clock
    if link.lesson != LESSONS[0].key:
        parts["lesson"] = link.lesson
    return urlencode(parts)


def read_link(parameters: Mapping[str, str]) -> Link | None:
    """The link in a page's query parameters; None if they ask for nothing of ours.

    Raises ValueError in one sentence for a value that can't be.
    """
    known = controls()
    asked = {
        key: str(value) for key, value in parameters.items() if key in OWN or key in known
    }
    if not asked:
        return None
    prompt = asked.get("prompt", "")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise ValueError(
            f"the link's prompt has {len(prompt)} characters; at most {MAX_PROMPT_CHARACTERS} are "
            "allowed"
        )
    runs = tuple(filter(None, asked.pop("compare", "").split(",")))
    if len(runs) > MOST_COMPARED:
        raise ValueError(
            f"the link's compare must name at most {MOST_COMPARED} runs, got {len(runs)}"
        )
    for key, value in (*asked.items(), *(("compare", name) for name in runs)):
        if key != "prompt" and len(value) > LONGEST:
            raise ValueError(f"the link's {key} is longer than {LONGEST} characters")
    return Link(
        asked.get("example", ""),
        asked.get("run", ""),
        prompt,
        asked.get("model", EMBEDDED),
        _settings(asked),
        _step(asked.get("step", "0")),
        _one_of("tab", asked.get("tab", "watch"), TABS),
        asked.get("job", ""),
        _one_of("lang", asked.get("lang", ""), ("", *LANGUAGES)),
        runs,
        _one_of("clock", asked.get("clock", FIRST_CLOCK), CLOCKS),
        _one_of("lesson", asked.get("lesson", LESSONS[0].key), [item.key for item in LESSONS]),
    )


def parameters(query: str) -> dict[str, str]:
    """A query string's parameters. Raises ValueError if there are too many.

    >>> parameters("?gamma=0.5&block_length=")
    {'gamma': '0.5', 'block_length': ''}
    """
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=MOST)
    return dict(pairs)


def changed(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that a link has to carry."""
    return {
        name: value
        for name, value in values.items()
        if name in defaults and value != defaults[name]
    }


def _settings(asked: Mapping[str, str]) -> dict[str, Any]:
    known = controls()
    values: dict[str, Any] = {}
    for name, text in asked.items():
        if name in ("strategy", "cache"):
            values[name] = _one_of(name, text, STRATEGIES if name == "strategy" else CACHES)
        elif name in known:
            control = known[name]
            raw: Any = text
            if control.kind == "check":
                raw = _one_of(name, text, ("True", "False")) == "True"
            elif control.kind == "choice":
                raw = _one_of(name, text, control.choices)
            elif control.kind in ("slider", "number"):
                raw = _number(name, text, control.low, control.high)
                raw = int(raw) if control.is_whole else raw
            values[name] = value_of(control, raw)
    return values


def _number(name: str, text: str, low: float | None, high: float | None) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"the link's {name} must be a number, got {text!r}") from None
    if value != value:
        raise ValueError(f"the link's {name} must be a number, got {text!r}")
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)


def _step(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > LONGEST_STEP:
        raise ValueError(f"the link's step must be a whole number, got {text!r}")
    return int(text)


def _one_of(name: str, text: str, allowed) -> str:
    if text not in allowed:
        names = ", ".join(filter(None, allowed))
        raise ValueError(f"the link's {name} must be one of {names}, got {text!r}")
    return text
