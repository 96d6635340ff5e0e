"""Empty cells, covariates, likelihoods, imputation and the chosen number of clusters, several at once."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression

from acova import ACOVA, AgreementGraph, Concat, Views, select_n_clusters
from acova.base import DataError, OptionError
from acova.data import Scaling
from acova.data.covariates import Covariates, linear_effects
from acova.estimators import load_method
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.completions import with_completions
from acova.training.covariate_effects import with_covariates
from acova.training.inference import batch_of
from conftest import SMALL

N = 90
NAN = np.nan
QUICK = {**SMALL, "neighbor_weight": 0.5}
SCALINGS = {"one": "robust", "two": "zscore", "three": "range"}


def emptied(rows, rng, share=0.2):
    """Return rows in some of whose cells nothing is."""
    holes = rng.random(rows.shape) < share
    holes[holes.all(axis=1), 0] = False
    return np.where(holes, NAN, rows)


def made(seed=0):
    """Return tables with empty cells and missing samples, covariates that go with them, and raw counts."""
    rng = np.random.default_rng(seed)
    labels, names = np.arange(N) % 3, pd.Index([f"s{i:02}" for i in range(N)])
    frame = pd.DataFrame({"batch": rng.choice(["x", "y", "z"], N), "age": rng.normal(50, 9, N)}, index=names)
    shift = frame["batch"].map({"x": -1.0, "y": 0.0, "z": 1.0}).to_numpy()
    tables = {}
    for name, width in (("one", 8), ("two", 6), ("three", 5)):
        rows = rng.normal(0, 2, (3, width))[labels] + rng.normal(size=(N, width)) + np.outer(shift, np.full(width, 4))
        rows = rows if name == "three" else emptied(rows, rng)
        tables[name] = pd.DataFrame(rows, names, [f"{name}{j}" for j in range(width)])
    tables["two"], tables["three"] = tables["two"].iloc[10:], tables["three"].iloc[:70]
    raw = rng.poisson(np.exp(rng.normal(1.5, 1, (3, 7)))[labels]).astype(float)
    return tables, frame, pd.DataFrame(emptied(raw, rng), names, [f"gene{j}" for j in range(7)])


TABLES, FRAME, COUNTS = made()


def kept_and_read_back(model, folder, X, **more):
    """Check that what a fit says of its own data stays the same in prediction, and from a run folder."""
    np.testing.assert_array_equal(model.predict_proba(X, **more), model.probabilities_)
    model.save(folder)
    loaded = load_method(folder, device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X, **more), model.probabilities_)
    assert loaded.settings_ == model.settings_
    assert loaded.empty_cells_ == model.empty_cells_
    return loaded


# --- empty cells and covariates -----------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [1, 3])
def test_effects_of_covariates_are_learned_from_the_cells_that_are_there(n_groups):
    """Of every column, by scikit-learn's regression on the samples that have the cell, with a mean per group."""
    views = Views.of(TABLES).with_covariates(FRAME)
    encoded, groups = Covariates.learn(FRAME).encode(FRAME), np.random.default_rng(7).integers(n_groups, size=N)
    rows = Scaling.fit(views, ("zscore",) * 3).measured(views)
    member = np.equal.outer(groups, np.arange(1, n_groups)).astype(float)
    for v, effect in enumerate(linear_effects(rows, views.observed, encoded, groups)):
        seen = views.observed[:, v]
        for column, found in zip(rows[v].T, effect.T, strict=True):
            full = ~np.isnan(column)
            # Without one of the levels, which depend on each other.
            fit = LinearRegression().fit(np.hstack([encoded[:, 1:], member])[seen][full], column[full])
            gap = encoded[seen] @ found - encoded[seen, 1:] @ fit.coef_[: encoded.shape[1] - 1]
            np.testing.assert_allclose(gap, np.full_like(gap, gap[0]), atol=1e-8)


def test_what_groups_explain_as_well_is_left_to_them():
    """A batch that is a group of its own has no effect; the number beside it has that of scikit-learn."""
    rng = np.random.default_rng(0)
    groups, age = np.arange(60) % 2, rng.normal(size=60)
    encoded = Covariates.learn(frame := pd.DataFrame({"batch": np.where(groups, "x", "y"), "age": age})).encode(frame)
    for holed in (False, True):
        table = rng.normal(size=(60, 3)) + 5 * groups[:, None] + np.outer(age, [1, 2, 3])
        table[3, 0] = NAN if holed else table[3, 0]
        (found,) = linear_effects([table], np.ones((60, 1), dtype=bool), encoded, groups)
        np.testing.assert_allclose(found[:2], 0.0, atol=1e-12)
        fit = LinearRegression().fit(np.column_stack([groups, encoded[:, 2]]), table[:, 1])
        np.testing.assert_allclose(found[2, 1], fit.coef_[1], atol=1e-8)


