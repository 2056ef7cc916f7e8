"""Commands that read or write elsewhere (a STAC API, object storage) and are killed at any moment."""

import hashlib
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

from file_server import serving
from pipeline.test_catalogue import Api
from series_cases import Place
from survival.test_kills import killed_often
from survival_cases import COMMANDS, Command, Launcher

pytestmark = pytest.mark.slow
KILLS = 20
BUCKET = "s3://land"
#: The files that tell of a whole product are sent last.
LAST = {"map": "item.json", "evaluate": "evaluation.json"}


def test_scenes_that_is_killed(launcher, originals, tmp_path):
    (tmp_path / "place").mkdir()
    place = Place(tmp_path / "place", share=0.2)
    with serving(place.folder) as server:
        api = Api(server, place)
        words = ("scenes", "--stac", f"{server.url}/api", "--bbox", "12", "45", "13", "46", "--out", "new")
        assert killed_often(Command("scenes", words), launcher, originals, tmp_path, KILLS) == KILLS
        assert len(api.asked) > KILLS


@pytest.fixture
def s3(originals, tmp_path, monkeypatch):
    """Object storage with the inputs, and a process that runs commands with it."""
    moto_server, fsspec = pytest.importorskip("moto.server"), pytest.importorskip("fsspec")
    pytest.importorskip("s3fs")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_NO_SIGN_REQUEST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ACCESS_KEY_ID", "somebody"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("XDG_CACHE_HOME", str(tmp_path / "cache")),
    ):
        monkeypatch.setenv(name, value)
    files = fsspec.filesystem("s3", endpoint_url=url, use_listings_cache=False)
    if files.exists("land"):  # moto has one store in a process
        files.rm("land", recursive=True)
    files.mkdir("land")
    for name in ("model.uncover", "scene.tif", "labels.tif"):
        files.put(str(originals / name), f"{BUCKET}/{name}")
    files.put(f"{originals}/map/", f"{BUCKET}/map/", recursive=True)
    with Launcher() as started:
        yield files, started
    server.stop()


def far(command):
    """The same command line with inputs and output on object storage."""
    inputs = ("model.uncover", "scene.tif", "labels.tif", "map", "new")
    first, *words = command.arguments
    there = tuple(f"{BUCKET}/{word}" if word in inputs else word for word in words)
    return replace(command, arguments=(first, *there), again=command.again or ("--overwrite",))


def sent(files):
    """Hashes of what was sent, but of the file that tells of the run."""
    found = {name.removeprefix("land/new/"): files.cat(name) for name in files.find("land/new")}
    return {k: hashlib.sha256(v).hexdigest() for k, v in found.items() if not k.endswith("run.json")}


@pytest.mark.parametrize("name", LAST)
def test_a_command_on_object_storage_that_is_killed(name, s3, tmp_path):
    """The file that tells of a product is there only with all others; what goes on gives the same bytes."""
    files, launcher = s3
    command, rng, hit, unfinished = far(COMMANDS[name]), np.random.default_rng(5), 0, 0

    def run(**when):
        return launcher.run(tmp_path, (*command.arguments, *(command.again if hit else ())), **when)[0]

    run()  # libraries are loaded
    files.rm("land/new", recursive=True)
    usual = run()
    assert usual.code == 0, usual.said
    whole = sent(files)
    assert LAST[name] in whole
    files.rm("land/new", recursive=True)
    for attempt in range(4 * KILLS):
        last = attempt % 2 == 0
        at = int(rng.integers(usual.events * 2 // 3, usual.events + 1)) if last else None
        end = run(kill_at=at, kill_after=None if last else float(rng.uniform(0, usual.seconds)))
        made = sent(files)
        if end.code == -signal.SIGKILL:
            hit += 1
            unfinished += LAST[name] not in made
        else:
            assert end.code == 0, end.said
        assert all(whole[file] == digest for file, digest in made.items()), "another product"
        assert LAST[name] not in made or made == whole, "half of a product looks whole"
        if end.code == 0 or LAST[name] in made or hit == KILLS:
            if LAST[name] not in made:
                end = run()
                assert end.code == 0, end.said
            assert sent(files) == whole
            files.rm("land/new", recursive=True)
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        if hit == KILLS:
            break
    assert hit == KILLS and unfinished >= KILLS // 4
    left = [name for name in files.find("land") if name.endswith(".partial")]
    assert len(left) <= 1, left
