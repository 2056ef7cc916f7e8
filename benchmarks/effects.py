"""Worlds of several effects: how well few of them stand for all."""

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover.measurement.quantity import DIMENSIONS, Quantity, draw_together

#: Standard deviation of the logarithm of the integrand by each of four effects.
SLOPE, EFFECTS = 0.3, DIMENSIONS[:4]


def _scores(design, n, seed):
    """Standard draws of the effects, (world, effect)."""
    quantities = [Quantity(name, 0.0, 1.0, lowest=-np.inf) for name in EFFECTS]
    if design == "midpoints in random order":
        drawn = [each.draw(n, scene="s", seed=seed, method="quantile") for each in quantities]
    else:
        method = "mc" if design == "mc" else "quantile"
        drawn = draw_together(quantities, n, scene="s", seed=seed, method=method).values()
    return np.array([draws.values for draws in drawn]).T


def design_error(design, n, seeds):
    """Root mean square error of the mean of exp(0.3 Σz) + 0.1 z₁z₂ over the worlds."""
    exact, found = np.exp(0.5 * SLOPE**2 * len(EFFECTS)), []
    for seed in range(seeds):
        z = _scores(design, n, seed)
        found.append((np.exp(SLOPE * z.sum(1)) + 0.1 * z[:, 0] * z[:, 1]).mean())
    return float(np.sqrt(np.mean((np.array(found) - exact) ** 2)))


@benchmark("effects")
def run(quick=False):
    """Error of the designs of worlds."""
    seeds = 20 if quick else 300
    rows = []
    for n in (16, 25, 64, 100):
        errors = [design_error(d, n, seeds) for d in ("mc", "midpoints in random order", "quantile")]
        rows.append([f"{n}", *errors, errors[0] / errors[2], errors[1] / errors[2]])
    columns = {"worlds": "", "mc": ".4f", "midpoints in random order": ".4f", "quantile (Sobol)": ".4f"}
    columns |= {"mc / Sobol": ".1f", "random order / Sobol": ".1f"}
    caption = f"Error of the mean of a smooth function of four effects, {seeds} seeds"
    return [Table("designs", caption, columns, rows)]
