"""A page in headless Chromium that counts what must not happen: errors and foreign requests."""

import shutil
import socket
from contextlib import contextmanager

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# how long a page may keep a test waiting: long, since a busy machine is no fault of the page's
PATIENCE = 60_000  # ms
HERE = ("http://127.0.0.1", "data:", "blob:", "about:", "file:")


def chromium() -> str | None:
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def browser():
    """Chromium through playwright's ordinary interface."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@contextmanager
def opened(started, url: str, width: int = 1280, height: int = 900, wait_for: str = ".tk"):
    """A page at `url`; afterwards it must have logged no error and asked nobody else."""
    context = started.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    faults: list[str] = []
    visited: list[str] = []

    def logged(message):
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def asked(request):
        if not request.url.startswith(HERE):
            faults.append(f"request: {request.url}")

    page.on("console", logged)
    page.on("pageerror", lambda error: faults.append(f"page: {error}"))
    page.on("request", asked)
    page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
    page.on("framenavigated", lambda frame: visited.append(f"went to {frame.url}"))
    try:
        page.goto(url)
        if wait_for:
            page.wait_for_selector(wait_for)
        yield page
    except Exception as error:
        error.add_note(f"what the page logged: {visited + faults}")
        error.add_note(f"what it showed: {page.inner_text('body')[:3000]!r}")
        raise
    finally:
        context.close()
    assert faults == [], faults


# the marks of a file that drives the served page
BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None, reason="chromium is not installed (apt-get install chromium)"
    ),
    # gradio's and starlette's own calls into each other, not ours
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CHARTS = ".fd-gamma[aria-valuenow]"
# Gradio mounts what an accordion or a tab holds when it is first opened, and writes each field's
# own value once more a few milliseconds later: words put in between are lost, so wait until the
# page has nothing left to do.
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestIdleCallback(done)))"


@contextmanager
def served(runs):
    """The page on a free port; gives its address."""
    from app.serve import launch
    from app.ui import build

    demo = build(runs)
    _, address, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    yield address
    demo.close(verbose=False)


def step_of(page) -> int:
    return int(page.get_attribute(".fd", "data-step"))


def choose_toy(page) -> None:
    page.get_by_label("Example").click()
    page.get_by_role("option", name="Toy example").click()
    page.wait_for_function("document.querySelectorAll('.tk').length === 4")


def typed(page, field: str, words: str) -> None:
    """Put `words` into the first field that the selector names, as somebody at the page can."""
    found = page.locator(field).first
    found.wait_for()
    page.evaluate(SETTLED)
    found.fill(words)


def status(page, pattern: str) -> str:
    page.wait_for_function(
        "p => new RegExp(p).test(document.querySelector('#fd-status p')?.innerText ?? '')",
        arg=pattern,
    )
    return page.inner_text("#fd-status p")
