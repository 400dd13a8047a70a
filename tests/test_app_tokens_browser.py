"""Tokens in headless Chromium: keyboard, lifeline, colours, code rows, language, dropped files."""


import pytest

from app.figures import lifeline as lifeline_figure
from app.presets import EMBEDDED, TRACES
from app.runs import Runs
from flash_dllm.trace_json import load, save
from tests.app_traces import SlowEngine, rich
from tests.browser_page import BROWSER, CHARTS, choose_toy, opened, served, typed

pytestmark = BROWSER
LIFE = ".fd-life tbody tr"


@pytest.fixture(scope="module")
def url():
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.03)
    with served(runs) as address:
        yield address


@pytest.fixture
def page(chrome, url):
    with opened(chrome, url + "?__theme=light", wait_for=CHARTS) as tab:
        yield tab


def life(page) -> list[list[str]]:
    return page.eval_on_selector_all(
        LIFE, "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    )


def test_the_lifeline_shows_what_its_table_says(page):
    """Every row of the picture's table against the one that Python makes."""
    trace = load(TRACES / "word-1.json")
    table = lifeline_figure.table(trace)
    for offset in (0, 14, 20):
        page.locator(f".tk[data-p='{offset}']").click()
        page.wait_for_function(
            "p => document.querySelector('.fd-life h3')?.innerText.endsWith('position ' + p)",
            arg=offset,
        )
        part = table[table.position == offset]
        shown = life(page)
        assert [row[0] for row in shown] == [str(step) for step in part.step]
        assert [row[2] for row in shown] == [f"{c:.3f}" for c in part.confidence]
        for row, what in zip(shown, part.what, strict=True):
            assert row[5].endswith(what)
        page.keyboard.press("Escape")


def test_a_step_of_the_lifeline_leads_there(page):
    choose_toy(page)
    page.locator(".tk[data-p='3']").click()
    assert [row[:2] for row in life(page)] == [["2", "A"], ["3", "B"]]
    page.locator(f"{LIFE} button").last.click()
    page.wait_for_selector(".fd[data-step='3']")
    assert page.locator(f"{LIFE}.now td").first.inner_text() == "3"


def test_tokens_are_reached_locked_and_left_by_keyboard(page):
    """Tab goes into the text once; arrow keys move, Enter locks, Escape leaves."""
    page.focus(".tk[data-p='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    focused = "document.activeElement.dataset.p"
    assert page.evaluate(focused) == "2"
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    first = page.evaluate("document.querySelector('.tk').getBoundingClientRect().top")
    assert below > first + 10
    page.keyboard.press("Home")
    assert page.evaluate(focused) == "0"
    assert page.locator(".tk[tabindex='0']").count() == 1
    label = page.get_attribute(".tk[data-p='0']", "aria-label")
    assert "position 0" in label and "draft c" in label
    step = page.get_attribute(".fd", "data-step")
    page.keyboard.press(".")
    page.wait_for_function("s => document.querySelector('.fd').dataset.step !== s", arg=step)
    assert page.evaluate(focused) == "0"
    page.keyboard.press("Enter")
    assert page.locator(".tk.locked[data-p='0']").count() == 1
    assert page.inner_text(".fd-life h3").endswith("position 0")
    page.keyboard.press("Escape")
    assert page.locator(".tk.locked").count() == 0
    assert page.evaluate("document.activeElement.className").startswith("fd")


def test_a_token_shows_its_five_likeliest_and_a_click_holds_them(page):
    trace = load(TRACES / "word-1.json")
    step = int(page.get_attribute(".fd", "data-step"))
    proposal = trace.steps[step - 1].proposals[0]
    offset = proposal.position - trace.prompt_length
    page.locator(f".tk[data-p='{offset}']").click()
    rows = page.locator(".fd-tip tr.q td:last-child").all_inner_texts()
    shown = [row.strip() for row in rows if row.strip()]
    assert shown == [f"{share:.3f}" for _, share in proposal.alternatives[:5]]
    page.mouse.move(5, 5)
    assert page.locator(".fd-tip").is_visible()


def test_tokens_are_coloured_by_the_step_that_wrote_them(page):
    choose_toy(page)
    page.select_option(".fd-colour select", "step")
    page.focus(".fd")
    page.keyboard.press("End")
    page.wait_for_selector(".fd[data-step='3']")
    marks = page.eval_on_selector_all(".tk", "all => all.map((chip) => chip.dataset.m)")
    assert marks in (["1", "1", "2", "3"], ["1", "", "2", "3"])
    parts = page.eval_on_selector_all(".tk", "all => all.map((chip) => chip.classList[2])")
    assert parts == ["q0", "q0", "q4", "q8"]
    page.keyboard.press("Home")
    page.wait_for_selector(".fd[data-step='1']")
    assert page.locator(".tk.sq").count() == 2
    assert page.inner_text(".fd-scale").split() == ["1", "3"]


def test_attention_colours_prompt_and_answer_by_the_recorded_mass(page):
    choose_toy(page)
    page.focus(".fd")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".fd[data-step='2']")
    page.keyboard.press("c")
    page.keyboard.press("c")
    assert page.input_value(".fd-colour select") == "mass"
    shares = "all => all.map((part) => part.style.getPropertyValue('--q'))"
    # √(mass / .5): BOS .5, the two written ones .3 and .2; blanks are never filled
    assert page.eval_on_selector_all(".fd-prompt-text span", shares) == ["100%"]
    written = page.eval_on_selector_all(".tk", shares)
    assert written[:2] == ["77%", "63%"] and not any("%" in part for part in written[2:])
    assert "Prompt 50 %, answer 50 %" in page.inner_text(".fd-help")


def test_code_keeps_its_lines_and_folds(chrome, url):
    trace = load(TRACES / "code-1.json")
    with opened(chrome, f"{url}?example=code-1&step=99", wait_for=".fd-row") as page:
        page.wait_for_selector(CHARTS)
        page.click("[data-do=read]")
        lines = [row.replace("·", "").replace("∎", "") for row in
                 page.eval_on_selector_all(".fd-row", """rows => rows.map((row) =>
                     [...row.childNodes].map((part) => part.nodeType === 3 ? part.data
                       : part.matches('.tk') ? part.querySelector('.g').textContent : '').join(''))""")]  # noqa: E501
        told = [line.replace("⏎", "") for line in lines]
        assert told[: len(trace.text.split("\n"))] == trace.text.split("\n")
        fold = page.locator(".fd-fold").nth(1)
        hidden = page.locator(".fd-row[hidden]")
        fold.focus()
        page.keyboard.press("Enter")
        assert hidden.count() == 3 and fold.get_attribute("aria-expanded") == "false"
        page.keyboard.press("Enter")
        assert hidden.count() == 0


def test_one_language_for_the_page_chosen_in_learn_and_kept_in_the_link(chrome, url):
    with opened(chrome, f"{url}?lang=ko", wait_for=CHARTS) as page:
        page.wait_for_function("document.querySelector('.fd-say')?.innerText.includes('토큰')")
        assert page.get_attribute(".fd", "lang") == "ko"
        page.get_by_role("tab", name="Learn").click()
        page.wait_for_selector("#fd-lesson [data-block=question]")
        page.wait_for_function("document.documentElement.lang === 'ko'")
        page.locator("#fd-language input").click()
        page.get_by_role("option", name="中文").click()
        page.wait_for_function("document.documentElement.lang === 'zh'")
        page.get_by_role("tab", name="Traces").click()
        page.wait_for_selector("[data-block=facts] td")
        page.click("#fd-copy")
        page.wait_for_function(
            "document.querySelector('#fd-link textarea, #fd-link input')?.value.includes('lang=zh')"
        )
        page.get_by_role("tab", name="Watch").click()
        page.wait_for_function("document.querySelector('.fd-sr')?.innerText.includes('步')")
        page.focus(".fd")
        page.keyboard.press("Home")
        page.wait_for_function("document.querySelector('.fd-sr')?.innerText.includes('第 1 步')")


def test_a_link_with_another_gamma_shows_the_what_if_that_its_sender_saw(chrome, url):
    with opened(chrome, f"{url}?example=toy&step=1&gamma=0.9", wait_for=CHARTS) as page:
        page.wait_for_selector(".fd[data-badge='exact until step 1']")
        page.wait_for_function("document.querySelectorAll('.tk')[1]?.classList[1] === 's5'")
        page.wait_for_function(
            "document.querySelector('#fd-badge')?.innerText.startsWith('exact until step 1')"
        )


def test_a_trace_file_dropped_on_the_page_is_loaded(page, tmp_path):
    save(rich(), tmp_path / "rich.json")
    text = (tmp_path / "rich.json").read_text()
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'rich.json', { type: 'application/json' }));
            document.querySelector('.fd').dispatchEvent(
                new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        text,
    )
    page.wait_for_function("document.querySelectorAll('.tk').length === 48")


