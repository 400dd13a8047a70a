"""The recorded runs of the examples, and which one opens the page."""

from __future__ import annotations

import logging

from app import presets
from app.runs import Runs
from app.store import RunError

log = logging.getLogger(__name__)


def opening(runs: Runs) -> str:
    """Name of the kept run that opens the page: the first example's, or the toy example's."""
    return recorded(runs, presets.presets()[0]) or toy(runs)


def recorded(runs: Runs, preset: presets.Preset) -> str | None:
    """Name of an example's recorded run, kept from now on; None if there is none to show."""
    path = preset.trace_path
    try:
        return None if path is None else runs.store.bundled(path)
    except RunError as error:
        log.warning("%s: %s", path, error)
        return None


def toy(runs: Runs) -> str:
    """The toy example, decoded from its table: what opens the page if no run is bundled."""
    preset = presets.presets()[-1]
    values = {**runs.defaults(preset.model), **preset.settings}
    return runs.store.keep(runs.decode(runs.prepare(preset.prompt, preset.model, values)))
