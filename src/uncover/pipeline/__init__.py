"""The commands as functions with small frozen options, for the command line, the studies and users."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uncover.files import check_goal, check_new, whole_or_nothing
    from uncover.labels import Criteria, Draw
    from uncover.pipeline.evaluation import EvaluateOptions, Evaluation, check_folder
    from uncover.pipeline.file_kinds import check_apart
    from uncover.pipeline.fitting import TrainedModel, fit_model, read_class_prior
    from uncover.pipeline.ground import distance
    from uncover.pipeline.info import Description, describe_file
    from uncover.pipeline.label_collection import (
        HoldOut,
        LabelOptions,
        Labels,
        buffer_between,
        collect_labels,
        hold_out,
    )
    from uncover.pipeline.label_sources import LabelDoubt, LabelSource, open_labels, write_labels
    from uncover.pipeline.map_evaluation import evaluate_map
    from uncover.pipeline.map_facts import MapFacts
    from uncover.pipeline.mapping import Forecast, MapOptions, forecast, map_scene
    from uncover.pipeline.realisations import (
        RealiseOptions,
        Sen2CorOptions,
        plan_sen2cor,
        realise_scene,
        write_realisations,
        write_sen2cor,
        write_worlds,
    )
    from uncover.pipeline.scene_sources import SourceOptions
    from uncover.pipeline.tables import SampleTable, read_table
    from uncover.pipeline.training_sources import FitOptions
    from uncover.raster.area import Area
    from uncover.raster.executors import parse_memory
    from uncover.raster.loose_files import gathered
    from uncover.raster.opening import grid_of, write_scene_file
    from uncover.raster.product import Thresholds
    from uncover.raster.quality import mask_bits, mask_values
    from uncover.raster.scene import SceneOptions
    from uncover.raster.uncertainty import UncertaintyOptions

# Imported when first used: collecting labels needs no scikit-learn, and fitting a table no rasterio.
_NAMES = {
    "uncover.files": "check_goal check_new whole_or_nothing",
    "uncover.labels": "Criteria Draw",
    "uncover.pipeline.evaluation": "EvaluateOptions Evaluation check_folder",
    "uncover.pipeline.file_kinds": "check_apart",
    "uncover.pipeline.fitting": "TrainedModel fit_model read_class_prior",
    "uncover.pipeline.ground": "distance",
    "uncover.pipeline.info": "Description describe_file",
    "uncover.pipeline.label_collection": "HoldOut LabelOptions Labels buffer_between collect_labels hold_out",
    "uncover.pipeline.label_sources": "LabelDoubt LabelSource open_labels write_labels",
    "uncover.pipeline.map_evaluation": "evaluate_map",
    "uncover.pipeline.scene_sources": "SourceOptions",
    "uncover.pipeline.map_facts": "MapFacts",
    "uncover.pipeline.mapping": "Forecast MapOptions forecast map_scene",
    "uncover.pipeline.realisations": "RealiseOptions Sen2CorOptions plan_sen2cor realise_scene "
    "write_realisations write_sen2cor write_worlds",
    "uncover.pipeline.tables": "SampleTable read_table",
    "uncover.pipeline.training_sources": "FitOptions",
    "uncover.raster.area": "Area",
    "uncover.raster.executors": "parse_memory",
    "uncover.raster.loose_files": "SeveralScenes gathered",
    "uncover.raster.opening": "grid_of write_scene_file",
    "uncover.raster.product": "Thresholds",
    "uncover.raster.quality": "mask_bits mask_values",
    "uncover.raster.scene": "SceneOptions",
    "uncover.raster.uncertainty": "UncertaintyOptions",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'uncover.pipeline' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
