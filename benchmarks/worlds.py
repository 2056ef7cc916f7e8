"""Number of worlds, and how often those of two scenes are crossed: how far the stated spread depends on it.

The case is one pair of scenes of benchmarks.areas; only the seed of the draws changes.
"""

import numpy as np

from benchmarks.areas import DRAWS, Scene, _ratio, counted, mapped, reported, rms
from benchmarks.registry import Table, benchmark
from uncover.bayes.streams import stream
from uncover.metrics import spread_over_worlds
from uncover.models import realisations

CROSSINGS = realisations._CROSSINGS


def pair_of(seed, purpose="few worlds"):
    """Training scene, another scene, and what is reported of their depths."""
    rng = stream(seed, "areas", purpose)
    training, scene = Scene.drawn("training", rng), Scene.drawn("other", rng)
    return training, scene, (reported(training, rng), reported(scene, rng))


def areas_of_seed(pair, seed, method, draws=DRAWS):
    """Areas in each world, which draws make each world, and the mapped area."""
    found, _, summariser = mapped(*pair, seed, method, draws)
    return counted(found.world_classes), summariser.world_pairs(draws), counted(found.best)


def chosen_crossings(n_worlds, crossings):
    """Mask of the worlds of 1, 2, 4 or 8 crossings among those of 8: all are shifts of one permutation."""
    turns = np.arange(n_worlds) // (n_worlds // CROSSINGS)
    return turns % (CROSSINGS // crossings) == 0


def crossed(areas, pairs, crossings):
    """Spread and its stated error from the worlds of some of the crossings."""
    kept = chosen_crossings(len(pairs), crossings)
    return spread_over_worlds(areas[kept], pairs[kept])


def few_worlds(found):
    """Dependence of the stated spread on the seed, and what is stated of it."""
    rows = []
    for name, (method, draws), crossings in [
        ("random, one permutation", ("mc", DRAWS), 1),
        ("random, eight permutations", ("mc", DRAWS), CROSSINGS),
        ("quantiles, one permutation", ("quantile", DRAWS), 1),
        ("quantiles, eight permutations", ("quantile", DRAWS), CROSSINGS),
        ("quantiles, eight permutations of 100", ("quantile", 100), CROSSINGS),
    ]:
        of_seeds = found[method, draws]
        sd, error = map(np.array, zip(*(crossed(a, p, crossings) for a, p, _ in of_seeds), strict=True))
        area, k = np.array([mapped_area for *_, mapped_area in of_seeds]), int(sd.mean(axis=0).argmax())
        rows.append(
            [
                name, len(sd), 100 * sd[:, k].mean(), 100 * sd[:, k].min(), 100 * sd[:, k].max(),
                100 * sd[:, k].std(ddof=1), 100 * rms(error[:, k]), 100 * np.ptp(area[:, k]),
            ]
        )  # fmt: skip
    columns = {
        "worlds": "", "seeds": "d", "sd, %": ".2f", "lowest": ".2f", "highest": ".2f", "over seeds ±": ".2f",
        "Monte Carlo error stated": ".2f", "range of the mapped area": ".2f",
    }  # fmt: skip
    caption = "The spread of one class of one other scene, in % of it, over seeds of the draws."
    return Table("few worlds", caption, columns, rows)


def few_crossings(found):
    """Relative error of the spread by number of crossings."""
    rows = []
    for crossings in (8, 4, 2, 1):
        row = [crossings]
        for method in ("quantile", "mc"):
            sd = np.array([crossed(a, p, crossings)[0] for a, p, _ in found[method, DRAWS]])
            k = int(sd.mean(axis=0).argmax())
            relative = 100 * sd[:, k].std(ddof=1) / sd[:, k].mean()
            row += [relative, relative / np.sqrt(2 * (len(sd) - 1))]
        rows.append(row)
    columns = {"crossings": "d", "quantiles, %": ".1f", "±": ".1f", "random draws, %": ".1f", "± ": ".1f"}
    caption = (
        f"Relative error of the spread over {len(sd)} seeds, 25 worlds; its ± as of the standard "
        "deviation of Gaussian values."
    )
    return Table("crossings", caption, columns, rows)


def errors_of_spreads(pairs, seeds):
    """Stated Monte Carlo error of the spread over the one that seeds of the draws show."""
    rows = []
    for name, method in (("random", "mc"), ("quantiles", "quantile")):
        stated, own = [], []
        for number in range(pairs):
            pair = pair_of(number, "errors of spreads")
            found = [crossed(*areas_of_seed(pair, seed, method)[:2], CROSSINGS) for seed in range(seeds)]
            sd, error = np.swapaxes(found, 0, 1)
            own.append(sd.std(axis=0, ddof=1))
            stated.append(np.sqrt((error**2).mean(axis=0)))
        ratio, doubt = _ratio(np.array(stated), np.array(own))
        rows.append([name, 100 * rms(own), 100 * rms(stated), ratio, doubt])
    columns = {
        "draws": "", "over seeds, %": ".3f", "stated, %": ".3f", "stated / over seeds": ".2f", "±": ".2f",
    }  # fmt: skip
    caption = (
        f"Monte Carlo error of the spread of areas, % of the scene, root mean square over {pairs} pairs of "
        f"scenes and 3 classes: over {seeds} seeds of {DRAWS} draws, and as stated by the jackknife."
    )
    return Table("errors of spreads", caption, columns, rows)


@benchmark("worlds")
def worlds(quick):
    """Return the tables of the number of worlds and of their crossings."""
    pair = pair_of(1)
    seeds = {("quantile", DRAWS): 40, ("mc", DRAWS): 40, ("quantile", 100): 20}
    found = {
        how: [areas_of_seed(pair, seed, *how) for seed in range(3 if quick else number)]
        for how, number in seeds.items()
    }
    pairs, repeats = (2, 2) if quick else (6, 8)
    return [few_worlds(found), few_crossings(found), errors_of_spreads(pairs, repeats)]