def test_one_empty_cell_changes_the_effects_of_its_column_alone():
    rng = np.random.default_rng(0)
    table, encoded = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    seen = np.ones((40, 1), dtype=bool)
    (whole,), broken = linear_effects([table], seen, encoded), table.copy()
    broken[5, 1] = NAN
    (found,) = linear_effects([broken], seen, encoded)
    np.testing.assert_allclose(found[:, [0, 2]], whole[:, [0, 2]], atol=1e-12)
    (without,) = linear_effects([np.delete(table, 5, 0)], np.delete(seen, 5, 0), np.delete(encoded, 5, 0))
    np.testing.assert_allclose(found[:, 1], without[:, 1], atol=1e-12)


@pytest.mark.parametrize("factors", [False, True])
def test_what_stands_in_empty_cells_does_not_tell_the_batch(factors):
    views = Views.of({"one": TABLES["one"]}).with_covariates(FRAME)
    empty = np.isnan(TABLES["one"].to_numpy())
    scaling = with_covariates(Scaling.fit(views, ("zscore",)), views)
    (table,) = with_completions(scaling, views, [True], factors=factors).transform(views)
    places = [table[(FRAME["batch"] == batch).to_numpy()[:, None] & empty].mean() for batch in ("x", "z")]
    assert abs(places[0] - places[1]) < 0.2
    (before,) = with_completions(Scaling.fit(views, ("zscore",)), views, [True]).transform(views)
    told = [before[(FRAME["batch"] == batch).to_numpy()[:, None] & empty].mean() for batch in ("x", "z")]
    assert abs(told[0] - told[1]) > 1


