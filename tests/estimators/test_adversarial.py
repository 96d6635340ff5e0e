"""Twenty data sets made to break a fit: it is finite, and sane, or says why it should not be trusted."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from acova import ACOVA, Concat
from acova.base import AcovaError, DataError, DataWarning

N, K = 48, 3
TINY = {"hidden": (8,), "latent_dim": 2, "pretrain_epochs": 3, "warmup_epochs": 3, "epochs": 8, "random_state": 0}


def rng():
    return np.random.default_rng(0)


def blobs(n=N, sizes=(4, 3), seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % K
    return [6 * random.normal(size=(K, size))[labels] + random.normal(size=(n, size)) for size in sizes]


def with_views(*arrays):
    return list(arrays), None


def masked(observed, n_views=2):
    views = blobs(sizes=(4,) * n_views)
    return views, observed


def scaled_cell(value):
    first, second = blobs()
    first[5, 2] = value
    return [first, second], None


def wide_column(factor):
    first, second = blobs()
    return [np.column_stack([first, factor * rng().normal(size=N)]), second], None


def only_categories():
    words = np.array(["a", "b", "c"])
    index = [f"s{i}" for i in range(N)]
    frames = [pd.DataFrame({"x": words[np.arange(N) % 3], "y": words[np.arange(N) // 16]}, index) for _ in range(2)]
    return dict(zip(("left", "right"), frames, strict=True)), None


def all_but_one():
    observed = np.zeros((N, 3), dtype=bool)
    observed[:, 0] = True
    observed[:4] = True
    return masked(observed, 3)


# What a data set may end in: "sane" (no complaint at all), "warned" (with a text), "refused" (with a text), "either".
SETS = {
    "constant views": (lambda: with_views(np.full((N, 3), 7.0), np.full((N, 2), -1.0)), "warned"),
    "one constant view": (lambda: with_views(blobs()[0], np.full((N, 2), 3.0)), "either"),
    "one sample per cluster": (lambda: with_views(*(view[:K] for view in blobs())), "either"),
    "identical rows": (lambda: with_views(*(np.tile(view[:1], (N, 1)) for view in blobs())), "warned"),
    "one feature 1e15 larger": (lambda: wide_column(1e15), "either"),
    "one cell of 1e15": (lambda: scaled_cell(1e15), "either"),
    "two points": (lambda: with_views(*(np.repeat(view[:2], N // 2, axis=0) for view in blobs())), "warned"),
    "all categories": (only_categories, "either"),
    "heavy tails": (lambda: with_views(*(rng().standard_cauchy((N, 4)) ** 3 for _ in range(2))), "either"),
    "1:1000 imbalance": (
        lambda: with_views(
            *(np.vstack([np.zeros((1000, 3)), np.full((1, 3), 50.0)]) + rng().normal(size=(1001, 3)) for _ in range(2))
        ),
        "either",
    ),
    "one view": (lambda: with_views(blobs()[0]), "either"),
    "twenty views": (lambda: with_views(*blobs(sizes=(2,) * 20)), "either"),
    "a single column": (lambda: with_views(blobs()[0][:, :1]), "either"),
    "huge width": (lambda: with_views(rng().normal(size=(12, 20_000)), blobs(12)[0]), "either"),
    "near-duplicate columns": (
        lambda: with_views(np.repeat(blobs()[0][:, :1], 6, axis=1) + 1e-9 * rng().normal(size=(N, 6)), blobs()[1]),
        "either",
    ),
    "all but one view missing": (all_but_one, "either"),
    "disjoint views": (lambda: masked(np.eye(2, dtype=bool)[np.arange(N) % 2]), "either"),
    "integers": (lambda: with_views(*(np.rint(view).astype(np.int8) for view in blobs())), "either"),
    "subnormal numbers": (lambda: with_views(*(view * 1e-310 for view in blobs())), "either"),
    "alternating signs of 1e30": (
        lambda: with_views(*(1e30 * (-1.0) ** np.add.outer(np.arange(N), np.arange(3)) for _ in range(2))),
        "warned",
    ),
    "binary": (lambda: with_views(*((view > 0).astype(float) for view in blobs())), "either"),
    "values of 1e200": (lambda: with_views(*(1e200 * view for view in blobs())), "refused"),
}


def fitted(model, X, observed):
    """Fit a model and return the texts of the warnings about its result; the data may be remarked upon, too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, observed=observed)
    assert {each.category for each in caught} <= {ConvergenceWarning, DataWarning}, [str(w.message) for w in caught]
    return [str(each.message) for each in caught if each.category is ConvergenceWarning]


@pytest.mark.parametrize("method", [ACOVA, Concat])
@pytest.mark.parametrize("name", SETS)
def test_an_adversarial_data_set_is_fitted_or_refused(name, method):
    make, outcome = SETS[name]
    X, observed = make()
    model = method.from_settings(K, **(TINY if method is ACOVA else {"random_state": 0}))
    if outcome == "refused":
        with pytest.raises(
            DataError, match=r"View 'view_0', column \d holds .*e\+20\d in sample \d+: its mean and spread"
        ):
            model.fit(X, observed=observed)
        return
    said = fitted(model, X, observed)
    assert np.isfinite(model.history_["total"]).all()
    assert said == [f"{method.__name__}: {text}" for text in model.warnings_]
    sizes = np.bincount(model.labels_, minlength=K)
    assert len(sizes) == K
    assert (sizes.min() > 0 and sizes.max() < 0.95 * len(model.labels_)) or said, sizes
    if outcome == "warned":
        assert any("empty" in text or "differ" in text for text in said), said
    if method is ACOVA:
        np.testing.assert_allclose(model.probabilities_.sum(axis=1), 1, atol=1e-5)
        assert np.isfinite(model.latent_).all()
        assert np.isfinite(model.transform(X, observed=observed)).all()


def test_unscaled_extremes_are_refused_by_name():
    X, _ = scaled_cell(1e39)
    with pytest.raises(DataError, match="View 'view_0', column 2 holds 1e\\+39 in sample 5, too far from the data"):
        ACOVA.from_settings(K, **TINY, standardize=False, likelihood="gaussian").fit(X)


def test_a_learning_rate_that_diverges_is_an_error_or_a_warning():
    model = ACOVA.from_settings(K, **{**TINY, "epochs": 30}, learning_rate=100.0, clip_norm=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((ConvergenceWarning, AcovaError), match=r"loss rose|empty|holds|finite"):
            model.fit(blobs())
