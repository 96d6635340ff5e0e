import math

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch.distributions import Bernoulli, Categorical, Independent, Laplace, Normal, kl_divergence

from acova.functional import (
    Fused,
    ObjectiveParts,
    alignment,
    distant_log_responsibilities,
    expected_kl_to_components,
    fuse,
    kl_assignment,
    kl_diagonal,
    log_density,
    log_joint,
    log_responsibilities,
    mixture_scale,
    mixture_scale_parameter,
    objective_parts,
    optimal_log_responsibilities,
    reconstruction,
    reparameterise,
    total_reconstruction,
)

K, D, N = 4, 3, 50


def draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def mixture():
    return draw(K, seed=1).log_softmax(-1), 2 * draw(K, D, seed=2), draw(K, D, seed=3).exp()


def test_log_density_and_kl_match_torch_distributions():
    mean, other = draw(N, D), draw(N, D, seed=1)
    variance, other_variance = draw(N, D, seed=2).exp(), draw(N, D, seed=3).exp()
    p, q = (Independent(Normal(m, v.sqrt()), 1) for m, v in ((mean, variance), (other, other_variance)))
    torch.testing.assert_close(log_density(other, mean, variance), p.log_prob(other))
    torch.testing.assert_close(kl_diagonal(mean, variance, other, other_variance), kl_divergence(p, q))
    assert kl_diagonal(mean, variance, mean, variance).abs().max() < 1e-12


def test_kl_matches_monte_carlo():
    mean, variance, other, other_variance = draw(D), draw(D, seed=2).exp(), draw(D, seed=1), draw(D, seed=3).exp()
    z = reparameterise(mean, variance, draw(400_000, D, seed=5))
    estimate = (log_density(z, mean, variance) - log_density(z, other, other_variance)).mean()
    assert kl_diagonal(mean, variance, other, other_variance).item() == pytest.approx(estimate.item(), rel=0.02)


def test_reparameterised_noise_has_the_moments_asked_for():
    mean, variance = draw(D), draw(D, seed=2).exp()
    z = reparameterise(mean, variance, draw(400_000, D, seed=5))
    torch.testing.assert_close(z.mean(0), mean, rtol=0, atol=0.02)
    torch.testing.assert_close(z.var(0), variance, rtol=0.02, atol=0)


def test_responsibilities_match_scikit_learn(mixture):
    log_weights, means, variances = mixture
    reference = GaussianMixture(K, covariance_type="diag")
    reference.weights_, reference.means_, reference.covariances_ = (
        log_weights.exp().numpy(),
        means.numpy(),
        variances.numpy(),
    )
    reference.precisions_cholesky_ = 1 / np.sqrt(reference.covariances_)
    z = 3 * draw(N, D)
    np.testing.assert_allclose(log_responsibilities(z, *mixture).exp(), reference.predict_proba(z.numpy()), atol=1e-12)
    np.testing.assert_allclose(log_joint(z, *mixture).logsumexp(-1), reference.score_samples(z.numpy()))


def test_responsibilities_are_exact_far_from_every_centre(mixture):
    far = 1e3 * torch.ones(1, D, dtype=torch.float64)
    log_resp = log_responsibilities(far, *mixture)
    assert torch.isfinite(log_resp).all()
    assert log_resp.argmax() == log_joint(far, *mixture).argmax()
    assert log_resp.exp().sum().item() == pytest.approx(1)


def test_kl_terms_at_a_fixed_point_add_up_to_the_evidence(mixture):
    z = draw(N, D)
    log_resp = log_responsibilities(z, *mixture)
    inside = (log_resp.exp() * log_density(z.unsqueeze(-2), *mixture[1:])).sum(-1)
    evidence = log_joint(z, *mixture).logsumexp(-1)
    torch.testing.assert_close(kl_assignment(log_resp, mixture[0]) - inside, -evidence)


def test_mixture_kl_terms_match_monte_carlo(mixture):
    log_weights, means, variances = mixture
    mean, variance = draw(1, D, seed=7), draw(1, D, seed=8).exp()
    log_resp = log_responsibilities(mean, *mixture)
    generator = torch.Generator().manual_seed(9)
    c = torch.multinomial(log_resp.exp()[0], 300_000, replacement=True, generator=generator)
    z = reparameterise(mean, variance, torch.randn(300_000, D, dtype=torch.float64, generator=generator))
    estimate = (log_density(z, mean, variance) - log_density(z, means[c], variances[c])).mean()
    ours = expected_kl_to_components(mean, variance, log_resp, means, variances)
    assert ours.item() == pytest.approx(estimate.item(), rel=0.02)
    sampled = (log_resp[0, c] - log_weights[c]).mean()
    assert kl_assignment(log_resp, log_weights).item() == pytest.approx(sampled.item(), rel=0.03)
    exact = kl_divergence(Categorical(logits=log_resp), Categorical(logits=log_weights))
    torch.testing.assert_close(kl_assignment(log_resp, log_weights), exact)


