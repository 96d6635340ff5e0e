"""Clusters at every scale: Ward's merges against scipy's of the samples, cuts, and the drawing."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage, linkage

from acova import ACOVA, AgreementGraph, Concat, KNNImpute
from acova.base import OptionError
from acova.clustering.tree import cut_tree, ward_tree
from acova.metrics import clustering_accuracy
from acova.plots import ClusterTreeDisplay

COARSE, FINE = np.arange(160) % 8 // 2, np.arange(160) % 8


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    latent = 12 * np.eye(4)[COARSE] + 4 * rng.normal(size=(8, 4))[FINE] / 2 + 0.4 * rng.normal(size=(160, 4))
    arrays = [latent @ rng.normal(size=(4, width)) + 0.2 * rng.normal(size=(160, width)) for width in (9, 6)]
    arrays[0][:20] = np.nan
    return arrays


def test_merges_are_those_of_scipy_for_clusters_of_one_sample():
    means = np.random.default_rng(0).normal(size=(9, 3))
    known = linkage(means, "ward")
    found = ward_tree(means, np.ones(9, dtype=int))
    np.testing.assert_array_equal(found[:, [0, 1, 3]], known[:, [0, 1, 3]])
    costs = known[:, 2] ** 2 / 2
    np.testing.assert_allclose(found[:, 2], costs.cumsum() / costs.sum())


def test_samples_count_as_so_many_equal_points():
    rng = np.random.default_rng(1)
    means, sizes = rng.normal(size=(5, 2)), np.array([4, 1, 7, 2, 3])
    known = linkage(np.repeat(means, sizes, axis=0), "ward")[-4:, 2] ** 2 / 2  # merges of equal points cost nothing
    np.testing.assert_allclose(ward_tree(means, sizes)[:, 2], known.cumsum() / known.sum())


def test_cuts_are_nested_and_numbered_by_size():
    merges = ward_tree(np.array([[0.0], [1.0], [10.0], [12.0]]), np.array([5, 4, 3, 1]))
    labels = np.repeat([0, 1, 2, 3], [5, 4, 3, 1])
    np.testing.assert_array_equal(cut_tree(merges, labels, 4), labels)
    assert np.bincount(cut_tree(merges, labels, 2)).tolist() == [9, 4]
    assert set(cut_tree(merges, labels, 1)) == {0}
    assert ward_tree(np.zeros((1, 2)), np.array([3])).shape == (0, 4)
    assert set(cut_tree(np.zeros((0, 4)), np.zeros(3, dtype=np.int64), 1)) == {0}


def test_empty_clusters_cost_nothing():
    merges = ward_tree(np.array([[0.0], [5.0], [0.0]]), np.array([3, 2, 0]))
    assert is_valid_linkage(merges)
    assert merges[0, 2] == 0
    assert merges[-1, 2] == 1


@pytest.mark.parametrize("method", [AgreementGraph, KNNImpute])
def test_a_cut_finds_the_groups_of_groups(views, method):
    model = method(8, random_state=0).fit(views)
    assert clustering_accuracy(FINE, model.labels_) > 0.8
    assert clustering_accuracy(COARSE, model.cut(4)) > 0.9
    assert is_valid_linkage(model.cluster_tree_)
    np.testing.assert_array_equal(model.cut(8), model.labels_)


def test_views_count_as_far_as_they_are_trusted(views):
    model = AgreementGraph(4, view_weights=[0, 1], random_state=0).fit(views)
    alone = np.nan_to_num((model.summary_.means[1] - model._scaling.centers[1]) / model._scaling.scales[1])
    expected = ward_tree(alone, np.bincount(model.labels_, minlength=4))
    np.testing.assert_allclose(model.cluster_tree_, expected, atol=1e-9)


def test_it_is_drawn_with_names_and_sizes(views):
    model = AgreementGraph(8, random_state=0).fit(views)
    display = ClusterTreeDisplay.from_estimator(model)
    sizes = np.bincount(model.labels_, minlength=8)
    assert {tick.get_text() for tick in display.ax_.get_yticklabels()} == {f"{k} ({n})" for k, n in enumerate(sizes)}
    [lines] = [group for group in display.ax_.collections if len(group.get_segments())]
    assert len(lines.get_segments()) == 7
    assert ClusterTreeDisplay(np.zeros((0, 4)), [5]).plot().ax_.get_yticklabels()[0].get_text() == "0 (5)"


def test_what_cannot_be_cut_is_refused(views):
    model = Concat(3, random_state=0).fit(views)
    with pytest.raises(OptionError, match=r"Concat\.cut: n_groups must be an integer at least 1 and at most 3; got 4"):
        model.cut(4)
    with pytest.raises(Exception, match="not fitted"):
        ACOVA(3).cut(2)
