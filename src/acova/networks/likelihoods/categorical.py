"""Categories: one of several columns is 1."""

import torch
from scipy.special import entr
from torch import Tensor

from acova.networks.likelihoods.base import Likelihood, Numbers


class Categorical(Likelihood):
    """Columns of categories, each encoded as a block of zeros and ones: outputs are the logits of one softmax each.

    An empty cell, whose block holds zeros alone, costs nothing.
    """

    name = "categorical"
    scaling = "none"
    takes_all = False
    starts_squared = False
    shares_unit = True

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return the cross-entropy, which is 0 where the target is."""
        return -target * self._log_shares(output)

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the probability of each category."""
        return self._log_shares(output).exp()

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return 1 above the probability that it is another category, else 0, column by column."""
        return (level > 1 - self.mean(output)).to(output.dtype)

    def sample(self, output: Tensor, uniform: Tensor, total: Tensor | None = None) -> Tensor:
        """Draw one category of each block; of the block's uniform numbers the first is used."""
        drawn = []
        for shares, numbers in zip(self._split(self.mean(output)), self._split(uniform), strict=True):
            below = (shares.cumsum(-1)[..., :-1] < numbers[..., :1]).sum(-1)
            drawn.append(torch.nn.functional.one_hot(below, shares.shape[-1]).to(output.dtype))
        return torch.cat(drawn, dim=-1)

    def _log_shares(self, output: Tensor) -> Tensor:
        return torch.cat([block.log_softmax(-1) for block in self._split(output)], dim=-1)

    def _split(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, list(self.blocks or (self.size,)), dim=-1)

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return the entropy of the shares of the categories."""
        return float(entr(mean.clip(0, 1)).sum())
