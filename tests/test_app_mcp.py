"""The endpoints as MCP tools, called by the protocol's own client; and the OpenAPI document."""

import asyncio
import gc
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from app.presets import TOY
from app.runs import Runs
from app.serve import launch, parse
from app.ui import build
from flash_dllm.trace_json import from_json, to_json
from tests.app_traces import toy
from tests.browser_page import free_port

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = Path(__file__).resolve().parents[1]
TOY_CALL = {
    "prompt": "^",
    "gen_length": 4,
    "epsilon": 0.9,
    "gamma": 0.8,
    "strategy": "flash_verify",
    "cache": "flash",
    "model": TOY,
    "settings": {
        "window_size": 2, "track_size": 1, "search_size": None, "block_length": None
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def url():
    demo = build(Runs())
    _, address, _ = launch(
        demo, "127.0.0.1", free_port(), has_mcp=True, prevent_thread_lock=True, quiet=True
    )
    yield address
    demo.close(verbose=False)
    gc.collect()


def in_session(url, use):
    """What `use` returns for a session of the official client."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def talk():
        async with (
            streamable_http_client(f"{url}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await use(session)

    return asyncio.run(asyncio.wait_for(talk(), 60))


def test_the_tools_are_the_named_endpoints_with_typed_arguments(url):
    async def use(session):
        return (await session.list_tools()).tools

    tools = {tool.name: tool for tool in in_session(url, use)}
    assert set(tools) >= {"decode", "rejudge", "metrics"}
    # whatever is a tool is a named endpoint, and the other way round
    info = read(f"{url}gradio_api/info")
    assert {f"/{name}" for name in tools} == set(info["named_endpoints"])
    arguments = tools["decode"].inputSchema
    assert arguments["required"] == ["prompt"]
    assert arguments["properties"]["gen_length"]["type"] == "integer"
    assert arguments["properties"]["gamma"]["oneOf"] == [{"type": "null"}, {"type": "number"}]
    assert "γ" in arguments["properties"]["gamma"]["description"]


def test_a_run_is_decoded_judged_again_and_measured_by_its_name(url):
    told = []

    async def progress(done, total, message):
        told.append(message)

    async def use(session):
        short = {**TOY_CALL, "include_trace": False}
        run = await session.call_tool("decode", short, progress_callback=progress)
        name = json.loads(run.content[0].text)["run"]
        again = await session.call_tool("rejudge", {"trace": name, "gamma": 0.9})
        cost = await session.call_tool("metrics", {"trace": name})
        return [json.loads(answer.content[0].text) for answer in (run, again, cost)]

    run, again, cost = in_session(url, use)
    assert run["text"] == "AABB" and run["is_done"] and "trace" not in run
    assert again["badge"] == "exact until step 1" and again["tokens_gained"] == -1
    assert (cost["tokens"], cost["steps"], cost["passes"]) == (4, 3, 5)
    assert told, "no progress was told"


def test_a_trace_goes_out_and_in_as_text(url):
    async def use(session):
        run = await session.call_tool("decode", TOY_CALL)
        trace = json.loads(run.content[0].text)["trace"]
        cost = await session.call_tool("metrics", {"trace": trace})
        return trace, json.loads(cost.content[0].text)

    trace, cost = in_session(url, use)
    assert from_json(trace).steps == toy().steps and cost["rows"] == 17


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("metrics", {"trace": "{}"}, "This is no trace that can be read: "),
        ("metrics", {"trace": "0123456789ab"}, "This run is no longer kept; run it again or "),
        ("rejudge", {"trace": to_json(toy()), "gamma": 2}, "gamma must lie between 0"),
        ("decode", {"prompt": "a" * 4001}, "The prompt has 4001 characters; at most 4000 are"),
        ("decode", {"prompt": ""}, "The prompt is empty; type a question"),
    ],
)
def test_an_error_is_one_sentence(url, tool, arguments, sentence):
    async def use(session):
        return await session.call_tool(tool, arguments)

    answer = in_session(url, use)
    assert answer.isError
    text = answer.content[0].text
    assert text.lower().startswith(sentence.lower()) and "\n" not in text


def read(address):
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)


def test_openapi_lists_our_endpoints_and_nothing_else(url):
    paths = read(f"{url}gradio_api/openapi.json")["paths"]
    names = set(read(f"{url}gradio_api/info")["named_endpoints"])
    calls = {f"/gradio_api/call/v2{name}" for name in names}
    answers = {f"/gradio_api/call{name}/{{event_id}}" for name in names}
    assert set(paths) == calls | answers
    body = paths["/gradio_api/call/v2/rejudge"]["post"]["requestBody"]
    fields = body["content"]["application/json"]["schema"]["properties"]
    assert list(fields) == ["trace", "epsilon", "gamma"]


@pytest.mark.parametrize("path", ["openapi.json", "docs", "redoc"])
def test_the_servers_internals_are_not_listed(url, path):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(f"{url}{path}")


def test_a_page_without_mcp_has_no_tools():
    demo = build(Runs())
    _, address, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    try:
        with pytest.raises(urllib.error.HTTPError, match="404|405"):
            read(f"{address}gradio_api/mcp/schema")
    finally:
        demo.close(verbose=False)


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr("app.serve.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        parse(["--mcp"])
    assert "pip install -r requirements-mcp.txt" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["explorer", "ftp://x/explorer"])
def test_a_root_path_that_can_not_be_is_refused(path, capsys):
    with pytest.raises(SystemExit):
        parse(["--root-path", path])
    assert "--root-path must begin with / or be an address" in capsys.readouterr().err


def test_the_command_line_offers_the_tools():
    code = (
        "import app.serve, sys; o = app.serve.parse(['--mcp', '--root-path', '/x']); "
        "print(o.mcp, o.root_path)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "True /x", done.stderr
