"""Steps on a CPU: made in one thread that stands back, for everybody."""

import os
import sys
import threading

import pytest

from app.background import STEPS_BACK, Background


def here() -> tuple[int, int]:
    """(thread, how far it stands back)."""
    thread = threading.get_native_id()
    back = os.getpriority(os.PRIO_PROCESS, thread) if sys.platform == "linux" else 0
    return thread, back


def test_items_come_in_order_and_end():
    assert list(Background().each(iter("abc"))) == ["a", "b", "c"]
    assert list(Background().each(iter([None, 0]))) == [None, 0]


def test_all_are_made_in_one_thread_that_is_nobody_elses():
    background = Background()
    first = background.each(here() for _ in range(3))
    other = background.each(here() for _ in range(3))
    made = [next(first), next(other), next(first), next(other)]
    assert len({thread for thread, _ in made}) == 1
    assert made[0][0] != threading.get_native_id()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority on Linux only")
def test_the_system_prefers_other_threads_and_the_asking_one_keeps_its_place():
    before = here()[1]
    ((_, back),) = Background().each(here() for _ in range(1))
    assert back == min(19, before + STEPS_BACK) and here()[1] == before


def test_what_an_item_raises_is_raised_where_it_was_asked_for():
    def failing():
        yield 1
        raise ValueError("a step")

    items = Background().each(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="^a step$"):
        next(items)
