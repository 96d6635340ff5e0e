import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from acova.functional import (
    constant_correlation,
    correlation_matrix,
    correlation_parameter,
    distance_to_identity,
    fuse,
    low_rank_correlation,
    low_rank_loadings,
    remaining_correlation,
    remaining_loadings,
)


def parameters(n_views: int, *, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    entries = n_views * (n_views + 1) // 2
    return scale * torch.randn(entries, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow_correlation(parameter: torch.Tensor, n_views: int) -> list[list[float]]:
    """The paper's definition, number by number."""
    numbers = iter(parameter.tolist())
    factor = [[0.0] * n_views for _ in range(n_views)]
    for i in range(n_views):
        for j in range(i + 1):
            value = next(numbers)
            factor[i][j] = math.exp(value) if i == j else value
    product = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in factor] for x in factor]
    return [[product[i][j] / math.sqrt(product[i][i] * product[j][j]) for j in range(n_views)] for i in range(n_views)]


@pytest.mark.parametrize(("n_views", "entries"), [(1, 1), (2, 3), (3, 6), (6, 21)])
def test_matches_the_definition_written_out(n_views, entries):
    parameter = parameters(n_views)
    assert parameter.numel() == entries
    expected = torch.tensor(slow_correlation(parameter, n_views), dtype=torch.float64)
    torch.testing.assert_close(correlation_matrix(parameter), expected, rtol=1e-13, atol=1e-14)


@given(st.integers(2, 7), st.integers(0, 10_000), st.floats(0.1, 3.0))
def test_is_a_correlation_matrix_for_every_parameter(n_views, seed, scale):
    matrix = correlation_matrix(parameters(n_views, seed=seed, scale=scale))
    torch.testing.assert_close(matrix.diagonal(), torch.ones(n_views, dtype=torch.float64))
    torch.testing.assert_close(matrix, matrix.mT, rtol=0, atol=1e-15)  # some processors sum the halves in another order
    assert matrix.abs().max() <= 1 + 1e-12
    assert torch.linalg.eigvalsh(matrix).min() > -1e-12
    assert 0 <= distance_to_identity(matrix) <= math.sqrt(n_views * (n_views - 1)) + 1e-9


def test_extreme_parameters_stay_finite_with_finite_gradients():
    parameter = torch.tensor([500.0, 1e6, -800.0, 3.0, -1e4, 900.0], requires_grad=True)
    matrix = correlation_matrix(parameter)
    matrix.sum().backward()
    assert torch.isfinite(matrix).all()
    assert torch.isfinite(parameter.grad).all()


def test_the_stabilised_form_has_the_gradient_of_the_plain_one():
    assert torch.autograd.gradcheck(correlation_matrix, parameters(4, scale=2.0).requires_grad_())


def test_maps_a_batch_of_parameters():
    batch = torch.stack([parameters(3, seed=s) for s in range(5)])
    expected = torch.stack([correlation_matrix(row) for row in batch])
    torch.testing.assert_close(correlation_matrix(batch), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "start",
    [
        torch.eye(5, dtype=torch.float64),
        constant_correlation(5, 0.55),
        constant_correlation(5, -0.2),
        correlation_matrix(parameters(5).abs()),
        torch.corrcoef(torch.randn(5, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))),
    ],
    ids=["identity", "constant", "negative constant", "random positive", "similarity"],
)
def test_a_start_from_a_given_matrix_is_exact(start):
    torch.testing.assert_close(correlation_matrix(correlation_parameter(start)), start, rtol=0, atol=1e-14)


@given(st.integers(2, 6), st.integers(0, 1000))
def test_scaling_a_row_of_the_factor_changes_nothing(n_views, seed):
    parameter = parameters(n_views, seed=seed)
    rows, columns = torch.tril_indices(n_views, n_views)
    factor = torch.linspace(0.1, 4.0, n_views, dtype=torch.float64)[rows]
    scaled = torch.where(rows == columns, parameter + factor.log(), parameter * factor)
    torch.testing.assert_close(correlation_matrix(scaled), correlation_matrix(parameter), rtol=1e-10, atol=1e-12)


