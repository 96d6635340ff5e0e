"""Covariates: what is taken off, what is kept, what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression

from acova import ACOVA, Views
from acova.base import DataError, OptionError
from acova.data import Scaling
from acova.data.covariates import linear_effects
from acova.metrics import clustering_accuracy
from acova.training.covariate_effects import with_covariates
from acova.training.inference import batch_of
from conftest import SMALL

N = 120


def batches(seed=0):
    """Return views of three clusters with a batch effect larger than these, the covariates, and the clusters."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % 3
    names = pd.Index([f"s{i}" for i in range(N)])
    frame = pd.DataFrame({"batch": rng.choice(["x", "y"], N), "age": rng.normal(50, 9, N)}, index=names)
    tables = {}
    for name, width in (("one", 8), ("two", 6)):
        signal = rng.normal(0, 2, (3, width))[labels] + rng.normal(size=(N, width))
        batch = rng.normal(0, 8, (2, width))[(frame["batch"] == "y").to_numpy(dtype=int)]
        age = np.outer(frame["age"] - 50, rng.normal(0, 0.3, width))
        tables[name] = pd.DataFrame(signal + batch + age, names, [f"c{j}" for j in range(width)])
    tables["two"] = tables["two"].iloc[10:]
    return tables, frame, labels


@pytest.fixture(scope="module")
def data():
    return batches()


@pytest.fixture(scope="module")
def model(data):
    return ACOVA.from_settings(3, **SMALL, neighbor_weight=0.5).fit(data[0], covariates=data[1])


def test_what_is_taken_off_is_the_effect_within_clusters(data):
    """Of each scaled feature, on the samples that have the view, by scikit-learn with the true clusters."""
    tables, frame, labels = data
    views = Views.of(tables).with_covariates(frame)
    plain = Scaling.fit(views, ("zscore", "zscore"))
    design = np.column_stack([frame["batch"] == "y", frame["age"]]).astype(float)
    member = np.equal.outer(labels[[int(name[1:]) for name in views.index]], [1, 2])
    adjusted = with_covariates(plain, views)
    for v, (before, after) in enumerate(zip(plain.transform(views), adjusted.transform(views), strict=True)):
        seen = views.observed[:, v]
        fit = LinearRegression().fit(np.hstack([design, member])[seen], before[seen])
        effects = design[seen] @ fit.coef_[:, :2].T
        off = before[seen] - after[seen]
        gap = (off - off.mean(0)) - (effects - effects.mean(0))
        assert np.square(gap).sum() < 0.02 * np.square(effects - effects.mean(0)).sum()
        assert not after[~seen].any()


def test_clusters_that_are_rarer_in_a_batch_keep_their_difference():
    """One regression on the batch takes much of it off, that within groups of alike samples hardly any."""
    rng = np.random.default_rng(0)
    batch, labels = np.arange(200) // 100, np.repeat([0, 1, 0, 1], [70, 30, 30, 70])
    truth = rng.normal(size=12)
    table = 2 * rng.normal(size=(2, 12))[labels] + rng.normal(size=(200, 12)) + np.outer(batch, truth)
    views = Views.of([table]).with_covariates(pd.DataFrame({"batch": np.where(batch, "y", "x")}))
    scaling, encoded = Scaling.fit(views, ("none",)), np.column_stack([batch == 0, batch == 1]) - 0.5
    within = with_covariates(scaling, views).effects[0]
    (of_one,) = linear_effects([table], views.observed, encoded)
    errors = [np.square(found[1] - found[0] - truth).mean() for found in (within, of_one)]
    assert errors[0] < 0.1
    assert errors[1] > 0.5


