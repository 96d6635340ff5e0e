"""Empty cells in rows that are observed, in every estimator."""

import numpy as np
import pandas as pd
import pytest
from quick import make_tiny
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from acova import ACOVA, AgreementGraph, Concat, KNNImpute
from acova.base import DataError
from acova.data import StoredViews, Views, make_observed
from acova.estimators import load_method
from acova.estimators.registry import METHODS
from acova.metrics import clustering_accuracy
from acova.report.numbers import percent
from acova.training.costs import shares_of_cells
from conftest import SMALL, make_toy

NAN = np.nan
QUICK = {**SMALL, "view_weights": "equal"}


def emptied(seed=0, share=0.3, missing=0.3):
    """Return views with empty cells in the first two, the cells they hide, and the classes."""
    full, labels = make_toy(n_samples=90, missing=0.0)
    rng = np.random.default_rng(seed)
    observed = make_observed(90, 3, missing, random_state=seed)
    arrays = [array.copy() for array in full.arrays]
    holes = [rng.random(array.shape) < share * (v < 2) for v, array in enumerate(arrays)]
    for hole in holes:
        hole[hole.all(axis=1), 0] = False
    return [np.where(h | ~o[:, None], NAN, a) for a, h, o in zip(arrays, holes, observed.T, strict=True)], holes, labels


ARRAYS, HOLES, LABELS = emptied()


