"""What the Watch tab's events do: values in, values of its components out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from app import decoder_presets, presets, shelf, views
from app.control_values import values_of
from app.controls import controls, raw_of, value_of
from app.link import Link, changed
from app.models import OWN
from app.opening import recorded
from app.player import packed
from app.runs import Runs
from app.said import Said, counted, said, together, within
from app.sentences import queued_sentence
from app.store import RunError
from app.tabs.shared import share, stopping, told, visitor
from app.what_if import what_if
from app.words import LANGUAGES

RECORDED = said("recorded")
STATUS = 3  # the place of the status line in what `shown` and `show` fill


class WatchEvents:
    """knobs: the names of all settings, in the order in which their values come."""

    def __init__(self, runs: Runs, knobs: Iterable[str]) -> None:
        self.runs = runs
        self.knobs = list(knobs)
        self.controls = controls()

    def choose(self, label: str) -> list[Any]:
        with told():
            preset = presets.preset(label)
            name = recorded(self.runs, preset)
            if name is None:
                values = {**self.runs.defaults(preset.model), **preset.settings}
                status = said("not_recorded")
                shown = [*[gr.skip()] * 3, packed(status), gr.skip()]
                return [*shown, *self.filled(preset, values), (None, status)]
            trace = self.runs.store.trace(name)
            self.runs.paces.guess(preset.model, trace)
            status = together(preset.note, RECORDED)
            preset = replace(preset, prompt=trace.prompt)
            filled = self.filled(preset, values_of(trace))
            return [*self.shown(name, status), *filled, (name, status)]

    def load(self, path: str) -> Iterator[list[Any]]:
        """A stranger's file; every step of it is replayed, which takes seconds for a long run."""
        with told():
            yield self.only(said("reading"))
            try:
                name = self.runs.store.load_file(path)
            except RunError as error:
                yield self.only(error.line)
                raise
            trace = self.runs.store.trace(name)
            steps = counted(len(trace.steps), "step")
            yield self.show(name, said("loaded_trace", model=trace.model.name, steps=steps))

    def only(self, status: str) -> list[Any]:
        """A new status line, and all else that `show` fills as it is."""
        filled = [gr.skip()] * (len(self.knobs) + 8)
        filled[STATUS] = packed(status)
        return filled

    def show(self, name: str, status: str, step: int | None = None) -> list[Any]:
        """A kept run with its own settings; opens at a step (counted from 1) if one is given."""
        trace = self.runs.store.trace(name)
        model = self.runs.models.of(trace.model.fingerprint, trace.model.impl)
        preset = presets.Preset("", "", trace.prompt, model)
        filled = self.filled(preset, values_of(trace))
        return [*self.shown(name, status, step=step), *filled, (name, status)]

    def begin(self, model: str, key: str | None = OWN) -> list[Any]:
        """The knobs of a preset of this model, and what it is."""
        with told():
            key = key or OWN
            models = self.runs.models
            values = decoder_presets.values(models, model, key, self.runs.defaults(model))
            knobs = self.filled(presets.Preset("", "", "", model), values)[2:]
            return [*knobs, packed(decoder_presets.about(models, model, key))]

    def changed(self, name: str, model: str, raw: Sequence[Any]) -> dict[str, Any]:
        """The controls' values, as far as they differ from what the run `name` was made with.

        `raw` holds them in the order of the knobs; a value that can't be read stays out.
        """
        own = {**self.runs.defaults(model), **values_of(self.runs.store.trace(name))}
        chosen = {}
        for knob, value in zip(self.knobs, raw, strict=True):
            try:
                control = self.controls.get(knob)
                chosen[knob] = value if control is None else value_of(control, value)
            except ValueError:
                continue
        return changed(chosen, own)

    def link(
        self, run: str, step: int, tab: str, prompt: str, model: str, raw: Sequence[Any]
    ) -> Link:
        """What restores this page: the run that it shows, and what its controls hold."""
        value = shelf.value_of(self.runs, run)
        is_example = value.startswith(shelf.BUNDLED)
        is_typed = not is_example or prompt != self.runs.store.trace(run).prompt
        return Link(
            value.removeprefix(shelf.BUNDLED) if is_example else "",
            "" if is_example else run,
            prompt if is_typed else "",
            model, self.changed(run, model, raw), int(step), tab,
        )  # fmt: skip

    def follow(self, link: Link) -> list[Any]:
        """What a link asks for: its run at its step, and its settings in the controls."""
        self.runs.models.check(link.model)
        name = self._left(link) or self._linked(link)
        if name is None:
            values = {**self.runs.defaults(link.model), **link.settings}
            status = said("link_lost")
            prompt = link.prompt or presets.presets()[0].prompt
            preset = presets.Preset("", "", prompt, link.model)
            shown = [*[gr.skip()] * 3, packed(status), gr.skip()]
            return [*shown, *self.filled(preset, values), (None, status)]
        trace = self.runs.store.trace(name)
        step = max(1, min(link.step, len(trace.steps))) if link.step else None
        model = presets.TOY if trace.model.impl == "scripted" else link.model
        preset = presets.Preset("", "", link.prompt or trace.prompt, model)
        filled = self.filled(preset, {**values_of(trace), **link.settings})
        status = said("link_opened")
        if link.job:
            status = said("link_reloaded", step=len(trace.steps))
        shown = self.shown(name, status, step=step)
        moved = [link.settings.get(knob) for knob in ("epsilon", "gamma")]
        if any(value is not None for value in moved):
            # the thresholds were moved after the run: judge it again, as the sender saw it
            message, badge = what_if(trace, name, *moved)
            view = views.view(trace, name, at=step, judged_at=json.loads(message))
            shown[:2] = [view, packed(badge or hint(trace.strategy))]
        return [*shown, *filled, (name, status)]

    def _left(self, link: Link) -> str | None:
        """The run that a reload of the page broke off, once it has ended."""
        return self.runs.ended(link.job, within=1.0) if link.job else None

    def _linked(self, link: Link) -> str | None:
        """The kept run of a link; None if neither its run nor its example is there."""
        for value in (link.run, shelf.BUNDLED + link.example if link.example else ""):
            try:
                if value:
                    return shelf.resolve(self.runs, value)
            except RunError:
                continue
        return None

    def prepare(self, previous: str, prompt: str, model: str, *raw: Any) -> tuple[str, str]:
        with told():
            self.runs.make_way(previous)
            values = dict(zip(self.knobs, raw, strict=True))
            number = self.runs.enqueue(self.runs.prepare(prompt, model, values, visitor()))
            ahead = self.runs.ahead()
            return number, packed(queued_sentence(ahead) if ahead else said("starting"))

    def decode(self, number: str, before: str) -> Iterator[list[Any]]:
        with told():
            try:
                yield from self.updates(number, before)
            except RunError as error:
                yield [*[gr.skip()] * 3, packed(error.line), gr.skip()]
                raise

    def updates(self, number: str, before: str) -> Iterator[list[Any]]:
        live = None
        for update in self.runs.run(number):
            status = packed(update.status)
            if update.header is not None:
                live = views.LiveView(update.header, f"live-{number}", update.text_of)
                badge = packed(hint(update.header.strategy))
                yield [live.start(), badge, gr.skip(), status, gr.skip()]
            elif update.trace is not None:
                if update.trace.status == "stopped":
                    # said at once: the picture takes longer to make, to send and to draw
                    yield [*[gr.skip()] * 3, status, gr.skip()]
                # stopped before the first step: what was shown before comes back
                yield self.shown(update.name or before, update.status, f"live-{number}")
            elif live is not None and update.steps:
                yield [live.more(update.steps), *[gr.skip()] * 2, status, gr.skip()]
            else:
                yield [*[gr.skip()] * 3, status, gr.skip()]
            if update.error:
                raise RunError(update.error)

    def leave(self, number: str, before: tuple[str | None, str]) -> tuple:
        name, status = before
        self.runs.leave(number)
        self.runs.ends(number, within=0.5)
        # once more: the browser may have passed over them for a last update of the run
        view = gr.skip() if name is None else views.view(self.runs.store.trace(name), name)
        return view, packed(status)

    def usable(self, strategy: str, cache: str) -> list[dict]:
        """Show the knobs that this strategy and this cache have."""
        chosen = {strategy, cache, "config"}
        return [
            gr.update(visible=not chosen.isdisjoint(control.owners))
            for control in self.controls.values()
        ]

    def stop(self, number: str) -> str | dict:
        return stopping(self.runs, number)

    def estimate(self, *asked: Any) -> str:
        return packed(self.runs.paces.estimate(*asked))

    def what_if(self, name: str, epsilon: float, gamma: float) -> tuple[str, str]:
        with told():
            trace = self.runs.store.trace(name)
            message, badge = what_if(trace, name, epsilon, gamma)
            return message, packed(badge or hint(trace.strategy))

    def drag_gamma(self, name: str, epsilon: float, event: gr.EventData) -> tuple:
        gamma = share(event.v)
        return gamma, *self.what_if(name, epsilon, gamma)

    def drag_epsilon(self, name: str, gamma: float, event: gr.EventData) -> tuple:
        epsilon = share(event.v)
        return epsilon, *self.what_if(name, epsilon, gamma)

    def resync(self, event: gr.EventData) -> str | dict:
        number = str(event.run).removeprefix("live-")
        trace = self.runs.so_far(number)
        return gr.skip() if trace is None else views.view(trace, f"live-{number}", is_live=True)

    def step(self, event: gr.EventData) -> int:
        """The step that the player came to rest at."""
        return int(event.step)

    def shown(
        self, name: str, status: str, was: str = "", step: int | None = None
    ) -> list[Any]:
        """Values for player, badge, run id, status and the file to save.

        A run is shown even where its file can't be written; the status then says why.
        """
        trace = self.runs.store.trace(name)
        view, badge = views.view(trace, name, was, at=step), packed(hint(trace.strategy))
        try:
            file: str | None = self.runs.store.file_of(name)
        except RunError as error:
            file, status = None, said("not_saved", status=shortened(status), error=error.line)
        return [view, badge, name, packed(status), file]

    def filled(self, preset: presets.Preset, values: dict[str, Any]) -> list[Any]:
        """Values for prompt, model and all knobs; a knob that `values` lacks stays as it is."""
        knobs = [
            gr.skip()
            if name not in values
            else raw_of(self.controls[name], values[name])
            if name in self.controls
            else values[name]
            for name in self.knobs
        ]
        return [preset.prompt, preset.model, *knobs]


def hint(strategy: Mapping[str, Any]) -> Said:
    """What the sliders do, where the strategy has any.

    >>> hint({"name": "greedy"})
    'Greedy has no threshold to move.'
    """
    symbols = [s for s, knob in (("ε", "epsilon"), ("γ", "gamma")) if knob in strategy]
    if not symbols:
        return said("hint_none")
    return said("hint", symbols=said("hint_or") if len(symbols) > 1 else symbols[0])


def shortened(status: str) -> Said:
    """A line without the full stop at its end."""
    return Said([within(status, language).rstrip(".。") for language in LANGUAGES])
