"""Shares, such as of methylated copies."""

from collections.abc import Callable

import numpy as np
from scipy import stats
from torch import Tensor

from acova.data.features import Features
from acova.networks.likelihoods.base import TINY, Likelihood, Numbers, as_free, bounded, by_scipy

_EDGE = 1e-3
"""Shares, and their means, are kept this far from 0 and 1, where the density may be infinite."""
_WIDEST = 7.0
"""Log precisions lie between minus this and this."""


class Beta(Likelihood):
    """Beta distributed shares: the output is the logit of the mean, each feature has a precision of its own."""

    name = "beta"
    of_data = True
    takes_all = False
    starts_squared = False
    blank = 0.5
    starts = has_spread = True

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Start from the variances of the training rows."""
        precision = mean * (1 - mean) / np.maximum(variance, TINY) - 1
        self.spread.copy_(as_free(np.log(np.maximum(precision, TINY)), _WIDEST))

    @property
    def precision(self) -> Tensor:
        """The sum of the two parameters of each feature, (P,)."""
        return bounded(self.spread, _WIDEST).exp()

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return minus the log density."""
        share, (one, other) = target.clamp(_EDGE, 1 - _EDGE), self._parameters_of(output)
        return one.lgamma() + other.lgamma() - one * share.log() - other * (-share).log1p()

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the constant of the density."""
        share = target.clamp(_EDGE, 1 - _EDGE)
        return self.precision.lgamma() - share.log() - (-share).log1p()

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the mean share."""
        return _EDGE + (1 - 2 * _EDGE) * output.sigmoid()

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the beta distribution."""
        return by_scipy(stats.beta.ppf, level, *self._parameters_of(output))

    def _parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.mean(output)
        return mean * self.precision, (1 - mean) * self.precision

    @classmethod
    def check(cls, features: Features, where: Callable[[int], str]) -> str | None:
        """Ask for values in [0, 1]."""
        if features.low.min() >= 0 and features.high.max() <= 1:
            return None
        column = int(np.maximum(features.high - 1, -features.low).argmax())
        return (
            f"{where(column)} has values from {features.low[column]:g} to {features.high[column]:g}, but the beta "
            "likelihood needs shares in [0, 1]; divide percentages by 100, or use likelihood='gaussian' for it."
        )
