"""Several runs as one result."""

from itertools import permutations

import numpy as np
import pytest

from acova import ACOVA
from acova.training.consensus import match_runs, overlaps
from conftest import SMALL


def relabelled(rng, truth, n_clusters, orders, noise):
    """Soft assignments of runs that see the same clusters under other numbers, with errors."""
    runs = []
    for order in orders:
        clean = np.eye(n_clusters)[truth][:, np.argsort(order)]
        runs.append((1 - noise) * clean + noise * rng.dirichlet(np.ones(n_clusters), len(truth)))
    return np.stack(runs)


def test_overlaps_are_sums_over_samples_however_they_are_cut():
    shares = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 50))
    direct = np.einsum("rni,snj->rsij", shares, shares)
    np.testing.assert_allclose(overlaps([shares]), direct)
    np.testing.assert_allclose(overlaps([shares[:, :17], shares[:, 17:]]), direct)


def test_matching_undoes_the_numbering_of_every_run():
    rng = np.random.default_rng(1)
    truth = rng.integers(5, size=300)
    orders = np.array([rng.permutation(5) for _ in range(6)])
    reference, found = match_runs(overlaps([relabelled(rng, truth, 5, orders, noise=0.6)]))
    np.testing.assert_array_equal(found[reference], np.arange(5))
    # orders[r, k] is the number of cluster k in run r; found speaks of the reference's numbers
    np.testing.assert_array_equal(found, orders[:, np.argsort(orders[reference])])


def test_two_runs_get_the_best_of_all_matchings():
    rng = np.random.default_rng(2)
    overlap = overlaps([rng.dirichlet(np.ones(4), size=(2, 40))])
    reference, orders = match_runs(overlap)
    table = overlap[reference, 1 - reference]
    best = max(permutations(range(4)), key=lambda order: sum(table[k, j] for k, j in enumerate(order)))
    assert tuple(orders[1 - reference]) == best


def test_the_odd_run_is_not_the_reference():
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=200)
    runs = relabelled(rng, truth, 3, [np.arange(3)] * 4, noise=0.2)
    runs[2] = rng.dirichlet(np.ones(3), 200)
    assert match_runs(overlaps([runs]))[0] != 2


@pytest.fixture(scope="module")
def several(toy):
    return ACOVA.from_settings(3, **{**SMALL, "n_init": 3, "consensus": True}).fit(toy[0])


def test_a_consensus_is_the_mean_of_its_runs(several, toy):
    views, ensemble = toy[0], several._ensemble
    assert len(ensemble.networks) == 3
    alone = []
    for run, network in enumerate(ensemble.networks):
        one = ACOVA.from_settings(3, **SMALL).fit(views)
        one._adopt(type(ensemble).of_one(network))
        alone.append(one.predict_proba(views)[:, ensemble.orders[run]])
    mean = np.mean(alone, axis=0)
    np.testing.assert_allclose(several.probabilities_, mean, atol=1e-6)
    np.testing.assert_array_equal(several.labels_, mean.argmax(1))
    votes = np.mean([part.argmax(1) == several.labels_ for part in alone], axis=0)
    np.testing.assert_allclose(several.agreement_, votes, atol=1e-6)
    np.testing.assert_allclose(several.correlation_.diagonal(), 1, atol=1e-6)
    table = several.assignments()
    np.testing.assert_allclose(table["agreement"], votes, atol=1e-6)


def test_new_samples_get_the_same_consensus(several, toy):
    views = toy[0]
    part = views.take(slice(10, 60))
    np.testing.assert_allclose(several.predict_proba(part), several.probabilities_[10:60], atol=1e-6)
    np.testing.assert_array_equal(several.predict(part), several.labels_[10:60])


def test_a_consensus_is_saved_and_loaded(several, toy, tmp_path):
    several.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.agreement_, several.agreement_)
    np.testing.assert_allclose(again.predict_proba(toy[0]), several.probabilities_, atol=1e-6)
    np.testing.assert_allclose(again.correlation_, several.correlation_)
    np.testing.assert_allclose(again.transform(toy[0]), several.transform(toy[0]), atol=1e-6)


def test_without_consensus_one_run_is_kept_and_agrees_with_itself(fitted):
    assert len(fitted._ensemble.networks) == 1
    with pytest.raises(AttributeError, match="ACOVA has no agreement_: one run decides"):
        _ = fitted.agreement_
    assert "agreement" not in fitted.assignments()
