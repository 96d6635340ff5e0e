import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from acova.functional import (
    Fused,
    alignment,
    constant_correlation,
    correlation_matrix,
    fuse,
    fuse_constant,
    mixture_of_experts,
    product_of_experts,
    weighted_average,
)

FORMS = ["precision", "marginal"]
RULES = [
    fuse,
    lambda *a: fuse(*a, random_correlation(a[0].shape[-2]), "precision"),
    lambda *a: fuse(*a, random_correlation(a[0].shape[-2]), "marginal"),
    lambda *a: fuse_constant(*a, 0.4),
    product_of_experts,
    mixture_of_experts,
    lambda *a: weighted_average(*a, torch.linspace(-1, 1, a[0].shape[-2], dtype=torch.float64)),
]
IDS = ["fuse identity", "precision", "marginal", "constant", "product", "mixture", "weighted"]


def random_correlation(n_views: int, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return correlation_matrix(torch.randn(n_views * (n_views + 1) // 2, dtype=torch.float64, generator=generator))


def estimates(n_samples=12, n_views=4, dim=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(n_samples, n_views, dim, dtype=torch.float64, generator=generator)
    std = 0.2 + torch.rand(n_samples, n_views, dim, dtype=torch.float64, generator=generator)
    observed = torch.rand(n_samples, n_views, generator=generator) < 0.6
    observed[torch.arange(n_samples), torch.arange(n_samples) % n_views] = True
    observed[0] = True
    return mean, std, observed


def slow_fuse(mean, std, observed, correlation, missing) -> Fused:
    """One covariance per sample and dimension, inverted by numpy: the definition."""
    n_samples, n_views, dim = mean.shape
    out_mean, out_variance = np.zeros((n_samples, dim)), np.zeros((n_samples, dim))
    weights = np.zeros((n_samples, n_views, dim))
    for i in range(n_samples):
        seen = observed[i].numpy()
        for d in range(dim):
            scale = np.diag(std[i, :, d].numpy())
            covariance = scale @ correlation.numpy() @ scale
            if missing == "precision":
                precision = np.linalg.inv(covariance)[np.ix_(seen, seen)]
            else:
                precision = np.linalg.inv(covariance[np.ix_(seen, seen)])
            total = precision.sum()
            share = precision.sum(axis=0) / total
            weights[i, seen, d] = share
            out_mean[i, d] = share @ mean[i, seen, d].numpy()
            out_variance[i, d] = 1 / total
    return Fused(*(torch.from_numpy(part) for part in (out_mean, out_variance, weights)))


def assert_same(ours: Fused, theirs: Fused, **tolerance):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


class TestPaperExample:
    mean = torch.tensor([[4.0], [8.0]], dtype=torch.float64)
    std = torch.tensor([[3.0], [1.0]], dtype=torch.float64).sqrt()
    both = torch.tensor([True, True])
    first = torch.tensor([True, False])
    correlation = constant_correlation(2, 0.55)

    def test_correlated(self):
        fused = fuse(self.mean, self.std, self.both, self.correlation)
        assert fused.weights.squeeze().tolist() == pytest.approx([0.0226, 0.9774], abs=5e-5)
        assert fused.variance.item() == pytest.approx(0.9989, abs=5e-5)
        assert fused.mean.item() == pytest.approx(0.0226 * 4 + 0.9774 * 8, abs=1e-3)

    @pytest.mark.parametrize(("missing", "variance"), [("precision", 2.0925), ("marginal", 3.0)])
    def test_one_view_alone(self, missing, variance):
        fused = fuse(self.mean, self.std, self.first, self.correlation, missing)
        assert fused.variance.item() == pytest.approx(variance, abs=5e-5)
        assert fused.mean.item() == pytest.approx(4.0)

    @pytest.mark.parametrize(("missing", "variance"), [("precision", 0.6975), ("marginal", 1.0)])
    def test_without_the_worse_view_the_precision_form_is_surer_than_with_both(self, missing, variance):
        fused = fuse(self.mean, self.std, ~self.first, self.correlation, missing)
        assert fused.variance.item() == pytest.approx(variance, abs=5e-5)
        both = fuse(self.mean, self.std, self.both, self.correlation, missing).variance
        assert (fused.variance < both).item() == (missing == "precision")

    def test_product_of_experts(self):
        fused = product_of_experts(self.mean, self.std, self.both)
        assert fused.weights.squeeze().tolist() == pytest.approx([0.25, 0.75])
        assert fused.variance.item() == pytest.approx(0.75)


@pytest.mark.parametrize("missing", FORMS)
def test_matches_inverting_every_covariance(missing):
    mean, std, observed = estimates()
    correlation = random_correlation(4)
    expected = slow_fuse(mean, std, observed, correlation, missing)
    assert_same(fuse(mean, std, observed, correlation, missing), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("missing", FORMS)
def test_identity_correlation_is_the_product_of_experts(missing):
    mean, std, observed = estimates()
    expected = product_of_experts(mean, std, observed)
    assert_same(fuse(mean, std, observed, torch.eye(4, dtype=torch.float64), missing), expected, rtol=1e-12, atol=1e-12)
    assert_same(fuse(mean, std, observed), expected, rtol=0, atol=0)


@pytest.mark.parametrize("rho", [-0.25, 0.1, 0.55, 0.9])
def test_constant_correlation_has_the_closed_form(rho):
    mean, std, observed = estimates()
    w = torch.where(observed.unsqueeze(-1), 1 / std, 0.0)
    count = observed.sum(-1, keepdim=True).double()
    shrink = rho / (1 + (count - 1) * rho)
    precision = (w.square().sum(1) - shrink * w.sum(1).square()) / (1 - rho)
    moment = ((w.square() * mean).sum(1) - shrink * w.sum(1) * (w * mean).sum(1)) / (1 - rho)
    fused = fuse(mean, std, observed, constant_correlation(4, rho), "marginal")
    torch.testing.assert_close(fused.variance, 1 / precision)
    torch.testing.assert_close(fused.mean, moment / precision)
    assert_same(fuse_constant(mean, std, observed, rho), fused)


def test_a_constant_of_zero_is_the_product_and_near_one_the_better_view_wins():
    mean, std, observed = estimates()
    assert_same(fuse_constant(mean, std, observed, 0.0), product_of_experts(mean, std, observed))
    equal = fuse_constant(mean, torch.full_like(std, 0.7), observed, 1 - 1e-9)
    torch.testing.assert_close(equal.variance, torch.full_like(equal.variance, 0.49))
    two, stds = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[1.0], [2.0]]).double()
    for rho, sign in ((0.4, 1), (0.6, -1)):  # the worse view's weight turns negative at ρ = 1/2, the ratio of the stds
        weights = fuse_constant(two, stds, torch.tensor([True, True]), rho).weights
        assert weights[1].sign() == sign


def test_both_forms_agree_on_complete_rows_and_precision_never_claims_less():
    mean, std, observed = estimates(n_samples=60)
    correlation = random_correlation(4)
    masked, exact = (fuse(mean, std, observed, correlation, form) for form in FORMS)
    complete = observed.all(-1)
    assert complete.any()
    assert not complete.all()
    torch.testing.assert_close(masked.mean[complete], exact.mean[complete])
    torch.testing.assert_close(masked.variance[complete], exact.variance[complete])
    assert (masked.variance <= exact.variance * (1 + 1e-9)).all()


@given(st.integers(2, 6), st.integers(0, 10_000), st.data())
def test_removing_a_view_never_adds_certainty_in_the_marginal_form(n_views, seed, data):
    mean, std, _ = estimates(n_samples=1, n_views=n_views, seed=seed)
    correlation = random_correlation(n_views, seed)
    before = torch.tensor([data.draw(st.booleans()) for _ in range(n_views)])
    before[data.draw(st.integers(0, n_views - 1))] = True
    if before.sum() < 2:
        before[:] = True
    after = before.clone()
    after[data.draw(st.sampled_from(before.nonzero().squeeze(-1).tolist()))] = False
    wide, narrow = (fuse(mean, std, seen.expand(1, -1), correlation, "marginal") for seen in (before, after))
    assert (narrow.variance >= wide.variance * (1 - 1e-9)).all()


@pytest.mark.parametrize("n_views", [2, 3, 6])
@pytest.mark.parametrize("excess", [-0.02, 0.02])
def test_the_precision_form_gains_certainty_without_a_view_once_rho_exceeds_one_over_v(n_views, excess):
    """A documented fact about the paper's rule, at equal variances."""
    correlation = constant_correlation(n_views, 1 / n_views + excess)
    ones = torch.ones(n_views, 1, dtype=torch.float64)
    all_seen = torch.ones(n_views, dtype=torch.bool)
    one_less = all_seen.clone()
    one_less[0] = False
    gained = fuse(ones, ones, one_less, correlation).variance < fuse(ones, ones, all_seen, correlation).variance
    assert gained.item() == (excess > 0)


@pytest.mark.parametrize("n_views", [2, 3, 6])
@pytest.mark.parametrize("excess", [-0.02, 0.02])
def test_in_the_precision_form_one_view_claims_more_than_all_of_them_once_rho_exceeds_one_half(n_views, excess):
    """The same at its end: equal variances, one view against all."""
    correlation = constant_correlation(n_views, 0.5 + excess)
    ones = torch.ones(n_views, 1, dtype=torch.float64)
    all_seen = torch.ones(n_views, dtype=torch.bool)
    alone = torch.arange(n_views) == 0
    surer = fuse(ones, ones, alone, correlation).variance < fuse(ones, ones, all_seen, correlation).variance
    assert surer.item() == (excess > 0)


@pytest.mark.parametrize("rho", [-0.5, 0.3, 0.9])
def test_a_view_alone_costs_alignment_in_the_precision_form_only(rho):
    """So rows of one view push the learned correlation towards 0 there, whatever the data."""
    mean, std = torch.tensor([[[0.7], [0.0]]], dtype=torch.float64), torch.tensor([[[1.6], [1.0]]], dtype=torch.float64)
    alone = torch.tensor([[True, False]])
    costs = [
        alignment(fuse(mean, std, alone, constant_correlation(2, rho), form), mean, std, alone).item() for form in FORMS
    ]
    expected = {"precision": (-math.log(1 - rho**2) - rho**2) / 2, "marginal": 0.0}
    assert costs == pytest.approx([expected[form] for form in FORMS])


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_weights_sum_to_one_give_the_mean_and_vanish_where_hidden(rule):
    mean, std, observed = estimates()
    fused = rule(mean, std, observed)
    torch.testing.assert_close(fused.weights.sum(-2), torch.ones_like(fused.mean))
    torch.testing.assert_close((fused.weights * mean).sum(-2), fused.mean)
    assert (fused.weights[~observed] == 0).all()


@pytest.mark.parametrize("rule", RULES, ids=IDS)
@pytest.mark.parametrize("junk", [math.nan, 1e6, math.inf])
def test_hidden_entries_touch_neither_value_nor_gradient(rule, junk):
    mean, std, observed = estimates()
    results = []
    for filler in (1.0, junk):
        inputs = [torch.where(observed.unsqueeze(-1), part, filler).requires_grad_() for part in (mean, std)]
        fused = rule(*inputs, observed)
        (fused.mean.sum() + fused.variance.log().sum()).backward()
        results.append([*(part.detach() for part in fused), *(part.grad for part in inputs)])
    for clean, dirty in zip(*results, strict=True):
        assert torch.equal(clean, dirty)
    assert (results[1][-1][~observed] == 0).all()
    assert (results[1][-2][~observed] == 0).all()


@pytest.mark.parametrize("rule", RULES[:6], ids=IDS[:6])
def test_gradients_match_finite_differences(rule):
    mean, std, observed = estimates(n_samples=3, n_views=3, dim=2)
    function = lambda m, s: tuple(rule(m, s, observed))  # noqa: E731
    assert torch.autograd.gradcheck(function, (mean.requires_grad_(), std.requires_grad_()))


@pytest.mark.parametrize("missing", FORMS)
def test_the_gradient_reaches_the_correlation_parameter(missing):
    mean, std, observed = estimates(n_samples=4, n_views=3, dim=2)
    parameter = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    function = lambda p: tuple(fuse(mean, std, observed, correlation_matrix(p), missing))  # noqa: E731
    assert torch.autograd.gradcheck(function, (parameter,))


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_view_alone_is_itself_except_in_the_precision_form(rule):
    mean, std, _ = estimates()
    alone = torch.zeros(12, 4, dtype=torch.bool)
    alone[:, 2] = True
    fused = rule(mean, std, alone)
    torch.testing.assert_close(fused.mean, mean[:, 2])
    if rule is not RULES[1]:
        torch.testing.assert_close(fused.variance, std[:, 2].square())


@pytest.mark.parametrize("rule", RULES[:6], ids=IDS[:6])
def test_permuting_the_views_permutes_the_weights(rule):
    mean, std, observed = estimates()
    order = torch.tensor([2, 0, 3, 1])
    if rule in RULES[1:3]:
        matrix, form = random_correlation(4), FORMS[RULES.index(rule) - 1]
        plain = fuse(mean, std, observed, matrix, form)
        turned = fuse(mean[:, order], std[:, order], observed[:, order], matrix[order][:, order], form)
    else:
        plain = rule(mean, std, observed)
        turned = rule(mean[:, order], std[:, order], observed[:, order])
    torch.testing.assert_close(turned.mean, plain.mean)
    torch.testing.assert_close(turned.variance, plain.variance)
    torch.testing.assert_close(turned.weights, plain.weights[:, order])


def test_mixture_moments_match_a_sampled_mixture():
    mean, std, observed = estimates(n_samples=3)
    fused = mixture_of_experts(mean, std, observed)
    rng = np.random.default_rng(0)
    for i in range(3):
        picks = rng.choice(np.flatnonzero(observed[i]), size=200_000)
        draws = rng.normal(mean[i, picks].numpy(), std[i, picks].numpy())
        np.testing.assert_allclose(fused.mean[i], draws.mean(0), atol=0.02)
        np.testing.assert_allclose(fused.variance[i], draws.var(0), rtol=0.02)


def test_the_three_averages_differ_as_they_should():
    mean, std = torch.tensor([[[0.0], [2.0]]]), torch.ones(1, 2, 1)
    observed = torch.ones(1, 2, dtype=torch.bool)
    variances = [rule(mean, std, observed).variance.item() for rule in (product_of_experts, mixture_of_experts)]
    assert [*variances, weighted_average(mean, std, observed).variance.item()] == pytest.approx([0.5, 2.0, 1.0])


def test_weighted_average_renormalises_over_observed_views():
    mean, std, observed = estimates()
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64)
    share = torch.where(observed, logits.softmax(-1), 0.0)
    share = (share / share.sum(-1, keepdim=True)).unsqueeze(-1)
    fused = weighted_average(mean, std, observed, logits)
    torch.testing.assert_close(fused.mean, (share * mean).sum(1))
    torch.testing.assert_close(fused.variance, (share * std.square()).sum(1))
    one_hot = torch.tensor([-1e4, 1e4, -1e4, -1e4], dtype=torch.float64)
    torch.testing.assert_close(weighted_average(mean, std, torch.ones_like(observed), one_hot).mean, mean[:, 1])


def test_the_gradient_of_the_shared_logits_sums_to_zero():
    mean, std, observed = estimates()
    logits = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    weighted_average(mean, std, observed, logits).mean.sum().backward()
    assert logits.grad.sum().item() == pytest.approx(0, abs=1e-12)
    assert logits.grad.abs().max() > 1e-3


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_row_without_views_is_marked_and_harmless(rule):
    mean, std, observed = estimates()
    observed[3] = False
    fused = rule(mean.requires_grad_(), std, observed)
    assert torch.isinf(fused.variance[3]).all()
    assert (fused.mean[3] == 0).all()
    fused.mean.sum().backward()
    assert torch.isfinite(mean.grad).all()


@pytest.mark.parametrize("missing", FORMS)
def test_float32_stays_accurate_when_views_are_almost_duplicates(missing):
    mean, std, observed = estimates(n_views=6)
    correlation = constant_correlation(6, 0.9999)
    exact = fuse(mean, std, observed, correlation, missing)
    single = fuse(mean.float(), std.float(), observed, correlation, missing)
    assert single.mean.dtype == torch.float32
    torch.testing.assert_close(single.variance.double(), exact.variance, rtol=1e-3, atol=0)
    assert (single.variance > 0).all()


@pytest.mark.parametrize("missing", FORMS)
def test_memory_never_grows_with_samples_times_dimensions_times_views_squared(missing):
    n_samples, n_views, dim = 64, 16, 40
    mean, std, observed = estimates(n_samples, n_views, dim)
    forbidden = n_samples * dim * n_views * n_views
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            sizes.extend(t.numel() for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor))
            return out

    with Watch():
        fuse(mean, std, observed, random_correlation(n_views), missing)
    assert max(sizes) < forbidden


def test_leading_axes_are_free():
    mean, std, observed = estimates()
    correlation = random_correlation(4)
    for form in FORMS:
        flat = fuse(mean, std, observed, correlation, form)
        deep = fuse(mean.view(3, 4, 4, 3), std.view(3, 4, 4, 3), observed.view(3, 4, 4), correlation, form)
        torch.testing.assert_close(deep.mean.view_as(flat.mean), flat.mean)
        torch.testing.assert_close(deep.variance.view_as(flat.variance), flat.variance)


def test_an_unknown_form_is_refused():
    mean, std, observed = estimates()
    with pytest.raises(ValueError, match=r"'precision' or 'marginal'; got 'exact'"):
        fuse(mean, std, observed, None, "exact")


@pytest.mark.parametrize("missing", FORMS)
def test_a_matrix_that_is_no_correlation_gives_nan_not_nonsense(missing):
    mean, std, _ = estimates()
    everything = torch.ones(12, 4, dtype=torch.bool)
    fused = fuse(mean, std, everything, constant_correlation(4, -0.9), missing)
    assert torch.isnan(fused.mean).all()
