"""Visitors without a browser: programs that decode, and one that only moves γ."""

from __future__ import annotations

import json
import threading
import time
import urllib.request


class Programs:
    """Visitors without a browser: each takes the stream of `/decode`, in a thread of its own.

    ends  seconds from the start to the last answer, of those that have finished
    """

    def __init__(self, url: str, count: int) -> None:
        from gradio_client import Client

        self.ends: list[float] = []
        self._clients = [Client(url, verbose=False) for _ in range(count)]
        self._jobs: list = []

    def start(self, texts: list[str], **settings) -> None:
        """All at once; `settings` of `/decode`."""
        begin = time.monotonic()

        def take(client, text: str) -> None:
            job = client.submit(text, api_name="/decode", include_trace=False, **settings)
            self._jobs.append(job)
            if any(answer["is_done"] for answer in job):
                self.ends.append(time.monotonic() - begin)

        for client, text in zip(self._clients, texts, strict=True):
            threading.Thread(target=take, args=(client, text), daemon=True).start()

    def __len__(self) -> int:
        return len(self._clients)

    def stop(self) -> None:
        """End what is going on."""
        for job in self._jobs:
            job.cancel()


class Asking:
    """Moves γ of the page's first run ten times a second, past any browser, in a thread.

    times  milliseconds from each request to its answer
    """

    def __init__(self, url: str) -> None:
        with urllib.request.urlopen(f"{url}config", timeout=30) as answer:
            events = json.load(answer)["dependencies"]
        self._number = next(e["id"] for e in events if e["api_name"] == "what_if")
        self._url, self._is_on, self.times = f"{url}gradio_api/run/predict", True, []
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        while self._is_on:
            gamma = round(0.3 + 0.02 * (7 * len(self.times) % 30), 2)
            question = {"fn_index": self._number, "session_hash": "asking"}
            body = json.dumps({**question, "data": [None, 0.95, gamma]}).encode()
            head = {"Content-Type": "application/json"}
            begin = time.perf_counter()
            with urllib.request.urlopen(urllib.request.Request(self._url, body, head)) as answer:
                answer.read()
            self.times.append(1e3 * (time.perf_counter() - begin))
            time.sleep(0.1)

    def end(self) -> list[float]:
        """No more; the times, less the first (it makes the session)."""
        self._is_on = False
        self._thread.join(60)
        return self.times[1:]
