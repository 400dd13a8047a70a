"""The command line, the quiet theme, and how the page is served."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gradio as gr

from app.player import page_head


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
        "--studies", type=Path, default=Path("sweeps.db"), metavar="FILE",
        help="SQLite file of the sweeps that are run on the page",
    )  # fmt: skip
    parser.add_argument(
        "--locked", action="store_true",
        help="for a page that others visit: they can't load or unload models, nor open storages",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.model and not Path(options.model).is_dir():
        parser.error(f"--model must be the folder of a checkpoint, and {options.model} is none")
    return options


def launch(demo: gr.Blocks, host: str, port: int, **more: Any) -> Any:
    """Serve the page: no analytics, no run history, nothing from elsewhere."""
    demo.queue(default_concurrency_limit=None, max_size=16)
    return demo.launch(
        server_name=host,
        server_port=port,
        share=False,
        run_history=False,
        ssr_mode=False,
        footer_links=[],
        theme=theme(),
        head=page_head(),
        max_file_size="32mb",
        **more,
    )


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
