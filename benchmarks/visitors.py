"""Many visitors at once in Chromium: does a page freeze, does everybody finish, does Stop stop?

    python benchmarks/visitors.py [--visitors 8] [--pages 8] [--runs 300] [--note TEXT]

Starts the page as a process of its own with the embedded model. First nobody runs; then all
visitors press Run at the same time, each with a prompt of its own; then all start a long run and
stop it, those that wait first; then one visitor makes `--runs` short runs, while the memory of
server and page is read. Appends a row to benchmarks/results/visitors.csv and says what misses its
budget. With fewer `--pages` than visitors the others are programs (gradio_client, `/decode`), so
that the machine carries the server and not as many browsers; `--pages 0` is the server alone.

idle_*    something is pressed in every page each second, and nobody runs: what so many browsers
          take on this machine
event_*   the same while all run: from the moment the press was due to the frame that shows it.
          Presses that a busy page delays count as late, none is left out.
judged_*  γ moved in a page that is not decoding, to the redrawn verdicts: Python and network
          included
answer_*  γ moved by a program, ten times a second while all run: what the server alone takes,
          from the request to its answer
stop_*    Stop pressed to "stopped" in the status line
cpu_*     CPU seconds while all run: the server, the pages' own processes, the rest of Chromium
rss, heap, objects, nodes   resident memory of the server's process in MiB; after collection, the
          page's script with its compiled code and without it, in MiB, and its DOM nodes
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.visitor_pages import (  # noqa: E402
    CHARTS,
    JUDGED,
    PROBE,
    SAYS,
    STOP,
    Server,
    cpu_seconds,
    heap,
)  # fmt: skip
from benchmarks.visitor_programs import Asking, Programs  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "visitors.csv"
BUDGET = {  # column → at most
    "event_p95_ms": 300, "judged_p95_ms": 300, "answer_p95_ms": 300,
    "stop_running_ms": 500, "stop_waiting_ms": 500,
    "rss_growth": 0.05, "heap_growth": 0.10, "objects_growth": 0.02, "nodes_growth": 0.02,
}  # fmt: skip
IDLE_SECONDS = 8.0


def prompts(count: int) -> list[str]:
    """Prompts of the held-out sets, a different one for each visitor."""
    found = []
    for kind in ("word", "algebra", "code"):
        lines = (ROOT / "assets" / "tasks" / f"{kind}.jsonl").read_text("utf-8").splitlines()
        found.append([json.loads(line)["prompt"] for line in lines[10 : 10 + count]])
    return [found[n % len(found)][n // len(found)] for n in range(count)]


def nobody_runs(pages, seconds: float = IDLE_SECONDS) -> dict[str, float]:
    """Presses alone."""
    for page in pages:
        page.evaluate(PROBE)
    time.sleep(seconds)
    return spread("idle", [took for page in pages for took in pressed(page)["event"]])


def pressed(page) -> dict:
    """What a page has counted; it ends with that."""
    return page.evaluate("(probe.is_on = false, probe)")


def everybody_runs(pages, texts, url: str, programs: Programs) -> dict[str, float]:
    """All press Run at once; γ is moved in those that aren't decoding."""
    own, others = texts[: len(pages)], texts[len(pages) :]
    for page, text in zip(pages, own, strict=True):
        page.fill("#fd-prompt-box textarea", text)
    for page in pages:
        page.evaluate(PROBE)
    asking = Asking(url)
    before, begin = cpu_seconds(), time.monotonic()
    programs.start(others)
    for page in pages:
        page.evaluate("document.querySelector('#fd-run').click()")
    judged, ends, number = [], {}, 0
    while len(ends) + len(programs.ends) < len(texts) and time.monotonic() - begin < 180:
        time.sleep(0.5)  # whoever looks too often is the load that is measured
        for n, page in enumerate(pages):
            if n not in ends and page.evaluate(SAYS).startswith("finished"):
                ends[n] = time.monotonic() - begin
        number += 1
        judged += moved(pages, number)
    last = max([*ends.values(), *programs.ends], default=math.nan)
    spent = cpu_seconds() - before
    found = [pressed(page) for page in pages]
    places = sum(any(said.startswith("queued, ") for _, said in one["said"]) for one in found)
    return {
        "finished": len(ends) + len(programs.ends),
        "told_their_place": places,
        "last_end_s": last,
        **{f"cpu_{kind}_s": spent[kind] for kind in ("server", "pages", "browser")},
        **spread("event", [took for one in found for took in one["event"]]),
        **spread("judged", judged),
        **spread("answer", asking.end()),
    }


def moved(pages, number: int) -> list[float]:
    """γ moved in the first page that isn't decoding, another one each time; [] if all are."""
    value = round(0.3 + 0.02 * (7 * number % 30), 2)
    for n in range(len(pages)):
        took = pages[(number + n) % len(pages)].evaluate(JUDGED, value)
        if took is not None:
            return [took]
    return []


