"""Radiometric uncertainty of Level 1C beside the public tool, and for typical scenes.

The tool is the wheel s2_rut_python. Unpack it anywhere and name the folder in S2_RUT; without it the
comparison is with the numbers of `tests/measurement/rut_components.csv`, which it has computed.
"""

import csv
import importlib.util
import json
import os
from pathlib import Path

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover.measurement.radiometry import BANDS, Radiometry

STORED = Path(__file__).parents[1] / "tests" / "measurement" / "rut_components.csv"
#: Switches of the tool, and the components here.
NAMES = {
    "noise": "noise",
    "stray_rand": "stray light of pixels",
    "gamma": "non-linearity",
    "stray_sys": "stray light of the scene",
    "ds": "dark signal",
    "diff_abs": "diffuser, absolute",
    "diff_cos": "diffuser, angle",
    "diff_sl": "diffuser, stray light",
    "diff_temp": "diffuser, ageing",
    "xtalk": "cross-talk",
    "adc": "conversion to counts",
    "ref_quant": "quantisation",
    "geoloc": "geolocation",
}
REFLECTANCES = (0.01, 0.05, 0.3, 0.8)
#: Typical reflectance at the top of the atmosphere in bands B01 to B09, B11 and B12, its gradient per pixel
#: as a share of it, sun zenith, and the mean uncertainty in OMPC.ACR.MEM.053 in per cent.
TYPICAL = {
    "desert": ((0.23, 0.24, 0.29, 0.39, 0.42, 0.44, 0.46, 0.47, 0.48, 0.25, 0.58, 0.51), 0.01, 55, 2),
    "vegetation": ((0.13, 0.11, 0.10, 0.08, 0.11, 0.20, 0.24, 0.25, 0.27, 0.11, 0.16, 0.09), 0.08, 68, 3),
    "snow": ((0.75, 0.75, 0.75, 0.75, 0.74, 0.72, 0.70, 0.68, 0.66, 0.30, 0.10, 0.08), 0.08, 55, 3),
    "water": ((0.14, 0.10, 0.065, 0.04, 0.035, 0.030, 0.027, 0.024, 0.021, 0.010, 0.009, 0.007), 0.02, 40, 4),
}


def of_scene(name):
    """Bands of a typical scene and their uncertainty in per cent: as the tool combines it; in quadrature."""
    values, slope, zenith, _ = TYPICAL[name]
    bands, value = tuple(band for band in BANDS if band != "B10"), np.array(values)
    radiometry = Radiometry.of("S2A", bands, zenith)
    stray = radiometry.components(value, mean=value)["stray light of the scene"]
    total = radiometry.total(value, slope * value, value)
    return bands, 100 * total / value, 100 * np.hypot(total - stray, stray) / value


def stored():
    """Rows (satellite, band, reflectance, component, uncertainty) that the tool has computed."""
    with STORED.open(encoding="utf-8") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        next(rows)
        return [(sat, band, float(rho), name, float(u)) for sat, band, rho, name, u in rows]


def by_the_tool(folder):
    """The same, computed by the tool that lies in a folder."""
    inside = Path(folder) / "s2_rut_python" / "third-party"
    spec = importlib.util.spec_from_file_location("S2RUT", inside / "Source" / "S2RUT.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models = json.loads((inside / "Data" / "noise_model_QCC_binned.json").read_text("utf-8"))
    return [
        row
        for satellite in ("S2A", "S2B", "S2C")
        for row in _rows(module, inside, satellite, models[satellite])
    ]


def _rows(module, inside, satellite, model):
    for band in BANDS:
        light = Radiometry.of(satellite, [band], 35.0)
        known = {"A": model["Gains"][band], "Esun": float(light.constants[1, 0])}
        known |= dict(zip(("alpha", "beta"), model["noise_model"][band], strict=True))
        facts = {name: {band: value} for name, value in known.items()}
        facts |= {"Usun": 1.0, "spacecraft": f"Sentinel-{satellite[1:]}", "quant": 10000, "refined": True}
        for rho in REFLECTANCES:
            slope = rho * (1 + 0.01 * np.arange(5.0))  # 1 % a column; the middle is read
            values = np.tile(slope - slope[2] + rho, (5, 1))
            for switch, name in NAMES.items():
                tool = module.S2RUT_L1(inside / "Data" / "unc_contributors.json")
                for each in [key for key in vars(tool) if key.startswith("unc_select")]:
                    setattr(tool, each, each == f"unc_select_{switch}")
                found, _ = tool.unc_calculation_abs(values.copy(), band, 0, facts, np.full((1, 5, 5), 35.0))
                # The tool takes steps of reflectance for counts, and converts them once more.
                found = found[2, 2] * (light.counts[0] if switch == "ref_quant" else 1.0)
                yield satellite, band, rho, name, float(found)


def largest_differences(rows):
    """Largest relative difference of each component from the tool's."""
    worst = dict.fromkeys(NAMES.values(), 0.0)
    for satellite, band, rho, name, u in rows:
        here = Radiometry.of(satellite, [band], 35.0)
        value, slope = np.array([rho]), np.array([0.01 * rho])
        found = here.components(value, slope, value)[name].item()
        worst[name] = max(worst[name], abs(found - u) / u if u else abs(found))
    return worst


@benchmark("radiometry")
def run(quick=False):
    """Components against the public tool, and mean uncertainties of typical scenes."""
    folder = os.environ.get("S2_RUT")
    worst = largest_differences(stored() if folder is None else by_the_tool(folder))
    said = "stored numbers of the tool" if folder is None else "the tool"
    rows = []
    for name, (*_, published) in TYPICAL.items():
        bands, per_cent, quadrature = of_scene(name)
        numbers = per_cent.min(), per_cent.mean(), per_cent.max(), quadrature.max()
        rows.append([name, *map(float, numbers), bands[per_cent.argmax()], f"< {published}"])
    columns = {"scene": "", "least": ".2f", "mean": ".2f", "most": ".2f", "most, in quadrature": ".2f"}
    columns |= {"in": "", "MEM.053": ""}
    return [
        Table(
            "components",
            f"Largest relative difference from {said}: 2A, 2B and 2C, 13 bands",
            {"component": "", "difference": ".1e"},
            [list(item) for item in worst.items()],
        ),
        Table("scenes", "Mean radiometric uncertainty of typical scenes, 12 bands, per cent", columns, rows),
    ]


def write_stored(folder):
    """Store what the tool in a folder computes."""
    with STORED.open("w", encoding="utf-8", newline="") as file:
        file.write(
            "# Computed by s2_rut_python 0.0.5: standard uncertainty of reflectance, sun zenith 35°,\n"
        )
        file.write("# gradient of 1 % of the reflectance per pixel, refined geometry.\n")
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("satellite", "band", "reflectance", "component", "uncertainty"))
        out.writerows((*row[:-1], f"{row[-1]:.6g}") for row in by_the_tool(folder) if row[2] == 0.05)
