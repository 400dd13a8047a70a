"""Every tab in headless Chromium: `opened` counts console errors and foreign requests."""

import json
import re

import pytest

from app import lessons
from app.presets import EMBEDDED, TRACES
from app.runs import Runs
from flash_dllm.trace import DecodeTrace
from flash_dllm.trace_json import load, save
from tests.app_traces import SlowEngine, hostile
from tests.browser_page import BROWSER, CHARTS, choose_toy, opened, served, typed

pytestmark = BROWSER
DRAWN = {
    "Verify lab": "[data-block=ladder] .main-svg",
    "Compare": "[data-block=progress] .main-svg",
    "Learn": "#fd-lesson [data-block=question]",
    "Traces": "[data-block=facts] td",
}
KEPT = "JSON.parse(sessionStorage.getItem('flash-dllm' + location.pathname) || '{}')"
LAB_GAMMA = "[data-block=ladder] [data-line=gamma]"


def recorded(key: str) -> DecodeTrace:
    """A run that ships with the page."""
    return load(TRACES / f"{key}.json")



@pytest.fixture(scope="module")
def url():
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.03)
    runs.models._choices["second model"] = {}
    runs._engines["second model"] = SlowEngine(seed=5, end_share=0, pause=0)
    with served(runs) as address:
        yield address


@pytest.fixture
def page(chrome, url):
    with opened(chrome, url + "?__theme=light", wait_for=CHARTS) as tab:
        yield tab


def go(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector(DRAWN[name])


def said(page, name: str, words: str) -> None:
    page.wait_for_function(
        "([b, w]) => (document.querySelector(`[data-block=${b}]`)?.innerText || '').includes(w)",
        arg=[name, words],
    )


def lesson(page, number: int) -> None:
    page.locator("#fd-lesson [data-block=lessons] button").nth(number - 1).click()
    page.wait_for_function(
        "n => document.querySelectorAll('#fd-lesson [data-block=lessons] button')[n - 1]"
        ".ariaPressed === 'true'",
        arg=number,
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_tab_fits_390_px_in_both_themes(chrome, url, theme):
    with opened(chrome, f"{url}?__theme={theme}", width=390, height=844, wait_for=CHARTS) as page:
        for name in DRAWN:
            tab = page.get_by_role("tab", name=name, exact=True)
            if not tab.count() or not tab.first.is_visible():
                page.get_by_label("More tabs").click()
                page.locator(".overflow-dropdown button", has_text=name).click()
            else:
                tab.first.click()
            page.wait_for_selector(DRAWN[name])
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_charts_of_a_board_turn_dark_with_the_page(page):
    go(page, "Verify lab")
    ink = "() => document.querySelector('[data-block=ladder] .bd-plot')._fullLayout.font.color"
    before = page.evaluate(ink)
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"c => ({ink})() !== c", arg=before)
    assert page.evaluate(ink) == "#9299a3"


def test_tabs_are_reached_by_keyboard(page):
    page.get_by_role("tab", name="Watch").focus()
    page.get_by_role("tab", name="Verify lab").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(DRAWN["Verify lab"])


# --- Verify lab


def test_the_lab_enlarges_the_step_that_watch_shows(page):
    page.focus(".fd")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".fd[data-step='3']")
    page.wait_for_timeout(700)
    go(page, "Verify lab")
    said(page, "say", "Step 3 of")
    page.click("#fd-lab-next")
    said(page, "say", "Step 4 of")
    page.click("#fd-lab-back")
    said(page, "say", "Step 3 of")


def open_toy_lab(page):
    choose_toy(page)
    page.wait_for_timeout(700)
    go(page, "Verify lab")
    said(page, "say", "of 3.")


def test_dragging_gamma_in_the_lab_judges_again(page):
    open_toy_lab(page)
    said(page, "say", "Step 1 of 3")
    said(page, "badge", "exact")
    box = page.locator(LAB_GAMMA).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(8):
        page.mouse.move(x, y - 4 * k)
    page.mouse.up()
    said(page, "badge", "exact until step 1")
    said(page, "say", "below γ")
    # line, slider and picture agree once the last answer is in
    page.wait_for_function(
        f"() => Math.abs(+document.querySelector('{LAB_GAMMA}').ariaValueNow"
        " - +document.querySelector('#fd-lab-gamma input[type=number]').value) < 0.001"
    )
    page.click("#fd-lab-reset")
    page.wait_for_function(f"() => document.querySelector('{LAB_GAMMA}').ariaValueNow === '0.80'")


