"""Networks with a view more or less: what the others do is what they did, layer by layer and fused."""

import pytest
import torch

from acova.networks import MultiViewVAE
from acova.networks.growth import parts_of_last_view, take_over

SIZES = (8, 12, 5)


def network(sizes, *, seed=0, **settings):
    count = len(sizes)
    given = {
        **{"hidden": (6, 9), "likelihoods": ["gaussian"] * count, "alpha": 1.0},
        **{"correlation": torch.eye(count, dtype=torch.float64), **settings},
    }
    made = MultiViewVAE(sizes, 4, 3, generator=torch.Generator().manual_seed(seed), **given)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed + 1)))
    return made


def data(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    observed = torch.rand(20, len(sizes), generator=generator) < 0.7
    observed[:, 0] |= ~observed.any(1)
    return [torch.randn(20, size, generator=generator) for size in sizes], observed


SETTINGS = [
    {"missing": "precision"},
    {"missing": "marginal"},
    {"missing": "precision", "n_factors": 2},
    {"missing": "marginal", "n_factors": 2},
    {"fusion": "weighted", "learn_correlation": False},
    {"fusion": "mixture", "learn_correlation": False},
    {"fusion": "product", "learn_correlation": False},
    {"missing": "precision", "correlation": torch.eye(2, dtype=torch.float64).expand(2, 2, 2)},
]


def with_size(settings, count):
    matrix = settings.get("correlation")
    if matrix is None:
        return settings
    return {**settings, "correlation": torch.eye(count, dtype=torch.float64).expand(2, count, count)}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("sizes", [SIZES, (8, 8, 8)])
def test_without_the_new_view_samples_are_placed_as_before(settings, sizes):
    old = network(sizes[:2], **with_size(settings, 2))
    grown = take_over(network(sizes, seed=5, **with_size(settings, 3)), old, [0, 1, None])
    views, observed = data(sizes)
    observed[:, 2] = False
    observed[:, 0] |= ~observed.any(1)
    before, after = old.posterior(views[:2], observed[:, :2]), grown.posterior(views, observed)
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.variance, before.variance)
    wanted = torch.ones_like(observed)
    for ours, theirs in zip(
        grown.decode([before.mean] * 3, wanted), old.decode([before.mean] * 2, wanted[:, :2]), strict=False
    ):
        torch.testing.assert_close(ours, theirs)
    if old.correlates and old.fusion == "correlated":
        bordered = grown.correlation()
        assert torch.equal(bordered[..., :2, :2], old.correlation())
        assert not bordered[..., 2, :2].any()
        assert bool((torch.linalg.eigvalsh(bordered) > 0).all())


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_without_a_view_that_is_gone_samples_are_placed_as_before(settings, gone):
    old = network(SIZES, **with_size(settings, 3))
    kept = [v for v in range(3) if v != gone]
    fewer = take_over(network([SIZES[v] for v in kept], seed=5, **with_size(settings, 2)), old, kept)
    views, observed = data(SIZES)
    observed[:, gone] = False
    observed[:, kept[0]] |= ~observed.any(1)
    before, after = old.posterior(views, observed), fewer.posterior([views[v] for v in kept], observed[:, kept])
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.variance, before.variance)
    torch.testing.assert_close(fewer.assign(after.mean), old.assign(before.mean))
    again = take_over(network([SIZES[kept[0]]], seed=6, **with_size(settings, 1)), fewer, [0])
    alone = observed.clone()
    alone[:] = False
    alone[:, kept[0]] = True
    first, last = old.posterior(views, alone), again.posterior([views[kept[0]]], alone[:, [kept[0]]])
    torch.testing.assert_close(last.variance, first.variance)


@pytest.mark.parametrize("sizes", [SIZES, (8, 8, 8)])
@pytest.mark.parametrize("correlation", [True, False])
@pytest.mark.parametrize("n_factors", [0, 2])
def test_the_parts_of_the_last_view_are_all_that_it_needs_and_nothing_of_the_others(sizes, correlation, n_factors):
    grown = network(sizes, n_factors=n_factors)
    parts = parts_of_last_view(grown, correlation=correlation)
    views, observed = data(sizes)
    before = [part.clone() for part in grown.encode(views, observed)]
    matrix = grown.correlation()
    with torch.no_grad():
        for name, mask in parts.items():
            parameter = grown.get_parameter(name)
            parameter.add_(torch.ones_like(parameter) if mask is None else mask.expand_as(parameter).float())
    for ours, theirs in zip(grown.encode(views, observed), before, strict=True):
        assert torch.equal(ours[:, :2][observed[:, :2]], theirs[:, :2][observed[:, :2]])
        assert not torch.isclose(ours[:, 2][observed[:, 2]], theirs[:, 2][observed[:, 2]]).all()
    assert torch.equal(grown.correlation()[:2, :2], matrix[:2, :2])
    assert torch.equal(grown.correlation()[2], matrix[2]) != correlation