def test_effects_are_the_same_bits_again_and_none_where_nothing_is_told(data):
    views = Views.of(data[0]).with_covariates(data[1])
    plain = Scaling.fit(views, ("zscore", "zscore"))
    first, second = with_covariates(plain, views), with_covariates(plain, views, adjusts=[False, True])
    for one, other in zip(first.effects, with_covariates(plain, views).effects, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.effects[0].any()
    assert not second.effects[0].any()
    assert second.effects[1].any()
    assert with_covariates(plain, Views.of(data[0])) is plain
    assert with_covariates(plain, views, adjusts=[False, False], tells=True).effects == ()


# --- told networks ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(data):
    """Return models whose decoders, or encoders as well, are told."""
    return {
        use: ACOVA.from_settings(3, **SMALL, neighbor_weight=0.5, covariate_use=use).fit(data[0], covariates=data[1])
        for use in ("decode", "encode", "both")
    }


def test_a_told_decoder_decodes_a_sample_as_of_any_batch(data, told):
    """Between two batches, what is decoded moves as far as the batches lie apart; nothing is taken off the views."""
    tables, frame, _ = data
    views = Views.of(tables).with_covariates(frame)
    batch = frame["batch"].to_numpy()
    for use in ("decode", "encode"):
        model = told[use]
        assert model._scaling.effects == ()
        posterior = torch.from_numpy(model.transform(views))
        decoded = []
        for level in ("x", "y"):
            other = model._scaling.told(views.with_covariates(frame.assign(batch=level)))
            everything = torch.ones(N, 2, dtype=torch.bool)
            decoded.append(model.network_.decode([posterior] * 2, everything, torch.from_numpy(other))[0].numpy())
        moved = (decoded[1] - decoded[0]).mean(0)
        (scaled, _) = model._scaling.transform(views)
        apart = scaled[batch == "y"].mean(0) - scaled[batch == "x"].mean(0)
        assert np.corrcoef(moved, apart)[0, 1] > 0.8


def test_who_is_told_decides_whether_prediction_asks_for_covariates(data, told):
    tables, frame, _ = data
    other = frame.assign(batch=frame["batch"].map({"x": "y", "y": "x"}))
    for use, model in told.items():
        mine, theirs = (model.predict_proba(tables, covariates=one) for one in (frame, other))
        np.testing.assert_array_equal(mine, model.probabilities_)
        assert np.array_equal(mine, theirs) == (use == "decode")
        assert np.array_equal(mine, model.predict_proba(tables)) == (use == "decode")
        scores = [model.score(Views.of(tables).with_covariates(one)) for one in (frame, other)]
        assert scores[0] > scores[1]


@pytest.mark.parametrize("use", ["decode", "encode", "both"])
def test_told_models_are_read_back_and_explain_and_impute(data, told, use, tmp_path):
    tables, frame, _ = data
    views = Views.of(tables).with_covariates(frame)
    told[use].save(tmp_path / "run")
    model = ACOVA.load(tmp_path / "run", device="cpu")
    np.testing.assert_array_equal(model.predict_proba(views), told[use].probabilities_)
    assert model.covariates_ == {"batch": ("x", "y"), "age": ()}
    found = model.explain(views)
    assert {name: part.shape[1] for name, part in found.features.items()} == {"one": 8, "two": 6}
    total = sum(part.sum(axis=1) for part in found.features.values())
    gap = found.samples["log_odds"] - found.samples["baseline"] - total
    assert (gap.abs() <= 0.02 * total.abs().clip(lower=1)).all()
    filled = model.impute(views).arrays[1][~views.observed[:, 1]]
    hidden = frame.loc[views.index[~views.observed[:, 1]], "batch"]
    truth = {level: np.nanmean(views.arrays[1][(frame.loc[views.index, "batch"] == level)], axis=0) for level in "xy"}
    for row, level in zip(filled, hidden, strict=True):
        other = truth["y" if level == "x" else "x"]
        assert np.square(row - truth[level]).sum() < np.square(row - other).sum()


def test_error_bars_of_a_told_model_know_the_covariates(data, told, tmp_path):
    views = Views.of(data[0]).with_covariates(data[1])
    model = told["decode"].calibrate_imputation(views, n_folds=3)
    model.save(tmp_path / "run")
    ours, theirs = model.impute(views, return_std=True), ACOVA.load(tmp_path / "run").impute(views, return_std=True)
    np.testing.assert_array_equal(ours[0].arrays[1], theirs[0].arrays[1])
    np.testing.assert_array_equal(ours[1]["two"], theirs[1]["two"])
    report = model.imputation_report()
    assert report.loc["two", "explained"] > 0.5


def test_likelihoods_of_other_kinds_are_told_and_not_adjusted(data):
    """Counts are decoded raw from what is adjusted; zeros and ones stay what they are."""
    tables, frame, _ = data
    rng = np.random.default_rng(0)
    counts = tables["one"].pipe(lambda table: table * 0 + rng.poisson(5 + 20 * (frame[["batch"]] == "y"), table.shape))
    tables = {"counts": counts, "binary": (tables["two"] > 0).astype(float)}
    settings = {**SMALL, "likelihood": ["poisson", "bernoulli"], "covariate_use": "both"}
    model = ACOVA.from_settings(3, **settings).fit(tables, covariates=frame)
    assert model._scaling.effects[0].any()
    assert not model._scaling.effects[1].any()
    batch = batch_of(Views.of(tables).with_covariates(frame), model._scaling, torch.device("cpu"), model._likelihoods)
    np.testing.assert_array_equal(batch.targets[0].numpy(), counts.loc[model.index_].to_numpy())
    assert np.isfinite(model.score(Views.of(tables).with_covariates(frame)))


def test_clusters_are_found_beneath_a_larger_batch_effect(data, model):
    tables, _, labels = data
    truth = labels[[int(name[1:]) for name in model.index_]]
    assert clustering_accuracy(truth, model.labels_) > 0.9
    without = ACOVA.from_settings(3, **SMALL, neighbor_weight=0.5).fit(tables)
    assert clustering_accuracy(truth, without.labels_) < 0.8


def test_prediction_takes_covariates_or_the_mean_of_the_training_samples(data, model, tmp_path):
    tables, frame, _ = data
    told = model.predict_proba(tables, covariates=frame)
    np.testing.assert_array_equal(told, model.probabilities_)
    np.testing.assert_array_equal(model.transform(Views.of(tables).with_covariates(frame)), model.latent_)
    averaged = model.predict_proba(tables)
    empty = pd.DataFrame({"batch": [None] * N, "age": [np.nan] * N}, index=frame.index)
    np.testing.assert_array_equal(model.predict_proba(tables, covariates=empty), averaged)
    assert not np.array_equal(averaged, told)
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(tables, covariates=frame[["age", "batch"]]), told)
    assert loaded._scaling.covariates == model._scaling.covariates


