import pytest

from report_cases import build
from uncover.viewer import view


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """A folder with a map, its labels and its scene."""
    return build(tmp_path_factory.mktemp("viewer") / "case")


@pytest.fixture(scope="session")
def served(case):
    with view(case.folder) as shown:
        yield shown
