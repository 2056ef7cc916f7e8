"""Draw the figure of `compare` in the documentation: `python -m tools.comparison_picture`."""

from pathlib import Path

from benchmarks.probability_models import PEERS
from benchmarks.probability_problems import draw_split

import uncover
from uncover.report import comparison_figure, save_figure

PICTURE = Path(__file__).parents[1] / "docs/images/compare-statlog.png"


def main():
    """Compare the recommended classifier with the usual ones on 500 samples of Statlog."""
    split = draw_split("statlog", 500, 0)
    models = {
        "BayesianClassifier": uncover.BayesianClassifier(),
        **{name: make() for name, make in PEERS.items()},
    }
    found = uncover.compare(split.X, split.y, models, repeats=2)
    print(found)
    save_figure(comparison_figure(found, metrics=["cross_entropy", "brier"]), PICTURE)


if __name__ == "__main__":
    main()
