import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import brier_score_loss

from acova import ACOVA, Concat
from acova.bench.calibration import (
    DRAWS,
    HALF_WIDTH,
    calibration_of,
    cluster_calibration,
    latent_calibration,
    partners,
    reliability_bins,
)
from acova.data import Dataset
from acova.functional import fuse, product_of_experts
from acova.metrics import matched
from conftest import SMALL, make_toy


@pytest.fixture
def said():
    """Known classes, and probabilities of clusters that are right more often than by chance."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=500)
    logits = rng.normal(size=(500, 4))
    logits[np.arange(500), (y + 1) % 4] += 1.5
    shares = np.exp(logits)
    return y, shares / shares.sum(axis=1, keepdims=True)


def test_partners_are_those_that_accuracy_scores(said):
    y, shares = said
    labels = shares.argmax(axis=1)
    names = np.array(["a", "b", "c", "d"])[y]
    assert partners(y, labels, 4).tolist() == [3, 0, 1, 2]
    np.testing.assert_array_equal(partners(names, labels, 4)[labels] == names, matched(names, labels))
    assert sorted(partners(y, np.zeros(500, dtype=int), 4)) == [0, 1, 2, 3]


def test_brier_is_the_sum_of_scikit_learns_over_the_clusters(said):
    y, shares = said
    partner = partners(y, shares.argmax(axis=1), 4)
    expected = sum(brier_score_loss(y == partner[k], shares[:, k]) for k in range(4))
    assert cluster_calibration(y, shares)["brier"] == pytest.approx(expected)


def test_calibration_error_is_the_gap_of_each_bin_weighted_by_its_samples(said):
    y, shares = said
    confidence, right = shares.max(axis=1), matched(y, shares.argmax(axis=1))
    gap = 0.0
    for low in np.arange(10) / 10:
        inside = (confidence >= low) & (confidence < low + 0.1 + 1e-12)
        gap += abs(confidence[inside].sum() - right[inside].sum()) / len(y) if inside.any() else 0.0
    found = cluster_calibration(y, shares)
    assert found["ece"] == pytest.approx(gap, abs=1e-6)
    assert found["confidence"] == pytest.approx(confidence.mean())
    bins = np.array(reliability_bins(y, shares))
    assert bins[:, 0].sum() == 500
    assert np.sum(bins[:, 0] * np.abs(bins[:, 1] - bins[:, 2])) / 500 == pytest.approx(gap, abs=1e-4)


def test_auroc_is_the_share_of_pairs_in_the_right_order(said):
    y, shares = said
    confidence, right = shares.max(axis=1), matched(y, shares.argmax(axis=1))
    pairs = confidence[right][:, None] - confidence[~right][None]
    assert cluster_calibration(y, shares)["auroc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))
    assert np.isnan(cluster_calibration([0, 1], np.eye(2))["auroc"])


def test_coverage_is_that_of_draws():
    rng = np.random.default_rng(0)
    mean, whole = rng.normal(size=(2, 5, 3))
    variance, narrow = rng.uniform(0.5, 2, size=(2, 5, 3))
    draws = whole + np.sqrt(narrow) * rng.normal(size=(40000, 5, 3))
    inside = np.abs(draws - mean) < norm.ppf(0.95) * np.sqrt(variance)
    found = latent_calibration(mean, variance, whole, narrow)
    assert found["coverage"] == pytest.approx(inside.mean(), abs=5e-3)
    assert found["surer"] == np.mean(variance < narrow)
    assert found["widening"] == pytest.approx(np.log(np.sqrt(variance / narrow)).mean())


def test_posteriors_of_one_model_cover_90_percent():
    """z ~ N(0, 1), two views with independent errors: the posterior given one view, and given both."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20000, 1))
    first, second = z + rng.normal(size=(2, 20000, 1))
    few, both = np.full_like(z, 1 / 2), np.full_like(z, 1 / 3)
    found = latent_calibration(first / 2, few, (first + second) / 3, both)
    assert found["coverage"] == pytest.approx(0.9, abs=5e-3)
    assert found["surer"] == 0
    assert latent_calibration(first / 2, few / 4, (first + second) / 3, both)["coverage"] < 0.7


