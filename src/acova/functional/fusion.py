"""Rules that fuse the views' Gaussian estimates of one latent vector.

Every rule takes ``(mean, std, observed, …)`` and returns a `Fused`. With w = observed / std the fused
precision is wᵀ R⁻¹ w, so a V×V factor is all that is ever inverted. Sums over views run in float64 where
the device has it: reduced-precision matrix products (TF32, autocast) never touch them, forward or backward.

Whatever stands in the entries of a view that is not observed, NaN included, touches neither a value
nor a gradient. A row without any observed view comes back with mean 0, infinite variance and zero weights.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from acova import kernels

Missing = Literal["precision", "marginal"]
_MOST_VIEWS = 16


class Fused(NamedTuple):
    """One Gaussian per row, and how much each view counted in its mean."""

    mean: Tensor
    """(..., D) fused means."""
    variance: Tensor
    """(..., D) fused variances."""
    weights: Tensor
    """(..., V, D) with ``mean = (weights * view_means).sum(-2)``; they sum to 1 over the views, are 0
    for hidden views, and can be negative under correlation."""


def fuse(
    mean: Tensor,
    std: Tensor,
    observed: Tensor,
    correlation: Tensor | None = None,
    missing: Missing = "precision",
) -> Fused:
    """Fuse estimates whose errors are correlated across views.

    The errors of the V estimates of one latent coordinate have covariance ``diag(std) R diag(std)``.

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
        Each view's estimate and its standard deviation.
    observed : Tensor of bool, shape (..., V)
        True where the view is present.
    correlation : Tensor of shape (V, V) or (G, V, V), optional
        R; None means the identity, which is the product of experts. G matrices each rule one of G stretches of the
        latent dimensions, as equal in length as can be.
    missing : {"precision", "marginal"}
        What an absent view does. ``"precision"`` (the paper) inverts the full R and keeps the observed
        block of the inverse. ``"marginal"`` (exact) inverts the observed block of R. They agree on
        complete rows; on others ``"precision"`` claims at least as much certainty, and can claim more
        with a view removed than with it present (equal variances and constant ρ: once ρ > 1/V).

    Returns
    -------
    Fused
    """
    if missing not in ("precision", "marginal"):
        msg = f"fuse: missing must be 'precision' or 'marginal'; got {missing!r}."
        raise ValueError(msg)
    if correlation is None:
        return product_of_experts(mean, std, observed)
    if correlation.ndim > 2:
        return _fused_in_groups(mean, std, observed, correlation, missing)
    return fuse_whitened(mean, std, observed, whitener_of(correlation.to(_wide(mean)), observed, missing))


def fuse_whitened(mean: Tensor, std: Tensor, observed: Tensor, whitener: Tensor) -> Fused:
    """Fuse estimates by the `whitener_of` their errors: `fuse` without its first part, which needs no estimates.

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)
    whitener : Tensor of shape (V, V) or (..., V, V)

    Returns
    -------
    Fused
    """
    if _one_kernel(mean, whitener):
        from acova.kernels.fusion import FuseUnderOne

        return Fused(*FuseUnderOne.apply(mean, std, observed, whitener))  # type: ignore[no-untyped-call]
    centre, root_precision = _standardised(mean, std, observed)
    whitened = _across_views(whitener, root_precision)
    # A sum of squares: the fused precision cannot turn negative however R is conditioned.
    precision = whitened.square().sum(-2)
    return _fused(centre, root_precision * _across_views(whitener.mT, whitened), precision, mean)


def side_by_side(codes: Tensor, observed: Tensor) -> Fused:
    """Return codes (N, V, D) as points (N, V·D) without a spread; every view that a sample has counts the same."""
    points = codes.flatten(1)
    seen = observed.to(codes.dtype)
    share = seen / seen.sum(1, keepdim=True).clamp(min=1)
    return Fused(points, torch.zeros_like(points), share.unsqueeze(-1))


def _one_kernel(mean: Tensor, whitener: Tensor) -> bool:
    """Tell whether all rows are fused by one kernel, which holds every pair of views at once."""
    few = mean.ndim == 3 and whitener.ndim == 2 and len(whitener) <= _MOST_VIEWS
    return few and mean.dtype == torch.float32 and kernels.usable(mean)


def _fused_in_groups(mean: Tensor, std: Tensor, observed: Tensor, correlation: Tensor, missing: Missing) -> Fused:
    """Fuse stretches of the latent dimensions, each under its own matrix of (G, V, V)."""
    parts = zip(
        mean.tensor_split(len(correlation), dim=-1),
        std.tensor_split(len(correlation), dim=-1),
        correlation.unbind(0),
        strict=True,
    )
    fused = [fuse(some_mean, some_std, observed, matrix, missing) for some_mean, some_std, matrix in parts]
    return Fused(*(torch.cat(same, dim=-1) for same in zip(*fused, strict=True)))


def fuse_constant(mean: Tensor, std: Tensor, observed: Tensor, rho: Tensor | float) -> Fused:
    """Fuse estimates whose errors all have the same correlation, in closed form (CoDE).

    It is `fuse` with a constant correlation matrix in the marginal form, without any factorisation: for the n observed
    views with w = 1/std and their mean w̄, the precision is Σ(w - w̄)²/(1 - ρ) + (Σw)²/(n(1 + (n-1)ρ)).

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)
    rho : number, or Tensor of shape ()
        Between -1/(V-1) and 1, both excluded.

    Returns
    -------
    Fused
    """
    centre, root_precision = _standardised(mean, std, observed)
    count = observed.sum(-1)[..., None, None].to(root_precision.dtype)
    average = root_precision.sum(-2, keepdim=True) / count.clamp(min=1)
    common = average / (1 + (count - 1).clamp(min=0) * rho)
    apart = (root_precision - average).masked_fill(~observed.unsqueeze(-1), 0.0) / (1 - rho)
    # Both sums are of squares: the fused precision cannot turn negative.
    precision = (apart.square() * (1 - rho)).sum(-2) + (count * average * common).squeeze(-2)
    return _fused(centre, root_precision * (apart + common), precision, mean)


def product_of_experts(mean: Tensor, std: Tensor, observed: Tensor) -> Fused:
    """Fuse estimates with independent errors: precisions add up (DVIMC).

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)

    Returns
    -------
    Fused
    """
    centre, root_precision = _standardised(mean, std, observed)
    precisions = root_precision.square()
    return _fused(centre, precisions, precisions.sum(-2), mean)


def mixture_of_experts(mean: Tensor, std: Tensor, observed: Tensor) -> Fused:
    """Fuse by the mean and variance of an equal mixture of the observed estimates (moment matched).

    Disagreement between the views counts as variance.

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)

    Returns
    -------
    Fused
    """
    return _average(mean, std, observed, observed.to(mean.dtype), between=True)


def weighted_average(mean: Tensor, std: Tensor, observed: Tensor, logits: Tensor | None = None) -> Fused:
    """Fuse by one learned weight per view, renormalised over the observed views (DMVCVAE).

    The fused variance is the weighted average of the variances; disagreement between views is ignored.

    Parameters
    ----------
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)
    logits : Tensor of shape (V,), optional
        The weights are their softmax; None means equal weights.

    Returns
    -------
    Fused
    """
    if logits is None:
        logits = mean.new_zeros(observed.shape[-1])
    # Softmax over the observed views alone: the largest observed logit is subtracted first.
    visible = logits.expand(observed.shape).masked_fill(~observed, -torch.inf)
    largest = visible.amax(-1, keepdim=True).detach().clamp(min=torch.finfo(logits.dtype).min)
    return _average(mean, std, observed, torch.exp(visible - largest), between=False)


def _average(mean: Tensor, std: Tensor, observed: Tensor, shares: Tensor, *, between: bool) -> Fused:
    """Average means and variances with non-negative shares of shape (..., V), zero where hidden."""
    hidden = ~observed.unsqueeze(-1)
    centre = mean.masked_fill(hidden, 0.0).to(_wide(mean))
    variance = std.masked_fill(hidden, 0.0).to(centre.dtype).square()
    shares = shares.unsqueeze(-1).to(centre.dtype)
    total = shares.sum(-2, keepdim=True)
    weights = (shares / torch.where(total > 0, total, 1.0)).expand_as(centre)
    fused_mean = (weights * centre).sum(-2)
    spread = variance + (centre - fused_mean.unsqueeze(-2)).square() if between else variance
    fused_variance = torch.where(total.squeeze(-2) > 0, (weights * spread).sum(-2), torch.inf)
    return _narrow(Fused(fused_mean, fused_variance, weights), mean)


def _standardised(mean: Tensor, std: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Return (..., V, D) means and 1/std, both exactly 0 where hidden."""
    hidden = ~observed.unsqueeze(-1)
    wide = _wide(mean)
    centre = mean.masked_fill(hidden, 0.0).to(wide)
    return centre, std.masked_fill(hidden, 1.0).to(wide).reciprocal().masked_fill(hidden, 0.0)


