"""Files at addresses (https://, s3:// and others that fsspec knows): read, looked at and written whole.

Rasters are read in place by GDAL, with the settings that are here too. A request that fails is made again.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import gaierror
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

T = TypeVar("T")

#: Seconds before a request that failed is made again, and again.
PAUSES: tuple[float, ...] = (0.5, 2.0, 5.0)
#: Seconds without an answer after which a request has failed.
PATIENCE = 30
#: Answers of a server that may be another one in a moment.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class RemoteError(ValueError):
    """What a server answered instead of what was asked for."""


def is_address(name: object) -> bool:
    """True for an address, such as https://… or s3://….

    >>> is_address("s3://bucket/scene.tif"), is_address("data/scene.tif"), is_address("C:/scene.tif")
    (True, False, False)
    """
    return _ADDRESS.match(str(name)) is not None


def beside(address: str, name: str) -> str:
    """The address of a relative name beside another.

    >>> beside("s3://bucket/items/a.json", "./B02.tif")
    's3://bucket/items/B02.tif'
    """
    if is_address(name):
        return name
    scheme, rest = address.split("://", 1)
    return scheme + urljoin("http://" + rest, name).removeprefix("http")


#: File systems of GDAL by the beginnings of addresses; it takes the others as they are.
_GDAL_SYSTEMS = {"s3": "/vsis3/", "s3a": "/vsis3/", "gs": "/vsigs/", "gcs": "/vsigs/", "az": "/vsiaz/"}


def gdal_name(name: str) -> str:
    """The name by which GDAL opens a file, which finds credentials by itself.

    >>> gdal_name("s3://bucket/scene.tif"), gdal_name("https://host/scene.tif"), gdal_name("scene.tif")
    ('/vsis3/bucket/scene.tif', 'https://host/scene.tif', 'scene.tif')
    """
    scheme, _, rest = name.partition("://")
    return _GDAL_SYSTEMS[scheme.lower()] + rest if rest and scheme.lower() in _GDAL_SYSTEMS else name


def gdal_settings() -> dict[str, Any]:
    """Settings of GDAL for rasters at addresses: nothing beside them is looked for, no failure is kept."""
    settings: dict[str, Any] = {
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "GDAL_HTTP_MAX_RETRY": len(PAUSES),
        "GDAL_HTTP_RETRY_DELAY": PAUSES[0] if PAUSES else 0.0,
        "GDAL_HTTP_CONNECTTIMEOUT": PATIENCE,
        "GDAL_HTTP_LOW_SPEED_TIME": PATIENCE,
        "GDAL_HTTP_LOW_SPEED_LIMIT": 1000,
        # Part of a file that came in half would be read again from memory.
        "CPL_VSIL_CURL_NON_CACHED": "/vsicurl/:/vsis3/:/vsigs/:/vsiaz/",
    }
    if endpoint := _endpoint():
        place = urlsplit(endpoint)
        settings |= {
            "AWS_S3_ENDPOINT": place.netloc + place.path.rstrip("/"),
            "AWS_HTTPS": "YES" if place.scheme == "https" else "NO",
            "AWS_VIRTUAL_HOSTING": "FALSE",
        }
    return settings


def tried_again(ask: Callable[[], T], failures: type[Exception] | tuple[type[Exception], ...]) -> T:
    """What a request gives, which is made again after pauses where it failed."""
    for pause in PAUSES:
        try:
            return ask()
        except failures:
            time.sleep(pause)
    return ask()


def read_bytes(address: str) -> bytes:
    """Content of the file at an address."""
    if _is_http(address):
        return _asked(address)[0]
    with _plainly(address) as files:
        content: bytes = files.cat_file(address)
    return content


def state_of(address: str) -> str | None:
    """Size, entity tag and time of the file at an address, which tell a change; of a folder those of all.

    None where nothing is there.
    """
    try:
        if _is_http(address):
            said = _asked(address, look=True)[1]
            if str(said.get("Content-Type")).startswith("text/html"):
                raise RemoteError(f"{address} answers with a web page, not with a file; check the address")
            names: tuple[str, ...] = ("Content-Range", "Content-Length", "ETag", "Last-Modified")
        else:
            names = ("size", "ETag", "LastModified", "mtime")
            with _plainly(address) as files:
                files.invalidate_cache()
                said = files.info(address)
                if said["type"] == "directory":
                    inside = sorted(files.find(address, detail=True).items())
                    each = [f"{name} {entry.get('size')} {entry.get('ETag')}" for name, entry in inside]
                    said = {"ETag": hashlib.sha256("\n".join(each).encode()).hexdigest()}
    except FileNotFoundError:
        return None
    return " ".join(str(said.get(name)) for name in names)


def files_in(folder: str) -> list[str]:
    """Addresses of all files in a folder and in those below it; none where there is no such folder."""
    with _plainly(folder) as files:
        files.invalidate_cache()
        return [_full(folder, name) for name in files.find(folder)]


def matches(pattern: str) -> list[str]:
    """Addresses that match a pattern with * and ?."""
    with _plainly(pattern) as files:
        return [_full(pattern, str(name)) for name in sorted(files.glob(pattern))]


def fetch(address: str, folder: Path) -> Path:
    """Copy the file at an address, or all files of the folder there, into a folder of this machine."""
    place = folder / address.rstrip("/").rsplit("/", 1)[-1]
    if _is_http(address):
        place.write_bytes(read_bytes(address))
        return place
    inside = files_in(address)
    if not inside:
        raise FileNotFoundError(2, "does not exist", address)
    for file in inside:
        copy = place / file.removeprefix(address).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        with _plainly(file) as files:
            files.get_file(file, str(copy))
    return place


def send(file: Path, address: str) -> None:
    """Write a file of this machine to an address."""
    with _plainly(address) as files:
        files.put_file(str(file), address)


def remove(addresses: Sequence[str]) -> None:
    """Remove files at addresses."""
    for address in addresses:
        with _plainly(address) as files:
            files.rm_file(address)


def _full(like: str, name: str) -> str:
    return f"{like.split('://', 1)[0]}://{name.split('://', 1)[-1]}"


def _is_http(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


class _PassingError(Exception):
    """A failure that may be over in a moment."""


def _asked(address: str, look: bool = False) -> tuple[bytes, Any]:
    """Content and headers of a server's answer; with `look` those of its first byte.

    A signed address may be good for this method alone, so a look is no HEAD.
    """
    try:
        return tried_again(lambda: _ask(address, look), _PassingError)
    except _PassingError as problem:
        raise RemoteError(f"{address} {problem}, {len(PAUSES) + 1} times; try again later") from None


def _ask(address: str, look: bool) -> tuple[bytes, Any]:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        with urlopen(
            Request(address, headers={"Range": "bytes=0-0"} if look else {}), timeout=PATIENCE
        ) as answer:
            return answer.read(1 if look else None), answer.headers
    except HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError(2, "does not exist", address) from None
        said = f"{error.code} {error.reason}".strip()
        if error.code in _PASSING:
            raise _PassingError(f"answered {said}") from None
        raise RemoteError(f"{address} answered {said}; check the address and your access to it") from None
    except HTTPException as error:
        raise _PassingError(f"stopped in the middle ({type(error).__name__})") from None
    except OSError as error:
        why = getattr(error, "reason", error)
        if isinstance(why, gaierror):  # of a host that nobody knows
            raise RemoteError(f"{address} cannot be reached ({why}); check the address") from None
        raise _PassingError(f"cannot be reached ({why})") from None


def _access(address: str) -> dict[str, Any]:
    """Options of fsspec that the environment states, for GDAL as for it."""
    if not address.startswith(("s3://", "s3a://")):
        return {}
    anonymous = {"anon": True} if os.environ.get("AWS_NO_SIGN_REQUEST", "NO") != "NO" else {}
    return anonymous | ({"endpoint_url": _endpoint()} if _endpoint() else {})


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@contextmanager
def _plainly(address: str) -> Iterator[Any]:
    """The file system of an address; what goes wrong there is one line."""
    try:
        import fsspec

        yield fsspec.core.url_to_fs(address, **_access(address))[0]
    except ImportError as error:
        raise RemoteError(
            f'{address} needs a library that is not installed ({error}): pip install "uncover[remote]"'
        ) from error
    except RemoteError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(2, " ".join(str(error).split()) or "does not exist", address) from None
    except Exception as error:  # every store raises its own
        why = " ".join(str(error).split()) or type(error).__name__
        raise RemoteError(
            f"{address} cannot be reached ({why}); check the address and your access to it"
        ) from error
