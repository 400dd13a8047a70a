"""A run to lay beside another one: the same prompt, with another model, strategy or cache."""

from __future__ import annotations

from app.control_values import values_of
from app.jobs import RAW, Job
from app.presets import TOY
from app.runs import Runs
from app.said import either, said
from app.store import RunError
from flash_dllm.strategies import STRATEGIES
from flash_dllm.trace import DecodeTrace

AS_BEFORE = ""  # the recorded run's own
SLOTS = 4


def prepare(
    runs: Runs,
    trace: DecodeTrace,
    model: str,
    strategy: str = AS_BEFORE,
    cache: str = AS_BEFORE,
    visitor: str = "",
) -> Job:
    """The job that answers a trace's prompt with another model, strategy or cache; everything
    else as recorded. What the trace has no value for starts as the model's preset says.

    Raises RunError, also for a cache that does not fit the model.
    """
    runs.models.check(model)
    if (model == TOY) != (trace.model.impl == "scripted"):
        raise RunError(said("toy_only", toy=TOY))
    values = {**runs.defaults(model), **values_of(trace)}
    if strategy:
        if strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise RunError(said("strategy_one_of", known=known, name=repr(strategy)))
        values["strategy"] = strategy
    fitting = runs.models.caches(model)
    cache = cache or str(values["cache"])
    if cache not in fitting:
        attention = runs.models.facts(model).attention
        raise RunError(said(
            "cache_misfit", cache=cache, model=model, attention=attention, choices=either(fitting)
        ))  # fmt: skip
    values["cache"] = cache
    values["raw"] = trace.prompt_format == RAW
    return runs.prepare(trace.prompt, model, values, visitor)


def placed(values: list[str], new: str) -> list[str]:
    """The compared runs with a new one in the first free place behind A; the last one goes if
    there is none.

    >>> placed(["a", "b", "", ""], "c"), placed(["a", "b", "c", "d"], "e")
    (['a', 'b', 'c', ''], ['a', 'b', 'c', 'e'])
    """
    if new in values:
        return list(values)
    at = next((k for k in range(1, SLOTS) if not values[k]), SLOTS - 1)
    return [*values[:at], new, *values[at + 1 :]]
