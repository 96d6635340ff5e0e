"""How sure a consensus is: as sure as its runs are of one another."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import norm

from acova import ACOVA, Training
from acova.base import OptionError, Streams
from acova.data import make_views
from acova.training.confidence import confirmed, mean_confidence, without_one
from acova.training.inference import batch_of


def _quick(options):
    """Return a model of short training; `options` may hold a temperature."""
    training = Training(pretrain_epochs=8, warmup_epochs=8, **{k: v for k, v in options.items() if k == "temperature"})
    flat = {name: value for name, value in options.items() if name != "temperature"}
    return ACOVA(3, epochs=8, random_state=0, **{"n_init": 3, **flat}, training=training)


@pytest.fixture(scope="module")
def made():
    views = {"first": {"n_features": 20, "separation": 1.2}, "second": {"n_features": 12, "separation": 1.2}}
    data = make_views(90, 3, views, random_state=0)
    observed = np.random.default_rng(0).random((90, 2)) < 0.8
    observed[~observed.any(axis=1), 0] = True
    return data.views, observed


@pytest.fixture(scope="module")
def model(made):
    views, observed = made
    return _quick({}).fit(views, observed=observed)


def test_the_mean_confidence_is_the_share_of_labels_that_another_run_confirms(model, made):
    views, observed = made
    hidden = views.hide(observed)
    left = without_one(hidden.observed, Streams(model.seed_))
    labels, fewer = [], []
    for network, order in zip(model._ensemble.networks, model._ensemble.orders, strict=True):
        for found, seen in ((labels, hidden), (fewer, hidden.hide(left))):
            found.append(_log_shares(model, network, seen)[:, order])
    labels, fewer = np.stack(labels), np.stack(fewer)
    shares = softmax(labels, axis=-1)
    share = np.mean(
        [
            fewer[r, n].argmax() == sum(shares[s, n] for s in range(3) if s != r).argmax()
            for r in range(3)
            for n in range(len(views))
        ]
    )
    assert model.probabilities_.max(axis=1).mean() == pytest.approx(share, abs=2e-3)
    assert model.settings_["temperature"] == pytest.approx(model.network_.temperature)


def _log_shares(model, network, views):
    """Return the log probabilities of the mixture's components, from scipy's normal density."""
    batch = batch_of(views, model._scaling, torch.device("cpu"))
    with torch.no_grad():
        latent = network.posterior(batch.views, batch.observed).mean.double().numpy()
        log_weights, means, variances = (part.double().numpy() for part in network.prior())
    joint = log_weights + norm.logpdf(latent[:, None], means, np.sqrt(variances)).sum(-1)
    return log_softmax(joint, axis=1)


def test_a_given_temperature_stays(made):
    views, observed = made
    model = _quick({"temperature": 2.5}).fit(views, observed=observed)
    assert {network.temperature for network in model._ensemble.networks} == {2.5}
    assert model.settings_["temperature"] == 2.5


def test_one_run_has_the_stated_temperature(made):
    views, observed = made
    model = _quick({"n_init": 1}).fit(views, observed=observed)
    assert model.settings_["temperature"] == 5.0


def test_a_saved_consensus_keeps_its_confidence(model, made, tmp_path):
    model.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(made[0]), model.predict_proba(made[0]))


def test_every_sample_with_several_views_loses_one():
    observed = np.random.default_rng(1).random((500, 4)) < 0.5
    observed[~observed.any(axis=1), 2] = True
    left = without_one(observed, Streams(0))
    lost = observed.sum(axis=1) - left.sum(axis=1)
    np.testing.assert_array_equal(lost, (observed.sum(axis=1) > 1).astype(int))
    assert not (left & ~observed).any()
    complete = without_one(np.ones((4000, 4), dtype=bool), Streams(0))
    assert (~complete).mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=0.03)


def test_runs_that_agree_confirm_every_label_and_others_by_chance():
    labels = np.random.default_rng(2).integers(5, size=2000)
    same = np.log(np.eye(5)[labels] * 0.9 + 0.02)
    assert confirmed(np.stack([same] * 3), np.stack([same] * 3)) == 1.0
    other = np.log(np.random.default_rng(3).dirichlet(np.ones(5), (3, 2000)))
    assert confirmed(np.stack([same] * 3), other) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 7.0])
def test_the_mean_confidence_at_a_temperature_is_that_of_averaged_softmaxes(temperature):
    logs = np.random.default_rng(4).normal(size=(3, 50, 4))
    expected = np.mean([softmax(run / temperature, axis=-1) for run in logs], axis=0).max(axis=-1).mean()
    assert mean_confidence(logs, temperature) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [0, -1.0, "hot"])
def test_other_temperatures_are_refused(made, bad):
    with pytest.raises(OptionError, match="temperature must be"):
        _quick({"temperature": bad}).fit(made[0])
