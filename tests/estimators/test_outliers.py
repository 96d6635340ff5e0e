"""Who belongs nowhere: p-values against a loop over samples, their level, planted outliers and their views."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from acova import AgreementGraph
from acova.base import DataError
from acova.clustering.graphs import ViewGraph
from acova.clustering.outliers import OddnessReference, _disagreements, _ranked
from acova.data import make_observed, make_views

SIZES = {"n_features": 15, "separation": 1.0}
SIZES_OF_ALL = dict.fromkeys(("a", "b", "c"), SIZES)


def drawn(seed, count=300):
    made = make_views(2 * count, 4, SIZES_OF_ALL, random_state=seed)
    observed = make_observed(2 * count, 3, 0.5, random_state=seed)
    return made.views.hide(observed), made.labels


@pytest.fixture(scope="module")
def model():
    views, _ = drawn(0)
    return AgreementGraph(4, random_state=0).fit(views.take(range(300)))


def test_one_in_twenty_samples_like_those_of_training_is_called_odd():
    shares = []
    for seed in range(4):
        views, _ = drawn(seed)
        fitted = AgreementGraph(4, random_state=0).fit(views.take(range(300)))
        shares.append((fitted.outliers(views.take(range(300, 600)))["p_value"] <= 0.05).mean())
    assert 0.025 < np.mean(shares) < 0.075


def test_planted_outliers_are_found_and_their_views_named(model):
    _, labels = drawn(0)
    whole = make_views(600, 4, SIZES_OF_ALL, random_state=0).views
    clean = [array[300:500].copy() for array in whole.arrays]
    shifted = [array.copy() for array in clean]
    other = np.array([np.flatnonzero(labels[300:500] != label)[0] for label in labels[300:500]])
    shifted[1] = shifted[1][other]  # a group of its own in view b
    both = [np.vstack(pair) for pair in zip(clean, shifted, strict=True)]
    table = model.outliers(dict(zip("abc", both, strict=True)))
    odd = np.repeat([False, True], 200)
    assert roc_auc_score(odd, -table["p_value"]) > 0.9
    named = table.loc[odd & (table["p_value"] <= 0.05).to_numpy(), "odd_views"]
    assert (named.str.split(", ").str[0] == "b").mean() > 0.7  # a third by chance
    assert table["odd_views"][table["p_value"] > 0.05].eq("").all()


def test_scores_and_p_values_say_the_same(model):
    views, _ = drawn(0)
    new = views.take(range(300, 360))
    np.testing.assert_allclose(model.score_samples(new), np.log(model.outliers(new)["p_value"]))
    np.testing.assert_allclose(model.outlier_scores_, 1 - model.outliers()["p_value"])


def test_training_samples_are_compared_with_the_others_in_the_order_of_the_input(model):
    views, _ = drawn(0)
    train = views.take(range(300))
    order = np.random.default_rng(0).permutation(300)
    again = AgreementGraph(4, random_state=0).fit(train.take(order))
    np.testing.assert_array_equal(again.outlier_scores_, model.outlier_scores_[order])
    assert list(again.outliers().index) == list(order)
    assert 0.03 < (model.outlier_scores_ >= 0.95).mean() < 0.07


def test_a_saved_model_gives_the_same(model, tmp_path):
    views, _ = drawn(0)
    model.save(tmp_path / "run")
    again = AgreementGraph.load(tmp_path / "run")
    np.testing.assert_allclose(again.outlier_scores_, model.outlier_scores_)
    np.testing.assert_allclose(again.score_samples(views.take([400])), model.score_samples(views.take([400])))


def test_distances_are_those_of_a_loop_over_samples():
    rng = np.random.default_rng(0)
    rows, queries = rng.normal(size=(40, 3)), rng.normal(size=(7, 3))
    graph = ViewGraph.of(rows, 5)
    reference = OddnessReference.of([graph], np.ones((40, 1), bool), np.arange(40) % 2, 2)
    apart = cdist(rows, rows)
    np.fill_diagonal(apart, np.inf)
    spread = [np.sqrt(np.mean(np.sort(line)[:5] ** 2)) for line in apart]
    usual = [np.log(spread[i] / np.mean([spread[j] for j in np.argsort(apart[i])[:5]])) for i in range(40)]
    np.testing.assert_allclose(reference.distance[:, 0], usual)
    found = reference.samples([queries], np.ones((7, 1), bool))
    for i, line in enumerate(cdist(queries, rows)):
        near = np.argsort(line)[:5]
        own = np.log(np.sqrt(np.mean(line[near] ** 2)) / np.mean([spread[j] for j in near]))
        assert found.far_by_view[i, 0] == pytest.approx((1 + sum(one >= own for one in usual)) / 41)
    assert np.isnan(found.contradiction_by_view).all()
    assert (found.contradiction == 1).all()


def test_views_disagree_by_one_minus_the_bhattacharyya_coefficient():
    votes = np.array([[[1.0, 0.0], [0.0, 1.0], [np.nan] * 2], [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]])
    found = _disagreements(votes)
    np.testing.assert_allclose(found[0], [1, 1, np.nan])
    between = np.sqrt(0.5 * 0.75) + np.sqrt(0.5 * 0.25)
    np.testing.assert_allclose(found[1], [1 - between, 1 - between, 1 - np.sqrt(0.5)])


def test_ranks_count_the_sample_itself_once():
    known = np.array([1.0, 2.0, 2.0, 5.0])
    np.testing.assert_allclose(_ranked(known, known, own=True), [1, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(_ranked(known, np.array([6.0, 2.0, 0.0, np.nan]), own=False), [0.2, 0.8, 1, np.nan])


def test_it_needs_a_fit():
    with pytest.raises(NotFittedError):
        AgreementGraph(2).outliers()


def test_views_on_disk_are_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    paths = {name: tmp_path / f"{name}.npy" for name in "abc"}
    for path, array in zip(paths.values(), make_views(40, 4, SIZES_OF_ALL, random_state=0).views.arrays, strict=True):
        np.save(path, array)
    with pytest.raises(DataError, match=r"samples are compared .* in memory, but these views stay on disk"):
        model.outliers(paths)