def test_the_networks_input_is_the_same_in_imputation_as_in_prediction():
    """Both complete what is left when the effects of the covariates are taken off."""
    model = ACOVA.from_settings(3, **QUICK).fit(TABLES, covariates=FRAME)
    views = Views.of(TABLES).with_covariates(FRAME).take(np.arange(20))
    batch = batch_of(views, model._scaling, torch.device("cpu"))
    again = model._scaling.with_marks(model._imputer().scaled(views), views.observed, model._scaling.told(views))
    for theirs, ours in zip(batch.views, again, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


def test_covariates_and_counts_beside_empty_cells(tmp_path):
    tables = {**TABLES, "counts": COUNTS}
    model = ACOVA.from_settings(3, **QUICK, standardize={**SCALINGS, "counts": "counts"})
    loaded = kept_and_read_back(model.fit(tables, covariates=FRAME), tmp_path / "run", tables, covariates=FRAME)
    whole = Views.of(tables).with_covariates(FRAME)
    assert np.isfinite(loaded.score(whole))
    features = {name: part.to_numpy() for name, part in loaded.explain(whole).features.items()}
    assert all(np.isfinite(part[~np.isnan(part)]).all() for part in features.values())
    for what in ("impute", "calibrate_imputation"):
        with pytest.raises(DataError, match="logarithms of counts cannot be given in the units of the data"):
            getattr(loaded, what)(whole)


def test_methods_without_covariates_refuse_them():
    views = Views.of(TABLES)
    told = views.with_covariates(FRAME)
    for method in (Concat, AgreementGraph):
        with pytest.raises(OptionError, match=f"{method.__name__}: this method takes no covariates; use ACOVA"):
            method(3, random_state=0).fit(told)
    with pytest.raises(OptionError, match="Concat: the model was fitted without covariates"):
        Concat(3, random_state=0).fit(views).predict(told)


# --- empty cells and likelihoods ----------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "zero_inflated_negative_binomial"])
def test_counts_with_empty_cells_are_learned_from(likelihood, tmp_path):
    tables = {"counts": COUNTS, "three": TABLES["three"]}
    for weight in (0.0, 0.5):
        model = ACOVA.from_settings(3, **{**QUICK, "neighbor_weight": weight}, likelihood=[likelihood, "gaussian"])
        loaded = kept_and_read_back(model.fit(tables), tmp_path / str(weight), tables)
        assert np.isfinite(loaded.score(tables))
        assert np.isfinite(loaded.history_["total"]).all()


def test_shares_and_learned_spreads_with_empty_cells(tmp_path):
    """The spread of a feature is that of its cells around what is decoded, whatever is put into empty ones."""
    rng = np.random.default_rng(1)
    shares = emptied(rng.beta(2, 5, (3, 6))[np.arange(N) % 3] * rng.uniform(0.8, 1, (N, 6)), rng)
    tables = {"one": TABLES["one"], "shares": pd.DataFrame(shares, TABLES["one"].index)}
    model = ACOVA.from_settings(3, **QUICK, likelihood=["gaussian_learned", "beta"]).fit(tables)
    kept_and_read_back(model, tmp_path / "run", tables)
    views = Views.of(tables)
    batch = batch_of(views, model._scaling, torch.device("cpu"), model._likelihoods)
    latent = model.network_.posterior(batch.views, batch.observed).mean
    output = model.network_.decode([latent] * 2, batch.observed)[0].numpy()
    rows = model._scaling.scaled_rows(0, views.arrays[0])
    density = model.network_.view_likelihoods[0]
    expected = np.sqrt(np.nanmean(np.square(rows - output), axis=0))
    np.testing.assert_allclose(spread_of(density), expected, rtol=1e-3)


def spread_of(density):
    """Return the standard deviation of each feature: where the log density of 0 has fallen by one half."""
    zero = torch.zeros(density.size)
    return np.exp(-density.log_constant(zero).numpy() - 0.5 * np.log(2 * np.pi))


@pytest.mark.parametrize("likelihood", ["poisson", "beta"])
def test_moments_of_data_skip_empty_cells(likelihood):
    rng = np.random.default_rng(2)
    rows = rng.integers(1, 9, (50, 4)) / (1.0 if likelihood == "poisson" else 10.0)
    holed = np.where(rng.random(rows.shape) < 0.2, NAN, rows)
    found = LIKELIHOODS[likelihood].moments(holed)
    if likelihood == "poisson":
        means = np.nanmean(holed, axis=1, keepdims=True)
        holed = holed * means.mean() / means
    np.testing.assert_allclose(found, (np.nanmean(holed, axis=0), np.nanvar(holed, axis=0)))


@pytest.mark.parametrize("kind", ["counts", "cosine", "zscore"])
def test_completed_rows_scale_to_what_was_completed(kind):
    views = Views.of({"counts": COUNTS, "three": TABLES["three"]})
    scaling = with_completions(Scaling.fit(views, (kind, "zscore")), views, [True, False])
    (scaled, _), rows = scaling.transform(views), views.arrays[0]
    done = scaling.completed(0, rows, scaled)
    empty = np.isnan(rows)
    np.testing.assert_array_equal(done[~empty], rows[~empty])
    cells = (~empty).sum(axis=1, keepdims=True)
    if kind == "counts":  # in rows brought to the same sum, as their other cells are
        done = np.log1p(done * scaling.totals[0] / (np.nansum(rows, axis=1, keepdims=True) * 7 / cells))
    if kind == "cosine":
        done = done / np.sqrt(np.nansum(np.square(rows), axis=1, keepdims=True) * 7 / cells)
    np.testing.assert_allclose((done - scaling.centers[0]) / scaling.scales[0], scaled, atol=1e-5)


# --- imputation, and the number of clusters -----------------------------------------------------


def test_imputed_values_have_the_effects_of_the_covariates():
    """Most of what hidden rows of a view differ by is their batch, which is given back to what is decoded."""
    views = Views.of({**TABLES, "three": TABLES["three"].iloc[:50]}).with_covariates(FRAME)
    model = ACOVA.from_settings(3, **QUICK, standardize="zscore").fit(views)
    filled = model.impute(views)
    assert filled.complete.all()
    truth = TABLES["three"].iloc[50:]
    found = pd.DataFrame(filled.arrays[2], filled.index).loc[truth.index].to_numpy()
    assert np.square(found - truth.to_numpy()).sum() < 0.5 * np.square(truth - truth.mean()).to_numpy().sum()


def test_a_chosen_number_of_clusters_is_kept_and_imputed_with(tmp_path, monkeypatch):
    """Beside empty cells and covariates."""
    views = Views.of(TABLES).with_covariates(FRAME)
    model = ACOVA.from_settings("auto", **QUICK).fit(views)
    loaded = kept_and_read_back(model, tmp_path / "run", views)
    assert loaded.n_clusters == model.n_clusters == "auto"
    assert loaded.n_clusters_ == model.n_clusters_ == loaded.cluster_numbers_.n_clusters == 3
    pd.testing.assert_frame_equal(loaded.cluster_numbers_.table, model.cluster_numbers_.table)
    counts = []
    refitted = ACOVA._refitted

    def watched(self, *arguments):
        found = refitted(self, *arguments)
        counts.append(found.n_clusters)
        return found

    monkeypatch.setattr(ACOVA, "_refitted", watched)
    loaded.calibrate_imputation(views, n_folds=3)
    assert counts == [3, 3, 3]
    loaded.save(tmp_path / "calibrated")
    again = ACOVA.load(tmp_path / "calibrated", device="cpu")
    (ours, our_std), (theirs, their_std) = (each.impute(views, return_std=True) for each in (again, loaded))
    for name, one, other in zip(views.names, ours.arrays, theirs.arrays, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(our_std[name], their_std[name])


def test_the_number_of_clusters_is_chosen_without_what_covariates_explain():
    """A batch that shifts every feature is no cluster."""
    rng = np.random.default_rng(0)
    batch = pd.DataFrame({"batch": rng.choice(["x", "y"], 120)})
    shift = 9.0 * (batch["batch"] == "y").to_numpy()[:, None]
    views = Views.of({name: rng.normal(size=(120, 5)) + shift for name in ("one", "two")})
    assert select_n_clusters(views, range(2, 5), random_state=0).n_clusters == 2
    assert select_n_clusters(views.with_covariates(batch), range(2, 5), random_state=0).n_clusters == 1
