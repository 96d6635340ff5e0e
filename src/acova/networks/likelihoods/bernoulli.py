"""Zeros and ones, or values between them."""

from collections.abc import Callable

import numpy as np
from scipy.special import entr
from torch import Tensor
from torch.nn.functional import softplus

from acova.data.features import Features
from acova.functional import reconstruction
from acova.networks.likelihoods.base import Likelihood, Numbers


class Bernoulli(Likelihood):
    """Independent zeros and ones; outputs are logits."""

    name = "bernoulli"
    scaling = "none"
    takes_all = False
    shares_unit = True

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the cross-entropy."""
        return softplus(output) - output * target

    def reconstruction(self, target: Tensor, output: Tensor, observed: Tensor) -> Tensor:
        """Return the sum by the library's own gradient where whole rows are observed."""
        if observed.ndim == target.ndim:
            return super().reconstruction(target, output, observed)
        return reconstruction(target, output, observed, self.name)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the probability of a one."""
        return output.sigmoid()

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return 1 above the probability of a zero, else 0."""
        return (level > (-output).sigmoid()).to(output.dtype)

    @classmethod
    def check(cls, features: Features, where: Callable[[int], str]) -> str | None:
        """Ask for values in [0, 1]."""
        if features.low.min() >= 0 and features.high.max() <= 1:
            return None
        column = int(np.maximum(features.high - 1, -features.low).argmax())
        return (
            f"{where(column)} has values from {features.low[column]:g} to {features.high[column]:g}, but the Bernoulli "
            "likelihood needs values in [0, 1]; use standardize='unit_view' (or 'unit', feature by feature), or "
            "likelihood='gaussian' for it."
        )

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return the entropy of the means."""
        return float(entr(mean.clip(0, 1)).sum() + entr(1 - mean.clip(0, 1)).sum())
