"""The page in headless Chromium. Needs Debian's chromium (or any) and pip's playwright."""

import json
import re

import pytest

from app import embed
from app.presets import ASSETS, EMBEDDED
from flash_dllm.trace_json import save
from tests.app_traces import SlowEngine, hostile, rich, toy
from tests.browser_page import BROWSER, CHARTS, choose_toy, opened, served, status, step_of, typed

pytestmark = BROWSER


@pytest.fixture(scope="module")
def url():
    """The page with a slow stand-in for the model: 80 ms a pass, a turn as long as a run."""
    from app.runs import Runs
    from app.turns import Turns

    runs = Runs(turns=Turns(seconds=600))
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.08)
    with served(runs) as address:
        yield address


@pytest.fixture
def page(chrome, url):
    with opened(chrome, url + "?__theme=light", wait_for=CHARTS) as tab:
        yield tab


def test_the_page_opens_on_a_drawn_trace(page):
    assert page.locator(".tk").count() > 4
    assert page.inner_text(".fd-say").endswith(".")
    assert page.locator(".fd-plot .js-plotly-plot .main-svg").count() >= 4
    assert page.locator(".tk.s2, .tk.s3").count() >= 1


COUNT_FRAMES = """
(() => {
  const ask = window.requestAnimationFrame;
  window.asked = 0;
  window.requestAnimationFrame = (call) => { window.asked += 1; return ask.call(window, call); };
})()
"""


def test_a_page_that_shows_nothing_new_asks_for_no_frames(chrome, url):
    """Gradio's sign "Loading…" leaves a loop behind that asks for one 60 times a second."""
    context = chrome.new_context()
    tab = context.new_page()
    tab.add_init_script(COUNT_FRAMES)
    tab.goto(url)
    tab.wait_for_selector(CHARTS)
    assert tab.evaluate("asked") > 0
    for _ in range(20):
        before = tab.evaluate("asked")
        tab.wait_for_timeout(1000)
        if tab.evaluate("asked") == before:
            break
    else:
        pytest.fail("it goes on asking for frames")
    # and it can still be stepped and drawn
    tab.focus(".fd")
    tab.keyboard.press("Home")
    tab.wait_for_selector(".fd[data-step='1']")
    context.close()


def test_frames_that_others_ask_for_come(chrome, url):
    """Extensions, screen readers and playwright's own waiting ask past the page's functions."""
    context = chrome.new_context()
    tab = context.new_page()
    tab.add_init_script("window.own = requestAnimationFrame.bind(window)")
    tab.goto(url)
    tab.wait_for_selector(CHARTS)
    tab.evaluate("(window.beat = () => { window.beats = (window.beats || 0) + 1; own(beat); })()")
    # the page looks for gradio's loop for some seconds
    for _ in range(7):
        before = tab.evaluate("beats")
        tab.wait_for_timeout(1000)
        assert tab.evaluate("beats") > before
    context.close()


def test_bars_of_positions_that_are_new_say_so(page):
    entered = page.evaluate("""() => {
        const props = JSON.parse(window.gradio_config.components.find(
            (part) => (part.props.js_on_load || '').includes('fdPlayer')).props.value);
        return props.steps.map((step) => step.att.filter((row) => row[3] === 2).length);
    }""")
    assert max(entered) > 0
    page.focus(".fd")
    page.keyboard.press("Home")
    for number, count in enumerate(entered, 1):
        page.wait_for_selector(f".fd[data-step='{number}']")
        assert page.locator(".fd-attention .fd-new").all_inner_texts() == ["new"] * count
        page.keyboard.press("ArrowRight")


def test_the_keyboard_steps_plays_and_reads(page):
    page.focus(".fd")
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".fd[data-step='3']")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".fd[data-step='2']")
    page.keyboard.press("r")
    assert page.get_attribute(".fd-read", "aria-pressed") == "true"
    page.keyboard.press("r")
    page.keyboard.press("Space")
    page.wait_for_selector(".fd.playing")
    page.wait_for_selector(".fd[data-step='3']")
    page.keyboard.press("Space")
    page.keyboard.press("End")
    page.wait_for_function(
        "document.querySelector('.fd').dataset.step === document.querySelector('.fd-scrub').max"
    )
    assert "Step" in page.inner_text(".fd-sr")


