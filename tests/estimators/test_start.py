import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from acova.clustering.components import components_around, likely_clusters, mixture_likelihood
from acova.metrics import clustering_accuracy
from acova.training.correlation_starts import code_similarity
from acova.training.starts import averaged_codes


def test_codes_of_complete_samples_are_averaged_over_the_views():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(50, 3, 2))
    observed = rng.random((50, 3)) < 0.9
    np.testing.assert_allclose(averaged_codes(codes, observed, 2), codes[observed.all(1)].mean(1))


def test_with_few_complete_samples_all_count_by_the_views_they_have():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(30, 3, 2))
    observed = rng.random((30, 3)) < 0.4
    observed[:, 0] |= ~observed.any(1)
    expected = [codes[i, observed[i]].mean(0) for i in range(30)]
    np.testing.assert_allclose(averaged_codes(codes, observed, 3), expected)


def test_components_have_the_moments_of_their_samples():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], [20, 30, 50])
    mean = np.array([[0, 0], [50, 0], [0, 50]])[label] + rng.normal(size=(100, 2))
    variance = rng.random((100, 2))
    centres, spread = components_around(mean, variance, np.eye(3)[label])
    draws = mean + np.sqrt(variance) * rng.normal(size=(20_000, 1, 2))
    for k in range(3):
        mine = label == k
        np.testing.assert_allclose(centres[k], mean[mine].mean(0))
        np.testing.assert_allclose(spread[k], mean[mine].var(0) + variance[mine].mean(0))
        np.testing.assert_allclose(spread[k], draws[:, mine].reshape(-1, 2).var(0), rtol=0.03)


def narrow_and_wide(n=600):
    """Clusters told apart by narrow dimensions, beside a wide one that says nothing."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    return np.column_stack([np.eye(3)[labels] + 0.05 * rng.normal(size=(n, 3)), 20 * rng.normal(size=n)]), labels


def test_clusters_are_found_in_narrow_dimensions_and_in_wide_ones():
    points, labels = narrow_and_wide()
    assert clustering_accuracy(labels, KMeans(3, n_init=10, random_state=0).fit_predict(points)) < 0.5
    assert clustering_accuracy(labels, likely_clusters(points, 3, 0)) == 1.0
    centres = 10 * np.random.default_rng(1).normal(size=(3, 2))
    wide = centres[labels] + np.random.default_rng(2).normal(size=(600, 2))
    assert clustering_accuracy(labels, likely_clusters(wide, 3, 0)) == 1.0


def test_many_samples_are_clustered_by_evenly_spread_ones(monkeypatch):
    monkeypatch.setattr("acova.clustering.components._ROWS", 60)
    points, labels = narrow_and_wide()
    found = likely_clusters(points, 3, 0)
    assert len(found) == 600
    assert clustering_accuracy(labels, found) == 1.0


def test_the_likelihood_is_that_of_scikit_learns_mixture():
    points, labels = narrow_and_wide()
    mixture = GaussianMixture(3, covariance_type="diag")
    variances = np.array([points[labels == k].var(0) for k in range(3)]) + 1e-4 * points.var(0)
    mixture.weights_, mixture.means_ = np.full(3, 1 / 3), np.array([points[labels == k].mean(0) for k in range(3)])
    mixture.covariances_, mixture.precisions_cholesky_ = variances, 1 / np.sqrt(variances)
    np.testing.assert_allclose(mixture_likelihood(points, labels, 3), mixture.score(points), rtol=1e-10)


def test_similarity_is_positive_definite_even_for_identical_views():
    codes = np.repeat(np.random.default_rng(0).normal(size=(20, 1, 4)), 3, axis=1)
    similarity = code_similarity(codes, np.ones((20, 3), dtype=bool))
    torch.testing.assert_close(similarity[0, 1].item(), 0.99)
    assert torch.linalg.eigvalsh(similarity).min() > 0
    assert torch.equal(code_similarity(codes, np.eye(20, 3, dtype=bool)), torch.eye(3, dtype=torch.float64))
