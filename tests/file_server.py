"""A server of files on this machine alone, with range requests, that fails when it is told to."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a server does with a request: None to answer it, a status, "cut" (half of the body), "drop" (nothing).
Fault = Callable[["Served"], int | str | None]


class Served:
    """One request: its path, its bytes (None: all) and how many came before it."""

    def __init__(self, path: str, span: tuple[int, int] | None, method: str, number: int) -> None:
        self.path, self.span, self.method, self.number = path, span, method, number


class FileServer(ThreadingHTTPServer):
    """Files of a folder at `url`; `fault` decides about each request, `asked` counts them."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked, self.sent = folder, Counter[str](), Counter[str]()
        self.fault: Fault = lambda request: None
        self.pages: dict[str, Callable[[_Handler], tuple[int, str, bytes]]] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Clients that leave early are none of our business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def log_message(self, *_: object) -> None: ...

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path in self.server.pages:
            self._send(*self.server.pages[path](self))
            return
        file = self.server.folder / path.lstrip("/")
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        size = file.stat().st_size if file.is_file() else 0
        span = None if found is None else (int(found[1]), min(int(found[2] or size - 1), size - 1))
        with self.server.lock:
            self.server.asked[path] += 1
            number = sum(self.server.asked.values())
        fault = self.server.fault(Served(path, span, self.command, number))
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif isinstance(fault, int) or not file.is_file():
            status = fault if isinstance(fault, int) else 404
            self._send(status, "text/html", b"<html><body>an error page</body></html>")
        else:
            self._send_file(file, span, size, cut=fault == "cut")

    def _send_file(self, file: Path, span: tuple[int, int] | None, size: int, cut: bool) -> None:
        first, last = span or (0, size - 1)
        with file.open("rb") as stream:
            stream.seek(first)
            body = stream.read(last - first + 1)
        self.send_response(200 if span is None else 206)
        if span is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        status = file.stat()
        self.send_header("ETag", f'"{status.st_mtime_ns:x}-{status.st_size:x}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
            with self.server.lock:
                self.server.sent[file.name] += len(body)
        if cut:
            self.close_connection = True

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving(folder: Path) -> Iterator[FileServer]:
    """Serve the files of a folder while the block runs."""
    server = FileServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
