import pytest

from survival_cases import Launcher, make_inputs


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """A folder with the inputs of all commands."""
    folder = tmp_path_factory.mktemp("survival") / "originals"
    make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def launcher():
    """A process that runs commands."""
    with Launcher() as started:
        yield started
