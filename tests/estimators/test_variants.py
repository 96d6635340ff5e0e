import inspect

import numpy as np
import pytest
import torch

from acova import ACOVA, DVIMC, CoDE, Concat, MoE, WeightedFusion
from acova.base import OptionError, Streams
from acova.data import make_observed
from acova.engine import ParameterGroup, Phase, RunData, Runs, Trainer
from acova.estimators import fit_many
from acova.estimators.presets import RECIPES
from acova.functional import kl_diagonal, log_joint
from acova.networks import MixturePrior, MultiViewVAE
from acova.training.inference import tensors
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
    ours = CoDE(3, rho=0.3, **SMALL).fit(toy[0])
    theirs = ACOVA(3, correlation=0.3, missing="marginal", **SMALL).fit(toy[0])
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, atol=1e-3)
    np.testing.assert_allclose(ours.view_weights_, theirs.view_weights_, atol=1e-3)
    np.testing.assert_allclose(ours.correlation_, theirs.correlation_)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-3)


def test_code_without_correlation_is_acova_with_the_identity(toy):
    ours = CoDE(3, rho=0.0, **SMALL).fit(toy[0])
    theirs = ACOVA(3, correlation="identity", **SMALL).fit(toy[0])
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
        CoDE(3, rho=rho, **SMALL).fit(toy[0])


def test_a_mixture_weighs_the_views_a_sample_has_equally(toy):
    views, _ = toy
    model = MoE(3, **SMALL).fit(views)
    count = views.observed.sum(1, keepdims=True)
    np.testing.assert_allclose(model.view_weights_, views.observed / count, atol=1e-6)
    assert not hasattr(model, "correlation_")
    assert "correlation_distance" not in model.history_


def test_learned_weights_are_shared_by_all_samples_and_renormalised(toy):
    views, _ = toy
    model = WeightedFusion(3, **SMALL).fit(views)
    assert model.fusion_weights_.sum() == pytest.approx(1)
    assert np.abs(model.fusion_weights_ - 1 / 3).max() > 1e-3  # they were learned
    kept = views.observed * model.fusion_weights_
    np.testing.assert_allclose(model.view_weights_, kept / kept.sum(1, keepdims=True), atol=1e-5)


def test_the_gradient_of_the_views_weights_sums_to_zero():
    network = network_of(fusion="weighted")
    network.loss(*batch())["total"].sum().backward()
    gradient = network.fusion_logits.grad
    assert gradient.abs().max() > 1e-3
    assert gradient.sum().item() == pytest.approx(0, abs=1e-8 * gradient.abs().max().item())


def test_a_one_hot_weight_reproduces_that_view():
    network, (views, _, _) = network_of(fusion="weighted"), batch()
    with torch.no_grad():
        network.fusion_logits.copy_(torch.tensor([-100.0, 0.0, -100.0]))
        complete = torch.ones(40, 3, dtype=torch.bool)
        mean, std = network.encode(views, complete)
        fused = network.posterior(views, complete)
    torch.testing.assert_close(fused.mean, mean[:, 1])
    torch.testing.assert_close(fused.variance, std[:, 1].square())


def test_variance_heads_give_variances():
    """The same weights read as standard deviations or as variances."""
    std, variance = network_of(), network_of(scale_is="variance")
    views, observed, _ = batch()
    with torch.no_grad():
        as_std, as_variance = std.encode(views, observed)[1], variance.encode(views, observed)[1].square()
    seen = observed.unsqueeze(-1).expand_as(as_std)
    torch.testing.assert_close(as_std[seen], as_variance[seen], rtol=0, atol=2e-4)
    prior = MixturePrior(4, 3, scale_is="variance")
    torch.testing.assert_close(prior()[2], torch.ones(4, 3))
    prior.place(torch.zeros(4, 3), torch.full((4, 3), 0.3))
    torch.testing.assert_close(prior()[2], torch.full((4, 3), 0.3))


