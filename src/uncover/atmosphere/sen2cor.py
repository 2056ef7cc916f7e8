"""Sen2Cor, if it is installed: one run of ``L2A_Process`` per optical depth. Paths in, paths out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

import numpy as np

from uncover.atmosphere.grib import aod_fields, shift_aod

# AOT550 = exp(a + b·ln VIS) in Sen2Cor, for three altitudes in km; linear in between.
VISIBILITY_ALTITUDES = (0.0, 0.7, 2.5)
VISIBILITY_A = (1.54641, 1.40593, 0.92664)
VISIBILITY_B = (-0.854022, -0.844382, -0.805663)
VISIBILITY_RANGE = (5.0, 120.0)  # km, what Sen2Cor accepts


class Sen2CorError(RuntimeError):
    """Sen2Cor is missing, or a run of it failed."""


def visibility(aod: float, altitude: float = 0.0) -> float:
    """The visibility in km that stands for an optical depth at 550 nm in Sen2Cor, without its limits.

    >>> round(visibility(0.2), 1)
    40.3
    """
    a, b = _fit(altitude)
    return float(np.exp((np.log(aod) - a) / b)) if aod > 0 else np.inf


def optical_depth(visibility: float, altitude: float = 0.0) -> float:
    """The optical depth at 550 nm that a visibility in km stands for in Sen2Cor.

    >>> round(optical_depth(120.0), 3)
    0.079
    """
    a, b = _fit(altitude)
    return float(np.exp(a + b * np.log(visibility)))


def _fit(altitude: float) -> tuple[float, float]:
    return (
        float(np.interp(altitude, VISIBILITY_ALTITUDES, VISIBILITY_A)),
        float(np.interp(altitude, VISIBILITY_ALTITUDES, VISIBILITY_B)),
    )


@dataclass(frozen=True)
class Prepared:
    """One run that is ready to start: what to run on, with which further options, at which optical depth."""

    source: Path
    options: tuple[str, ...]
    reached: float  # the optical depth after clamping


class Mode(Protocol):
    """How an optical depth is forced on Sen2Cor."""

    def prepare(self, l1c: Path, aod: float, folder: Path) -> Prepared:
        """Write what the run needs into its folder."""
        ...

    def fingerprint(self) -> str:
        """What the results depend on besides the product and the optical depth."""
        ...


@dataclass(frozen=True)
class ConstantVisibility:
    """A constant visibility for the whole scene, written into a copy of the user's L2A_GIPP.xml.

    Sen2Cor takes 5 to 120 km only: optical depths below about 0.08 at sea level cannot be reached.

    >>> ConstantVisibility(Path("L2A_GIPP.xml")).altitude
    0.0
    """

    gipp: Path
    altitude: float = 0.0  # mean altitude of the scene in km

    def prepare(self, l1c: Path, aod: float, folder: Path) -> Prepared:
        """Write the parameter file."""
        lowest, highest = VISIBILITY_RANGE
        kilometres = min(max(visibility(aod, self.altitude), lowest), highest)
        copy = folder / "L2A_GIPP.xml"
        settings = {
            "Atmospheric_Correction/Flags/VIS_Update_Mode": "0",
            "Atmospheric_Correction/Calibration/Visibility": f"{kilometres:.4f}",
        }
        _write_parameters(self.gipp, copy, settings)
        return Prepared(l1c, ("--GIP_L2A", str(copy)), optical_depth(kilometres, self.altitude))

    def fingerprint(self) -> str:
        """The parameter file and the altitude."""
        return f"visibility {self.altitude:g} {_digest(self.gipp)}"


@dataclass(frozen=True)
class PerturbedCams:
    """The CAMS branch of Sen2Cor, with the optical depth of the CAMS file of the product shifted.

    No scene has dark vegetation everywhere, so requiring a share of 100 % makes Sen2Cor fall back on CAMS
    (AUX_CAMSFO, in products of baseline 04.00 and later). The field is shifted by draw minus ``estimate``.

    >>> PerturbedCams(Path("L2A_GIPP.xml"), Path("L2A_CAL_AC_GIPP.xml"), estimate=0.12).estimate
    0.12
    """

    gipp: Path
    ac_gipp: Path
    estimate: float

    def prepare(self, l1c: Path, aod: float, folder: Path) -> Prepared:
        """Write both parameter files, and a product with the shifted field (other files are linked)."""
        gipp, ac_gipp = folder / "L2A_GIPP.xml", folder / "L2A_CAL_AC_GIPP.xml"
        _write_parameters(self.gipp, gipp, {"Atmospheric_Correction/Flags/VIS_Update_Mode": "1"})
        _write_parameters(self.ac_gipp, ac_gipp, {"ACL_Prio_1/AC_Min_Ddv_Area": "1.0"})
        source = folder / "input" / l1c.name
        shift = _shift_product(l1c, source, aod - self.estimate)
        return Prepared(source, ("--GIP_L2A", str(gipp), "--GIP_L2A_AC", str(ac_gipp)), self.estimate + shift)

    def fingerprint(self) -> str:
        """The parameter files and the estimate."""
        return f"cams {self.estimate:g} {_digest(self.gipp)} {_digest(self.ac_gipp)}"


@dataclass(frozen=True)
class Realisations:
    """The products of the runs: paths, and the optical depths that they were made with.

    >>> Realisations((Path("a.SAFE"), Path("b.SAFE")), requested=(0.03, 0.2), reached=(0.079, 0.2)).clamped
    1
    """

    products: tuple[Path, ...]
    requested: tuple[float, ...]
    reached: tuple[float, ...]

    @property
    def clamped(self) -> int:
        """How many optical depths could not be reached."""
        return sum(abs(a - b) > 1e-3 for a, b in zip(self.requested, self.reached, strict=True))


@dataclass(frozen=True)
class Sen2Cor:
    """Runs of Sen2Cor, one folder each; a run that has finished is not run again.

    >>> Sen2Cor(ConstantVisibility(Path("L2A_GIPP.xml")), executable="no-such-L2A_Process").find()
    Traceback (most recent call last):
    ...
    uncover.atmosphere.sen2cor.Sen2CorError: Sen2Cor's no-such-L2A_Process was not found; install Sen2Cor ...
    """

    mode: Mode
    executable: str = "L2A_Process"
    resolution: int = 20
    processes: int = 1

    def find(self) -> str:
        """The executable, or an error that says what to do."""
        found = shutil.which(self.executable)
        if found is None:
            raise Sen2CorError(
                f"Sen2Cor's {self.executable} was not found; install Sen2Cor 2.8 or newer and put it on the "
                "PATH, or use the embedded look-up table"
            )
        return found

    def realise(self, l1c: Path, aods: Sequence[float], out: Path) -> Realisations:
        """Run Sen2Cor once per optical depth; the first failure stops everything that has not begun."""
        executable = self.find()
        _check_l1c(l1c)
        with ThreadPoolExecutor(self.processes) as pool:
            runs = [
                pool.submit(self._run, executable, l1c, float(aod), out / f"realisation-{r:03d}")
                for r, aod in enumerate(aods)
            ]
            finished, waiting = wait(runs, return_when=FIRST_EXCEPTION)
            for run in waiting:
                run.cancel()
            for run in finished:
                run.result()
            done = [run.result() for run in runs]
        result = Realisations(
            products=tuple(product for product, _ in done),
            requested=tuple(float(aod) for aod in aods),
            reached=tuple(reached for _, reached in done),
        )
        _warn_clamped(result)
        return result

    def _run(self, executable: str, l1c: Path, aod: float, folder: Path) -> tuple[Path, float]:
        key = {
            "product": l1c.name,
            "aod": aod,
            "resolution": self.resolution,
            "mode": self.mode.fingerprint(),
        }
        known = _finished(folder, key)
        if known is not None:
            return known
        for name in ("work", "output", "input"):  # what an interrupted run has left, and nothing else
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True)
        prepared = self.mode.prepare(l1c, aod, folder)
        command = [executable, str(prepared.source), "--work_dir", str(folder / "work")]
        command += ["--output_dir", str(folder / "output"), "--resolution", str(self.resolution)]
        product = _call(command + list(prepared.options), folder)
        record = {"key": key, "product": product.name, "reached": prepared.reached}
        partial = folder / "done.json.part"
        partial.write_text(json.dumps(record, indent=2, sort_keys=True))
        partial.rename(folder / "done.json")  # a run is finished or not: nothing in between
        return product, prepared.reached


def _call(command: list[str], folder: Path) -> Path:
    log = folder / "sen2cor.log"
    with log.open("w") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    products = sorted((folder / "output").glob("*/MTD_MSIL2A.xml"))
    if status != 0 or len(products) != 1:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-5:]
        raise Sen2CorError(
            f"Sen2Cor stopped in {folder.name} (exit code {status}, {len(products)} products): "
            f"{' | '.join(last) or 'it printed nothing'}. See {log}; run again to resume"
        )
    return products[0].parent


def _finished(folder: Path, key: dict[str, object]) -> tuple[Path, float] | None:
    record = folder / "done.json"
    if not record.exists():
        return None
    known = json.loads(record.read_text())
    if known["key"] != key:
        raise Sen2CorError(
            f"{folder} holds a run with other settings ({known['key']}, now {key}); "
            "choose another output folder, or remove it"
        )
    product = folder / "output" / known["product"]
    return (product, known["reached"]) if (product / "MTD_MSIL2A.xml").exists() else None


def _check_l1c(l1c: Path) -> None:
    if (l1c / "MTD_MSIL2A.xml").exists():
        raise ValueError(f"{l1c.name} is an L2A product; Sen2Cor corrects L1C products (MTD_MSIL1C.xml)")
    if not (l1c / "MTD_MSIL1C.xml").exists():
        raise ValueError(
            f"{l1c} is not an L1C SAFE folder: it has no MTD_MSIL1C.xml. Unzip the product first"
        )


def _warn_clamped(result: Realisations) -> None:
    if result.clamped:
        low, high = min(result.reached), max(result.reached)
        warnings.warn(
            f"{result.clamped} of {len(result.requested)} optical depths could not be reached by Sen2Cor and "
            f"were clamped to {low:.3f} - {high:.3f}",
            stacklevel=3,
        )


def _write_parameters(source: Path, target: Path, settings: dict[str, str]) -> None:
    """Copy a parameter file with some settings changed; comments stay."""
    if not source.exists():
        raise Sen2CorError(f"there is no parameter file {source}; it comes with Sen2Cor, in its cfg folder")
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(source, parser)
    for path, value in settings.items():
        element = tree.getroot().find(path)
        if element is None:
            raise Sen2CorError(f"{source} has no {path}; give the parameter file of Sen2Cor 2.8 or newer")
        element.text = value
    tree.write(target, encoding="UTF-8", xml_declaration=True)


def _shift_product(l1c: Path, target: Path, shift: float) -> float:
    """A linked copy of a product with its CAMS optical depth shifted; returns the shift that was possible."""
    cams = sorted(l1c.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO*"))
    if len(cams) != 1:
        raise Sen2CorError(
            f"{l1c.name} has {len(cams)} CAMS files (GRANULE/*/AUX_DATA/AUX_CAMSFO); the CAMS mode needs "
            "one, as in baseline 04.00 and later. Use the visibility mode"
        )
    content = cams[0].read_bytes()
    smallest = min((field.smallest for field in aod_fields(content)), default=0.0)
    possible = max(shift, -smallest)  # the least value of the field must not become negative
    shutil.copytree(l1c, target, copy_function=_link)
    changed = target / cams[0].relative_to(l1c)
    changed.unlink()
    changed.write_bytes(shift_aod(content, possible))
    return possible


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else "missing"
