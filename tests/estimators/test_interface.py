"""What every method's public calls promise: masks everywhere, options of any numeric type, errors with a way out."""

import inspect
import json
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from quick import make_tiny as make
from sklearn.utils.validation import check_is_fitted

from acova import ACOVA, CPSPAN, Concat, Views
from acova.base import DataError, OptionError
from acova.data import make_observed, stack_views
from acova.estimators import fit_many, list_methods
from acova.estimators._explanation import Explanation
from acova.estimators._settings import setting_parameters
from acova.estimators.registry import METHODS
from acova.estimators.rules import check_flag, rules_of
from acova.training.experts import can_decode
from conftest import make_toy

FIRST = ("X", "data")
"""What a method calls its samples."""
SEPARATE = ("annotate", "calibrate_imputation", "calibrate_outliers", "refit_without_missingness", "update")
"""Calls that change the model, the data or both: see below, and test_imputation.py."""

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", params=list_methods())
def name(request):
    return request.param


@pytest.fixture(scope="module")
def complete():
    return make_toy(n_samples=40, missing=0.0)[0]


@pytest.fixture(scope="module")
def observed():
    return make_observed(40, 3, 0.5, random_state=0)


@pytest.fixture(scope="module")
def model(name, complete, observed):
    return make(name).fit(complete, observed=observed)


def dirty(views, observed, junk):
    arrays = [np.where(observed[:, [v]], array, junk) for v, array in enumerate(views.arrays)]
    return dict(zip(views.names, arrays, strict=True))


def plain(result):
    """Return a comparable form of whatever a method returns."""
    if hasattr(result, "labels_"):
        return result.assignments().to_numpy()
    if inspect.isgenerator(result):
        return pd.concat(list(result)).to_numpy()
    if isinstance(result, Explanation):
        return np.hstack([plain(table) for table in (result.samples, result.views, *result.features.values())])
    if isinstance(result, tuple | dict):
        return np.hstack([plain(part) for part in (result.values() if isinstance(result, dict) else result)])
    return result.to_numpy() if isinstance(result, pd.DataFrame) else np.asarray(result)


def decodes(model):
    """Tell whether a model has a network that can explain and impute."""
    return hasattr(model, "_ensemble") and can_decode(model._ensemble)


def calls_on_samples(model):
    """Return the names of the public methods whose first argument is samples."""
    methods = inspect.getmembers(type(model), callable)
    return [
        name
        for name, method in methods
        if not name.startswith("_") and next(iter([*inspect.signature(method).parameters][1:]), None) in FIRST
    ]


def test_every_public_call_honours_the_mask(name, model, complete, observed):
    calls = calls_on_samples(model)
    assert {"fit", "fit_predict", "predict", "assignments", "annotate"} <= set(calls)
    if hasattr(model, "fusion_weights"):
        assert {"fit_transform", "transform", "score", "predict_proba", "fusion_weights"} <= set(calls)
    for call in set(calls) - set(model.get_params()):  # CPSPAN and PMIMC have a setting called impute
        if call in ("outliers", "score_samples") and not hasattr(model, "outlier_scores_"):  # before calibrate_outliers
            continue
        assert "observed" in inspect.signature(getattr(model, call)).parameters, call
        if call in SEPARATE:
            continue
        if call in ("explain", "impute", "posterior") and not decodes(model):
            with pytest.raises(OptionError, match=rf"{name}\.{call}: this needs a network"):
                getattr(model, call)(complete)
            continue
        results = []
        for junk in (1e3, -7.0, np.nan):
            asked = make(name) if call.startswith("fit") else model
            results.append(plain(getattr(asked, call)(dirty(complete, observed, junk), observed=observed)))
        np.testing.assert_array_equal(results[1], results[0], err_msg=call)
        np.testing.assert_array_equal(results[2], results[0], err_msg=call)


def test_fit_transform_is_transform_of_what_was_fitted(name, model, complete, observed):
    if not hasattr(model, "transform"):
        pytest.skip("has no latent space")
    fitted = make(name).fit_transform(complete, observed=observed)
    np.testing.assert_allclose(fitted, model.transform(complete, observed=observed), rtol=1e-4, atol=1e-5)


