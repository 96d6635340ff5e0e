"""A Gaussian mixture as prior of the latent vector: its components are the clusters.

Weights enter as logarithms that already sum to one (`torch.log_softmax` of free logits), scales through
`mixture_scale`, so both constraints hold by construction.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from acova.functional.gaussian import kl_diagonal, log_density

NEVER = -1e4
"""Logarithm of what is no probability at all; finite, so that it times zero is zero."""


def mixture_scale(parameter: Tensor, floor: float = 1e-3) -> Tensor:
    """Map a free parameter to standard deviations above `floor`: ``floor + softplus(parameter)``."""
    return floor + softplus(parameter)


def mixture_scale_parameter(scale: Tensor, floor: float = 1e-3) -> Tensor:
    """Return the parameter that `mixture_scale` maps to `scale` (or, at or below the floor, just above it)."""
    above = (scale - floor).clamp(min=floor * 1e-3)
    return above + torch.log(-torch.expm1(-above))


def log_joint(latent: Tensor, log_weights: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """Return log π_k + log N(z; μ_k, σ_k²) for every component.

    Parameters
    ----------
    latent : Tensor of shape (..., D)
    log_weights : Tensor of shape (K,)
    means, variances : Tensor of shape (K, D)

    Returns
    -------
    Tensor of shape (..., K)
    """
    return log_weights + log_density(latent.unsqueeze(-2), means, variances)


def log_responsibilities(
    latent: Tensor, log_weights: Tensor, means: Tensor, variances: Tensor, floor: float = 0.0
) -> Tensor:
    """Return the exact log q(c = k | z), by Bayes' rule, for every component.

    Parameters
    ----------
    latent : Tensor of shape (..., D)
    log_weights : Tensor of shape (K,)
    means, variances : Tensor of shape (K, D)
    floor : float
        Added to every joint density π_k N(z; μ_k, σ_k²), as published programs do: far from all components the
        responsibilities then become equal.

    Returns
    -------
    Tensor of shape (..., K)
    """
    joint = log_joint(latent, log_weights, means, variances)
    if floor:
        joint = torch.logaddexp(joint, torch.full_like(joint, math.log(floor)))
    return torch.log_softmax(joint, dim=-1)


def distant_log_responsibilities(latent: Tensor, log_weights: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """Return the same as `log_responsibilities`, in float64, for latents however far from all components.

    Far away, densities are huge negative numbers whose differences drown in rounding. Here every component is compared
    with the first one before anything is squared, so what they share drops out exactly.

    Parameters
    ----------
    latent : Tensor of shape (..., D)
    log_weights : Tensor of shape (K,)
    means, variances : Tensor of shape (K, D)

    Returns
    -------
    Tensor of shape (..., K)
    """
    latent, log_weights, means, variances = (part.double() for part in (latent, log_weights, means, variances))
    precisions, ratios = variances.reciprocal(), means / variances
    constant = log_weights - 0.5 * (variances.log() + means.square() * precisions).sum(-1)
    joint = constant + latent @ (ratios - ratios[0]).mT - 0.5 * latent.square() @ (precisions - precisions[0]).mT
    return torch.log_softmax(joint, dim=-1)


def optimal_log_responsibilities(
    mean: Tensor, variance: Tensor, log_weights: Tensor, means: Tensor, variances: Tensor
) -> Tensor:
    """Return the log q(c = k) that minimise the divergence of (z, c) from the prior: log π_k - KL_k, normalised.

    With KL_k = KL(N(mean, variance) ‖ N(μ_k, σ_k²)), no draw of z is needed, and with these the two divergences of the
    objective, `expected_kl_to_components` and `kl_assignment`, add up to -log Σ_k π_k exp(-KL_k).

    Parameters
    ----------
    mean, variance : Tensor of shape (..., D)
    log_weights : Tensor of shape (K,)
    means, variances : Tensor of shape (K, D)

    Returns
    -------
    Tensor of shape (..., K)
    """
    divergences = kl_diagonal(mean.unsqueeze(-2), variance.unsqueeze(-2), means, variances)
    return torch.log_softmax(log_weights - divergences, dim=-1)


def known_log_responsibilities(log_resp: Tensor, labels: Tensor) -> Tensor:
    """Return log responsibilities in which samples of a known cluster have that one alone.

    Parameters
    ----------
    log_resp : Tensor of shape (..., K)
    labels : Tensor of int, shape (...)
        The cluster, or -1 where it is not known.

    Returns
    -------
    Tensor of shape (..., K)
        0 for the known cluster and `NEVER` for the others, whose exponential is zero, or what was given.
    """
    labels = labels.unsqueeze(-1)
    own = torch.arange(log_resp.shape[-1], device=labels.device) == labels
    return torch.where(labels < 0, log_resp, torch.zeros_like(log_resp).masked_fill(~own, NEVER))


def expected_kl_to_components(
    mean: Tensor, variance: Tensor, log_resp: Tensor, means: Tensor, variances: Tensor
) -> Tensor:
    """Return Σ_k q(c = k) KL(N(mean, variance) ‖ N(μ_k, σ_k²)).

    Parameters
    ----------
    mean, variance : Tensor of shape (..., D)
    log_resp : Tensor of shape (..., K)
        Logarithm of q(c = k).
    means, variances : Tensor of shape (K, D)

    Returns
    -------
    Tensor of shape (...)
    """
    divergences = kl_diagonal(mean.unsqueeze(-2), variance.unsqueeze(-2), means, variances)
    return (log_resp.exp() * divergences).sum(-1)


def kl_assignment(log_resp: Tensor, log_weights: Tensor) -> Tensor:
    """Return KL(q(c) ‖ π) for log responsibilities (..., K) and log weights (K,); shape (...)."""
    return (log_resp.exp() * (log_resp - log_weights)).sum(-1)
