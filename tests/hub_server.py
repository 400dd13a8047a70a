"""A small hub on this machine: enough of the protocol for huggingface_hub's own client.

`owner/open` can be had, `owner/gated` and `owner/private` can't; weights may break off once.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """files: folder of the model; log: (method, path, Range header) of every request."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.log, self.breaks = folder, [], 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, has_body: bool) -> None:
        self.server.log.append((self.command, self.path, self.headers.get("Range")))
        path = self.path.split("?")[0]
        if "owner/gated" in path and "/resolve/" in path:
            return self._refuse(403, "GatedRepo")
        if "owner/open" not in path and "owner/gated" not in path:
            return self._refuse(401, "RepoNotFound")
        if match := re.fullmatch(r"/api/models/owner/\w+(?:/revision/([^/]+))?", path):
            if match[1] not in (None, "main", COMMIT):
                return self._refuse(404, "RevisionNotFound")
            names = sorted(p.name for p in self.server.folder.iterdir())
            facts = {
                "id": "owner/open", "sha": COMMIT, "private": False, "tags": [], "downloads": 0,
                "siblings": [{"rfilename": name} for name in names],
            }  # fmt: skip
            return self._send(200, json.dumps(facts).encode(), has_body)
        if match := re.fullmatch(r"/api/models/owner/\w+/tree/[^/]+", path):
            entries = [
                {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": "0" * 40}
                for p in sorted(self.server.folder.iterdir())
            ]
            return self._send(200, json.dumps(entries).encode(), has_body)
        if match := re.fullmatch(r"/owner/\w+/resolve/[^/]+/(.+)", path):
            file = self.server.folder / match[1]
            if not file.is_file():
                return self._refuse(404, "EntryNotFound")
            return self._file(file, has_body)
        return self._refuse(404, "EntryNotFound")

    def _file(self, file: Path, has_body: bool) -> None:
        data = file.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT,
                   "Accept-Ranges": "bytes"}  # fmt: skip
        status, start, end = 200, 0, len(data)
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            status, start = 206, int(wanted[1])
            end = int(wanted[2]) + 1 if wanted[2] else len(data)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        body = data[start:end]
        if has_body and file.suffix == ".safetensors" and status == 200 and self.server.breaks:
            self.server.breaks -= 1
            self._head(200, len(body), headers)
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return None
        return self._send(status, body, has_body, headers)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", self.command != "HEAD", {"X-Error-Code": code})

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status: int, body: bytes, has_body: bool, headers=None) -> None:
        self._head(status, len(body), headers or {"Content-Type": "application/json"})
        if has_body:
            self.wfile.write(body)


@contextmanager
def running(folder: Path):
    """A hub that serves this folder."""
    hub = Hub(folder)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
