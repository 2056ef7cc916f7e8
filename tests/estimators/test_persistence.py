"""Model files: the same model back, in any process; and nothing else gets in."""

import hashlib
import io
import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from uncover import (
    NIW,
    BayesianClassifier,
    BayesianLDA,
    BayesianMDA,
    BayesianNB,
    BayesianQDA,
    ConformalSets,
    ModelFileError,
    __version__,
    load_model,
)
from uncover.measurement.pooled import make_summariser
from uncover.measurement.summary import PixelSummary
from uncover.models.files import load_fitted, save_fitted
from uncover.models.record import ModelRecord

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
KINDS = ["pooled", "repeats", "draws", "shared"]
PRIOR = NIW([0.0, 0.0], 0.5, np.eye(2), 4.0)


@pytest.fixture
def problem(rng):
    y = np.array(["water", "wood land", "ü/\\\"'<&>\n\t☃"])[np.arange(60) % 3]
    X = rng.normal(size=(60, 4, 2)) + (np.arange(60) % 3)[:, None, None]
    return X, y


@pytest.fixture
def file(problem, tmp_path):
    X, y = problem
    path = tmp_path / "m.uncover"
    BayesianQDA().fit(X, y).save(path)
    return path


def assert_refused(path, *words):
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    message = str(caught.value)
    with pytest.raises(ModelFileError) as light:
        load_fitted(path)
    assert str(light.value) == message
    assert "\n" not in message
    assert str(path) in message
    assert any(word in message for word in words), message


# ---- there and back --------------------------------------------------------------------------------------

SCRIPT = """
import sys, numpy as np
from uncover import load_model
clf = load_model(sys.argv[1])
x = np.load(sys.argv[2])
budget = clf.uncertainty(x[:5])
np.savez(sys.argv[3], proba=clf.predict_proba(x), log=clf.predict_log_proba(x), score=clf.score_samples(x),
         typical=clf.typicality(x), model=budget.model, measurement=budget.measurement,
         mu=clf.sample_posterior(3).mu, classes=clf.predict(x))
"""


@pytest.mark.parametrize(
    ("cls", "kind"), [(BayesianQDA, "repeats"), (BayesianLDA, "shared"), (BayesianNB, "pooled")]
)
def test_a_new_process_predicts_bit_for_bit_the_same(cls, kind, problem, tmp_path):
    X, y = problem
    clf = cls(realisations=kind, random_state=4).fit(X, y)
    clf.save(tmp_path / "m.uncover")
    np.save(tmp_path / "x.npy", X)
    names = [str(tmp_path / name) for name in ("m.uncover", "x.npy", "out.npz")]
    subprocess.run([sys.executable, "-c", SCRIPT, *names], check=True)
    budget = clf.uncertainty(X[:5])
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["proba"], clf.predict_proba(X))
        np.testing.assert_array_equal(out["log"], clf.predict_log_proba(X))
        np.testing.assert_array_equal(out["score"], clf.score_samples(X))
        np.testing.assert_array_equal(out["typical"], clf.typicality(X))
        np.testing.assert_array_equal(out["model"], budget.model)
        np.testing.assert_array_equal(out["measurement"], budget.measurement)
        np.testing.assert_array_equal(out["mu"], clf.sample_posterior(3).mu)
        np.testing.assert_array_equal(out["classes"], clf.predict(X))


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_light_model_reads_pixels_bit_for_bit_as_the_estimator(cls, kind, problem, tmp_path):
    X, y = problem
    clf = cls(realisations=kind, prior=PRIOR, random_state=4).fit(X, y)
    clf.save(tmp_path / "m", units="reflectance", provenance={"sources": []})
    light = load_fitted(tmp_path / "m")
    assert isinstance(light, ModelRecord)
    assert (light.units_, light.provenance_) == ("reflectance", {"sources": []})
    assert light.parameters.keys() == clf.get_params().keys()
    np.testing.assert_array_equal(light.means_, clf.means_)
    np.testing.assert_array_equal(light.covariances_, clf.covariances_)
    planes = np.moveaxis(X, 0, 2)
    for paired in (True, False):
        ours, theirs = (make_summariser(m, paired=paired).summarise(planes) for m in (light, clf))
        for name in PixelSummary.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize(
    "model",
    [
        BayesianMDA(prior=PRIOR),
        BayesianClassifier(),
        ConformalSets(BayesianQDA(), coverage=0.7),
        ConformalSets(BayesianClassifier(), coverage=0.7),
    ],
)
def test_models_of_several_parts_are_read_bit_for_bit_too(model, problem, tmp_path):
    X, y = problem[0][:, 0], problem[1]
    clf = model.fit(X, y)
    clf.save(tmp_path / "m", units="reflectance")
    light = load_fitted(tmp_path / "m")
    summary = make_summariser(light).summarise(X.T[None])
    np.testing.assert_allclose(summary.probability.T, clf.predict_proba(X), atol=1e-9)
    assert (light.sets_ is None) == (not isinstance(model, ConformalSets))
    if light.sets_ is not None:
        np.testing.assert_array_equal(light.sets_.inside(clf.predict_proba(X)), clf.predict_set(X))
        np.testing.assert_array_equal(load_model(tmp_path / "m").p_values(X), clf.p_values(X))
    save_fitted(light, tmp_path / "n", __version__)
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", ["weak", PRIOR])
def test_same_model_same_bytes_same_future(cls, kind, prior, problem, tmp_path):
    X, y = problem
    clf = cls(realisations=kind, prior=prior, class_prior=[1.0, 2.0, 0.5]).fit(X[:40], y[:40])
    clf.save(tmp_path / "a")
    clf.save(tmp_path / "b")
    loaded = load_model(tmp_path / "a")
    loaded.save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert loaded.describe() == clf.describe()
    if kind == "draws":
        return
    loaded.partial_fit(X[40:], y[40:])
    clf.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize(
    "classes",
    [
        [3, 1, 2],
        [1.0, 2.0, 3.0],
        ["a", "b", "c"],
        np.array(["x", "yy", "zzz"], dtype=object),
        np.array([1, 2, 3], np.uint8),
    ],
)
def test_labels_come_back_as_they_were(classes, problem, tmp_path):
    X, _ = problem
    y = np.asarray(classes)[np.arange(60) % 3]
    clf = BayesianQDA().fit(X, y)
    clf.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.classes_.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))


