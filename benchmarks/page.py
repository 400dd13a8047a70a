"""How quick the page is in Chromium: first chip, player step, γ judged again.

    python benchmarks/page.py [--trace FILE | --positions N] [--note TEXT]

Starts the page on a free port with the given trace (default: the one that opens the page; with
--positions a run of that many positions by the tests' hash model, window 64) and
appends a row to benchmarks/results/page.csv. first_paint_ms: navigation to first visible token
chip, median of 10 fresh contexts. step_p95_ms: key press to the frame after everything is drawn.
gamma_ms: slider input to the frame after the verdicts are drawn, Python and network included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results" / "page.csv"

PAINT = """
new Promise((done) => {
  const look = () => document.querySelector('.tk')?.getBoundingClientRect().height > 0
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})
"""
STEPS = """
async (count) => {
  const root = document.querySelector('.fd'), times = [];
  const wait = (before) => new Promise((done) => {
    const look = () => root.dataset.step !== before
      ? requestAnimationFrame(() => done()) : setTimeout(look, 0);
    look();
  });
  const press = (key) => root.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  root.dataset.step = ''; press('Home'); await wait('');
  let key = 'ArrowRight';
  for (let n = 0; n < count; n++) {
    const at = root.dataset.step, last = document.querySelector('.fd-scrub').max;
    if (at === last) key = 'ArrowLeft';
    if (at === '1') key = 'ArrowRight';
    const begin = performance.now();
    press(key);
    await wait(at);
    times.push(performance.now() - begin);
    await new Promise((r) => setTimeout(r, 30));
  }
  return times;
}
"""
GAMMA = """
async (values) => {
  const root = document.querySelector('.fd'), times = [];
  const input = document.querySelector('#fd-gamma input[type=range]');
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  for (const value of values) {
    root.dataset.judged = '';
    const begin = performance.now();
    set.call(input, value); input.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((done, fail) => {
      const look = () => root.dataset.judged ? requestAnimationFrame(() => done())
        : performance.now() - begin > 5000 ? fail(new Error('no answer')) : setTimeout(look, 2);
      look();
    });
    times.push(performance.now() - begin);
    await new Promise((r) => setTimeout(r, 150));
  }
  return times;
}
"""


def long_run(positions: int):
    """A run of so many answer positions by a model without weights, with every kind of stop."""
    from flash_dllm.caches import FlashCache
    from flash_dllm.config import DecodeConfig
    from flash_dllm.decoder import decode
    from flash_dllm.strategies import FlashVerify
    from tests.hash_engine import HashEngine

    engine = HashEngine(seed=1, end_share=0, max_length=positions + 64)
    return decode(
        engine,
        list(range(1, 41)),
        FlashVerify(epsilon=0.9, gamma=0.5, search_size=16),
        FlashCache(track_size=32),
        DecodeConfig(gen_length=positions, window_size=min(64, positions), alternatives=5),
        " ".join(f"w{token}" for token in range(1, 41)),
    )


def measure(page_url: str, paints: int, steps: int) -> dict[str, float]:
    """The three numbers, in milliseconds."""
    from tests.browser_page import browser

    with browser() as chrome:
        first = []
        for _ in range(paints):
            context = chrome.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(page_url, wait_until="commit")
            first.append(page.evaluate(PAINT))
            context.close()
        page = chrome.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(page_url)
        page.wait_for_selector(".fd-gamma[aria-valuenow]")
        page.wait_for_timeout(500)
        step = page.evaluate(STEPS, steps)
        values = [0.3 + 0.02 * (7 * k % 30) for k in range(20)]
        gamma = page.evaluate(GAMMA, [round(value, 2) for value in values])
    return {
        "first_paint_ms": statistics.median(first),
        "step_median_ms": statistics.median(step),
        "step_p95_ms": statistics.quantiles(step, n=20)[-1],
        "gamma_median_ms": statistics.median(gamma),
        "gamma_p95_ms": statistics.quantiles(gamma, n=20)[-1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", help="a trace file to open the page with")
    parser.add_argument("--positions", type=int, help="a made-up run of this length instead")
    parser.add_argument("--paints", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--note", default="")
    options = parser.parse_args()

    from app.presets import TRACES, presets
    from app.runs import Runs
    from app.serve import launch
    from app.ui import build
    from benchmarks.result_rows import append, circumstances
    from tests.browser_page import free_port

    before, runs = circumstances(), Runs()
    if options.positions:
        name = runs.store.keep(long_run(options.positions))
    else:
        name = runs.store.load_file(options.trace or TRACES / f"{presets()[0].key}.json")
    demo = build(runs, name)
    trace = runs.store.trace(name)
    _, url, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    numbers = measure(url, options.paints, options.steps)
    demo.close()
    row = {
        **before,
        "positions": trace.gen_length,
        "window": trace.config["window_size"],
        "steps": len(trace.steps),
        **{key: round(value, 1) for key, value in numbers.items()},
        "note": options.note,
    }
    append(RESULTS, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