def whitener_of(correlation: Tensor, observed: Tensor, missing: Missing) -> Tensor:
    """Return K with KᵀK = R⁻¹: (V, V), or (..., V, V) when each row keeps its own block of R."""
    if missing == "precision":
        return _inverse_factor(correlation)
    both = observed.unsqueeze(-1) & observed.unsqueeze(-2)
    hidden = torch.diag_embed((~observed).to(correlation.dtype))
    return _inverse_factor(torch.where(both, correlation, 0.0) + hidden)


def _inverse_factor(correlation: Tensor) -> Tensor:
    # The variant that reports failure as a number does not make the device wait for the host.
    factor, failed = torch.linalg.cholesky_ex(correlation)
    factor = factor.masked_fill((failed != 0)[..., None, None], torch.nan)
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    inverse: Tensor = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
    return inverse


def _across_views(matrix: Tensor, values: Tensor) -> Tensor:
    """Multiply (V, V), or (..., V, V), by (..., V, D): one large product where one matrix serves all rows."""
    if matrix.ndim > 2:
        return matrix @ values
    return (values.mT @ matrix.mT).mT


def _fused(centre: Tensor, shares: Tensor, precision: Tensor, like: Tensor) -> Fused:
    """Divide shares (..., V, D) by their sum, the fused precision (..., D)."""
    none = ~(precision > 0)
    variance = precision.masked_fill(none, 1.0).reciprocal()
    weights = shares * variance.unsqueeze(-2)
    variance = variance.masked_fill(none, torch.inf)
    return _narrow(Fused((weights * centre).sum(-2), variance, weights), like)


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _narrow(fused: Fused, like: Tensor) -> Fused:
    """Return the result in the caller's precision, but never below float32."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return Fused(*(part.to(dtype) for part in fused))
