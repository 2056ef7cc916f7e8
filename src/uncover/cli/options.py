"""Options that several commands share, and the option objects that they fill."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from uncover.pipeline import RealiseOptions, SceneOptions, UncertaintyOptions

Command = Callable[..., Any]
Options = TypeVar("Options")

#: Options with files that are read with a scene.
FILES_OF_A_SCENE = ("aoi", "mask", "dem", "uncertainty", "correlation")


def _stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which the help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Read and compute on a dask.distributed cluster, whose workers see the same files.",
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace outputs that exist already.")


def inputs(metavar: str, out: str, meanings: tuple[str, str], as_help: str) -> Callable[[Command], Command]:
    """The sources, the output and the meaning of several sources, of which the first is the default."""
    return _stacked(
        click.argument("sources", nargs=-1, required=True, metavar=metavar),
        click.option("--out", required=True, type=click.Path(), help=out),
        click.option("--as", "meaning", type=click.Choice(meanings), default=meanings[0], help=as_help),
    )


seed_option = click.option("--seed", default=0, help="Seed of all random numbers.")

class_options = _stacked(
    click.option("--class-field", metavar="NAME", help="Field or column with the class."),
    click.option(
        "--scheme",
        metavar="NAME|FILE",
        help="Table that translates the classes (see `uncover info schemes`).",
    ),
    click.option(
        "--ignore",
        metavar="VALUES",
        callback=lambda _context, _option, text: _names(text) or (),
        help="Values of the labels that are no class, such as 0,-999.",
    ),
    click.option(
        "--classes",
        metavar="VALUE=NAME,…",
        callback=lambda _context, _option, text: _pairs(text),
        help="Names of the values that are classes; other values are none. Several may have one name.",
    ),
)

pixel_purity_option = click.option(
    "--pixel-purity",
    default=0.0,
    metavar="SHARE",
    help="Smallest share of a pixel with one label, where labels are finer than pixels; with 0 the most "
    "frequent label wins.",
)

probability_scale_option = click.option(
    "--probability-scale",
    type=float,
    help="Number that stands for certainty (default: 100 for whole numbers, else 1).",
)

area_options = _stacked(
    click.option(
        "--bbox",
        type=float,
        nargs=4,
        metavar="WEST SOUTH EAST NORTH",
        help="Bounding box of the area, in longitude and latitude unless --bbox-crs says otherwise.",
    ),
    click.option("--bbox-crs", default="EPSG:4326", help="Coordinate reference system of --bbox."),
    click.option("--aoi", type=click.Path(), help="Vector file with the polygons of the area."),
)

resolution_option = click.option(
    "--resolution",
    type=click.Choice(["10", "20", "60"]),
    callback=lambda _context, _option, text: None if text is None else int(text),
    help="Pixel size in metres of the images that are read; coarser ones fill in (default: the finest).",
)

scene_options = _stacked(
    area_options,
    click.option(
        "--bands", metavar="B02,B03,…", help="Bands to use, in order (default: all of the first source)."
    ),
    click.option(
        "--scale",
        type=float,
        help="Reflectance = scale · number + offset, for files whose metadata do not state it.",
    ),
    click.option("--offset", type=float, help="See --scale; -0.1 for Sentinel-2 from baseline 04.00 on."),
    click.option(
        "--level",
        type=click.Choice(["L1C", "L2A"]),
        help="Top-of-atmosphere (L1C) or surface (L2A) reflectance, for sources that do not state it.",
    ),
    click.option(
        "--resampling",
        default="nearest",
        help="Resampling of bands of another pixel size: nearest, bilinear or cubic.",
    ),
    click.option(
        "--mask",
        type=click.Path(),
        help="Mask raster (FILE or FILE:BAND): pixels that are not 0, NaN included, are left out.",
    ),
    click.option(
        "--mask-buffer",
        type=float,
        default=0.0,
        metavar="METRES",
        help="Pixels nearer than this to cloud, shadow, snow or saturation count as such.",
    ),
    click.option(
        "--cloud-probability",
        type=float,
        metavar="PERCENT",
        help="Pixels with this probability of cloud or more are cloud (Level-2A products carry it).",
    ),
    click.option(
        "--mask-values",
        metavar="3,8-10|scl",
        help="Numbers of --mask that are left out; scl: it is a scene classification of Sen2Cor.",
    ),
    click.option(
        "--sensor",
        type=click.Choice(["S2A", "S2B", "S2C"]),
        help="Satellite of a scene that does not state it.",
    ),
    click.option(
        "--date",
        metavar="DATE",
        help="Date of a scene that does not state it: a time, 2020-06-01, 2020-06, 2020, or FIRST/LAST.",
    ),
    resolution_option,
    click.option("--granule", metavar="TILE", help="Tile of a product that has several, such as T32TQM."),
    click.option(
        "--scene-id",
        help="Identity of the scene (default: the datatake of the product, or a hash of the file).",
    ),
)

angles_option = click.option(
    "--angles",
    type=float,
    nargs=3,
    metavar="SUN VIEW RELATIVE",
    help="Sun zenith, view zenith and relative azimuth in degrees, for scenes without angles.",
)


def _read_draws(_context: Any, _option: Any, text: str) -> int | str:
    """A number, or the word that asks for enough."""
    word, _, digits = text.partition(":")
    if word == "auto" and (not digits or digits.isdecimal()):
        return text
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number; give one, or auto, or auto:2") from None


def digits_from(given: dict[str, Any]) -> int | None:
    """Significant digits that --draws auto asks for; None where it is a number."""
    draws = str(given["draws"])
    return int(draws.partition(":")[2] or 1) if draws.startswith("auto") else None


_world_options = _stacked(
    click.option(
        "--aod",
        type=float,
        help="Aerosol optical depth at 550 nm: the scene is corrected with it, and worlds lie around it.",
    ),
    click.option(
        "--aod-uncertainty",
        type=float,
        help="Standard uncertainty of the optical depth (default: the formula of CAMS, or the product's).",
    ),
    click.option(
        "--product-aod-value",
        type=float,
        metavar="AOD",
        help="Optical depth at which a Level-2A scene was corrected, if it does not state it; it is undone.",
    ),
    click.option(
        "--effects",
        metavar="NAMES",
        help="Effects that are drawn in worlds, of aod, water-vapour, ozone, altitude, radiometry, "
        "geolocation (of single pixels), aerosol-model; all: all but the last, for which nobody states "
        "probabilities (all,aerosol-model adds it; default: aod).",
    ),
    click.option(
        "--aerosol-models",
        metavar="NAMES",
        callback=lambda _context, _option, text: _names(text),
        help="Kinds of aerosol that the effect aerosol-model draws: continental, maritime, urban, desert "
        "(default: all, equally probable).",
    ),
    click.option(
        "--draws",
        default="25",
        show_default=True,
        metavar="N|auto",
        callback=_read_draws,
        help="Number of worlds: states that are drawn. With auto, map adds blocks of 25 until one digit of "
        "its uncertainties is stable; auto:2 asks for two.",
    ),
    click.option(
        "--impossible",
        type=click.Choice(["truncate", "clip", "gamma", "refuse"]),
        default="truncate",
        help="Treatment of negative draws of the optical depth.",
    ),
    click.option("--altitude", default=0.0, metavar="KM", help="Altitude of the ground, -0.5 to 3 km."),
    click.option(
        "--altitude-uncertainty",
        type=float,
        metavar="KM",
        help="Its standard uncertainty, for that of the pressure (default: 0.08 km, which is 1 %).",
    ),
    click.option(
        "--geolocation-uncertainty",
        type=float,
        metavar="METRES",
        help="Standard uncertainty of where a pixel lies (default: 1.5 m; 3 m for products without geometric "
        "refinement).",
    ),
    click.option(
        "--dem",
        metavar="FILE",
        help="Raster of heights in metres, in place of --altitude; averaged over 128 x 128 pixels.",
    ),
    click.option(
        "--water-vapour",
        type=float,
        metavar="CM",
        help="Water vapour column (default: that of the product, or 2 cm).",
    ),
    click.option(
        "--water-vapour-uncertainty",
        type=float,
        metavar="CM",
        help="Its standard uncertainty (default: the formula of Sen2Cor's product).",
    ),
    click.option(
        "--ozone", type=float, metavar="DU", help="Ozone column (default: that of the product, or 330 DU)."
    ),
    click.option(
        "--ozone-uncertainty", type=float, metavar="DU", help="Its standard uncertainty (default: 3 %)."
    ),
    angles_option,
    seed_option,
)

product_aod_option = click.option(
    "--product-aod",
    is_flag=True,
    help="Draw worlds around the optical depth in the product; in an L1C product, its CAMS forecast.",
)


def _draw_method(help_text: str, *methods: str) -> Callable[[Command], Command]:
    kinds = click.Choice(methods)
    return click.option("--draw-method", type=kinds, default="quantile", help=help_text)


#: For the command that stores worlds, and their weights with them.
world_options = _stacked(
    _world_options,
    _draw_method(
        "Draws of the optical depth: quantile midpoints, random, or quadrature nodes with weights.",
        "quantile",
        "mc",
        "quadrature",
    ),
)

_uncertainty_options = _stacked(
    click.option(
        "--uncertainty",
        type=click.Path(),
        help="Standard uncertainty of the values of the scene: CSV, JSON, raster or effects table.",
    ),
    click.option(
        "--between-pixels",
        type=click.Choice(["random", "systematic"]),
        help="Errors of two pixels, if the file does not state it: independent (random) or the same.",
    ),
    click.option(
        "--between-scenes",
        type=click.Choice(["independent", "common"]),
        help="Systematic errors of two scenes: independent, or the same, such as that of a sensor's gain.",
    ),
    click.option(
        "--effect-name",
        metavar="NAME",
        help="Name of the effect, if the file does not state it; required for common effects.",
    ),
    click.option(
        "--correlation", type=click.Path(), help="CSV table of the error correlation between bands."
    ),
    click.option(
        "--uncertainty-units",
        type=click.Choice(["1", "%"]),
        help="Units of the uncertainty, if the file does not state them: reflectance (1) or per cent.",
    ),
    click.option(
        "--uncertainty-scale", type=float, help="Standard uncertainty = scale · number of the file."
    ),
    click.option(
        "--uncertainty-bands",
        metavar="B02,B03,…",
        help="Bands of the file, in order, if it does not name them.",
    ),
    click.option("--uncertainty-variable", metavar="NAME", help="Measured variable of an effects table."),
)


#: For commands that read scenes, and draw worlds only if they are asked to; these count them equally.
measurement_options = _stacked(
    _world_options,
    _draw_method(
        "Draws of the optical depth: quantile midpoints, or random (Monte Carlo).", "quantile", "mc"
    ),
    product_aod_option,
    _uncertainty_options,
    scene_options,
    click.option(
        "--mask-classes",
        default="cloud,shadow,snow,saturated",
        show_default=True,
        metavar="NAMES|none",
        help="Pixels of the scene's masks that neither train nor get a class and an area.",
    ),
)


def filled(kind: Callable[..., Options], given: dict[str, Any], **others: Any) -> Options:
    """An options object whose fields are the options of the same names; others come as they are."""
    known = {name: given[name] for name in signature(kind).parameters if name in given}
    return kind(**{**known, **others})


def measurement_from(given: dict[str, Any]) -> dict[str, Any]:
    """Return what `measurement_options` were given, by the fields of FitOptions and SourceOptions."""
    from uncover import pipeline

    return {
        "scene": scene_from(given),
        "realise": _optional_worlds(given),
        "uncertainty": given["uncertainty"],
        "uncertainty_options": _uncertainty(given),
        "mask_classes": pipeline.mask_bits(given["mask_classes"]),
    }


def _uncertainty(given: dict[str, Any]) -> UncertaintyOptions:
    from uncover import pipeline

    own = {name: given[f"uncertainty_{name}"] for name in ("units", "scale", "bands", "variable")}
    if given["uncertainty"] is None:
        why = "without --uncertainty, whose file it describes; give that too, or leave it out"
        others = ("between_pixels", "between_scenes", "effect_name", "correlation")
        refuse(why, *others, *(f"uncertainty_{name}" for name in own))
    return filled(pipeline.UncertaintyOptions, given, **{**own, "bands": _names(own["bands"])})


def _names(text: str | None) -> tuple[str, ...] | None:
    """Names between commas."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _pairs(text: str | None) -> tuple[tuple[str, str], ...]:
    """Values and their names between commas."""
    pairs = [tuple(part.strip() for part in each.split("=", 1)) for each in _names(text) or ()]
    wrong = next((pair[0] for pair in pairs if len(pair) < 2 or not all(pair)), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} has no name; write VALUE=NAME, such as 1=Built,2=Vegetation")
    return tuple((pair[0], pair[1]) for pair in pairs)


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
    """Return what `scene_options` were given."""
    from uncover import pipeline

    meaning = given["mask_values"]
    if given["mask"] is None:
        refuse("without --mask, whose numbers it explains; give that too, or leave it out", "mask_values")
    elif meaning is not None:
        meaning = pipeline.mask_values(meaning)
    return filled(pipeline.SceneOptions, given, bands=_names(given["bands"]), mask_values=meaning)


