import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer
from sklearn.utils.estimator_checks import parametrize_with_checks

from acova import BSV, Concat, KNNImpute
from acova.base import DataError, OptionError
from acova.data import StoredViews, make_observed
from acova.metrics import clustering_accuracy
from conftest import make_toy


@parametrize_with_checks([BSV(3), Concat(3), KNNImpute(3)])
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def standardised(array, observed=None):
    seen = array if observed is None else array[observed]
    return (array - seen.mean(0)) / seen.std(0)


def same(first, second):
    return clustering_accuracy(first, second) == 1.0


def test_complete_views_alone_are_plain_k_means():
    views, _ = make_toy(missing=0.0)
    model = BSV(3, random_state=0).fit(views)
    for v, array in enumerate(views.arrays):
        plain = KMeans(3, n_init=10, random_state=0).fit_predict(standardised(array))
        assert same(model.labels_by_view_[:, v], plain)


def test_the_oracle_takes_the_view_that_matches_the_classes():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    views = {"noise": rng.normal(size=(120, 5)), "classes": np.eye(4)[labels]}
    model = BSV(4, random_state=0).fit(views, labels)
    assert clustering_accuracy(labels, model.oracle_labels(labels)) == 1
    np.testing.assert_array_equal(model.oracle_labels(labels), model.labels_by_view_[:, 1])
    # One-hot rows have no variance inside their clusters, so the label-free choice is the same here.
    assert model.view_ == "classes"
    assert model.explained_[1] == pytest.approx(1)
    assert 0 < model.explained_[0] < 0.9
    named = BSV(4, view="noise", random_state=0).fit(views)
    np.testing.assert_array_equal(named.labels_, model.labels_by_view_[:, 0])
    assert named.cluster_centers_.shape == (4, 5)


def test_filled_rows_of_a_view_share_one_cluster_and_bound_the_score():
    views, labels = make_toy(missing=0.0, sizes=(8, 12), n_samples=600)
    scores = []
    for missing in (0.0, 0.4, 0.8):
        observed = make_observed(600, 2, missing, random_state=0)
        model = BSV(3, random_state=0).fit(views, observed=observed)
        scores.append(clustering_accuracy(labels, model.oracle_labels(labels)))
        for v in range(2):
            hidden = ~observed[:, v]
            assert len(set(model.labels_by_view_[hidden, v])) <= 1
            lucky = np.bincount(labels[hidden], minlength=3).max() / 600
            assert clustering_accuracy(labels, model.labels_by_view_[:, v]) <= observed[:, v].mean() + lucky
    assert scores[0] == 1
    assert scores[0] > scores[1] > scores[2]


def test_order_of_rows_and_views_leaves_the_scores_as_they_are():
    views, labels = make_toy()
    model = BSV(3, random_state=0).fit(views)
    scores = [clustering_accuracy(labels, mine) for mine in model.labels_by_view_.T]
    swapped = BSV(3, random_state=0).fit([views.arrays[v] for v in (2, 0, 1)])
    assert [clustering_accuracy(labels, mine) for mine in swapped.labels_by_view_.T] == [scores[v] for v in (2, 0, 1)]
    order = np.random.default_rng(0).permutation(len(views))
    shuffled = BSV(3, random_state=0).fit(views.take(order))  # the index travels with the rows
    np.testing.assert_array_equal(shuffled.labels_by_view_, model.labels_by_view_[order])


