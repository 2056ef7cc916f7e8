"""Areas over worlds: does the stated spread of a mapped area fit what the shared error does to it?

Three classes of known Gaussians and shares, in a training scene and in another one. Each scene has one error
of its optical depth, which moves and stretches all values; the model and the map know draws of it only.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA
from uncover.bayes.streams import stream
from uncover.estimators.realisations import View
from uncover.estimators.summary import Summariser
from uncover.measurement import Quantity
from uncover.metrics import spread_over_worlds

SEEDS, REPEATS, PIXELS, LABELS, DRAWS = 20, 100, 4000, 450, 25
SHARES = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.04, 0.06, 0.05, 0.30], [0.07, 0.10, 0.11, 0.26], [0.06, 0.08, 0.07, 0.36]])
SPREAD = np.array([0.016, 0.018, 0.022, 0.04])
PATH, LOSS = np.array([0.45, 0.33, 0.22, 0.09]), np.array([0.35, 0.25, 0.18, 0.08])
ALBEDO = np.array([0.9, 0.7, 0.5, 0.25])  # of the atmosphere, for an optical depth of 1
DEPTH, UNCERTAINTY = 0.12, 0.05


@dataclass(frozen=True)
class Scene:
    """Surface reflectance of pixels with their classes, and the optical depth above them."""

    surface: np.ndarray  # (pixel, band)
    classes: np.ndarray  # (pixel,)
    depth: float
    name: str

    @classmethod
    def drawn(cls, name, rng):
        """Draw pixels of the classes by their shares, and the depth."""
        classes = rng.choice(3, size=PIXELS, p=SHARES)
        surface = MEANS[classes] + SPREAD * rng.standard_normal((PIXELS, 4))
        return cls(surface, classes, abs(DEPTH + UNCERTAINTY * rng.standard_normal()), name)

    @property
    def labelled(self):
        """The pixels that have a label."""
        return replace(self, surface=self.surface[:LABELS], classes=self.classes[:LABELS])

    def worlds(self, reported, seed, method, draws=DRAWS):
        """Realisations at depths drawn around a reported one: (pixel, realisation, band)."""
        bright = self.surface / (1 - ALBEDO * self.depth * self.surface)
        measured = PATH * self.depth + (1 - LOSS * self.depth) * bright
        quantity = Quantity("aod", max(reported, 0.0), UNCERTAINTY)
        depths = quantity.draw(draws, scene=self.name, seed=seed, method=method).values[:, None]
        y = (measured[:, None] - PATH * depths) / (1 - LOSS * depths)
        return y / (1 + ALBEDO * depths * y)


def reported(scene, rng):
    """What a retrieval reports of a scene's depth."""
    return scene.depth + UNCERTAINTY * rng.standard_normal()


def fitted(training, scene, depths, seed, method="quantile", draws=DRAWS):
    """A model of the training scene, and the realisations of a scene's pixels."""
    labelled = training.labelled
    X = labelled.worlds(depths[0], seed, method, draws)
    model = BayesianQDA(realisations="shared", random_state=seed).fit(X, labelled.classes)
    depth = depths[0] if scene is training else depths[1]
    return model, scene.worlds(depth, seed, method, draws)


def mapped(training, scene, *how):
    """The summary of a scene's pixels, their realisations, and what reads them."""
    model, values = fitted(training, scene, *how)
    summariser = Summariser(model, paired=scene is training, method="fast")
    return summariser.summarise(np.ascontiguousarray(values.transpose(1, 2, 0))), values, summariser


def counted(classes):
    """Share of pixels of each class: (..., class)."""
    return np.stack([(classes == k).mean(axis=-1) for k in range(3)], axis=-1)


def unbroadened(values, summariser):
    """Classes in worlds read without the noise of the two scenes, one world of the model each, as it was."""
    reader = summariser.reader
    used, worlds = np.ones(4, bool), stream(reader.pairing.seed, "pairing").permutation(DRAWS)
    sights = [reader.sight(View(values[:, r], int(worlds[r])), used) for r in range(DRAWS)]
    return np.stack([sight.log_odds().argmax(axis=1) for sight in sights])


