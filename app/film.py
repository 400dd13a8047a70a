"""A run as a picture (PNG) or a film (GIF), drawn with Pillow: chips, sentence, legend.

The encodings are the player's: colours of `theme.py`, and a mark as second cue.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from app import theme
from app.run_lines import settings_line
from app.sentences import step_sentence, texts_of
from app.theme import COMMITTED, MASKED, REVOKED, STATE_OF, STATES
from app.token_text import label, layout_parts
from app.views import telling_step
from flash_dllm.trace import DecodeTrace, Verdict

WIDTH, MARGIN, LINE = 920, 28, 38
SIZE, SMALL, MARK = 17, 14, 10
STEP_MS, LAST_MS = 700, 2500
REVOCABLE = (COMMITTED, STATES[2], STATES[6], REVOKED, STATES[1], MASKED)
SHOWN = (COMMITTED, STATES[2], STATES[3], STATES[4], STATES[6], STATES[1], MASKED)


@dataclass(frozen=True)
class Chip:
    """The place of one answer position: x, y of its left top, its width."""

    x: float
    y: float
    width: float


def write_png(
    trace: DecodeTrace,
    path: str | os.PathLike[str],
    step: int | None = None,
    is_dark: bool = False,
) -> None:
    """One step (counted from 1; by default a telling one), twice as large as in the film.

    Raises ValueError for a trace without steps, or a step that it does not have.
    """
    index = telling_step(trace) if step is None else step - 1
    _check(trace, index)
    _draw(trace, index, is_dark, scale=2).save(path, format="PNG", optimize=True)


def write_gif(trace: DecodeTrace, path: str | os.PathLike[str], is_dark: bool = False) -> None:
    """All steps, then the written text; it starts again by itself.

    Raises ValueError for a trace without steps.
    """
    _check(trace, 0)
    frames = [_draw(trace, index, is_dark, scale=1) for index in range(len(trace.steps))]
    # one palette for all frames, from the telling step: nothing flickers
    palette = frames[telling_step(trace)].quantize(128)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [STEP_MS] * (len(small) - 1) + [LAST_MS]
    small[0].save(
        path, format="GIF", save_all=True, append_images=small[1:], duration=times, loop=0,
        disposal=1, optimize=False,
    )  # fmt: skip


def _check(trace: DecodeTrace, index: int) -> None:
    if not trace.steps:
        raise ValueError("this run has no steps, so there is nothing to draw")
    if not 0 <= index < len(trace.steps):
        raise ValueError(f"step must lie between 1 and {len(trace.steps)}, got {index + 1}")


@lru_cache(maxsize=16)
def _font(size: int, is_bold: bool = False) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """DejaVu where the system has it, else the font that Pillow carries (Latin only)."""
    try:
        return ImageFont.truetype(f"DejaVuSans{'-Bold' if is_bold else ''}.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def _words(trace: DecodeTrace) -> list[tuple[str, str, str]]:
    """(indent, core, break) of every position's final text; the room that it keeps throughout."""
    text_of = texts_of(trace)
    return [
        ("", "·", "") if token is None else layout_parts(text_of(token))
        for token in trace.canvas_at(len(trace.steps))
    ]


def _drafted(text: str) -> str:
    """What a chip shows of a draft: its core, or its name where there is nothing to see."""
    core = layout_parts(text)[1]
    return core if core.strip() else label(text)


def _places(trace: DecodeTrace, scale: int) -> tuple[list[Chip], float]:
    """Where every chip stands, and how far down the last line reaches."""
    font = _font(SIZE * scale)
    left, right = MARGIN * scale, (WIDTH - MARGIN) * scale
    x, y, line = float(left), 0.0, LINE * scale
    chips = []
    for indent, core, rest in _words(trace):
        x += font.getlength(indent)
        width = max(font.getlength(core), 8 * scale) + 4 * scale
        if x + width > right:
            x, y = left, y + line
        chips.append(Chip(x, y, width))
        x += width + scale
        if breaks := rest.count("\n"):
            x, y = left + font.getlength(rest.rpartition("\n")[2]), y + breaks * line
    return chips, y + line


