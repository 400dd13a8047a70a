"""What all tabs use: quiet events, and errors told in a sentence."""

from __future__ import annotations

import functools
import html
import inspect
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from app.arguments import checked
from app.player import packed
from app.runs import Runs
from app.said import said, within
from app.store import RunError
from app.words import LANGUAGES

log = logging.getLogger(__name__)
LANGUAGE_STATE = "fd-page-language"  # the State that holds the page's language (app/tabs/learn.py)
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# for what is answered at once: one request past gradio's queue, whose stream of news is opened and
# closed again for each event
SHORT: dict[str, Any] = {**QUIET, "queue": False}
# Events that carry a value of their own (a drag, a step): all of them, in the order of the queue.
# "always_last" would send the value of the one before again, which gradio keeps.
EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple"}


@contextmanager
def told(is_program: bool = False) -> Iterator[None]:
    """What the visitor can mend is told in one sentence, in the page's language; the rest is
    logged under an id.

    is_program  a program is told, not a page: the sentence as it is
    """
    shown = str if is_program else html.escape  # gradio shows markup in an error as markup
    try:
        yield
    except RunError as error:
        raise _error(shown(within(error.line, page_language()))) from None
    except gr.Error:
        raise
    except Exception as error:
        number = secrets.token_hex(3)
        log.exception("error %s", number)
        raise _error(said("unexpected", number=number).within(page_language())) from error


def _error(words: str) -> gr.Error:
    return gr.Error(words, title="", duration=None, print_exception=False)


def stopping(runs: Runs, number: str) -> str | dict:
    """Stop a run; what its status line says then, if anything."""
    if not runs.stop(number):
        return packed(said("nothing_running"))
    # a run that ends at once says so itself; words from here would come after its own
    is_over = runs.ends(number, within=0.5)
    return gr.skip() if is_over else packed(said("stopping"))


def telling(function: Callable) -> Callable:
    """A function for programs: as it is, but its errors are told in a sentence, too, and so are
    arguments of another kind than it takes."""
    careful = checked(function)

    @functools.wraps(function)
    def call(*args: Any, **knobs: Any) -> Any:
        with told(is_program=True):
            return careful(*args, **knobs)

    @functools.wraps(function)
    def stream(*args: Any, **knobs: Any) -> Iterator[Any]:
        with told(is_program=True):
            yield from careful(*args, **knobs)

    return stream if inspect.isgeneratorfunction(function) else call


def page_language() -> str:
    """The language of the page whose event is answered; English for programs."""
    blocks, request = LocalContext.blocks.get(None), LocalContext.request.get(None)
    session = request.session_hash if request else None
    if blocks is None or session is None or session not in blocks.state_holder:
        return LANGUAGES[0]
    state = next(part for part in blocks.blocks.values() if part.elem_id == LANGUAGE_STATE)
    return blocks.state_holder[session].get(state._id) or LANGUAGES[0]


def visitor() -> str:
    """Who is asking: one page, or one client; "" outside of a call and for an MCP client (gradio
    passes all of those on through one client of its own)."""
    request = LocalContext.request.get(None)
    if request is None or request.headers.get("x-gradio-user") == "mcp":
        return ""
    return str(request.session_hash or "")


def share(value: Any) -> float:
    """A threshold that came from the browser, forced into 0…1."""
    try:
        return round(min(1.0, max(0.0, float(value))), 2)
    except (TypeError, ValueError):
        return 0.0
