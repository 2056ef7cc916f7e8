"""Laws of the training set: exact sizes, nested draws, groups on one side only, one seed one set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from uncover.labels import Draw, draw, split

SIZES = {1: 700, 2: 200, 5: 90, 6: 10}


@pytest.fixture
def labels():
    every = np.concatenate(
        [np.full(n, code, np.uint8) for code, n in SIZES.items()] + [np.zeros(500, np.uint8)]
    )
    return np.random.default_rng(0).permutation(every).reshape(30, 50)


def rng():
    return np.random.default_rng(42)


def test_no_fraction_and_no_count_takes_every_labelled_pixel(labels):
    assert_array_equal(draw(labels, Draw(), rng()), labels > 0)


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 1])
@pytest.mark.parametrize("allocation", ["proportional", "stratified"])
def test_a_draw_has_the_size_asked_for_and_labelled_pixels_only(labels, fraction, allocation):
    taken = draw(labels, Draw(fraction=fraction, allocation=allocation), rng())
    assert taken.sum() == round(fraction * 1000)
    assert labels[taken].all()


def test_proportional_keeps_the_shares_of_the_classes(labels):
    counts = np.bincount(labels[draw(labels, Draw(count=100), rng())], minlength=7)
    assert_array_equal(counts[[1, 2, 5, 6]], [70, 20, 9, 1])


def test_stratified_takes_the_same_of_each_class_as_far_as_it_goes(labels):
    counts = np.bincount(labels[draw(labels, Draw(count=40, allocation="stratified"), rng())], minlength=7)
    assert_array_equal(counts[[1, 2, 5, 6]], [10, 10, 10, 10])
    counts = np.bincount(labels[draw(labels, Draw(count=100, allocation="stratified"), rng())], minlength=7)
    assert_array_equal(counts[[1, 2, 5, 6]], [30, 30, 30, 10])


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6), data=st.data())
def test_smaller_draws_are_part_of_larger_ones(sizes, data):
    labels = np.repeat(np.arange(1, len(sizes) + 1, dtype=np.uint8), sizes)
    few = data.draw(st.integers(1, labels.size))
    many = data.draw(st.integers(few, labels.size))
    for allocation in ("proportional", "stratified"):
        small, large = (draw(labels, Draw(count=n, allocation=allocation), rng()) for n in (few, many))
        assert (large | ~small).all()


def test_the_seed_decides_and_nothing_else(labels):
    how = Draw(fraction=0.1)
    assert_array_equal(draw(labels, how, rng()), draw(labels, how, rng()))
    assert (draw(labels, how, rng()) != draw(labels, how, np.random.default_rng(1))).any()


def test_every_pixel_can_be_drawn_and_with_equal_chance():
    labels = np.ones(20, np.uint8)
    random = np.random.default_rng(3)
    times = sum(draw(labels, Draw(count=5), random).astype(int) for _ in range(4000))
    # binomial(4000, 1/4): the standard deviation is 27.4, and five of them hold for all 20 pixels
    assert np.abs(times - 1000).max() < 5 * 27.4


def test_split_by_pixel_keeps_the_share_of_each_class(labels):
    test = split(labels, 0.2, rng())
    assert_array_equal(np.bincount(labels[test], minlength=7)[[1, 2, 5, 6]], [140, 40, 18, 2])
    assert labels[test].all()


@settings(deadline=None)
@given(seed=st.integers(0, 500), share=st.floats(0.2, 0.8))
def test_split_by_group_never_divides_a_group(seed, share):
    random = np.random.default_rng(seed)
    groups = random.integers(0, 40, 600)
    labels = random.integers(0, 4, 600).astype(np.uint8)
    test = split(labels, share, random, groups)
    used = labels > 0
    assert not set(groups[test]) & set(groups[used & ~test])
    largest = np.bincount(groups[used]).max()
    assert (
        abs(test.sum() - share * used.sum()) <= 3 * largest
    )  # at most half a group per class, and shares differ


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"fraction": 0.1, "count": 5}, "both"),
        ({"fraction": 10}, "fraction of training pixels is 10"),
        ({"count": 0}, "at least 1"),
        ({"allocation": "equal"}, "'proportional' or 'stratified'"),
    ],
)
def test_impossible_draws_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        Draw(**arguments)


def test_asking_for_more_than_there_is_says_how_much_there_is(labels):
    with pytest.raises(ValueError, match="1001 training pixels are wanted and 1000 are labelled"):
        draw(labels, Draw(count=1001), rng())
    with pytest.raises(ValueError, match="no pixel is labelled"):
        draw(np.zeros(5, np.uint8), Draw(), rng())


def test_a_split_that_leaves_a_side_empty_is_refused(labels):
    with pytest.raises(ValueError, match="leaves one side empty"):
        split(labels, 0.2, rng(), groups=np.zeros(labels.shape, int))
    with pytest.raises(ValueError, match="between 0 and 1"):
        split(labels, 1.0, rng())
