"""The explorer's own path on a GPU, without a page: python benchmarks/gpu_smoke.py --out DIR

Decodes the page's presets through `app.runs` with impl="triton" and saves their traces, which the
page opens (Open a trace). Checks that each trace is read back and replayed by the rules, and that
its passes were replayed as CUDA graphs. Prints one line a run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from app.presets import TOY, presets  # noqa: E402
from app.runs import Runs  # noqa: E402
from app.sentences import summary  # noqa: E402
from flash_dllm.trace_json import load, save  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """0 if every trace was saved, read back and made the way that was asked for."""
    cli = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cli.add_argument("--out", default=str(ROOT / "traces"))
    cli.add_argument("--impl", default="triton", choices=("torch", "triton"))
    cli.add_argument("--device", default="cuda")
    cli.add_argument("--dtype", default="auto")
    cli.add_argument("--no-graphs", action="store_true")
    cli.add_argument("--presets", type=int, default=100, help="how many of them")
    options = cli.parse_args(arguments)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    has_graphs = options.device == "cuda" and not options.no_graphs
    runs = Runs(
        impl=options.impl, device=options.device, dtype=options.dtype, graphs=has_graphs
    )
    chosen = [preset for preset in presets() if preset.model != TOY][: options.presets]
    bad = 0
    for preset in chosen:
        values = {**runs.defaults(preset.model), **preset.settings}
        job = runs.prepare(preset.prompt, preset.model, values)
        begin = time.perf_counter()
        trace = runs.decode(job)
        seconds = time.perf_counter() - begin
        path = out / f"gpu-{options.impl}-{preset.key}.json"
        save(trace, path)
        # reading a trace replays every decision of it
        again = load(path)
        graphs = sum(count for route, count in trace.routes.items() if "graph" in route)
        is_good = (
            again == trace
            and trace.status == "finished"
            and trace.model.impl == options.impl
            and (graphs > 0) == has_graphs
        )
        bad += not is_good
        print(
            f"{'ok ' if is_good else 'BAD'} {preset.key}: {summary(trace)} {seconds:.2f} s, "
            f"{trace.tokens / seconds:.0f} tokens/s, {dict(trace.routes)}",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
