from collections import Counter

import numpy as np
import pandas as pd
import pytest

from acova.data import StoredViews, Summary, Views, summary
from acova.data.summary import count_patterns
from conftest import make_toy


def test_moments_are_those_pandas_groups(toy, monkeypatch):
    monkeypatch.setattr(summary, "BLOCK", 17)  # the last block is shorter
    views, labels = toy
    told = Summary.of(views, labels, 4)  # the last cluster is empty
    for v, array in enumerate(views.arrays):
        groups = pd.DataFrame(array + 0.0).groupby(labels)
        np.testing.assert_allclose(told.means[v][:3], groups.mean(), rtol=1e-9)
        np.testing.assert_allclose(told.stds[v][:3], groups.std(ddof=0), rtol=1e-9)
        np.testing.assert_array_equal(told.rows[:3, v], groups[0].count())
        assert np.isnan(told.means[v][3]).all()
    assert (told.rows[3] == 0).all()


def test_far_values_keep_their_spread():
    rng = np.random.default_rng(0)
    array = 1e9 + rng.normal(size=(300, 2))
    told = Summary.of(Views.of([array]), np.arange(300) % 2, 2)
    np.testing.assert_allclose(told.stds[0][0], array[::2].std(axis=0), rtol=1e-5)


def test_patterns_are_counted_most_frequent_first(toy, monkeypatch):
    monkeypatch.setattr(summary, "BLOCK", 50)
    views, labels = toy
    told = Summary.of(views, labels, 3)
    counted = Counter(map(tuple, views.observed.tolist()))
    assert {tuple(p): c for p, c in zip(told.patterns.tolist(), told.counts.tolist(), strict=True)} == counted
    assert told.counts.tolist() == sorted(counted.values(), reverse=True)


def test_equal_counts_come_with_more_views_first():
    patterns, counts = count_patterns(np.array([[0, 1], [1, 0], [1, 1]], dtype=bool))
    assert counts.tolist() == [1, 1, 1]
    assert patterns.tolist() == [[True, True], [True, False], [False, True]]


@pytest.mark.parametrize("block", [64, 4096])
def test_views_on_disk_give_the_same(tmp_path, monkeypatch, block):
    monkeypatch.setattr(summary, "BLOCK", block)
    views, labels = make_toy()
    for name, array in zip(views.names, views.arrays, strict=True):
        np.save(tmp_path / f"{name}.npy", array.astype(np.float64))
    stored = StoredViews.of({name: tmp_path / f"{name}.npy" for name in views.names})
    told, expected = Summary.of(stored, labels, 3), Summary.of(views, labels, 3)
    np.testing.assert_array_equal(told.patterns, expected.patterns)
    for mine, theirs in zip(told.means, expected.means, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_labels_may_be_mapped_from_disk(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "BLOCK", 50)
    views, labels = toy
    np.save(tmp_path / "labels.npy", labels)
    told, expected = (
        Summary.of(views, given, 3) for given in (np.load(tmp_path / "labels.npy", mmap_mode="r"), labels)
    )
    np.testing.assert_array_equal(told.means[0], expected.means[0])
