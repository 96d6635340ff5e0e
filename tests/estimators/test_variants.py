import inspect

import numpy as np
import pytest
import torch

from acova import ACOVA, DVIMC, CoDE, Concat, MoE, Training, WeightedFusion
from acova.base import OptionError
from acova.data import make_observed
from acova.engine import Runs
from acova.estimators import fit_many
from acova.functional import Batch
from acova.networks import MultiViewVAE
from conftest import SMALL, make_toy

DVIMC_SMALL = {name: value for name, value in SMALL.items() if name != "warmup_epochs"}


def network_of(n_views=3, n_clusters=4, **settings):
    torch.manual_seed(0)
    sizes = (7, 5, 9)[:n_views]
    return MultiViewVAE(
        sizes, 3, n_clusters, hidden=(8,), likelihoods=["gaussian"] * n_views, alpha=2.0,
        correlation=torch.eye(n_views), learn_correlation=False, **settings,
    ).double()  # fmt: skip


def batch(n_views=3, missing=0.7, n=40):
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(n, size, dtype=torch.float64, generator=generator) for size in (7, 5, 9)[:n_views]]
    observed = torch.ones(n, 1, dtype=torch.bool)
    if n_views > 1:
        observed = torch.from_numpy(make_observed(n, n_views, missing, random_state=0))
    return views, observed, torch.randn(n, 2, 3, dtype=torch.float64, generator=generator)


def test_code_is_acova_with_a_constant_in_the_marginal_form(toy):
    """Trained from the same seed by another formula of the fusion."""
    ours = CoDE.from_settings(3, rho=0.3, **SMALL).fit(toy[0])
    theirs = ACOVA.from_settings(3, correlation=0.3, missing="marginal", **SMALL).fit(toy[0])
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, atol=1e-3)
    np.testing.assert_allclose(ours.view_weights_, theirs.view_weights_, atol=1e-3)
    np.testing.assert_allclose(ours.correlation_, theirs.correlation_)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-3)


def test_code_without_correlation_is_acova_with_the_identity(toy):
    ours = CoDE.from_settings(3, rho=0.0, **SMALL).fit(toy[0])
    theirs = ACOVA.from_settings(3, correlation="identity", **SMALL).fit(toy[0])
    np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, atol=1e-3)


@pytest.mark.parametrize(
    ("rho", "text"),
    [
        (1.0, r"CoDE: rho=1.0 is no correlation matrix; .* between -1/2 and 1"),
        (-0.6, "CoDE: rho=-0.6 is no correlation"),
        ("high", "CoDE: rho must be a number"),
    ],
)
def test_impossible_correlations_are_refused(toy, rho, text):
    with pytest.raises(OptionError, match=text):
        CoDE.from_settings(3, rho=rho, **SMALL).fit(toy[0])


def test_a_mixture_weighs_the_views_a_sample_has_equally(toy):
    views, _ = toy
    model = MoE.from_settings(3, **SMALL).fit(views)
    count = views.observed.sum(1, keepdims=True)
    np.testing.assert_allclose(model.view_weights_, views.observed / count, atol=1e-6)
    assert not hasattr(model, "correlation_")
    assert "correlation_distance" not in model.history_


def test_learned_weights_are_shared_by_all_samples_and_renormalised(toy):
    views, _ = toy
    model = WeightedFusion.from_settings(3, **SMALL).fit(views)
    assert model.fusion_weights_.sum() == pytest.approx(1)
    assert np.abs(model.fusion_weights_ - 1 / 3).max() > 1e-3  # they were learned
    kept = views.observed * model.fusion_weights_
    np.testing.assert_allclose(model.view_weights_, kept / kept.sum(1, keepdims=True), atol=1e-5)


def test_the_gradient_of_the_views_weights_sums_to_zero():
    network = network_of(fusion="weighted")
    views, observed, noise = batch()
    network.loss(Batch(views, observed), noise)["total"].sum().backward()
    gradient = network.fusion_logits.grad
    assert gradient.abs().max() > 1e-3
    assert gradient.sum().item() == pytest.approx(0, abs=1e-8 * gradient.abs().max().item())


