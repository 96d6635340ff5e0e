"""Counts: of molecules, reads or words, with the sum of a row as its exposure."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import softplus

from acova.data.features import Features
from acova.data.rows import equal_totals, row_totals
from acova.networks.likelihoods.base import TINY, Likelihood, Moments, Numbers, as_free, bounded, by_scipy

_WIDEST = 9.0
"""Log dispersions lie between minus this and this."""
_RARE = -2.0
"""Logits that outputs of zero stand for: at first few zeros are taken for inflated ones."""


class Counts(Likelihood):
    """What the likelihoods of counts share: each row's sum is known, the decoder says how it is divided.

    The mean of a cell is the row's sum times a softmax of the outputs, which are relative to the `baseline`.

    Attributes
    ----------
    baseline : Tensor of shape (P,)
        Log means of the training rows.
    """

    scaling = "counts"
    of_data = True
    takes_all = False
    starts_squared = False
    starts = True

    baseline: Tensor

    def __init__(self, size: int, blocks: tuple[int, ...] = ()) -> None:
        super().__init__(size, blocks)
        self.register_buffer("baseline", torch.zeros(size, dtype=torch.float32))

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Let outputs of zero stand for these means."""
        least = max(float(mean[mean > 0].min(initial=1.0)), TINY)
        self.baseline.copy_(torch.from_numpy(np.log(np.maximum(mean, 0.1 * least))))

    def log_mean(self, output: Tensor, total: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the logarithm of every cell's mean, (..., P), for rows with these sums (...) over their cells."""
        logits = output[..., : self.size] + self.baseline
        if cells is not None:
            logits = logits.masked_fill(~cells, -1e4)
        return logits.log_softmax(-1) + total.clamp(min=TINY).log().unsqueeze(-1)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the mean counts."""
        return self.log_mean(output, self._total(output, total)).exp()

    def _total(self, output: Tensor, total: Tensor | None) -> Tensor:
        return self.baseline.exp().sum().expand(output.shape[:-1]) if total is None else total

    def log_constant(self, target: Tensor) -> Tensor:
        """Return minus the log factorial."""
        return -(target + 1).lgamma()

    @classmethod
    def check(cls, features: Features, where: Callable[[int], str]) -> str | None:
        """Ask for whole numbers from 0 on, and for something to compare a count with."""
        negative, broken = features.low < 0, ~features.whole
        if negative.any():
            column = int(features.low.argmin())
            return (
                f"{where(column)} has values down to {features.low[column]:g}, but the likelihood {cls.name!r} needs "
                "counts, which are not negative; give the raw counts, or use likelihood='gaussian' for it."
            )
        if broken.any():
            return (
                f"{where(int(broken.argmax()))} has values that are no whole numbers, but the likelihood {cls.name!r} "
                "needs raw counts; give the counts before normalisation, or use likelihood='gaussian' for it."
            )
        if len(features.low) < 2:
            return (
                f"{where(0)} is the only one of its view, but the likelihood {cls.name!r} compares counts with the "
                "sum of their row; use likelihood='gaussian' for it."
            )
        return None

    @classmethod
    def moments(cls, rows: Numbers) -> Moments:
        """Return mean and variance of counts in rows brought to the same sum."""
        return super().moments(equal_totals(rows, float(row_totals(rows).mean())))


class Poisson(Counts):
    """Counts whose variance is their mean."""

    name = "poisson"

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the mean minus the count times its logarithm."""
        log_mean = self.log_mean(output, target.sum(-1), cells)
        return log_mean.exp() - target * log_mean

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the Poisson distribution."""
        return by_scipy(stats.poisson.ppf, level, self.mean(output, total))

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return half of Pearson's χ² per row."""
        return float(0.5 * np.divide(variance, mean, out=np.zeros_like(mean), where=mean > 0).sum())


class NegativeBinomial(Counts):
    """Counts with more variance: mean + mean² / dispersion; each feature has a dispersion of its own."""

    name = "negative_binomial"
    has_spread = True

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Let outputs of zero stand for these means; start from the dispersion of the training rows."""
        super().start(mean, variance)
        dispersion = np.square(mean) / np.maximum(variance - mean, TINY)
        self.spread.copy_(as_free(np.log(np.maximum(dispersion, TINY)), _WIDEST))

    @property
    def log_dispersion(self) -> Tensor:
        """The logarithm of each feature's dispersion, (P,)."""
        return bounded(self.spread, _WIDEST)

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return minus the log probability, without the gamma functions."""
        return self._error(self.log_mean(output, target.sum(-1), cells), target)

    def _error(self, log_mean: Tensor, target: Tensor) -> Tensor:
        gap = log_mean - self.log_dispersion
        return target * softplus(-gap) + self.log_dispersion.exp() * softplus(gap)

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the logarithm of the binomial coefficient."""
        dispersion = self.log_dispersion.exp()
        return super().log_constant(target) + (target + dispersion).lgamma() - dispersion.lgamma()

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the negative binomial distribution."""
        return by_scipy(_quantile, level, self._means(output, total), self.log_dispersion.exp())

    def _means(self, output: Tensor, total: Tensor | None) -> Tensor:
        return self.log_mean(output, self._total(output, total)).exp()


class ZeroInflatedNegativeBinomial(NegativeBinomial):
    """The same with more zeros: the decoder also says with what probability a count is lost and reads zero.

    Means over neighbours may lie between 0 and 1: there the error is interpolated.
    """

    name = "zero_inflated_negative_binomial"
    widths = 2

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return minus the log probability, without the gamma functions."""
        log_mean, lost = self.log_mean(output, target.sum(-1), cells), self._lost(output)
        dispersion = self.log_dispersion.exp()
        zero = softplus(lost) - torch.logaddexp(lost, -dispersion * softplus(log_mean - self.log_dispersion))
        more = softplus(lost) + self._error(log_mean, target.clamp(min=1.0))
        return torch.lerp(zero, more, target.clamp(0.0, 1.0))

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the logarithm of the binomial coefficient."""
        return super().log_constant(target.clamp(min=1.0)) * target.clamp(max=1.0)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the mean counts, lost ones too."""
        return (-self._lost(output)).sigmoid() * super().mean(output, total)

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return 0 up to the probability of loss, then the quantile of the negative binomial distribution."""
        lost = self._lost(output).sigmoid()
        rest = ((level - lost) / (1 - lost)).clamp(min=0.0)
        return by_scipy(_quantile, rest, self._means(output, total), self.log_dispersion.exp())

    def _lost(self, output: Tensor) -> Tensor:
        """Return the logits of the probability that a count is lost."""
        return output[..., self.size :] + _RARE


def _quantile(level: Numbers, mean: Numbers, dispersion: Numbers) -> Numbers:
    # Of level 0 scipy returns -1.
    found: Numbers = np.maximum(stats.nbinom.ppf(level, dispersion, dispersion / (dispersion + mean)), 0.0)
    return found
