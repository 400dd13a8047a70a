"""What the Traces tab says of a run, and how programs and notebooks get at it."""

from __future__ import annotations

from app import board, compare
from app.run_lines import model_line, settings_line
from app.sentences import counted
from app.token_text import visible
from flash_dllm.trace import DecodeTrace

API = """from gradio_client import Client

client = Client("http://127.0.0.1:7860")
job = client.submit("Anna has 12 apples and buys 8 more.", gen_length=64, api_name="/decode")
for part in job:
    print(part["status"], part["text"])

trace = part["trace"]
print(client.predict(trace, gamma=0.6, api_name="/rejudge")["badge"])
print(client.predict(trace, api_name="/metrics")["tokens_per_pass"])"""

NOTEBOOK = """from app.notebook import figure, show
from flash_dllm.trace_json import load

trace = load("flash-dllm-….json")
show(trace)      # the player
figure(trace)    # a plotly figure with one frame per step"""


def traces_board(trace: DecodeTrace, name: str) -> str:
    """The board of one kept run."""
    cost = compare.cost(trace)
    return board.board(
        f"traces/{name}",
        [
            board.stats(
                "numbers",
                [
                    ("tokens", str(cost.tokens), ""),
                    ("steps", str(cost.steps), ""),
                    ("passes", str(cost.passes), ""),
                    ("tokens per pass", f"{cost.tokens_per_pass:.2f}", ""),
                    ("kept by check", str(cost.verified), ""),
                ],
            ),
            board.table(
                "facts", ["what", "value"],
                [
                    ["prompt", visible(trace.prompt)],
                    ["answer", visible(trace.text)],
                    ["settings", settings_line(trace)],
                    ["model", model_line(trace)],
                    ["state", f"{trace.status}, {counted(len(trace.steps), 'step')} recorded"],
                    ["name", name],
                ],
                title="This run", words=(0, 1),
            ),
            board.code(
                "api", "From a program", API,
                "Four endpoints, among them /sweep; /decode and /sweep stream.",
            ),  # fmt: skip
            board.code("notebook", "In a notebook", NOTEBOOK, "docs/notebook.ipynb shows more."),
        ],
    )  # fmt: skip
