"""What the page offers to programs: /decode, /rejudge, /metrics, /sweep; plain values in and out.

Stateless on purpose: a trace goes in as its JSON text, so that a call needs no earlier one; the
short name of a run that is still kept here does as well, for callers that pay by the word. No
gradio here; `app/ui.py` names the endpoints, which are MCP tools, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from app import compare, lab
from app.controls import controls, raw_of
from app.presets import EMBEDDED
from app.runs import Runs
from app.store import RunError
from app.sweep_choice import costs, qualities
from app.sweep_form import planned
from app.sweep_words import is_low
from app.sweeps import Place, Sweeps, progress
from flash_dllm.evaluation.study_table import StudyTable, front
from flash_dllm.rejudge import rejudge as judge_again
from flash_dllm.trace import DecodeTrace, TraceError
from flash_dllm.trace_json import from_json, to_json

MAX_TRACE_CHARACTERS = 32 * 2**20
LONGEST_NAME = 40


class Api:
    """The functions; `runs` decodes, `visitor` tells who is calling, `sweeps` keeps the studies."""

    def __init__(
        self, runs: Runs, visitor: Callable[[], str] = str, sweeps: Sweeps | None = None
    ) -> None:
        self.runs = runs
        self.visitor = visitor
        self.sweeps = sweeps or Sweeps(runs)

    def decode(
        self,
        prompt: str,
        gen_length: int = 128,
        epsilon: float | None = None,
        gamma: float | None = None,
        strategy: str = "",
        cache: str = "",
        seed: int = 0,
        model: str = EMBEDDED,
        settings: dict | None = None,
        include_trace: bool = True,
    ) -> Iterator[dict]:
        """Decode a prompt; what is known so far comes at most ten times a second.

        Runs wait for each other: until its turn comes the status says how many are before it.

        Args:
            prompt: the question, as typed
            gen_length: positions of the answer, at most 512
            epsilon: ε, from which confidence on a draft is written at once; none: the preset's
            gamma: γ, from which confidence on a checked draft is kept; none: the preset's
            strategy: flash_verify, confidence, greedy or another one (a wrong name is answered with
                all of them); blank: the preset's
            cache: flash, none or another one, likewise; blank: the preset's
            seed: for sampling at a temperature
            model: "language model", "toy example", or one that was loaded on the page
            settings: any other knob by name, e.g. {"window_size": 16}
            include_trace: whether the answer holds the whole trace as JSON text (long)

        Returns:
            {"status", "steps", "text", "is_done"}; the last one also has "metrics", "run", a
            short name that /rejudge and /metrics take while the run is kept here, and "trace",
            the trace as JSON text.
        """
        job = self.runs.prepare(
            prompt, model, self._values(model, {
                "gen_length": gen_length, "epsilon": epsilon, "gamma": gamma,
                "strategy": strategy or None, "cache": cache or None, "seed": seed,
                **(settings or {}),
            }), self.visitor(),
        )  # fmt: skip
        number = self.runs.enqueue(job)
        steps = 0
        for update in self.runs.run(number):
            steps += len(update.steps)
            if update.error:
                raise RunError(update.error)
            if update.trace is not None:
                trace = update.trace
                answer = {
                    "status": update.status, "steps": len(trace.steps), "text": trace.text,
                    "is_done": True, "metrics": measured(trace),
                    "run": update.name or self.runs.store.keep(trace),
                }  # fmt: skip
                yield answer | ({"trace": to_json(trace)} if include_trace else {})
                return
            text = self._so_far(number) if update.steps else ""
            yield {"status": update.status, "steps": steps, "text": text, "is_done": False}

    def rejudge(
        self, trace: str, epsilon: float | None = None, gamma: float | None = None
    ) -> dict:
        """Decide a recorded run again at other thresholds, without a model.

        Args:
            trace: a trace as JSON text, or the name of a run, as /decode returns them
            epsilon: another ε; none keeps the run's
            gamma: another γ; none keeps the run's

        Returns:
            {"badge", "explanation", "first_change", "tokens_gained", "accepted"}: how far the
            answer is exact, in words; the first step that would decide otherwise; how many
            tokens more it would write; per step the number of tokens written.
        """
        recorded = self._trace(trace)
        try:
            again = judge_again(recorded, epsilon, gamma)
        except ValueError as error:
            raise RunError(f"{error}.") from error
        return {
            "badge": again.badge,
            "explanation": again.explanation,
            "first_change": again.first_change,
            "tokens_gained": again.tokens_gained,
            "accepted": [len(step.accepted) for step in again.steps],
        }

    def metrics(self, trace: str) -> dict:
        """What a run took, counted as in docs/decisions.md.

        Args:
            trace: a trace as JSON text, or the name of a run

        Returns:
            tokens, steps, passes, rows, row_layers, seconds, tokens_per_pass, tokens_per_step,
            verified, missed (drafts that were checked and right, but not written), text, status
        """
        return measured(self._trace(trace))

    def sweep(
        self,
        search: dict,
        fixed: dict | None = None,
        tasks: list[str] | None = None,
        prompts: list[str] | None = None,
        limit: int = 8,
        sampler: str = "grid",
        trials: int | None = None,
        seed: int = 0,
        quality: str = "accuracy",
        model: str = EMBEDDED,
    ) -> Iterator[dict]:
        """Measure every point of a space of settings; the same call goes on where it was left.

        Args:
            search: knob → list of values, or {"low", "high", "step", "log"} for other samplers
                than grid, e.g. {"epsilon": [0.8, 0.9], "gamma": [0.6, 0.7], "seed": [0, 1]}
            fixed: knob → value, the same for all points; the model's preset for the rest
            tasks: word, algebra, code, story; word if there are no prompts either
            prompts: prompts of your own
            limit: items a task
            sampler: grid, random, tpe or nsga2
            trials: how many points; all samplers but grid
            seed: of the sampler
            quality: accuracy (of tasks), agreement (with one token a step), or both
            model: as for /decode

        Returns:
            {"study", "status", "done", "total", "is_done"} about three times a second; the last
            one also has "trials" (each point's knobs and measured numbers), "front" (the numbers
            of those on the Pareto front of quality and tokens per pass) and "why_not" (points that
            can't be, with the reason). A caller who goes away pauses the sweep.
        """
        self.runs.models.check(model)
        own = list(prompts or [])
        plan = planned(
            self.runs.models.preset(model), self.sweeps.storage, search, fixed or {},
            list(tasks or ([] if own else ["word"])), own, limit, sampler, trials, seed, quality,
            **self.runs.models.choice(model),
        )  # fmt: skip
        last = None
        for job in self.sweeps.watch(self.sweeps.start(plan, model, self.visitor())):
            if job.error:
                raise RunError(job.error)
            last = {"study": plan.study, "status": progress(job), "done": job.done,
                    "total": plan.total, "is_done": False}  # fmt: skip
            if not job.ended.is_set():
                yield last
        table = self.sweeps.table(Place(plan.study, plan.storage))
        yield {**(last or {}), "is_done": True, **found(table)}

    def _values(self, model: str, given: dict[str, Any]) -> dict[str, Any]:
        known = controls()
        values = self.runs.defaults(model)
        names = {"strategy", "cache", *known}
        for name, value in given.items():
            if name not in names:
                raise RunError(
                    f"There is no setting named {name!r}; there are {', '.join(sorted(names))}."
                )
            if value is not None:
                values[name] = raw_of(known[name], value) if name in known else value
        # the preset's blocks and window must not forbid another length
        length, block = given["gen_length"], values.get("block_length")
        if "block_length" not in given and isinstance(block, int) and length % block:
            values["block_length"] = None
        if "window_size" not in given:
            values["window_size"] = max(1, min(values["window_size"], length))
        return values

    def _trace(self, text: str) -> DecodeTrace:
        """A trace from its JSON text or its short name. Raises RunError."""
        if len(text) <= LONGEST_NAME and not text.lstrip().startswith(("{", "[")):
            return self.runs.store.trace(text.strip())
        return _read(text)

    def _so_far(self, number: str) -> str:
        trace = self.runs.so_far(number)
        return "" if trace is None else trace.text


def found(table: StudyTable) -> dict:
    """The points of a study as plain values."""
    metrics = [*qualities(table), *costs(table)]
    cost, quality = "tokens_per_pass", metrics[0] if metrics else ""
    best = front(table.complete, cost, quality, is_low(cost))
    return {
        "trials": [
            {"number": row.number, "knobs": dict(row.knobs),
             **{name: row.measured[name] for name in metrics if name in row.measured}}
            for row in table.complete
        ],
        "front": [row.number for row in best],
        "why_not": [
            {"knobs": dict(row.knobs), "reason": row.measured["reason"]}
            for row in table.rows
            if row.measured.get("reason")
        ],
    }  # fmt: skip


def measured(trace: DecodeTrace) -> dict:
    """The numbers of a run as plain values."""
    chances = [item for item in lab.missed(trace) if item.reason != "not_searched"]
    return {
        **vars(compare.cost(trace)),
        "tokens_per_step": trace.tokens_per_step,
        "missed": len(chances),
        "text": trace.text,
        "status": trace.status,
    }


def _read(text: str) -> DecodeTrace:
    if len(text) > MAX_TRACE_CHARACTERS:
        raise RunError(
            f"The trace has {len(text)} characters; at most {MAX_TRACE_CHARACTERS} are allowed, so "
            "send a shorter run."
        )
    try:
        return from_json(text)
    except TraceError as error:
        raise RunError(f"This is no trace that can be read: {error}.") from error


