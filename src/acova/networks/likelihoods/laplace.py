"""Laplace features: their error is the absolute error."""

import math

import numpy as np
import torch
from torch import Tensor

from acova.functional import reconstruction
from acova.networks.likelihoods.base import Likelihood, Numbers


class Laplace(Likelihood):
    """Laplace features of scale 1."""

    name = "laplace"

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the absolute error."""
        return (output - target).abs()

    def log_constant(self, target: Tensor) -> Tensor:
        """Return the constant of a Laplace density of scale 1."""
        return torch.full_like(target, -math.log(2.0))

    def reconstruction(self, target: Tensor, output: Tensor, observed: Tensor) -> Tensor:
        """Return the sum by the library's own gradient where whole rows are observed."""
        if observed.ndim == target.ndim:
            return super().reconstruction(target, output, observed)
        return reconstruction(target, output, observed, self.name)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the output."""
        return output

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of the Laplace distribution."""
        return output - (level - 0.5).sign() * (1 - 2 * (level - 0.5).abs()).log()

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return the mean absolute deviation, as for normal features."""
        return float(np.sqrt(2 / np.pi * variance).sum())
