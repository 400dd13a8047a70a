"""F5 in headless Chromium: run, step, settings and tab come back; so does a run broken off."""

import re

import pytest

from app.presets import EMBEDDED
from app.runs import Runs
from tests.app_traces import SlowEngine
from tests.browser_page import BROWSER, CHARTS, choose_toy, opened, served, status, step_of, typed

pytestmark = BROWSER
KEPT = "JSON.parse(sessionStorage.getItem('flash-dllm' + location.pathname) || '{}')"


@pytest.fixture(scope="module")
def runs():
    made = Runs()
    made._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.2)
    return made


@pytest.fixture(scope="module")
def url(runs):
    with served(runs) as address:
        yield address


# What gradio says of its own stream when the page that reads it is left: its client closes the
# stream, from one of gradio's own scripts, and its status then calls that an error.
FAREWELL = re.compile(
    r"AbortError: signal is aborted without reason"
    r"(\n    at (\w+(\.\w+)* \()?http://127\.0\.0\.1:\d+/assets/[Ii]ndex-[\w-]+\.js:\d+:\d+\)?)+"
)
CLOSED = "Unexpected error Connection errored out. "


@pytest.fixture
def page(chrome, url):
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    faults: list[str] = []
    visits: list[str] = []
    tab.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("framenavigated", lambda f: visits.append(f.url) if f == tab.main_frame else None)
    tab.goto(url + "?__theme=light")
    tab.wait_for_selector(CHARTS)
    yield tab
    context.close()
    farewells = [fault for fault in faults if FAREWELL.fullmatch(fault) or fault == CLOSED]
    assert [fault for fault in faults if fault not in farewells] == []
    # one for each stream that was open when a page was left; a page that stays has none
    assert len(visits) > 1 or not farewells, farewells


def kept(page, words: str) -> None:
    page.wait_for_function(f"w => ({KEPT}.query || '').includes(w)", arg=words)


def again(page, status_begins: str) -> str:
    page.reload()
    page.wait_for_selector(CHARTS, state="attached")  # another tab may be in front again by now
    return status(page, f"^{status_begins}")


def test_run_step_settings_and_tab_come_back(page):
    choose_toy(page)
    page.focus(".fd")
    page.keyboard.press("End")
    page.wait_for_selector(".fd[data-step='3']")
    typed(page, "#fd-gamma input[type=number]", "0.55")
    typed(page, "#fd-prompt-box textarea", "^ ")
    kept(page, "step=3")
    kept(page, "gamma=0.55")
    kept(page, "prompt=%5E+")
    page.get_by_role("tab", name="Verify lab").click()
    page.wait_for_function(f"{KEPT}.tab === 'lab'")
    again(page, "Opened from a link")
    page.wait_for_selector("[data-block=ladder] .main-svg")
    page.get_by_role("tab", name="Watch").click()
    page.wait_for_selector(".fd[data-step='3']")
    assert page.locator(".fd .tk").count() == 4
    assert page.input_value("#fd-gamma input[type=number]") == "0.55"
    assert page.input_value("#fd-prompt-box textarea") == "^ "
    assert page.input_value("#fd-gen_length input") == "4"


def test_a_run_that_the_reload_broke_off_comes_back_as_far_as_it_was(page, runs):
    page.click("#fd-run")
    page.wait_for_function("+document.querySelector('.fd.live .fd-scrub')?.max >= 3")
    kept(page, "job=")
    words = again(page, "As before the reload, which ended the run after step")
    steps = int(words.removesuffix(".").split()[-1])
    assert steps >= 3 and page.get_attribute(".fd", "data-status") == "stopped"
    assert int(page.get_attribute(".fd-scrub", "max")) == steps
    assert len(runs.turns) == 0


def test_a_page_opened_anew_begins_anew(chrome, url, page):
    choose_toy(page)
    kept(page, "example=toy")
    page.goto(url + "?__theme=light")  # the same tab, but not a reload
    page.wait_for_selector(CHARTS)
    page.wait_for_timeout(500)
    assert page.locator(".fd .tk").count() > 4
    with opened(chrome, url, wait_for=CHARTS) as other:
        assert other.evaluate(f"{KEPT}.query") is None
        assert step_of(other) >= 1 and other.locator(".fd .tk").count() > 4
