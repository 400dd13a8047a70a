"""Many visitors at once in Chromium: does a page freeze, does everybody finish, does Stop stop?

    python benchmarks/visitors.py [--visitors 8] [--runs 300] [--note TEXT]

Starts the page as a process of its own with the embedded model. First all visitors press Run at
the same time, each with a prompt of its own; then all start a long run and stop it, those that
wait first; then one visitor makes `--runs` short runs, while the memory of server and page is
read. Appends a row to benchmarks/results/visitors.csv and says what misses its budget.

event_*   every second something is pressed in every page: from the moment it was due to the frame
          that shows it. Presses that a busy page delays count as late, none is left out.
judged_*  γ moved in a page that is not decoding, to the redrawn verdicts: Python and network
          included
stop_*    Stop pressed to "stopped" in the status line
rss, heap memory of the server's process, and of the page's script after collection, in MiB
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results" / "visitors.csv"
CHARTS = ".fd-gamma[aria-valuenow]"
BUDGET = {  # column → at most
    "event_p95_ms": 300, "judged_p95_ms": 300, "stop_running_ms": 500, "stop_waiting_ms": 500,
    "rss_growth": 0.05, "heap_growth": 0.10,
}  # fmt: skip

# what every page keeps count of: presses that were due, and what the status line said
PROBE = """
() => {
  const root = document.querySelector('.fd'), line = document.querySelector('#fd-status p');
  const probe = window.probe = { event: [], said: [], is_on: true };
  const note = () => probe.said.push([performance.now(), line.textContent]);
  note();
  new MutationObserver(note).observe(line, { childList: true, subtree: true, characterData: true });
  let due = performance.now() + 1000;
  const frame = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
  const press = async () => {
    root.dispatchEvent(new KeyboardEvent('keydown', { key: 'r', bubbles: true }));
    await frame();
    probe.event.push(performance.now() - due);
    due += 1000;
    if (probe.is_on) setTimeout(press, Math.max(0, due - performance.now()));
  };
  setTimeout(press, 1000);
}
"""
JUDGED = """
async (value) => {
  const root = document.querySelector('.fd');
  if (root.classList.contains('live')) return null;
  const input = document.querySelector('#fd-gamma input[type=range]');
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  root.dataset.judged = '';
  const begin = performance.now();
  set.call(input, value); input.dispatchEvent(new Event('input', { bubbles: true }));
  return await new Promise((done) => {
    const look = () => root.classList.contains('live') ? done(null)
      : root.dataset.judged ? requestAnimationFrame(() => done(performance.now() - begin))
      : performance.now() - begin > 5000 ? done(5000) : setTimeout(look, 2);
    look();
  });
}
"""
STOP = """
async () => {
  const line = document.querySelector('#fd-status p'), begin = performance.now();
  document.querySelector('#fd-stop').click();
  return await new Promise((done) => {
    const look = () => line.textContent.startsWith('stopped')
      ? requestAnimationFrame(() => done(performance.now() - begin))
      : performance.now() - begin > 10000 ? done(10000) : setTimeout(look, 2);
    look();
  });
}
"""
SAYS = "document.querySelector('#fd-status p').textContent"


class Server:
    """The page in a process of its own."""

    def __init__(self) -> None:
        from tests.browser_page import free_port

        self.url = f"http://127.0.0.1:{(port := free_port())}/"
        command = [sys.executable, str(ROOT / "app.py"), "--port", str(port)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the page did not start within a minute")

    def rss(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def prompts(count: int) -> list[str]:
    """Prompts of the held-out sets, a different one for each visitor."""
    found = []
    for kind in ("word", "algebra", "code"):
        lines = (ROOT / "assets" / "tasks" / f"{kind}.jsonl").read_text("utf-8").splitlines()
        found.append([json.loads(line)["prompt"] for line in lines[10 : 10 + count]])
    return [found[n % len(found)][n // len(found)] for n in range(count)]


def everybody_runs(pages, texts) -> dict[str, float]:
    """All press Run at once; γ is moved in those that aren't decoding."""
    for page, text in zip(pages, texts, strict=True):
        page.fill("#fd-prompt-box textarea", text)
    for page in pages:
        page.evaluate(PROBE)
    begin = time.monotonic()
    for page in pages:
        page.evaluate("document.querySelector('#fd-run').click()")
    judged, ends, number = [], {}, 0
    while len(ends) < len(pages) and time.monotonic() - begin < 180:
        time.sleep(0.5)  # whoever looks too often is the load that is measured
        for n, page in enumerate(pages):
            if n not in ends and page.evaluate(SAYS).startswith("finished"):
                ends[n] = time.monotonic() - begin
        number += 1
        value = round(0.3 + 0.02 * (7 * number % 30), 2)
        took = pages[number % len(pages)].evaluate(JUDGED, value)
        judged += [] if took is None else [took]
    events, places = [], 0
    for page in pages:
        probe = page.evaluate("(probe.is_on = false, probe)")
        events += probe["event"]
        places += any(said.startswith("queued, ") for _, said in probe["said"])
    return {
        "finished": len(ends),
        "told_their_place": places,
        "last_end_s": max(ends.values(), default=float("nan")),
        **spread("event", events),
        **spread("judged", judged),
    }


