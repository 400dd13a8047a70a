"""Two implementations of one model that answer the same questions: each answer is compared."""

from __future__ import annotations

import pytest

# of a probability
CLOSE = 1e-4


class PairedEngine:
    """The truth decides; the other one answers the same passes and must say the same.

    passes  how many were compared
    rows    how many answered rows, and `ties` of them with two equally likely tokens
    """

    guide = None

    def __init__(self, truth, other):
        self.truth, self.other = truth, other
        self.info, self.max_length = truth.info, truth.max_length
        self.passes = self.rows = self.ties = 0

    def token_text(self, token):
        return self.truth.token_text(token)

    def open(self, request):
        return PairedSession(self, self.truth.open(request), self.other.open(request))


class PairedSession:
    def __init__(self, engine, truth, other):
        self._engine, self._both = engine, (truth, other)
        # the truth's handle → the other one's: a session that goes on in an old cache counts on
        self._handles = {}

    def groups_of(self, sequences):
        return 1

    def admit(self, length, seed):
        handle, theirs = (session.admit(length, seed) for session in self._both)
        self._handles[handle] = theirs
        return handle

    def ask(self, queries):
        # one after the other: neither may read what the other has not written
        theirs = [(self._handles[handle], query) for handle, query in queries]
        waiting = [
            session.ask(asked) for session, asked in zip(self._both, (queries, theirs), strict=True)
        ]

        def answers():
            expected, found = (wait() for wait in waiting)
            self._engine.passes += 1
            for one, other in zip(expected, found, strict=True):
                self._engine.ties += same(one, other)
                self._engine.rows += len(one.tokens)
            return expected

        return answers

    def promote(self, handle, moves):
        self._both[0].promote(handle, moves)
        self._both[1].promote(self._handles[handle], moves)

    def release(self, handle):
        self._both[0].release(handle)
        self._both[1].release(self._handles.pop(handle))

    def close(self):
        for session in self._both:
            session.close()


def same(one, other):
    """Two answers to one question, in float32; how many rows name another token because two are
    equally likely."""
    assert other.confidences == pytest.approx(one.confidences, abs=CLOSE)
    ties = 0
    for row, (token, found) in enumerate(zip(one.tokens, other.tokens, strict=True)):
        if found != token:
            ties += 1
            if one.alternatives[row]:
                # its probability, which must be the highest one's
                share = dict(one.alternatives[row])[found]
                assert share == pytest.approx(one.confidences[row], abs=CLOSE)
    # runners-up of equal probability may come in another order
    for mine, theirs in zip(one.alternatives, other.alternatives, strict=True):
        assert [p for _, p in theirs] == pytest.approx([p for _, p in mine], abs=CLOSE)
    assert (other.mass is None) == (one.mass is None)
    if one.mass is not None:
        values = list(one.mass.values)
        assert list(other.mass.values) == pytest.approx(values, rel=1e-3, abs=1e-5)
    return ties