def test_nothing_moves_between_steps(page):
    """Chips, sentence and charts keep their place over the whole run."""
    layout = """() => [...document.querySelectorAll('.fd-text .tk, .fd-text, .fd-grid section')]
        .map((e) => [e.offsetLeft, e.offsetTop, e.offsetWidth, e.offsetHeight].join()).join(';')"""
    page.focus(".fd")
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")
    first = page.evaluate(layout)
    for number in range(2, 6):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f".fd[data-step='{number}']")
        assert page.evaluate(layout) == first


def test_the_toy_example_runs_in_the_page(page):
    choose_toy(page)
    page.click("#fd-run")
    assert status(page, "^finished").startswith("finished: 4 tokens in 3 steps, 5 passes")
    page.wait_for_selector(".fd[data-status='finished'][data-step='3']")
    page.focus(".fd")
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")
    states = [page.locator(".tk").nth(n).get_attribute("class").split()[1] for n in range(4)]
    assert states == ["s2", "s3", "s0", "s0"]


def test_run_stop_run_again_keeps_what_was_decoded(page):
    for _ in range(2):
        page.click("#fd-run")
        page.wait_for_selector(".fd.live")
        page.wait_for_function("+document.querySelector('.fd-scrub').max >= 3")
        page.click("#fd-stop")
        text = status(page, "^stopped at step")
        steps = int(re.search(r"step (\d+)", text)[1])
        page.wait_for_selector(".fd[data-status='stopped']")
        assert int(page.get_attribute(".fd-scrub", "max")) == steps >= 3


def test_scrubbing_back_while_it_is_decoding_stays_there(page):
    page.click("#fd-run")
    page.wait_for_selector(".fd.live")
    page.wait_for_function("+document.querySelector('.fd-scrub').max >= 4")
    page.focus(".fd")
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")
    page.wait_for_function("+document.querySelector('.fd-scrub').max >= 8")
    assert step_of(page) == 1
    page.click("#fd-stop")
    status(page, "^stopped at step")
    assert step_of(page) == 1


def test_a_second_visitor_waits_and_is_told_so(chrome, url, page):
    with opened(chrome, url, wait_for=CHARTS) as other:
        page.click("#fd-run")
        page.wait_for_selector(".fd.live")
        other.click("#fd-run")
        assert status(other, "^queued").startswith("queued, 1 before you")
        typed(other, "#fd-gamma input[type=number]", "0.55")
        other.wait_for_selector(".fd[data-badge]:not([data-badge=''])")
        page.click("#fd-stop")
        status(page, "^stopped")
        other.wait_for_selector(".fd.live")
        other.click("#fd-stop")
        status(other, "^stopped")


def test_run_pressed_twice_ends_the_first_run(page):
    page.click("#fd-run")
    page.wait_for_selector(".fd.live")
    page.wait_for_function("+document.querySelector('.fd-scrub').max >= 3")
    first = page.get_attribute(".fd", "data-run")
    page.click("#fd-run")
    page.wait_for_function("r => document.querySelector('.fd').dataset.run !== r", arg=first)
    page.wait_for_selector(".fd.live")
    page.click("#fd-stop")
    status(page, "^stopped")


def test_choosing_an_example_ends_a_run_that_is_going_on(page):
    page.click("#fd-run")
    page.wait_for_selector(".fd.live")
    page.wait_for_function("+document.querySelector('.fd-scrub').max >= 2")
    choose_toy(page)
    page.wait_for_timeout(1500)
    assert page.locator(".tk").count() == 4
    page.click("#fd-run")
    status(page, "^finished: 4 tokens")


def test_knobs_follow_the_strategy(page):
    page.get_by_label("strategy").click()
    page.get_by_role("option", name="Greedy").click()
    page.wait_for_selector("#fd-gamma", state="hidden")
    assert page.locator("#fd-gen_length").is_visible()


def test_dragging_gamma_judges_again_and_says_how_far_it_is_exact(page):
    choose_toy(page)
    page.wait_for_function("document.querySelector('.fd-gamma').ariaValueNow === '0.80'")
    # the toy's text is shorter than that of the run before: let the page settle
    page.wait_for_timeout(500)
    box = page.locator(".fd-gamma").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(6):
        page.mouse.move(x, y - 4 * k)
    page.mouse.up()
    page.wait_for_selector(".fd[data-badge='exact until step 1']")
    # replies to the moves before the last may still come in: wait until line and slider agree
    page.wait_for_function(
        "() => { const line = +document.querySelector('.fd-gamma').ariaValueNow;"
        " const slider = +document.querySelector('#fd-gamma input[type=number]').value;"
        " return line > 0.85 && line === slider; }"
    )
    shown = page.get_attribute(".fd-gamma", "aria-valuenow")
    page.wait_for_function(
        "document.querySelector('#fd-badge')?.innerText"
        ".startsWith('exact until step 1: Step 1 would commit 1')"
    )
    page.wait_for_function("document.querySelectorAll('.tk')[1]?.classList[1] === 's5'")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("v => document.querySelector('.fd-gamma').ariaValueNow !== v", arg=shown)


