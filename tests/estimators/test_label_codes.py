"""Labels become numbers of classes: by a table where they are whole numbers, by sorting otherwise."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from uncover import BayesianQDA
from uncover.estimators.inputs import different, encode

KINDS = ["int8", "uint8", "int16", "int64", "uint64", "float64", "bool", "str", "object"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [(0, 1), (1, 2, 3, 7), (0, 100)])
def test_labels_are_encoded_as_by_sorting(kind, values):
    y = np.random.default_rng(0).choice(values, 1000).astype(kind)
    classes, codes = np.unique(y, return_inverse=True)
    found = different(y)
    assert found.dtype == y.dtype
    assert_array_equal(found, classes)
    assert_array_equal(encode(y, found), codes)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_labels_may_span_the_whole_of_their_type(kind):
    ends = np.iinfo(kind)
    y = np.repeat(np.array([ends.min, -1, 0, ends.max], kind), 300)
    assert_array_equal(different(y), [ends.min, -1, 0, ends.max])
    assert_array_equal(encode(y, different(y)), np.repeat(np.arange(4), 300))


@pytest.mark.parametrize("strange", [3, -5, 1000])
def test_a_label_that_is_not_among_the_classes_is_named(strange):
    y = np.repeat([1, 2, strange], 200)
    with pytest.raises(ValueError, match=rf"y has the class\(es\) \[{strange}\], which are not among"):
        encode(y, np.array([1, 2]))


def test_numbers_of_another_type_are_the_same_classes():
    y = np.repeat([1, 2], 200)
    assert_array_equal(encode(y, np.array([1.0, 2.0])), y - 1)


def test_names_are_not_numbers():
    with pytest.raises(ValueError, match="which are not among the classes"):
        encode(np.repeat([1, 2], 200), np.array(["a", "b"]))


def test_a_model_does_not_depend_on_how_classes_are_numbered():
    rng = np.random.default_rng(1)
    y = np.arange(400) % 4
    X = rng.normal(size=(400, 3)) + y[:, None]
    plain = BayesianQDA().fit(X, y)
    for names in (
        np.array([-120, -1, 3, 127], np.int8),
        np.array(["a", "b", "c", "d"]),
        np.arange(4) * 10**6,
    ):
        model = BayesianQDA().fit(X, names[y])
        assert_array_equal(model.classes_, names)
        assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
