"""Views, scaling and summary with one view more or one less, against what is learned of all views at once."""

import numpy as np
import pandas as pd
import pytest

from acova import Views
from acova.base import DataError
from acova.data import Scaling, Summary
from acova.data.growth import (
    last_view,
    place_of,
    scaling_with,
    scaling_without,
    split_announced,
    summary_without,
    with_view,
    with_view_of,
)
from acova.training.completions import with_completions
from conftest import make_toy


@pytest.fixture(scope="module")
def toy():
    return make_toy(n_samples=60)[0]


def same(views, other):
    assert views.names == other.names
    assert views.columns == other.columns
    assert views.index.equals(other.index)
    np.testing.assert_array_equal(views.observed, other.observed)
    for ours, theirs in zip(views.arrays, other.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_view_that_is_taken_off_and_put_back(toy):
    name = toy.names[-1]
    rest = toy.without([name])
    assert rest.names == toy.names[:-1]
    kept = toy.observed[:, :-1].any(axis=1)
    assert len(rest) == kept.sum()
    same(with_view(rest, name, toy.arrays[-1][kept]), toy.take(kept))
    same(with_view_of(rest, toy.take(kept), name), toy.take(kept))


def test_frames_are_joined_on_the_index_and_words_are_encoded(toy):
    rest = toy.without([toy.names[-1]])
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "stage": ["x", "y", "x"]}, index=[3, 900, 5])
    joined = with_view(rest, "clinic", frame)
    assert joined.columns[-1] == ("a", "stage=x", "stage=y")
    assert joined.categories[-1] == {"stage": ("x", "y")}
    assert joined.index.tolist() == [*rest.index, 900]
    assert joined.observed[-1].tolist() == [False, False, True]
    np.testing.assert_array_equal(joined.arrays[-1][-1], [2, 0, 1])
    assert joined.empty[-1].sum() == 1
    alone = last_view(joined)
    assert alone.index.tolist() == [3, 5, 900]


def test_the_scaling_of_all_views_is_that_of_each(toy):
    kinds = ("zscore", "range", "robust")
    whole = Scaling.fit(toy, kinds)
    rest, last = toy.without([toy.names[2]]), last_view(toy)
    grown = scaling_with(Scaling.fit(rest, kinds[:2]), Scaling.fit(last, kinds[2:]))
    for ours, theirs in zip(grown.transform(toy), whole.transform(toy), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    fewer = scaling_without(whole, 1)
    for ours, theirs in zip(fewer.transform(toy.without([toy.names[1]])), np.array([0, 2]), strict=True):
        rows = toy.observed[:, [0, 2]].any(axis=1)
        np.testing.assert_array_equal(ours, whole.transform(toy)[theirs][rows])


def test_empty_cells_are_completed_by_the_views_that_were_learned_together(toy):
    numbers = np.random.default_rng(0)
    arrays = [np.where(numbers.random(a.shape) < 0.1, np.nan, a) for a in toy.arrays]
    views = Views.of(arrays)
    rest, last = views.without([views.names[2]]), last_view(views)
    kinds = ("zscore",) * 3
    old = with_completions(Scaling.fit(rest, kinds[:2]), rest, [True, True], marks=True)
    new = with_completions(Scaling.fit(last, kinds[2:]), last, [True], marks=True)
    grown = scaling_with(old, new)
    assert grown.marks == (True, True, True)
    found = grown.transform(views)
    rows = views.observed[:, :2].any(axis=1)
    for ours, theirs in zip(found, old.transform(rest), strict=False):
        np.testing.assert_allclose(ours[rows], theirs, atol=1e-5)
    np.testing.assert_allclose(found[2][views.observed[:, 2]], new.transform(last)[0], atol=1e-5)
    back = scaling_without(grown, 2)
    for ours, theirs in zip(back.transform(rest), old.transform(rest), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    without_holes = scaling_with(Scaling.fit(toy.without([toy.names[2]]), kinds[:2]), new)
    assert without_holes.marks == (False, False, True)
    np.testing.assert_allclose(
        without_holes.transform(with_view_of(toy.without([toy.names[2]]), views, views.names[2]))[2].sum(),
        found[2][rows | views.observed[:, 2]].sum(),
        atol=1e-2,
    )


def test_a_summary_without_a_view_is_that_of_the_others(toy):
    labels = np.arange(len(toy)) % 3
    fewer = summary_without(Summary.of(toy, labels, 3), 1)
    rest = toy.without([toy.names[1]])
    rows = toy.observed[:, [0, 2]].any(axis=1)
    expected = Summary.of(rest, labels[rows], 3)
    some = fewer.patterns.any(axis=1)
    np.testing.assert_array_equal(fewer.patterns[some], expected.patterns)
    np.testing.assert_array_equal(fewer.counts[some], expected.counts)
    np.testing.assert_array_equal(fewer.by_cluster[some], expected.by_cluster)
    np.testing.assert_array_equal(fewer.rows, expected.rows)
    for ours, theirs in zip(fewer.means, expected.means, strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert fewer.counts.sum() == len(toy)


def test_announced_views(toy):
    name = toy.names[-1]
    hidden = toy.without([name])
    told = hidden.announce("later", 7).announce("named", ["a", "b"])
    assert told.announced == {"later": 7, "named": ("a", "b")}
    assert told.hide(told.observed).take(slice(5)).announced == told.announced
    nothing = with_view(hidden, "later", np.full((len(hidden), 7), np.nan))
    assert nothing.announce("later").announced == {"later": 7}
    assert nothing.announce("later").names == hidden.names
    rest, arrived = split_announced(nothing, told.announced)
    assert (rest.names, arrived) == (hidden.names, [])
    some = with_view(hidden, "later", np.ones((len(hidden), 7)))
    assert split_announced(some, told.announced)[1] == ["later"]
    with pytest.raises(DataError, match="View 'later' is observed, so there is nothing to announce"):
        some.announce("later")
    with pytest.raises(DataError, match="View 'x' is announced with columns=None; say how many it will have"):
        hidden.announce("x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda views: with_view(views, "text", np.ones((60, 2))), "View 'text' is there already"),
        (lambda views: with_view(views, "x", np.ones((3, 2))), "View 'x' has 3 rows but view 'image' has 60"),
        (lambda views: last_view(with_view(views, "x", np.full((60, 2), np.nan))), "'x' is observed for no sample"),
        (lambda views: views.without(views.names), "there is no view left"),
        (lambda views: place_of("imag", views.names, "who"), r"who: there is no view 'imag'.*Did you mean 'image'\?"),
    ],
)
def test_what_cannot_be(toy, change, message):
    with pytest.raises(DataError, match=message):
        change(toy)