def test_the_dvimc_objective_is_its_formula():
    """Written out from the paper's equations, in numpy and plain torch, for one batch."""
    network = network_of(fusion="product", scale_is="variance", density_floor=1e-10)
    with torch.no_grad():
        network.prior.means.normal_()
        network.prior.scale.normal_()
        network.prior.logits.normal_()
    views, observed, noise = batch()
    with torch.no_grad():
        parts = network.loss(views, observed, noise)
        mean, std = network.encode(views, observed)
        variance = std.square()
        seen = observed.unsqueeze(-1)
        precision = torch.where(seen, 1 / variance, 0.0).sum(1)
        fused_mean = torch.where(seen, mean / variance, 0.0).sum(1) / precision
        fused_variance = 1 / precision
        draw, other = (fused_mean + fused_variance.sqrt() * noise[:, i] for i in (0, 1))
        outputs = network.decode([draw] * 3, observed)
        errors = torch.stack([(x - y).square().sum(1) for x, y in zip(views, outputs, strict=True)], 1)
        expected = {"reconstruction": torch.where(observed, errors, 0.0).sum(1)}
        log_pi, centres, spreads = network.prior()
        density = log_joint(other, log_pi, centres, spreads).exp() + 1e-10
        gamma = density / density.sum(1, keepdim=True)
        divergence = kl_diagonal(fused_mean.unsqueeze(1), fused_variance.unsqueeze(1), centres, spreads)
        expected["kl_z"] = (gamma * divergence).sum(1)
        expected["kl_c"] = (gamma * (gamma.log() - log_pi)).sum(1)
        to_views = kl_diagonal(fused_mean.unsqueeze(1), fused_variance.unsqueeze(1), mean, variance)
        expected["alignment"] = torch.where(observed, to_views, 0.0).sum(1) / observed.sum(1)
        expected["total"] = sum(list(expected.values())[:3]) + 2.0 * expected["alignment"]
    for name, value in expected.items():
        torch.testing.assert_close(parts[name], value, msg=name)
    single = observed.sum(1) == 1
    assert single.any()
    torch.testing.assert_close(parts["alignment"][single], torch.zeros(int(single.sum()), dtype=torch.float64))


def test_equal_experts_and_a_single_cluster_have_their_closed_forms():
    network = network_of(n_clusters=1, fusion="product", scale_is="variance")
    views, _, noise = batch()
    complete = torch.ones(40, 3, dtype=torch.bool)
    mean, std = torch.zeros(40, 3, 3).double(), torch.full((40, 3, 3), 0.5).double()
    network.encode = lambda *_: (mean, std)
    with torch.no_grad():
        parts = network.loss(views, complete, noise)
        fused = network.posterior(views, complete)
        _, centres, spreads = network.prior()
    torch.testing.assert_close(fused.variance, torch.full((40, 3), 0.25 / 3).double())
    per_dim = 0.5 * (np.log(3) + 1 / 3 - 1)
    torch.testing.assert_close(parts["alignment"], torch.full((40,), 3 * per_dim).double())
    torch.testing.assert_close(parts["kl_c"], torch.zeros(40).double())
    torch.testing.assert_close(parts["kl_z"], kl_diagonal(fused.mean, fused.variance, centres, spreads))


def test_a_floor_makes_responsibilities_equal_far_away_and_keeps_them_near():
    prior = MixturePrior(2, 3).double()
    prior.place(torch.tensor([[0.0] * 3, [1.0] * 3]), torch.ones(2, 3))
    with torch.no_grad():
        near, far = torch.zeros(1, 3).double(), torch.full((1, 3), 30.0).double()
        torch.testing.assert_close(
            prior.log_responsibilities(near, 1e-10), prior.log_responsibilities(near), rtol=0, atol=1e-8
        )
        assert prior.log_responsibilities(far)[0, 1] > -1e-10
        torch.testing.assert_close(prior.log_responsibilities(far, 1e-10).exp(), torch.full((1, 2), 0.5).double())


