"""The fusion as a module: against the conditional of a joint Gaussian, and learning a known correlation."""

import pytest
import torch

from acova.functional import fuse, product_of_experts
from acova.networks import CorrelatedFusion

R = torch.tensor([[1.0, 0.8, 0.3], [0.8, 1.0, 0.1], [0.3, 0.1, 1.0]], dtype=torch.float64)


def estimates(seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(20, 3, 2, generator=generator, dtype=torch.float64)
    std = 0.3 + torch.rand(20, 3, 2, generator=generator, dtype=torch.float64)
    observed = torch.rand(20, 3, generator=generator) < 0.6
    observed[:, 0] |= ~observed.any(1)
    return mean, std, observed


def test_it_is_generalised_least_squares_over_the_modalities_that_are_there():
    mean, std, observed = estimates()
    fused = CorrelatedFusion(3, correlation=R)(mean, std, observed)
    for row in range(20):
        seen = observed[row]
        for d in range(2):
            scale = std[row, seen, d].diag()
            precision = torch.linalg.inv(scale @ R[seen][:, seen] @ scale)
            torch.testing.assert_close(fused.variance[row, d], 1 / precision.sum())
            torch.testing.assert_close(fused.mean[row, d], (precision @ mean[row, seen, d]).sum() / precision.sum())


@pytest.mark.parametrize("missing", ["marginal", "precision"])
def test_it_starts_as_a_product_of_experts_and_absent_modalities_are_not_read(missing):
    mean, std, observed = estimates()
    hidden = mean.masked_fill(~observed.unsqueeze(-1), torch.nan)
    found = CorrelatedFusion(3, missing=missing)(hidden, std, observed)
    for ours, theirs in zip(found, product_of_experts(mean, std, observed), strict=True):
        torch.testing.assert_close(ours, theirs)
    everything = torch.ones_like(observed)
    fixed = CorrelatedFusion(3, correlation=R, learn=False, missing=missing)
    assert not list(fixed.parameters())
    torch.testing.assert_close(fixed(mean, std).mean, fuse(mean, std, everything, R, missing).mean)


def test_a_saved_module_is_the_same():
    fusion, other = CorrelatedFusion(3, correlation=R), CorrelatedFusion(3)
    other.load_state_dict(fusion.state_dict())
    torch.testing.assert_close(other.correlation(), R)


def test_a_likelihood_of_known_targets_teaches_the_correlation():
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(4000, 3, generator=generator, dtype=torch.float64) @ torch.linalg.cholesky(R).mT
    std = torch.tensor([0.5, 1.0, 0.7], dtype=torch.float64).expand(4000, 3)
    observed = torch.rand(4000, 3, generator=generator) < 0.8
    fusion = CorrelatedFusion(3)
    optimiser = torch.optim.LBFGS(fusion.parameters(), max_iter=60, line_search_fn="strong_wolfe")
    seen = observed.any(1)

    def loss():
        optimiser.zero_grad()
        mean, variance, _ = fusion((std * errors).unsqueeze(-1), std.unsqueeze(-1), observed)
        value = (mean[seen].square() / variance[seen] + variance[seen].log()).mean()  # the target is 0
        value.backward()
        return value

    optimiser.step(loss)
    torch.testing.assert_close(fusion.correlation().detach(), R, atol=0.08, rtol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"correlation": torch.eye(2)}, r"correlation must have the shape \(3, 3\); got \(2, 2\)"),
        ({"missing": "drop"}, "missing must be 'marginal' or 'precision'; got 'drop'"),
    ],
)
def test_what_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        CorrelatedFusion(3, **settings)
