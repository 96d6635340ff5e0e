"""Measurements with outliers."""

import math

import numpy as np
from scipy import stats
from scipy.special import digamma
from torch import Tensor

from acova.networks.likelihoods.base import TINY, Likelihood, Numbers, as_free, bounded, by_scipy

_FREEDOM = 4.0
"""Degrees of freedom."""
_WIDEST = 7.0
"""Log squared scales of scaled features lie between minus this and this."""


class StudentT(Likelihood):
    """Student's t distribution with 4 degrees of freedom; each feature has a scale of its own."""

    name = "student_t"
    starts = has_spread = True

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Start from the variances of the training rows."""
        square = variance * (_FREEDOM - 2) / _FREEDOM
        self.spread.copy_(as_free(np.log(np.maximum(square, TINY)), _WIDEST))

    @property
    def log_square(self) -> Tensor:
        """The logarithm of each feature's squared scale, (P,)."""
        return bounded(self.spread, _WIDEST)

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return what grows with the logarithm of the distance alone, far away."""
        squared = (output - target).square() * (-self.log_square).exp() / _FREEDOM
        return 0.5 * (_FREEDOM + 1) * squared.log1p()

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the constant of the density."""
        half = _FREEDOM / 2
        constant = math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(_FREEDOM * math.pi)
        return (constant - 0.5 * self.log_square).expand_as(target)

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return what t distributed data around their mean cost, for every feature that varies."""
        half = _FREEDOM / 2
        return float((half + 0.5) * (digamma(half + 0.5) - digamma(half)) * (variance > 0).sum())

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the output."""
        return output

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the t distribution."""
        return output + (0.5 * self.log_square).exp() * by_scipy(lambda u: stats.t.ppf(u, _FREEDOM), level)
