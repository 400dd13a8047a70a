"""Two to four runs as a board: one clock for all, what differs, what each cost."""

from __future__ import annotations

from collections.abc import Sequence

from app import board, compare
from app.board import Block
from app.run_lines import settings_line
from app.sentences import texts_of
from app.theme import COMMITTED, STATE_OF, escape
from app.token_text import label, layout_parts
from app.views import is_code
from app.words import Says
from flash_dllm.trace import COMMITTED as WRITES
from flash_dllm.trace import DecodeTrace

# one look per run: colour and dash, so that colour is not alone
LINES = (("@ink", "solid"), ("@direct-cell", "dash"), ("@mismatch-cell", "dot"),
         ("@verified-cell", "dashdot"))  # fmt: skip


def compare_board(
    traces: Sequence[DecodeTrace], key: str, kind: str = "passes", language: str = "en"
) -> str:
    """The board of two to four runs on a clock. Raises ValueError for another number of runs."""
    if not 2 <= len(traces) <= 4:
        raise ValueError(f"choose two to four runs to compare, got {len(traces)}")
    say = Says("compare", language)
    names = compare.short_names(traces, say)
    clocks = say.raw("clocks")
    _, unit, meaning = clocks[kind]
    options = [{"value": name, "label": clocks[name][0]} for name in compare.CLOCKS]
    return board.board(
        f"{key}/{kind}",
        [
            board.choices("clock", "clock", options, kind, title=say("clock"), span=6),
            board.text("meaning", meaning, tone="quiet", span=6),
            {
                "id": "lanes", "kind": "lanes", "span": 12, "unit": unit,
                "digits": compare.CLOCKS[kind],
                "words": {name: say.raw(name) for name in ("play", "pause", "range", "written")},
                "most": max(compare.clock(trace, kind)[-1] for trace in traces),
                "lanes": [
                    _lane(say, traces[0], trace, name, kind)
                    for trace, name in zip(traces, names, strict=True)
                ],
            },
            _progress(say, traces, names, kind),
            _strip(say, traces),
            _parting(say, traces),
            _costs(say, traces, names),
        ],
    )  # fmt: skip


def _lane(
    say: Says, first: DecodeTrace, trace: DecodeTrace, name: str, kind: str
) -> Block:
    text_of = texts_of(trace)
    proposals = {
        p.position: (step.index, p)
        for step in trace.steps
        for p in step.proposals
        if p.verdict in WRITES
    }
    differs = compare.differences(first, trace)
    texts, states, tips, marks = [], [], [], []
    for offset, token in enumerate(trace.canvas_at(len(trace.steps))):
        if token is None:
            texts.append(("", "·", ""))
            states.append(0)
            tips.append(say("never", p=offset))
            marks.append("")
            continue
        step, proposal = proposals[trace.prompt_length + offset]
        state = STATE_OF.get(proposal.verdict, COMMITTED)
        texts.append(layout_parts(text_of(token)))
        states.append(state.code)
        marks.append(state.mark)
        named = label(text_of(token))
        tips.append(say("tip", p=offset, text=named, step=step, state=say.state(state.key)))
    last = max((k for k, state in enumerate(states) if state), default=-1) + 1
    return {
        "label": f"{name} · {settings_line(trace)}" if name == "A" else name,
        "texts": texts[:last],
        "states": states[:last],
        "tips": tips[:last],
        "marks": marks[:last],
        "at": compare.written_at(trace, kind)[:last],
        "differs": "".join("01"[is_other] for is_other in differs[:last]),
        "mono": is_code(trace.text),
    }


def _progress(
    say: Says, traces: Sequence[DecodeTrace], names: Sequence[str], kind: str
) -> Block:
    marks, notes, most = [], [], 1
    for trace, name, (colour, dash) in zip(traces, names, LINES, strict=False):
        x: list[float] = [0, *compare.clock(trace, kind)]
        y = [0]
        for step in trace.steps:
            y.append(y[-1] + len(step.accepted) - len(step.revoked))
        most = max(most, y[-1])
        marks.append(
            {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "text",
             "hovertext": [
                 say("progress_hover", n, name=escape(name), at=f"{at:g}")
                 for n, at in zip(y, x, strict=True)
             ],
             "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"}}
        )  # fmt: skip
        notes.append(
            {"x": x[-1], "y": y[-1], "text": f"<b>{name[0]}</b>", "showarrow": False,
             "xanchor": "left", "xshift": 5, "font": {"color": colour, "size": 13}}
        )  # fmt: skip
    called, unit, _ = say.raw("clocks")[kind]
    far = max(compare.clock(trace, kind)[-1] for trace in traces)
    layout = {
        "annotations": notes,
        "xaxis": {"range": [0, far * 1.06], 
                  "title": called if unit == called else f"{called} ({unit})"},
        "yaxis": {"range": [0, most * 1.08], "title": say("progress_y")},
    }
    return board.chart(
        "progress", say("progress"), say("progress_note"), marks, layout, height=280, span=6,
        spoken=say("progress_spoken", clock=called),
    )  # fmt: skip


