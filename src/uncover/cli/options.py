"""Options that several commands share, and the option objects that they fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from uncover.pipeline import RealiseOptions, SceneOptions, UncertaintyOptions

Command = Callable[..., Any]

#: Options with files that are read with a scene.
FILES_OF_A_SCENE = ("aoi", "mask", "dem", "uncertainty", "correlation")


def _stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which the help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


seed_option = click.option(
    "--seed", default=0, show_default=True, help="Decides everything that is drawn at random."
)

class_options = _stacked(
    click.option("--class-field", metavar="NAME", help="Field or column with the class."),
    click.option("--scheme", metavar="NAME|FILE", help="Translate the classes (see `uncover info schemes`)."),
)

pixel_purity_option = click.option(
    "--pixel-purity",
    default=0.0,
    metavar="SHARE",
    help="Least share of a pixel with its label, where labels are finer [the commonest label wins].",
)

area_options = _stacked(
    click.option(
        "--bbox",
        type=float,
        nargs=4,
        metavar="WEST SOUTH EAST NORTH",
        help="Area: longitude and latitude by default.",
    ),
    click.option("--bbox-crs", default="EPSG:4326", show_default=True, help="Reference system of --bbox."),
    click.option("--aoi", type=click.Path(), help="Area: the polygons of a vector file."),
)

scene_options = _stacked(
    area_options,
    click.option("--bands", metavar="B02,B03,…", help="Bands, in order [all that the first source has]."),
    click.option(
        "--scale", type=float, help="Reflectance = scale · number + offset, where metadata are silent."
    ),
    click.option("--offset", type=float, help="See --scale; -0.1 for Sentinel-2 from baseline 04.00 on."),
    click.option(
        "--level",
        type=click.Choice(["L1C", "L2A"]),
        help="Top-of-atmosphere (L1C) or surface (L2A) reflectance, where the source does not say.",
    ),
    click.option("--resampling", default="nearest", show_default=True, help="nearest, bilinear or cubic."),
    click.option(
        "--mask",
        type=click.Path(),
        help="Mask raster of your own (FILE, FILE:BAND): what is not 0, NaN too, is left out.",
    ),
    click.option("--granule", metavar="TILE", help="Which tile of a product with several, such as T32TQM."),
    click.option("--scene-id", help="Identity of the scene [the product's datatake, or the file's content]."),
)

_world_options = _stacked(
    click.option("--aod", type=float, help="Aerosol optical depth at 550 nm: draw worlds around it."),
    click.option(
        "--aod-uncertainty",
        type=float,
        help="Standard uncertainty of it [the formula of CAMS, or the product's].",
    ),
    click.option("--draws", default=25, show_default=True, help="Realisations: optical depths drawn."),
    click.option(
        "--impossible",
        type=click.Choice(["truncate", "clip", "gamma", "refuse"]),
        default="truncate",
        show_default=True,
        help="What becomes of negative draws.",
    ),
    click.option(
        "--altitude", default=0.0, show_default=True, metavar="KM", help="Of the ground, -0.5 to 3."
    ),
    click.option(
        "--dem",
        metavar="FILE",
        help="Heights in metres, any raster, in place of --altitude: the mean of each 128 x 128 pixels.",
    ),
    click.option("--water-vapour", type=float, metavar="CM", help="Column [that of the product, or 2]."),
    click.option("--ozone", type=float, metavar="DU", help="Column [that of the product, or 330]."),
    click.option(
        "--angles",
        type=float,
        nargs=3,
        metavar="SUN VIEW RELATIVE",
        help="Zeniths and relative azimuth in degrees, where the product has none.",
    ),
    seed_option,
)

product_aod_option = click.option(
    "--product-aod",
    is_flag=True,
    help="Draw worlds around the product's own optical depth: of an L1C product, the CAMS forecast in it.",
)


def _draw_method(help_text: str, *methods: str) -> Callable[[Command], Command]:
    kinds = click.Choice(methods)
    return click.option("--draw-method", type=kinds, default="quantile", show_default=True, help=help_text)


#: For the command that stores worlds, and their weights with them.
world_options = _stacked(
    _world_options,
    _draw_method(
        "Quantile midpoints, random, or nodes with weights for computations of your own.",
        "quantile",
        "mc",
        "quadrature",
    ),
)

#: For commands that draw worlds only if they are asked to; these count them equally.
optional_world_options = _stacked(
    _world_options,
    _draw_method("Of the optical depths: quantile midpoints, or random.", "quantile", "mc"),
    product_aod_option,
)


uncertainty_options = _stacked(
    click.option(
        "--uncertainty",
        type=click.Path(),
        help="Standard uncertainty of the scene's values: CSV, JSON, raster or effects table.",
    ),
    click.option(
        "--between-pixels",
        type=click.Choice(["random", "systematic"]),
        help="What errors of two pixels have in common, where the file does not say it.",
    ),
    click.option(
        "--between-scenes",
        type=click.Choice(["independent", "common"]),
        help="Systematic effects: each scene's own error, or the same in all, such as a sensor's gain.",
    ),
    click.option(
        "--effect-name",
        metavar="NAME",
        help="Of the effect, where the file does not say it; common ones need it.",
    ),
    click.option("--correlation", type=click.Path(), help="CSV table of the correlation between bands."),
    click.option(
        "--uncertainty-units", type=click.Choice(["1", "%"]), help="Where the file does not say it."
    ),
    click.option(
        "--uncertainty-scale", type=float, help="Standard uncertainty = scale · number of the file."
    ),
    click.option(
        "--uncertainty-bands", metavar="B02,B03,…", help="Bands of the file in order, where it has no names."
    ),
    click.option("--uncertainty-variable", metavar="NAME", help="Measured variable of an effects table."),
)


def uncertainty_from(given: dict[str, Any]) -> UncertaintyOptions:
    """What `uncertainty_options` were given."""
    from uncover import pipeline

    if given["uncertainty"] is None:
        why = "without --uncertainty, whose file it describes; give that too, or leave it out"
        others = ("units", "scale", "bands", "variable")
        refuse(
            why,
            "between_pixels",
            "between_scenes",
            "effect_name",
            "correlation",
            *(f"uncertainty_{name}" for name in others),
        )
    return pipeline.UncertaintyOptions(
        between_pixels=given["between_pixels"],
        between_scenes=given["between_scenes"],
        effect_name=given["effect_name"],
        correlation=given["correlation"],
        units=given["uncertainty_units"],
        scale=given["uncertainty_scale"],
        bands=_names(given["uncertainty_bands"]),
        variable=given["uncertainty_variable"],
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    """Names between commas."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def refuse(why: str, *names: str) -> None:
    """Refuse those of the options that were given, which would say nothing here."""
    context = click.get_current_context()
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise ValueError(f"{', '.join(given)} came {why}")


