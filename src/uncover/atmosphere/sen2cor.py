"""Sen2Cor, if it is installed: one run of ``L2A_Process`` per optical depth. Paths in, paths out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict
from xml.etree import ElementTree

import numpy as np

from uncover.atmosphere.grib import aod_fields, shift_aod
from uncover.files import alone, read_json, reader, shortened, write_whole
from uncover.warn import warn

# AOT550 = exp(a + b·ln VIS) in Sen2Cor, for three altitudes in km; linear in between.
VISIBILITY_ALTITUDES = (0.0, 0.7, 2.5)
VISIBILITY_A = (1.54641, 1.40593, 0.92664)
VISIBILITY_B = (-0.854022, -0.844382, -0.805663)
VISIBILITY_RANGE = (5.0, 120.0)  # km, what Sen2Cor accepts

#: Versions whose command line and parameter files are known here.
VERSIONS = ("2.10", "2.11", "2.12")
#: Images without which a run has not done its work, by resolution in metres.
_IMAGES = {
    10: ("R10m/*_B02_10m.jp2", "R10m/*_B08_10m.jp2", "R20m/*_B12_20m.jp2", "R20m/*_SCL_20m.jp2"),
    20: ("R20m/*_B02_20m.jp2", "R20m/*_B12_20m.jp2", "R20m/*_SCL_20m.jp2"),
    60: ("R60m/*_B02_60m.jp2", "R60m/*_B12_60m.jp2", "R60m/*_SCL_60m.jp2"),
}

#: Called after each run with how many are done and how many there are.
Progress = Callable[[int, int], None]


class Sen2CorError(ValueError, RuntimeError):
    """Sen2Cor is missing, or a run of it failed."""


def visibility(aod: float, altitude: float = 0.0) -> float:
    """The visibility in km that stands for an optical depth at 550 nm in Sen2Cor, without its limits."""
    a, b = _fit(altitude)
    return float(np.exp((np.log(aod) - a) / b)) if aod > 0 else np.inf


def optical_depth(visibility: float, altitude: float = 0.0) -> float:
    """The optical depth at 550 nm that a visibility in km stands for in Sen2Cor."""
    a, b = _fit(altitude)
    return float(np.exp(a + b * np.log(visibility)))


def _fit(altitude: float) -> tuple[float, float]:
    return (
        float(np.interp(altitude, VISIBILITY_ALTITUDES, VISIBILITY_A)),
        float(np.interp(altitude, VISIBILITY_ALTITUDES, VISIBILITY_B)),
    )


@dataclass(frozen=True)
class Installation:
    """Sen2Cor as it was found: the program, its version, and the parameter files that it comes with."""

    executable: Path
    version: str
    gipp: Path
    ac_gipp: Path

    @classmethod
    def find(cls, path: str | Path | None = None) -> Installation:
        """Sen2Cor on the PATH, or in the folder (or the L2A_Process) that is given."""
        executable = _executable(path)
        version = sen2cor_version(executable)
        root, short = executable.resolve().parent.parent, ".".join(version.split(".")[:2])
        own = sorted(root.glob("lib/python*/site-packages/sen2cor*/cfg"))
        own += [Path(os.environ["SEN2COR_BIN"]) / "cfg"] if "SEN2COR_BIN" in os.environ else []
        home = Path(os.environ.get("SEN2COR_HOME", Path.home() / "sen2cor" / short)) / "cfg"
        return cls(
            executable,
            version,
            _parameter_file("L2A_GIPP.xml", [home, *own]),
            _parameter_file("L2A_CAL_AC_GIPP.xml", own),
        )


def _executable(path: str | Path | None) -> Path:
    if path is None:
        candidates, where = ["L2A_Process"], "on the PATH"
    else:
        candidates, where = [str(path), str(Path(path) / "bin" / "L2A_Process")], f"in {path}"
    found = next((there for name in candidates if (there := shutil.which(name)) is not None), None)
    if found is None:
        raise Sen2CorError(
            f"Sen2Cor was not found {where}; install Sen2Cor {' or '.join(VERSIONS)} and say where with "
            "--sen2cor, or use the embedded look-up table (--correction table)"
        )
    return Path(found)


def _parameter_file(name: str, folders: Sequence[Path]) -> Path:
    found = next((folder / name for folder in folders if (folder / name).exists()), None)
    if found is None:
        looked = ", ".join(str(folder) for folder in folders) or "no folder"
        raise Sen2CorError(
            f"Sen2Cor's {name} was not found in {looked}; run L2A_Process once, which writes its parameter "
            "files, or set SEN2COR_HOME and SEN2COR_BIN"
        )
    return found


def sen2cor_version(executable: str | Path) -> str:
    """The version that L2A_Process states in its help; an error if it is not one that is known."""
    try:
        said = subprocess.run([str(executable), "--help"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise Sen2CorError(f"{executable} cannot be run ({error.strerror}); install Sen2Cor anew") from error
    found = re.search(r"Version:\s*(\d+\.\d+(?:\.\d+)?)", said)
    if found is None:
        raise Sen2CorError(f"{executable} states no version of Sen2Cor in its --help; is it L2A_Process?")
    version = ".".join(str(int(part)) for part in found.group(1).split("."))  # 02.11.00 is 2.11.0
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        raise Sen2CorError(
            f"{executable} is Sen2Cor {version}; the command line and parameter files of "
            f"{', '.join(VERSIONS)} are known: install one of these"
        )
    return version


@dataclass(frozen=True)
class NewFile:
    """A file (or folder) that a run needs: where, what is in it in words, and how it is written."""

    path: Path
    content: str
    write: Callable[[], object]


@dataclass(frozen=True)
class Prepared:
    """One run that is ready to start: what to run on, with which further options, at which optical depth."""

    source: Path
    options: tuple[str, ...]
    reached: float  # the optical depth after clamping
    files: tuple[NewFile, ...]


@dataclass(frozen=True)
class ConstantVisibility:
    """A constant visibility for the whole scene, written into a copy of the user's L2A_GIPP.xml.

    Sen2Cor takes 5 to 120 km only: optical depths below about 0.08 at sea level cannot be reached.
    """

    gipp: Path
    altitude: float = 0.0  # mean altitude of the scene in km

    def prepare(self, l1c: Path, aod: float, folder: Path) -> Prepared:
        """The parameter file."""
        lowest, highest = VISIBILITY_RANGE
        kilometres = min(max(visibility(aod, self.altitude), lowest), highest)
        settings = {
            "Atmospheric_Correction/Flags/VIS_Update_Mode": "0",
            "Atmospheric_Correction/Calibration/Visibility": f"{kilometres:.4f}",
        }
        copy = _changed_parameters(self.gipp, folder / "L2A_GIPP.xml", settings)
        return Prepared(l1c, ("--GIP_L2A", str(copy.path)), optical_depth(kilometres, self.altitude), (copy,))

    def check(self, product: Path) -> None:
        """Nothing in the product says which visibility was taken."""

    def fingerprint(self) -> str:
        """The parameter file and the altitude."""
        return f"visibility {self.altitude:g} {_digest(self.gipp)}"


@dataclass(frozen=True)
class PerturbedCams:
    """The CAMS branch of Sen2Cor, with the optical depth of the CAMS file of the product shifted.

    No scene has dark vegetation everywhere, so requiring a share of 100 % makes Sen2Cor fall back on CAMS
    (AUX_CAMSFO, in products of baseline 04.00 and later). The field is shifted by draw minus ``estimate``.

    Without ``installed`` runs can be planned and not started: the parameter files need not exist.
    """

    gipp: Path
    ac_gipp: Path
    estimate: float
    installed: bool = True

    def prepare(self, l1c: Path, aod: float, folder: Path) -> Prepared:
        """Both parameter files, and a product with the shifted field (other files are linked)."""
        flags = {"Atmospheric_Correction/Flags/VIS_Update_Mode": "1"}
        share = {"ACL_Prio_1/AC_Min_Ddv_Area": "100.0"}  # per cent; Sen2Cor's own default is 2.0
        changed = _changed_parameters if self.installed else _named_parameters
        gipp = changed(self.gipp, folder / "L2A_GIPP.xml", flags)
        ac_gipp = changed(self.ac_gipp, folder / "L2A_CAL_AC_GIPP.xml", share)
        product, shift = _shifted_product(l1c, folder / "input", aod - self.estimate)
        options = ("--GIP_L2A", str(gipp.path), "--GIP_L2A_AC", str(ac_gipp.path))
        return Prepared(product.path, options, self.estimate + shift, (gipp, ac_gipp, product))

    def check(self, product: Path) -> None:
        """The metadata say where the optical depth came from."""
        text = (product / "MTD_MSIL2A.xml").read_text(errors="replace")
        method = re.search(r"<AOT_RETRIEVAL_METHOD>\s*(\w+)\s*<", text)
        if method is not None and method.group(1) != "CAMS":
            raise Sen2CorError(
                f"Sen2Cor took the optical depth of {method.group(1)} in {product.parent.parent.name}, not "
                "the shifted one of CAMS; look into its sen2cor.log for why it left AUX_CAMSFO aside"
            )

    def fingerprint(self) -> str:
        """The parameter files and the estimate."""
        return f"cams {self.estimate:g} {_digest(self.gipp)} {_digest(self.ac_gipp)}"


@dataclass(frozen=True)
class Realisations:
    """The products of the runs: paths, and the optical depths that they were made with."""

    products: tuple[Path, ...]
    requested: tuple[float, ...]
    reached: tuple[float, ...]

    @property
    def clamped(self) -> int:
        """Number of optical depths that could not be reached."""
        return sum(abs(a - b) > 1e-3 for a, b in zip(self.requested, self.reached, strict=True))


@dataclass(frozen=True)
class Sen2Cor:
    """Runs of Sen2Cor, one folder each; a run that has finished is not run again."""

    mode: ConstantVisibility | PerturbedCams
    executable: str | Path = "L2A_Process"
    resolution: int = 10
    processes: int = 1

    def find(self) -> str:
        """The executable, or an error that says what to do."""
        return str(_executable(self.executable))

    def plan(self, l1c: Path, aods: Sequence[float], out: Path, *, installed: bool = True) -> list[str]:
        """Every file that the runs would write, and every command; nothing is written."""
        lines, executable = [], self.find() if installed else str(self.executable)
        for r, aod in enumerate(aods):
            folder = _folder(out, r)
            prepared = self.mode.prepare(l1c, float(aod), folder)
            lines.append(f"# world {r}: aerosol optical depth {aod:.4f}, in Sen2Cor {prepared.reached:.4f}")
            lines += [f"#   writes {file.path}: {file.content}" for file in prepared.files]
            lines += [f"#   writes {folder / name}" for name in ("sen2cor.log", "output/", "done.json")]
            lines.append(shlex.join(self._command(executable, prepared, folder)))
        return lines

    def realise(
        self, l1c: Path, aods: Sequence[float], out: Path, progress: Progress | None = None
    ) -> Realisations:
        """Run Sen2Cor once per optical depth; the first failure stops everything that has not begun."""
        executable = self.find()
        version = sen2cor_version(executable)
        _check_l1c(l1c)
        waiting, running = list(enumerate(aods)), dict[Future[tuple[Path, float]], int]()
        results: dict[int, tuple[Path, float]] = {}
        with ThreadPoolExecutor(self.processes) as pool:  # on its way out it waits for what has begun
            while waiting or running:
                while waiting and len(running) < self.processes:
                    r, aod = waiting.pop(0)
                    running[pool.submit(self._run, executable, version, l1c, float(aod), _folder(out, r))] = r
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    results[running.pop(ended)] = ended.result()
                if progress is not None:
                    progress(len(results), len(aods))
        result = Realisations(
            products=tuple(results[r][0] for r in range(len(aods))),
            requested=tuple(float(aod) for aod in aods),
            reached=tuple(results[r][1] for r in range(len(aods))),
        )
        _warn_clamped(result)
        return result

    def _command(self, executable: str, prepared: Prepared, folder: Path) -> list[str]:
        command = [executable, str(prepared.source), "--work_dir", str(folder / "work")]
        command += ["--output_dir", str(folder / "output"), "--resolution", str(self.resolution)]
        return [*command, *prepared.options]

    def _run(self, executable: str, version: str, l1c: Path, aod: float, folder: Path) -> tuple[Path, float]:
        key = {
            "product": l1c.name,
            "aod": aod,
            "resolution": self.resolution,
            "mode": self.mode.fingerprint(),
            "sen2cor": version,
        }
        known = _finished(folder, key)
        if known is not None:
            return known

        def busy(who: str) -> Sen2CorError:
            return Sen2CorError(f"Sen2Cor still runs in {folder} ({who}); wait for it, or end that process")

        with _writing(folder), alone(folder, busy) as lock:
            for name in ("work", "output", "input"):  # what an interrupted run has left, and nothing else
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).mkdir(parents=True)
            prepared = self.mode.prepare(l1c, aod, folder)
            for file in prepared.files:
                file.write()
            product = _call(self._command(executable, prepared, folder), folder, self.resolution, lock)
            self.mode.check(product)
            record = {"key": key, "product": product.name, "reached": prepared.reached}
            write_whole(folder / "done.json", json.dumps(record, indent=2, sort_keys=True))
            for name in ("work", "input"):
                shutil.rmtree(folder / name, ignore_errors=True)
        return product, prepared.reached


def _folder(out: Path, r: int) -> Path:
    return out.absolute() / f"realisation-{r:03d}"


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what the file system refuses into one line."""
    try:
        yield
    except OSError as error:
        raise Sen2CorError(
            f"{folder} cannot be written ({error.strerror or error}); make room and go on with --resume: "
            "finished worlds are kept"
        ) from error


