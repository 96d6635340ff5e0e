"""The network of DSIMVC, and what it does besides keeping the contract."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from acova import DSIMVC
from acova.base import OptionError
from acova.compared.dsimvc import Imputation
from acova.compared.dsimvc_network import SafeContrast, contrast
from acova.data import make_observed
from acova.engine.distributed import ALONE
from acova.functional import Batch
from acova.training.method import Group
from acova.training.schedule import _run_data
from conftest import make_toy

SIZES = (5, 3, 4)
TINY = {
    **{"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"},
    **{"feature_dim": 4, "imputer_epochs": 3, "initial_epochs": 3, "pretrain_epochs": 3},
    **{"iterations": 6, "refresh_every": 2},
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained, on purpose


def make(seed=0, **more):
    return DSIMVC(3, **{**TINY, "random_state": seed, **more})


@pytest.fixture(scope="module")
def full():
    return make_toy(n_samples=120, missing=0.0)[0]


@pytest.fixture(scope="module")
def masks():
    return [make_observed(120, 3, 0.4, random_state=run) for run in range(3)]


# --- the network --------------------------------------------------------------------------------


def data(n=24, share=0.6):
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(n, len(SIZES), generator=generator) < share
    observed[: n // 3] = True
    observed[:, 0] |= ~observed.any(1)
    views = [torch.randn(n, size, generator=generator) for size in SIZES]
    return Batch(
        [torch.where(seen.unsqueeze(-1), view, 0.0) for view, seen in zip(views, observed.T, strict=True)], observed
    )


def small_network(dtype=torch.float64):
    torch.manual_seed(0)
    return SafeContrast(SIZES, 6, 3, hidden=(8,), feature_dim=4, virtual_rate=0.1).to(dtype)


def test_the_weighers_gradient_is_that_of_the_loss_after_the_virtual_step():
    network, (views, observed, *_) = small_network(), data()
    views = [view.double() for view in views]
    network.bilevel_loss(Batch(views, observed), n_complete=8)["total"].mean().backward()
    name, eps = "weigher.layers.0.bias", 1e-5

    def after(change):
        """Take the virtual step with plain autograd, on a copy with the weigher changed."""
        moved = copy.deepcopy(network)
        moved.get_parameter(name).data[3] += change
        body = list(moved.body.parameters())
        complete, filled = moved.body(views).split(8)
        trust = moved.trust(filled).detach()
        slopes = torch.autograd.grad(contrast(complete) + contrast(filled, trust=trust), body)
        for parameter, slope in zip(body, slopes, strict=True):
            parameter.data -= moved.virtual_rate * slope
        return float(contrast(moved.body([view[:8] for view in views])).detach())

    expected = (after(eps) - after(-eps)) / (2 * eps)
    assert abs(expected) > 1e-9
    assert float(network.get_parameter(name).grad[3]) == pytest.approx(expected, rel=1e-3)
    # The other parameters move as if the weights were given.
    complete, filled = network.body(views).split(8)
    trust = network.trust(filled).detach()
    plain = torch.autograd.grad(contrast(complete) + contrast(filled, trust=trust), list(network.body.parameters()))
    for parameter, gradient in zip(network.body.parameters(), plain, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_equal_trust_is_no_trust_at_all():
    network, (views, _, *_) = small_network(), data()
    outputs = network.body([view.double() for view in views])
    results = [contrast(outputs, trust=torch.full((24,), weight, dtype=torch.float64)) for weight in (0.1, 0.9)]
    torch.testing.assert_close(*results)


def test_prediction_is_by_the_views_a_sample_has():
    network, (views, observed, *_) = small_network(torch.float32), data()
    mean = network.posterior(views, observed).mean
    shares = network.body(views).shares
    for row, seen in enumerate(observed):
        torch.testing.assert_close(mean[row], shares[seen, row].mean(0))
    dirty = [torch.where(seen.unsqueeze(-1), view, 9.0) for view, seen in zip(views, observed.T, strict=True)]
    torch.testing.assert_close(network.posterior(dirty, observed).mean, mean)


# --- training -----------------------------------------------------------------------------------


def test_holes_are_filled_with_the_mean_of_the_nearest_that_have_the_view(full, masks):
    job = make()._prepare(full, masks[0]).jobs[0]
    drawn = torch.nn.functional.normalize(torch.randn(120, 3, 4, generator=torch.Generator().manual_seed(0)), dim=-1)

    class Network:
        def features(self, views):
            return drawn

    group = Group(
        [replace(job, settings=job.settings.replaced(n_neighbors=2))], [Network()], None, _run_data([job], ALONE)
    )
    imputation = Imputation(group)
    imputation.fill()
    views, observed, *_ = job.data.batch()
    features, seen = drawn.double().numpy(), observed.numpy()
    for v, filled in enumerate(imputation.complete.views):
        assert torch.equal(filled[0][observed[:, v]], views[v][observed[:, v]])
        for i in np.flatnonzero(~seen[:, v]):
            scores = {}
            for n in np.flatnonzero(seen[:, v]):
                common = seen[i] & seen[n]
                if common.any():
                    scores[n] = np.mean([features[i, w] @ features[n, w] for w in np.flatnonzero(common)])
            best = sorted(scores, key=scores.get, reverse=True)[:2]
            torch.testing.assert_close(filled[0][i], views[v][best].mean(0))


def test_refreshing_fills_anew_and_0_fills_once(full, masks, monkeypatch):
    calls = []
    fill = Imputation.fill
    monkeypatch.setattr(Imputation, "fill", lambda self: (calls.append(1), fill(self)))
    results = {every: make(refresh_every=every).fit(full, observed=masks[0]) for every in (0, 2, 100)}
    assert len(calls) == 1 + 3 + 1
    np.testing.assert_array_equal(results[0].probabilities_, results[100].probabilities_)
    assert not np.array_equal(results[0].probabilities_, results[2].probabilities_)


def test_complete_data_have_nothing_to_fill(full):
    model = make().fit(full)
    assert "filled" not in model.history_
    torch.testing.assert_close(model.history_["complete"].dropna().to_numpy()[-1], model.history_["total"].iloc[-1])


def test_the_score_is_minus_the_objective_and_there_is_no_mixture(full):
    model = make().fit(full)
    assert model.score(full) == pytest.approx(-model.objective_)
    assert not any(hasattr(model, name) for name in ("means_", "weights_", "variances_"))
    assert model.transform(full).shape == (120, 3)
    np.testing.assert_array_equal(model.transform(full), model.latent_)


def test_authors_settings_per_data_set():
    fashion = DSIMVC.preset("fashion")
    assert (fashion.pretrain_epochs, fashion.initial_epochs, fashion.iterations) == (200, 100, 300)
    assert DSIMVC.preset("noisymnist").initial_epochs == 80
    assert DSIMVC().standardize == "unit"


def test_bad_settings_are_named(full):
    with pytest.raises(OptionError, match="DSIMVC: refresh_every must be an integer at least 0; got -1"):
        make(refresh_every=-1).fit(full)
    with pytest.raises(OptionError, match="DSIMVC: n_init must be an integer at least 1; got 'auto'"):
        make(n_init="auto").fit(full)