def test_equal_correlations_do_not_make_equal_factors():
    """The paper's appendix concludes L = L' from R = R'. Doubling the first row of L is a counter-example."""
    factor = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    other = torch.tensor([[2.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    matrices = [correlation_matrix(torch.stack([L[0, 0].log(), L[1, 0], L[1, 1].log()])) for L in (factor, other)]
    torch.testing.assert_close(matrices[0], constant_correlation(2, 1 / math.sqrt(2)))
    torch.testing.assert_close(matrices[1], matrices[0])
    assert (factor @ factor.mT).tolist() == [[1, 1], [1, 2]]
    assert (other @ other.mT).tolist() == [[4, 2], [2, 2]]


def test_constant_correlation_has_the_constant_off_the_diagonal():
    expected = torch.tensor([[1, 0.3, 0.3], [0.3, 1, 0.3], [0.3, 0.3, 1]], dtype=torch.float64)
    torch.testing.assert_close(constant_correlation(3, 0.3), expected)


def test_distance_to_identity_is_the_frobenius_norm_and_bounded():
    matrix = correlation_matrix(parameters(5))
    expected = torch.linalg.matrix_norm(matrix - torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(distance_to_identity(matrix), expected)
    assert distance_to_identity(torch.ones(4, 4)).item() == pytest.approx(math.sqrt(12))


def test_a_parameter_of_impossible_length_is_refused():
    with pytest.raises(ValueError, match=r"V\(V\+1\)/2 entries .* got 4"):
        correlation_matrix(torch.zeros(4))


@pytest.mark.parametrize("missing", ["marginal", "precision"])
def test_what_remains_of_a_correlation_fuses_as_before(missing):
    generator = torch.Generator().manual_seed(0)
    matrix = correlation_matrix(torch.randn(10, generator=generator, dtype=torch.float64))
    mean, spread = torch.randn(2, 30, 4, 3, generator=generator, dtype=torch.float64).unbind()
    std, observed = spread.abs() + 0.2, torch.rand(30, 4, generator=generator) < 0.7
    kept = [0, 1, 3]
    observed[:, 2] = False
    observed[:, 0] |= ~observed.any(1)
    remaining, factors = remaining_correlation(matrix, kept, missing)
    torch.testing.assert_close(remaining.diagonal(), torch.ones(3, dtype=torch.float64))
    found = fuse(mean[:, kept], std[:, kept] * factors[:, None], observed[:, kept], remaining, missing)
    for ours, theirs in zip(found[:2], fuse(mean, std, observed, matrix, missing)[:2], strict=True):
        torch.testing.assert_close(ours, theirs)
    full = matrix.numpy()
    if missing == "marginal":
        np.testing.assert_array_equal(remaining.numpy(), full[np.ix_(kept, kept)])
    else:  # the covariance of the errors given that of the view that is gone
        given = full[np.ix_(kept, kept)] - np.outer(full[kept, 2], full[2, kept])
        np.testing.assert_allclose(factors.numpy(), np.sqrt(np.diag(given)))
        np.testing.assert_allclose(remaining * factors[:, None] * factors, given)


def test_low_rank_loadings_are_the_inverse_of_the_low_rank_correlation():
    loadings = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = low_rank_correlation(loadings)
    for slow, of_one in zip(matrix, loadings, strict=True):  # covariance of factors and own errors, scaled
        covariance = of_one @ of_one.mT + torch.eye(30, dtype=torch.float64)
        scale = covariance.diagonal().sqrt()
        torch.testing.assert_close(slow, covariance / scale / scale[:, None])
    again = low_rank_correlation(low_rank_loadings(matrix, 3))
    torch.testing.assert_close(again, matrix, atol=0.02, rtol=0)
    assert low_rank_loadings(matrix[:, :2, :2], 3).shape == (2, 2, 3)
    assert torch.autograd.gradcheck(low_rank_correlation, loadings[:, :4].clone().requires_grad_())


def test_the_dense_and_the_low_rank_parameter_reach_the_same_matrix():
    truth = low_rank_correlation(torch.tensor([[1.5], [1.0], [-0.8], [0.5], [0.0]], dtype=torch.float64))
    found = []
    starts = [torch.zeros(15, dtype=torch.float64), torch.full((5, 1), 0.1, dtype=torch.float64)]
    for of_parameter, parameter in zip((correlation_matrix, low_rank_correlation), starts, strict=True):
        parameter.requires_grad_()
        optimiser = torch.optim.LBFGS([parameter], max_iter=100, line_search_fn="strong_wolfe")

        def closure(of_parameter=of_parameter, parameter=parameter, optimiser=optimiser):
            optimiser.zero_grad()
            matrix = of_parameter(parameter)  # minus twice the expected log density of errors with the true matrix
            value = torch.linalg.solve(matrix, truth).trace() + torch.linalg.slogdet(matrix)[1]
            value.backward()
            return value

        optimiser.step(closure)
        found.append(of_parameter(parameter).detach())
    torch.testing.assert_close(found[0], truth, atol=1e-3, rtol=0)
    torch.testing.assert_close(found[1], truth, atol=1e-3, rtol=0)


@pytest.mark.parametrize("missing", ["marginal", "precision"])
def test_what_remains_of_a_low_rank_correlation_is_of_low_rank(missing):
    loadings = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    kept = [0, 2, 3, 5]
    expected, _ = remaining_correlation(low_rank_correlation(loadings), kept, missing)
    torch.testing.assert_close(low_rank_correlation(remaining_loadings(loadings, kept, missing)), expected)
