"""The commands as functions with small frozen options, for the command line, the studies and users."""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

if TYPE_CHECKING:
    from uncover.files import check_goal as check_goal
    from uncover.files import check_new as check_new
    from uncover.files import whole_or_nothing as whole_or_nothing
    from uncover.labels import Criteria as Criteria
    from uncover.labels import Draw as Draw
    from uncover.pipeline.class_shares import read_class_shares as read_class_shares
    from uncover.pipeline.evaluation import EvaluateOptions as EvaluateOptions
    from uncover.pipeline.evaluation import Evaluation as Evaluation
    from uncover.pipeline.evaluation import check_folder as check_folder
    from uncover.pipeline.file_kinds import check_apart as check_apart
    from uncover.pipeline.fitting import TrainedModel as TrainedModel
    from uncover.pipeline.fitting import fit_model as fit_model
    from uncover.pipeline.ground import distance as distance
    from uncover.pipeline.info import Description as Description
    from uncover.pipeline.info import describe_file as describe_file
    from uncover.pipeline.label_collection import HoldOut as HoldOut
    from uncover.pipeline.label_collection import LabelOptions as LabelOptions
    from uncover.pipeline.label_collection import Labels as Labels
    from uncover.pipeline.label_collection import buffer_between as buffer_between
    from uncover.pipeline.label_collection import collect_labels as collect_labels
    from uncover.pipeline.label_collection import hold_out as hold_out
    from uncover.pipeline.label_sources import LabelDoubt as LabelDoubt
    from uncover.pipeline.label_sources import LabelSource as LabelSource
    from uncover.pipeline.label_sources import open_labels as open_labels
    from uncover.pipeline.label_sources import write_labels as write_labels
    from uncover.pipeline.map_evaluation import evaluate_map as evaluate_map
    from uncover.pipeline.map_facts import MapFacts as MapFacts
    from uncover.pipeline.map_facts import shares_in_words as shares_in_words
    from uncover.pipeline.mapping import Forecast as Forecast
    from uncover.pipeline.mapping import MapOptions as MapOptions
    from uncover.pipeline.mapping import forecast as forecast
    from uncover.pipeline.mapping import map_scene as map_scene
    from uncover.pipeline.realisations import RealiseOptions as RealiseOptions
    from uncover.pipeline.realisations import Sen2CorOptions as Sen2CorOptions
    from uncover.pipeline.realisations import plan_sen2cor as plan_sen2cor
    from uncover.pipeline.realisations import realise_scene as realise_scene
    from uncover.pipeline.realisations import write_realisations as write_realisations
    from uncover.pipeline.realisations import write_sen2cor as write_sen2cor
    from uncover.pipeline.realisations import write_worlds as write_worlds
    from uncover.pipeline.scene_sources import SourceOptions as SourceOptions
    from uncover.pipeline.tables import SampleTable as SampleTable
    from uncover.pipeline.tables import read_table as read_table
    from uncover.pipeline.training_sources import FitOptions as FitOptions
    from uncover.raster.area import Area as Area
    from uncover.raster.executors import parse_memory as parse_memory
    from uncover.raster.loose_files import SeveralScenes as SeveralScenes
    from uncover.raster.loose_files import gathered as gathered
    from uncover.raster.opening import grid_of as grid_of
    from uncover.raster.opening import write_scene_file as write_scene_file
    from uncover.raster.product import Thresholds as Thresholds
    from uncover.raster.quality import mask_bits as mask_bits
    from uncover.raster.quality import mask_values as mask_values
    from uncover.raster.scene import SceneOptions as SceneOptions
    from uncover.raster.uncertainty import UncertaintyOptions as UncertaintyOptions

# Imported when first used: collecting labels needs no scikit-learn, and fitting a table no rasterio.
__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.files": "check_goal check_new whole_or_nothing",
        "uncover.labels": "Criteria Draw",
        "uncover.pipeline.evaluation": "EvaluateOptions Evaluation check_folder",
        "uncover.pipeline.file_kinds": "check_apart",
        "uncover.pipeline.class_shares": "read_class_shares",
        "uncover.pipeline.fitting": "TrainedModel fit_model",
        "uncover.pipeline.ground": "distance",
        "uncover.pipeline.info": "Description describe_file",
        "uncover.pipeline.label_collection": "HoldOut LabelOptions Labels buffer_between "
        "collect_labels hold_out",
        "uncover.pipeline.label_sources": "LabelDoubt LabelSource open_labels write_labels",
        "uncover.pipeline.map_evaluation": "evaluate_map",
        "uncover.pipeline.scene_sources": "SourceOptions",
        "uncover.pipeline.map_facts": "MapFacts shares_in_words",
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
    },
)
