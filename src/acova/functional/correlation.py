"""A free parameter for a correlation matrix, and back.

The parameter packs a lower triangle row by row: V(V+1)/2 numbers. Its diagonal is exponentiated and the
rows of the resulting factor L are normalised, so that R = LLᵀ has a unit diagonal and is positive
definite for every value of the parameter: there is nothing to repair after an optimiser step.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_TURNS = 50
"""Turns of estimating factors and communalities."""
_LEAST_OWN = 0.01
"""Least share of a view's error that is its own, in `low_rank_loadings`."""


def correlation_matrix(parameter: Tensor) -> Tensor:
    """Map a free parameter to a correlation matrix by a normalised Cholesky factor.

    Parameters
    ----------
    parameter : Tensor of shape (..., V(V+1)/2)
        The lower triangle of L row by row (as `torch.tril_indices` orders it), the logarithm of the
        diagonal in the diagonal's places.

    Returns
    -------
    Tensor of shape (..., V, V)
        R with R_ij = (LLᵀ)_ij / sqrt((LLᵀ)_ii (LLᵀ)_jj).
    """
    n_views = _n_views(parameter.shape[-1])
    column = torch.arange(n_views, device=parameter.device)
    row = column.unsqueeze(-1)
    triangle = parameter[..., row * (row + 1) // 2 + torch.minimum(row, column)]
    log_diagonal = triangle.diagonal(dim1=-2, dim2=-1)
    # R does not change when a row of L is scaled; dividing by a large diagonal keeps exp() finite.
    below = triangle.tril(-1) * torch.exp(-log_diagonal.clamp(min=0.0)).unsqueeze(-1)
    factor = below + torch.diag_embed(torch.exp(log_diagonal.clamp(max=0.0)))
    factor = factor / factor.norm(dim=-1, keepdim=True)
    matrix: Tensor = factor @ factor.mT
    return matrix


def correlation_parameter(correlation: Tensor) -> Tensor:
    """Return a parameter that `correlation_matrix` maps to the given matrix: its inverse.

    Many parameters give the same matrix (a row of L may be scaled); this one has unit rows.

    Parameters
    ----------
    correlation : Tensor of shape (..., V, V)
        Symmetric positive definite with a unit diagonal.

    Returns
    -------
    Tensor of shape (..., V(V+1)/2)
    """
    n_views = correlation.shape[-1]
    factor: Tensor = torch.linalg.cholesky(correlation)
    packed = factor.tril(-1) + torch.diag_embed(factor.diagonal(dim1=-2, dim2=-1).log())
    rows, columns = torch.tril_indices(n_views, n_views, device=correlation.device)
    return packed[..., rows, columns]


def constant_correlation(n_views: int, rho: float) -> Tensor:
    """Return the matrix with ones on the diagonal and `rho` elsewhere (CoDE's choice), in float64.

    It is positive definite for -1/(V-1) < rho < 1.

    Returns
    -------
    Tensor of shape (V, V)
    """
    matrix = torch.full((n_views, n_views), float(rho), dtype=torch.float64)
    return matrix.fill_diagonal_(1.0)


def distance_to_identity(correlation: Tensor) -> Tensor:
    """Return the Frobenius norm of R - I: 0 for independent views, at most sqrt(V(V-1)).

    Parameters
    ----------
    correlation : Tensor of shape (..., V, V)

    Returns
    -------
    Tensor of shape (...)
    """
    return correlation.tril(-1).square().sum((-2, -1)).mul(2.0).sqrt()


def low_rank_correlation(loadings: Tensor) -> Tensor:
    """Map loadings on common factors to a correlation matrix: low rank plus a diagonal.

    The error of view v is ``loadings[v] @ factors`` plus an error of its own, all of variance 1, and then scaled to
    variance 1. So the matrix is positive definite for every value of the V·F loadings.

    Parameters
    ----------
    loadings : Tensor of shape (..., V, F)

    Returns
    -------
    Tensor of shape (..., V, V)
        R with R_ij = λ_i·λ_j / sqrt((1 + |λ_i|²)(1 + |λ_j|²)) beside a diagonal of ones.
    """
    shares = loadings / (1 + loadings.square().sum(-1, keepdim=True)).sqrt()
    common = shares @ shares.mT
    own = 1 - shares.square().sum(-1)
    matrix: Tensor = common + torch.diag_embed(own)
    return matrix


def low_rank_loadings(correlation: Tensor, n_factors: int) -> Tensor:
    """Return loadings whose `low_rank_correlation` is close to a matrix: its principal factors.

    Communalities are estimated in turn with the factors. Of a matrix that is low rank plus a diagonal it is the
    inverse, up to a rotation of the factors.

    Parameters
    ----------
    correlation : Tensor of shape (..., V, V)
    n_factors : int

    Returns
    -------
    Tensor of shape (..., V, n_factors)
    """
    count = min(n_factors, correlation.shape[-1])
    own = 1 / torch.linalg.inv(correlation).diagonal(dim1=-2, dim2=-1)
    for _ in range(_TURNS):
        values, vectors = torch.linalg.eigh(correlation - torch.diag_embed(own))
        factors = vectors[..., -count:] * values[..., -count:].clamp(min=0).sqrt().unsqueeze(-2)
        own = (1 - factors.square().sum(-1)).clamp(min=_LEAST_OWN)
    loadings = factors / own.sqrt().unsqueeze(-1)
    return torch.nn.functional.pad(loadings, (0, n_factors - count))


def remaining_correlation(correlation: Tensor, kept: Sequence[int], missing: str) -> tuple[Tensor, Tensor]:
    """Return R of some of the views, and the factors of their errors' standard deviations, for good without the others.

    The fusion of samples that lack the other views is then what it was. In the ``"marginal"`` form the matrix is a
    block of R, and the factors are 1. In the ``"precision"`` form the block of R⁻¹ stays, so the errors have the
    covariance that is its inverse: that of the errors *given* those of the views that are gone. Its diagonal is at most
    1, and its roots are the factors.

    Parameters
    ----------
    correlation : Tensor of shape (..., V, V)
    kept : sequence of W int
    missing : {"precision", "marginal"}
        As for `fuse`.

    Returns
    -------
    matrix : Tensor of shape (..., W, W)
    factors : Tensor of shape (..., W)
    """

    def block(matrix: Tensor) -> Tensor:
        return matrix[..., list(kept), :][..., list(kept)]

    if missing == "marginal":
        matrix = block(correlation)
        return matrix, torch.ones_like(matrix.diagonal(dim1=-2, dim2=-1))
    covariance = torch.linalg.inv(block(torch.linalg.inv(correlation)))
    factors = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    matrix = covariance / (factors.unsqueeze(-1) * factors.unsqueeze(-2))
    return (matrix + matrix.mT) / 2, factors


def remaining_loadings(loadings: Tensor, kept: Sequence[int], missing: str) -> Tensor:
    """Return loadings of the matrix of `remaining_correlation`, which stays low rank plus a diagonal.

    In the ``"precision"`` form the factors have the covariance that is theirs given the errors of the views that are
    gone; its root goes into the loadings.

    Parameters
    ----------
    loadings : Tensor of shape (..., V, F)
    kept : sequence of W int
    missing : {"precision", "marginal"}

    Returns
    -------
    Tensor of shape (..., W, F)
    """
    rest = loadings[..., list(kept), :]
    if missing == "marginal":
        return rest
    gone = [v for v in range(loadings.shape[-2]) if v not in kept]
    lost = loadings[..., gone, :]
    identity = torch.eye(loadings.shape[-1], dtype=loadings.dtype, device=loadings.device)
    remaining: Tensor = rest @ torch.linalg.cholesky(torch.linalg.inv(identity + lost.mT @ lost))
    return remaining


def _n_views(entries: int) -> int:
    n_views = (math.isqrt(8 * entries + 1) - 1) // 2
    if n_views * (n_views + 1) // 2 != entries or not entries:
        msg = f"A correlation parameter has V(V+1)/2 entries (1, 3, 6, 10, …); got {entries}."
        raise ValueError(msg)
    return n_views