def _draw(trace: DecodeTrace, index: int, is_dark: bool, scale: int) -> Image.Image:
    step = trace.steps[index]
    grey = {name: pair[is_dark] for name, pair in theme.GREYS.items()}
    chips, depth = _places(trace, scale)
    top = 116 * scale
    image = Image.new("RGB", (WIDTH * scale, int(top + depth + 92 * scale)), grey["page"])
    pen = ImageDraw.Draw(image)
    left = MARGIN * scale
    pen.text(
        (left, 22 * scale), f"Step {step.index} of {len(trace.steps)}", grey["ink"],
        font=_font(SIZE * scale, True),
    )  # fmt: skip
    sentence = textwrap.wrap(step_sentence(trace, step), 108)
    for number, line in enumerate(sentence[:2]):
        text = line + (" …" if number == 1 and len(sentence) > 2 else "")
        pen.text((left, (50 + 21 * number) * scale), text, grey["quiet"], font=_font(SMALL * scale))
    _chips(pen, trace, index, chips, top, is_dark, scale)
    bottom = top + depth + 14 * scale
    _legend(pen, bottom, is_dark, scale, REVOCABLE if trace.revocations else SHOWN)
    pen.text(
        (left, bottom + 34 * scale), f"{settings_line(trace)}  ·  {trace.model.name}",
        grey["quiet"], font=_font(12 * scale),
    )  # fmt: skip
    done = left + (WIDTH - 2 * MARGIN) * scale * step.index / len(trace.steps)
    end = (WIDTH - MARGIN) * scale
    pen.line((left, 100 * scale, end, 100 * scale), grey["line"], 2 * scale)
    pen.line((left, 100 * scale, done, 100 * scale), grey["ink"], 2 * scale)
    return image


def _chips(
    pen: ImageDraw.ImageDraw,
    trace: DecodeTrace,
    index: int,
    chips: list[Chip],
    top: float,
    is_dark: bool,
    scale: int,
) -> None:
    text_of = texts_of(trace)
    step = trace.steps[index]
    before, final = trace.canvas_at(index), trace.canvas_at(len(trace.steps))
    proposals = {p.position - trace.prompt_length: p for p in step.proposals}
    tracked = {position - trace.prompt_length for position in step.tracked}
    words, font = _words(trace), _font(SIZE * scale)
    for offset, chip in enumerate(chips):
        state, text = MASKED, "·"
        if (token := before[offset]) is not None:
            is_gone = offset + trace.prompt_length in step.revoked
            state, text = REVOKED if is_gone else COMMITTED, _drafted(text_of(token))
            if token == final[offset]:
                text = words[offset][1]
        elif (p := proposals.get(offset)) is not None:
            is_other = p.verdict is Verdict.CORRECTED and p.verify_token is not None
            token = p.verify_token if is_other else p.draft_token
            state, text = STATE_OF[p.verdict], _drafted(text_of(token or 0))
        y = top + chip.y
        box = (chip.x, y, chip.x + chip.width, y + 24 * scale)
        if state is not COMMITTED:
            edge = theme.GREYS["ink"][is_dark] if state.code in (4, 5) else None
            pen.rounded_rectangle(
                box, 4 * scale, fill=state.fill[is_dark], outline=edge, width=2 * scale
            )
        room = chip.width - 2 * scale
        while len(text) > 1 and font.getlength(text) > room:
            text = text[:-1]
        pen.text((chip.x + 2 * scale, y + 1 * scale), text, state.ink[is_dark], font=font)
        if state.mark and state is not MASKED:
            pen.text(
                (chip.x + chip.width, y - 1 * scale), state.mark, theme.GREYS["quiet"][is_dark],
                font=_font(MARK * scale, True), anchor="rs",
            )  # fmt: skip
        if offset in tracked:
            pen.rectangle(
                (chip.x + scale, y + 25 * scale, chip.x + chip.width - scale, y + 27 * scale),
                fill=theme.TRACKED[is_dark],
            )


def _legend(
    pen: ImageDraw.ImageDraw, y: float, is_dark: bool, scale: int, shown: Sequence[theme.State]
) -> None:
    x = float(MARGIN * scale)
    quiet = theme.GREYS["quiet"][is_dark]
    font = _font(12 * scale)
    for state in shown:
        box = (x, y, x + 22 * scale, y + 16 * scale)
        is_plain = state is COMMITTED
        pen.rounded_rectangle(
            box, 3 * scale, fill=None if is_plain else state.fill[is_dark],
            outline=theme.GREYS["line"][is_dark] if is_plain else None,
        )  # fmt: skip
        pen.text(
            (x + 11 * scale, y + 8 * scale), state.mark, state.ink[is_dark],
            font=_font(MARK * scale, True), anchor="mm",
        )  # fmt: skip
        name = "stops here" if state.code == 4 else state.label
        pen.text((x + 28 * scale, y + 8 * scale), name, quiet, font=font, anchor="lm")
        x += 28 * scale + font.getlength(name) + 16 * scale
