"""The density of estimates against scipy's, and what it teaches."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from acova.functional import correlation_matrix, log_evidence
from acova.networks import CorrelatedFusion

R = torch.tensor([[1.0, 0.7, 0.1], [0.7, 1.0, 0.2], [0.1, 0.2, 1.0]], dtype=torch.float64)


def estimates(count, seed=0, share=0.7):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    std = 0.4 + torch.rand(count, 3, 2, **draw)
    errors = torch.einsum("vw,nwd->nvd", torch.linalg.cholesky(R), torch.randn(count, 3, 2, **draw))
    mean = torch.randn(count, 1, 2, **draw) + std * errors
    observed = torch.rand(count, 3, generator=generator) < share
    observed[:, 0] |= ~observed.any(1)
    return mean, std, observed


@pytest.mark.parametrize("share", [0.6, 1.1])
@pytest.mark.parametrize("missing", ["marginal", "precision"])
def test_it_is_the_normal_density_of_what_a_row_has(missing, share):
    mean, std, observed = estimates(12, share=share)
    found = log_evidence(mean.masked_fill(~observed.unsqueeze(-1), torch.nan), std, observed, R, missing)
    for row in range(12):
        seen, total = observed[row].numpy(), 0.0
        block = R.numpy()[np.ix_(seen, seen)]
        if missing == "precision":
            block = np.linalg.inv(np.linalg.inv(R.numpy())[np.ix_(seen, seen)])
        for d in range(2):
            scale = np.diag(std[row, seen, d].numpy())
            covariance = np.ones((seen.sum(), seen.sum())) + scale @ block @ scale
            total += multivariate_normal(cov=covariance).logpdf(mean[row, seen, d].numpy())
        np.testing.assert_allclose(found[row], total)


def test_it_finds_the_correlation_without_targets():
    mean, std, observed = estimates(4000)
    fusion = CorrelatedFusion(3)
    optimiser = torch.optim.LBFGS(fusion.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = -log_evidence(mean, std, observed, fusion.correlation()).mean()
        value.backward()
        return value

    optimiser.step(loss)
    torch.testing.assert_close(fusion.correlation().detach(), R, atol=0.06, rtol=0)


def test_hidden_entries_touch_no_gradient():
    mean, std, observed = estimates(5)
    mean, parameter = mean.masked_fill(~observed.unsqueeze(-1), torch.nan).requires_grad_(), torch.zeros(6).double()
    log_evidence(mean, std, observed, correlation_matrix(parameter.requires_grad_())).sum().backward()
    assert torch.isfinite(parameter.grad).all()
    assert not mean.grad[~observed].any()