def test_the_epsilon_slider_judges_again_without_a_run(page):
    choose_toy(page)
    typed(page, "#fd-epsilon input[type=number]", "0.95")
    page.wait_for_selector(".fd[data-badge='exact']")
    page.wait_for_function("document.querySelectorAll('.tk')[0]?.classList[1] === 's6'")


def test_hovering_a_token_lights_it_and_shows_its_numbers(page):
    choose_toy(page)
    page.locator(".tk").nth(1).hover()
    tip = page.locator(".fd-tip")
    assert "Checked and kept: both views agree" in tip.inner_text()
    assert "0.70" in tip.inner_text() and "0.85" in tip.inner_text()
    assert page.locator(".fd-ladder .fd-pick").evaluate("e => e.style.display") == "block"
    assert page.locator(".fd-map .fd-pick").evaluate("e => e.style.display") == "block"


def test_a_click_in_the_run_map_goes_to_that_step(page):
    choose_toy(page)
    page.locator(".fd-map").scroll_into_view_if_needed()
    box = page.locator(".fd-map .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] * 2.5 / 3)
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] * 2.5 / 3)
    page.wait_for_selector(".fd[data-step='3']")


def test_every_chart_is_dark_in_dark_mode(chrome, url):
    with opened(chrome, url + "?__theme=dark", wait_for=CHARTS) as page:
        colours = page.evaluate(
            """() => [...document.querySelectorAll('.js-plotly-plot')].map((gd) =>
                [gd._fullLayout.font.color, gd._fullLayout.xaxis.linecolor].join())"""
        )
        assert colours == ["#9299a3,#4d545d"] * 5
        body = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert body == "rgb(17, 19, 22)"
        page.evaluate("document.body.classList.remove('dark')")
        page.wait_for_function(
            """() => [...document.querySelectorAll('.js-plotly-plot')].every((gd) =>
                gd._fullLayout && gd._fullLayout.font.color === '#646a73')"""
        )


def test_a_phone_needs_no_sideways_scrolling(chrome, url):
    with opened(chrome, url, width=390, height=844, wait_for=CHARTS) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        player, side = (page.locator(n).bounding_box() for n in (".fd", ".fd-side"))
        assert player["y"] < side["y"]


@pytest.mark.parametrize("text", ["{}", "not json", '{"format": "x"}'])
def test_a_foreign_file_shows_a_sentence_and_keeps_the_page(page, tmp_path, text):
    path = tmp_path / "foreign.json"
    path.write_text(text)
    before = page.get_attribute(".fd", "data-run")
    page.set_input_files("#fd-load input, input[type=file]", str(path))
    page.wait_for_selector("text=This file holds no trace that can be shown")
    assert page.get_attribute(".fd", "data-run") == before
    page.focus(".fd")
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")


def test_a_foreign_file_does_not_disturb_a_run_that_is_going_on(page, tmp_path):
    path = tmp_path / "foreign.json"
    path.write_text("{}")
    page.click("#fd-run")
    page.wait_for_selector(".fd.live")
    page.set_input_files("#fd-load input, input[type=file]", str(path))
    page.wait_for_selector("text=This file holds no trace that can be shown")
    steps = int(page.get_attribute(".fd-scrub", "max"))
    page.wait_for_function("n => +document.querySelector('.fd-scrub').max > n", arg=steps)
    page.click("#fd-stop")
    status(page, "^stopped at step")


def test_a_trace_is_saved_and_loaded(page, tmp_path):
    choose_toy(page)
    page.click("#fd-run")
    status(page, "^finished")
    with page.expect_download() as download:
        page.click("#fd-save")
    path = tmp_path / "saved.json"
    download.value.save_as(path)
    assert json.loads(path.read_text())["steps"][0]["proposals"][0]["confidence"] == 0.92
    save(rich(), tmp_path / "rich.json")
    page.set_input_files("#fd-load input, input[type=file]", str(tmp_path / "rich.json"))
    page.wait_for_function("document.querySelectorAll('.tk').length === 48")
    assert status(page, "^Loaded").startswith("Loaded a trace of hash 1")
    assert page.locator("#fd-window_size input").input_value() == "16"


