"""`uncover fit`: a model from labelled pixels."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.options import (
    FILES_OF_A_SCENE,
    class_options,
    optional_world_options,
    optional_worlds_from,
    pixel_purity_option,
    refuse,
    scene_from,
    scene_options,
    uncertainty_from,
    uncertainty_options,
)
from uncover.cli.progress import bar


class ModelName(click.ParamType):  # type: ignore[type-arg]
    """A class model of the registry, "mda" or "recommended"; looked up when it is asked for."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse other names."""
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """The names, for the help."""
        return self._choice().get_metavar(param, ctx)

    @staticmethod
    def _choice() -> click.Choice[str]:
        from uncover.models.registry import CLASS_MODELS

        return click.Choice([*CLASS_MODELS, "mda", "recommended"])


@click.command(
    epilog="""
    \b
    Example: half of the labels of one scene, in the worlds of an uncertain aerosol optical depth
      uncover fit S2A_MSIL1C_….SAFE --aod 0.12 --realisations shared --labels labels.tif --fraction 0.5 \\
        --out model.uncover
    \b
    Example: polygons, on a stack of surface reflectance
      uncover fit scene.tif --level L2A --scale 0.0001 --offset -0.1 --labels fields.gpkg \\
        --class-field class --out model.uncover
    \b
    Example: a table of labelled pixels
      uncover fit pixels.csv --level L2A --class-field class --out model.uncover
    \b
    Example: pixels whose standard uncertainty is stated; map them with the same option
      uncover fit scene.tif --level L2A --scale 0.0001 --offset -0.1 --labels labels.tif \\
        --uncertainty noise.csv --between-pixels random --out model.uncover
    \b
    Example: labels of a map that says how sure it is of each pixel
      uncover fit scene.tif --level L2A --scale 0.0001 --offset -0.1 --labels lcm2020.tif \\
        --scheme ukceh-lulucf --label-probability lcm2020.tif:2 --out model.uncover
    \b
    Example: the best probabilities, and sets of classes that hold the true one with 90 %
      uncover fit S2A_MSIL1C_….SAFE --labels labels.tif --model recommended --block 500 --coverage 0.9 \\
        --out model.uncover
    \b
    `uncover map` needs values of the same kind: --aod in both commands or in neither, the same --level.
    """
)
@click.argument("sources", nargs=-1, required=True, metavar="SCENE|CUBE|TABLE...")
@click.option("--out", required=True, type=click.Path(), help="Model file to write.")
@click.option(
    "--labels", "label_file", metavar="FILE[:BAND]", help="Labels of the pixels: raster or vector file."
)
@class_options
@pixel_purity_option
@click.option(
    "--label-probability",
    metavar="FILE[:BAND]",
    help="Probability that the label of each pixel is right, such as that of the map it comes from.",
)
@click.option("--probability-scale", type=float, help="Value of certainty [100 for whole numbers, else 1].")
@click.option(
    "--label-meaning",
    type=click.Choice(["certainty", "posterior"]),
    default="certainty",
    show_default=True,
    help="Whether the probability was judged without this scene, or from it.",
)
@click.option(
    "--label-noise",
    metavar="SHARE|learn",
    help="Share of the labels that are wrong, or learn: how often one class is called another is estimated.",
)
@click.option("--fraction", type=float, help="Use this share of the labelled pixels of each scene.")
@click.option("--count", type=int, help="Use this many labelled pixels of each scene.")
@click.option(
    "--allocation",
    type=click.Choice(["proportional", "stratified"]),
    default="proportional",
    show_default=True,
    help="Classes by their shares, or equally many of each.",
)
@click.option(
    "--model",
    type=ModelName(),
    default="qda",
    show_default=True,
    help="qda: the published method; lda: one covariance for all classes; nb: none between bands; mda: "
    "classes of several parts; recommended: an average of all kinds.",
)
@click.option(
    "--prior",
    type=click.Choice(["weak", "evidence", "jeffreys"]),
    help="Of the class models: weak, as strong as the evidence of the data asks for, or Jeffreys' "
    "[weak; mda: evidence].",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Temper probabilities by samples left out, for other scenes [mda: always].",
)
@click.option(
    "--coverage",
    type=float,
    metavar="SHARE",
    help="Make sets of classes that hold the true one for this share of the samples of each class (not "
    "guaranteed for another date); keeps part of the samples for it.",
)
@click.option(
    "--block",
    type=float,
    metavar="METRES",
    help="Side of squares whose pixels are left out and kept together; tables have a column polygon for it.",
)
@click.option(
    "--buffer",
    type=float,
    metavar="METRES",
    help="Pixels nearer to another block do not count if left out or kept [distance at which the "
    "correlation of labels falls to 1/e, at most a quarter of a block].",
)
@click.option(
    "--realisations",
    type=click.Choice(["pooled", "repeats", "draws", "shared"]),
    default="pooled",
    show_default=True,
    help="What several realisations of a pixel mean.",
)
@click.option(
    "--class-prior", default=1.0, show_default=True, help="Dirichlet parameter of the class shares."
)
@optional_world_options
@uncertainty_options
@scene_options
def fit(sources: tuple[str, ...], out: str, label_file: str | None, **given: Any) -> None:
    """Fit a model to the labelled pixels of scenes or cubes, or to sample tables (CSV, Parquet).

    Several scenes add samples, not features. Clouds, shadow, snow and saturated pixels are left out. The
    models mda and recommended, --calibrate, --uncertainty, --label-probability, --label-noise and
    --realisations draws keep all samples in memory.
    """
    from uncover import pipeline

    files = ("label_probability", "scheme", *FILES_OF_A_SCENE)
    pipeline.check_apart(out, *sources, label_file, *(given[name] for name in files))
    pipeline.check_goal(out)
    if given["label_probability"] is None:
        why = "without --label-probability, whose numbers it explains; give that too, or leave it out"
        refuse(why, "probability_scale", "label_meaning")
    options = pipeline.FitOptions(
        labels=label_file,
        class_field=given["class_field"],
        scheme=given["scheme"],
        pixel_purity=given["pixel_purity"],
        scene=scene_from(given),
        draw=pipeline.Draw(given["fraction"], given["count"], given["allocation"]),
        model=given["model"],
        prior=given["prior"],
        calibration="loo" if given["calibrate"] else None,
        coverage=given["coverage"],
        block=given["block"],
        buffer=given["buffer"],
        class_prior=given["class_prior"],
        realisations=given["realisations"],
        seed=given["seed"],
        realise=optional_worlds_from(given),
        uncertainty=given["uncertainty"],
        uncertainty_options=uncertainty_from(given),
        doubt=pipeline.LabelDoubt(
            given["label_probability"],
            given["probability_scale"],
            given["label_meaning"],
            given["label_noise"],
        ),
    )
    with bar("fit") as progress:
        training = pipeline.fit_model(sources, options, progress)
    training.save(out)
    click.echo(training.summary())
