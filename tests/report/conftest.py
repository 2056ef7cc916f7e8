import pytest

from report_cases import build


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    return build(tmp_path_factory.mktemp("report") / "case")


@pytest.fixture(scope="session")
def page(case):
    """The report of the case, as a file."""
    from uncover.report.map_report import make_report

    return make_report(case.folder)