def test_the_order_of_samples_does_not_matter(data, model):
    tables, frame, _ = data
    shuffled = {name: table.sample(frac=1, random_state=1) for name, table in tables.items()}
    again = ACOVA.from_settings(3, **SMALL, neighbor_weight=0.5).fit(shuffled, covariates=frame.iloc[::-1])
    one, other = (pd.Series(found.labels_, found.index_) for found in (model, again))
    assert one.equals(other.reindex(one.index))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda frame: frame.replace({"batch": {"x": "z"}}),
            "Covariate 'batch' holds 'z', which no training sample has",
        ),
        (lambda frame: frame[["age"]], "Covariates must be those of the fit"),
        (lambda frame: frame.iloc[1:], "covariates have no row for 1 of 120 samples, first: s0"),
        (lambda frame: frame.assign(age="old"), "Covariate 'age' was numbers in the fit; got 'old'"),
        (lambda frame: frame.to_numpy(), "covariates must be a DataFrame with a column for each"),
        (lambda frame: pd.concat([frame, frame]), "must name every column and every sample once"),
    ],
)
def test_covariates_that_do_not_fit_are_refused(data, model, change, words):
    with pytest.raises(DataError, match=words):
        model.predict(data[0], covariates=change(data[1]))


def test_fits_that_cannot_use_covariates_say_why(data, model):
    tables, frame, _ = data
    with pytest.raises(DataError, match="Covariate 'site' is the same for all samples"):
        ACOVA.from_settings(3, **SMALL).fit(tables, covariates=frame.assign(site="here"))
    binary = {name: (table > 0).astype(float) for name, table in tables.items()}
    with pytest.raises(OptionError, match="covariates are taken off scaled measurements, but view 'one' has the"):
        ACOVA.from_settings(3, **SMALL, covariate_use="adjust").fit(binary, covariates=frame)
    without = ACOVA.from_settings(3, **{**SMALL, "epochs": 1}).fit(tables)
    with pytest.raises(OptionError, match="the model was fitted without covariates"):
        without.predict(tables, covariates=frame)


def test_a_told_model_without_a_view_is_that_with_the_view_hidden(data, tmp_path):
    tables, frame, _ = data
    model = ACOVA.from_settings(3, **SMALL, covariate_use="encode").fit(tables, covariates=frame)
    views = Views.of(tables).with_covariates(frame)
    hidden = np.column_stack([np.ones(N, dtype=bool), np.zeros(N, dtype=bool)])
    before = model.predict_proba(views, observed=hidden)
    model.remove_view("two").save(tmp_path / "run")
    one = Views.of({"one": tables["one"]}).with_covariates(frame)
    for known in (model, ACOVA.load(tmp_path / "run", device="cpu")):
        np.testing.assert_allclose(known.predict_proba(one), before, atol=1e-4)