dates_option = click.option(
    "--dates",
    metavar="season|DATES",
    help="Names of several dates, so that a model of one year maps another: season (DJF, MAM, JJA, SON), or "
    "2024-06,2024-08; 06 is June of any year.",
)


def one_scene(sources: tuple[str, ...], command: str) -> str | tuple[str, ...]:
    """The scene of the names that a command was given: one path, or the files of its bands."""
    from uncover import pipeline

    scenes = pipeline.gathered(sources)
    if len(scenes) > 1:
        raise ValueError(f"{len(scenes)} scenes came; uncover {command} takes one, or the band files of one")
    return scenes[0]


def worlds_from(given: dict[str, Any]) -> RealiseOptions:
    """Return what `world_options` and `product_aod_option` were given."""
    from uncover import pipeline

    if given["aod"] is not None and given["product_aod"]:
        raise ValueError("--aod and --product-aod came; worlds are drawn around one of them: give one")
    if given["dem"] is not None:
        refuse("with --dem, which gives the heights; give one of them", "altitude")
    effects = pipeline.checked_effects(
        ("aod",) if given["effects"] is None else _names(given["effects"]) or ()
    )
    own = {"uncertainty": given["aod_uncertainty"], "method": given["draw_method"], "effects": effects}
    if given["aerosol_models"] is None:
        given = {key: value for key, value in given.items() if key != "aerosol_models"}
    if digits_from(given) is not None:
        if click.get_current_context().command.name != "map":
            came = f"--draws {given['draws']} came"
            raise ValueError(f"{came}; only uncover map can tell when areas are stable: give a number")
        given = {**given, "draws": pipeline.RealiseOptions.draws}
    return filled(pipeline.RealiseOptions, given, **own)


def _optional_worlds(given: dict[str, Any]) -> RealiseOptions | None:
    """Return what the options of worlds were given; None where no worlds are asked for."""
    if given["aod"] is not None or given["product_aod"]:
        return worlds_from(given)
    details = (
        "product_aod_value",
        "effects",
        "aerosol_models",
        "draws",
        "draw_method",
        "impossible",
        "dem",
        "angles",
    )
    uncertain = ("aod", "altitude", "water_vapour", "ozone", "geolocation")
    why = "without --aod or --product-aod, which draw worlds; give one of these, or leave it out"
    refuse(why, *details, *uncertain, *(f"{name}_uncertainty" for name in uncertain))
    return None
