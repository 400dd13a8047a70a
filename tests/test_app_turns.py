"""The line of runs: order, bounds, turns, stopping; each case worked out by hand."""

import threading
import time

import pytest

from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from app.turns import Turns
from tests.app_traces import SlowEngine


def join(turns, *visitors):
    return [turns.join(visitor, threading.Event()) for visitor in visitors]


def served(turns, places):
    """The order in which these places get the model, each leaving after its turn."""
    names = {id(place): number for number, place in enumerate(places)}
    order = []
    while len(turns):
        (now,) = [place for place in places if turns.wait(place, 0)]
        order.append(names[id(now)])
        turns.leave(now)
        places = [place for place in places if place is not now]
    return order


def test_runs_come_in_the_order_of_their_arrival():
    turns = Turns()
    places = join(turns, "a", "b", "c")
    assert [turns.ahead(place) for place in places] == [0, 1, 2] and turns.ahead() == 3
    assert served(turns, places) == [0, 1, 2]


def test_everybodys_first_run_comes_before_anybodys_second():
    turns = Turns()
    # a asked three times before b and c came
    places = join(turns, "a", "a", "a", "b", "c")
    assert turns.wait(places[0], 0)
    assert [turns.ahead(place) for place in places] == [0, 3, 4, 1, 2]
    assert served(turns, places) == [0, 3, 4, 1, 2]


def test_callers_without_a_name_are_visitors_of_their_own():
    turns = Turns(each=1)
    places = join(turns, "", "", "")
    assert served(turns, places) == [0, 1, 2]


def test_a_visitor_may_not_fill_the_line():
    turns = Turns(each=2)
    places = join(turns, "a", "a")
    with pytest.raises(RunError, match="^One visitor may have at most 2 runs going on or wait"):
        turns.check("a")
    turns.check("b")
    places[1].stop.set()  # a stopped run no longer counts
    turns.check("a")


def test_a_full_line_says_so():
    turns = Turns(at_most=2)
    join(turns, "a", "b")
    with pytest.raises(RunError, match="^2 runs are waiting already, .* try again in a minute.$"):
        turns.join("c", threading.Event())
    assert len(turns) == 2


def test_a_stopped_run_is_in_nobodys_way():
    turns = Turns()
    a, b, c = join(turns, "a", "b", "c")
    assert turns.wait(a, 0)
    b.stop.set()
    assert turns.ahead(c) == 1
    turns.leave(a)
    assert not turns.wait(b, 0) and turns.wait(c, 0)


def test_who_has_had_a_turn_goes_behind_the_others():
    turns = Turns(seconds=0)
    a, second, b = join(turns, "a", "a", "b")
    assert turns.wait(a, 0) and turns.is_over(a)
    turns.pass_on(a)
    assert [turns.ahead(place) for place in (a, second, b)] == [1, 2, 0]


def test_a_turn_goes_on_while_nobody_waits():
    turns = Turns(seconds=0)
    (a,) = join(turns, "a")
    assert turns.wait(a, 0) and not turns.is_over(a)


def test_no_more_runs_begin_than_may_be_open():
    turns = Turns(seconds=0, open=2)
    a, b, c = join(turns, "a", "b", "c")
    assert turns.wait(a, 0)
    turns.pass_on(a)
    assert turns.wait(b, 0)
    turns.pass_on(b)
    # c has not begun and two runs are open: a goes on
    assert not turns.wait(c, 0) and turns.wait(a, 0)
    turns.leave(a)
    assert turns.wait(c, 0)


def test_a_waiting_run_wakes_as_soon_as_the_line_moves():
    turns = Turns()
    a, b = join(turns, "a", "b")
    assert turns.wait(a, 0)
    threading.Timer(0.05, turns.leave, [a]).start()
    begin = time.monotonic()
    while not turns.wait(b, 10):
        pass
    assert time.monotonic() - begin < 5


def slow_runs(**turns) -> Runs:
    runs = Runs(turns=Turns(**turns))
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.01)
    return runs


def job(runs, visitor, **changes):
    values = {**runs.defaults(TOY), "gen_length": 48, "window_size": 8, "track_size": 4, **changes}
    return runs.prepare("hello", EMBEDDED, values, visitor)


def gather(runs, number, found):
    found[number] = list(runs.run(number))


