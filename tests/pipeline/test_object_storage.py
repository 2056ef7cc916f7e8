"""All commands with inputs and outputs on object storage: a server of S3 on this machine."""

import shutil

import fsspec
import numpy as np
import pytest

import map_cases
import series_cases
from safe_trees import build_safe
from uncover import remote
from uncover.raster import open_scene

moto_server = pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

BUCKET = "s3://land"


@pytest.fixture(scope="module")
def s3():
    """An empty store, to which GDAL, fsspec and Zarr are sent by the environment."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_NO_SIGN_REQUEST"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(remote, "PAUSES", (0.05,))
        files = fsspec.filesystem("s3", endpoint_url=f"http://{host}:{port}")
        files.mkdir("land")
        yield files
    server.stop()


@pytest.fixture(scope="module")
def place(tmp_path_factory, s3):
    """A place on four dates, here and there."""
    place = series_cases.Place(tmp_path_factory.mktemp("place"), share=0.3)
    s3.put(f"{place.folder}/", f"{BUCKET}/place/", recursive=True)
    return place


@pytest.fixture
def cli(run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def command(*words, code=0):
        result = run(*words)
        assert result.exit_code == code, result.output
        return result

    return command


def there(path):
    return f"{BUCKET}/place/{path.name}"


def test_dates_labels_model_and_map(cli, place, tmp_path, s3):
    """Whatever lies there gives what it gives here, and the product is the same."""
    options = ["--level", "L2A", "--mask-values", "scl"]
    fit = ["--as", "features", "--model", "published", *options]
    near, far = ["--mask", place.mask], ["--mask", f"{BUCKET}/place/mask-{{date}}.tif"]
    names = place.label_options[2:]
    scenes = [there(scene) for scene in place.scenes]
    cli("fit", *place.scenes, *fit, *near, "--labels", place.labels, *names, "--out", "m.uncover")
    model = f"{BUCKET}/models/m.uncover"
    said = cli(
        "fit",
        f"{BUCKET}/place/scene-*.tif",
        *fit,
        *far,
        "--labels",
        there(place.labels),
        *names,
        "--out",
        model,
    )
    assert f"sent to {model}" in said.stderr
    here, far_away = (cli("info", name).stdout.splitlines() for name in ("m.uncover", model))
    differ = [(a, b) for a, b in zip(here, far_away, strict=True) if a != b]
    assert len(here) > 50 and all("sha256:" in a for a, _ in differ)  # scenes without a name of their own
    cli("map", "m.uncover", *place.scenes, *options, *near, "--out", "map")
    made = cli("map", model, *scenes, *options, *far, "--out", f"{BUCKET}/map")
    assert made.stdout.strip() == f"{BUCKET}/map"
    files = {name.removeprefix("land/map/") for name in s3.find("land/map")}
    product = tmp_path / "map"
    assert files == {str(p.relative_to(product)) for p in product.rglob("*") if p.is_file()}
    for layer in ("class", "probability", "dates_used", "quality"):
        a, b = (open_scene_layer(f"{folder}/{layer}.tif") for folder in (tmp_path / "map", f"{BUCKET}/map"))
        np.testing.assert_array_equal(a, b)
    # The product is an input as well.
    cli(
        "evaluate",
        f"{BUCKET}/map",
        "--reference",
        there(place.labels),
        *names,
        "--draws",
        "50",
        "--out",
        f"{BUCKET}/evaluation",
    )
    cli("evaluate", "map", "--reference", place.labels, *names, "--draws", "50", "--out", "evaluation")
    assert s3.cat("land/evaluation/confusion.csv") == (tmp_path / "evaluation/confusion.csv").read_bytes()
    assert not any((tmp_path / "cache").rglob("*.tif"))  # what was sent is not kept here


def open_scene_layer(path):
    from uncover.raster.tiles import TileCache, describe

    info = describe(path)
    return info.bands(*range(1, info.count + 1)).read(info.grid.window, TileCache())


@pytest.mark.filterwarnings("ignore:.*carries no cloud mask")
def test_products_cubes_and_zarr(cli, s3, tmp_path):
    """A SAFE product is read there, its cube is written there, and read by fit."""
    tree = build_safe(tmp_path / "product", "L1C_03.01", size=96)
    s3.put(f"{tree.path}/", f"{BUCKET}/{tree.path.name}/", recursive=True)
    words = ["--aod", "0.12", "--aod-uncertainty", "0.03", "--draws", "3", "--bands", "B02,B03"]
    far = f"{BUCKET}/{tree.path.name}"
    np.testing.assert_array_equal(
        open_scene(far).read().reflectance, open_scene(tree.path).read().reflectance
    )
    cli("realise", tree.path, *words, "--out", "cube.zarr")
    cli("realise", far, *words, "--out", f"{BUCKET}/cube.zarr")
    for file in (tmp_path / "cube.zarr").rglob("*"):
        if file.is_file():
            assert s3.cat(f"land/cube.zarr/{file.relative_to(tmp_path / 'cube.zarr')}") == file.read_bytes()
    grid = open_scene(tree.path).grid
    labels = np.random.default_rng(0).integers(1, 3, (1, 96, 96)).astype(np.uint8)
    map_cases.write_scene(tmp_path / "labels.tif", labels, grid, names=None)
    options = ["--labels", "labels.tif", "--classes", "1=a,2=b", "--model", "published"]
    said = [
        cli("fit", cube, *options, "--out", f"{i}.uncover").stdout
        for i, cube in enumerate(("cube.zarr", f"{BUCKET}/cube.zarr"))
    ]
    assert said[0] == said[1]
    assert (tmp_path / "0.uncover").read_bytes() == (tmp_path / "1.uncover").read_bytes()
    s3.rm("land/cube.zarr/reflectance/0.0.0.0")  # Zarr would take what is not there for empty
    lacks = cli("fit", f"{BUCKET}/cube.zarr", *options, "--out", "2.uncover", code=1)
    assert "reflectance/0.0.0.0 does not exist" in lacks.stderr


def test_tables_and_vectors_are_fetched(cli, s3, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{k}" for k in ("x", "y") for a, b in rng.normal(k == "x", 0.2, (40, 2))]
    (tmp_path / "pixels.csv").write_text("\n".join(["B03,B04,class", *rows]))
    s3.put(f"{tmp_path}/pixels.csv", f"{BUCKET}/pixels.csv")
    here = cli("fit", "pixels.csv", "--model", "published", "--out", "a.uncover").stdout
    assert cli("fit", f"{BUCKET}/pixels.csv", "--model", "published", "--out", "b.uncover").stdout == here


def test_what_is_there_is_kept_and_what_is_not_is_one_line(cli, s3, place, tmp_path):
    s3.pipe("land/old.uncover", b"something")
    fit = ["fit", place.scenes[0], "--level", "L2A", "--model", "published", *place.label_options]
    kept = cli(*fit, "--out", f"{BUCKET}/old.uncover", code=1)
    assert f"{BUCKET}/old.uncover exists already; replace it with --overwrite" in kept.stderr
    assert s3.cat("land/old.uncover") == b"something"
    cli(*fit, "--out", f"{BUCKET}/old.uncover", "--overwrite")
    assert s3.cat("land/old.uncover") != b"something"
    for words, why in (
        (["info", f"{BUCKET}/none.uncover"], "none.uncover does not exist; check the address"),
        (["fit", f"{BUCKET}/none.tif", *fit[2:], "--out", "x"], "none.tif does not exist; check the address"),
        ([*fit, "--out", "s3://no-such-bucket/m.uncover"], "no-such-bucket"),
        ([*fit, "--out", "https://127.0.0.1:9/m.uncover"], "can be read and not written"),
    ):
        failed = cli(*words, code=1)
        assert why in failed.stderr and failed.stderr.count("Error:") == 1
        assert failed.stderr.strip().count("\n") <= 1, failed.stderr
    assert not (tmp_path / "x").exists()


def test_a_product_that_could_not_be_sent_is_kept_and_sent_later(cli, s3, tmp_path, monkeypatch):
    scene = map_cases.write_scene(tmp_path / "s.tif", map_cases.reflectance(60, 80))
    model = map_cases.save_model(tmp_path / "m.uncover", map_cases.fitted())
    sent, send = [], remote.send

    def failing(file, address):
        if len(sent) == 3:
            raise remote.RemoteError(f"{address} cannot be reached (the network is gone)")
        sent.append(address)
        send(file, address)

    monkeypatch.setattr(remote, "send", failing)
    words = ["map", model, scene, "--out", f"{BUCKET}/later"]
    failed = cli(*words, code=1)
    assert "the network is gone); all is finished and kept in" in failed.stderr
    assert not s3.exists("land/later/item.json")  # which says that the product is whole
    monkeypatch.setattr(remote, "send", send)
    cli(*words, "--resume")
    assert s3.exists("land/later/item.json")
    cli("map", model, scene, "--out", "here")
    assert s3.cat("land/later/class.tif") == (tmp_path / "here/class.tif").read_bytes()
    shutil.rmtree(tmp_path / "cache")


def test_one_run_at_a_time_writes_to_an_address(cli, place, tmp_path):
    from uncover.cli.far_files import _Goal

    model = map_cases.save_model(tmp_path / "m.uncover", map_cases.fitted())
    with _Goal(f"{BUCKET}/twice").alone():
        said = cli("map", model, place.scenes[0], "--out", f"{BUCKET}/twice", code=1).stderr
    assert f"writes {BUCKET}/twice; wait for it" in said and said.count("\n") == 1
