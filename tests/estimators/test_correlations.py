"""Several learned correlation matrices, and the weight of the evidence bound."""

import numpy as np
import pytest
import torch

from acova import ACOVA
from acova.base import OptionError
from acova.estimators import fit_many
from acova.functional import constant_correlation, fuse
from conftest import SMALL, make_toy


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_every_stretch_of_dimensions_is_fused_under_its_own_matrix(missing):
    torch.manual_seed(0)
    mean, std = torch.randn(9, 3, 5, dtype=torch.float64), torch.rand(9, 3, 5, dtype=torch.float64) + 0.1
    observed = torch.rand(9, 3) < 0.7
    observed[:, 0] |= ~observed.any(1)
    matrices = torch.stack([constant_correlation(3, rho) for rho in (0.1, 0.7)])
    fused = fuse(mean, std, observed, matrices, missing)
    for dimension in range(5):
        at = slice(dimension, dimension + 1)
        alone = fuse(mean[..., at], std[..., at], observed, matrices[0 if dimension < 3 else 1], missing)
        for part, single in zip(fused, alone, strict=True):
            torch.testing.assert_close(part[..., at], single)
    same = fuse(mean, std, observed, matrices[:1].expand(4, 3, 3), missing)
    for part, single in zip(same, fuse(mean, std, observed, matrices[0], missing), strict=True):
        torch.testing.assert_close(part, single)


def test_matrices_are_learned_apart_saved_and_loaded(toy, tmp_path):
    views, _ = toy
    model = ACOVA.from_settings(3, **SMALL, n_correlations=2).fit(views)
    assert model.correlations_.shape == (2, 3, 3)
    assert np.abs(model.correlations_[0] - model.correlations_[1]).max() > 1e-4
    np.testing.assert_allclose(model.correlation_, model.correlations_.mean(axis=0))
    for matrix in model.correlations_:
        np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-6)
        assert np.linalg.eigvalsh(matrix).min() > 0
    last = model.history_["correlation_distance"].iloc[-1]
    distances = [np.linalg.norm(matrix - np.eye(3)) for matrix in model.correlations_]
    assert last == pytest.approx(np.mean(distances), rel=1e-5)
    model.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.correlations_, model.correlations_)
    np.testing.assert_array_equal(again.predict_proba(views), model.predict_proba(views))
    together = fit_many([ACOVA.from_settings(3, **SMALL, n_correlations=n) for n in (2, 1)], views)
    np.testing.assert_allclose(together[0].correlations_, model.correlations_, atol=1e-5)
    assert together[1].correlations_.shape == (1, 3, 3)


def test_matrices_start_apart(toy):
    model = ACOVA.from_settings(3, **{**SMALL, "epochs": 0, "warmup_epochs": 0}, n_correlations=4).fit(toy[0])
    apart = [np.abs(a - b).max() for n, a in enumerate(model.correlations_) for b in model.correlations_[:n]]
    assert min(apart) > 0.05
    one = ACOVA.from_settings(3, **{**SMALL, "epochs": 0, "warmup_epochs": 0}).fit(toy[0])
    np.testing.assert_allclose(one.correlation_, model.correlations_[0], atol=1e-6)


def test_what_cannot_be_counted(toy):
    with pytest.raises(OptionError, match=r"n_correlations must be at most latent_dim=4.*got 5"):
        ACOVA.from_settings(3, **SMALL, n_correlations=5).fit(toy[0])
    with pytest.raises(OptionError, match=r"n_correlations=2 counts learned matrices, but correlation=0\.3"):
        ACOVA.from_settings(3, **SMALL, n_correlations=2, correlation=0.3).fit(toy[0])


def test_without_the_bound_only_the_alignment_is_trained(toy):
    views, _ = toy
    settings = {**SMALL, "recipe": "paper", "warmup_epochs": 0}
    model = ACOVA.from_settings(3, **settings, elbo_weight=0.0).fit(views)
    train = model.history_[model.history_["phase"] == "train"]
    np.testing.assert_allclose(train["total"], model.alpha * train["alignment"], rtol=1e-5)
    start = ACOVA.from_settings(3, **{**settings, "epochs": 0}).fit(views)
    np.testing.assert_allclose(model.means_, start.means_)  # nothing moves the clusters
    assert train["alignment"].iloc[-1] < train["alignment"].iloc[0]


def test_a_shorter_training_is_the_beginning_of_a_longer_one(toy):
    """With learning rates that do not depend on its length, as in the paper's procedure."""
    views, _ = toy
    given = {**SMALL, "learning_rate_decay": 0.995}
    short, long = (ACOVA.from_settings(3, **{**given, "epochs": epochs}).fit(views) for epochs in (3, 6))
    count = len(short.history_)
    numbers = [name for name in short.history_ if name != "phase"]
    np.testing.assert_array_equal(short.history_[numbers], long.history_[numbers].iloc[:count])


def test_a_correlation_of_low_rank_is_learned_saved_and_grows(tmp_path):
    views, _ = make_toy(n_samples=90, sizes=(5, 6, 4, 7), missing=0.3)
    model = ACOVA.from_settings(3, correlation="low_rank", **SMALL).fit(views)
    assert model.network_.correlation_parameter.shape == (4, 5)
    np.testing.assert_allclose(np.diag(model.correlation_), 1)
    assert np.linalg.eigvalsh(model.correlation_)[0] > 0
    assert (np.abs(model.history_["correlation_distance"].dropna().diff().iloc[1:]) > 0).all()
    model.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.correlation_, model.correlation_)
    rest = views.without([views.names[3]])
    before = again.predict_proba(rest)
    again.remove_view(views.names[3])
    np.testing.assert_allclose(again.predict_proba(rest), before, atol=1e-6)
    matrix = again.correlation_
    again.add_view(views.arrays[3][rest.index], rest, name="back", epochs=1, freeze=False)
    assert again.correlation_.shape == (4, 4)
    assert np.abs(again.correlation_[:3, :3] - matrix).max() < 0.2
