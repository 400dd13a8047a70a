"""A token that is taken back, as the player shows it in headless Chromium."""

import pytest

from app import offline
from tests.browser_page import browser, chromium, opened
from tests.revoked_run import revoked_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None, reason="chromium is not installed (apt-get install chromium)"
    ),
]

OFFSET = 5


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("revoked") / "run.html"
    offline.write_player(revoked_run(), path, step=4)
    return path.as_uri()


def test_the_chip_loses_its_token_and_gets_another(address):
    with browser() as started, opened(started, address) as page:
        chip = page.locator(f".tk[data-p='{OFFSET}']")

        def at(step):
            page.locator(".fd-scrub").fill(str(step))
            page.wait_for_selector(f".fd[data-step='{step}']")
            return chip.locator(".t").inner_text(), chip.get_attribute("class").split()[1]

        assert at(4) == ("w4", "s10")
        assert chip.get_attribute("data-m") == "↶"
        chip.hover()
        tip = page.locator(".fd-tip")
        tip.wait_for(state="visible")
        words = tip.inner_text()
        assert "Taken back in this step." in words and "Written in step 1." in words
        assert "the model says “w21”" in words and "0.12" in words
        assert at(3) == ("w4", "s9")
        assert at(5)[1] == "s6"
        assert at(6) == ("w30", "s9")
        assert page.get_by_role("button", name="taken back").count() == 1
        assert "took “w4” (0.12) back" in (at(4), page.locator(".fd-say").inner_text())[1]


def test_the_map_and_the_bars_count_it(address):
    with browser() as started, opened(started, address) as page:
        page.wait_for_function("document.querySelector('.fd-map .js-plotly-plot')")
        z = page.evaluate("document.querySelector('.fd-map .js-plotly-plot').data[0].z")
        assert [row[OFFSET] for row in z][2:6] == [9, 10, 6, 9]
        bars = page.evaluate("document.querySelector('.fd-progress .js-plotly-plot').data")
        taken = [mark["x"] for mark in bars if min(mark["x"]) < 0]
        assert taken == [[-len(step.revoked) or 0 for step in revoked_run().steps]]