@pytest.mark.parametrize("rho", [0.3, 0.6])
def test_fusion_by_the_true_correlation_covers_90_percent_and_a_product_of_experts_does_not(rho):
    """Six views whose errors have one correlation; the error of their plain mean has the variance (1 + 5ρ) / 6."""
    n_views, count = 6, 20000
    correlation = torch.full((n_views, n_views), rho, dtype=torch.float64)
    correlation.fill_diagonal_(1.0)
    noise = torch.randn(count, n_views, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    errors = torch.linalg.cholesky(correlation) @ noise
    ones, seen = torch.ones_like(errors), torch.ones(count, n_views, dtype=torch.bool)

    def coverage(fused):
        return float((fused.mean.abs() < HALF_WIDTH * fused.variance.sqrt()).double().mean())

    independent = norm.cdf(HALF_WIDTH / np.sqrt(1 + (n_views - 1) * rho))
    assert coverage(fuse(errors, ones, seen, correlation)) == pytest.approx(0.9, abs=0.01)
    assert coverage(product_of_experts(errors, ones, seen)) == pytest.approx(2 * independent - 1, abs=0.01)


@pytest.fixture(scope="module")
def fitted():
    views, labels = make_toy(missing=0.0)
    observed = np.ones((len(views), 3), dtype=bool)
    observed[:150, 0] = observed[100:200, 2] = False
    model = ACOVA.from_settings(n_clusters=3, recipe="paper", **{**SMALL, "epochs": 2}).fit(views, observed=observed)
    return model, Dataset("toy", views, labels), observed


class TestOfAModel:
    def test_what_the_estimator_says_is_judged(self, fitted):
        model, data, observed = fitted
        found = calibration_of(model, data, observed, data.labels)
        expected = cluster_calibration(data.labels, model.probabilities_)
        assert {name: found[name] for name in ("brier", "ece", "confidence")} == pytest.approx(
            {name: expected[name] for name in ("brier", "ece", "confidence")}, abs=1e-4
        )
        assert calibration_of(model, data, observed, data.labels) == found
        assert abs(found["brier_drawn"] - found["brier"]) > 0
        assert sum(count for count, _, _ in found["bins"]) == len(data.views)

    def test_draws_come_from_the_fused_posterior(self, fitted):
        model, data, observed = fitted
        network = model.network_
        arrays = model._scaling.transform(data.views.hide(observed))
        with torch.no_grad():
            fused = network.posterior([torch.from_numpy(array) for array in arrays], torch.from_numpy(observed))
            noise = torch.randn(2000, *fused.mean.shape, generator=torch.Generator().manual_seed(1))
            shares = torch.stack([network.assign(fused.mean + fused.variance.sqrt() * one) for one in noise]).mean(0)
        expected = cluster_calibration(data.labels, shares.numpy())
        found = calibration_of(model, data, observed, data.labels)
        assert found["confidence_drawn"] == pytest.approx(expected["confidence"], abs=0.5 / np.sqrt(DRAWS))
        assert found["brier_drawn"] == pytest.approx(expected["brier"], abs=0.5 / np.sqrt(DRAWS))

    def test_only_samples_that_lack_views_are_compared_with_all_views(self, fitted):
        model, data, observed = fitted
        found = calibration_of(model, data, observed, data.labels)
        assert 0 <= found["coverage"] <= 1
        whole = calibration_of(model, data, np.ones_like(observed), data.labels)
        assert not {"coverage", "surer", "widening"} & set(whole)

    def test_a_method_without_a_posterior_has_none(self, fitted):
        _, data, observed = fitted
        model = Concat(3, random_state=0).fit(data.views, observed=observed)
        assert calibration_of(model, data, observed, data.labels) is None