def test_a_one_hot_weight_reproduces_that_view():
    network, (views, _, *_) = network_of(fusion="weighted"), batch()
    with torch.no_grad():
        network.fusion_logits.copy_(torch.tensor([-100.0, 0.0, -100.0]))
        complete = torch.ones(40, 3, dtype=torch.bool)
        mean, std = network.encode(views, complete)
        fused = network.posterior(views, complete)
    torch.testing.assert_close(fused.mean, mean[:, 1])
    torch.testing.assert_close(fused.variance, std[:, 1].square())


def test_keywords_are_acovas_but_for_what_is_fixed():
    offered = set(ACOVA.setting_names())
    gone = {"correlation", "n_correlations", "missing", "correlation_start", "correlation_learning_rate"}
    assert set(MoE.setting_names()) == set(WeightedFusion.setting_names()) == offered - gone
    assert set(CoDE.setting_names()) == offered - gone | {"rho"}
    of_constructor = set(inspect.signature(ACOVA).parameters)
    assert set(inspect.signature(MoE).parameters) == of_constructor - gone
    assert set(inspect.signature(CoDE).parameters) == of_constructor - gone | {"rho"}
    with pytest.raises(TypeError, match=r"MoE\.__init__\(\) got an unexpected keyword argument 'correlation'"):
        MoE(3, correlation="learned")
    with pytest.raises(TypeError, match=r"MoE\(\) got an unexpected setting 'correlation'"):
        MoE.from_settings(3, correlation="learned")
    with pytest.raises(TypeError, match=r"ACOVA\(\) got an unexpected setting 'alfa'\. Did you mean 'alpha'"):
        ACOVA.from_settings(3, alfa=3)


def test_settings_of_a_correlation_that_is_not_learned_are_refused(toy):
    with pytest.raises(OptionError, match=r"MoE: training has n_correlations=2, which says nothing here; leave it out"):
        MoE(3, training=Training(n_correlations=2)).fit(toy[0])


def test_methods_train_together_as_they_do_alone():
    views, _ = make_toy(n_samples=120)

    def build():
        acovas = [CoDE.from_settings(3, rho=rho, **SMALL) for rho in (0.1, 0.6)]
        return [*acovas, MoE.from_settings(3, **SMALL), DVIMC(3, **DVIMC_SMALL)]

    for together, alone in zip(fit_many(build(), views), build(), strict=True):
        np.testing.assert_array_equal(together.labels_, alone.fit(views).labels_)


def test_what_trains_no_network_is_not_trained_together(toy):
    with pytest.raises(OptionError, match="fit_many: Concat trains no network"):
        fit_many([Concat(3)], toy[0])


@pytest.mark.parametrize("fusion", ["constant", "product", "mixture", "weighted"])
def test_stacked_losses_and_gradients_are_those_of_each_run(fusion):
    networks = [network_of(fusion=fusion).float() for _ in range(2)]
    with torch.no_grad():
        for number, network in enumerate(networks):
            for parameter in network.parameters():
                parameter.add_(0.1 * number)
    views, observed, noise = batch()
    views, noise = [view.float() for view in views], noise.float()
    expected = []
    for network in networks:
        total = network.loss(Batch(views, observed), noise)["total"]
        total.sum().backward()
        expected.append(
            (total.detach(), {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None})
        )
        network.zero_grad()
    runs = Runs(networks)
    twice = lambda x: torch.stack([x, x])  # noqa: E731
    stacked = Batch([twice(view) for view in views], twice(observed))
    losses = runs.losses(MultiViewVAE.loss, stacked, twice(noise))
    losses["total"].sum().backward()
    for run, (total, gradients) in enumerate(expected):
        torch.testing.assert_close(losses["total"][run].detach(), total, rtol=1e-4, atol=1e-3)
        for name, gradient in gradients.items():
            ours = runs.parameters[name].grad[run]
            torch.testing.assert_close(ours, gradient, rtol=1e-3, atol=1e-3 * gradient.abs().max().item() + 1e-6)
