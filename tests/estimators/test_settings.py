"""Expert settings in `Training`, and all settings by flat names."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from acova import ACOVA, DCP, Concat, MoE, Training
from acova.base import OptionError
from acova.estimators import fit_many, make_method
from acova.estimators._settings import nested, other_than_default, setting_parameters, training_parameters
from conftest import SMALL


def test_flat_settings_go_where_they_belong():
    model = ACOVA.from_settings(3, latent_dim=5, learning_rate=1e-3, patience=7)
    assert (model.n_clusters, model.latent_dim) == (3, 5)
    assert (model.training.learning_rate, model.training.patience) == (1e-3, 7)
    assert model.training.tol == Training().tol
    assert ACOVA.from_settings(3, latent_dim=5).training is None
    assert repr(model) == (
        "ACOVA(latent_dim=5, n_clusters=3,\n      training=Training(learning_rate=0.001, patience=7))"
    )


def test_both_ways_to_give_settings_are_the_same_fit(toy):
    flat = ACOVA.from_settings(3, **SMALL).fit(toy[0])
    expert = ("pretrain_epochs", "warmup_epochs", "learning_rate")
    own = {name: value for name, value in SMALL.items() if name not in expert}
    written = ACOVA(3, **own, training=Training(pretrain_epochs=5, warmup_epochs=10, learning_rate=3e-3)).fit(toy[0])
    set_later = ACOVA(3, **own).set_params(**{f"training__{name}": SMALL[name] for name in expert}).fit(toy[0])
    for model in (written, set_later):
        np.testing.assert_array_equal(model.probabilities_, flat.probabilities_)
        assert model.get_settings() == flat.get_settings()
        assert model.settings_ == flat.settings_


def test_settings_beside_a_training_replace_its_own():
    training = Training(learning_rate=1e-3, patience=7)
    model = ACOVA.from_settings(3, training=training, learning_rate=2e-3)
    assert (model.training.learning_rate, model.training.patience) == (2e-3, 7)
    assert training.learning_rate == 1e-3


def test_settings_are_told_by_flat_names():
    model = ACOVA(3, epochs=4, training=Training(balance=0.25))
    settings = model.get_settings()
    assert (settings["epochs"], settings["balance"], settings["learning_rate"]) == (4, 0.25, None)
    assert set(settings) == set(ACOVA.setting_names()) == set(setting_parameters(ACOVA))
    assert "training" not in settings
    assert ACOVA(3).get_settings() == ACOVA(3, training=Training()).get_settings()
    assert make_method("acova", **settings).get_settings() == settings


def test_what_a_method_leaves_out_is_no_setting_of_it():
    assert {*training_parameters()} - {*MoE.setting_names()} == {*MoE._without}
    with pytest.raises(TypeError, match=r"MoE\(\) got an unexpected setting 'n_correlations'"):
        MoE.from_settings(3, n_correlations=2)
    with pytest.raises(TypeError, match=r"DCP\(\) got an unexpected setting 'training'"):
        DCP.from_settings(3, training=Training())
    with pytest.raises(TypeError, match=r"Concat\(\) got an unexpected setting 'epochs'"):
        make_method("Concat", epochs=3)


@pytest.mark.parametrize("training", [{"learning_rate": 1e-3}, 3, "fast", Training])
def test_what_is_no_training_is_refused(toy, training):
    for use in (
        lambda: ACOVA(3, training=training).fit(toy[0]),
        lambda: ACOVA(3, training=training).get_settings(),
        lambda: ACOVA.from_settings(3, training=training, learning_rate=1e-3),
        lambda: ACOVA.preset("cub", training=training),
    ):
        with pytest.raises(OptionError, match=r"ACOVA: training must be a Training, such as .*, or None; got"):
            use()


def test_a_preset_is_replaced_by_what_is_given():
    preset = ACOVA.preset("handwritten")
    assert preset.training.learning_rate == 3e-4
    assert ACOVA.preset("handwritten", learning_rate=1e-2).training.learning_rate == 1e-2
    for training in (Training(learning_rate=1e-2, patience=3), None):
        model = ACOVA.preset("handwritten", training=training)
        assert model.training.learning_rate == (3e-4 if training is None else 1e-2)
        assert model.training.prior_learning_rate == preset.training.prior_learning_rate
        assert model.alpha == preset.alpha


def test_grids_clones_and_pickles_keep_expert_settings(toy):
    base = ACOVA.from_settings(3, **SMALL)
    for values in ParameterGrid({"training__learning_rate": [1e-3, 1e-2], "alpha": [1.0]}):
        model = clone(base).set_params(**values)
        assert model.get_settings()["learning_rate"] == values["training__learning_rate"]
        assert model.get_settings()["warmup_epochs"] == SMALL["warmup_epochs"]
    assert base.training.learning_rate == SMALL["learning_rate"]
    fitted = base.fit(toy[0])
    back = pickle.loads(pickle.dumps(fitted))
    assert back.get_settings() == fitted.get_settings()
    np.testing.assert_array_equal(back.predict(toy[0]), fitted.labels_)


def test_parameters_of_a_training_that_is_not_there_can_be_set():
    model = ACOVA(3).set_params(training__patience=3, epochs=5)
    assert (model.training.patience, model.epochs) == (3, 5)
    assert model.get_params()["training__patience"] == 3
    assert ACOVA(3).set_params(epochs=5).training is None
    assert model.set_params(training=None).training is None


def test_fits_with_one_training_or_several_train_together(toy):
    shared = Training(learning_rate=3e-3, pretrain_epochs=2, warmup_epochs=2)
    own = {"hidden": (16,), "latent_dim": 4, "epochs": 3, "n_init": 1, "batch_size": 64}
    models = [ACOVA(3, **own, random_state=run, training=shared) for run in range(2)]
    models.append(ACOVA(3, **own, random_state=0, training=clone(shared).set_params(learning_rate=1e-3)))
    for model in fit_many(models, toy[0]):
        alone = clone(model).fit(toy[0])
        np.testing.assert_array_equal(model.labels_, alone.labels_)
        assert model.settings_ == alone.settings_


def test_settings_other_than_by_default():
    known = training_parameters()
    matrix = np.eye(2)
    given = {"learning_rate": 1e-3, "tol": 0.001, "elbow": 1, "correlation_start": matrix, "n_neighbors": 10.0}
    chosen = other_than_default(given, known)
    assert list(chosen) == ["learning_rate", "elbow", "correlation_start", "n_neighbors"]
    assert nested(ACOVA, {"correlation_start": matrix})["training"].correlation_start is matrix


@pytest.mark.parametrize(
    ("training", "text"),
    [
        (Training(learning_rate=0), "learning_rate must be a number above 0; got 0"),
        (Training(checkpoint_every=0), "checkpoint_every must be an integer at least 1; got 0"),
        (Training(checkpoint_every="often"), "checkpoint_every must be an integer at least 1; got 'often'"),
        (Training(precision="double"), "precision must be"),
        (Training(patience=1.5), "patience must be an integer at least 1; got 1.5"),
        (Training(balance=True), "balance must be a number"),
        (Training(n_correlations=11), "n_correlations must be at most latent_dim=10"),
    ],
)
def test_expert_settings_are_checked_like_all(toy, tmp_path, training, text):
    with pytest.raises(OptionError, match=f"ACOVA: {text}"):
        ACOVA(3, training=training).fit(toy[0])
    with pytest.raises(OptionError, match=f"ACOVA: {text}"):
        ACOVA(3, training=training, checkpoint=tmp_path / "state").fit(toy[0])
    assert Concat(3).get_settings()["n_clusters"] == 3
