"""Covariates: what is taken off, what is kept, what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from acova import ACOVA, Views
from acova.base import DataError, OptionError
from acova.data import Scaling
from acova.metrics import clustering_accuracy
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


def test_what_covariates_explain_is_the_fit_of_a_regression(data):
    """Of each scaled feature, on the samples that have the view, by scikit-learn."""
    tables, frame, _ = data
    views = Views.of(tables).with_covariates(frame)
    plain = Scaling.fit(views, ("zscore", "zscore"))
    design = np.column_stack([frame["batch"] == "y", frame["age"]]).astype(float)
    for v, (before, after) in enumerate(
        zip(plain.transform(views), plain.adjusted(views).transform(views), strict=True)
    ):
        seen = views.observed[:, v]
        fit = LinearRegression().fit(design[seen], before[seen])
        residuals = before[seen] - fit.predict(design[seen]) + before[seen].mean(0)
        shift = after[seen] - residuals
        np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-4)
        assert not after[~seen].any()


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
        ACOVA.from_settings(3, **SMALL).fit(binary, covariates=frame)
    without = ACOVA.from_settings(3, **{**SMALL, "epochs": 1}).fit(tables)
    with pytest.raises(OptionError, match="the model was fitted without covariates"):
        without.predict(tables, covariates=frame)
