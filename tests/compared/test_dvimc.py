"""DVIMC: its objective, its settings, and what its keywords are."""

import numpy as np
import pytest
import torch

from acova import ACOVA, DVIMC
from acova.base import Streams
from acova.compared.dvimc import VariancePrior, VarianceVAE
from acova.data import make_observed
from acova.engine import ParameterGroup, Phase, RunData, Runs, Trainer
from acova.estimators.recipes import RECIPES
from acova.functional import Batch, kl_diagonal, log_joint
from acova.networks import MultiViewVAE
from acova.training.inference import batch_of
from conftest import SMALL

TINY = {name: value for name, value in SMALL.items() if name != "warmup_epochs"}


def network_of(kind=VarianceVAE, n_clusters=4, **settings):
    torch.manual_seed(0)
    return kind(
        (7, 5, 9), 3, n_clusters, hidden=(8,), likelihoods=["gaussian"] * 3, alpha=2.0,
        correlation=torch.eye(3), learn_correlation=False, **settings,
    ).double()  # fmt: skip


def data(missing=0.7, n=40):
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(n, size, dtype=torch.float64, generator=generator) for size in (7, 5, 9)]
    observed = torch.from_numpy(make_observed(n, 3, missing, random_state=0))
    return Batch(views, observed), torch.randn(n, 2, 3, dtype=torch.float64, generator=generator)


def test_variance_heads_give_variances():
    """The same weights read as standard deviations or as variances."""
    std, variance = network_of(MultiViewVAE), network_of(density_floor=0.0)
    (views, observed, *_), _ = data()
    with torch.no_grad():
        as_std, as_variance = std.encode(views, observed)[1], variance.encode(views, observed)[1].square()
    seen = observed.unsqueeze(-1).expand_as(as_std)
    torch.testing.assert_close(as_std[seen], as_variance[seen], rtol=0, atol=2e-4)
    prior = VariancePrior(4, 3)
    torch.testing.assert_close(prior()[2], torch.ones(4, 3))
    prior.place(torch.zeros(4, 3), torch.full((4, 3), 0.3))
    torch.testing.assert_close(prior()[2], torch.full((4, 3), 0.3))


def test_the_objective_is_its_formula():
    """Written out from the paper's equations, in numpy and plain torch, for one batch."""
    network = network_of(fusion="product", density_floor=1e-10)
    with torch.no_grad():
        network.prior.means.normal_()
        network.prior.scale.normal_()
        network.prior.logits.normal_()
    batch, noise = data()
    views, observed = batch.views, batch.observed
    with torch.no_grad():
        parts = network.loss(batch, noise)
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
    network = network_of(n_clusters=1, fusion="product", density_floor=0.0)
    (views, _, *_), noise = data()
    complete = torch.ones(40, 3, dtype=torch.bool)
    mean, std = torch.zeros(40, 3, 3).double(), torch.full((40, 3, 3), 0.5).double()
    network.encode = lambda *_: (mean, std)
    with torch.no_grad():
        parts = network.loss(Batch(views, complete), noise)
        fused = network.posterior(views, complete)
        _, centres, spreads = network.prior()
    torch.testing.assert_close(fused.variance, torch.full((40, 3), 0.25 / 3).double())
    per_dim = 0.5 * (np.log(3) + 1 / 3 - 1)
    torch.testing.assert_close(parts["alignment"], torch.full((40,), 3 * per_dim).double())
    torch.testing.assert_close(parts["kl_c"], torch.zeros(40).double())
    torch.testing.assert_close(parts["kl_z"], kl_diagonal(fused.mean, fused.variance, centres, spreads))


def test_a_floor_makes_responsibilities_equal_far_away_and_keeps_them_near():
    exact, floored = network_of(n_clusters=2, density_floor=0.0), network_of(n_clusters=2, density_floor=1e-10)
    prior = floored.prior
    exact.prior = prior
    prior.place(torch.tensor([[0.0] * 3, [1.0] * 3]), torch.ones(2, 3))
    with torch.no_grad():
        near, far = torch.zeros(1, 3).double(), torch.full((1, 3), 30.0).double()
        torch.testing.assert_close(
            floored._log_responsibilities(near), exact._log_responsibilities(near), rtol=0, atol=1e-8
        )
        torch.testing.assert_close(exact._log_responsibilities(far), prior.log_responsibilities(far))
        assert floored.assign(far)[0, 1] == 1.0
        assert prior.log_responsibilities(far)[0, 1] > -1e-10
        torch.testing.assert_close(floored._log_responsibilities(far).exp(), torch.full((1, 2), 0.5).double())


def test_learning_rates_fall_in_steps():
    """With a constant gradient and no moments to speak of, Adam's steps are the learning rate."""
    network = torch.nn.Linear(1, 1, bias=False)
    run_data = RunData([torch.ones(1, 4, 1)], torch.ones(1, 4, 1, dtype=torch.bool))
    places = []

    def loss(network, batch, noise):
        return {"total": network.weight.sum().expand(4)}

    def measure(network):
        places.append(network.weight.item())
        return {}

    phase = Phase("train", 6, 4, loss, [ParameterGroup(["weight"], 1e-3)], decay=0.1, decay_every=2, measure=measure)
    before = network.weight.item()
    Trainer(Runs([network]), run_data, [Streams(0)]).train(phase)
    steps = -np.diff([before, *places])
    np.testing.assert_allclose(steps, [1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5], rtol=0.05)


def test_settings_are_the_authors(toy):
    scene = DVIMC.preset("scene15")
    assert (scene.alpha, scene.learning_rate, scene.prior_learning_rate, scene.clip_norm) == (20.0, 5e-4, 5e-2, 10.0)
    assert (scene.learning_rate_decay, scene.decay_every, scene.batch_size, scene.latent_dim) == (0.9, 10, 256, 10)
    assert DVIMC.preset("noisymnist").likelihood == "bernoulli"
    model = DVIMC(3, **TINY).fit(toy[0])
    assert model.history_["phase"].unique().tolist() == ["pretrain", "train"]
    np.testing.assert_array_equal(model.correlation_, np.eye(3))
    network, (scaled, observed, *_) = model.network_, batch_of(toy[0], model._scaling, torch.device("cpu"))
    with torch.no_grad():
        fused, (_, std) = network.posterior(scaled, observed), network.encode(scaled, observed)
    assert (fused.variance.unsqueeze(1) <= std.square() * (1 + 1e-5))[observed].all()


def test_keywords_are_acovas_but_for_what_is_fixed():
    offered = set(ACOVA.setting_names())
    gone = {"correlation", "n_correlations", "missing", "correlation_start", "correlation_learning_rate"}
    recipe = {
        *RECIPES["paper"],
        "final_clusters",
        "temperature",
        "covariate_use",
        "recipe",
        "warmup_kl",
        "n_neighbors",
        "view_weights",
        "elbo_weight",
    } - {
        "hidden",
        "pretrain_epochs",
        "epochs",
    }
    recipe -= {"standardize", "likelihood", "learning_rate", "prior_learning_rate", "learning_rate_decay"}
    assert set(DVIMC().get_params()) == offered - gone - recipe | {"decay_every", "density_floor"}
    with pytest.raises(TypeError, match=r"DVIMC\(\) got .* 'alfa'. Did you mean 'alpha'"):
        DVIMC.from_settings(3, alfa=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'alfa'"):
        DVIMC(3, alfa=3)