def test_holes_are_the_mean_of_the_observed_rows():
    views, _ = make_toy()
    for settings in ({"standardize": False}, {}, {"balance": True}, {"normalize_rows": True}):
        model = Concat(3, random_state=0, **settings).fit(views)
        table = model._tables(views)["k-means"]
        at = 0
        for v, size in enumerate(views.sizes):
            seen, block = views.observed[:, v], table[:, at : at + size]
            expected = np.array(views.arrays[v])
            if settings.get("standardize", True):
                expected = standardised(expected, seen)
            if settings.get("balance"):
                expected = expected / np.sqrt(size)
            if settings.get("normalize_rows"):
                expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
            np.testing.assert_allclose(block[seen], expected[seen], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(
                block[~seen], np.tile(expected[seen].mean(0), ((~seen).sum(), 1)), rtol=1e-4, atol=1e-5
            )
            at += size


def test_one_view_that_counts_is_that_view_alone():
    views, _ = make_toy()
    alone = BSV(3, random_state=0).fit(views.arrays[0][views.observed[:, 0]]).labels_
    some = views.take(views.observed[:, 0])
    constant = [some.arrays[0], np.zeros((len(some), 3))]
    assert same(Concat(3, random_state=0).fit_predict(constant), alone)
    assert same(Concat(3, random_state=0).fit_predict([some.arrays[0]] * 2), alone)
    loud = {**dict(zip(views.names, views.arrays, strict=True)), "image": 1e6 * views.arrays[0]}
    whole = BSV(3, view="image", standardize=False, random_state=0).fit(loud)
    assert same(Concat(3, standardize=False, random_state=0).fit_predict(loud), whole.labels_)


def test_the_order_of_views_does_not_matter():
    views, _ = make_toy()
    swapped = {views.names[v]: views.arrays[v] for v in (2, 0, 1)}
    for method in (Concat(3, random_state=0), Concat(3, balance=True, random_state=1), KNNImpute(3, random_state=0)):
        assert same(method.fit_predict(views), method.fit_predict(swapped))


def test_neighbours_are_those_of_scikit_learn():
    views, labels = make_toy()
    table = np.hstack(
        [standardised(a, seen) / np.sqrt(a.shape[1]) for a, seen in zip(views.arrays, views.observed.T, strict=True)]
    )
    filled = KNNImputer(n_neighbors=4).fit_transform(table)
    expected = KMeans(3, n_init=10, random_state=0).fit_predict(filled)
    model = KNNImpute(3, n_neighbors=4, random_state=0).fit(views)
    np.testing.assert_allclose(model._tables(views)["k-means"], filled, rtol=1e-4, atol=1e-5)
    assert same(model.labels_, expected)
    assert clustering_accuracy(labels, model.labels_) > clustering_accuracy(
        labels, Concat(3, random_state=0).fit_predict(views)
    )


def test_what_a_table_cannot_hold_is_said(toy, tmp_path, monkeypatch):
    views, _ = toy
    few = views.observed.copy()
    few[2:, 2] = False
    few[:, :2] |= ~few.any(axis=1, keepdims=True)
    with pytest.raises(
        DataError, match=r"BSV: view 'sound' is observed for \d samples, fewer than n_clusters=3, so it"
    ):
        BSV(3).fit(make_toy(missing=0.0)[0], observed=few)
    with pytest.raises(OptionError, match=r"BSV: view must be 'image', 'text', 'sound'; got 'img'"):
        BSV(3, view="img").fit(views)
    with pytest.raises(OptionError, match="KNNImpute: n_neighbors must be an integer at least 1; got 0"):
        KNNImpute(3, n_neighbors=0).fit(views)
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    np.save(tmp_path / "image.npy", make_toy(missing=0.0)[0].arrays[0])
    stored = StoredViews.of(tmp_path)
    with pytest.raises(
        DataError, match=r"Concat: k-means works in memory, but these views stay on disk .* such as ACOVA"
    ):
        Concat(3).fit(stored)
    assert Concat(3, random_state=0).fit(stored.read(0, 240)).labels_.shape == (240,)


def test_assignments_tell_the_labels_of_every_view():
    views, _ = make_toy()
    table = BSV(3, random_state=0).fit(views).assignments()
    assert list(table.columns) == ["label", "label_image", "label_text", "label_sound"]
    np.testing.assert_array_equal(table["label_text"], BSV(3, random_state=0).fit(views).labels_by_view_[:, 1])