def test_the_cost_map_unfolds_below_the_player_and_follows_the_run(page):
    assert page.frame_locator(".fd-still").locator("#run").count() == 0  # not drawn until asked
    page.get_by_role("button", name="Where the work goes").click()
    frame = page.frame_locator(".fd-still")
    frame.locator("body[data-marks='2']").wait_for()
    assert "rows × layers in" in frame.locator(".gtitle").text_content()
    choose_toy(page)
    frame.locator(".gtitle", has_text="17 rows × layers in 5 passes, 68%").wait_for()


def test_hostile_texts_are_inert(page, tmp_path):
    save(hostile(), tmp_path / "hostile.json")
    page.set_input_files("#fd-load input, input[type=file]", str(tmp_path / "hostile.json"))
    page.wait_for_function("document.querySelectorAll('.tk').length === 48")
    page.wait_for_timeout(300)
    assert page.locator(".fd img, .fd-text b, .fd script").count() == 0
    assert "<b>bold</b>" in page.inner_text(".fd-text")
    page.locator(".tk").nth(1).hover()
    assert page.locator(".fd-tip img, .fd-tip script").count() == 0
    page.get_by_role("tab", name="As one Plotly figure").click()
    frame = page.frame_locator(".fd-frame")
    frame.locator(".js-plotly-plot .slider-container").wait_for()
    assert frame.locator("img, text b, foreignObject").count() == 0


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("#fd-prompt-box textarea", "", "The prompt is empty"),
        ("#fd-prompt-box textarea", "a" * 4001, "The prompt has 4001 characters"),
        ("#fd-gen_length input", "0", "Gen length must lie between 1 and 512 on this page"),
        ("#fd-window_size input", "500", "Window size must not exceed gen length"),
    ],
)
def test_bad_input_is_a_sentence_and_the_page_stays(page, field, value, sentence):
    typed(page, field, value)
    page.click("#fd-run")
    page.wait_for_selector(f"text={sentence}")
    assert page.get_attribute(".fd", "data-status") == "finished"


def test_blank_advanced_fields_stay_blank(page):
    choose_toy(page)
    page.click("#fd-advanced button")
    field = page.locator("#fd-decide_size").locator("input, textarea")
    assert field.input_value() == ""
    page.click("#fd-run")
    status(page, "^finished: 4 tokens")
    page.wait_for_selector("#fd-cost >> text=Run takes about 5 passes, ")
    field.fill("0")
    page.click("#fd-run")
    page.wait_for_selector("text=Decide size must lie between 1 and 1024, got 0.")
    field.fill("")
    page.click("#fd-run")
    page.wait_for_selector(".fd[data-status='finished']")
    status(page, "^finished: 4 tokens")


def test_the_frame_animates_and_turns_dark(page):
    page.get_by_role("tab", name="As one Plotly figure").click()
    frame = page.frame_locator(".fd-frame")
    frame.locator(".slider-container").wait_for()
    body = frame.locator("body")
    assert int(body.get_attribute("data-frames")) >= 3
    page.evaluate("document.body.classList.add('dark')")
    frame.locator("body[data-dark='1']").wait_for()


def test_a_written_file_opens_from_disk_and_steps_by_keyboard(chrome, tmp_path):
    path = tmp_path / "run.html"
    embed.write_html(toy(), path)
    with opened(chrome, path.as_uri(), wait_for=".slider-container") as page:
        assert page.get_attribute("body", "data-frames") == "3"
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('.gtitle')?.textContent.includes('Step 2')")


@pytest.mark.skipif(
    not (ASSETS / "tiny" / "model.safetensors").is_file(), reason="assets/tiny has no weights"
)
def test_the_embedded_model_decodes_the_first_example(chrome):
    from app.runs import Runs

    with served(Runs()) as url, opened(chrome, url, wait_for=CHARTS) as page:
        page.click("#fd-run")
        page.wait_for_selector(".fd.live")
        page.wait_for_selector(".fd[data-status='finished']:not(.live)", timeout=120_000)
        assert re.match(r"finished: \d+ tokens in \d+ steps, \d+ passes", status(page, "^finished"))
