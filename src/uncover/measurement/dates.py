"""Names of the dates of a series: days, months and seasons, and which measurement belongs to which."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

#: Meteorological seasons by the first letters of their months, in both hemispheres.
SEASONS = {"DJF": (12, 2), "MAM": (3, 5), "JJA": (6, 8), "SON": (9, 11)}
#: Word that names dates by their season.
SEASON = "season"

_DAY = re.compile(r"(?:(\d{4})(?:-(\d\d)(?:-(\d\d))?)?|(\d\d)(?:-(\d\d))?)")


@dataclass(frozen=True)
class Period:
    """A span of days with its name: of one year, or of every year.

    >>> Period.of("2024-06").holds(date(2024, 6, 30)), Period.of("06").holds(date(2031, 6, 1))
    (True, True)
    >>> Period.of("DJF").holds(date(2024, 1, 15)), Period.of("04-15/05-31").holds(date(2024, 6, 1))
    (True, False)
    >>> Period.of("June")
    Traceback (most recent call last):
    ...
    ValueError: 'June' is no date; write 2024-06-03, 2024-06, 06 (of any year), 04-15/05-31 or a season (JJA)
    """

    name: str
    first: tuple[int, ...]  # year, month, day; or month, day of every year
    last: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Period:
        """Read a name."""
        name = text.strip()
        if name in SEASONS:
            return cls(name, (SEASONS[name][0], 1), (SEASONS[name][1], 31))
        begin_text, _, end_text = name.partition("/")
        begin, end = _span(begin_text), _span(end_text or begin_text)
        if begin is None or end is None or len(begin[0]) != len(end[1]):
            raise ValueError(
                f"{text!r} is no date; write 2024-06-03, 2024-06, 06 (of any year), 04-15/05-31 or a season "
                "(JJA)"
            )
        if len(begin[0]) == 3 and end[1] < begin[0]:
            raise ValueError(f"the date {text!r} ends before it begins; give the earlier one first")
        return cls(name, begin[0], end[1])

    def holds(self, day: date) -> bool:
        """True where a day lies in it."""
        here = (day.year, day.month, day.day)[-len(self.first) :]
        if self.first <= self.last:
            return self.first <= here <= self.last
        return here >= self.first or here <= self.last  # over the turn of the year


def _span(text: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """First and last day of a day, month or year; None where it is none."""
    match = _DAY.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, any_month, any_day = match.groups()
    lead = () if year is None else (int(year),)
    month, day = (any_month, any_day) if year is None else (month, day)
    months = (1, 12) if month is None else (int(month), int(month))
    if not 1 <= months[0] <= 12:
        return None
    most = calendar.monthrange(lead[0] if lead else 2024, months[1])[1]  # the 29th of February is a day
    days = (1, most) if day is None else (int(day), int(day))
    if not 1 <= days[0] <= most:
        return None
    return (*lead, months[0], days[0]), (*lead, months[1], days[1])


def season_of(day: date) -> str:
    """Meteorological season of a day.

    >>> season_of(date(2024, 12, 3))
    'DJF'
    """
    return next(name for name in SEASONS if Period.of(name).holds(day))


def feature_name(when: str, feature: str) -> str:
    """Name of a feature of a date; that of the feature where no date is named."""
    return f"{when}:{feature}" if when else feature


def dated(name: str) -> tuple[str, str] | None:
    """Date and feature of a name like 2024-06-03:B04; None where it states no date.

    >>> dated("2024-06:NDVI"), dated("B04"), dated("texture:B04")
    (('2024-06', 'NDVI'), None, None)
    """
    when, colon, feature = name.partition(":")
    try:
        return (Period.of(when).name, feature) if colon else None
    except ValueError:
        return None


def dates_of(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Dates and features of names like DATE:BAND, which have the same features at every date; else None.

    >>> dates_of(["JJA:B04", "JJA:B08", "SON:B04", "SON:B08"])
    (('JJA', 'SON'), ('B04', 'B08'))
    >>> dates_of(["B04", "B08"])
    """
    found = [pair for pair in map(dated, names) if pair is not None]
    if len(found) < len(names) or not names:
        return None
    dates = tuple(dict.fromkeys(when for when, _ in found))
    features = tuple(feature for when, feature in found if when == dates[0])
    if found != [(when, feature) for when in dates for feature in features]:
        raise ValueError(
            f"the model was trained on {len(found)} features of {len(dates)} dates, which are not the same "
            "features at every date, date by date; order the columns so, and fit again"
        )
    return dates, features


def name_dates(days: Sequence[tuple[str, date]], how: str | None) -> list[str]:
    """Name of the date of each measurement, given by its own name and day; refuse two of one date.

    `how` is None for days as they are, "season", or dates between commas, each of which takes one of them.

    >>> name_dates([("a", date(2024, 6, 3)), ("b", date(2024, 9, 1))], "season")
    ['JJA', 'SON']
    >>> name_dates([("a", date(2024, 6, 3)), ("b", date(2024, 6, 3))], None)
    Traceback (most recent call last):
    ...
    ValueError: a and b are both of 2024-06-03; each date counts once: leave one out
    """
    if how is None:
        found = [day.isoformat() for _, day in days]
    elif how.strip() == SEASON:
        found = [season_of(day) for _, day in days]
    else:
        found = [matching(periods_of(how), name, day) for name, day in days]
    for i, when in enumerate(found):
        if when in found[:i]:
            first = days[found.index(when)][0]
            remedy = "leave one out" if how is None else "leave one out, or name shorter spans (--dates)"
            raise ValueError(f"{first} and {days[i][0]} are both of {when}; each date counts once: {remedy}")
    return found


def periods_of(text: str) -> list[Period]:
    """Dates between commas."""
    return [Period.of(part) for part in text.split(",") if part.strip()]


def matching(periods: Sequence[Period], name: str, day: date, of: str = "--dates has") -> str:
    """Name of the first date that a day belongs to; refuse a day of none."""
    for period in periods:
        if period.holds(day):
            return period.name
    listed = ", ".join(period.name for period in periods)
    raise ValueError(
        f"{name} is of {day.isoformat()}, and {of} {listed}; name the date that it stands for, in the order "
        "of the dates (--dates)"
    )