def all_of(runs, jobs):
    """number → updates of jobs that run at the same time."""
    numbers = [runs.enqueue(job) for job in jobs]
    found: dict = {}
    threads = [threading.Thread(target=gather, args=(runs, n, found)) for n in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[number] for number in numbers]


def test_runs_that_take_turns_decode_what_they_would_alone():
    alone = [
        slow_runs().decode(job(slow_runs(), "", seed=seed, temperature=0.7)) for seed in range(3)
    ]
    runs = slow_runs(seconds=0.05)
    jobs = [job(runs, str(seed), seed=seed, temperature=0.7) for seed in range(3)]
    together = all_of(runs, jobs)
    paused = [u for updates in together for u in updates if "others have their turn" in u.status]
    assert paused, "nobody's turn ended"
    for updates, trace in zip(together, alone, strict=True):
        found = updates[-1].trace
        assert found is not None and found.status == "finished"
        assert [s.accepted for s in found.steps] == [s.accepted for s in trace.steps]
        assert [s for u in updates for s in u.steps] == list(found.steps)
    assert len(runs.turns) == 0


def test_one_visitors_stop_ends_no_other_run_and_a_waiting_one_at_once():
    runs = slow_runs()
    first, second, third = numbers = [runs.enqueue(job(runs, name)) for name in "abc"]
    found: dict = {}
    threads = [threading.Thread(target=gather, args=(runs, n, found)) for n in numbers]
    for place, thread in enumerate(threads, 1):
        thread.start()
        while len(runs.turns) < place:
            time.sleep(0.001)
    time.sleep(0.05)  # the third one has told its place
    begin = time.monotonic()
    assert runs.stop(second) and runs.ends(second, 5)
    assert time.monotonic() - begin < 0.5
    for thread in threads:
        thread.join(60)
    assert found[second][-1].status == "stopped before it began" and not found[second][-1].trace
    for number in (first, third):
        assert found[number][-1].trace.status == "finished"
    assert found[third][0].status == "queued, 2 before you"


def test_a_waiting_run_is_silent_when_the_line_moves_without_it():
    runs = slow_runs()
    first, second = (runs.enqueue(job(runs, name)) for name in "ab")
    going, waiting = runs.run(first), runs.run(second)
    next(going)
    assert next(waiting).status == "queued, 1 before you"
    found: list = []
    thread = threading.Thread(target=lambda: found.append(next(waiting)))
    thread.start()
    for _ in range(5):  # each wakes it, and none of them is its turn
        runs.turns.wake()
        time.sleep(0.01)
    assert found == []
    going.close()
    thread.join(60)
    assert found[0].header is not None
    waiting.close()


@pytest.mark.parametrize(("others", "words"), [(0, True), (1, False)])
def test_steps_are_told_less_often_while_others_wait(monkeypatch, others, words):
    monkeypatch.setattr("app.runs.UPDATE_SECONDS", 0.0)
    monkeypatch.setattr("app.runs.SLOW_UPDATE_SECONDS", 600.0)
    runs = slow_runs(seconds=600)
    going = runs.run(runs.enqueue(job(runs, "a")))
    waiting = runs.run(runs.enqueue(job(runs, "b")))
    next(going)
    if others:
        next(waiting)
    updates = list(going)
    # alone: one for each step but what the last one brings; else the first step, then the rest
    count = len(updates[-1].trace.steps)
    assert len(updates) == (count + 1 if words else 2)
    assert [s for u in updates for s in u.steps] == list(updates[-1].trace.steps)
    waiting.close()


def test_a_run_tells_its_name_after_its_end():
    runs = slow_runs()
    number = runs.enqueue(job(runs, "a"))
    assert runs.is_going(number) and runs.ended(number) is None
    trace = list(runs.run(number))[-1].trace
    assert not runs.is_going(number)
    name = runs.ended(number)
    assert name is not None and runs.store.trace(name) == trace
    assert runs.ended("nonsense") is None


def test_numbers_of_runs_can_not_be_guessed():
    runs = slow_runs()
    numbers = [runs.enqueue(job(runs, str(n))) for n in range(20)]
    assert len(set(numbers)) == 20 and all(len(bytes.fromhex(n)) == 8 for n in numbers)
