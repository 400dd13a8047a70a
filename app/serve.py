"""The command line, the quiet theme, and how the page is served."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.player import page_head

OPENAPI = "/gradio_api/openapi.json"

# events that may wait, and threads: more than the line of runs has places, and room for the
# short events beside it
MOST_EVENTS, THREADS = 256, 96


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line of app.py."""
    parser = argparse.ArgumentParser(description="The Flash-dLLM explorer page.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--model", help="checkpoint folder; the embedded model by default")
    parser.add_argument("--impl", default="auto", choices=("auto", "torch", "triton"))
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16")
    parser.add_argument("--no-graphs", action="store_true", help="run without CUDA graphs")
    parser.add_argument(
        "--root-path", default="", help="path or address under which a proxy shows the page"
    )
    parser.add_argument(
        "--mcp", action="store_true", help="offer the endpoints as MCP tools (gradio_api/mcp/)"
    )
    parser.add_argument(
        "--studies", type=Path, default=Path("sweeps.db"), metavar="FILE",
        help="SQLite file of the sweeps that are run on the page",
    )  # fmt: skip
    parser.add_argument(
        "--locked", action="store_true",
        help="for a page that others visit: they can't load or unload models, nor open storages",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.mcp and importlib.util.find_spec("mcp") is None:
        parser.error("--mcp needs one more package: pip install -r requirements-mcp.txt")
    if options.root_path and not options.root_path.startswith(("/", "http://", "https://")):
        parser.error(
            f"--root-path must begin with / or be an address, got {options.root_path!r}; "
            "for example /explorer"
        )
    if options.model and not Path(options.model).is_dir():
        parser.error(f"--model must be the folder of a checkpoint, and {options.model} is none")
    return options


def launch(
    demo: gr.Blocks,
    host: str,
    port: int,
    root_path: str = "",
    has_mcp: bool = False,
    **more: Any,
) -> Any:
    """Serve the page: no analytics, no run history, nothing from elsewhere.

    root_path  the path, or the whole address, under which a proxy shows the page
    has_mcp    offer the named endpoints as MCP tools under gradio_api/mcp/
    """
    # gradio's queue passes everything on at once: the runs' own line (app/turns.py) is bounded,
    # fair, and shows everybody's place. Who waits in it holds a thread that sleeps.
    demo.queue(default_concurrency_limit=None, max_size=MOST_EVENTS)
    served = demo.launch(
        server_name=host,
        server_port=port,
        root_path=root_path or None,
        mcp_server=has_mcp,
        max_threads=THREADS,
        share=False,
        run_history=False,
        ssr_mode=False,
        footer_links=[],
        enable_monitoring=False,
        theme=theme(),
        head=page_head(),
        max_file_size="32mb",
        # FastAPI's own list of everything is not served; gradio's is, without its internals
        app_kwargs={"openapi_url": None, "routes": [Route(OPENAPI, openapi)]},
        **more,
    )
    if has_mcp:
        answer_in_json(demo)
    return served


def openapi(request: Request) -> JSONResponse:
    """The OpenAPI document of the named endpoints: gradio's own, less the upload of files."""
    made = next(
        route.endpoint
        for route in every_route(request.app.routes)
        if getattr(route, "path", "") == OPENAPI and route.endpoint is not openapi
    )
    document = made(request)
    document["paths"].pop("/gradio_api/upload", None)
    return JSONResponse(document)


def every_route(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes, and those of the routers that newer FastAPI keeps as a whole."""
    for route in routes:
        yield route
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from every_route(inner.routes)


def answer_in_json(demo: gr.Blocks) -> None:
    """Let MCP tools answer in JSON; gradio would write a dict as Python does."""
    server = demo.mcp_server_obj
    if server is None:
        raise RuntimeError(f"the MCP server did not start: {demo.mcp_error}")
    usual = server.postprocess_output_data

    def in_json(data: list[Any], root_url: str) -> list[Any]:
        texts = [json.dumps(part) if isinstance(part, dict) else part for part in data]
        return usual(texts, root_url)

    server.postprocess_output_data = in_json  # type: ignore[method-assign]


def theme() -> gr.themes.Base:
    """A quiet neutral theme with the system's fonts."""
    fonts = ["ui-sans-serif", "system-ui", "sans-serif"]
    return gr.themes.Base(
        primary_hue="neutral",
        secondary_hue="neutral",
        neutral_hue="zinc",
        font=fonts,
        font_mono=["ui-monospace", "Consolas", "monospace"],
        radius_size="sm",
        spacing_size="sm",
        text_size="md",
    ).set(
        button_primary_background_fill="*neutral_900",
        button_primary_background_fill_hover="*neutral_700",
        button_primary_background_fill_dark="*neutral_100",
        button_primary_background_fill_hover_dark="*neutral_300",
        button_primary_text_color_dark="*neutral_900",
        button_secondary_background_fill="transparent",
        button_secondary_background_fill_dark="transparent",
        button_secondary_border_color="*neutral_300",
        button_secondary_border_color_dark="*neutral_600",
        body_background_fill_dark="#111316",
        block_background_fill_dark="#16181b",
        button_border_width="1px",
        input_background_fill="*neutral_50",
        button_border_width_dark="1px",
        input_background_fill_dark="#1d2024",
    )
