"""Habits of the generators: one option is usual for its subject, the others stay possible."""

import random
from collections import Counter

from training.generators.habit import USUAL_SHARE, usual


def shares(subject: str, options: str, draws: int = 20_000) -> list[float]:
    rng = random.Random(subject)
    counts = Counter(usual(rng, options, subject) for _ in range(draws))
    return [counts[option] / draws for option in options]


def test_one_option_has_the_usual_share_and_the_others_share_the_rest():
    for options in ("ab", "abcde"):
        found = sorted(shares("form/ages/0", options), reverse=True)
        rest = (1 - USUAL_SHARE) / len(options)
        assert abs(found[0] - (USUAL_SHARE + rest)) < 0.02
        assert all(abs(share - rest) < 0.02 for share in found[1:])


def test_the_usual_option_depends_on_the_subject_alone():
    def favourite(subject: str, seed: int) -> str:
        rng = random.Random(seed)
        return Counter(usual(rng, "abcde", subject) for _ in range(200)).most_common(1)[0][0]

    subjects = [f"family {number}" for number in range(40)]
    assert [favourite(s, 1) for s in subjects] == [favourite(s, 2) for s in subjects]
    # crc32 spreads them: with 40 subjects none of the five is left out
    assert len({favourite(subject, 3) for subject in subjects}) == 5
