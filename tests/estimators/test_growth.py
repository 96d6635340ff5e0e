"""Models that go on: a view more, a view less, more samples; what stays, and what is refused."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA, Views
from acova.base import DataError, OptionError
from acova.estimators import DVIMC, CoDE, MoE
from acova.metrics import clustering_accuracy
from conftest import SMALL, make_toy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def toy():
    views, labels = make_toy(n_samples=120)
    known = views.observed[:, :2].any(axis=1)
    return Views.of([array[known] for array in views.arrays]), labels[known]


@pytest.fixture(scope="module")
def old(toy):
    return toy[0].without([toy[0].names[2]])


def fitted(views, cls=ACOVA, **more):
    settings = {**{name: value for name, value in SMALL.items() if name in cls.setting_names()}, **more}
    return cls.from_settings(3, **settings).fit(views)


@pytest.fixture(scope="module")
def first(old):
    return fitted(old)


def added(model, toy, old, **more):
    return deepcopy(model).add_view(toy[0].arrays[2], old, name=toy[0].names[2], **more)


@pytest.fixture(scope="module")
def grown(first, toy, old):
    return added(first, toy, old)


def tables(views):
    return dict(zip(views.names, views.arrays, strict=True))


# --- a view more --------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_samples_without_the_new_view_keep_their_clusters_and_the_others_may_use_it(toy, old, missing):
    views, labels = toy
    model = fitted(old, missing=missing)
    grown = added(model, toy, old, epochs=20)
    lacking = ~views.observed[:, 2]
    np.testing.assert_array_equal(grown.labels_[lacking], model.labels_[lacking])
    np.testing.assert_array_equal(grown.probabilities_[lacking], model.probabilities_[lacking])
    np.testing.assert_allclose(grown.predict_proba(old), model.predict_proba(old), atol=1e-6)
    np.testing.assert_array_equal(grown.correlation_[:2, :2], model.correlation_)
    assert (grown.correlation_[2, :2] == 0).all() == (missing == "precision")
    assert (np.linalg.eigvalsh(grown.correlation_) > 0).all()
    np.testing.assert_array_equal(grown.predict(views), grown.labels_)
    alone = Views.of({views.names[2]: views.rows(2)})
    assert clustering_accuracy(labels[views.observed[:, 2]], grown.predict(alone)) > 0.9
    np.testing.assert_array_equal(grown.means_, model.means_)


def test_the_model_as_it_was_is_not_touched(first, old):
    np.testing.assert_array_equal(first.predict(old), first.labels_)
    assert first.view_names_ == list(old.names)


def test_all_that_a_fit_says_of_views_knows_the_new_one(grown, first, toy):
    views, _ = toy
    assert grown.view_names_ == list(views.names)
    assert grown.view_sizes_ == views.sizes
    assert grown.n_features_in_ == sum(views.sizes)
    assert list(grown.likelihoods_) == list(views.names) == list(grown.settings_["standardize"])
    assert grown.view_weights_.shape == views.observed.shape
    np.testing.assert_array_equal(grown.view_weights_ != 0, views.observed)
    np.testing.assert_allclose(grown.view_weights_.sum(axis=1), 1, atol=1e-5)
    for learned in (grown.view_trust_, grown.view_influence_, grown.view_support_, grown.view_shift_):
        assert learned.shape == (3,)
    np.testing.assert_array_equal(grown.view_agreement_[:2, :2], first.view_agreement_)
    np.testing.assert_array_equal(grown.view_trust_[:2], first.view_trust_)
    assert set(grown.history_["phase"]) == {*first.history_["phase"], "view_pretrain", "view_train"}
    assert grown.impute(views).complete.all()
    assert grown.cluster_profiles()["view"].nunique() == 3
    assert grown.explain(views).views.shape[0] > 0
    weights = grown.network_.reconstruction_weights.numpy()
    np.testing.assert_array_equal(weights[:2], first.network_.reconstruction_weights.numpy())


@pytest.mark.parametrize("cls", [ACOVA, CoDE, MoE, DVIMC])
def test_a_grown_model_is_saved_and_loaded(cls, toy, old, tmp_path):
    views, _ = toy
    model = added(fitted(old, cls), toy, old)
    model.save(tmp_path / "run")
    again = cls.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(views), model.predict_proba(views))
    pd.testing.assert_frame_equal(again.assignments(), model.assignments())
    fewer = again.remove_view(views.names[0])
    fewer.save(tmp_path / "fewer")
    rest = views.without([views.names[0]])
    np.testing.assert_array_equal(cls.load(tmp_path / "fewer").predict_proba(rest), fewer.predict_proba(rest))


def test_every_run_of_a_consensus_grows(toy, old):
    _, labels = toy
    model = added(fitted(old, n_init=2, consensus=True), toy, old)
    assert model.n_voters_ == 2
    assert all(len(network.view_sizes) == 3 for network in model._ensemble.networks)
    assert clustering_accuracy(labels, model.labels_) > 0.9
    assert model.agreement_.shape == model.labels_.shape


def test_frames_are_joined_and_the_order_of_samples_does_not_matter(first, toy, old, grown):
    views, _ = toy
    frame = pd.DataFrame(views.rows(2), index=np.flatnonzero(views.observed[:, 2]))
    by_name = deepcopy(first).add_view(frame.iloc[::-1], old, name=views.names[2])
    np.testing.assert_array_equal(by_name.probabilities_, grown.probabilities_)


def test_words_empty_cells_and_samples_with_the_new_view_alone(first, toy, old):
    groups = np.array(["x", "y", "z"], dtype=object)[toy[1]]
    frame = pd.DataFrame({"stage": groups, "age": np.arange(len(groups), dtype=float)})
    frame.loc[[1, 7], "age"] = np.nan
    frame.loc[5000] = ["x", 3.0]
    model = deepcopy(first).add_view(frame, old, name="clinic")
    assert model.categories_ == {"clinic": {"stage": ("x", "y", "z")}}
    assert model.empty_cells_ == {"clinic": 2}
    assert model.index_[-1] == 5000
    assert len(model.labels_) == len(old) + 1
    assert model.predict({"clinic": frame.loc[[5000]]}).tolist() == [model.labels_[-1]]


def test_models_of_one_table_grow_and_shrink():
    a, b, c = make_toy(n_samples=60, missing=0.0)[0].arrays
    model = fitted(np.hstack([a, b]), view_sizes=(8, 12), epochs=1)
    model.add_view(c, np.hstack([a, b]), name="third", epochs=1)
    np.testing.assert_array_equal(model.predict(np.hstack([a, b, c])), model.labels_)
    frame, new = pd.DataFrame(np.hstack([a, b])).add_prefix("c"), pd.DataFrame(c, columns=list("vwxyz"))
    model = fitted(frame, view_sizes=(8, 12), epochs=1).add_view(new, frame, name="third", epochs=1)
    assert model.feature_names_in_.tolist() == [*frame.columns, *new.columns]
    model.remove_view("view_0")
    assert model.predict(pd.concat([frame.iloc[:, 8:], new], axis=1)).shape == (60,)


def test_empty_cells_of_old_and_new_views_and_weights_by_hand(tmp_path):
    views = make_toy(n_samples=60, missing=0.0)[0]
    arrays = [array.copy() for array in views.arrays]
    arrays[0][3, 2] = arrays[2][5, 1] = np.nan
    given = dict(zip(views.names, arrays, strict=True))
    rest = {name: given[name] for name in views.names[:2]}
    model = fitted(rest, epochs=1, view_weights={"image": 1.0, "text": 0.5})
    model.add_view(arrays[2], rest, name="sound", epochs=1, likelihood="laplace")
    assert model.settings_["view_weights"] == {"image": 1.0, "text": 0.5, "sound": 1.0}
    assert model.empty_cells_ == {"image": 1, "sound": 1}
    model.remove_view("image")
    assert model.settings_["view_weights"] == {"text": 0.5, "sound": 1.0}
    assert model.settings_["likelihood"]["sound"] == "laplace"
    del given["image"]
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(ACOVA.load(tmp_path / "run").predict_proba(given), model.predict_proba(given))


def test_all_parts_may_be_trained_at_once(first, toy, old):
    _, labels = toy
    model = added(first, toy, old, freeze=False)
    assert (model.means_ != first.means_).any()
    assert (model.correlation_[2, :2] != 0).all()
    assert clustering_accuracy(labels, model.labels_) > 0.9


# --- a view less --------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_without_a_view_samples_that_lack_it_are_placed_as_before(toy, missing, tmp_path):
    views, _ = toy
    model = fitted(views, missing=missing, n_init=2, consensus=True)
    rest = views.without([views.names[1]])
    before, matrices = model.predict_proba(rest), [each.correlation().numpy() for each in model._ensemble.networks]
    labels = model.labels_.copy()
    model.remove_view(views.names[1])
    np.testing.assert_allclose(model.predict_proba(rest), before, atol=1e-6)
    np.testing.assert_array_equal(model.labels_, labels)
    kept = np.ix_([0, 2], [0, 2])
    for matrix, network in zip(matrices, model._ensemble.networks, strict=True):
        if missing == "marginal":
            expected, scale = matrix[kept], np.ones(2)
            assert network.error_scale is None
        else:
            covariance = np.linalg.inv(np.linalg.inv(matrix)[kept])
            scale = np.sqrt(np.diag(covariance))
            expected = covariance / np.outer(scale, scale)
            np.testing.assert_allclose(network.error_scale[:, 0], scale, rtol=1e-6)
        np.testing.assert_allclose(network.correlation().numpy(), expected, atol=1e-6)
    assert model.view_names_ == [views.names[0], views.names[2]]
    assert model.summary_.patterns.shape[1] == 2
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(ACOVA.load(tmp_path / "run").predict_proba(rest), model.predict_proba(rest))
    with pytest.raises(DataError, match=f"{views.names[1]}.*was not there when the model was fitted"):
        model.predict(views)


def test_a_given_correlation_goes_with_its_views(toy, old):
    matrix = np.array([[1.0, 0.5], [0.5, 1.0]])
    model = added(fitted(old, correlation=matrix), toy, old)
    np.testing.assert_allclose(model.correlation_, [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    model.remove_view(old.names[0])
    np.testing.assert_allclose(model.correlation_, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(model.network_.error_scale[:, 0], [np.sqrt(0.75), 1], rtol=1e-6)
    constant = added(fitted(old, correlation=0.3), toy, old)
    np.testing.assert_allclose(constant.correlation_, 0.3 + 0.7 * np.eye(3))


# --- more samples -------------------------------------------------------------------------------


def test_more_samples_train_the_model_on_and_clusters_keep_their_numbers(toy):
    views, labels = toy
    half = fitted(views.take(slice(0, 60)))
    scaling, before = half._scaling, half.predict(views)
    half.update(views)
    assert half._scaling.centers is scaling.centers or all(
        (a == b).all() for a, b in zip(half._scaling.centers, scaling.centers, strict=True)
    )
    assert (half.labels_ == before).mean() > 0.9
    assert half.index_.equals(views.index)
    assert clustering_accuracy(labels, half.labels_) > 0.9
    assert (half.history_["phase"] == "update").sum() == round(0.25 * half.settings_["epochs"])
    relabelled = deepcopy(half).update(views.take(slice(5, 9)), epochs=0)
    np.testing.assert_array_equal(relabelled.means_, half.means_)
    np.testing.assert_array_equal(relabelled.labels_, half.labels_[5:9])


def test_a_single_sample_and_lost_views_are_enough_to_go_on(first, old):
    one = deepcopy(first).update(old.take([0]), epochs=1)
    assert one.labels_.shape == (1,)
    some = old.without([old.names[1]])
    model = deepcopy(first).update(some, epochs=1)
    np.testing.assert_array_equal(model.predict(some), model.labels_)


# --- announced views ----------------------------------------------------------------------------


def test_an_announced_view_changes_nothing_until_a_sample_has_it(first, toy, old, tmp_path):
    views, labels = toy
    name = views.names[2]
    model = fitted(old.announce(name, views.sizes[2]))
    np.testing.assert_array_equal(model.probabilities_, first.probabilities_)
    nothing = {**tables(old), name: np.full_like(views.arrays[2], np.nan)}
    np.testing.assert_array_equal(model.predict(nothing), first.labels_)
    with pytest.raises(DataError, match=rf"view '{name}' was announced but never learned; call update"):
        model.predict(views)
    model.save(tmp_path / "run")
    model = ACOVA.load(tmp_path / "run")
    assert model.announced_ == {name: views.sizes[2]}
    model.update(views)
    assert model.announced_ == {}
    assert model.view_names_ == list(views.names)
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    assert clustering_accuracy(labels, model.labels_) > 0.9


def test_an_announced_view_must_come_as_announced(old, toy):
    model = fitted(old.announce("later", ["a", "b"]), epochs=1)
    with pytest.raises(DataError, match="View 'later' was announced with 2 columns; got 3"):
        model.update({**tables(old), "later": np.ones((len(old), 3))})
    frame = pd.DataFrame({"a": np.arange(len(old)), "c": np.arange(len(old))})
    with pytest.raises(DataError, match=r"must have the columns that were announced; they differ in \['b', 'c'\]"):
        model.add_view(frame, old, name="later")
    assert model.remove_view("later").announced_ == {}


def test_a_view_that_no_sample_has_is_refused_unless_it_is_announced(old):
    with pytest.raises(DataError, match=r"view 'x' is observed for no sample.*announce"):
        fitted({**tables(old), "x": np.full((len(old), 2), np.nan)})


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, v: m.add_view(v.arrays[0], v, name=v.names[0]), "is there already"),
        (lambda m, v: m.add_view(np.ones((3, 2)), v, name="x"), "'x' has 3 rows"),
        (lambda m, v: m.add_view(np.full((len(v), 2), np.nan), v, name="x"), "'x' is observed for no sample"),
        (lambda m, v: m.remove_view("view_9"), r"ACOVA.remove_view: there is no view 'view_9'.*Did you mean"),
        (lambda m, v: deepcopy(m).remove_view(v.names[0]).remove_view(v.names[1]), "is the only view"),
    ],
)
def test_data_that_cannot_be(first, old, change, message):
    with pytest.raises(DataError, match=message):
        change(first, old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, v: m.update(v, epochs=-1), "ACOVA.update: epochs must be an integer at least 0; got -1"),
        (lambda m, v: m.add_view(v.arrays[0], v, name="x", epochs=0), "epochs must be an integer at least 1; got 0"),
        (lambda m, v: m.add_view(v.arrays[0], v, name="x", likelihood="odd"), "likelihood must be .*got 'odd'"),
        (lambda m, v: m.add_view(v.arrays[0], v, name="x", standardize="odd"), "standardize must be .*got 'odd'"),
    ],
)
def test_settings_that_cannot_be(first, old, change, message):
    with pytest.raises(OptionError, match=message):
        change(first, old)
    assert first.view_names_ == list(old.names)


def test_covariates_need_a_fit(old):
    model = ACOVA.from_settings(3, **SMALL).fit(old, covariates=pd.DataFrame({"age": np.arange(len(old))}))
    with pytest.raises(OptionError, match=r"fitted with covariates.*fit again"):
        model.update(old)
    rest = old.without([old.names[0]])
    before = model.predict_proba(rest)
    np.testing.assert_allclose(model.remove_view(old.names[0]).predict_proba(rest), before, atol=1e-6)


def test_error_bars_of_imputation_are_forgotten(old, first):
    model = deepcopy(first)
    model._reference = errors = object()
    assert model.update(old, epochs=0)._reference is errors
    assert model.update(old, epochs=1)._reference is None
