"""The parts of a report by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flash_dllm.evaluation.report.cell import Source, Unmeasurable
from flash_dllm.evaluation.report.embedded import embedded
from flash_dllm.evaluation.report.every_decoder import every_decoder
from flash_dllm.evaluation.report.figure1 import figure_1
from flash_dllm.evaluation.report.figure7 import figure_7
from flash_dllm.evaluation.report.figures56 import figures_5_and_6
from flash_dllm.evaluation.report.judging import Open
from flash_dllm.evaluation.report.section import Claim, Scope, Section
from flash_dllm.evaluation.report.table1 import table_1
from flash_dllm.evaluation.report.table2 import table_2
from flash_dllm.evaluation.report.table4 import table_4
from flash_dllm.evaluation.report.table5 import table_5
from flash_dllm.evaluation.report.table6 import table_6

PARTS: dict[str, Callable[[Source, Scope], Section]] = {
    "table1": table_1,
    "table2": table_2,
    "table4": table_4,
    "table5": table_5,
    "table6": table_6,
    "figure1": figure_1,
    "figure56": figures_5_and_6,
    "figure7": figure_7,
    "decoders": every_decoder,
    "embedded": embedded,
}

HEADINGS = {
    "table1": "Table 1", "table2": "Table 2", "table4": "Table 4", "table5": "Table 5",
    "table6": "Table 6", "figure1": "Figure 1", "figure56": "Figures 5 and 6",
    "figure7": "Figure 7", "decoders": "Every decoder",
    "embedded": "The embedded model",
}  # fmt: skip

OURS = ("decoders", "embedded")  # parts that the paper has no table of


def sections(lab: Source, scope: Scope, parts: Sequence[str]) -> list[Section]:
    """The parts that are asked for, in the report's order.

    One that needs a run which was not measured says why instead, and so do its claims.
    """
    made = []
    for name, make in PARTS.items():
        if name not in parts:
            continue
        source = lab.part(name)
        try:
            section = make(source, scope)
            notes = [note for note in (section.note, source.speeds_note) if note]
            made.append(replace(section, note=" ".join(notes)))
        except Unmeasurable as reason:
            why = str(reason).rstrip(".")
            # of tables that the paper has not it claims nothing
            claim = Claim("what the paper claims there", Open.MISSING, why)
            claims = [] if name in OURS else [claim]
            made.append(Section(HEADINGS[name], f"Not measured: {why}.", claims=claims))
    return made
