"""Sections as one Markdown page and one HTML page with Plotly figures."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from flash_dllm.evaluation.report.judging import Judged, Open
from flash_dllm.evaluation.report.section import Picture, Section
from flash_dllm.files import write_text

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { border: 1px solid #bbb; padding: .3rem .6rem; text-align: left }
.paper { color: #555; border-left: 3px solid #bbb; padding-left: 1rem }
"""

VERDICTS: dict[Judged, str] = {
    True: "Holds", False: "Does not hold", Open.NOISY: "Too noisy to judge",
    Open.MISSING: "Can't be judged",
}  # fmt: skip


def write_report(folder: Path, title: str, facts: str, sections: Sequence[Section]) -> list[Path]:
    """Write `report.md` and `report.html`; returns both paths."""
    paths = [folder / "report.md", folder / "report.html"]
    write_text(paths[0], markdown(title, facts, sections))
    write_text(paths[1], page(title, facts, sections))
    return paths


def markdown(title: str, facts: str, sections: Sequence[Section]) -> str:
    """The page as Markdown; figures are in the HTML page."""
    lines = [f"# {title}", "", facts, "", "## Which of the paper's claims hold here", ""]
    lines += [f"- {sentence}" for sentence in claims_of(sections)]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.text, ""]
        if section.rows:
            cells = [section.head, ["---"] * len(section.head), *section.rows]
            lines += [f"| {' | '.join(row)} |" for row in cells]
        if section.note:
            lines += ["", section.note]
        if section.pictures:
            lines += ["", "Pictures (in report.html, which the same command writes): "
                      + "; ".join(picture.title for picture in section.pictures) + "."]  # fmt: skip
        if section.paper:
            lines += ["", "The paper's values (LLaDA-1.5, A100): "
                      + "; ".join(section.paper) + "."]  # fmt: skip
    return "\n".join(lines) + "\n"


def page(title: str, facts: str, sections: Sequence[Section]) -> str:
    """The page as one HTML file that needs nothing else."""
    e = html.escape
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{e(title)}</title>",
        f"<style>{STYLE}</style><h1>{e(title)}</h1><p>{e(facts)}</p>",
        "<h2>Which of the paper's claims hold here</h2><ul>",
        *(f"<li>{e(sentence)}</li>" for sentence in claims_of(sections)),
        "</ul>",
    ]
    is_first = True
    for section in sections:
        parts.append(f"<h2>{e(section.title)}</h2><p>{e(section.text)}</p>")
        if section.rows:
            head = "".join(f"<th>{e(cell)}</th>" for cell in section.head)
            rows = "".join(
                f"<tr>{''.join(f'<td>{e(cell)}</td>' for cell in row)}</tr>" for row in section.rows
            )
            parts.append(f"<table><tr>{head}</tr>{rows}</table>")
        if section.note:
            parts.append(f"<p>{e(section.note)}</p>")
        for picture in section.pictures:
            if not any(curve.points for curve in picture.curves):
                parts.append(f"<p>{e(picture.title)}: no point of it was measured.</p>")
                continue
            parts.append(
                figure(picture).to_html(full_html=False, include_plotlyjs=is_first)
            )
            is_first = False
        if section.paper:
            known = "; ".join(section.paper)
            parts.append(
                f"<p class='paper'>The paper's values (LLaDA-1.5, A100): {e(known)}.</p>"
            )
    return "\n".join([*parts, "</html>"]) + "\n"


def figure(picture: Picture):
    """A picture as a Plotly figure: a line per curve, a mark per point."""
    import plotly.graph_objects as go

    marks = [
        go.Scatter(
            x=[x for x, _, _ in curve.points],
            y=[y for _, y, _ in curve.points],
            text=[label for _, _, label in curve.points],
            name=curve.name,
            mode="markers" if all(not label for *_, label in curve.points) else "lines+markers",
        )
        for curve in picture.curves
    ]
    layout = {"title": picture.title, "xaxis_title": picture.x, "yaxis_title": picture.y}
    return go.Figure(marks, layout=go.Layout(template="plotly_white", height=420, **layout))


def claims_of(sections: Sequence[Section]) -> list[str]:
    """Each claim in a sentence that starts with the verdict and says where it stands."""
    return [
        f"{VERDICTS[claim.holds]} ({section.title.partition(':')[0]}): {claim.text} "
        f"({claim.because})."
        for section in sections
        for claim in section.claims
    ]
