"""Sample tables: labelled measurements as CSV or Parquet, one column per band, in memory as arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.files import TextTable, not_unicode, reader
from uncover.measurement.bands import canonical_band
from uncover.warn import warn

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")

# Columns that are not measurements, by the names they usually have.
_CLASS = ("class", "classes", "label", "land_cover", "landcover")
_REALISATION = ("realisation", "realization")
_SAMPLE = ("sample", "pixel", "id")
_DATE = ("date", "year")
GROUP_COLUMNS = ("group", "polygon", "block")
_PLACE = ("x", "y", "lon", "lat", "longitude", "latitude", "row", "col", "fid", "index")
_BAND = re.compile(r"[Bb]\d{1,2}[Aa]?")


@dataclass(frozen=True)
class SampleTable:
    """Labelled samples: values (sample, band) or (sample, realisation, band), and what goes with each.

    >>> table = SampleTable("pixels.csv", np.zeros((2, 3)), np.array(["a", "b"]), ("B02", "B03", "B04"))
    >>> len(table), table.realisations, table.select(["B04", "B02"]).values.shape
    (2, 1, (2, 2))
    """

    name: str
    values: NDArray[np.float64]
    classes: NDArray[np.str_]  # (sample,)
    bands: tuple[str, ...]
    dates: NDArray[np.str_] | None = None  # (sample,)
    groups: NDArray[np.str_] | None = None  # (sample,)
    samples: NDArray[np.str_] | None = None  # (sample,), what the table calls them
    class_column: str | None = None
    unused: tuple[str, ...] = ()  # columns that are neither class nor bands

    def __len__(self) -> int:
        return len(self.values)

    @property
    def realisations(self) -> int:
        """Number of realisations of each sample."""
        return 1 if self.values.ndim == 2 else self.values.shape[1]

    def select(self, bands: Sequence[str]) -> SampleTable:
        """The same samples with those bands, in that order."""
        missing = [band for band in bands if band not in self.bands]
        if missing:
            raise ValueError(
                f"{self.name} has no column for band {', '.join(missing)}; it has {', '.join(self.bands)}"
            )
        at = [self.bands.index(band) for band in bands]
        return replace(self, values=self.values[..., at], bands=tuple(bands))


def is_table(name: str | Path) -> bool:
    """Return whether a file is a sample table, by its name."""
    return str(name).lower().endswith(TABLE_SUFFIXES)


@reader
def read_table(
    path: str | Path,
    class_field: str | None = None,
    bands: Sequence[str] | None = None,
    *,
    incomplete: Literal["leave out", "refuse"] = "leave out",
) -> SampleTable:
    """Labelled samples of a CSV or Parquet file.

    The class is in `class_field`, or in a column called class or label. Bands are the columns asked for; else
    those called like Sentinel-2 bands (B2, B8A); else all columns of numbers that are not called date, group,
    realisation, sample, id or like coordinates. With a column `realisation`, rows of one `sample` (and date)
    belong together; without a column `sample`, the i-th rows of all realisations do. Rows that lack a band or
    a class are left out with a warning, or refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pixels.csv"
    >>> _ = path.write_text("B2,B8A,class\\n0.03,0.4,forest\\n0.08,0.2,village\\n")
    >>> read_table(path).bands
    ('B02', 'B8A')
    """
    frame = read_frame(Path(path))
    name = Path(path).name
    if len(frame) == 0:
        raise ValueError(f"{name} has no rows; a sample table needs at least one labelled sample")
    class_column = _class_column(frame, class_field, name)
    columns = _band_columns(frame, class_column, bands, name)
    frame = _complete_rows(frame, [*columns, class_column], name, incomplete)
    values = _numbers(frame, columns, name)
    for known in (_DATE, GROUP_COLUMNS, _SAMPLE, _REALISATION):
        _check_filled(frame, known, name)
    realisation = _column(frame, _REALISATION)
    order = (
        np.arange(len(frame))[:, np.newaxis]
        if realisation is None
        else _by_sample(frame, realisation, class_column, name)
    )
    first = order[:, 0]
    return SampleTable(
        name=name,
        values=values[first] if order.shape[1] == 1 else values[order],
        classes=frame[class_column].to_numpy().astype(str)[first],
        bands=tuple(canonical_band(column) for column in columns),
        dates=_strings(frame, _DATE, first),
        groups=_strings(frame, GROUP_COLUMNS, first),
        samples=_strings(frame, _SAMPLE, first),
        class_column=class_column,
        unused=tuple(str(c) for c in frame.columns if str(c) not in (*columns, class_column)),
    )


def read_frame(path: Path) -> Any:
    """A data frame of a table, however it is written."""
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "sample tables need pandas: install it with `pip install uncover[tables]`"
        ) from None
    if not path.is_file():
        raise ValueError(f"{path} does not exist; check the path")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pandas.read_parquet(path)
        text = TextTable.of(path)
        return pandas.read_csv(
            path, sep=text.separator, decimal=text.decimal, encoding=text.encoding, skiprows=text.comments
        )
    except UnicodeDecodeError:
        raise not_unicode(path) from None
    except (
        ValueError,
        OSError,
        EOFError,
    ) as error:  # what pandas and pyarrow raise for files they cannot parse
        raise ValueError(f"{path} cannot be read as a table: {_first_line(error)}") from None


def _class_column(frame: Any, class_field: str | None, name: str) -> str:
    if class_field is not None:
        if class_field not in frame.columns:
            raise ValueError(
                f"{name} has no column {class_field!r}; its columns are {_listed(frame.columns)}"
            )
        return class_field
    found = _column(frame, _CLASS)
    if found is None:
        raise ValueError(
            f"{name} has no column called class or label; say with --class-field which of "
            f"{_listed(frame.columns)} holds the class"
        )
    return found


def _band_columns(frame: Any, class_column: str, bands: Sequence[str] | None, name: str) -> list[str]:
    by_band = {canonical_band(str(column)): str(column) for column in frame.columns}
    if bands is not None:
        missing = [band for band in bands if canonical_band(band) not in by_band]
        if missing:
            raise ValueError(
                f"{name} has no column for band {_listed(missing)}; it has {_listed(frame.columns)}"
            )
        return [by_band[canonical_band(band)] for band in bands]
    like_bands = [str(c) for c in frame.columns if _BAND.fullmatch(str(c))]
    reserved = {*_REALISATION, *_SAMPLE, *_DATE, *GROUP_COLUMNS, *_PLACE, class_column.lower()}
    numbers = [
        str(c) for c in frame.columns if frame[c].dtype.kind in "iuf" and str(c).lower() not in reserved
    ]
    found = like_bands or numbers
    if not found:
        place = [str(c) for c in frame.columns if str(c).lower() in _PLACE[:6]]
        points = (
            f"; with {' and '.join(place)} it is points: uncover fit SCENE --labels {name}" if place else ""
        )
        raise ValueError(
            f"{name} has no column of measurements; its columns are {_listed(frame.columns)}{points}"
        )
    return found


def _complete_rows(frame: Any, columns: list[str], name: str, incomplete: str) -> Any:
    missing = frame[columns].isna().any(axis=1)
    if missing.any() and incomplete == "refuse":
        lacking = [column for column in columns if frame[column].isna().any()]
        raise ValueError(
            f"{name}: {int(missing.sum())} of {len(frame)} rows have no value for {_listed(lacking)}; every "
            "row needs all bands and a class: fill or remove them"
        )
    if missing.all():
        raise ValueError(f"{name} has no row with a class and a value in every band ({_listed(columns)})")
    if missing.any():
        warn(
            f"{name}: {int(missing.sum())} of {len(frame)} rows lack a band or a class and are left out",
        )
    return frame[~missing].reset_index(drop=True)


def _numbers(frame: Any, columns: list[str], name: str) -> NDArray[np.float64]:
    for column in columns:
        if frame[column].dtype.kind not in "iuf":
            raise ValueError(f"{name}: the column {column!r} does not hold numbers")
    values: NDArray[np.float64] = frame[columns].to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: a band holds an infinite value; mend or remove the row")
    return values


def _by_sample(frame: Any, realisation: str, class_column: str, name: str) -> NDArray[np.intp]:
    """Rows of each sample in the order of their realisations: (sample, realisation)."""
    numbers, r = np.unique(frame[realisation].to_numpy(), return_inverse=True)
    sample = _sample_numbers(frame, r.ravel())
    order = np.lexsort((r.ravel(), sample))
    per_sample = np.bincount(sample)
    if (per_sample != numbers.size).any():
        wrong = int(np.flatnonzero(per_sample != numbers.size)[0])
        raise ValueError(
            f"{name}: sample {wrong + 1} has {per_sample[wrong]} rows and there are {numbers.size} "
            f"realisations; every sample needs one row of each (name samples by a column 'sample')"
        )
    table = order.reshape(-1, numbers.size)
    if (r.ravel()[table] != np.arange(numbers.size)).any():
        raise ValueError(
            f"{name}: a sample has two rows of one realisation; name samples by a column 'sample'"
        )
    labels = frame[class_column].to_numpy().astype(str)[table]
    if (labels != labels[:, :1]).any():
        raise ValueError(f"{name}: realisations of one sample have different classes; a sample has one class")
    return np.asarray(table)


def _sample_numbers(frame: Any, realisation: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number of the sample of each row: by its columns, or by its place among the rows of its realisation."""
    named = _column(frame, _SAMPLE)
    if named is not None:
        date = _column(frame, _DATE)
        columns = [named] if date is None else [named, date]
        return np.asarray(frame.groupby(columns, sort=False).ngroup().to_numpy())
    place = np.zeros(len(frame), np.intp)
    for r in np.unique(realisation):
        mine = realisation == r
        place[mine] = np.arange(int(mine.sum()))
    return place


def _column(frame: Any, names: Sequence[str]) -> str | None:
    by_name = {str(column).lower(): str(column) for column in frame.columns}
    return next((by_name[name] for name in names if name in by_name), None)


def _strings(frame: Any, names: Sequence[str], rows: NDArray[np.intp]) -> NDArray[np.str_] | None:
    column = _column(frame, names)
    return None if column is None else frame[column].to_numpy().astype(str)[rows]


def _check_filled(frame: Any, names: Sequence[str], name: str) -> None:
    """Refuse rows without a value in a column that says what they belong to."""
    column = _column(frame, names)
    empty = 0 if column is None else int(frame[column].isna().sum())
    if empty:
        raise ValueError(
            f"{name}: {empty:,} of {len(frame):,} rows have no value in the column {column!r}; fill them in, "
            "or remove these rows or the column"
        )


def _listed(names: Any, most: int = 15) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f", … ({len(shown)} in all)" if len(shown) > most else "")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
