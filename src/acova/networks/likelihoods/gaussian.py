"""Normal features: of one fixed variance, or each of its own."""

import math

import numpy as np
import torch
from torch import Tensor

from acova.functional import reconstruction
from acova.networks.likelihoods.base import TINY, Likelihood, Numbers, as_free, bounded

_WIDEST = 7.0
"""Log variances of scaled features lie between minus this and this."""


def normal_quantile(level: Tensor) -> Tensor:
    """Return the quantile of the standard normal distribution."""
    quantile: Tensor = torch.special.ndtri(level)
    return quantile


class Gaussian(Likelihood):
    """Normal features of variance 1/2, so that the error is the squared error, as in the paper."""

    name = "gaussian"

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the squared error."""
        return (output - target).square()

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the constant of a normal density of variance 1/2."""
        return torch.full_like(target, -0.5 * math.log(math.pi))

    def reconstruction(self, target: Tensor, output: Tensor, observed: Tensor) -> Tensor:
        """Return the sum by the library's own gradient where whole rows are observed."""
        if observed.ndim == target.ndim:
            return super().reconstruction(target, output, observed)
        return reconstruction(target, output, observed, self.name)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the output."""
        return output

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the normal distribution."""
        return output + math.sqrt(0.5) * normal_quantile(level)

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return the total variance."""
        return float(variance.sum())


class LearnedGaussian(Likelihood):
    """Normal features, each of a variance of its own."""

    name = "gaussian_learned"
    starts = has_spread = True

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Start from the variances of the training rows."""
        self.spread.copy_(as_free(np.log(np.maximum(variance, TINY)), _WIDEST))

    @property
    def log_variance(self) -> Tensor:
        """The logarithm of each feature's variance, (P,)."""
        return bounded(self.spread, _WIDEST)

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return half the squared error in units of the variance."""
        return 0.5 * (output - target).square() * (-self.log_variance).exp()

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the constant of a normal density."""
        return (-0.5 * (math.log(2 * math.pi) + self.log_variance)).expand_as(target)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the output."""
        return output

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the normal distribution."""
        return output + (0.5 * self.log_variance).exp() * normal_quantile(level)
