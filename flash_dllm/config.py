"""DecodeConfig: the lengths and rules of a run that no strategy and no cache policy owns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DecodeConfig:
    """What every strategy shares. Impossible values raise ValueError at construction.

    Sizes follow docs/decisions.md: every strategy queries the leftmost `window_size` undecided
    positions of the first unfinished block and commits only inside the leftmost `decide_size`.
    """

    gen_length: int = field(
        default=128, metadata={"symbol": "N", "low": 1, "high": 4096, "help": "answer positions"}
    )
    block_length: int | None = field(
        default=None,
        metadata={"symbol": "β", "low": 1, "high": 4096, "help": "semi-autoregressive block; "
                  "none means one block of gen_length"},
    )
    window_size: int = field(
        default=32,
        metadata={"symbol": "β_m", "low": 1, "high": 1024,
                  "help": "undecided positions queried each step"},
    )
    decide_size: int | None = field(
        default=None,
        metadata={"symbol": "", "low": 1, "high": 1024,
                  "help": "how many of the window may be committed; none means all"},
    )
    temperature: float = field(
        default=0.0,
        metadata={"symbol": "T", "low": 0.0, "high": 10.0, "help": "0 takes the likeliest token"},
    )
    seed: int = field(
        default=0, metadata={"symbol": "", "low": 0, "high": 2**31 - 1, "help": "for T > 0"}
    )
    early_stop: bool = field(
        default=True, metadata={"help": "stop once an end token has nothing undecided before it"}
    )
    suppress_after_eos: bool = field(
        default=False,
        metadata={"help": "never commit behind a committed end token (not lossless)"},
    )
    rank_ends_last: bool = field(
        default=False,
        metadata={"help": "end tokens count as confidence 0: committed only when nothing else is "
                  "surer (official for some models)", "may_lack": True},
    )
    alternatives: int = field(
        default=5,
        metadata={"symbol": "", "low": 0, "high": 20, "help": "runner-up tokens kept in the trace"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.gen_length % self.block:
            raise ValueError(
                f"gen_length must be a multiple of block_length, got {self.gen_length} and "
                f"{self.block}"
            )
        if self.decide_size is not None and self.decide_size > self.window_size:
            raise ValueError(
                f"decide_size must not exceed window_size, got {self.decide_size} and "
                f"{self.window_size}"
            )

    @property
    def block(self) -> int:
        """block_length with its default filled in."""
        return self.block_length if self.block_length is not None else self.gen_length

    @property
    def decide(self) -> int:
        """decide_size with its default filled in."""
        return self.decide_size if self.decide_size is not None else self.window_size


def check_ranges(settings: object) -> None:
    """Check every dataclass field against its metadata: type, `low`, `high`, `choices`.

    Raises ValueError in one sentence that names the field, what is allowed and what was given.
    Used by every settings object: DecodeConfig, the strategies and the cache policies.
    """
    from dataclasses import fields

    for item in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, item.name)
        check_value(item.name, value, str(item.type), item.metadata)


def check_value(name: str, value: object, annotation: str, metadata) -> None:
    """One field of `check_ranges`; `annotation` is the field's type as written."""
    allowed = {part.strip() for part in annotation.split("|")}
    if value is None and "None" in allowed:
        return
    if choices := metadata.get("choices"):
        if value in choices and isinstance(value, str):
            return
        if isinstance(value, str) or "int" not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if "bool" in allowed and isinstance(value, bool):
        return
    if "float" in allowed:
        good_type, kind = is_number and value == value, "a number"
    elif "int" in allowed:
        good_type, kind = isinstance(value, int) and is_number, "a whole number"
    elif "bool" in allowed:
        good_type, kind = False, "true or false"
    else:
        return
    low, high = metadata.get("low"), metadata.get("high")
    if not good_type:
        raise ValueError(f"{name} must be {kind}, got {value!r}")
    if (low is not None and value < low) or (high is not None and value > high):  # type: ignore[operator]
        raise ValueError(f"{name} must lie between {low} and {high}, got {value!r}")
