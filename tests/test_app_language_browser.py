"""The page in Korean and Chinese, in headless Chromium: lines, errors, boards, exports."""

import pytest

from app.runs import Runs
from tests.browser_page import BROWSER, CHARTS, opened, served, typed

pytestmark = BROWSER
READS = "([at, words]) => document.querySelector(at)?.innerText.includes(words)"


@pytest.fixture(scope="module")
def url():
    with served(Runs()) as address:
        yield address


@pytest.fixture
def page(chrome, url):
    with opened(chrome, f"{url}?lang=ko", wait_for=CHARTS) as tab:
        reads(tab, "#fd-run", "실행")
        yield tab


def reads(page, at: str, words: str) -> None:
    page.wait_for_function(READS, arg=[at, words])


def open_tab(page, name: str, drawn: str) -> None:
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector(drawn)


def test_head_lines_and_errors_are_korean(page):
    reads(page, ".fd-intro", "확산 언어 모델은")
    reads(page, "#fd-status", "기록된 실행입니다.")
    reads(page, "#fd-cost", "순전파")
    reads(page, "#fd-badge", "값을 옮기면")
    typed(page, "#fd-prompt-box textarea", " ")
    page.click("#fd-run")
    page.wait_for_selector("text=프롬프트가 비어 있습니다")
    page.get_by_label("예시").click()
    page.get_by_role("option", name="장난감 예시").click()
    reads(page, "#fd-status", "빈칸 네 개")
    page.click("#fd-run")
    reads(page, "#fd-status", "끝남: 토큰 4개")


def test_a_line_follows_the_choice_of_another_language(page):
    reads(page, "#fd-status", "기록된 실행입니다.")
    open_tab(page, "Learn", "#fd-lesson [data-block=question]")
    page.locator("#fd-language input").click()
    page.get_by_role("option", name="中文").click()
    page.get_by_role("tab", name="Watch").click()
    reads(page, "#fd-status", "这是记录好的运行。")
    typed(page, "#fd-prompt-box textarea", " ")
    page.click("#fd-run")
    page.wait_for_selector("text=提示是空的")


def test_sweep_is_korean_and_its_errors_too(page):
    open_tab(page, "Sweep", "[data-block=points] td")
    reads(page, "[data-block=points]", "좋은 것부터")
    reads(page, "[data-block=say]", "파레토 프런트는")
    reads(page, "#fd-sweep-status", "기록된 실험입니다.")
    page.click("#fd-sweep-pause")
    reads(page, "#fd-sweep-status", "돌고 있는 스윕이 없습니다.")
    page.click("#fd-sweep-new button")
    typed(page, "#fd-sweep-search textarea", "gamma: 0.5 to 0.9")
    page.click("#fd-sweep-start")
    page.wait_for_selector("text=“gamma”이(가) 범위로 되어 있는데")
    # what somebody typed is no markup
    typed(page, "#fd-sweep-search textarea", "<b>x</b><img src=x>")
    page.click("#fd-sweep-start")
    page.wait_for_selector("text=‘시험할 값’의 “<b>x</b><img src=x>”은(는)")
    assert page.locator("[data-testid=toast-text] b, [data-testid=toast-text] img").count() == 0
    page.locator("[data-block=points] .bd-link").first.click()
    reads(page, "[data-block=point]", "문항을 누르면")


def test_traces_are_korean_and_so_is_the_exported_file(chrome, page, tmp_path):
    open_tab(page, "Traces", "[data-block=facts] td")
    reads(page, "[data-block=facts]", "이 실행")
    with page.expect_download() as download:
        page.click("#fd-export-html")
    download.value.save_as(tmp_path / "run.html")
    reads(page, "#fd-traces-status", "저장하고 있습니다.")
    # a file may not even ask for its own name elsewhere
    with opened(chrome, (tmp_path / "run.html").as_uri(), wait_for=CHARTS) as file:
        assert file.get_attribute(".fd", "lang") == "ko"
        reads(file, ".fd-say", "토큰")


def test_after_a_file_that_holds_no_trace_another_one_can_be_dropped(page, tmp_path):
    open_tab(page, "Traces", "[data-block=facts] td")
    for name, words in (("a", "{"), ("b", "[]")):
        (tmp_path / f"{name}.json").write_text(words)
        page.set_input_files("#fd-drop input[type=file]", str(tmp_path / f"{name}.json"))
        reads(page, "[data-testid=toast-text]", "이 파일에는 보일 수 있는 기록이 없습니다")
        page.locator("[data-testid=toast-close]").first.click()
        page.wait_for_selector("[data-testid=toast-body]", state="detached")