def everybody_stops(pages, url: str, programs: Programs) -> dict[str, float]:
    """Long runs (one token a step, without a cache), stopped one after the other, the latest
    first: at any time one of them is going on, and the others wait or have had a turn."""
    for page in pages:
        page.goto(f"{url}?strategy=greedy&cache=none&gen_length=256")
        page.wait_for_selector(CHARTS)
        page.wait_for_function("document.querySelector('#fd-gen_length input').value === '256'")
    count = len(programs)
    programs.start(prompts(count), strategy="greedy", cache="none", gen_length=256)
    for page in pages:
        page.evaluate("document.querySelector('#fd-run').click()")
    running, waiting = [], []
    for page in reversed(pages):
        page.wait_for_function(f"/^(step|started|queued|fin)/.test({SAYS})", timeout=60_000)
        said = page.evaluate(SAYS)
        if not said.startswith("finished"):  # it was quicker than the visitors before it
            is_waiting = "queued" in said or "others" in said
            (waiting if is_waiting else running).append(page.evaluate(STOP))
    programs.stop()
    found = {"stopped": len(running) + len(waiting)}
    for name, values in (("running", running), ("waiting", waiting)):
        if values:
            found[f"stop_{name}_ms"] = max(values)
    return found


def one_visitor_runs(server: Server, page, count: int) -> dict[str, float]:
    """Short runs with other seeds, each kept as a run of its own."""
    session = page.context.new_cdp_session(page)
    page.locator("#fd-gen_length input").fill("32")
    third, found, begin = max(1, count // 3), {}, time.monotonic()
    for number in range(1, count + 1):
        before = page.get_attribute(".fd", "data-run")
        page.locator("#fd-seed input").fill(str(number))
        page.evaluate("document.querySelector('#fd-run').click()")
        page.wait_for_function(
            "b => { const d = document.querySelector('.fd').dataset;"
            "return d.run !== b && !d.run.startsWith('live') && d.status === 'finished'; }",
            arg=before, polling=100, timeout=120_000,
        )  # fmt: skip
        if number % 50 == 0 or number in (third, count):
            page.wait_for_timeout(1000)  # what follows a run has ended, too
            memory = {"rss": server.rss(), **heap(session)}
            told(begin, f"run {number}: {memory}")
        if number in (third, count):
            when = "early" if number == third else "late"
            found |= {f"{kind}_{when}": value for kind, value in memory.items()}
    growth = {f"{kind}_growth": found[f"{kind}_late"] / found[f"{kind}_early"] - 1 for kind in KEPT}
    return {"runs": count, **found, **growth}


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


def measure(
    visitors: int, runs: int, pages: int | None = None, ready: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All numbers; 0 visitors or 0 runs leave their part out. `ready` is called when the pages
    are open and the model is loaded, before anything is measured.

    pages  how many of the visitors have one; all by default
    """
    from tests.browser_page import browser

    begin, count = time.monotonic(), visitors if pages is None else pages
    server = Server()
    told(begin, "the page is served")
    try:
        with browser() as chrome:
            row: dict[str, float] = {"visitors": visitors, "pages": count}
            shown = []
            for _ in range(max(1, count)):
                page = chrome.new_context(viewport={"width": 1280, "height": 900}).new_page()
                page.goto(server.url)
                page.wait_for_selector(CHARTS)
                shown.append(page)
            programs = Programs(server.url, visitors - count)
            told(begin, f"{len(shown)} pages are open")
            # the model is loaded once, by whoever comes first; that is not what is measured here
            shown[0].click("#fd-run")
            shown[0].wait_for_function(f"{SAYS}.startsWith('finished')", timeout=120_000)
            told(begin, "the model is loaded")
            ready()
            if visitors:
                # without pages the one that loaded the model only stands by
                open_ones = shown[:count]
                row |= nobody_runs(open_ones)
                told(begin, "nobody ran")
                row |= everybody_runs(open_ones, prompts(visitors), server.url, programs)
                told(begin, f"{row['finished']} of {visitors} runs have finished")
                if open_ones:
                    row |= everybody_stops(open_ones, server.url, programs)
                    told(begin, f"{row['stopped']} runs were stopped")
            for page in shown[1:]:
                page.context.close()
            if runs:
                shown[0].goto(server.url)
                shown[0].wait_for_selector(CHARTS)
                row |= one_visitor_runs(server, shown[0], runs)
        return row
    finally:
        server.close()


def main() -> int:
    from benchmarks.result_rows import append, circumstances

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--pages", type=int, help="visitors with a browser; all by default")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    before = circumstances()
    row = measure(options.visitors, options.runs, options.pages)
    rounded = {name: round(row[name], 3) for name in COLUMNS if name in row}
    append(RESULTS, {**before, **rounded, "note": options.note})
    over = missed(row)
    print("\n".join(over) or "every budget is kept")
    return 1 if over else 0


KEPT = ("rss", "heap", "objects", "nodes")
COLUMNS = (
    "visitors", "pages", "finished", "told_their_place", "last_end_s",
    "cpu_server_s", "cpu_pages_s", "cpu_browser_s",
    *(f"{name}_{part}" for name in ("idle", "event", "judged", "answer")
      for part in ("count", "median_ms", "p95_ms", "max_ms")),
    "stopped", "stop_running_ms", "stop_waiting_ms", "runs",
    *(f"{kind}_{when}" for kind in KEPT for when in ("early", "late", "growth")),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