def test_one_component_leaves_a_plain_kl():
    mean, variance, centre, spread = draw(N, D), draw(N, D, seed=1).exp(), draw(1, D, seed=2), draw(1, D, seed=3).exp()
    log_resp = torch.zeros(N, 1, dtype=torch.float64)
    ours = expected_kl_to_components(mean, variance, log_resp, centre, spread)
    torch.testing.assert_close(ours, kl_diagonal(mean, variance, centre, spread))
    assert (kl_assignment(log_resp, torch.zeros(1, dtype=torch.float64)) == 0).all()


def test_scales_stay_above_their_floor_and_can_be_set():
    assert (mixture_scale(torch.tensor([-1e9, -50.0]), 0.01) >= 0.01).all()
    scales = torch.tensor([0.02, 0.5, 1.0, 7.0, 90.0], dtype=torch.float64)
    torch.testing.assert_close(mixture_scale(mixture_scale_parameter(scales, 0.01), 0.01), scales)
    assert torch.isfinite(mixture_scale_parameter(torch.tensor([0.0, 0.01]), 0.01)).all()


def test_gaussian_reconstruction_is_the_log_density_with_variance_one_half_without_its_constant():
    x, output, seen = draw(N, 6), draw(N, 6, seed=1), torch.ones(N, dtype=torch.bool)
    log_p = Independent(Normal(output, math.sqrt(0.5)), 1).log_prob(x)
    torch.testing.assert_close(reconstruction(x, output, seen, "gaussian"), -log_p - 0.5 * 6 * math.log(math.pi))


def test_bernoulli_reconstruction_is_minus_the_log_likelihood():
    x, logits = (draw(N, 6) > 0).double(), 3 * draw(N, 6, seed=1)
    log_p = Independent(Bernoulli(logits=logits), 1).log_prob(x)
    torch.testing.assert_close(reconstruction(x, logits, torch.ones(N, dtype=torch.bool), "bernoulli"), -log_p)


def test_laplace_reconstruction_is_minus_the_log_likelihood_with_its_gradient():
    x, output = draw(N, 6), draw(N, 6, seed=1).requires_grad_()
    seen = torch.ones(N, dtype=torch.bool)
    log_p = Independent(Laplace(output, torch.ones_like(output)), 1).log_prob(x)
    ours = reconstruction(x, output, seen, "laplace")
    torch.testing.assert_close(ours, -log_p - 6 * math.log(2))
    assert torch.autograd.gradcheck(lambda y: reconstruction(x, y, seen, "laplace"), (output,))


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "laplace"])
def test_hidden_views_have_no_reconstruction_and_no_gradient(likelihood):
    seen = torch.arange(N) % 2 == 0
    x = torch.where(seen.unsqueeze(-1), draw(N, 6).sigmoid(), torch.nan)
    output = torch.where(seen.unsqueeze(-1), draw(N, 6, seed=1), torch.nan).requires_grad_()
    loss = reconstruction(x, output, seen, likelihood)
    loss.sum().backward()
    assert (loss[~seen] == 0).all()
    assert torch.isfinite(loss).all()
    assert (output.grad[~seen] == 0).all()


def test_an_unknown_likelihood_is_refused():
    with pytest.raises(ValueError, match="likelihood must be one of"):
        reconstruction(draw(2, 2), draw(2, 2), torch.ones(2, dtype=torch.bool), "poisson")


def test_alignment_averages_the_kl_over_observed_views():
    mean, std = draw(N, 3, D), draw(N, 3, D, seed=1).exp()
    observed = draw(N, 3, seed=2) > -0.5
    observed[:, 0] = True
    fused = fuse(mean, std, observed)
    expected = []
    for i in range(N):
        q = Independent(Normal(fused.mean[i], fused.variance[i].sqrt()), 1)
        views = [Independent(Normal(mean[i, v], std[i, v]), 1) for v in range(3) if observed[i, v]]
        expected.append(torch.stack([kl_divergence(q, p) for p in views]).mean())
    torch.testing.assert_close(alignment(fused, mean, std, observed), torch.stack(expected))


def test_alignment_of_equal_experts_has_its_closed_form():
    n_views = 5
    mean, std = torch.zeros(1, n_views, D), torch.full((1, n_views, D), 0.7)
    observed = torch.ones(1, n_views, dtype=torch.bool)
    expected = D * 0.5 * (math.log(n_views) + 1 / n_views - 1)
    assert alignment(fuse(mean, std, observed), mean, std, observed).item() == pytest.approx(expected, rel=1e-5)