def test_learning_rates_fall_in_steps():
    """With a constant gradient and no moments to speak of, Adam's steps are the learning rate."""
    network = torch.nn.Linear(1, 1, bias=False)
    data = RunData([torch.ones(1, 4, 1)], torch.ones(1, 4, 1, dtype=torch.bool))
    places = []

    def loss(network, views, observed, noise):
        return {"total": network.weight.sum().expand(4)}

    def measure(network):
        places.append(network.weight.item())
        return {}

    phase = Phase("train", 6, 4, loss, [ParameterGroup(["weight"], 1e-3)], decay=0.1, decay_every=2, measure=measure)
    before = network.weight.item()
    Trainer(Runs([network]), data, [Streams(0)]).train(phase)
    steps = -np.diff([before, *places])
    np.testing.assert_allclose(steps, [1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5], rtol=0.05)


def test_dvimc_has_its_authors_settings(toy):
    scene = DVIMC.preset("scene15")
    assert (scene.alpha, scene.learning_rate, scene.prior_learning_rate, scene.clip_norm) == (20.0, 5e-4, 5e-2, 10.0)
    assert (scene.learning_rate_decay, scene.decay_every, scene.batch_size, scene.latent_dim) == (0.9, 10, 256, 10)
    assert DVIMC.preset("noisymnist").likelihood == "bernoulli"
    model = DVIMC(3, **DVIMC_SMALL).fit(toy[0])
    assert model.history_["phase"].unique().tolist() == ["pretrain", "train"]
    np.testing.assert_array_equal(model.correlation_, np.eye(3))
    network, (scaled, observed) = model.network_, tensors(toy[0], model._scaling, torch.device("cpu"))
    with torch.no_grad():
        fused, (_, std) = network.posterior(scaled, observed), network.encode(scaled, observed)
    assert (fused.variance.unsqueeze(1) <= std.square() * (1 + 1e-5))[observed].all()


def test_keywords_are_acovas_but_for_what_is_fixed():
    offered = set(inspect.signature(ACOVA).parameters)
    gone = {"correlation", "n_correlations", "missing", "correlation_start", "correlation_learning_rate"}
    assert set(inspect.signature(MoE).parameters) == offered - gone
    assert set(inspect.signature(CoDE).parameters) == offered - gone | {"rho"}
    recipe = {*RECIPES["paper"], "recipe", "warmup_kl", "n_neighbors", "view_weights"} - {
        "hidden",
        "pretrain_epochs",
        "epochs",
    }
    recipe -= {"standardize", "likelihood", "learning_rate", "prior_learning_rate", "learning_rate_decay"}
    assert set(DVIMC().get_params()) == offered - gone - recipe | {"decay_every", "density_floor"}
    with pytest.raises(TypeError, match=r"MoE\(\) got an unexpected keyword argument 'correlation'"):
        MoE(3, correlation="learned")
    with pytest.raises(TypeError, match=r"DVIMC\(\) got .* 'alfa'. Did you mean 'alpha'"):
        DVIMC(3, alfa=3)


def test_methods_train_together_as_they_do_alone():
    views, _ = make_toy(n_samples=120)
    build = lambda: [  # noqa: E731
        CoDE(3, rho=0.1, **SMALL), CoDE(3, rho=0.6, **SMALL), MoE(3, **SMALL), DVIMC(3, **DVIMC_SMALL)
    ]  # fmt: skip
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
        total = network.loss(views, observed, noise)["total"]
        total.sum().backward()
        expected.append(
            (total.detach(), {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None})
        )
        network.zero_grad()
    runs = Runs(networks)
    twice = lambda x: torch.stack([x, x])  # noqa: E731
    losses = runs.losses(MultiViewVAE.loss, [twice(view) for view in views], twice(observed), twice(noise))
    losses["total"].sum().backward()
    for run, (total, gradients) in enumerate(expected):
        torch.testing.assert_close(losses["total"][run].detach(), total, rtol=1e-4, atol=1e-3)
        for name, gradient in gradients.items():
            ours = runs.parameters[name].grad[run]
            torch.testing.assert_close(ours, gradient, rtol=1e-3, atol=1e-3 * gradient.abs().max().item() + 1e-6)
