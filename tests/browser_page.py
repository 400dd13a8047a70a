"""A page in headless Chromium that counts what must not happen: errors and foreign requests."""

import shutil
import socket
from contextlib import contextmanager

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
    page = context.new_page()
    faults: list[str] = []

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
    page.goto(url)
    if wait_for:
        page.wait_for_selector(wait_for, timeout=20_000)
    yield page
    context.close()
    assert faults == [], faults