def everybody_stops(pages, url: str) -> dict[str, float]:
    """Long runs (one token a step, without a cache), stopped one after the other, the latest
    first: at any time one of them is going on, and the others wait or have had a turn."""
    for page in pages:
        page.goto(f"{url}?strategy=greedy&cache=none&gen_length=256")
        page.wait_for_selector(CHARTS)
        page.wait_for_function("document.querySelector('#fd-gen_length input').value === '256'")
    for page in pages:
        page.evaluate("document.querySelector('#fd-run').click()")
    running, waiting = [], []
    for page in reversed(pages):
        page.wait_for_function(f"/^(step|started|queued|fin)/.test({SAYS})", timeout=60_000)
        said = page.evaluate(SAYS)
        if not said.startswith("finished"):  # it was quicker than the visitors before it
            is_waiting = "queued" in said or "others" in said
            (waiting if is_waiting else running).append(page.evaluate(STOP))
    found = {"stopped": len(running) + len(waiting)}
    for name, values in (("running", running), ("waiting", waiting)):
        if values:
            found[f"stop_{name}_ms"] = max(values)
    return found


def one_visitor_runs(server: Server, page, count: int) -> dict[str, float]:
    """Short runs with other seeds, each kept as a run of its own."""
    metrics = page.context.new_cdp_session(page)
    page.locator("#fd-gen_length input").fill("32")

    def heap() -> float:
        metrics.send("HeapProfiler.collectGarbage")
        return metrics.send("Runtime.getHeapUsage")["usedSize"] / 2**20

    third, found = max(1, count // 3), {}
    for number in range(1, count + 1):
        before = page.get_attribute(".fd", "data-run")
        page.locator("#fd-seed input").fill(str(number))
        page.evaluate("document.querySelector('#fd-run').click()")
        page.wait_for_function(
            "b => { const d = document.querySelector('.fd').dataset;"
            "return d.run !== b && !d.run.startsWith('live') && d.status === 'finished'; }",
            arg=before, polling=20, timeout=60_000,
        )  # fmt: skip
        if number in (third, count):
            when = "early" if number == third else "late"
            found[f"rss_{when}"], found[f"heap_{when}"] = server.rss(), heap()
    for kind in ("rss", "heap"):
        found[f"{kind}_growth"] = found[f"{kind}_late"] / found[f"{kind}_early"] - 1
    return {"runs": count, **found}


def spread(name: str, values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum of measured milliseconds."""
    if len(values) < 2:
        return {f"{name}_count": len(values)}
    return {
        f"{name}_count": len(values),
        f"{name}_median_ms": statistics.median(values),
        f"{name}_p95_ms": statistics.quantiles(values, n=20, method="inclusive")[-1],
        f"{name}_max_ms": max(values),
    }


def missed(row: dict[str, float]) -> list[str]:
    """What is over its budget, in words; what was not measured is not judged."""
    found = [
        f"{name} is {row[name]:.3g}, over its budget of {most}"
        for name, most in BUDGET.items()
        if name in row and not row[name] <= most
    ]
    if "finished" in row and row["finished"] < row["visitors"]:
        found.append(f"only {row['finished']} of {row['visitors']} visitors finished")
    return found


def told(begin: float, words: str) -> None:
    """Where the measurement is, for whoever waits for it."""
    print(f"{time.monotonic() - begin:.1f} s: {words}", file=sys.stderr, flush=True)


def measure(visitors: int, runs: int, ready: Callable[[], None] = lambda: None) -> dict[str, float]:
    """All numbers; 0 visitors or 0 runs leave their part out. `ready` is called when the pages
    are open and the model is loaded, before anything is measured."""
    from tests.browser_page import browser

    begin = time.monotonic()
    server = Server()
    told(begin, "the page is served")
    try:
        with browser() as chrome:
            row: dict[str, float] = {"visitors": visitors}
            pages = []
            for _ in range(max(1, visitors)):
                page = chrome.new_context(viewport={"width": 1280, "height": 900}).new_page()
                page.goto(server.url)
                page.wait_for_selector(CHARTS)
                pages.append(page)
            told(begin, f"{len(pages)} pages are open")
            # the model is loaded once, by whoever comes first; that is not what is measured here
            pages[0].click("#fd-run")
            pages[0].wait_for_function(f"{SAYS}.startsWith('finished')", timeout=120_000)
            told(begin, "the model is loaded")
            ready()
            row["load"] = round(os.getloadavg()[0], 2)
            if visitors:
                row |= everybody_runs(pages, prompts(visitors))
                told(begin, f"{row['finished']} of {visitors} runs have finished")
                row |= everybody_stops(pages, server.url)
                told(begin, f"{row['stopped']} runs were stopped")
            for page in pages[1:]:
                page.context.close()
            if runs:
                pages[0].goto(server.url)
                pages[0].wait_for_selector(CHARTS)
                row |= one_visitor_runs(server, pages[0], runs)
        return row
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    return record(measure(options.visitors, options.runs), options.note)


def record(row: dict[str, float], note: str) -> int:
    """Append a row, print it and what misses its budget; the exit code."""
    import gradio

    from benchmarks.page import processor

    line = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load": row["load"],
        "gradio": gradio.__version__,
        **{name: round(row.get(name, float("nan")), 3) for name in COLUMNS},
        "note": note,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    is_new = not RESULTS.is_file()
    with open(RESULTS, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, line)
        if is_new:
            writer.writeheader()
        writer.writerow(line)
    print(", ".join(f"{key} {value}" for key, value in line.items()))
    over = missed(row)
    print("\n".join(over) or "every budget is kept")
    return 1 if over else 0


COLUMNS = (
    "visitors", "finished", "told_their_place", "last_end_s",
    *(f"{name}_{part}" for name in ("event", "judged")
      for part in ("count", "median_ms", "p95_ms", "max_ms")),
    "stopped", "stop_running_ms", "stop_waiting_ms", "runs",
    "rss_early", "rss_late", "rss_growth", "heap_early", "heap_late", "heap_growth",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
