"""The density of the views' estimates themselves: what tells how their errors are correlated when nothing else does."""

import math

import torch
from torch import Tensor

from acova.functional.fusion import Missing, whitener_of


def log_evidence(
    mean: Tensor, std: Tensor, observed: Tensor, correlation: Tensor, missing: Missing = "marginal"
) -> Tensor:
    """Return the log density of estimates of a standard normal vector, the vector integrated out.

    Each coordinate z of the vector is N(0, 1), and the V estimates of it are z plus errors with the covariance
    ``diag(std) R diag(std)``. The estimates of a row are then normal with the covariance 11ᵀ + diag(std) R diag(std),
    in which nothing but R is unknown: maximised over R it finds the errors' correlation without any target. That takes
    unbiased estimates and a vector of known scale; what all views err by in common is otherwise taken for the vector.

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)
    correlation : Tensor of shape (V, V)
    missing : {"marginal", "precision"}
        What an absent view does, as for `fuse`; in the precision form the masked precision of a row is normalised.

    Returns
    -------
    Tensor of shape (...)
    """
    wide = correlation.dtype
    hidden = ~observed.unsqueeze(-1)
    weights = std.masked_fill(hidden, 1.0).to(wide).reciprocal().masked_fill(hidden, 0.0)
    scaled = mean.masked_fill(hidden, 0.0).to(wide) * weights
    if missing == "precision" and not bool(observed.all()):
        both = observed.unsqueeze(-1) & observed.unsqueeze(-2)
        precision = torch.where(both, torch.linalg.inv(correlation), 0.0) + torch.diag_embed((~observed).to(wide))
        whitener = torch.linalg.cholesky(precision).mT
    else:
        complete = bool(observed.all())
        whitener = whitener_of(correlation, observed, "precision" if complete else "marginal")
    own, ones = whitener @ scaled, whitener @ weights
    certainty = 1 + ones.square().sum(-2)
    squares = own.square().sum(-2) - (own * ones).sum(-2).square() / certainty
    half_logdet = whitener.diagonal(dim1=-2, dim2=-1).log().sum(-1) * mean.shape[-1]
    of_scale = weights.masked_fill(hidden, 1.0).log().sum((-1, -2))
    constant = math.log(2 * math.pi) * observed.sum(-1) * mean.shape[-1]
    value: Tensor = half_logdet + of_scale - (squares + certainty.log()).sum(-1) / 2 - constant / 2
    return value
