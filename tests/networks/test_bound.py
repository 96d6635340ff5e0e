"""The evidence lower bound of the network's model, where the evidence is known."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from acova.functional import Batch
from acova.networks import MultiViewVAE

SLOPES, SHIFTS, MEAN, VARIANCE = (1.5, -0.8), (0.3, 2.0), 0.7, 0.6


class Linear(MultiViewVAE):
    """Two views x_v = w_v z + b_v + N(0, 1/2) of one cluster z ~ N(m, s²), encoded by the exact posterior.

    The first view's estimate carries the prior, so it has to be observed.
    """

    error = 0.0

    def __init__(self, **settings):
        super().__init__(
            (1, 1), 1, 1, hidden=(), likelihoods=("gaussian",) * 2, alpha=5.0, correlation=torch.eye(2), **settings
        )
        self.prior.place(torch.tensor([[MEAN]]), torch.tensor([[VARIANCE]]))

    def encode(self, views, observed):
        first = (2 * SLOPES[0] * (views[0] - SHIFTS[0]) + MEAN / VARIANCE) / (2 * SLOPES[0] ** 2 + 1 / VARIANCE)
        second = (views[1] - SHIFTS[1]) / SLOPES[1]
        precision = torch.tensor([2 * SLOPES[0] ** 2 + 1 / VARIANCE, 2 * SLOPES[1] ** 2])
        mean = torch.stack([first + self.error, second], dim=1)
        return mean, precision.rsqrt().view(2, 1).expand_as(mean)

    def decode(self, latents, wanted, covariates=None):
        return [w * latent + b for w, b, latent in zip(SLOPES, SHIFTS, latents, strict=True)]


def evidence(rows, seen):
    mean, slopes = np.array(SLOPES) * MEAN + np.array(SHIFTS), np.array(SLOPES)
    covariance = VARIANCE * np.outer(slopes, slopes) + 0.5 * np.eye(2)
    return multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(rows[:, seen])


@pytest.mark.parametrize("seen", [[True, True], [True, False]])
def test_with_the_exact_posterior_the_bound_is_the_evidence(seen):
    rows = np.array([[0.0, 0.0], [1.5, 2.5], [-2.0, 4.0]])
    n_draws = 100_000
    views = [torch.from_numpy(np.repeat(rows[:, [v]], n_draws, axis=0)).float() for v in range(2)]
    observed = torch.tensor(seen).expand(len(views[0]), 2)
    noise = torch.randn(len(views[0]), 2, 1, generator=torch.Generator().manual_seed(0))
    network, batch = Linear(), Batch(views, observed)
    found = network.score(batch, noise)["score"].view(3, n_draws).mean(1).detach().numpy()
    np.testing.assert_allclose(found, evidence(rows, np.array(seen)), atol=0.02)
    network.error = 0.5
    worse = network.score(batch, noise)["score"].view(3, n_draws).mean(1).detach().numpy()
    assert (worse < found - 0.1).all()


def test_the_weights_of_training_have_no_part_in_the_bound():
    batch = Batch([torch.randn(50, 1), torch.randn(50, 1)], torch.ones(50, 2, dtype=torch.bool))
    noise = torch.randn(50, 2, 1)
    plain = Linear().score(batch, noise)["score"]
    weighed = Linear(reconstruction_weights=[67.6, 6.2], elbo_weight=3.0).score(batch, noise)["score"]
    torch.testing.assert_close(weighed, plain)