def test_gamma_and_epsilon_move_by_arrow_keys_in_both_pictures(page):
    open_toy_lab(page)
    page.focus(LAB_GAMMA)
    for _ in range(6):
        page.keyboard.press("ArrowUp")
    said(page, "badge", "exact until step 1")
    page.focus("[data-block=plane] [data-line=epsilon]")
    page.keyboard.press("PageDown")
    page.wait_for_function(
        "() => document.querySelector('#fd-lab-epsilon input[type=number]').value === '0.8'"
    )


def test_a_row_of_the_matrix_says_what_it_may_see(page):
    open_toy_lab(page)
    rows = page.locator(".bd-matrix tbody tr")
    assert rows.count() == 3
    assert rows.nth(2).locator("td").all_inner_texts() == ["●", "●", "", "", "◉", "●"]
    rows.nth(2).hover()
    page.wait_for_function("document.querySelector('.bd-why')?.innerText.includes('Mask view 1')")
    rows.nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelector('.bd-why')?.innerText.includes('Draft view 1')")


def test_a_missed_chance_leads_to_its_step(page):
    go(page, "Verify lab")
    link = page.locator("[data-block=missed] .bd-link").last
    step = link.inner_text()
    link.click()
    said(page, "say", f"Step {step} of")


def test_a_what_if_is_run_for_real_and_watch_shows_it(page):
    open_toy_lab(page)
    typed(page, "#fd-lab-gamma input[type=number]", "0.9")
    said(page, "badge", "exact until step 1")
    page.click("#fd-lab-real")
    page.wait_for_function(
        "document.querySelector('#fd-lab-status')?.innerText.includes('The what-if held for all 1')"
    )
    page.get_by_role("tab", name="Watch").click()
    page.wait_for_function("document.querySelector('.fd-gamma').ariaValueNow === '0.90'")


# --- Compare


def test_runs_are_laid_on_one_clock(page):
    go(page, "Compare")
    assert page.locator("#fd-compare-board .bd-lane").count() == 2
    longest = max(recorded("word-1").passes, recorded("word-1-confidence").passes)
    assert f"{longest} passes" in page.inner_text("#fd-compare-board .bd-now")
    page.locator("#fd-compare-board [type=range]").fill("0")
    page.wait_for_function(
        "document.querySelectorAll('.bd-tk').length"
        " === document.querySelectorAll('.bd-tk.off').length"
    )
    page.locator("[data-block=clock] button", has_text="steps").click()
    page.wait_for_function("document.querySelector('.bd-now')?.innerText.endsWith('steps')")
    page.locator("#fd-compare-board .bd-play").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.bd-tk:not(.off)').length > 10")


def test_a_third_run_joins_and_the_table_says_where_they_part(page):
    go(page, "Compare")
    page.locator("#fd-compare-C input").click()
    page.get_by_role("option", name="one token a step").click()
    page.wait_for_function("document.querySelectorAll('.bd-lane').length === 3")
    assert page.locator("[data-block=parting] tbody tr").count() == 2
    assert page.locator("[data-block=costs] tbody tr").count() == 3


def test_another_model_answers_run_as_prompt_beside_it(page):
    go(page, "Compare")
    page.get_by_role("button", name="Decode it otherwise").click()
    page.locator("#fd-rival-model input").click()
    page.get_by_role("option", name="second model").click()
    page.wait_for_function(
        "document.querySelector('#fd-rival-facts')?.innerText.includes('hash 5')"
    )
    page.click("#fd-rival-run")
    page.wait_for_function("document.querySelectorAll('.bd-lane').length === 3")
    said(page, "strip", "C: the model cuts text into other tokens")
    said(page, "parting", "→ hash 5")
    assert "finished" in page.inner_text("#fd-rival-status")


# --- Learn


