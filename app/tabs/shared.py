"""What all tabs use: quiet events, and errors told in a sentence."""

from __future__ import annotations

import functools
import inspect
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from app.player import packed
from app.runs import Runs
from app.store import RunError

log = logging.getLogger(__name__)
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# for what is answered at once: one request past gradio's queue, whose stream of news is opened and
# closed again for each event
SHORT: dict[str, Any] = {**QUIET, "queue": False}
# Events that carry a value of their own (a drag, a step): all of them, in the order of the queue.
# "always_last" would send the value of the one before again, which gradio keeps.
EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple"}


@contextmanager
def told() -> Iterator[None]:
    """What the visitor can mend is told in one sentence; the rest is logged under an id."""
    try:
        yield
    except RunError as error:
        raise gr.Error(str(error), title="", duration=None, print_exception=False) from None
    except gr.Error:
        raise
    except Exception as error:
        number = secrets.token_hex(3)
        log.exception("error %s", number)
        message = (
            "Something went wrong here: try it again, or reload the page; the server's log says "
            f"more under {number}."
        )
        raise gr.Error(message, duration=None, print_exception=False) from error


def stopping(runs: Runs, number: str) -> str | dict:
    """Stop a run; what its status line says then, if anything."""
    if not runs.stop(number):
        return packed("nothing is running")
    # a run that ends at once says so itself; words from here would come after its own
    is_over = runs.ends(number, within=0.5)
    return gr.skip() if is_over else packed("stopping after this step")


def telling(function: Callable) -> Callable:
    """A function for programs: as it is, but its errors are told in a sentence, too."""

    @functools.wraps(function)
    def call(*args: Any, **knobs: Any) -> Any:
        with told():
            return function(*args, **knobs)

    @functools.wraps(function)
    def stream(*args: Any, **knobs: Any) -> Iterator[Any]:
        with told():
            yield from function(*args, **knobs)

    return stream if inspect.isgeneratorfunction(function) else call


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
