"""`uncover fit`: a model from labelled pixels."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.console import bar
from uncover.cli.options import (
    FILES_OF_A_SCENE,
    class_options,
    dates_option,
    filled,
    inputs,
    measurement_from,
    measurement_options,
    overwrite_option,
    pixel_purity_option,
    probability_scale_option,
    refuse,
    scheduler_option,
)


class ModelName(click.ParamType):  # type: ignore[type-arg]
    """The recommended or published model, one of the registry, or "mda"; looked up when it is asked for."""

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

        return click.Choice(["recommended", "published", *CLASS_MODELS, "mda"])


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
    Example: sets of classes that hold the true one with 90 %, blocks of 500 m left out together
      uncover fit S2A_MSIL1C_….SAFE --labels labels.tif --block 500 --coverage 0.9 --out model.uncover
    \b
    Example: the published method
      uncover fit S2A_MSIL1C_….SAFE --labels labels.tif --model published --out model.uncover
    \b
    Example: three dates of one place, and an index of each
      uncover fit A.SAFE B.SAFE C.SAFE --as features --features bands,NDVI --labels labels.tif \\
        --model published --out model.uncover
    \b
    `uncover map` needs values of the same kind: --aod in both commands or in neither, the same --level.
    """
)
@inputs(
    "SCENE|CUBE|TABLE...",
    "Model file to write.",
    ("samples", "features"),
    "Several scenes: more samples, or scenes of several dates of one place, whose bands are features.",
)
@dates_option
@click.option(
    "--features",
    metavar="bands,NDVI,…",
    help="Features of a scene: bands, an index (NDVI, NDWI, NBR …), or a formula such as B08/B04 (default: "
    "bands).",
)
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
@probability_scale_option
@click.option(
    "--label-meaning",
    type=click.Choice(["certainty", "posterior"]),
    default="certainty",
    help="Source of the probability: independent of this scene (certainty), or derived from it (posterior).",
)
@click.option(
    "--label-noise",
    metavar="SHARE|learn",
    help="Share of wrong labels; or learn, to estimate how often each class is mistaken for another.",
)
@click.option(
    "--fraction",
    type=float,
    help="Share of the labelled pixels of each scene to use (default: all; recommended: 50,000 at most).",
)
@click.option("--count", type=int, help="Number of labelled pixels of each scene to use; see --fraction.")
@click.option(
    "--allocation",
    type=click.Choice(["proportional", "stratified"]),
    default="proportional",
    help="With --fraction or --count: classes by their shares, or equally many of each.",
)
@click.option(
    "--model",
    type=ModelName(),
    default="recommended",
    help="recommended: a mean of models of several kinds, weighed by how well they predict pixels left out; "
    "published, or qda: the published method; lda: one covariance for all classes; nb: no covariance "
    "between bands; mda: classes of several components.",
)
@click.option(
    "--prior",
    type=click.Choice(["weak", "evidence", "jeffreys"]),
    help="Prior of the class models: weak, chosen by maximum evidence, or Jeffreys' (default: weak; mda: "
    "evidence; recommended: its own).",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Calibrate probabilities by cross-validation, for use on other scenes (mda, recommended: always).",
)
@click.option(
    "--coverage",
    type=float,
    metavar="SHARE",
    help="Give each pixel a set of classes that holds the true one with this probability (conformal "
    "prediction; not guaranteed for another date). Holds part of the samples out.",
)
@click.option(
    "--block",
    type=float,
    metavar="METRES",
    help="Side of the blocks that are left out as a whole (default: the range of the labels' "
    "autocorrelation; 0: single pixels). Tables name groups in a column polygon.",
)
@click.option(
    "--buffer",
    type=float,
    metavar="METRES",
    help="Held-out pixels nearer than this to another block do not count (default: distance at which the "
    "correlation of labels falls to 1/e, at most a quarter of a block).",
)
@click.option(
    "--realisations",
    type=click.Choice(["pooled", "repeats", "draws", "shared"]),
    default="pooled",
    help="Meaning of several realisations of a pixel: of one distribution (pooled), repeated measurements, "
    "draws of independent errors, or worlds of a shared error.",
)
@click.option(
    "--class-prior",
    metavar="NAME=SHARE,…|FILE",
    help="Class shares of the place that is mapped, of all classes, or a CSV with columns class and share; "
    "a number is the Dirichlet parameter of every class (default: 1).",
)
@measurement_options
@scheduler_option
@overwrite_option
def fit(sources: tuple[str, ...], out: str, label_file: str | None, overwrite: bool, **given: Any) -> None:
    """Fit a model to the labelled pixels of scenes or cubes, or to sample tables (CSV, Parquet).

    Several scenes add samples; with --as features, dates of one place add features. Clouds, shadow, snow
    and saturated pixels are not used. The models recommended and mda, --calibrate, --uncertainty,
    --label-probability, --label-noise and --realisations draws keep all samples in memory. At the end the
    model is fitted again without a third of the blocks: a warning says so if it claims more of these than
    comes true.
    """
    from uncover import pipeline

    files = ("label_probability", "scheme", *FILES_OF_A_SCENE)
    pipeline.check_apart(out, *sources, label_file, *(given[name] for name in files))
    pipeline.check_goal(out)
    pipeline.check_new(out, overwrite=overwrite)
    if given["label_probability"] is None:
        why = "without --label-probability, whose numbers it explains; give that too, or leave it out"
        refuse(why, "probability_scale", "label_meaning")
    doubt = ("label_probability", "probability_scale", "label_meaning", "label_noise")
    options = filled(
        pipeline.FitOptions,
        given,
        labels=label_file,
        as_features=given["meaning"] == "features",
        draw=filled(pipeline.Draw, given),
        calibration="loo" if given["calibrate"] else None,
        doubt=pipeline.LabelDoubt(*(given[name] for name in doubt)),
        class_prior=pipeline.read_class_shares(given["class_prior"]),
        **measurement_from(given),
    )
    with pipeline.whole_or_nothing(out, overwrite=overwrite) as place, bar("fit") as progress:
        training = pipeline.fit_model(sources, options, progress, progress.phase)
        training.save(place)
    click.echo(training.summary())
