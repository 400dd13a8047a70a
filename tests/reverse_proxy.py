"""A little reverse proxy that shows a server under a sub-path, as nginx or a Space would."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host"}


@contextmanager
def proxy(upstream_port: int, port: int, prefix: str, is_open: bool = True):
    """Serve 127.0.0.1:`upstream_port` under http://127.0.0.1:`port``prefix`/.

    is_open  tell the server how it was asked (Host, X-Forwarded-*); a closed one tells nothing

    Yields the (method, path, status) of everything that was asked, also outside of the prefix.
    """
    asked: list[tuple[str, str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def forward(self):
            path = self.path
            if path == "/favicon.ico":  # a browser asks the site around the page for it
                self.send_response(204)
                self.end_headers()
                return
            if not path.startswith(f"{prefix}/"):
                asked.append((self.command, path, 404))
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
            headers["Host"] = f"127.0.0.1:{upstream_port}"
            if is_open:
                headers["Host"] = headers["X-Forwarded-Host"] = self.headers["host"]
                headers["X-Forwarded-Proto"] = "http"
            upstream = http.client.HTTPConnection("127.0.0.1", upstream_port, timeout=60)
            try:
                upstream.request(self.command, path.removeprefix(prefix), body, headers)
                self.answer(upstream.getresponse(), path)
            except OSError:
                self.close_connection = True  # the page or the server has gone
            finally:
                upstream.close()

        def answer(self, answer, path):
            asked.append((self.command, path, answer.status))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP | {"content-length"}:
                    self.send_header(name, value)
            has_body = self.command != "HEAD" and answer.status not in (204, 304)
            if has_body:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            # passed on as it comes: a proxy that collects would hold back a stream
            while has_body and (part := answer.read1(65536)):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            if has_body:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_HEAD = do_DELETE = forward

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a browser that goes away in the middle
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield asked
    server.shutdown()
    server.server_close()
    thread.join(10)