def test_annotate_honours_the_mask(complete, observed):
    mudata = pytest.importorskip("mudata")
    anndata = pytest.importorskip("anndata")
    labels = []
    for junk in (1e3, -7.0):
        frames = {n: pd.DataFrame(array).add_prefix(f"{n} ") for n, array in dirty(complete, observed, junk).items()}
        parts = {n: anndata.AnnData(frame.set_axis(frame.index.map(str))) for n, frame in frames.items()}
        with mudata.set_options(pull_on_update=False):
            data = mudata.MuData(parts)
        make("Concat").fit(complete, observed=observed).annotate(data, observed=observed)
        labels.append(data.obs["acova_label"].to_numpy())
    np.testing.assert_array_equal(*labels)


def continued(model, X, observed):
    return model.update(X, observed=observed, epochs=1).assignments()


def told_apart(model, X, observed):
    return (
        model.calibrate_outliers(X, observed=observed, n_folds=2)
        .outliers(X, observed=observed)
        .drop(columns="odd_views")
    )


def fitted_again(model, X, observed):
    return model.refit_without_missingness(X, observed=observed, how="covariates").assignments()


@pytest.mark.parametrize("answer", [continued, told_apart, fitted_again])
def test_calls_that_train_honour_the_mask(complete, observed, answer):
    model = make("ACOVA").fit(complete, observed=observed)
    tables = [answer(deepcopy(model), dirty(complete, observed, junk), observed) for junk in (1e3, -7.0, np.nan)]
    pd.testing.assert_frame_equal(tables[1], tables[0], check_exact=True)
    pd.testing.assert_frame_equal(tables[2], tables[0], check_exact=True)


@pytest.mark.parametrize("form", ["frames", "views"])
def test_pandas_output_keeps_the_samples_names(name, complete, form):
    if not hasattr(METHODS[name], "transform"):
        pytest.skip("has no latent space")
    names = [f"patient {i}" for i in range(len(complete))]
    frames = {n: pd.DataFrame(a, index=names) for n, a in zip(complete.names, complete.arrays, strict=True)}
    frames["text"] = frames["text"].iloc[::-1]
    X = frames if form == "frames" else Views.of(frames)
    model = make(name).set_output(transform="pandas")
    for table in (model.fit_transform(X), model.transform(X)):
        assert list(table.index) == names
        assert list(table.columns) == list(model.get_feature_names_out())
        assert table.columns[0] == f"{name.lower()}0"
    np.testing.assert_array_equal(model.set_output(transform="default").transform(X), table.to_numpy())


def test_settings_may_be_numpy_numbers(name, complete, tmp_path):
    kinds = {int: np.int64, float: np.float64, bool: np.bool_}
    model = make(name)
    ordinary = model.get_settings()
    as_numpy = {option: kinds[type(v)](v) for option, v in ordinary.items() if type(v) in kinds}
    if "hidden" in ordinary:
        as_numpy["hidden"] = tuple(map(np.int32, ordinary["hidden"]))
    assert "n_clusters" in as_numpy
    other = type(model).from_settings(**{**ordinary, **as_numpy}).fit(complete)
    np.testing.assert_array_equal(other.labels_, model.fit(complete).labels_)
    other.save(tmp_path / "run")
    loaded = type(other).load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(complete), other.labels_)
    json.dumps(loaded.get_settings())  # Python's own numbers again
    if hasattr(other, "settings_"):
        json.dumps(other.settings_)
        assert loaded.settings_ == other.settings_


def test_booleans_are_booleans_and_seeds_are_seeds(name, complete):
    parameters = setting_parameters(METHODS[name])
    flags = {option for option, rule in rules_of(METHODS[name], list(parameters)).items() if rule is check_flag}
    assert flags >= {"consensus", "drop_last", "oracle_leak", "normalize_rows", "verbose"} & {*parameters}
    for option in sorted(flags - {"verbose"}):
        left_open = parameters[option].default is None  # to the recipe
        for value in ("maybe", 1, *(() if left_open else (None,))):
            with pytest.raises(OptionError, match=f"{name}: {option} must be True or False; got {value!r}"):
                make(name, **{option: value}).fit(complete)
    for seed in (-1, 2**32, 0.5, "seven", True):
        with pytest.raises(OptionError, match=f"{name}: random_state must be an integer from 0 to 2\\*\\*32 - 1"):
            make(name).set_params(random_state=seed).fit(complete)
    make(name).set_params(random_state=np.random.RandomState(0)).fit(complete)


