"""Facts in the names of files: band, pixel size, tile, time, sensor, level and baseline of Sentinel-2."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from uncover.measurement.bands import canonical_band
from uncover.measurement.features import Level
from uncover.raster.errors import SceneError

#: Layers of a Level-2A product that lie beside its bands.
LAYERS = ("SCL", "AOT", "WVP")
#: Products made since then have the offset of baseline 04.00, whatever the time that they show.
_OFFSET_SINCE = "20220125"

_EDGE = r"(?=[_.\- (]|$)"
_BAND = re.compile(rf"(?:^|[_.\- ])(B\d{{1,2}}A?|SCL|AOT|WVP){_EDGE}", re.IGNORECASE)
_METRES = re.compile(rf"[_.\-](10|20|60)m{_EDGE}", re.IGNORECASE)
_TILE = re.compile(rf"(?:^|[_.\- ])(T\d\d[C-X][A-Z]{{2}}){_EDGE}")
_TIME = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?:T(\d{6}))?(?!\d)")
_SENSOR = re.compile(rf"(?:^|[_.\- ])(?:S|SENTINEL-?)2([ABC]){_EDGE}", re.IGNORECASE)
_LEVEL = re.compile(rf"(?:^|[_.\- ]|MSI)(L1C|L2A){_EDGE}", re.IGNORECASE)
_BASELINE = re.compile(r"_N(\d\d)(\d\d)_")
_OFFICIAL = re.compile(r"(?:L2A_)?T\d\d[A-Z]{3}_\d{8}T\d{6}_(?:B\d\d|B8A|SCL|AOT|WVP)(_\d0m)?\.jp2")


@dataclass(frozen=True)
class NamedFacts:
    """Facts that a file's name, and the names of the folders above it, state; None where they are silent.

    >>> facts = NamedFacts.of("R60m/T11UPT_20200804T183919_B02_60m.jp2")
    >>> facts.band, facts.metres, facts.tile, facts.date, facts.level
    ('B02', 60, 'T11UPT', '2020-08-04T18:39:19Z', 'L2A')
    """

    band: str | None = None  # or one of LAYERS
    metres: int | None = None
    tile: str | None = None
    date: str | None = None  # a day, or a time
    sensor: str | None = None
    level: Level | None = None
    baseline: str | None = None
    official: bool = False  # named as files of a product are
    rest: str = ""  # the file's name without band and pixel size: the same in all files of a scene

    @classmethod
    def of(cls, path: str | Path) -> NamedFacts:
        """Read the name of a file; the nearest folder counts where the file itself is silent."""
        parts = [Path(path).stem, *(p.name for p in list(Path(path).absolute().parents)[:6])]
        official = _OFFICIAL.fullmatch(Path(path).name)
        band, metres = _BAND.search(parts[0]), _METRES.search(parts[0])
        level: Level | None = next((_level(part) for part in parts if _level(part)), None)
        if level is None and official is not None:
            level = "L1C" if official.group(1) is None else "L2A"  # only Level-2A names state a pixel size
        baseline = next((m for part in parts if (m := _BASELINE.search(f"{part}_"))), None)
        sensor = next((m.group(1).upper() for part in parts if (m := _SENSOR.search(part))), None)
        return cls(
            None if band is None else canonical_band(band.group(1).upper()),
            None if metres is None else int(metres.group(1)),
            next((m.group(1) for part in parts if (m := _TILE.search(part))), None),
            next((d for part in parts if (d := date_in(part))), None),
            None if sensor is None else f"S2{sensor}",
            level,
            None if baseline is None else f"{baseline.group(1)}.{baseline.group(2)}",
            official is not None,
            _METRES.sub("", _BAND.sub("", parts[0])),
        )

    @property
    def offset(self) -> float:
        """Offset of an official file's numbers as reflectance: by baseline, else by the time it shows."""
        since = (
            self.baseline >= "04.00" if self.baseline else (self.date or "").replace("-", "") >= _OFFSET_SINCE
        )
        return -0.1 if since else 0.0


def _level(text: str) -> Level | None:
    match = _LEVEL.search(text)
    return None if match is None else "L1C" if match.group(1).upper() == "L1C" else "L2A"


def date_in(text: str) -> str | None:
    """The first date of a name: a day, or a time in UTC.

    >>> date_in("2020-08-04-00:00_Sentinel-2_L2A_B02"), date_in("B02_60m"), date_in("S2_20209904")
    ('2020-08-04', None, None)
    """
    for match in _TIME.finditer(text):
        year, month, day, clock = match.groups()
        try:
            time = datetime.strptime(f"{year}{month}{day}{clock or '000000'}", "%Y%m%d%H%M%S")
        except ValueError:
            continue
        return f"{time:%Y-%m-%dT%H:%M:%SZ}" if clock else f"{time:%Y-%m-%d}"
    return None


