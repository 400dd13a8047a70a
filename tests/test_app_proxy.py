"""The page under a sub-path behind a proxy: every file comes, runs stream, programs get through."""

import asyncio
import gc
import json
from pathlib import Path

import pytest

from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.serve import launch
from app.ui import build
from tests.app_traces import SlowEngine
from tests.browser_page import browser, chromium, free_port, opened, typed
from tests.reverse_proxy import proxy

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PREFIX = "/tools/explorer"
TABS = {
    "Verify lab": "#fd-lab-board [data-block=plane] .main-svg",
    "Compare": "#fd-compare-board [data-block=progress] .main-svg",
    "Learn": "#fd-lesson [data-block=question]",
    "Traces": "#fd-traces-board [data-block=facts] td",
}


@pytest.fixture(scope="module", params=["open proxy, path", "closed proxy, whole address"])
def site(request):
    """(address, what was asked) of a page that is served with --root-path."""
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.25)
    demo, inner, outer = build(runs), free_port(), free_port()
    is_open = request.param.startswith("open")
    root = PREFIX if is_open else f"http://127.0.0.1:{outer}{PREFIX}"
    launch(demo, "127.0.0.1", inner, root, True, prevent_thread_lock=True, quiet=True)
    with proxy(inner, outer, PREFIX, is_open) as asked:
        yield f"http://127.0.0.1:{outer}{PREFIX}/", asked
    demo.close(verbose=False)
    gc.collect()


@pytest.mark.browser
@pytest.mark.skipif(
    chromium() is None, reason="chromium is not installed (apt-get install chromium)"
)
def test_every_file_of_the_page_comes_through_and_a_run_streams(site):
    url, asked = site
    asked.clear()
    with browser() as chrome, opened(chrome, url, wait_for=".fd-gamma[aria-valuenow]") as page:
        page.click("#fd-run")
        # steps come while it decodes, and not all at its end
        for steps in (2, 5, 9):
            page.wait_for_function(
                "n => +document.querySelector('.fd.live .fd-scrub')?.max >= n", arg=steps
            )
        page.click("#fd-stop")
        page.wait_for_function(
            "document.querySelector('#fd-status p').textContent.startsWith('stopped at step')"
        )
        typed(page, "#fd-gamma input[type=number]", "0.55")
        page.wait_for_selector(".fd[data-badge]:not([data-badge=''])")
        for name, drawn in TABS.items():
            page.get_by_role("tab", name=name).click()
            page.wait_for_selector(drawn)
        with page.expect_download() as download:
            page.click("#fd-export-json")
        saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
        assert saved["format"] == "flash-dllm-trace"
    assert len(asked) > 20
    assert [item for item in asked if item[2] >= 400 or not item[1].startswith(PREFIX)] == []


def test_a_client_decodes_through_the_proxy(site):
    from gradio_client import Client

    client = Client(site[0], verbose=False)
    job = client.submit("w1", gen_length=12, api_name="/decode")
    assert job.result(timeout=60)["is_done"]
    growing = [part["steps"] for part in job.outputs()]
    assert len(set(growing)) >= 3 and growing == sorted(growing)


def test_mcp_works_through_the_proxy(site):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def talk():
        async with (
            streamable_http_client(f"{site[0]}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            knobs = {"window_size": 2, "track_size": 1, "search_size": None, "block_length": None}
            arguments = {"prompt": "^", "gen_length": 4, "model": TOY, "settings": knobs}
            return await session.call_tool("decode", arguments)

    answer = asyncio.run(asyncio.wait_for(talk(), 60))
    assert json.loads(answer.content[0].text)["text"] == "AABB"
