"""Run folders that earlier versions wrote still load, with their data and their probabilities beside them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from acova.estimators import load_method

HERE = Path(__file__).parent
FORMAT_3 = HERE / "run_of_format_3"
"""A consensus of two runs, written before there were checksums."""
FORMAT_4 = HERE / "run_of_format_4"
"""Written when all settings were keywords of the constructors, learning rates too."""
ACOVA_SETTINGS = {
    **{"learning_rate": 2e-3, "prior_learning_rate": 0.02, "balance": 0.25, "patience": 5, "clip_norm": None},
    **{"correlation_start": 0.3, "n_correlations": 2, "pretrain_epochs": 1, "warmup_epochs": 1},
}
OTHERS = {
    "acova": {**ACOVA_SETTINGS, "hidden": (4,), "latent_dim": 2, "n_init": 2, "consensus": True, "epochs": 2},
    "cpspan": {"hidden": (4,), "learning_rate": 1e-3, "pretrain_epochs": 1, "epochs": 2, "precision": "tf32"},
    "agreement_graph": {"n_neighbors": 4, "view_weights": "agreement"},
}
"""What the models in `FORMAT_4` were made with."""


def frames_of(folder):
    read = {name: pd.read_csv(folder / f"data_{name}.csv", dtype={"id": str}) for name in ("image", "text")}
    return {name: frame.set_index("id") for name, frame in read.items()}


def test_a_run_from_before_there_were_checksums_still_loads():
    model = load_method(FORMAT_3, device="cpu")
    assert model.hidden == (4,)
    assert model.consensus
    assert list(model.index_[:3]) == ["000", "001", "002"]
    assert list(model.history_.columns[:2]) == ["phase", "epoch"]
    frames = frames_of(FORMAT_3)
    np.testing.assert_allclose(model.predict_proba(frames), pd.read_csv(FORMAT_3 / "expected.csv"), atol=1e-4)
    assert model.get_settings()["warmup_epochs"] == 1


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_whose_settings_were_all_keywords_still_loads(name, tmp_path):
    model, frames = load_method(FORMAT_4 / name, device="cpu"), frames_of(FORMAT_4)
    expected = pd.read_csv(FORMAT_4 / f"expected_{name}.csv")
    np.testing.assert_allclose(model.predict_proba(frames), expected, atol=1e-4)
    table = pd.read_csv(FORMAT_4 / name / "labels.csv", dtype={"sample": str}).set_index("sample")
    np.testing.assert_array_equal(model.labels_, table["label"])
    np.testing.assert_array_equal(model.predict(frames), table["label"])
    settings = model.get_settings()
    assert {option: settings[option] for option in OTHERS[name]} == OTHERS[name]
    assert not {"elbo_weight", "n_correlations"} & {*settings} or name == "acova"
    model.save(tmp_path / "again")
    again = type(model).load(tmp_path / "again", device="cpu")
    assert again.get_settings() == settings
    np.testing.assert_array_equal(again.predict_proba(frames), model.predict_proba(frames))
    pd.testing.assert_frame_equal(again.history_, model.history_)


def test_settings_of_an_old_run_that_are_expert_settings_now_are_those_of_training():
    model = load_method(FORMAT_4 / "acova", device="cpu")
    training = model.training.get_params()
    assert {option: training[option] for option in ACOVA_SETTINGS} == ACOVA_SETTINGS
    assert model.settings_["cluster_start"] == "graph"  # what the recipe chose
    assert model.settings_["neighbor_weight"] == 0.5
    np.testing.assert_array_equal(model.correlations_.shape, (2, 2, 2))
    np.testing.assert_allclose(model.view_agreement_, model.view_agreement_.T)


def test_settings_that_a_run_does_not_know_are_those_from_before_there_were_any():
    model = load_method(FORMAT_4 / "acova", device="cpu")
    assert model.recipe == "shared"
    assert (model.training.final_clusters, model.training.temperature) == ("mixture", 1.0)
    assert model.settings_["likelihood"] == {"image": "gaussian", "text": "gaussian"}
    assert model.settings_["view_sizes"] == model.view_sizes_


def test_an_old_model_can_be_fitted_again():
    """With the settings and the seed of the folder; training itself has changed since."""
    model, frames = load_method(FORMAT_4 / "acova", device="cpu"), frames_of(FORMAT_4)
    again = clone(model).fit(frames)
    other = type(model).from_settings(**model.settings_).fit(frames)
    np.testing.assert_array_equal(other.probabilities_, again.probabilities_)
    assert other.settings_ == again.settings_
    known = {name: value for name, value in model.settings_.items() if name not in ("standardize", "precision")}
    assert {name: again.settings_[name] for name in known} == known


def test_what_was_none_before_means_what_it_meant():
    model, frames = load_method(FORMAT_4 / "agreement_graph"), frames_of(FORMAT_4)
    trust = model.view_trust_.copy()
    np.testing.assert_array_equal(clone(model).fit(frames).view_trust_, trust)
