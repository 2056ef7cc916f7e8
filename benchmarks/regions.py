"""Regions: the stated standard uncertainty of their areas against 200 repeated measurements of the scene.

Scenes are those of `python -m benchmarks areas`, cut into parcels of 100 pixels of mostly one class. A
repeated measurement is another retrieval of the optical depth of this scene and of the training scene.
"""

import numpy as np

from benchmarks.areas import DRAWS, PIXELS, Scene, fitted, reported
from benchmarks.registry import Table, benchmark
from uncover.bayes.streams import stream
from uncover.measurement.common_errors import CommonErrors
from uncover.measurement.summary import Planes

SEEDS, REPEATS, PARCEL, STRANGERS = 3, 200, 100, 0.2


@benchmark("regions")
def run(quick):
    """Table of stated and actual standard deviations of the areas of parcels."""
    seeds, repeats = (1, 10) if quick else (SEEDS, REPEATS)
    rows = []
    for name, same in (("another scene", False), ("training scene", True)):
        own, stated, naive, model, overlap = (np.array(part) for part in zip(
            *(_case(seed, same, repeats) for seed in range(seeds)), strict=True))  # fmt: skip
        left = (
            [_rms(np.delete(stated, i, 0)) / _rms(np.delete(own, i, 0)) for i in range(seeds)]
            if seeds > 1
            else []
        )
        error = float(np.sqrt((seeds - 1) * np.var(left))) if left else float("nan")
        numbers = (100 * _rms(part) for part in (own, stated))
        rows.append(
            [name, *numbers, _rms(stated) / _rms(own), error, 100 * _rms(naive), _rms(naive) / _rms(own),
             100 * _rms(model), 100 * _rms(overlap)]
        )  # fmt: skip
    columns = {
        "scene": "", "own sd, %": ".3f", "stated, %": ".3f", "stated / own": ".2f", "±": ".2f",
        "pixels as independent, %": ".3f", "independent / own": ".2f", "model part, %": ".2f",
        "overlap part, %": ".2f",
    }  # fmt: skip
    caption = (
        f"Standard deviations of the areas of {PIXELS // PARCEL} parcels of {PARCEL} pixels, in % of the "
        f"parcel, root mean square over parcels, 3 classes and {seeds} seeds. Own: over {repeats} repeated "
        "retrievals of both depths; stated: the measurement part; then the naive sum, and the parts that "
        "no repetition shows."
    )
    return [Table("regions", caption, columns, rows)]


def _rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def _case(seed, same, repeats):
    """Standard deviations of areas of parcels and classes, in shares: own, stated, naive; then parts."""
    rng = stream(seed, "regions", same)
    training = Scene.drawn("training", rng)
    scene = training if same else Scene.drawn("other", rng)
    order = np.argsort(scene.classes + 3 * (rng.random(PIXELS) < STRANGERS) * rng.random(PIXELS))
    parcels = order.reshape(-1, PARCEL)

    def measured():
        depths = reported(training, rng), reported(scene, rng)
        return fitted(training, scene, depths, seed)

    model, values = measured()
    errors = CommonErrors(model.model_, DRAWS, paired=same)
    worlds, models = errors.read(Planes(np.ascontiguousarray(values.transpose(1, 2, 0))))
    P = model.predict_proba(values, paired=same)[parcels]
    stated, doubt = (each[:, parcels].mean(2).std(0, ddof=1) for each in (worlds, models))
    naive = np.sqrt(worlds.var(0, ddof=1)[parcels].sum(1)) / PARCEL
    again = []
    for _ in range(repeats):
        other, seen = measured()
        again.append(other.predict_proba(seen, paired=same)[parcels].mean(1))
    return np.std(again, axis=0, ddof=1), stated, naive, doubt, np.sqrt((P * (1 - P)).sum(1)) / PARCEL