def test_truth_values_as_labels(problem, tmp_path):
    X, _ = problem
    BayesianQDA().fit(X, np.arange(60) % 2 == 0).save(tmp_path / "m")
    assert load_model(tmp_path / "m").classes_.tolist() == [False, True]


def test_names_units_and_provenance_travel(tmp_path, rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["B02", "B03"])
    BayesianQDA().fit(X, np.arange(20) % 2).save(
        tmp_path / "m", units="reflectance", provenance={"scenes": ["T31UCT"]}
    )
    loaded = load_model(tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == ["B02", "B03"]
    assert (loaded.units_, loaded.provenance_) == ("reflectance", {"scenes": ["T31UCT"]})
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X[["B03", "B02"]])
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def test_numpy_integers_are_seeds_too(problem, tmp_path):
    X, y = problem
    BayesianQDA(random_state=np.int64(3)).fit(X, y).save(tmp_path / "m")
    assert load_model(tmp_path / "m").random_state == 3


@pytest.mark.parametrize(
    ("save", "words"),
    [
        ({"units": {1, 2}}, "text and numbers"),
        ({"provenance": {"when": np.datetime64("2020")}}, "text and numbers"),
        ({"provenance": {"x": float("nan")}}, "text and numbers"),
        ({"units": "\ud800"}, "text and numbers"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_it_is_written(save, words, problem, tmp_path):
    X, y = problem
    with pytest.raises(TypeError, match=words):
        BayesianQDA().fit(X, y).save(tmp_path / "m", **save)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        BayesianQDA().save(tmp_path / "m")


# ---- broken, edited, foreign ----------------------------------------------------------------------------


def test_a_file_that_is_cut_off_is_refused_at_any_length(file):
    whole = file.read_bytes()
    lengths = {0, 1, 3, 4, 30, 63, 64, 65, len(whole) - 1, len(whole) - 64, *range(0, len(whole), 97)}
    for length in sorted(lengths):
        file.write_bytes(whole[:length])
        assert_refused(file, "cut off", "not a model file")


def test_a_file_with_any_byte_changed_is_refused(file):
    whole = file.read_bytes()
    for position in [*range(0, len(whole), 41), *range(len(whole) - 90, len(whole))]:
        edited = bytearray(whole)
        edited[position] ^= 0x01
        file.write_bytes(edited)
        assert_refused(file, "changed", "not a model file")


def test_a_file_with_bytes_added_is_refused(file):
    whole = file.read_bytes()
    for edited in (whole + b"\n", b"\n" + whole, whole + whole, whole[:100] + b"x" + whole[100:]):
        file.write_bytes(edited)
        assert_refused(file, "changed", "not a model file")


def _zip(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([object()], dtype=object), b=np.ones(3))
    return buffer.getvalue()


class Bomb:
    """Unpickling it would raise the flag."""

    def __reduce__(self):
        return exec, ("import builtins; builtins.uncover_was_tricked = True",)


FOREIGN = {
    "empty": b"",
    "text": b"This is not a model.\n",
    "json": b'{"format": "uncover-model"}',
    "png": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "pickle": pickle.dumps(Bomb()),
    "other zip": _zip({"readme.txt": b"hello"}),
    "zip with a model.json": _zip({"model.json": b"{}"}),
    "npz with objects": _npz(),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused_in_one_line(what, tmp_path):
    path = tmp_path / "m.uncover"
    path.write_bytes(FOREIGN[what])
    assert_refused(path, "not a model file", "checksum does not fit")
    assert not hasattr(__import__("builtins"), "uncover_was_tricked")


def test_no_file_and_a_folder(tmp_path):
    assert_refused(tmp_path / "nothing", "no such model file")
    assert_refused(tmp_path, "cannot be read")


# ---- forged: the seal is right, the content is not --------------------------------------------------------


def forge(path, change, compression=zipfile.ZIP_STORED):
    """Change the members of a model file and seal it again, as someone who knows the format could."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    content = buffer.getvalue()[:-64]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def huge_header():
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    return buffer.getvalue()


def edit(**changes):
    def change(members):
        document = json.loads(members["model.json"])
        document.update(changes)
        members["model.json"] = json.dumps(document).encode()

    return change


def put(name, content):
    return lambda members: members.update({name: content})


FORGED = {
    "pickle as array": put("arrays/class_prior.npy", npy(np.array([Bomb()], dtype=object), True)),
    "bare pickle as array": put("arrays/class_prior.npy", pickle.dumps(Bomb())),
    "json that is a list": put("model.json", b"[1]"),
    "json without end": put("model.json", b"[" * 200_000),
    "not json": put("model.json", b"\xff\xfe"),
    "another format": edit(format="something else"),
    "another estimator": edit(estimator="os.system"),
    "unknown parameter": edit(parameters={"prior": "weak", "class_prior": 1.0, "shell": "true"}),
    "an array of a petabyte": put("arrays/class_prior.npy", huge_header()),
    "array of another size": put("arrays/class_prior.npy", npy(np.ones(9))),
    "moments of another size": put("arrays/moments/mean.npy", npy(np.ones((7, 2)))),
    "indefinite scale": put("arrays/posterior/scale.npy", npy(-np.ones((3, 2, 2)))),
    "mask of another size": edit(ignored_features=[False] * 9),
    "missing array": lambda members: members.pop("arrays/posterior/dof.npy"),
    "scatter that is not symmetric": put(
        "arrays/moments/scatter.npy", npy(np.array([[[1.0, 2], [0, 1]]] * 3))
    ),
    "indefinite scatter": put("arrays/moments/scatter.npy", npy(np.array([[[1.0, 2], [2, 1]]] * 3))),
    "negative counts": put("arrays/moments/count.npy", npy(-np.ones(3))),
    "no samples": put("arrays/moments/count.npy", npy(np.zeros(3))),
    "more realisations than rows": edit(within_dof=2**32),
    "a class twice": edit(classes={"dtype": "<i8", "values": [1, 2, 2]}),
    "strange labels": edit(classes={"dtype": "wrong", "values": [1, 2, 3]}),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_files_are_refused_and_execute_nothing(what, file):
    forge(file, FORGED[what])
    assert_refused(file, "damaged", "inconsistent", "not a model file")
    assert not hasattr(__import__("builtins"), "uncover_was_tricked")


def test_the_forger_can_forge(file, problem):
    """What the other tests build on: a file that is sealed again without a change is accepted."""
    X, _ = problem
    before = load_model(file).predict_proba(X)
    forge(file, lambda members: None)
    np.testing.assert_array_equal(load_model(file).predict_proba(X), before)


def test_forged_parts_of_a_mixture_and_members_of_a_pool_are_refused(tmp_path, problem):
    X, y = problem
    path = tmp_path / "m.uncover"
    parts = put("arrays/class_of_part.npy", npy(np.array([0.0, 0.0, 2.0])))
    flat = put("arrays/member1/hessian.npy", npy(np.ones((9, 9))))
    for model, forged, words in (
        (BayesianMDA(), parts, "do not fit together"),
        (BayesianClassifier(), flat, "hessian is not positive definite"),
    ):
        model.fit(X[:, 0], y).save(path)
        load_model(path)
        forge(path, forged)
        assert_refused(path, words)


def test_a_file_that_would_grow_when_read_is_refused(file):
    forge(file, put("arrays/extra.npy", bytes(10**6)), zipfile.ZIP_DEFLATED)
    assert_refused(file, "compressed")


def test_a_file_of_a_later_format_says_so(file):
    forge(file, edit(format_version=99))
    assert_refused(file, "format version 99")


def test_a_pool_that_tempers_class_shares_is_to_be_fitted_again(tmp_path, problem):
    path = tmp_path / "pool.uncover"
    BayesianClassifier().fit(*problem).save(path)
    forge(path, edit(tempered=None))
    assert_refused(path, "pools raised class shares to powers; fit it again")


def test_a_model_of_draws_without_their_noise_is_to_be_fitted_again(tmp_path, problem):
    path = tmp_path / "m.uncover"
    BayesianQDA(realisations="draws").fit(*problem).save(path)
    forge(path, lambda members: members.pop("arrays/drawn/covariance.npy"))
    assert_refused(path, "the noise of its draws is absent; fit the model again")
