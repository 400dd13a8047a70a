"""What Compare and Learn add to the page's link: runs, clock, lesson, language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.tabs.compare import Compare
from app.tabs.learn import Learn


class Linked:
    """inputs: the states to read; `split` makes fields of `Link` of their values.

    Until a tab is opened, what a link asked of it still holds.
    """

    def __init__(self, learn: Learn, compare: Compare) -> None:
        self.inputs = [
            learn.asked, learn.progress, learn.asked_lesson, compare.asked, compare.shown,
            compare.clock,
        ]  # fmt: skip

    def split(self, values: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
        """(fields of a link, the values behind those of `inputs`)"""
        count = len(self.inputs)
        language, progress, asked_lesson, asked, shown, clock = values[:count]
        fields = {
            "lesson": progress.lesson if progress.language else asked_lesson,
            "compared": tuple(asked or shown),
            "clock": clock,
            "language": language,
        }
        return fields, values[count:]
