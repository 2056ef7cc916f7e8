"""Quality of a classification: scores, calibration, accuracy and area with their uncertainty. Arrays."""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

if TYPE_CHECKING:
    from uncover.metrics.bootstrap import Bootstrap as Bootstrap
    from uncover.metrics.bootstrap import joined_groups as joined_groups
    from uncover.metrics.bootstrap import percentile_interval as percentile_interval
    from uncover.metrics.bootstrap import score_replicates as score_replicates
    from uncover.metrics.bootstrap import spread_over_worlds as spread_over_worlds
    from uncover.metrics.calibration import Reliability as Reliability
    from uncover.metrics.confusion import Outcomes as Outcomes
    from uncover.metrics.confusion import confusion_matrix as confusion_matrix
    from uncover.metrics.confusion import f_beta as f_beta
    from uncover.metrics.confusion import overall_accuracy as overall_accuracy
    from uncover.metrics.ellipsoid import WGS84 as WGS84
    from uncover.metrics.ellipsoid import band_area as band_area
    from uncover.metrics.ellipsoid import radii as radii
    from uncover.metrics.estimation import Estimate as Estimate
    from uncover.metrics.estimation import SampleCells as SampleCells
    from uncover.metrics.estimation import StratifiedSample as StratifiedSample
    from uncover.metrics.estimation import simple_random_sample as simple_random_sample
    from uncover.metrics.estimation import stratified_by_map as stratified_by_map
    from uncover.metrics.estimation import wilson_interval as wilson_interval
    from uncover.metrics.scores import SCORE_NAMES as SCORE_NAMES
    from uncover.metrics.scores import Scores as Scores
    from uncover.metrics.scores import ScoreSums as ScoreSums
    from uncover.metrics.scores import score as score

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.metrics.bootstrap": "Bootstrap joined_groups percentile_interval score_replicates "
        "spread_over_worlds",
        "uncover.metrics.calibration": "Reliability",
        "uncover.metrics.confusion": "Outcomes confusion_matrix f_beta overall_accuracy",
        "uncover.metrics.ellipsoid": "WGS84 band_area radii",
        "uncover.metrics.estimation": "Estimate SampleCells StratifiedSample simple_random_sample "
        "stratified_by_map wilson_interval",
        "uncover.metrics.scores": "SCORE_NAMES Scores ScoreSums score",
    },
)
