"""Laws of fitting from files: the model of the arrays in memory, whatever the files, blocks and batches."""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fit_cases import SCHEME, names_of, safe_with_labels, table_of
from label_maps import GRID, write_map
from safe_trees import TEN, shared
from uncover import BayesianQDA, load_model
from uncover.labels import Draw
from uncover.pipeline import FitOptions, SceneOptions, collect_labels, fit_model, training_sources
from uncover.raster import (
    TEN_BANDS,
    CubeBlock,
    CubeLayout,
    SampleBlock,
    Window,
    open_scene,
    write_cube,
    write_samples,
)


def assert_same_model(one, other, rtol=1e-9):
    assert_array_equal(one.classes_, other.classes_)
    assert_allclose(one.class_count_, other.class_count_, rtol=0)
    for name in ("mean", "strength", "scale", "dof"):
        wanted = np.asarray(getattr(other.posterior_, name))
        assert_allclose(getattr(one.posterior_, name), wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


def in_memory(tree, offset):
    """Reflectance (row, col, band) straight from the numbers that the tree was made of."""
    planes = [np.kron(tree.numbers[b], np.ones((TEN[b] // 10,) * 2, int)) for b in TEN_BANDS]
    return ((np.stack(planes, axis=-1) + offset) / 10000).astype(np.float32)


def test_the_chain_by_the_command_line_gives_the_model_of_the_arrays(run, tmp_path):
    """labels → fit → model file, on real metadata and JPEG 2000, against arrays that never were files."""
    tree, maps, clear = safe_with_labels(tmp_path)
    sure = [a for path in maps for a in ("--probability", f"{path}:2")]
    made = run("labels", *maps, *sure, "--scheme", "ukceh-lulucf", "--out", "labels.tif")
    assert made.exit_code == 0, made.output
    made = run("fit", "--model", "published", tree.path, "--labels", "labels.tif", "--out", "model.uncover")
    assert made.exit_code == 0, made.output
    # Patches of 12 pixels are few for ten bands, and the check of the fit says so; nothing else is said.
    assert all("the model is too sure" in line for line in made.stderr.splitlines())

    labels = collect_labels(maps, [f"{path}:2" for path in maps], _lulucf()).codes
    where = (labels > 0) & clear
    X = in_memory(tree, offset=-1000)[where]  # baseline 04.00: BOA_ADD_OFFSET
    y = np.array(["", *SCHEME.names])[labels[where]]
    model = load_model(tmp_path / "model.uncover")
    assert_same_model(model, BayesianQDA().fit(X, y))
    assert tuple(model.feature_names_in_) == TEN_BANDS
    assert model.units_ == "reflectance"
    assert model.provenance_["scheme"] == SCHEME.as_dict()
    assert str(tmp_path) not in str(model.provenance_)
    lost = (labels > 0).sum() - where.sum()
    assert sum(model.provenance_["sources"][0]["not used"].values()) == lost > 0  # clouds did take some
    assert "  not used: " in made.stdout and "cloud" in made.stdout
    again = ("fit", tree.path, "--labels", "labels.tif", "--out", "model.uncover")
    assert "model.uncover exists already; replace it with --overwrite" in run(*again).stderr
    made = run(*again, "--overwrite", "--mask-classes", "none")
    assert made.exit_code == 0, made.output
    everything = load_model(tmp_path / "model.uncover")
    assert where.sum() < everything.class_count_.sum() <= (labels > 0).sum()


def _lulucf():
    from uncover.pipeline import LabelOptions

    return LabelOptions(scheme="ukceh-lulucf")


@pytest.mark.parametrize("product", ["L1C_03.01", "L2A_05.09"])
def test_other_products_fit_too(run, tmp_path, product):
    tree, maps, _ = safe_with_labels(tmp_path, product)
    made = run(
        "fit",
        "--model",
        "published",
        tree.path,
        "--labels",
        maps[0],
        "--scheme",
        "ukceh-lulucf",
        "--out",
        "model.uncover",
    )
    assert made.exit_code == 0, made.output
    assert load_model(tmp_path / "model.uncover").n_features_in_ == 10


# ---- plain rasters, cubes, tables: one small problem in four dresses ------------------------------------


def test_a_raster_stack_gives_the_model_of_its_arrays(problem, tmp_path):
    codes, values, options = problem
    fitted = fit_model([tmp_path / "scene.tif"], options)
    assert_same_model(fitted.model, BayesianQDA().fit(values[codes > 0][:, 0], names_of(codes[codes > 0])))


@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_a_cube_gives_the_model_of_its_arrays(problem, tmp_path, kind):
    codes, values, options = problem
    clouds = np.zeros(GRID.shape, np.uint16)
    clouds[5:9, 7:20] = 4

    def produce(window):
        part = np.moveaxis(values[window.slices], (2, 3), (0, 1))
        return CubeBlock(window, part, clouds[window.slices])

    write_cube(tmp_path / "cube.zarr", CubeLayout(GRID, ("a", "b", "c", "d"), 3, "scene-1"), produce)
    options = FitOptions(model="published", labels=options.labels, scheme="lulucf", realisations=kind)
    fitted = fit_model([tmp_path / "cube.zarr"], options)
    where = (codes > 0) & (clouds == 0)
    expected = BayesianQDA(realisations=kind).fit(values[where], names_of(codes[where]))
    assert_same_model(fitted.model, expected)
    assert fitted.provenance["sources"][0]["name"] == "scene-1"


def test_a_cube_is_cut_to_the_area_and_the_bands(problem, tmp_path):
    codes, values, options = problem

    def produce(window):
        part = np.moveaxis(values[window.slices], (2, 3), (0, 1))
        return CubeBlock(window, part, np.zeros(window.shape, np.uint16))

    write_cube(tmp_path / "cube.zarr", CubeLayout(GRID, ("a", "b", "c", "d"), 3), produce)
    area = SceneOptions(bands=("c", "a"), bbox=(500100, 5699700, 500400, 5699900), bbox_crs="EPSG:32630")
    fitted = fit_model(
        [tmp_path / "cube.zarr"],
        FitOptions(model="published", labels=options.labels, scheme="lulucf", scene=area),
    )
    part = np.s_[10:30, 10:40]
    where = codes[part] > 0
    expected = BayesianQDA().fit(values[part][where][..., [2, 0]], names_of(codes[part][where]))
    assert_same_model(fitted.model, expected)
    assert list(fitted.model.feature_names_in_) == ["c", "a"]


def test_a_sample_cube_gives_the_model_of_its_arrays(problem, tmp_path):
    codes, values, _ = problem
    X, y = values[codes > 0], codes[codes > 0]
    windows = [Window(start, 0, min(100, len(y) - start), 1) for start in range(0, len(y), 100)]

    def produce(window):
        rows = slice(window.row, window.row + window.height)
        return SampleBlock(X[rows], {"label": y[rows]})

    write_samples(
        tmp_path / "samples.zarr",
        ("a", "b", "c", "d"),
        windows,
        produce,
        attributes={"scheme": SCHEME.as_dict()},
    )
    fitted = fit_model([tmp_path / "samples.zarr"], FitOptions(model="published"))
    assert_same_model(fitted.model, BayesianQDA().fit(X, names_of(y)))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".csv.gz"])
def test_a_table_gives_the_model_of_its_arrays(problem, tmp_path, suffix):
    codes, values, _ = problem
    frame = table_of(values, codes)
    path = tmp_path / f"pixels{suffix}"
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    fitted = fit_model([path], FitOptions(model="published"))
    assert_same_model(
        fitted.model, BayesianQDA().fit(values[codes > 0][:, 0].astype(float), names_of(codes[codes > 0]))
    )


@pytest.mark.parametrize("named", [True, False])
def test_a_table_with_realisations_gives_the_model_of_its_arrays(problem, tmp_path, named):
    codes, values, _ = problem
    frame = table_of(values, codes, realisations=True)
    frame = frame.sample(frac=1, random_state=0) if named else frame.drop(columns="sample")
    frame.to_csv(tmp_path / "pixels.csv", index=False)
    fitted = fit_model([tmp_path / "pixels.csv"], FitOptions(model="published", realisations="repeats"))
    expected = BayesianQDA(realisations="repeats").fit(
        values[codes > 0].astype(float), names_of(codes[codes > 0])
    )
    assert_same_model(fitted.model, expected, rtol=1e-8)


def test_a_scene_and_a_table_add_up(problem, tmp_path):
    codes, values, options = problem
    frame = table_of(values + np.float32(0.01), codes)[["d", "c", "b", "a", "land_cover"]]  # columns by name
    frame.to_csv(tmp_path / "more.csv", index=False)
    fitted = fit_model([tmp_path / "scene.tif", tmp_path / "more.csv"], options)
    X, y = values[codes > 0][:, 0], names_of(codes[codes > 0])
    expected = BayesianQDA().fit(
        np.concatenate([X, (X + np.float32(0.01))]).astype(float), np.concatenate([y, y])
    )
    assert_same_model(fitted.model, expected, rtol=1e-7)


@pytest.mark.parametrize("numbers", [400, 4000])
def test_the_model_does_not_depend_on_batches(problem, tmp_path, monkeypatch, numbers):
    _, _, options = problem
    whole = fit_model([tmp_path / "scene.tif"], options).model
    table_of(problem[1], problem[0]).to_csv(tmp_path / "pixels.csv", index=False)
    rows = fit_model([tmp_path / "pixels.csv"], FitOptions(model="published")).model
    monkeypatch.setattr(training_sources, "BATCH_NUMBERS", numbers)
    assert_same_model(fit_model([tmp_path / "pixels.csv"], FitOptions(model="published")).model, rows)
    assert_same_model(fit_model([tmp_path / "scene.tif"], options).model, whole)


# ---- the draw ------------------------------------------------------------------------------------------


def test_the_draw_is_of_the_labels_not_of_the_scene(problem, tmp_path):
    """Two dates of one place give the same pixels; more pixels include fewer."""
    _, values, options = problem
    write_map(tmp_path / "later.tif", *np.moveaxis(values[..., 1, :], -1, 0))
    few = FitOptions(
        model="published",
        labels=options.labels,
        scheme="lulucf",
        scene=options.scene,
        draw=Draw(count=60),
        seed=9,
    )
    one, two = (training_sources.open_sources([tmp_path / f], few)[0] for f in ("scene.tif", "later.tif"))
    assert_array_equal(one.codes, two.codes)
    assert (one.codes > 0).sum() == 60
    many = FitOptions(
        model="published",
        labels=options.labels,
        scheme="lulucf",
        scene=options.scene,
        draw=Draw(count=90),
        seed=9,
    )
    more = training_sources.open_sources([tmp_path / "scene.tif"], many)[0]
    assert ((more.codes > 0) | (one.codes == 0)).all()
    both = fit_model([tmp_path / "scene.tif", tmp_path / "later.tif"], few).model
    X, y = values[one.codes > 0], names_of(one.codes[one.codes > 0])
    expected = BayesianQDA().fit(np.concatenate([X[:, 0], X[:, 1]]), np.concatenate([y, y]))
    assert_same_model(both, expected)


def test_the_same_command_gives_the_same_file(problem, run, tmp_path):
    for name in ("one", "two"):
        made = run(
            "fit", "--model", "published",
            "scene.tif", "--bands", "a,b,c,d", "--labels", "labels.tif", "--scheme", "lulucf",
            "--count", 50, "--allocation", "stratified", "--out", f"{name}.uncover",
        )  # fmt: skip
        assert made.exit_code == 0, made.output
    assert (tmp_path / "one.uncover").read_bytes() == (tmp_path / "two.uncover").read_bytes()


def test_polygons_as_labels(run, tmp_path):
    path = shared("sen2_amazon")
    made = run(
        "fit", "--model", "published",
        path / "sen2.tif", "--offset", -0.1, "--labels", path / "trainingPolygons_sen2.gpkg",
        "--class-field", "class", "--out", "model.uncover",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    model = load_model(tmp_path / "model.uncover")
    assert set(model.classes_) == {"forest", "village", "water", "dryout"}
    scene = open_scene(path / "sen2.tif", SceneOptions(offset=-0.1))
    assert model.n_features_in_ == len(scene.bands)


def test_a_published_table_of_pixels(run, tmp_path):
    path = shared("sen2_amazon") / "pixels_sen2.csv"
    made = run("fit", "--model", "published", path, "--out", "model.uncover")
    assert made.exit_code == 0, made.output
    frame = pandas.read_csv(path)
    bands = [c for c in frame.columns if c.startswith("B")]
    model = load_model(tmp_path / "model.uncover")
    assert_same_model(model, BayesianQDA().fit(frame[bands].to_numpy(), frame["class"].to_numpy()))
    assert list(model.feature_names_in_)[:2] == ["B01", "B02"]


def test_a_table_whose_class_column_has_to_be_named(refused, run, tmp_path):
    path = shared("statlog") / "Satellite.csv.gz"
    made = run("fit", "--model", "published", path, "--class-field", "classes", "--out", "model.uncover")
    assert made.exit_code == 0, made.output
    assert load_model(tmp_path / "model.uncover").n_features_in_ == 36
    assert "has no column 'kind'" in refused("fit", path, "--class-field", "kind", "--out", "other.uncover")


def test_class_shares_by_name_or_table_are_those_of_the_model(problem, run, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).to_csv("pixels.csv", index=False)
    names = sorted(set(names_of(codes[codes > 0])))
    total = sum(range(1, len(names) + 1))
    shares = {name: i / total for i, name in enumerate(names, start=1)}
    text = ",".join(f"{name}={share!r}" for name, share in shares.items())
    rows = "".join(f"{name},{share!r}\n" for name, share in shares.items())
    (tmp_path / "shares.csv").write_text(f"class,share\n{rows}")
    for given in (text, "shares.csv"):
        words = ("fit", "--model", "published", "pixels.csv", "--class-prior", given, "--overwrite")
        made = run(*words, "--out", "model.uncover")
        assert made.exit_code == 0, made.output
        found = load_model("model.uncover").model_
        assert_allclose(found.concentration / found.concentration.sum(), list(shares.values()), rtol=1e-6)
