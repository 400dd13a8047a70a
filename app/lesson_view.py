"""A lesson as a board: its text, the question to predict, the answer, the challenge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app import board, lessons
from app.board import Block
from app.lessons import LESSONS
from flash_dllm.trace import DecodeTrace


@dataclass(frozen=True)
class Progress:
    """Where a learner stands. answers: lesson → option; solved: lessons whose challenge is met.

    said  the last verdict on the challenge that is open: "", "done" or "not_yet"
    """

    lesson: str = LESSONS[0].key
    language: str = ""
    # gradio hashes a state to see whether it has changed; a dict can't be
    answers: Mapping[str, int] = field(default_factory=dict, hash=False)
    solved: frozenset[str] = frozenset()
    said: str = ""

    def at(self, key: str) -> Progress:
        """Another lesson. Raises ValueError for an unknown one."""
        lessons.lesson(key)
        return replace(self, lesson=key, said="")

    def answered(self, option: int) -> Progress:
        """The first answer counts: it was the prediction."""
        options = lessons.words(self.language)["lessons"][self.lesson]["options"]
        if not 0 <= option < len(options) or self.lesson in self.answers:
            return self
        return replace(self, answers={**self.answers, self.lesson: option})

    def checked(self, trace: DecodeTrace, step: int, gamma: float | None) -> Progress:
        """The challenge of the lesson, checked at a step of its trace."""
        here = lessons.lesson(self.lesson)
        step = max(1, min(step, len(trace.steps)))
        if here.check(trace, step, gamma):
            return replace(self, said="done", solved=self.solved | {self.lesson})
        return replace(self, said="not_yet")

    @property
    def next(self) -> str:
        """The lesson after this one; behind the last one the first."""
        keys = [candidate.key for candidate in LESSONS]
        return keys[(keys.index(self.lesson) + 1) % len(keys)]


def lesson_board(progress: Progress, step: int) -> str:
    """The board of the open lesson; `step` is where its player stands."""
    words = lessons.words(progress.language)
    ui, here = words["ui"], words["lessons"][progress.lesson]
    given = progress.answers.get(progress.lesson)
    blocks = [
        _navigation(progress, words),
        board.text("title", here["title"], tag="h2"),
        board.text("text", *here["text"]),
        _question(progress, here, ui),
    ]
    if given is not None:
        is_right = given == lessons.lesson(progress.lesson).right
        verdict = ui["right"] if is_right else ui["wrong"]
        blocks.append(board.text("explain", f"{verdict} {here['explain']}"))
        blocks.append(board.text("challenge", ui["challenge"], here["challenge"], tag="h3"))
        blocks.append(
            board.choices(
                "check", "check", [{"value": "check", "label": ui["check"]}],
            )
        )  # fmt: skip
        blocks.append(_result(progress, here, ui, step))
    blocks.append(
        board.choices("next", "lesson", [{"value": progress.next, "label": ui["next"]}])
    )
    return board.board(f"{progress.lesson}/{progress.language}", blocks)


def glossary_board(language: str) -> str:
    """The glossary as a table."""
    words = lessons.words(language)
    ui = words["ui"]
    return board.board(
        f"glossary/{language}",
        [
            board.table(
                "glossary", [ui["term"], ui["meaning"]], words["glossary"], title=ui["glossary"],
                words=(0, 1),
            )
        ],
    )  # fmt: skip


def _navigation(progress: Progress, words: dict) -> Block:
    options = [
        {
            "value": candidate.key,
            "label": f"{number}",
            "mark": "✓" if candidate.key in progress.solved else "",
            "state": "right" if candidate.key in progress.solved else "",
            "help": words["lessons"][candidate.key]["title"],
        }
        for number, candidate in enumerate(LESSONS, 1)
    ]
    count = words["ui"]["solved"].format(count=len(progress.solved), total=len(LESSONS))
    return board.choices("lessons", "lesson", options, progress.lesson, title=count)


def _question(progress: Progress, here: dict, ui: dict) -> Block:
    given = progress.answers.get(progress.lesson)
    right = lessons.lesson(progress.lesson).right
    options = []
    for number, label in enumerate(here["options"]):
        state = ""
        if given is not None and number in (given, right):
            state = "right" if number == right else "wrong"
        mark = {"right": "✓", "wrong": "✗"}.get(state, "abc"[number])
        options.append({"value": str(number), "label": label, "mark": mark, "state": state})
    return board.choices(
        "question", "answer", options, None if given is None else str(given),
        title=f"{ui['predict']}: {here['question']}", is_stacked=True,
        is_locked=given is not None,
    )  # fmt: skip


def _result(progress: Progress, here: dict, ui: dict, step: int) -> Block:
    if not progress.said:
        return board.text("result", ui["at"].format(step=step), tone="quiet")
    mark = "✓ " if progress.said == "done" else ""
    return board.text("result", mark + here[progress.said])
