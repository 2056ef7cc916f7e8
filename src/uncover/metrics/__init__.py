"""Quality of a classification: scores, calibration, accuracy and area with their uncertainty. Arrays."""

from uncover.metrics.bootstrap import (
    Bootstrap,
    joined_groups,
    percentile_interval,
    score_replicates,
    spread_over_worlds,
)
from uncover.metrics.calibration import Reliability
from uncover.metrics.confusion import Outcomes, confusion_matrix, f_beta, overall_accuracy
from uncover.metrics.ellipsoid import WGS84, band_area, radii
from uncover.metrics.estimation import (
    Estimate,
    SampleCells,
    StratifiedSample,
    simple_random_sample,
    stratified_by_map,
    wilson_interval,
)
from uncover.metrics.scores import SCORE_NAMES, Scores, ScoreSums, score
