"""Sample cubes: labelled pixels with all their realisations in Zarr format 2."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.raster.cube import (
    CHUNK_BYTES,
    check_chunks,
    create_array,
    open_arrays,
    open_store,
    put_array,
)
from uncover.raster.errors import SceneError, damaged
from uncover.raster.grid import Progress, Window
from uncover.raster.journal import fingerprint, unfinished, writing
from uncover.remote import is_address

_AXES = ["sample", "realisation", "band"]


@dataclass(frozen=True)
class SampleBlock:
    """Some samples: values (sample, realisation, band), and columns such as label or group."""

    values: NDArray[np.float32]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


def write_samples(
    path: str | Path,
    bands: Sequence[str],
    windows: Sequence[Window],
    produce: Callable[[Window], SampleBlock],
    *,
    inputs: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Samples:
    """Write a sample cube window by window; `produce` makes the samples of a window, possibly none.

    Windows, bands and `inputs` decide whether a stopped run can be resumed. Columns hold numbers.

    >>> import tempfile
    >>> block = SampleBlock(np.zeros((3, 2, 1), np.float32), {"label": np.array([1, 1, 2])})
    >>> path = tempfile.mkdtemp() + "/samples.zarr"
    >>> write_samples(path, ("B02",), [Window(0, 0, 1, 3)], lambda window: block).count
    3
    """
    facts = {
        "bands": list(bands),
        "windows": [astuple(window) for window in windows],
        "inputs": dict(inputs or {}),
    }
    with unfinished(path, fingerprint({**facts, "attributes": dict(attributes or {})}), resume) as (
        store,
        journal,
    ):
        count = max((note or 0 for note in journal.done.values()), default=0)
        for i, window in enumerate(windows):
            if str(i) not in journal.done:
                block = produce(window)
                with writing(path):
                    _append(store, block, count, bands, attributes or {})
                    count += len(block)
                    journal.add(str(i), note=count)
            if progress is not None:
                progress(i + 1, len(windows))
        if count == 0:
            journal.done.clear()  # nothing worth keeping
            raise SceneError(
                f"no sample came for {path}: no labelled pixel is usable; check labels and masks"
            )
        _finish(store, count)
    return open_samples(path)


def _append(
    store: Path, block: SampleBlock, at: int, bands: Sequence[str], attributes: Mapping[str, Any]
) -> None:
    if len(block) == 0:
        return
    if not np.isfinite(block.values).all() or block.values.shape[2] != len(bands):
        raise SceneError(
            f"samples of shape {block.values.shape} came; finite values of {len(bands)} bands are needed"
        )
    if at == 0:
        shutil.rmtree(store, ignore_errors=True)
        _create(store, block, bands, attributes)
    arrays = open_arrays(store, "reflectance", *block.columns)
    for name, values in {"reflectance": block.values, **block.columns}.items():
        array = arrays[name]
        # Rows beyond `at` are left from a run that was stopped in the middle: they are written over.
        array.resize((at + len(block), *array.shape[1:]))
        array[at:] = values


def _create(store: Path, block: SampleBlock, bands: Sequence[str], attributes: Mapping[str, Any]) -> None:
    import zarr

    group = zarr.open_group(str(store), mode="w", zarr_format=2)
    group.attrs.update({"Conventions": "CF-1.11", **attributes})
    wide = block.values.shape[1:]
    rows = max(CHUNK_BYTES // (4 * wide[0] * wide[1]), 1)
    create_array(
        group, "reflectance", (0, *wide), (rows, *wide), "float32", _AXES, fill=float("nan"), units="1"
    )
    for name, values in block.columns.items():
        create_array(group, name, (0,), (rows,), np.asarray(values).dtype, ["sample"])
    put_array(group, "band", np.array(bands, dtype=np.str_), ["band"], {})
    put_array(group, "realisation", np.arange(wide[0]), ["realisation"], {})


def _finish(store: Path, count: int) -> None:
    import zarr

    group = zarr.open_group(str(store), mode="r+", zarr_format=2)
    for _, array in group.arrays():
        if array.attrs["_ARRAY_DIMENSIONS"][:1] == ["sample"]:
            array.resize((count, *array.shape[1:]))
    zarr.consolidate_metadata(str(store), zarr_format=2)


@dataclass(frozen=True)
class Samples:
    """A finished sample cube, read by ranges of samples or, iterating, a chunk at a time."""

    path: Path | str  # or its address
    bands: tuple[str, ...]
    realisations: int
    count: int
    columns: tuple[str, ...]
    attributes: Mapping[str, Any]
    chunk: int

    def read(self, start: int = 0, stop: int | None = None) -> SampleBlock:
        """Samples from `start` to `stop`."""
        rows = slice(start, self.count if stop is None else min(stop, self.count))
        for i in range(start // self.chunk, -(-rows.stop // self.chunk)):
            check_chunks(self.path, f"reflectance/{i}.0.0", *(f"{name}/{i}" for name in self.columns))
        group = open_store(self.path)
        with damaged(str(self.path)):
            return SampleBlock(group["reflectance"][rows], {name: group[name][rows] for name in self.columns})

    def __iter__(self) -> Iterator[SampleBlock]:
        """All samples, a chunk at a time."""
        return (self.read(start, start + self.chunk) for start in range(0, self.count, self.chunk))


@reader
def open_samples(path: str | Path) -> Samples:
    """Open a sample cube that `write_samples` made."""
    group = open_store(path)
    if "reflectance" not in group or group["reflectance"].ndim != 3:
        raise SceneError(f"{path} has no reflectance over sample, realisation, band; it is not a sample cube")
    array: Any = group["reflectance"]
    columns = [n for n, a in group.arrays() if a.attrs["_ARRAY_DIMENSIONS"] == ["sample"]]
    return Samples(
        path=str(path) if is_address(path) else Path(path),
        bands=tuple(str(band) for band in group["band"][...]),
        realisations=int(array.shape[1]),
        count=int(array.shape[0]),
        columns=tuple(sorted(columns)),
        attributes={k: v for k, v in group.attrs.items() if k != "Conventions"},
        chunk=int(array.chunks[0]),
    )
