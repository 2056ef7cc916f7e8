"""The server of the viewer: loopback only, a token in every address, and nothing but the maps that it shows.

An address is taken apart by fixed patterns and looked up in tables; no part of it becomes a path of a file.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from uncover.raster.errors import ReadError, SceneError
from uncover.raster.grid import same_crs
from uncover.raster.tiles import limit_caches
from uncover.report.page import json_in_page
from uncover.viewer.areas import NoAreaError
from uncover.viewer.planes import KEPT, levels_of
from uncover.viewer.viewed import ViewedMap, stamp_of

HOST = "127.0.0.1"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "md": "text/markdown"}
#: Files of the page, and the package that each lies in: looks and stories are those of the report.
_OWN = ("index.html", "view.css", "view.js", "tiles.js", "ol.css", "ol.js", "ol-LICENSE.md")
_OF_REPORT = ("page.css", "viewer.css", "shell.js", "story.js")
STATIC = dict.fromkeys(_OWN, ("uncover.viewer", "static"))
STATIC |= dict.fromkeys(_OF_REPORT, ("uncover.report", "assets"))
_JSON, _BYTES = "application/json; charset=utf-8", "application/octet-stream"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_MAP = r"data/(?P<map>\d{1,3})/(?P<version>[0-9a-f]{12})"
_NUMBER = r"\d{1,7}"
_DEGREES = r"-?\d{1,3}(?:\.\d{1,12})?"
_ROUTES = {
    "tile": re.compile(
        rf"{_MAP}/(?P<layer>\w{{1,40}})/(?P<z>\d{{1,2}})/(?P<row>{_NUMBER})-(?P<col>{_NUMBER})"
    ),
    "story": re.compile(rf"{_MAP}/story/(?P<row>{_NUMBER})-(?P<col>{_NUMBER})"),
    "measured": re.compile(rf"{_MAP}/measured/(?P<row>{_NUMBER})-(?P<col>{_NUMBER})"),
    "areas": re.compile(rf"{_MAP}/areas"),
    "place": re.compile(rf"{_MAP}/place/(?P<lat>{_DEGREES}),(?P<lon>{_DEGREES})"),
    "errors": re.compile(rf"{_MAP}/errors/(?P<number>\d{{1,2}})"),
}
_METHODS = ("GET", "HEAD")
#: Corners of an outline, at most.
_CORNERS = 2000


@cache
def static_file(name: str) -> bytes:
    """A file of the page."""
    package, folder = STATIC[name]
    return resources.files(package).joinpath(folder, name).read_bytes()


def spare_memory() -> None:
    """Keep this process small: few decoded tiles, and large arrays given back when they are done with.

    With glibc, each thread would keep memory of its own, and freed arrays would stay with the process.
    """
    limit_caches(8 << 20)
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        library = ctypes.CDLL(None)
        for option, value in ((-8, 2), (-3, 1 << 18), (-1, 1 << 20)):  # arenas, mmap from, trim above
            library.mallopt(option, value)


def _type(name: str) -> str:
    return f"{_TYPES[name.rsplit('.', 1)[-1]]}; charset=utf-8"


class _Refusal(Exception):
    """A status with one line for the reader."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


