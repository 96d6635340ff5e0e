"""Clusters are numbered by size, whatever k-means called them."""

import numpy as np
import pytest
import torch
from quick import make

from acova import ACOVA, BSV
from acova.clustering.components import likely_clusters
from acova.clustering.kmeans import k_means
from acova.clustering.numbering import cluster_order, is_in_order, renumbered
from acova.estimators import list_methods
from acova.estimators._deep import DeepClusterer
from acova.estimators.registry import METHODS
from acova.metrics import clustering_scores
from acova.training.consensus import Ensemble
from conftest import SMALL, AnotherKMeans, make_toy


def in_order(labels, n_clusters):
    """Sizes and first samples of the clusters, computed one by one."""
    found = [np.flatnonzero(labels == k) for k in range(n_clusters)]
    keys = [(-len(rows), rows[0] if len(rows) else len(labels), k) for k, rows in enumerate(found)]
    return keys == sorted(keys)


def test_the_largest_comes_first_and_the_first_sample_decides_between_equals():
    labels = np.array([3, 1, 1, 4, 4, 3, 0, 0, 0])
    assert cluster_order(labels, 7).tolist() == [0, 3, 1, 4, 2, 5, 6]
    assert renumbered(labels, cluster_order(labels, 7)).tolist() == [1, 2, 2, 3, 3, 1, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 50, 10_000])
def test_the_order_does_not_depend_on_the_numbers_before(n, tmp_path):
    rng = np.random.default_rng(n)
    labels = rng.integers(6, size=n)
    ours = renumbered(labels, cluster_order(labels, 8))
    assert in_order(ours, 8)
    assert is_in_order(cluster_order(ours, 8))
    names = rng.permutation(8)
    np.testing.assert_array_equal(renumbered(names[labels], cluster_order(names[labels], 8)), ours)
    if n:
        np.save(tmp_path / "labels.npy", labels)
        on_disk = np.load(tmp_path / "labels.npy", mmap_mode="r")
        np.testing.assert_array_equal(cluster_order(on_disk, 8), cluster_order(labels, 8))


def points(n=200, n_clusters=4, size=3):
    rng = np.random.default_rng(0)
    return 9 * rng.normal(size=(n_clusters, size))[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, size))


def test_k_means_gives_the_same_bits_from_restarts_with_other_numbers(monkeypatch):
    plain, likely = k_means(points(), 4, 0), likely_clusters(points(), 4, 0)
    monkeypatch.setattr("acova.clustering.kmeans.KMeans", AnotherKMeans)
    other = k_means(points(), 4, 0)
    np.testing.assert_array_equal(other.labels, plain.labels)
    np.testing.assert_array_equal(other.centers, plain.centers)
    assert other.inertia == plain.inertia
    np.testing.assert_array_equal(likely_clusters(points(), 4, 0), likely)
    assert in_order(plain.labels, 4)
    assert in_order(likely, 4)


def test_k_means_keeps_its_centres_where_it_stops_before_it_has_converged(monkeypatch):
    from sklearn.cluster import KMeans

    rows = np.random.default_rng(0).normal(size=(2000, 2))
    monkeypatch.setattr("acova.clustering.kmeans.KMeans", lambda *a, **k: KMeans(*a, **k, tol=0.5))
    theirs = KMeans(5, n_init=10, random_state=0, tol=0.5).fit(rows)
    ours = k_means(rows, 5, 0)
    order = cluster_order(theirs.labels_, 5)
    assert not np.allclose(theirs.cluster_centers_[order[0]], rows[ours.labels == 0].mean(0), rtol=1e-6)
    np.testing.assert_array_equal(ours.centers, theirs.cluster_centers_[order])
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-10)


def test_with_fewer_distinct_points_than_clusters_the_empty_ones_are_last():
    found = k_means(np.repeat([[0.0], [1.0]], [3, 5], axis=0), 4, 0)
    assert found.n_distinct == 2
    assert in_order(found.labels, 4)
    assert np.isfinite(found.centers).all()


@pytest.mark.parametrize("name", [n for n in list_methods() if not hasattr(METHODS[n], "oracle_labels")])
def test_a_renumbered_network_says_the_same_of_other_numbers(name):
    if not issubclass(METHODS[name], DeepClusterer):
        pytest.skip("has no network")
    network = make(name)._prepare(make_toy(sizes=(4, 3))[0], None).jobs[0].network()
    if hasattr(network.prior, "place"):
        size = network.prior.means.shape[1]
        network.prior.place(torch.randn(3, size), 1 + torch.rand(3, size))
    if hasattr(network, "donors"):
        network.donors.set(torch.randn(9, *network.donors.codes.shape[1:]), torch.ones(9, 2, dtype=torch.bool))
    views, observed = [torch.randn(9, 4), torch.randn(9, 3)], torch.ones(9, 2, dtype=torch.bool)
    order = torch.tensor([2, 0, 1])

    def shares():
        return network.prior.log_responsibilities(network.posterior(views, observed).mean).exp().detach()

    before = shares()
    ensemble = Ensemble([network], np.array([[1, 2, 0]])).renumbered(order.numpy())
    assert ensemble.orders.tolist() == [[0, 1, 2]]
    torch.testing.assert_close(shares(), before[:, [1, 2, 0]][:, order])


def test_a_consensus_is_numbered_in_every_network(toy):
    model = ACOVA.from_settings(3, **SMALL | {"n_init": 3, "consensus": True}).fit(toy[0])
    assert in_order(model.labels_, 3)
    np.testing.assert_array_equal(model._ensemble.orders, np.tile(np.arange(3), (3, 1)))
    np.testing.assert_array_equal(model.network_.prior.means.numpy(), model.means_)
    table = model.assignments()
    counts = table["label"].value_counts().sort_index().to_numpy()
    assert (np.diff(counts) <= 0).all()
    first = next(v for v in range(3) if toy[0].observed[:, v].any())
    np.testing.assert_array_equal(
        model.summary_.rows[:, first], [toy[0].observed[model.labels_ == k, first].sum() for k in range(3)]
    )


def test_every_view_of_bsv_is_numbered_by_itself(toy):
    model = BSV(3, random_state=0).fit(toy[0])
    for labels in model.labels_by_view_.T:
        assert in_order(labels, 3)


def test_the_oracle_of_hidden_cells_is_numbered_by_its_own_labels():
    views, _ = make_toy(missing=0.0)
    with pytest.warns(UserWarning, match="oracle_leak"):
        model = make("CPSPAN", oracle_leak=True).fit(views, observed=make_toy()[0].observed)
    assert in_order(model.labels_, 3)
    np.testing.assert_array_equal(model.labels_, model.probabilities_.argmax(1))
    np.testing.assert_array_equal(model.summary_.rows.max(axis=1) <= np.bincount(model.labels_), True)


def test_no_score_depends_on_the_numbers():
    rng = np.random.default_rng(0)
    for n_clusters in (2, 5, 9):
        classes, labels = rng.integers(4, size=300), rng.integers(n_clusters, size=300)
        ours = renumbered(labels, cluster_order(labels, n_clusters))
        assert not (ours == labels).all()
        assert clustering_scores(classes, ours) == pytest.approx(clustering_scores(classes, labels), rel=1e-12)