def test_alignment_ignores_nan_in_hidden_views_forward_and_backward():
    mean, std = draw(N, 2, D), draw(N, 2, D, seed=1).exp()
    observed = torch.ones(N, 2, dtype=torch.bool)
    observed[:, 1] = False
    mean[:, 1], std[:, 1] = torch.nan, torch.nan
    mean.requires_grad_(), std.requires_grad_()
    loss = alignment(fuse(mean, std, observed), mean, std, observed)
    loss.sum().backward()
    torch.testing.assert_close(loss, torch.zeros(N, dtype=torch.float64))
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(std.grad).all()


def test_the_parts_are_assembled_as_in_the_paper(mixture):
    observed = torch.ones(N, 2, dtype=torch.bool)
    observed[::3, 1] = False
    views, outputs = [draw(N, 5), draw(N, 4, seed=1).sigmoid()], [draw(N, 5, seed=2), draw(N, 4, seed=3)]
    mean, std = draw(N, 2, D, seed=4), draw(N, 2, D, seed=5).exp()
    fused = fuse(mean, std, observed)
    log_resp = log_responsibilities(fused.mean, *mixture)
    likelihoods = ("gaussian", "bernoulli")
    decoded = total_reconstruction(views, outputs, observed.double(), likelihoods)
    parts = objective_parts(decoded, observed, (mean, std), fused, log_resp, mixture)
    first = reconstruction(views[0], outputs[0], observed[:, 0], "gaussian")
    second = reconstruction(views[1], outputs[1], observed[:, 1], "bernoulli")
    torch.testing.assert_close(parts.reconstruction, first + second)
    shares = torch.where(observed, torch.tensor([2.0, 5.0], dtype=torch.float64), 0.0)
    torch.testing.assert_close(total_reconstruction(views, outputs, shares, likelihoods), 2 * first + 5 * second)
    torch.testing.assert_close(parts.kl_z, expected_kl_to_components(*fused[:2], log_resp, *mixture[1:]))
    torch.testing.assert_close(parts.kl_c, kl_assignment(log_resp, mixture[0]))
    torch.testing.assert_close(parts.alignment, alignment(fused, mean, std, observed))
    means = parts.mean()
    torch.testing.assert_close(means.total(7.0), means.negative_elbo() + 7.0 * parts.alignment.mean())


def test_optimal_responsibilities_minimise_the_divergence_from_the_prior(mixture):
    mean, variance = draw(N, D), draw(N, D, seed=5).exp()
    best = optimal_log_responsibilities(mean, variance, *mixture)

    def divergence(log_resp):
        return expected_kl_to_components(mean, variance, log_resp, *mixture[1:]) + kl_assignment(log_resp, mixture[0])

    components = [kl_diagonal(mean, variance, m, v) for m, v in zip(mixture[1], mixture[2], strict=True)]
    closed = -torch.logsumexp(mixture[0] - torch.stack(components, -1), -1)
    torch.testing.assert_close(divergence(best), closed)
    for seed in range(5):
        other = (best + 0.3 * draw(N, K, seed=seed)).log_softmax(-1)
        assert (divergence(other) > divergence(best)).all()
    narrow = optimal_log_responsibilities(mean, torch.full_like(mean, 1e-12), *mixture)
    torch.testing.assert_close(narrow, log_responsibilities(mean, *mixture))


def test_total_follows_the_named_parts():
    parts = ObjectiveParts(*(torch.tensor(float(x)) for x in (1, 10, 100, 1000)))
    assert parts.negative_elbo().item() == 111
    assert parts.total(2.0).item() == 2111


def test_fused_is_a_named_tuple_in_the_documented_order():
    assert Fused._fields == ("mean", "variance", "weights")


def test_distant_log_responsibilities_are_the_same_nearby_and_right_far_away(mixture):
    z = draw(N, D)
    torch.testing.assert_close(distant_log_responsibilities(z, *mixture), log_responsibilities(z, *mixture))
    log_weights, means, _ = mixture
    round_ones = (log_weights, means, torch.ones(K, D, dtype=torch.float64))
    for far in (1e8, 1e15, 1e25, 1e37):
        expected = (z @ means.mT).argmax(
            -1
        )  # of equally round components, the one farthest along the sample's direction
        found = distant_log_responsibilities((far * z).float(), *round_ones)
        assert torch.isfinite(found.exp()).all()
        torch.testing.assert_close(found.argmax(-1), expected)