def test_a_lesson_asks_first_and_its_challenge_is_checked(page):
    go(page, "Learn")
    assert page.locator("#fd-lesson [data-block=explain]").count() == 0
    page.locator("#fd-lesson [data-block=question] button").nth(0).click()
    said(page, "explain", "Not quite.")
    trace = recorded(lessons.lesson("mask").example)
    page.wait_for_function(
        "last => [...document.querySelectorAll('.fd')].some((e) => e.dataset.step === last)",
        arg=str(len(trace.steps)),
    )
    page.locator("#fd-lesson [data-block=check] button").click()
    said(page, "result", "Try an earlier step")
    player = page.locator(".fd:visible")
    player.focus()
    page.keyboard.press("Home")
    said(page, "result", "You are at step 1.")
    met = [s for s in range(2, 9) if lessons.lesson("mask").check(trace, s, None)][0]
    for _ in range(met - 1):
        page.keyboard.press("ArrowRight")
    said(page, "result", f"You are at step {met}.")
    page.locator("#fd-lesson [data-block=check] button").click()
    said(page, "result", "Yes: a token was written although")
    said(page, "lessons", "1 of 10 challenges solved")


def test_the_gamma_lesson_is_solved_by_moving_the_line(page):
    go(page, "Learn")
    lesson(page, 7)
    page.wait_for_function("document.querySelectorAll('.fd:not([hidden]) .tk').length >= 4")
    page.locator("#fd-lesson [data-block=question] button").nth(2).click()
    said(page, "explain", "That is right.")
    line = page.locator(".fd:visible .fd-gamma")
    line.focus()
    page.keyboard.press("PageUp")
    page.wait_for_function(
        "[...document.querySelectorAll('.fd')].some((e) => (e.dataset.badge || '') !== '')"
    )
    page.locator("#fd-lesson [data-block=check] button").click()
    said(page, "result", "γ stands above 0.85 now")


@pytest.mark.parametrize(("name", "title"), [("한국어", "빈칸 채우기"), ("中文", "填空")])
def test_lessons_speak_three_languages(page, name, title):
    go(page, "Learn")
    page.locator("#fd-language input").click()
    page.get_by_role("option", name=name).click()
    said(page, "title", title)


def test_boards_and_controls_speak_the_language_of_the_link_and_of_the_choice(chrome, url):
    reads = "([at, w]) => document.querySelector(at)?.innerText.includes(w)"
    with opened(chrome, f"{url}?__theme=light&lang=ko", wait_for=CHARTS) as page:
        page.wait_for_function(reads, arg=["#fd-run", "실행"])
        page.wait_for_function(reads, arg=["#fd-strategy", "전략"])
        go(page, "Verify lab")
        said(page, "ladder", "초안별 검증")
        assert page.inner_text("#fd-lab-real") == "실제로 실행"
        assert "γ · 감마" in page.inner_text("#fd-lab-gamma")
        go(page, "Compare")
        said(page, "costs", "각 실행의 비용")
        assert page.inner_text("#fd-compare-board .bd-play") == "재생"
        go(page, "Learn")
        page.locator("#fd-language input").click()
        page.get_by_role("option", name="中文").click()
        page.wait_for_function(reads, arg=["#fd-run", "运行"])
        go(page, "Compare")
        said(page, "costs", "每次运行的代价")
        page.reload()  # the choice comes back
        page.wait_for_function(reads, arg=["#fd-run", "运行"])
        page.get_by_role("tab", name="Watch").click()
        page.wait_for_function(reads, arg=[".fd", "步"])


def test_all_ten_lessons_open(page):
    go(page, "Learn")
    titles = set()
    for number in range(1, 11):
        lesson(page, number)
        titles.add(page.inner_text("#fd-lesson h2"))
    assert len(titles) == 10


# --- Traces, links, files


def test_a_link_restores_run_settings_step_and_tab(chrome, url, page):
    choose_toy(page)
    page.focus(".fd")
    page.keyboard.press("End")
    page.wait_for_selector(".fd[data-step='3']")
    typed(page, "#fd-track_size input", "2")
    page.keyboard.press("Tab")
    for part in ("step=3", "track_size=2"):
        page.wait_for_function(f"w => ({KEPT}.query || '').includes(w)", arg=part)
    go(page, "Traces")
    page.locator("#fd-link-tab input").click()
    page.get_by_role("option", name="Verify lab").click()
    page.click("#fd-copy")
    page.wait_for_function("(document.querySelector('#fd-link input, #fd-link textarea')?.value)")
    link = page.locator("#fd-link input, #fd-link textarea").input_value()
    assert "example=toy" in link and "step=3" in link and "track_size=2" in link
    with opened(chrome, link, wait_for="[data-block=ladder] .main-svg") as other:
        said(other, "say", "Step 3 of 3")
        other.get_by_role("tab", name="Watch").click()
        other.wait_for_selector(".fd[data-step='3']")
        assert other.locator("#fd-track_size input").input_value() == "2"
        assert other.locator(".tk").count() == 4


