"""What the visitors' benchmark does in a page and to the server: presses, γ, Stop, memory, CPU.

The objects of a page's script are what it made and still holds: everything in a heap snapshot but
compiled code, which grows while the engine finds out what is worth compiling, and what the browser
keeps for itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ".fd-gamma[aria-valuenow]"
NO_OBJECTS = ("code", "native")  # types of nodes in a heap snapshot

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


def cpu_seconds() -> Counter[str]:
    """CPU seconds so far of this process's children, and theirs, by what they are: server, pages
    (the renderers), browser (all else of Chromium). Linux only."""
    table: dict[int, tuple[int, str, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                line = (folder / "cmdline").read_text()
            except OSError:
                continue  # it has ended meanwhile
            ticks = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            table[int(folder.name)] = int(words[1]), line, ticks
    found: Counter[str] = Counter()
    for number, (_, line, seconds) in table.items():
        if is_below(os.getpid(), number, {child: row[0] for child, row in table.items()}):
            kind = "server" if "app.py" in line else "pages" if "=renderer" in line else "browser"
            found[kind] += seconds
    return found


def is_below(ancestor: int, number: int, parents: dict[int, int]) -> bool:
    """Whether a process descends from another one, by a table child → parent."""
    seen = set()
    while number in parents and number not in seen:
        seen.add(number)
        number = parents[number]
        if number == ancestor:
            return True
    return False


def heap(session) -> dict[str, float]:
    """After collection, in MiB: the script's whole heap, and its objects; and DOM nodes."""
    for _ in range(3):  # what finalizers let go of is found the next time
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    nodes = next(metric["value"] for metric in metrics if metric["name"] == "Nodes")
    return {"heap": used / 2**20, "objects": objects(snapshot(session)) / 2**20, "nodes": nodes}


def snapshot(session) -> dict:
    """The script's heap, node by node, as Chromium's developer tools save it."""
    parts: list[str] = []

    def take(event: dict) -> None:
        parts.append(event["chunk"])

    session.on("HeapProfiler.addHeapSnapshotChunk", take)
    session.send("HeapProfiler.takeHeapSnapshot", {"reportProgress": False})
    session.remove_listener("HeapProfiler.addHeapSnapshotChunk", take)
    return json.loads("".join(parts))


def objects(heap_snapshot: dict) -> int:
    """Bytes of what the script made: all nodes but those of `NO_OBJECTS`."""
    meta, nodes = heap_snapshot["snapshot"]["meta"], heap_snapshot["nodes"]
    fields, types = meta["node_fields"], meta["node_types"][0]
    kind, size = fields.index("type"), fields.index("self_size")
    starts = range(0, len(nodes), len(fields))
    return sum(nodes[n + size] for n in starts if types[nodes[n + kind]] not in NO_OBJECTS)
