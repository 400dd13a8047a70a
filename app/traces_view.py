"""What the Traces tab says of a run, and how programs and notebooks get at it."""

from __future__ import annotations

from app import board, compare
from app.run_lines import model_line, settings_line
from app.said import counted
from app.token_text import visible
from app.words import Says
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


def traces_board(trace: DecodeTrace, name: str, language: str = "en") -> str:
    """The board of one kept run."""
    say = Says("traces", language)
    cost = compare.cost(trace)
    numbers = (
        str(cost.tokens), str(cost.steps), str(cost.passes), f"{cost.tokens_per_pass:.2f}",
        str(cost.verified),
    )  # fmt: skip
    steps = counted(len(trace.steps), "step").within(language)
    facts = (
        visible(trace.prompt), visible(trace.text), settings_line(trace), model_line(trace),
        say(trace.status, steps=steps), name,
    )  # fmt: skip
    return board.board(
        f"traces/{name}/{language}",
        [
            board.stats(
                "numbers",
                [(words, number, "") for words, number in zip(
                    say.raw("numbers"), numbers, strict=True
                )],
            ),
            board.table(
                "facts", say.raw("columns"),
                [[words, fact] for words, fact in zip(say.raw("facts"), facts, strict=True)],
                title=say("run"), words=(0, 1),
            ),
            board.code("api", say("program"), API, say("program_note")),
            board.code("notebook", say("notebook"), NOTEBOOK, say("notebook_note")),
        ],
    )  # fmt: skip
