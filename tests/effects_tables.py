"""Digital effects tables for tests, with the attributes that obsarray 1.0 writes."""

import numpy as np
import xarray as xr

BANDS = ("B02", "B03", "B04")
R = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])
FILL = 9.969209968386869e36


def attributes(units, *entries):
    """Attributes of an uncertainty variable; entries are (dims, form) or (dims, form, params)."""
    out = {"_FillValue": FILL, "units": units}
    for i, (dims, form, *params) in enumerate(entries, start=1):
        out[f"err_corr_{i}_dim"] = dims
        out[f"err_corr_{i}_form"] = form
        out[f"err_corr_{i}_units"] = []
        out[f"err_corr_{i}_params"] = params
    out["pdf_shape"] = "gaussian"
    return out


RANDOM = attributes("1", ("band", "err_corr_matrix", "err_corr_band"), (["y", "x"], "random"))
SYSTEMATIC = attributes("%", (["band", "y", "x"], "systematic"))
STRIPES = attributes("1", ("band", "random"), ("y", "random"), ("x", "systematic"))


def make_table(rng, height=6, width=8, components=("u_noise", "u_gain"), grid=(300000.0, 5000000.0, 10.0)):
    """A table of three bands: noise, a gain in per cent, stripes."""
    left, top, step = grid
    dims, shape = ("band", "y", "x"), (3, height, width)
    made = {
        "u_noise": (dims, rng.uniform(0.001, 0.01, shape), RANDOM),
        "u_gain": (dims, rng.uniform(1, 3, shape), SYSTEMATIC),
        "u_stripes": (dims, rng.uniform(0.001, 0.002, shape), STRIPES),
    }
    observed = (dims, rng.uniform(0.02, 0.5, shape), {"units": "1", "unc_comps": list(components)})
    coords = {
        "band": list(BANDS),
        "y": top - step * (np.arange(height) + 0.5),
        "x": left + step * (np.arange(width) + 0.5),
        "spatial_ref": ((), 0, {"crs_wkt": "EPSG:32633"}),
    }
    variables = {
        "reflectance": observed,
        "err_corr_band": (("band1", "band2"), R),
        **{name: made[name] for name in components},
    }
    return xr.Dataset(variables, coords)