def _call(command: list[str], folder: Path, resolution: int, lock: int) -> Path:
    log = folder / "sen2cor.log"
    with log.open("w") as file:
        status = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, check=False, pass_fds=(lock,)
        ).returncode
    products = sorted((folder / "output").glob("*/MTD_MSIL2A.xml"))
    images = [
        pattern
        for pattern in _IMAGES[resolution]
        if not any((folder / "output").glob(f"*/GRANULE/*/IMG_DATA/{pattern}"))
    ]
    if status != 0 or len(products) != 1 or images:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-5:]
        made = f"no {images[0]}" if len(products) == 1 and images else f"{len(products)} products"
        raise Sen2CorError(
            f"Sen2Cor stopped in {folder.name} (exit code {status}, {made}): "
            f"{' | '.join(last) or 'it printed nothing'}. See {log}; go on with --resume: finished worlds "
            "are kept"
        )
    return products[0].parent


class _Done(TypedDict):
    key: dict[str, object]
    product: str
    reached: float


def _finished(folder: Path, key: dict[str, object]) -> tuple[Path, float] | None:
    record = folder / "done.json"
    if not record.exists():
        return None
    known = read_json(record, _Done)
    if known["key"] != key:
        raise Sen2CorError(
            f"{folder} holds a run with other settings ({shortened(str(known['key']))}, now {key}); "
            "choose another output folder, or remove it"
        )
    product = folder / "output" / Path(known["product"]).name
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
        warn(
            f"{result.clamped} of {len(result.requested)} optical depths could not be reached by Sen2Cor and "
            f"were clamped to {low:.3f} - {high:.3f}",
        )


