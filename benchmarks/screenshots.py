"""Pictures of every tab for the documents, light and dark: python benchmarks/screenshots.py

Starts the page on a free port, opens each tab in headless Chromium at a telling place, and writes
docs/img/<tab>.png and docs/img/<tab>-dark.png.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

FOLDER = ROOT / "docs" / "img"
WIDTH, HEIGHT = 1280, 900


def watch(page) -> None:
    page.wait_for_timeout(300)


def tokens(page) -> None:
    """The life of a position that changed its mind, below the run map."""
    page.select_option(".fd-colour select", "step")
    page.locator(".fd-foot").scroll_into_view_if_needed()


def lab(page) -> None:
    _open(page, "Verify lab", "[data-block=plane] .main-svg")
    page.locator(".bd-matrix tbody tr").nth(12).hover()
    # the row stays lit; ladder and plane stand above it
    page.evaluate("scrollTo(0, 0)")


def compare(page) -> None:
    _open(page, "Compare", "[data-block=progress] .main-svg")
    page.locator("#fd-compare-board [type=range]").fill("500")


def sweep(page) -> None:
    _open(page, "Sweep", "[data-block=front] .main-svg")
    page.locator("[data-block=points] .bd-link").first.click()
    page.wait_for_selector("[data-block=point] td")
    # the point stays chosen; heatmap and front stand above its row
    page.evaluate("scrollTo(0, 0)")


def learn(page) -> None:
    _open(page, "Learn", "#fd-lesson [data-block=question]")
    page.locator("#fd-lesson [data-block=lessons] button").nth(4).click()
    page.wait_for_selector("#fd-lesson h2:has-text('mismatch')")
    page.locator("#fd-lesson [data-block=question] button").nth(1).click()
    page.wait_for_selector("[data-block=challenge]")


def traces(page) -> None:
    _open(page, "Traces", "[data-block=facts] td")


TABS = {
    "watch": watch, "tokens": tokens, "lab": lab, "compare": compare, "sweep": sweep,
    "learn": learn, "traces": traces,
}  # fmt: skip


def _open(page, name: str, drawn: str) -> None:
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector(drawn)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tabs", nargs="*", help=f"{', '.join(TABS)}; all of them by default")
    chosen = parser.parse_args().tabs or list(TABS)

    from app.runs import Runs
    from app.serve import launch
    from app.ui import build
    from tests.browser_page import browser, free_port

    demo = build(Runs())
    _, url, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with browser() as chrome:
        for name in chosen:
            for theme, ending in (("light", ""), ("dark", "-dark")):
                context = chrome.new_context(viewport={"width": WIDTH, "height": HEIGHT})
                page = context.new_page()
                page.goto(f"{url}?__theme={theme}")
                page.wait_for_selector(".fd-gamma[aria-valuenow]")
                TABS[name](page)
                page.wait_for_timeout(900)
                page.screenshot(path=FOLDER / f"{name}{ending}.png")
                context.close()
    demo.close(verbose=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