def test_a_link_restores_the_compared_runs_their_clock_and_the_lesson(chrome, url, page):
    go(page, "Learn")
    lesson(page, 7)
    go(page, "Compare")
    page.locator("#fd-compare-C input").click()
    page.get_by_role("option", name="one token a step").click()
    page.wait_for_function("document.querySelectorAll('.bd-lane').length === 3")
    page.locator("[data-block=clock] button", has_text="rows").click()
    page.wait_for_function("document.querySelector('.bd-now')?.innerText.endsWith('rows')")
    go(page, "Traces")
    page.locator("#fd-link-tab input").click()
    page.get_by_role("option", name="Compare").click()
    page.click("#fd-copy")
    page.wait_for_function("(document.querySelector('#fd-link input, #fd-link textarea')?.value)")
    link = page.locator("#fd-link input, #fd-link textarea").input_value()
    with opened(chrome, link, wait_for="[data-block=progress] .main-svg") as other:
        assert other.locator("#fd-compare-board .bd-lane").count() == 3
        assert other.inner_text(".bd-now").endswith("rows")
        go(other, "Learn")
        pressed = other.locator("#fd-lesson [data-block=lessons] button[aria-pressed=true]")
        assert pressed.inner_text().strip() == "7"
    lost = link.replace("compare=", "compare=0123456789,")
    with opened(chrome, lost, wait_for="[data-block=progress] .main-svg") as other:
        other.wait_for_selector("text=1 run of the link can't be shown: not kept here.")


def test_a_wrong_link_is_told_and_the_page_works(chrome, url):
    with opened(chrome, f"{url}?gamma=x", wait_for=CHARTS) as page:
        page.wait_for_selector("text=The link's gamma must be a number")
        page.focus(".fd")
        page.keyboard.press("Home")
        page.wait_for_selector(".fd[data-step='1']")


@pytest.mark.parametrize("kind", ["html", "png", "gif", "zip", "json"])
def test_a_run_is_exported(chrome, page, tmp_path, kind):
    go(page, "Traces")
    with page.expect_download() as download:
        page.click(f"#fd-export-{kind}")
    path = tmp_path / f"run.{kind}"
    download.value.save_as(path)
    start = {"html": b"<!doctype", "png": b"\x89PNG", "gif": b"GIF89a", "zip": b"PK", "json": b"{"}
    assert path.read_bytes().startswith(start[kind])
    if kind == "html":
        with opened(chrome, path.as_uri(), wait_for=CHARTS) as file:
            file.focus(".fd")
            file.keyboard.press("End")
            last = len(recorded("word-1").steps)
            file.wait_for_function(f"document.querySelector('.fd').dataset.step === '{last}'")
            assert file.locator(".js-plotly-plot .main-svg").count() >= 4
    if kind == "json":
        assert json.loads(path.read_text())["format"] == "flash-dllm-trace"


def test_a_dropped_file_opens_in_watch_and_stays_inert_in_every_tab(page, tmp_path):
    save(hostile(), tmp_path / "hostile.json")
    go(page, "Traces")
    page.set_input_files("#fd-drop input[type=file]", str(tmp_path / "hostile.json"))
    page.wait_for_function("document.querySelectorAll('.tk').length === 48")
    page.wait_for_timeout(700)
    for name in ("Verify lab", "Compare", "Traces"):
        go(page, name)
        page.wait_for_timeout(400)
        assert page.locator(".bd img, .bd script").count() == 0
        assert page.locator(".bd svg b, .bd foreignObject").count() == 0


def test_a_run_made_here_is_listed_and_removed(page):
    choose_toy(page)
    typed(page, "#fd-gamma input[type=number]", "0.95")
    page.click("#fd-run")
    page.wait_for_function("document.querySelector('#fd-status')?.innerText.includes('finished')")
    go(page, "Traces")
    field = page.locator("#fd-traces-run input")
    assert re.search(r"γ 0.95", field.input_value())
    page.click("#fd-traces-delete")
    page.wait_for_function(
        "document.querySelector('#fd-traces-status')?.innerText.includes('Removed')"
    )
    assert "γ 0.95" not in field.input_value()
    page.click("#fd-traces-delete")
    page.wait_for_selector("text=Recorded examples stay")