#: A datatake, or the time of one in the names of its files and products.
_DATATAKE = re.compile(r"(?:G?(S2[A-D])(?:_MSIL(?:1C|2A))?|T\d\d[C-X][A-Z]{2})_(\d{8}T\d{6})(?:_.*)?")


def same_datatake(one: str, other: str) -> bool:
    """True where two identities are the same, or those of one datatake: names of band files state its time.

    >>> same_datatake("GS2A_20221005T115411_038058", "T29UNU_20221005T115411")
    True
    >>> same_datatake("GS2A_20221005T115411_038058", "GS2B_20221005T115411_038058")
    False
    """
    a, b = (_DATATAKE.fullmatch(name) for name in (one, other))
    if one == other or a is None or b is None:
        return one == other
    return a.group(2) == b.group(2) and (a.group(1) or b.group(1)) == (b.group(1) or a.group(1))


def nearest_size(sizes: Iterable[int], metres: float) -> int:
    """The pixel size that is nearest to another by its ratio; of two equally near the finer.

    >>> nearest_size((20, 60), 60.0), nearest_size((20, 60), 10.0)
    (60, 20)
    """
    return min(sorted(sizes), key=lambda size: max(size / metres, metres / size))


def span(stated: str, who: str = "--date") -> tuple[datetime, datetime]:
    """First and last second of a day, month or year, or of two with a slash between; of a time the same.

    >>> span("2020-06")[1].isoformat()
    '2020-06-30T23:59:59+00:00'
    """
    first, _, last = stated.partition("/")
    begin, end = _span(first, stated, who)[0], _span(last or first, stated, who)[1]
    if end < begin:
        raise SceneError(f"{who} {stated} ends before it begins; give the earlier date first")
    return begin, end


def _span(text: str, stated: str, who: str) -> tuple[datetime, datetime]:
    try:
        if not re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
            time = datetime.fromisoformat(text)
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            return time, time
        begin = datetime.fromisoformat((text + "-01-01")[:10]).replace(tzinfo=UTC)
        after, day = begin + timedelta(days={4: 366, 7: 31, 10: 1}[len(text)]), len(text) == 10
        after = after.replace(day=after.day if day else 1, month=1 if len(text) == 4 else after.month)
    except ValueError:
        raise SceneError(
            f"{who} {stated} is no date; give 2020-06-01, 2020-06, 2020, a time such as "
            "2020-06-01T11:06:31Z, or two of them with a slash between"
        ) from None
    return begin, after - timedelta(seconds=1)


def instant(date: str | None) -> datetime | None:
    """The time that a date states; None for a day, a month, a year or an interval."""
    if date is None or "T" not in date or "/" in date:
        return None
    time = datetime.fromisoformat(date.replace("Z", "+00:00"))
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def split_band(name: str | Path) -> tuple[str, int]:
    """File and band of `FILE:2`; band 1 where none is named.

    >>> split_band("lcm.tif:2"), split_band("lcm.tif")
    (('lcm.tif', 2), ('lcm.tif', 1))
    """
    text = str(name)
    head, colon, tail = text.rpartition(":")
    if colon and tail.isdigit() and not Path(text).exists():
        return head, int(tail)
    return split_layer(text)[0], 1


def split_layer(name: str | Path) -> tuple[str, str | None]:
    """File and layer of `FILE:forest` for files that may hold several layers of features.

    >>> split_layer("site.gpkg:forest"), split_layer("site.gpkg")
    (('site.gpkg', 'forest'), ('site.gpkg', None))
    """
    found = _LAYER.fullmatch(str(name))
    if found is None or Path(name).exists():
        return str(name), None
    return found[1], found[2]


_LAYER = re.compile(r"(.+\.(?:gpkg|sqlite|gdb|kml|gml|zip)):([^/]+)", re.IGNORECASE)


def split_vsizip(path: str) -> tuple[str, str]:
    """Archive and member of a GDAL name.

    >>> split_vsizip("/vsizip/data/a.zip/x/y.jp2")
    ('data/a.zip', 'x/y.jp2')
    """
    rest = path.removeprefix("/vsizip/")
    end = rest.lower().index(".zip/") + len(".zip")
    return rest[:end], rest[end + 1 :]