def scene_from(given: dict[str, Any]) -> SceneOptions:
    """What `scene_options` were given."""
    from uncover import pipeline

    return pipeline.SceneOptions(
        bands=_names(given["bands"]),
        scale=given["scale"],
        offset=given["offset"],
        resampling=given["resampling"],
        bbox=given["bbox"],
        bbox_crs=given["bbox_crs"],
        aoi=given["aoi"],
        mask=given["mask"],
        scene_id=given["scene_id"],
        level=given["level"],
        granule=given["granule"],
    )


def worlds_from(given: dict[str, Any]) -> RealiseOptions:
    """What `world_options` and `product_aod_option` were given."""
    from uncover import pipeline

    if given["aod"] is not None and given["product_aod"]:
        raise ValueError("--aod and --product-aod came; worlds are drawn around one of them: give one")
    if given["dem"] is not None:
        refuse("with --dem, which gives the heights; give one of them", "altitude")
    return pipeline.RealiseOptions(
        aod=given["aod"],
        uncertainty=given["aod_uncertainty"],
        draws=given["draws"],
        method=given["draw_method"],
        impossible=given["impossible"],
        seed=given["seed"],
        altitude=given["altitude"],
        dem=given["dem"],
        water_vapour=given["water_vapour"],
        ozone=given["ozone"],
        angles=given["angles"],
        product_aod=given["product_aod"],
    )


def optional_worlds_from(given: dict[str, Any]) -> RealiseOptions | None:
    """What `optional_world_options` were given; None where no worlds are asked for."""
    if given["aod"] is not None or given["product_aod"]:
        return worlds_from(given)
    details = ("aod_uncertainty", "draws", "draw_method", "impossible", "altitude", "dem", "water_vapour")
    why = "without --aod or --product-aod, which draw worlds; give one of these, or leave it out"
    refuse(why, *details, "ozone", "angles")
    return None
