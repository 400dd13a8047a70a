"""Record the runs that the page shows before any model is loaded: python -m app.record_presets

Decodes the presets and their variants with the embedded model at its preset settings, in audit
mode, and the toy example from its table; writes assets/traces/<key>.json.
"""

from __future__ import annotations

import argparse
import sys

from app.presets import TOY, TRACES, Preset, presets, variants
from app.runs import Runs
from app.sentences import summary
from flash_dllm.trace import DecodeTrace
from flash_dllm.trace_json import save


def record(runs: Runs, preset: Preset) -> DecodeTrace:
    """One preset, decoded to the end."""
    values = {**runs.defaults(preset.model), **preset.settings, "audit": preset.model != TOY}
    return runs.decode(runs.prepare(preset.prompt, preset.model, values))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("keys", nargs="*", help="presets to record; all of them by default")
    chosen = set(parser.parse_args(arguments).keys)
    runs = Runs()
    for preset in (*presets(), *variants()):
        if chosen and preset.key not in chosen:
            continue
        trace = record(runs, preset)
        save(trace, TRACES / f"{preset.key}.json")
        print(f"{preset.key}: {summary(trace)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
