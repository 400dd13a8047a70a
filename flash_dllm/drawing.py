"""Which tokens may be drawn, and what a draft's confidence is."""

from __future__ import annotations

from dataclasses import dataclass

MEASURES = ("probability", "entropy")


@dataclass(frozen=True)
class Drawing:
    """A strategy's wishes; the default is what every strategy does that has none.

    measure  "probability": a confidence is the chosen token's softmax probability, un-noised and
             before anything is left out. "entropy": it is e^−H of the distribution that the token
             is drawn from (after temperature, top_p and top_k): 1 where one token is left, 1/n
             where n are equally likely, so ranking by it is ranking by falling −H
    top_p    the fewest likeliest tokens that together hold more than this may be drawn; 1: all
    top_k    the k likeliest tokens may be drawn, with all that equal the last; None: all

    At temperature 0 the likeliest token is taken whatever is left out.
    Source: Dream's `diffusion_generate` (alg="entropy", top_p, top_k).
    """

    measure: str = "probability"
    top_p: float = 1.0
    top_k: int | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether there are tokens that can't be drawn."""
        return self.top_p < 1 or self.top_k is not None

    @property
    def is_plain(self) -> bool:
        """Whether it is the default."""
        return self.measure == "probability" and not self.leaves_out