def _strip(say: Says, traces: Sequence[DecodeTrace]) -> Block:
    first = traces[0]
    count = 1 + max(max(trace.decided_step) - trace.prompt_length for trace in traces)
    z, hover, marks_x, marks_y, labels, recut = [], [], [], [], [], []
    texts = [_final_texts(trace) for trace in traces]
    for row, trace in enumerate(traces[1:]):
        letter = "BCD"[row]
        differs = compare.differences(first, trace)[:count]
        z.append([int(flag) for flag in differs] + [None] * (count - len(differs)))
        hover.append(
            [
                say("strip_hover", p=k, first=_quoted(say, texts[0], k), letter=letter,
                    other=_quoted(say, texts[row + 1], k))
                for k in range(count)
            ]
        )
        marks_x += [k for k, flag in enumerate(differs) if flag]
        marks_y += [row] * sum(differs)
        found = say("differences", sum(differs))
        if not compare.same_prompt(first, trace):
            found = say("other_prompt")
        elif not compare.same_tokens(first, trace):
            found = say("other_tokens")
            recut.append(letter)
        labels.append(f"A–{letter} ({found})")
    scale = [[0, "@line"], [0.5, "@line"], [0.5, "@mismatch-cell"], [1, "@mismatch-cell"]]
    marks: list[Block] = [
        {"type": "heatmap", "z": z, "zmin": 0, "zmax": 1, "colorscale": scale, "showscale": False,
         "hoverinfo": "text", "hovertext": hover, "ygap": 10, "xgap": 1 if count <= 128 else 0},
        {"type": "scatter", "mode": "markers", "x": marks_x, "y": marks_y, "hoverinfo": "skip",
         "marker": {"symbol": "x-thin", "size": 5, "line": {"width": 1, "color": "@page"}}},
    ]  # fmt: skip
    rows = len(traces) - 1
    layout = {
        "margin": {"l": 128, "r": 12, "t": 8, "b": 40},
        "xaxis": {"range": [-0.5, count - 0.5], "title": say("strip_x"),
                  "showgrid": False},
        "yaxis": {"range": [rows - 0.5, -0.5], "tickvals": list(range(rows)), "ticktext": labels,
                  "showgrid": False},
    }  # fmt: skip
    note = say("strip_note")
    if recut:
        note += say("strip_recut", len(recut), who=say("and").join(recut))
    return board.chart(
        "strip", say("strip"), note, marks, layout,
        height=52 + 48 * rows, span=6, spoken="; ".join(labels),
    )  # fmt: skip


def _parting(say: Says, traces: Sequence[DecodeTrace]) -> Block:
    rows = []
    for letter, trace in zip("BCD", traces[1:], strict=False):
        found = compare.parting(traces[0], trace, say, letter)
        settings = ", ".join(f"{name}: {a} → {b}" for name, a, b in found.settings)
        rows.append(
            [
                say("pair", letter=letter),
                "–" if found.step is None else str(found.step),
                "–" if found.position is None else str(found.position),
                settings or say("none"),
                found.words,
            ]
        )
    return board.table(
        "parting", say.raw("parting_columns"), rows, title=say("parting"), words=(0, 3, 4)
    )  # fmt: skip


def _costs(say: Says, traces: Sequence[DecodeTrace], names: Sequence[str]) -> Block:
    return board.table(
        "costs", say.raw("cost_columns"), cost_rows(traces, names), title=say("costs"),
        note=say("costs_note"), words=(0,),
    )  # fmt: skip


def cost_rows(traces: Sequence[DecodeTrace], names: Sequence[str]) -> list[list[str]]:
    """The cost table as texts."""
    rows = []
    for trace, name in zip(traces, names, strict=True):
        cost = compare.cost(trace)
        share = compare.alike(traces[0], trace)
        same = "–" if share is None else f"{share:.0%}"
        rows.append(
            [
                name, str(cost.tokens), str(cost.steps), str(cost.passes), f"{cost.rows:,}",
                f"{cost.row_layers:,}", f"{cost.seconds:.2f}", f"{cost.tokens_per_pass:.2f}",
                str(cost.verified), same,
            ]
        )  # fmt: skip
    return rows


def _final_texts(trace: DecodeTrace) -> list[str | None]:
    text_of = texts_of(trace)
    return [None if t is None else text_of(t) for t in trace.canvas_at(len(trace.steps))]


def _quoted(say: Says, texts: Sequence[str | None], offset: int) -> str:
    text = texts[offset] if offset < len(texts) else None
    return say("nothing") if text is None else say("quoted", text=escape(label(text)))