@pytest.fixture(scope="module")
def model():
    return ACOVA.from_settings(3, **QUICK).fit(ARRAYS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_empty_cells_and_keeps_them_in_a_run_folder(name, tmp_path):
    model = make_tiny(name).fit(ARRAYS)
    assert np.bincount(model.labels_, minlength=3).sum() == len(LABELS)
    hidden = [np.isnan(a).any(axis=1) & ~np.isnan(a).all(axis=1) for a in ARRAYS]
    counted = {
        f"view_{v}": int(np.isnan(a[rows]).sum()) for v, (a, rows) in enumerate(zip(ARRAYS, hidden, strict=True))
    }
    assert model.empty_cells_ == {name: count for name, count in counted.items() if count}
    model.save(tmp_path / "run")
    loaded = load_method(tmp_path / "run")
    assert loaded.empty_cells_ == model.empty_cells_
    np.testing.assert_array_equal(loaded.predict(ARRAYS), model.predict(ARRAYS))


@pytest.mark.parametrize("name", ["ACOVA", "AgreementGraph", "Concat", "KNNImpute", "MVP"])
def test_no_bit_depends_on_what_an_empty_cell_holds(name):
    masked = [
        [np.ma.MaskedArray(np.where(np.isnan(a), held, a), mask=np.isnan(a)) for a in ARRAYS]
        for held in (0.0, 1e30, -7.0)
    ]
    tables = [make_tiny(name).fit(views).assignments() for views in masked]
    for other in tables[1:]:
        pd.testing.assert_frame_equal(other, tables[0], check_exact=True)


def test_the_report_tells_how_many_cells_are_empty(model, tmp_path):
    page = model.report(tmp_path / "report.html", method="PCA").read_text()
    count = model.empty_cells_["view_0"]
    share = count / (8 * int((~np.isnan(ARRAYS[0]).all(axis=1)).sum()))
    assert f"Empty cells, left out one by one: view_0 {count:,} ({percent(share)})" in page


def test_clusters_are_found_and_the_model_says_the_same_of_each_sample_alone(model):
    assert clustering_accuracy(LABELS, model.labels_) > 0.95
    alone = np.vstack([model.predict_proba([array[[i]] for array in ARRAYS]) for i in range(10)])
    np.testing.assert_allclose(alone, model.probabilities_[:10], rtol=1e-3, atol=1e-5)
    assert np.isfinite(model.score(ARRAYS))


def test_results_do_not_depend_on_the_order_of_the_samples(model):
    names = pd.Index([f"s{i:03d}" for i in range(len(LABELS))])
    frames = {f"v{v}": pd.DataFrame(array, names) for v, array in enumerate(ARRAYS)}
    order = np.random.default_rng(0).permutation(len(LABELS))
    first, second = (
        ACOVA.from_settings(3, **QUICK).fit(views)
        for views in (frames, {name: frame.iloc[order] for name, frame in frames.items()})
    )
    np.testing.assert_array_equal(second.assignments().loc[names], first.assignments())


def test_a_view_of_noise_does_not_agree_with_others_because_they_complete_it():
    full, _ = make_toy(n_samples=150, missing=0.0)
    noise = np.random.default_rng(1).normal(size=(150, 30))
    holes = np.random.default_rng(2).random(noise.shape) < 0.5
    arrays = [np.where(np.random.default_rng(v).random(a.shape) < 0.2, NAN, a) for v, a in enumerate(full.arrays[:2])]
    model = AgreementGraph(3, random_state=0).fit([*arrays, np.where(holes, NAN, noise)])
    assert model.view_agreement_[0, 1] > 0.3
    assert model.view_agreement_[:2, 2].max() < 0.1
    assert model.view_trust_[2] < 0.2


def test_cells_are_completed_by_all_views_and_for_agreement_by_their_own(model):
    views = Views.of(ARRAYS)
    mask = np.ones((len(LABELS), 3), bool)
    mask[views.observed[:, 1:].all(axis=1), 2] = False
    hidden = views.hide(mask)
    alone = [v.take(range(20)) for v in (views, hidden)]
    own = [model._scaling.transform(v, alone=True)[0] for v in alone]
    np.testing.assert_array_equal(*own)
    both = [model._scaling.transform(v)[0] for v in alone]
    changed = both[0] != both[1]
    assert changed.any()
    assert not (changed & ~views.take(range(20)).empty[0]).any()


def test_new_samples_may_have_empty_cells_though_the_training_samples_had_none(tmp_path):
    full, _ = make_toy(n_samples=90, missing=0.0)
    model = ACOVA.from_settings(3, **QUICK).fit(full)
    assert model.empty_cells_ == {}
    by_means = [np.where(hole, array.mean(axis=0), array) for array, hole in zip(full.arrays, HOLES, strict=True)]
    with_holes = [np.where(hole, NAN, array) for array, hole in zip(full.arrays, HOLES, strict=True)]
    given = [dict(zip(full.names, arrays, strict=True)) for arrays in (with_holes, by_means)]
    np.testing.assert_allclose(*(model.predict_proba(views) for views in given), atol=1e-4)
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(load_method(tmp_path / "run").predict(given[0]), model.predict(given[0]))


def test_data_without_empty_cells_have_networks_without_marks(model):
    marked, plain = model.network_.encoders, ACOVA.from_settings(3, **QUICK).fit(make_toy(90)[0]).network_.encoders
    assert model.network_.marks == (True, True, False)
    assert [weight.shape[0] for weight in marked.layers[0].weights] == [16, 24, 8]
    assert [weight.shape[0] for weight in plain.layers[0].weights] == [8, 16, 8]


def test_knn_fills_as_scikit_learns_imputer():
    views = Views.of(ARRAYS)
    model = KNNImpute(3, n_neighbors=4, balance=False, random_state=0).fit(views)
    scaled = StandardScaler().fit_transform(np.hstack(views.arrays))
    expected = KNNImputer(n_neighbors=4).fit_transform(scaled)
    np.testing.assert_allclose(model._tables(views)["k-means"], expected, rtol=1e-5, atol=1e-5)
    some = views.take(range(5))
    np.testing.assert_allclose(model._tables(some)["k-means"], expected[:5], rtol=1e-5, atol=1e-5)


def test_means_fill_the_tables_of_concat():
    views = Views.of(ARRAYS)
    model = Concat(3, random_state=0).fit(views)
    expected = SimpleImputer().fit_transform(StandardScaler().fit_transform(np.hstack(views.arrays)))
    np.testing.assert_allclose(model._tables(views)["k-means"], expected, atol=1e-5)


def test_categories_may_be_empty_in_fits_and_predictions():
    rng = np.random.default_rng(0)
    group = np.arange(60) % 2
    numbers = pd.DataFrame(rng.normal(size=(60, 3)) + 6 * group[:, None], columns=list("abc"))
    words = pd.DataFrame({"kind": np.where(group, "yes", "no"), "x": rng.normal(size=60)}).astype({"kind": object})
    words.loc[words.index[::7], "kind"] = None
    model = ACOVA.from_settings(2, **QUICK).fit({"numbers": numbers, "words": words})
    assert model.empty_cells_ == {"words": 2 * 9}
    assert clustering_accuracy(group, model.labels_) == 1
    new = {"numbers": numbers.iloc[:4], "words": words.iloc[:4].assign(kind=None)}
    np.testing.assert_array_equal(model.predict(new), model.labels_[:4])


def test_views_on_disk_may_have_empty_cells(tmp_path, monkeypatch):
    for v, array in enumerate(ARRAYS):
        np.save(tmp_path / f"v{v}.npy", array)
    files = {f"v{v}": tmp_path / f"v{v}.npy" for v in range(3)}
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    settings = {**QUICK, "neighbor_weight": 0.0, "device": "cpu"}
    streamed = ACOVA.from_settings(3, **settings).fit(StoredViews.of(files))
    assert np.isfinite(streamed.objective_)
    held = ACOVA.from_settings(3, **settings).fit(dict(zip(files, ARRAYS, strict=True)))
    assert streamed.empty_cells_ == held.empty_cells_
    for mine, theirs in zip(streamed._scaling.completions, held._scaling.completions, strict=True):
        np.testing.assert_allclose(mine.loadings, theirs.loadings)
    assert clustering_accuracy(LABELS, np.asarray(streamed.labels_)) > 0.95
    of_arrays = streamed.predict_proba(dict(zip(files, ARRAYS, strict=True)))
    np.testing.assert_allclose(of_arrays, streamed.probabilities_, rtol=1e-4, atol=1e-6)


def test_a_row_is_refused_for_its_extreme_cell_and_not_for_an_empty_one(model):
    rows = [array[:1].copy() for array in ARRAYS]
    rows[0][0, :3] = NAN, 1e300, NAN
    with pytest.raises(DataError, match=r"column 1 holds 1e\+300 in sample 0, too far"):
        model.predict(rows)


def test_what_reconstruction_costs_is_that_of_the_cells_that_are_there():
    """Decoding every view to its mean costs `reconstruction_scale` beside empty cells, too."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(400, 6)), rng.normal(size=(400, 9))]
    arrays[0][rng.random((400, 6)) < 0.5] = NAN
    arrays[0][np.isnan(arrays[0]).all(axis=1), 0] = 0.0
    model = ACOVA.from_settings(2, **SMALL, standardize="zscore", view_weights="equal", reconstruction_scale=100.0)
    prepared = model._prepare(arrays, None)
    weights = prepared.jobs[0].network().reconstruction_weights.numpy()
    squares = [np.nansum(np.square(table)) / 400 for table in model._scaling.measured(prepared.views)]
    np.testing.assert_allclose((weights * squares).sum(), 100.0, rtol=1e-5)
    np.testing.assert_allclose(shares_of_cells(prepared.views), [1 - np.isnan(arrays[0]).mean(), 1.0])


@pytest.mark.parametrize("name", ["ACOVA", "Concat", "AgreementGraph"])
def test_a_column_without_any_cell_is_refused(name):
    arrays = [array.copy() for array in ARRAYS]
    arrays[1][:, 2] = NAN
    with pytest.raises(DataError, match=r"View 'view_1': column 2 is empty in every sample that has the view\. Drop"):
        make_tiny(name).fit(arrays)
