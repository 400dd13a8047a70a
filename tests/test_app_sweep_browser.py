"""The Sweep tab and the model picker in headless Chromium."""

import pytest

from app.runs import Runs
from tests.browser_page import BROWSER, CHARTS, opened, served, typed

pytestmark = BROWSER
FRONT = "#fd-sweep-board [data-block=front] .main-svg"
SAYS = "([id, w]) => (document.querySelector(id)?.innerText || '').includes(w)"


@pytest.fixture(scope="module")
def url():
    with served(Runs(device="cpu")) as address:
        yield address


@pytest.fixture(scope="module")
def small_url(small_folder):
    """A page whose model is small and random, so that sweeps take no time."""
    with served(Runs(folder=str(small_folder), device="cpu")) as address:
        yield address


def sweep_tab(page):
    page.get_by_role("tab", name="Sweep", exact=True).click()
    page.wait_for_selector(FRONT)


def says(page, where: str, words: str) -> None:
    page.wait_for_function(SAYS, arg=[where, words])


def fill(page, name: str, text: str) -> None:
    typed(page, f"#fd-sweep-{name} textarea, #fd-sweep-{name} input", text)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_recorded_study_is_drawn_without_a_model(chrome, url, theme, width):
    with opened(chrome, f"{url}?__theme={theme}&tab=sweep", width=width, wait_for=FRONT) as page:
        page.wait_for_selector("[data-block=parallel] .main-svg")
        assert page.locator("[data-block=points] tbody tr").count() == 36
        # every cell has its number
        page.wait_for_function(
            "document.querySelectorAll('[data-block=heatmap] .heatmap-label text').length === 36"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        says(page, "#fd-sweep-status", "A recorded study")


def test_a_point_lists_its_items_and_an_item_opens_its_run_in_watch(chrome, url):
    with opened(chrome, url, wait_for=CHARTS) as page:
        sweep_tab(page)
        points = page.locator("[data-block=front] .points path.point")
        points.nth(0).click(force=True)
        says(page, "[data-block=point]", "Point 0: ε 0.6, γ 0.4")
        rows = page.locator("[data-block=point] tbody tr")
        assert rows.count() == 32
        tokens, passes = rows.nth(1).locator("td").all_inner_texts()[-2:]
        rows.nth(1).locator(".bd-link").click()
        page.wait_for_selector("#fd-status:visible")
        says(page, "#fd-status", "Point 0, item 2 of the sweep.")
        says(page, "#fd-status", f"{tokens} tokens in {passes} passes, as measured.")
        assert page.locator("#fd-epsilon input[type=number]").input_value() == "0.6"
        assert page.locator("#fd-gamma input[type=number]").input_value() == "0.4"
        assert "ε 0.6 · γ 0.4 · by position · with correction" in page.inner_text(".fd:visible")


def test_a_sweep_is_started_paused_resumed_and_exported(chrome, small_url, tmp_path):
    with opened(chrome, small_url, wait_for=CHARTS) as page:
        sweep_tab(page)
        page.get_by_role("button", name="New sweep").click()
        values = ", ".join(f"0.{k:02}" for k in range(1, 61))
        fill(page, "search", f"epsilon: {values}\ngamma: 0.1, 0.2, 0.3")
        page.get_by_text("Prompts, fixed knobs, sampler").click()
        fill(page, "fixed", "gen_length: 8\nblock_length: 8\ncache: none")
        fill(page, "limit", "2")
        page.click("#fd-sweep-start")
        says(page, "#fd-sweep-status", "of 180 points measured; this one")
        page.wait_for_selector("[data-block=points] tbody tr")
        page.click("#fd-sweep-pause")
        says(page, "#fd-sweep-status", "Paused: ")
        says(page, "#fd-sweep-board", "of 180 points")
        # another study, and back: nothing is lost
        page.click("#fd-sweep-resume")
        says(page, "#fd-sweep-status", "points measured; this one")
        page.click("#fd-sweep-cancel")
        says(page, "#fd-sweep-status", "Cancelled after")
        with page.expect_download() as waiting:
            page.click("#fd-sweep-csv")
        text = waiting.value.path().read_text()
        assert text.startswith("number,values_accuracy,values_tokens_per_pass,")
        assert text.count("COMPLETE") >= 1


def test_what_can_not_be_swept_is_told_and_the_board_stays(chrome, small_url):
    with opened(chrome, small_url, wait_for=CHARTS) as page:
        sweep_tab(page)
        page.get_by_role("button", name="New sweep").click()
        fill(page, "search", "gama: 0.5")
        page.click("#fd-sweep-start")
        page.wait_for_selector("text=Gama is no knob")
        assert page.locator("[data-block=points] tbody tr").count() == 36
        assert page.input_value("#fd-sweep-search textarea") == "gama: 0.5"


def test_an_address_without_studies_is_told(chrome, small_url):
    with opened(chrome, small_url, wait_for=CHARTS) as page:
        sweep_tab(page)
        page.get_by_role("button", name="Open another study").click()
        fill(page, "address", "sqlite:////nowhere.db")
        page.click("#fd-sweep-open")
        page.wait_for_selector("text=There is no file /nowhere.db")


# --- models and decoders in Watch


def choose(page, box: str, option: str) -> None:
    page.locator(f"{box} input").first.click()
    page.get_by_role("option", name=option, exact=True).click()


def test_a_peer_fills_the_knobs(chrome, url):
    with opened(chrome, url, wait_for=CHARTS) as page:
        choose(page, "#fd-begin", "Fast-dLLM, dual cache (2025)")
        says(page, "#fd-about", "Freeze what stands before and behind the block")
        page.wait_for_function(
            "document.querySelector('#fd-strategy input')?.value.startsWith('Confidence only')"
        )
        assert page.locator("#fd-epsilon input[type=number]").input_value() == "0.9"
        page.click("#fd-run")
        says(page, ".fd", "confidence · ε 0.9 · βₘ 32 · blocks of 32")


def test_a_folder_is_loaded_its_facts_are_shown_and_it_is_unloaded(chrome, url, small_folder):
    with opened(chrome, url, wait_for=CHARTS) as page:
        page.get_by_role("button", name="Model", exact=False).first.click()
        typed(page, "#fd-model-source input, #fd-model-source textarea", "nothing/at all")
        page.click("#fd-model-load")
        page.wait_for_selector("text=is neither a folder on this server nor a hub name")
        typed(page, "#fd-model-source input, #fd-model-source textarea", str(small_folder))
        page.click("#fd-model-load")
        says(page, "#fd-model-facts", f"{small_folder.name} is loaded: ")
        says(page, "#fd-model-facts", "float32, cpu, torch")
        says(page, "#fd-model-facts", "MB of memory; bidirectional attention.")
        assert page.locator("#fd-model-name input").input_value() == str(small_folder)
        page.click("#fd-model-unload")
        says(page, "#fd-model-status", "is unloaded; runs that still use it end first")
        says(page, "#fd-model-facts", "not loaded")
