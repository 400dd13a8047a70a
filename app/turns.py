"""Who may use the model: one run at a time, visitors in turn. Knows neither model nor page.

Our choice: runs are queued and not batched, so that the seconds a run reports are its own. Nobody
waits for another's long run to end: after `seconds` it goes to the end of the line and continues
when its turn comes again.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from app.said import counted, said
from app.store import RunError


@dataclass(eq=False)
class Place:
    """A run's place in the line.

    stop      set when the run is to end; such a place stands in nobody's way
    has_begun whether it has had a turn, and so holds memory of the model
    since     when its present turn began
    """

    visitor: str
    stop: threading.Event = field(default_factory=threading.Event)
    has_begun: bool = False
    since: float = 0.0


class Turns:
    """The line of runs.

    at_most  places in the line, the run that is going on included
    each     of these, how many one visitor may have
    seconds  length of a turn, if others wait
    open     how many runs may have begun at the same time
    """

    def __init__(
        self, at_most: int = 32, each: int = 3, seconds: float = 2.0, open: int = 4
    ) -> None:
        self._at_most, self._each, self._seconds, self._open = at_most, each, seconds, open
        self._places: list[Place] = []  # in order of arrival
        self._now: Place | None = None
        self._nameless = itertools.count(1)
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._places)

    def check(self, visitor: str) -> None:
        """Raise RunError if this visitor can't join the line now."""
        with self._changed:
            self._check(visitor)

    def join(self, visitor: str, stop: threading.Event) -> Place:
        """A place at the end of the line; "" is a visitor of its own. Raises RunError if there
        is none."""
        with self._changed:
            self._check(visitor)
            place = Place(visitor or f"nameless {next(self._nameless)}", stop)
            self._places.append(place)
            self._changed.notify_all()
            return place

    def wait(self, place: Place, within: float) -> bool:
        """Whether its turn has come; returns early when something has changed in the line."""
        with self._changed:
            if not self._take(place) and not place.stop.is_set():
                self._changed.wait(max(0.0, within))
            return self._now is place or self._take(place)

    def ahead(self, place: Place | None = None) -> int:
        """How many runs come before this one, or before one that would join now."""
        with self._changed:
            line = [other for other in self._order() if not other.stop.is_set()]
            return line.index(place) if place in line else len(line)

    def is_over(self, place: Place) -> bool:
        """Whether it has had its turn and somebody else may go on."""
        with self._changed:
            if time.monotonic() - place.since < self._seconds:
                return False
            return any(self._may(other) for other in self._places if other is not place)

    def pass_on(self, place: Place) -> None:
        """End its turn; it waits for the next one."""
        with self._changed:
            self._end_turn(place)

    def leave(self, place: Place) -> None:
        """Out of the line."""
        with self._changed:
            if self._now is place:
                self._end_turn(place)
            self._places.remove(place)
            self._changed.notify_all()

    def wake(self) -> None:
        """Let everybody who waits look again: a `stop` was set."""
        with self._changed:
            self._changed.notify_all()

    def _check(self, visitor: str) -> None:
        going = [place.visitor for place in self._places if not place.stop.is_set()]
        if going.count(visitor) >= self._each:
            raise RunError(said("visitor_full", runs=counted(self._each, "run")))
        if len(self._places) >= self._at_most:
            raise RunError(said("line_full", count=self._at_most))

    def _end_turn(self, place: Place) -> None:
        """Whoever had a turn goes behind the others, with all of this visitor's runs."""
        own = [other for other in self._places if other.visitor == place.visitor]
        own.sort(key=lambda other: other is not place)
        self._places = [other for other in self._places if other.visitor != place.visitor] + own
        self._now = None
        self._changed.notify_all()

    def _order(self) -> list[Place]:
        """Whose turn it is, then the others: everybody's first run before anybody's second."""
        line = [] if self._now is None else [self._now]
        waiting = [place for place in self._places if place is not self._now]
        earlier = Counter(place.visitor for place in line)
        ranks = []
        for place in waiting:
            ranks.append(earlier[place.visitor])
            earlier[place.visitor] += 1
        # sorted keeps the order of those of one rank
        ranked = sorted(zip(ranks, waiting, strict=True), key=lambda item: item[0])
        return line + [place for _, place in ranked]

    def _may(self, place: Place) -> bool:
        begun = sum(other.has_begun for other in self._places)
        return not place.stop.is_set() and (place.has_begun or begun < self._open)

    def _take(self, place: Place) -> bool:
        """Begin its turn, if it is the next one."""
        if self._now is None and next(filter(self._may, self._order()), None) is place:
            self._now, place.has_begun, place.since = place, True, time.monotonic()
        return self._now is place
