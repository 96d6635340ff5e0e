"""Gaussians with a diagonal covariance."""

import math

import torch
from torch import Tensor

_LOG_2PI = math.log(2.0 * math.pi)


def log_density(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return log N(x; mean, variance), summed over the last axis.

    Parameters
    ----------
    x, mean, variance : Tensor of shape (..., D)
        Broadcast against each other.

    Returns
    -------
    Tensor of shape (...)
    """
    # Logarithms and reciprocals are taken before broadcasting: the large tensors see a few operations only.
    constant = (_LOG_2PI + variance.log()).sum(-1)
    return -0.5 * (constant + ((x - mean).square() * variance.reciprocal()).sum(-1))


def kl_diagonal(mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) ‖ N(other_mean, other_variance)), summed over the last axis.

    Parameters
    ----------
    mean, variance, other_mean, other_variance : Tensor of shape (..., D)
        Broadcast against each other.

    Returns
    -------
    Tensor of shape (...)
    """
    logs = (other_variance.log() - 1.0).sum(-1) - variance.log().sum(-1)
    return 0.5 * (logs + ((variance + (mean - other_mean).square()) * other_variance.reciprocal()).sum(-1))


def reparameterise(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """Turn standard normal noise into a draw from N(mean, variance): ``mean + sqrt(variance)·noise``."""
    return mean + torch.sqrt(variance) * noise
