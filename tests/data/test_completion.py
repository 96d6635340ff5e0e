"""Empty cells: what stands in their place, and what is counted of them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.preprocessing import StandardScaler

from acova.base import DataError, OptionError
from acova.cli.arguments import load, reading_of
from acova.data import Scaling, StoredViews, Summary, Views
from acova.data.census import Census
from acova.data.columns import add_moments
from acova.data.completion import Completion, JointCompletion
from acova.data.features import features_of

RNG = np.random.default_rng(0)
NAN = np.nan


def with_holes(rows, share, seed=1):
    holes = np.random.default_rng(seed).random(rows.shape) < share
    holes[holes.all(axis=1), 0] = False
    return np.where(holes, NAN, rows)


def made_rows(n=500, width=15, factors=2, noise=0.3):
    loadings = RNG.normal(size=(width, factors))
    rows = RNG.normal(size=(n, factors)) @ loadings.T + np.sqrt(noise) * RNG.normal(size=(n, width)) + 2.0
    return rows, Completion(np.full(width, 2.0), np.full(width, -np.inf), np.full(width, np.inf), loadings, noise)


def conditional_means(rows, completion):
    """Fill every row by the conditional mean of a normal vector, from its covariance."""
    covariance = completion.loadings @ completion.loadings.T + completion.noise * np.eye(rows.shape[1])
    filled = rows.copy()
    for row in filled:
        gone = np.isnan(row)
        known = np.linalg.solve(covariance[np.ix_(~gone, ~gone)], (row - completion.mean)[~gone])
        row[gone] = completion.mean[gone] + covariance[np.ix_(gone, ~gone)] @ known
    return filled


def test_empty_cells_are_the_conditional_means_of_the_factor_model():
    rows, completion = made_rows(n=60)
    holes = with_holes(rows, 0.4)
    done = completion.completed(holes)
    np.testing.assert_allclose(done, conditional_means(holes, completion), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(done[~np.isnan(holes)], rows[~np.isnan(holes)].astype(np.float32))
    assert done.dtype == np.float32


def test_what_is_learned_completes_nearly_as_well_as_the_truth():
    rows, truth = made_rows()
    holes = with_holes(rows, 0.3)
    gone = np.isnan(holes)
    learned = Completion.fit(holes)
    error, least, by_means = (
        np.square(filled - rows)[gone].mean()
        for filled in (learned.completed(holes), conditional_means(holes, truth), np.nanmean(holes, axis=0)[None])
    )
    assert least < error < 1.15 * least
    assert error < 0.4 * by_means
    assert learned.noise == pytest.approx(truth.noise, rel=0.15)


def test_views_side_by_side_complete_as_one_whose_columns_are_weighed():
    rows, _ = made_rows(width=12)
    tables = [with_holes(rows[:, :4], 0.3), 50 * with_holes(rows[:, 4:], 0.3, seed=2)]
    joint = JointCompletion.fit(tables)
    weights = [1 / np.sqrt(np.nanvar(table, axis=0).sum()) for table in tables]
    np.testing.assert_allclose(joint.weights, weights)
    side_by_side = np.hstack([table * weight for table, weight in zip(tables, weights, strict=True)])
    expected = Completion.fit(side_by_side).completed(side_by_side)
    found = joint.completed(tables)
    np.testing.assert_allclose(np.hstack([f * w for f, w in zip(found, weights, strict=True)]), expected, rtol=1e-4)
    gone = np.isnan(tables[0])
    alone, together = (
        np.square(filled - rows[:, :4])[gone].mean()
        for filled in (Completion.fit(tables[0]).completed(tables[0]), found[0])
    )
    assert together < 0.8 * alone


def test_noise_is_completed_nearly_by_means():
    rows = RNG.normal(size=(60, 40))
    holes = with_holes(rows, 0.3)
    gone = np.isnan(holes)
    error = np.square(Completion.fit(holes).completed(holes) - rows)[gone].mean()
    assert error < 1.25 * np.square(np.nanmean(holes, axis=0) - rows)[gone].mean()


@pytest.mark.parametrize("shape", [(3, 40), (40, 1), (1, 5)])
def test_where_there_is_little_to_learn_from_means_are_taken(shape):
    rows = RNG.normal(size=shape)
    rows[0, 0] = NAN
    means = Completion.fit(rows, factors=False)
    with np.errstate(all="raise"):
        expected = np.nanmean(rows, axis=0)[0] if shape[0] > 1 else 0.0
    assert means.completed(rows)[0, 0] == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(Completion.fit(rows).completed(rows)).all()


def test_completed_cells_stay_between_the_least_and_the_largest():
    rows, _ = made_rows(n=80)
    holes = with_holes(rows, 0.2)
    completion = Completion.fit(holes)
    extreme = np.full((1, rows.shape[1]), 1e3)
    extreme[0, 3] = NAN
    assert np.nanmin(holes[:, 3]) - 1e-5 <= completion.completed(extreme)[0, 3] <= np.nanmax(holes[:, 3]) + 1e-5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_moments_in_blocks_are_those_of_all_cells(seed):
    rows = with_holes(np.random.default_rng(seed).normal(size=(30, 4)), 0.3)
    rows[10 * seed : 10 * seed + 10, 1] = NAN  # empty in a whole block
    scaler = StandardScaler()
    for start in range(0, 30, 10):
        add_moments(scaler, rows[start : start + 10])
    np.testing.assert_allclose(scaler.mean_, np.nanmean(rows, axis=0))
    np.testing.assert_allclose(scaler.var_, np.nanvar(rows, axis=0))


@pytest.mark.parametrize("kind", ["zscore", "range", "cosine", "robust", "unit", "unit_view", "none"])
def test_scaling_is_learned_from_cells_that_are_not_empty(kind):
    """Every cell is a sample of its own: a column that repeats its cells in full rows has the same statistics."""
    rows = RNG.uniform(1, 4, size=(40, 3))  # none is unusually long
    holes = rows.copy()
    holes[20:] = np.where(np.arange(3) == np.arange(20)[:, None] % 3, rows[20:], NAN)
    scaling = Scaling.fit(Views.of([holes]), (kind,))
    if kind == "cosine":
        length = np.sqrt(np.nanmean(np.square(holes), axis=1) * 3)
        np.testing.assert_allclose(scaling.centers[0], np.nanmean(holes / length[:, None], axis=0))
        return
    low, high, mean, std = (f(holes, axis=0) for f in (np.nanmin, np.nanmax, np.nanmean, np.nanstd))
    center, scale = {
        "zscore": (mean, std),
        "robust": (mean, std),
        "range": (np.nanmean(holes), high.max() - low.min()),
        "unit": (low, high - low),
        "unit_view": (low.min(), high.max() - low.min()),
        "none": (0.0, 1.0),
    }[kind]
    np.testing.assert_allclose(scaling.centers[0], np.broadcast_to(center, 3))
    np.testing.assert_allclose(scaling.scales[0], np.broadcast_to(scale, 3))
    assert np.isfinite(scaling.transform(Views.of([holes]))[0]).all()


def test_features_count_cells():
    rows = np.where(RNG.random((50, 6)) < 0.9, 0.0, RNG.gamma(2.0, size=(50, 6)))
    (of_view,) = features_of(Views.of([with_holes(rows, 0.2)]))
    full = ~np.isnan(with_holes(rows, 0.2))
    np.testing.assert_array_equal(of_view._cells, full.sum(axis=0))
    np.testing.assert_array_equal(of_view._present, ((rows != 0) & full).sum(axis=0))
    assert of_view.are_counts_of_words()


def test_without_a_completion_means_stand_in():
    rows = RNG.gamma(2.0, size=(40, 3))
    views = Views.of([rows])
    for kind in ("range", "zscore", "none"):
        scaling = Scaling.fit(views, (kind,)).with_means(Summary.of(views, np.arange(40) % 3, 3).column_means)
        filled = scaling.transform(Views.of([np.array([[1.0, NAN, 2.0]])]))[0]
        expected = (rows[:, 1].mean() - scaling.centers[0][1]) / scaling.scales[0][1]
        assert filled[0, 1] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_summaries_are_of_the_cells_that_are_not_empty():
    rows, labels = with_holes(RNG.normal(size=(60, 4)), 0.3), np.arange(60) % 3
    summary = Summary.of(Views.of([rows]), labels, 4)
    for k in range(3):
        np.testing.assert_allclose(summary.means[0][k], np.nanmean(rows[labels == k], axis=0))
        np.testing.assert_allclose(summary.stds[0][k], np.nanstd(rows[labels == k], axis=0))
    assert np.isnan(summary.means[0][3]).all()


def test_views_know_their_empty_cells():
    first, second = with_holes(RNG.normal(size=(20, 5)), 0.2), RNG.normal(size=(20, 3))
    first[4] = NAN  # a missing view has no empty cells
    views = Views.of([first, second])
    holes = np.isnan(first)
    holes[4] = False
    np.testing.assert_array_equal(views.empty[0], holes)
    assert views.empty[1] is None
    np.testing.assert_array_equal(views.take([3, 7]).empty[0], holes[[3, 7]])
    mask = np.ones((20, 2), bool)
    mask[holes.any(axis=1), 0] = False
    assert views.hide(mask).empty == (None, None)
    census = Census.of(views)
    assert census.rows.tolist() == [19, 20]
    np.testing.assert_array_equal(census.empty[0], holes.sum(axis=0))


def test_blocks_on_disk_are_counted_like_arrays(tmp_path, monkeypatch):
    array = with_holes(RNG.normal(size=(30, 4)), 0.3)
    np.save(tmp_path / "a.npy", array)
    monkeypatch.setattr("acova.data.stored.BLOCK", 7)
    stored = StoredViews.of([tmp_path / "a.npy"])
    for name in ("rows", "empty"):
        found, expected = (getattr(Census.of(views), name) for views in (stored, Views.of([array])))
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(DataError, match=rf"'view_0' has {np.isnan(array).sum()} empty cells .* holes='refuse'"):
        Census.of(stored).refuse_empty_cells(stored)


def test_streamed_data_are_refused_on_demand_and_never_hidden(tmp_path):
    np.save(tmp_path / "a.npy", with_holes(RNG.normal(size=(30, 4)), 0.3))
    assert len(load(str(tmp_path), reading_of("fit", holes="keep"), stream=True)[0]) == 30
    with pytest.raises(DataError, match=r"empty cells .* holes='refuse'"):
        load(str(tmp_path), reading_of("fit", holes="refuse"), stream=True)
    with pytest.raises(
        OptionError, match="--holes: these options say how tables are read into memory; leave out --stream"
    ):
        load(str(tmp_path), reading_of("fit", holes="hide"), stream=True)


def test_a_view_without_rows_is_completed_by_zeros():
    completion = Completion.fit(np.zeros((0, 3)))
    np.testing.assert_array_equal(completion.completed(np.array([[1.0, NAN, 2.0]])), [[1, 0, 2]])


def test_a_column_that_is_empty_in_every_block_is_refused(tmp_path):
    array = RNG.normal(size=(30, 4))
    array[:, 2] = NAN
    np.save(tmp_path / "a.npy", array)
    for views in (StoredViews.of({"a": tmp_path / "a.npy"}), Views.of({"a": array})):
        with pytest.raises(DataError, match=r"View 'a': column 2 is empty in every sample that has the view\. Drop it"):
            Census.of(views).check("ACOVA", views)


def test_the_model_learned_has_a_better_likelihood_than_means():
    rows, _ = made_rows(n=300, width=8)
    learned = Completion.fit(with_holes(rows, 0.2))
    covariance = learned.loadings @ learned.loadings.T + learned.noise * np.eye(8)
    found = multivariate_normal(learned.mean, covariance).logpdf(rows).mean()
    alone = multivariate_normal(rows.mean(axis=0), np.diag(rows.var(axis=0))).logpdf(rows).mean()
    best = multivariate_normal(rows.mean(axis=0), np.cov(rows.T)).logpdf(rows).mean()
    assert alone + 0.8 * (best - alone) < found