def one_case(seed, same, repeats):
    """Numbers of one pair of scenes: (class,) each."""
    rng = stream(seed, "areas", same)
    training = Scene.drawn("training", rng)
    scene = training if same else Scene.drawn("other", rng)
    depths = reported(training, rng), reported(scene, rng)
    found, values, summariser = mapped(training, scene, depths, seed)
    area, moved = counted(found.best), counted(found.world_classes)
    pairs = summariser.world_pairs(DRAWS)
    old = moved if same else counted(unbroadened(values, summariser))
    again = []
    for _ in range(repeats):
        depths = reported(training, rng), reported(scene, rng)
        model, moved_values = fitted(training, scene, depths, seed)
        again.append(counted(model.predict(moved_values, paired=same, method="fast")))
    own = np.std(again, axis=0, ddof=1)
    sd, error = spread_over_worlds(moved, pairs)
    inside = (old.min(0) <= area) & (area <= old.max(0)), (moved.min(0) <= area) & (area <= moved.max(0))
    return {
        "own": own,
        "old": old.std(axis=0, ddof=1),
        "new": sd,
        "error": error,
        "inside_old": inside[0],
        "inside_new": inside[1],
        "truth": counted(scene.classes),
        "counted": area,
        "expected": found.probability.mean(axis=1),
    }


def rms(values):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def _ratio(stated, own):
    """Ratio of root mean squares over (seed, class), and its standard error by the jackknife over seeds."""
    left = [rms(np.delete(stated, i, 0)) / rms(np.delete(own, i, 0)) for i in range(len(own))]
    return rms(stated) / rms(own), float(np.sqrt((len(own) - 1) * np.var(left)))


def spreads(cases):
    """Stated and actual standard deviations of mapped areas, for another scene and for the training scene."""
    rows = []
    for name, found in cases.items():
        each = {key: np.array([case[key] for case in found]) for key in found[0]}
        ratio, doubt = _ratio(each["new"], each["own"])
        wrong = each["counted"] - each["truth"]
        rows.append(
            [
                name, 100 * rms(each["own"]), 100 * rms(each["old"]), 100 * rms(each["new"]),
                ratio, doubt,
                100 * rms(each["error"]), 100 * each["inside_old"].mean(), 100 * each["inside_new"].mean(),
                100 * rms(wrong), 100 * np.mean(np.abs(wrong) <= 2 * each["new"]),
            ]
        )  # fmt: skip
    columns = {
        "scene": "", "own sd, %": ".2f", "stated before, %": ".2f", "stated now, %": ".2f",
        "now / own": ".2f", "±": ".2f", "Monte Carlo error, %": ".2f",
        "in range before, %": ".0f", "in range now, %": ".0f",
        "rms error against the truth, %": ".2f", "truth within 2 sd, %": ".0f",
    }  # fmt: skip
    caption = (
        f"Standard deviations of areas (in % of the scene, root mean square over {len(found)} seeds and 3 "
        "classes). Own: of the mapped area over repeated retrievals of both depths; stated: over worlds, "
        "before by unbroadened models and one permutation; in range: mapped areas within those of the "
        "worlds. The last two columns say what is not in the number."
    )
    return Table("spread of areas", caption, columns, rows)


def shares(cases):
    """Counted and expected shares against the truth."""
    rows = []
    for name, found in cases.items():
        each = {key: np.array([case[key] for case in found]) for key in ("truth", "counted", "expected")}
        for k in range(3):
            means = (float(value[:, k].mean()) for value in each.values())
            errors = (rms((each[key] - each["truth"])[:, k]) for key in ("counted", "expected"))
            rows.append([f"{name}, class {k + 1}", *means, *errors])
    columns = {"": "", "truth": ".3f", "counted": ".3f", "expected": ".3f"}
    columns |= {"rms error, counted": ".3f", "rms error, expected": ".3f"}
    caption = f"Shares of classes, means over {len(found)} seeds: counted, and by probabilities added up."
    return Table("shares", caption, columns, rows)


@benchmark("areas")
def areas(quick):
    """Return the tables of areas over worlds."""
    seeds, repeats = (3, 10) if quick else (SEEDS, REPEATS)
    cases = {
        name: [one_case(seed, same, repeats) for seed in range(seeds)]
        for name, same in (("another scene", False), ("training scene", True))
    }
    return [spreads(cases), shares(cases)]