def test_every_table_of_a_board_is_saved_as_csv(page):
    page.get_by_role("tab", name="Compare").click()
    page.wait_for_selector("[data-block=costs] .bd-csv")
    with page.expect_download() as download:
        page.click("[data-block=costs] .bd-csv")
    text = download.value.path().read_text(encoding="utf-8-sig")
    head, *rows = text.splitlines()
    assert head.split(",")[:4] == ["run", "tokens", "steps", "passes"]
    assert len(rows) == 2 and rows[0].startswith("A,40,5,10,")


def test_the_lab_asks_what_another_beta_t_would_re_read(page):
    choose_toy(page)
    page.focus(".fd")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".fd[data-step='2']")
    page.wait_for_timeout(700)
    page.get_by_role("tab", name="Verify lab").click()
    page.wait_for_selector("[data-block=held] .main-svg")
    typed(page, "#fd-lab-track input[type=number]", "2")
    page.wait_for_function(
        "document.querySelector('[data-block=badge]')?.innerText.includes('hold 80%, not 50%')"
    )
    page.click("#fd-lab-real")
    page.wait_for_function(
        "document.querySelector('#fd-lab-status')?.innerText.includes('βₜ 2 in place of 1')"
    )


def test_a_motion_shy_reader_sees_no_animation(chrome, url):
    context = chrome.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(".tk.fresh")
    moving = "getComputedStyle(document.querySelector('.tk.fresh .t')).animationName"
    assert page.evaluate(moving) == "none"
    context.close()


def test_five_hundred_and_twelve_positions_step_by_key(chrome, url, tmp_path):
    """That they can; how quickly is measured by benchmarks/page.py."""
    from benchmarks.page import long_run

    trace = long_run(512)
    save(trace, tmp_path / "long.json")
    with opened(chrome, url, wait_for=CHARTS) as page:
        page.set_input_files("#fd-load input, input[type=file]", str(tmp_path / "long.json"))
        page.wait_for_function("document.querySelectorAll('.tk').length === 512")
        page.focus(".fd")
        page.keyboard.press("End")
        page.wait_for_selector(f".fd[data-step='{len(trace.steps)}']")
        assert page.locator(".tk.s0").count() == 0