def test_masks_have_seeds_too():
    with pytest.raises(OptionError, match=r"make_observed: random_state must be .*got -1"):
        make_observed(10, 2, 0.5, random_state=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_tensors_are_views(complete, observed, dtype):
    tensors = {n: torch.from_numpy(a.copy()).to(dtype) for n, a in zip(complete.names, complete.arrays, strict=True)}
    arrays = {n: tensor.double().numpy() for n, tensor in tensors.items()}
    if dtype.is_floating_point:
        tensors["text"].requires_grad_()
    expected = make("Concat").fit(arrays, observed=observed)
    model = make("Concat").fit(tensors, observed=torch.from_numpy(observed))
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(Views.of(list(tensors.values())).arrays[0], arrays["image"])
    table = torch.from_numpy(stack_views(complete)[0]).requires_grad_()
    cut = make("ACOVA", view_sizes=complete.sizes)
    np.testing.assert_array_equal(cut.fit(table).labels_, make("ACOVA").fit(list(complete.arrays)).labels_)


def test_no_fits_at_all_are_an_empty_list(complete):
    assert fit_many([], complete) == []
    assert fit_many([], complete, []) == []
    with pytest.raises(OptionError, match=r"got 0 estimators .* and 1 masks"):
        fit_many([], complete, [None])


def as_frames(views):
    index = [f"s{i}" for i in range(len(views))]
    return {n: pd.DataFrame(a, index).add_prefix("f") for n, a in zip(views.names, views.arrays, strict=True)}


@pytest.fixture(scope="module")
def of_frames(name, complete):
    return make(name).fit(as_frames(complete))


@pytest.mark.parametrize("big", [1e6, 1e15, 1e20, 1e30, 1e39, 1e308])
def test_extreme_cells_of_new_samples_give_shares_or_are_refused_by_name(of_frames, complete, big):
    model, frames = of_frames, as_frames(complete)
    frames["text"].iloc[7, 3] = big
    try:
        labels = model.predict(frames)
        shares = model.predict_proba(frames) if hasattr(model, "predict_proba") else np.eye(3)[labels]
    except DataError as error:
        assert big >= 1e20
        text = f"View 'text', column 'f3' holds {big:g} in sample 's7', too far from the data the model was fitted on"
        assert text in str(error)  # noqa: PT017
        return
    assert big <= 1e39
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(labels, shares.argmax(axis=1))


def test_far_samples_go_to_the_centre_that_is_nearest():
    """In exact arithmetic; squares of 1e19 swallow the differences that decide."""
    views = [np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [5.1, 0.0], [0.0, 5.0], [0.1, 5.1]])]
    model = Concat(3, standardize=False, random_state=0).fit(views)
    for far in (1e2, 1e9, 1e19, 1e30):
        np.testing.assert_array_equal(model.predict([[[far, 0.0], [0.0, far]]]), model.labels_[[3, 5]])


def test_parameters_that_are_not_finite_are_no_result(complete):
    model = make("ACOVA").fit(complete)
    with torch.no_grad():
        model.network_.prior.means[0] = np.nan
    with pytest.raises(ArithmeticError, match="weights of the network are not finite: training diverged"):
        model.predict(complete)


def test_the_oracle_needs_its_flag_to_be_one(complete):
    check_is_fitted(make("CPSPAN").fit(complete))
    with pytest.raises(OptionError, match="oracle_leak must be True or False; got 'no'"):
        CPSPAN(3, oracle_leak="no").fit(complete)


def test_the_bernoulli_likelihood_names_the_column():
    frame = pd.DataFrame({"age": [0.0, 1.0, 0.5, 0.2], "income": [0.0, 1.0, 70.0, 0.1]})
    with pytest.raises(DataError, match="ACOVA: view 'view_0', column 'income' has values from 0 to 70"):
        ACOVA(2, likelihood="bernoulli", standardize=False).fit([frame])
