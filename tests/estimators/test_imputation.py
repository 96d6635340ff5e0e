"""Imputation: the experts and the errors against other computations, and what an estimator makes of them."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import nnls
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor

from acova import ACOVA
from acova.base import DataError, OptionError, Streams
from acova.data import make_observed
from acova.functional import Batch, reparameterise
from acova.training.experts import EXPERTS, Decoded, Donors, decode
from acova.training.holdout import HeldOut, Holdout
from acova.training.imputation import LEVELS, Errors, conformal_quantiles, stack
from acova.training.inference import batch_of
from conftest import SMALL, make_toy

QUICK = {**SMALL, "pretrain_epochs": 2, "warmup_epochs": 4, "epochs": 4}


@pytest.fixture(scope="module")
def toy():
    return make_toy(n_samples=150)[0]


@pytest.fixture(scope="module")
def model(toy):
    return ACOVA.from_settings(3, **QUICK).fit(toy).calibrate_imputation(toy, n_folds=3)


def as_dict(views):
    return dict(zip(views.names, views.arrays, strict=True))


# --- held-out entries -----------------------------------------------------------------------------


def test_every_view_of_a_sample_with_several_is_hidden_once_and_no_sample_loses_all():
    observed = make_observed(300, 5, 0.7, random_state=0)
    holdout = Holdout.draw(observed, 3, np.random.default_rng(0))
    hidden = np.sum([observed & ~holdout.kept(fold) for fold in range(3)], axis=0)
    several = observed.sum(axis=1) > 1
    np.testing.assert_array_equal(hidden, observed & several[:, None])
    assert all(holdout.kept(fold).any(axis=1).all() for fold in range(3))


def test_entries_are_predicted_from_views_that_samples_without_the_view_have():
    observed = make_observed(400, 3, 0.6, random_state=1)
    holdout = Holdout.draw(observed, 4, np.random.default_rng(0))
    real = {tuple(row) for row in observed[~observed[:, 0]]}
    for fold in range(4):
        rows, seen = holdout.entries(0, fold, np.random.default_rng(fold))
        assert (seen <= holdout.kept(fold)[rows]).all()
        assert {tuple(row) for row in seen} <= real
    rows, seen = holdout.entries(0, 0, np.random.default_rng(0))
    weights = holdout.weights(0, seen)
    wanted = observed[~observed[:, 0]].sum(axis=1)
    np.testing.assert_allclose(np.average(seen.sum(axis=1), weights=weights), wanted.mean(), rtol=1e-12)


def test_a_view_that_nobody_lacks_is_predicted_from_all_others():
    observed = np.ones((12, 3), dtype=bool)
    holdout = Holdout.draw(observed, 3, np.random.default_rng(0))
    rows, seen = holdout.entries(1, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(seen, holdout.kept(0)[rows])
    np.testing.assert_array_equal(holdout.weights(1, seen), np.ones(len(rows)))


# --- experts --------------------------------------------------------------------------------------


@pytest.fixture
def donors():
    rng = np.random.default_rng(3)
    views = [rng.normal(size=(60, size)) for size in (4, 5, 3)]
    decoded = Decoded([rng.normal(size=view.shape) for view in views], [np.ones(v.shape) for v in views], [views[2]])
    return Donors(views, np.ones((60, 3), dtype=bool), decoded), rng


def test_the_experts_are_those_of_scikit_learn(donors):
    donors, rng = donors
    queries = [rng.normal(size=(7, size)) for size in (4, 5, 3)]
    decoded = Decoded([rng.normal(size=q.shape) for q in queries], [np.ones(q.shape) for q in queries], [queries[2]])
    predicted = donors.predict(0, queries, np.ones((7, 3), dtype=bool), decoded)
    view, mean = donors.views[0], donors.views[0].mean(axis=0)
    residuals = view - donors.decoded.means[0]
    near = KNeighborsRegressor(10).fit(donors.decoded.latents[0], residuals).predict(queries[2])
    np.testing.assert_allclose(predicted[0], decoded.means[0] - mean)
    np.testing.assert_allclose(predicted[1], decoded.means[0] + near - mean)

    def features(views):
        parts = [(views[u] - donors.views[u].mean(axis=0)) / donors.views[u].var(axis=0).sum() ** 0.5 for u in (1, 2)]
        return np.hstack(parts) / np.sqrt(2)

    level = np.square(features(donors.views)).sum(axis=1).mean()
    for name, found in zip(EXPERTS[2:], predicted[2:], strict=True):
        kind, penalty = name.split()
        ridge = KernelRidge(alpha=float(penalty) * level).fit(
            features(donors.views), view - mean if kind == "regression" else residuals
        )
        base = 0.0 if kind == "regression" else decoded.means[0] - mean
        np.testing.assert_allclose(found, base + ridge.predict(features(queries)), atol=1e-8)


def test_a_hidden_view_of_a_query_is_not_read_and_a_missing_cell_of_a_donor_lends_nothing(donors):
    donors, rng = donors
    queries = [rng.normal(size=(5, size)) for size in (4, 5, 3)]
    decoded = Decoded([rng.normal(size=q.shape) for q in queries], [np.ones(q.shape) for q in queries], [queries[2]])
    seen = np.ones((5, 3), dtype=bool)
    seen[:, 1] = False
    expected = donors.predict(0, queries, seen, decoded)
    np.testing.assert_array_equal(
        donors.predict(0, [queries[0], np.full((5, 5), np.nan), queries[2]], seen, decoded), expected
    )
    holed = [view.copy() for view in donors.views]
    holed[0][4, 2] = np.nan
    filled = [view.copy() for view in donors.views]
    filled[0][4, 2] = donors.decoded.means[0][4, 2]
    answers = [
        Donors(views, donors.observed, donors.decoded).predict(0, queries, seen, decoded) for views in (holed, filled)
    ]
    np.testing.assert_array_equal(*answers)


def test_what_is_decoded_averages_draws_and_runs_and_its_variance_is_that_within_and_between_runs(toy):
    model = ACOVA.from_settings(3, **{**QUICK, "n_init": 2, "consensus": True}).fit(toy)
    batch, streams = batch_of(toy, model._scaling, torch.device("cpu")), Streams(5)
    found = decode(model._ensemble, model._likelihoods, batch, streams)
    means, within = [], []
    for run, network in enumerate(model._ensemble.networks):
        posterior = network.posterior(batch.views, batch.observed)
        noise = streams.numpy("posterior", run).standard_normal((4, 4)).astype(np.float32)
        draws = []
        for draw in torch.from_numpy(np.concatenate([noise, -noise])):
            latent = reparameterise(posterior.mean, posterior.variance, draw)
            draws.append(network.decode([latent] * 3, torch.ones_like(batch.observed))[1].double().numpy())
        means.append(np.mean(draws, axis=0))
        within.append(np.var(draws, axis=0))
    np.testing.assert_allclose(found.means[1], np.mean(means, axis=0), atol=1e-6)
    np.testing.assert_allclose(found.variances[1], np.mean(within, axis=0) + np.var(means, axis=0), atol=1e-5)
    alone = Batch([view[3:4] for view in batch.views], batch.observed[3:4])
    np.testing.assert_allclose(
        decode(model._ensemble, model._likelihoods, alone, streams).means[0], found.means[0][3:4], atol=1e-5
    )


# --- errors ---------------------------------------------------------------------------------------


def held_of(truth, predicted, weights=None, n_folds=4):
    rows = len(truth)
    weights = np.ones(rows) if weights is None else weights
    return HeldOut(np.asarray(predicted), truth, np.full(truth.shape, 0.01), weights, np.arange(rows) % n_folds)


def test_experts_are_stacked_by_least_squares_without_negative_weights():
    rng = np.random.default_rng(0)
    predicted = rng.normal(size=(3, 50, 4))
    truth = 0.7 * predicted[0] - 0.4 * predicted[1] + 0.1 * rng.normal(size=(50, 4))
    weights = rng.uniform(0.5, 2, size=50)
    truth[3, 1] = np.nan
    known = ~np.isnan(truth)
    roots = np.sqrt(np.broadcast_to(weights[:, None], truth.shape))[known]
    table = np.stack([part[known] * roots for part in predicted], axis=1)
    expected = nnls(table, truth[known] * roots)[0]
    np.testing.assert_allclose(stack(held_of(truth, predicted, weights)), expected, atol=1e-5)


@pytest.mark.parametrize("rows", [60, 260])
def test_intervals_of_conformal_quantiles_hold_what_they_say(rows):
    rng = np.random.default_rng(rows)
    inside = []
    for _ in range(200 if rows < 100 else 40):
        errors = rng.standard_t(4, size=(rows + 50, 3))
        quantiles = conformal_quantiles(errors[:rows], np.ones(rows))
        low, high = quantiles[[9, 189]]
        inside.append(((low <= errors[rows:]) & (errors[rows:] <= high)).mean())
    np.testing.assert_allclose(np.mean(inside), 0.9, atol=0.02)
    assert (np.diff(quantiles, axis=0) >= 0).all()


def test_the_spread_of_a_sample_is_that_of_its_posterior_and_smaller_with_more_views(toy):
    model = ACOVA.from_settings(3, **{**QUICK, "correlation": "identity"}).fit(toy)
    table = model.assignments(toy, spread=True)
    pd.testing.assert_frame_equal(table.drop(columns="spread"), model.assignments(toy))
    std = model.posterior(toy)[1]
    np.testing.assert_allclose(table["spread"], [np.sqrt(np.mean(row**2)) for row in std], rtol=1e-6)
    whole = toy.take(toy.complete)
    fewer = whole.hide(np.array([True, False, False]) & np.ones((len(whole), 3), dtype=bool))
    assert (model.assignments(fewer, spread=True)["spread"] > model.assignments(whole, spread=True)["spread"]).all()
    with pytest.raises(OptionError, match="spread=True needs the samples as X"):
        model.assignments(spread=True)


@pytest.mark.parametrize("common", [0.0, 0.3, 1.0])
def test_few_entries_with_many_features_hold_what_they_say(common):
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(60):
        shared, own = rng.normal(size=(220, 1)), rng.normal(size=(220, 30))
        errors = np.sqrt(common) * shared + np.sqrt(1 - common) * own
        low, high = conformal_quantiles(errors[:20], np.ones(20))[[9, 189]]
        inside.append(((low <= errors[20:]) & (errors[20:] <= high)).mean())
    np.testing.assert_allclose(np.mean(inside), 0.9, atol=0.02)  # 0.94 if one more entry counts in full


def test_a_weight_counts_as_copies_and_a_missing_cell_does_not_count():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(300, 2))
    copies = np.where(np.arange(300) < 100, 3, 1)
    many = conformal_quantiles(np.repeat(errors, copies, axis=0), np.ones(copies.sum()))
    few = conformal_quantiles(errors, copies.astype(float))
    np.testing.assert_allclose(many[19:180], few[19:180], atol=0.1)  # one more entry weighs as much as a mean one
    holed = np.vstack([errors, np.full((50, 2), np.nan)])
    np.testing.assert_array_equal(conformal_quantiles(holed, np.ones(350)), conformal_quantiles(errors, np.ones(300)))


def test_the_scale_of_the_errors_is_that_of_each_feature():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4000, 3)) * [0.5, 1.0, 3.0]
    errors = Errors.learn(held_of(truth, np.zeros((1, 4000, 3))))
    np.testing.assert_allclose(errors.scale(np.full((1, 3), 0.01))[0], [0.5, 1.0, 3.0], rtol=0.05)
    np.testing.assert_allclose(errors.spread, 1, rtol=0.02)
    np.testing.assert_allclose(errors.quantile(0.95), 1.645, rtol=0.1)
    np.testing.assert_array_equal(errors.quantile(0.9501), errors.quantiles[190])
    np.testing.assert_array_equal(errors.quantile(0.0499), errors.quantiles[8])
    assert LEVELS[190] == pytest.approx(0.955)


# --- estimators -----------------------------------------------------------------------------------


def test_observed_cells_keep_their_bits_and_missing_ones_are_close(model, toy):
    complete, _ = make_toy(n_samples=150, missing=0.0)
    filled = model.impute(as_dict(toy))
    for v, name in enumerate(toy.names):
        seen, truth = toy.observed[:, v], complete.arrays[v]
        np.testing.assert_array_equal(filled[name][seen], truth[seen])
        gap = (filled[name] - truth)[~seen] / truth.std(axis=0)
        assert np.sqrt(np.square(gap).mean()) < 0.4


def test_intervals_hold_fresh_entries(model, toy):
    complete, _ = make_toy(n_samples=150, missing=0.0)
    _, (low, high) = model.impute(toy, quantiles=[0.05, 0.95])
    missing = ~toy.observed
    inside = [
        ((low[name] <= truth) & (truth <= high[name]))[missing[:, v]]
        for v, (name, truth) in enumerate(as_dict(complete).items())
    ]
    assert 0.85 <= np.concatenate([part.ravel() for part in inside]).mean() <= 0.96


def test_standard_deviations_and_quantiles_are_of_missing_cells_alone(model, toy):
    filled, std, (low, median, high) = model.impute(toy, return_std=True, quantiles=[0.1, 0.5, 0.9])
    for v, name in enumerate(toy.names):
        seen = toy.observed[:, v]
        assert (std[name][seen] == 0).all()
        assert (std[name][~seen] > 0).all()
        assert (low[name] <= median[name]).all()
        assert (median[name] <= high[name]).all()
        np.testing.assert_array_equal(low[name][seen], filled.arrays[v][seen])


def test_calibration_repeats_leaves_the_fit_alone_and_is_forgotten_by_a_new_fit(toy, model):
    report = model.imputation_report()
    model = ACOVA.from_settings(3, **QUICK).fit(toy)
    before, plain = model.assignments(), model.impute(toy)
    model.calibrate_imputation(toy, n_folds=3)
    pd.testing.assert_frame_equal(model.assignments(), before)
    pd.testing.assert_frame_equal(model.imputation_report(), report)
    for mine, theirs in zip(model.fit(toy).impute(toy).arrays, plain.arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_saved_model_imputes_the_same(model, toy, tmp_path):
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    pd.testing.assert_frame_equal(loaded.imputation_report("feature"), model.imputation_report("feature"))
    for mine, theirs in zip(loaded.impute(toy).arrays, model.impute(toy).arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_report_tells_of_views_and_features(model, toy):
    report = model.imputation_report()
    assert list(report.index) == list(toy.names)
    assert (report["explained"] > 0.5).all()
    assert report["coverage_90"].between(0.8, 1).all()
    features = model.imputation_report("feature")
    assert len(features) == sum(toy.sizes)
    np.testing.assert_allclose(features["coverage_90"].groupby("view").mean(), report["coverage_90"].sort_index())


def test_the_report_page_has_a_section_once_errors_are_measured(model, toy, tmp_path):
    assert "How well missing views are imputed" in model.report(tmp_path).read_text()
    plain = ACOVA.from_settings(3, **QUICK).fit(toy)
    assert "imputed" not in plain.report(tmp_path / "plain").read_text()


def test_frames_and_categories_come_back_as_they_were():
    rng = np.random.default_rng(0)
    kind = np.array(["low", "high"])[(np.arange(90) % 2)]
    names = [f"s{i}" for i in range(90)]
    level = np.where(kind == "high", 3.0, -3.0)[:, None]
    first = pd.DataFrame(level + rng.normal(size=(90, 3)), index=names, columns=["a", "b", "c"])
    second = pd.DataFrame(
        {"kind": kind, "count": np.where(kind == "high", 40, 2) + rng.integers(3, size=90)}, index=names
    )
    second["more"] = level[:, 0].astype(np.float32)
    frames = {"first": first.iloc[:80], "second": second.iloc[10:]}
    model = ACOVA.from_settings(2, **QUICK).fit(frames).calibrate_imputation(frames, n_folds=3)
    filled, std = model.impute(frames, return_std=True)
    assert list(filled["second"].columns) == list(second.columns)
    assert set(filled["second"].index) == set(names)
    assert (filled["second"].loc[names[:10], "kind"] == kind[:10]).all()
    assert std["second"]["kind"].isna().all()
    assert filled["second"]["more"].dtype == np.float32
    pd.testing.assert_frame_equal(filled["first"].loc[names[:80]], first.iloc[:80])
    pd.testing.assert_series_equal(filled["second"].loc[names[10:], "kind"], second["kind"].iloc[10:])
    drawn, labels = model.sample(5, random_state=0)
    assert set(drawn["second"]["kind"]) <= {"low", "high"}
    assert labels.shape == (5,)


def test_draws_repeat_and_look_like_the_data(model, toy):
    drawn, labels = model.sample(3000, random_state=1)
    again, _ = model.sample(3000, random_state=1)
    np.testing.assert_array_equal(drawn["text"], again["text"])
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / 3000, model.weights_, atol=0.05)
    spread = np.nanstd(toy.arrays[1], axis=0)
    np.testing.assert_allclose(
        drawn["text"].mean(axis=0) / spread, np.nanmean(toy.arrays[1], axis=0) / spread, atol=0.3
    )


def test_the_posterior_is_narrower_with_more_views(model, toy):
    mean, std = model.posterior(toy)
    np.testing.assert_array_equal(mean, model.transform(toy))
    assert std.shape == mean.shape
    product = ACOVA.from_settings(3, **QUICK, correlation="identity").fit(toy)
    complete = toy.take(toy.complete)
    alone = complete.hide(np.tile([True, False, False], (len(complete), 1)))
    assert (product.posterior(alone)[1] > product.posterior(complete)[1]).all()


def test_words_are_imputed_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    topic = np.arange(80) % 2
    rates = np.where(np.arange(40) % 2 == topic[:, None], 0.6, 0.02)
    words, other = rng.poisson(rates).astype(float), topic[:, None] + 0.1 * rng.normal(size=(80, 3))
    observed = np.ones((80, 2), dtype=bool)
    observed[:20, 0] = False
    model = ACOVA.from_settings(2, **QUICK, standardize="cosine").fit([words, other], observed=observed)
    filled = model.impute([words, other], observed=observed)[0]
    assert np.abs(filled[:20].sum(axis=1) - words[:20].sum(axis=1)).mean() < 0.6 * words.sum(axis=1).mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.impute(x, quantiles=[0.5, 1.0]), "quantiles must lie between 0.005 and 0.995"),
        (lambda m, x: m.calibrate_imputation(x, n_folds=2), "n_folds"),
        (lambda m, x: m.imputation_report("row"), "by must be 'view' or 'feature'; got 'row'"),
        (lambda m, x: m.sample(0), "n_samples"),
    ],
)
def test_what_cannot_be_asked_for(model, toy, call, message):
    with pytest.raises(OptionError, match=message):
        call(model, toy)


def test_error_bars_need_to_be_measured_and_that_needs_samples(toy):
    model = ACOVA.from_settings(3, **QUICK).fit(toy)
    with pytest.raises(OptionError, match=r"call calibrate_imputation\(X\) with the training data"):
        model.impute(toy, return_std=True)
    with pytest.raises(OptionError, match=r"nothing is measured yet"):
        model.imputation_report()
    alone = np.zeros_like(toy.observed)
    alone[np.arange(150), np.arange(150) % 3] = True
    keep = (alone & toy.observed).any(axis=1)
    with pytest.raises(DataError, match=r"view 'image' need at least 10 samples that have it and another view; 0 have"):
        model.calibrate_imputation(toy.take(keep), observed=alone[keep])


def test_of_many_samples_evenly_spread_ones_lend_values(model, toy, monkeypatch):
    monkeypatch.setattr("acova.training.imputer.MAX_DONORS", 50)
    imputer = model._imputer()
    arrays = imputer.scaled(toy)
    donors = imputer.donors(arrays, toy.observed, model._scaling.told(toy))
    np.testing.assert_array_equal(donors.observed, toy.observed[::3])
    np.testing.assert_array_equal(donors.views[1], arrays[1][::3])


def test_counts_stay_above_zero_and_shares_between_zero_and_one():
    rng = np.random.default_rng(0)
    group = np.arange(90) % 2
    shares = np.clip(np.where(group[:, None] == 1, 0.95, 0.05) + 0.1 * rng.normal(size=(90, 6)), 0, 1).round()
    counts = rng.poisson(np.where(group == 1, 0.2, 4.0)[:, None], size=(90, 5)).astype(float)
    observed = np.ones((90, 2), dtype=bool)
    observed[:20, 0] = observed[20:40, 1] = False
    settings = {**QUICK, "likelihood": ["bernoulli", "gaussian"], "standardize": "auto"}
    model = ACOVA.from_settings(2, **settings).fit([shares, counts], observed=observed)
    model.calibrate_imputation([shares, counts], observed=observed, n_folds=3)
    filled, bounds = model.impute([shares, counts], observed=observed, quantiles=[0.02, 0.98])
    for found in (filled, *bounds):
        assert ((found[0] >= 0) & (found[0] <= 1)).all()
        assert (found[1] >= 0).all()


def test_views_that_stay_on_disk_are_refused(model, toy, tmp_path, monkeypatch):
    from acova.data import StoredViews

    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    complete = make_toy(n_samples=150, missing=0.0)[0]
    for name, array in as_dict(complete).items():
        np.save(tmp_path / f"{name}.npy", array)
    stored = StoredViews.of(tmp_path)
    with pytest.raises(DataError, match=r"give a piece at a time, such as views.read\(0, 1000\)"):
        model.impute(stored)
    np.testing.assert_array_equal(model.impute(stored.read(0, 9)).arrays[0], complete.arrays[0][:9])