@reader
def _changed_parameters(source: Path, target: Path, settings: dict[str, str]) -> NewFile:
    """A copy of a parameter file with some settings changed; comments stay."""
    if not source.exists():
        raise Sen2CorError(f"there is no parameter file {source}; it comes with Sen2Cor, in its cfg folder")
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(source, parser)
    for path, value in settings.items():
        element = tree.getroot().find(path)
        if element is None:
            raise Sen2CorError(
                f"{source} has no {path}; give the parameter file of Sen2Cor {', '.join(VERSIONS)}"
            )
        element.text = value
    write = partial(tree.write, target, encoding="UTF-8", xml_declaration=True)
    return NewFile(target, _said(source, settings), write)


def _named_parameters(source: Path, target: Path, settings: dict[str, str]) -> NewFile:
    """The same where Sen2Cor is not installed: what the file would be, without the file."""

    def refuse() -> None:
        raise Sen2CorError(f"there is no {source}; it comes with Sen2Cor, which is not installed")

    return NewFile(target, _said(source, settings), refuse)


def _said(source: Path, settings: dict[str, str]) -> str:
    changes = ", ".join(f"{path.rsplit('/', 1)[-1]} {value}" for path, value in settings.items())
    return f"{source} with {changes}"


def _shifted_product(l1c: Path, folder: Path, shift: float) -> tuple[NewFile, float]:
    """A linked copy of a product with its CAMS optical depth shifted, and the shift that is possible.

    The copy has the product's own name, without which Sen2Cor does not take it, whatever its folder is.
    """
    own = re.search(r"<PRODUCT_URI>\s*([\w.]+)\s*<", (l1c / "MTD_MSIL1C.xml").read_text(errors="replace"))
    target = folder / (l1c.name if own is None else own.group(1))
    cams = sorted(l1c.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO*"))
    if len(cams) != 1:
        raise Sen2CorError(
            f"{l1c.name} has {len(cams)} CAMS files (GRANULE/*/AUX_DATA/AUX_CAMSFO); Sen2Cor needs one, as "
            "in baseline 04.00 and later: fetch the product in a later baseline, or use --correction table"
        )
    content = cams[0].read_bytes()
    smallest = min((field.smallest for field in aod_fields(content)), default=0.0)
    possible = max(shift, -smallest)  # the least value of the field must not become negative
    shifted = shift_aod(content, possible)

    def write() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(l1c, target, copy_function=_link)
        changed = target / cams[0].relative_to(l1c)
        changed.unlink()
        changed.write_bytes(shifted)

    said = f"links to {l1c}, with the optical depth in AUX_CAMSFO shifted by {possible:+.4f}"
    return NewFile(target, said, write), possible


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else "missing"