class Maps:
    """The maps of a page, each reopened when it was replaced on disk."""

    def __init__(self, open_maps: Sequence[Callable[[], ViewedMap]]) -> None:
        self._open, self._lock = list(open_maps), threading.Lock()
        self._maps = [opened() for opened in self._open]
        self._names = names_of([viewed.contents.map for viewed in self._maps])
        first = self._maps[0]
        for other in self._maps[1:]:
            if not same_crs(first.grid.crs, other.grid.crs):
                raise SceneError(
                    f"{other.product.name} is in {other.grid.crs}, {first.product.name} in {first.grid.crs}; "
                    "maps are shown together in one reference system, view them one by one"
                )
            a, b, _, d, e, _ = other.grid.relation(first.grid)
            if b or d or abs(a - e) > 1e-6 * abs(a) or a <= 0:
                raise SceneError(
                    f"the pixels of {other.product.name} are turned or stretched against those of "
                    f"{first.product.name}; view them one by one"
                )

    def current(self, number: int) -> ViewedMap:
        """The map as it is on disk now."""
        with self._lock:
            try:
                viewed = self._maps[number]
                if stamp_of(viewed.contents.map) != viewed.stamp:
                    self._maps[number] = self._open[number]()
                    viewed.close()
            except IndexError:
                raise _Refusal(HTTPStatus.NOT_FOUND, "there is no such map") from None
            except (OSError, ValueError, KeyError) as error:
                line = f"the map is not there any more, or not whole: {error}"
                raise _Refusal(HTTPStatus.GONE, line) from error
            return self._maps[number]

    def description(self) -> dict[str, Any]:
        """What the page is told of all maps."""
        maps = [self.current(i) for i in range(len(self._maps))]
        return {"static": False, "maps": self.descriptions(maps)}

    def descriptions(self, maps: Sequence[ViewedMap]) -> list[dict[str, Any]]:
        """Each map by a name of its own, with its scale, and column and row of its corner on the first."""
        relations = [viewed.grid.relation(maps[0].grid) for viewed in maps]
        return [
            viewed.description() | {"name": name, "relation": [a, c, f]}
            for viewed, name, (a, _, c, _, _, f) in zip(maps, self._names, relations, strict=True)
        ]

    def warm_up(self) -> None:
        """Open models and scenes before the first click; what fails then is said at the click."""
        for viewed in self._maps:
            try:
                viewed.measured(*(n // 2 for n in viewed.grid.shape))
                for z in range(KEPT, levels_of(viewed.grid)):
                    viewed.tile("true", z, 0, 0)
            except Exception:  # a map or scene that cannot be read: requests say so, each in one line
                continue

    def close(self) -> None:
        """Close all files."""
        for viewed in self._maps:
            viewed.close()


def names_of(folders: Sequence[Path]) -> list[str]:
    """Shortest ends of paths that tell folders apart.

    >>> names_of([Path("2020/map"), Path("2025/map")])
    ['2020/map', '2025/map']
    """
    parts = [folder.absolute().parts for folder in folders]
    lengths = range(1, max(map(len, parts)) + 1)
    n = next((n for n in lengths if len({p[-n:] for p in parts}) == len(parts)), 1)
    return ["/".join(p[-n:]) for p in parts]


def page(description: dict[str, Any]) -> bytes:
    """The page with its description."""
    return static_file("index.html").replace(b"{{data}}", json_in_page(description).encode("utf-8"))


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server: Server
    timeout = 120
    # Small answers are sent at once: Nagle's algorithm would hold the body back for 40 ms.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        """Answer, whatever happens, with one status."""
        if self.server.stopped:  # a connection that was kept open
            self.close_connection = True
            return
        kind = "text/plain; charset=utf-8"
        try:
            kind, body = self._answer()
            status = HTTPStatus.OK
        except _Refusal as refusal:
            status, body = refusal.status, f"{refusal}\n".encode()
        except ReadError as error:
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode()
        except (ValueError, IndexError) as error:
            status, body = HTTPStatus.BAD_REQUEST, f"{error}\n".encode()
        except Exception as error:  # the server stays up, and says what it could not do
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, f"{line}\n".encode()
        try:
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS}
            if status is HTTPStatus.MOVED_PERMANENTLY:
                headers["Location"] = body.decode().strip()
            immutable = status is HTTPStatus.OK and kind == _BYTES
            headers["Cache-Control"] = "private, max-age=3600, immutable" if immutable else "no-store"
            if self.command not in _METHODS:  # whatever else was sent is not read
                headers |= {"Allow": ", ".join(_METHODS), "Connection": "close"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except OSError:  # the browser went away
            self.close_connection = True

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def _answer(self) -> tuple[str, bytes]:
        address = urlsplit(self.path)
        token, slash, rest = address.path.removeprefix("/").partition("/")
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if not secrets.compare_digest(token.encode(), self.server.token.encode()) or host not in (
            HOST,
            "localhost",
        ):
            raise _Refusal(HTTPStatus.FORBIDDEN, "open the address that `uncover view` printed")
        if self.command not in _METHODS:
            raise _Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command} came; this page is only read")
        if not slash:
            raise _Refusal(HTTPStatus.MOVED_PERMANENTLY, f"/{token}/")
        if rest == "":
            self.server.warm_up()
            return _type("index.html"), page(self.server.maps.description())
        if rest in STATIC and rest != "index.html":
            return _type(rest), static_file(rest)
        for name, pattern in _ROUTES.items():
            found = pattern.fullmatch(rest)
            if found:
                return self._of_map(name, found.groupdict(), parse_qs(address.query))
        raise _Refusal(HTTPStatus.NOT_FOUND, "there is no such page")

    def _of_map(self, name: str, asked: dict[str, str], query: dict[str, list[str]]) -> tuple[str, bytes]:
        viewed = self.server.maps.current(int(asked["map"]))
        if asked["version"] != viewed.stamp:
            raise _Refusal(HTTPStatus.CONFLICT, "the map was replaced; load the page again")
        if name == "tile":
            tile = viewed.tile(asked["layer"], *(int(asked[key]) for key in ("z", "row", "col")))
            if tile is None:
                raise _Refusal(HTTPStatus.NOT_FOUND, "there is no such tile")
            return _BYTES, little_endian(tile)
        if name in ("story", "measured"):
            answer = viewed.story if name == "story" else viewed.measured
            return _JSON, _json(answer(int(asked["row"]), int(asked["col"])))
        if name == "errors":
            if int(asked["number"]) >= len(viewed.sources):
                raise _Refusal(HTTPStatus.NOT_FOUND, "there are no such labels")
            return _JSON, _json(viewed.errors(int(asked["number"])))
        if name == "place":
            return _JSON, _json(viewed.place_of(float(asked["lat"]), float(asked["lon"])))
        outline = _outline(query)
        try:
            return _JSON, _json(viewed.areas(outline))
        except NoAreaError as error:  # an answer to what was drawn, and no fault of the page that asked
            return _JSON, _json({"refused": str(error)})

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the terminal is the user's."""


def little_endian(tile: Any) -> bytes:
    """Bytes of a tile."""
    return np.ascontiguousarray(tile, tile.dtype.newbyteorder("<")).tobytes()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")


def _outline(query: dict[str, list[str]]) -> list[tuple[float, float]]:
    """Corners from `outline=row,col;row,col;…`."""
    try:
        corners = [
            tuple(float(n) for n in corner.split(",")) for corner in query.get("outline", [""])[0].split(";")
        ]
        wrong = len(corners) > _CORNERS or any(len(c) != 2 or not np.isfinite(c).all() for c in corners)
    except ValueError:
        wrong = True
    if wrong:
        raise ValueError(f"an outline is row,col;row,col;… of 3 to {_CORNERS} corners")
    return [(row, col) for row, col in corners]


class Server(ThreadingHTTPServer):
    """The viewer on a port of this machine; `address` is what a browser opens."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, maps: Maps, port: int = 0) -> None:
        self.maps, self.token = maps, secrets.token_urlsafe(24)
        self._lock, self._warm, self.stopped = threading.Lock(), False, False
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OSError(
                f"port {port} is not free ({error.strerror}); leave out --port, or give another"
            ) from error

    @property
    def address(self) -> str:
        """Address with the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about connections that break."""

    def warm_up(self) -> None:
        """Open models and scenes in the background, once, while the first picture is looked at."""
        with self._lock:
            if not self._warm:
                self._warm = True
                timer = threading.Timer(1.0, self.maps.warm_up)
                timer.daemon = True
                timer.start()

    def start(self) -> None:
        """Serve in the background."""
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end, which an interrupt brings."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def stop(self) -> None:
        """End it."""
        self.stopped = True
        self.shutdown()
        self.server_close()
        self.maps.close()
