"""A perceptron that can be differentiated any number of times, with batch normalisation without state in training.

`Perceptrons` are faster, but their gradients have none of their own, and they know no normalisation.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

_EPS = 1e-5


class Tower(nn.Module):
    """Fully connected layers with ReLU after all but the last.

    Parameters
    ----------
    widths : sequence of int
        Inputs first, outputs last.
    norm : bool
        Normalise what goes into each ReLU.
    relu_end : bool
        Let the last layer end like the others.
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        norm: bool = False,
        relu_end: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Dense(before, after, generator) for before, after in pairwise(widths))
        normed = widths[1:] if relu_end else widths[1:-1]
        self.norms = nn.ModuleList(BatchNorm(width) for width in normed) if norm else None
        self._relus = len(normed)

    def forward(self, rows: Tensor, weights: Tensor | None = None, *, keep: bool = False) -> Tensor:
        """Map rows (N, inputs) to (N, outputs); `weights` and `keep` are those of `BatchNorm`."""
        for number, layer in enumerate(self.layers):
            rows = layer(rows)
            if number < self._relus:
                rows = rows if self.norms is None else self.norms[number](rows, weights, keep=keep)
                rows = rows.relu()
        return rows

    @torch.no_grad()
    def permute_inputs(self, order: Tensor) -> None:
        """Let input k be what input ``order[k]`` was."""
        weight = self.get_parameter("layers.0.weight")
        weight.copy_(weight[order])

    @torch.no_grad()
    def permute_outputs(self, order: Tensor) -> None:
        """Let output k be what output ``order[k]`` was; of a tower that does not end in ReLU."""
        for name in ("weight", "bias"):
            parameter = self.get_parameter(f"layers.{len(self.layers) - 1}.{name}")
            parameter.copy_(parameter[..., order])


class BatchNorm(nn.Module):
    """Every feature to mean 0 and variance 1, then scaled and shifted.

    In training by the statistics of the batch, which are a function of the batch and change nothing; later by the
    statistics of one pass over the training rows with the final weights, which that pass keeps. So runs can be mapped
    over, a step can be replayed, and predictions do not depend on what else is predicted.

    Parameters
    ----------
    width : int
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = (
            nn.Parameter(torch.ones(width, dtype=torch.float32)),
            nn.Parameter(torch.zeros(width, dtype=torch.float32)),
        )
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float32))
        self.register_buffer("variance", torch.ones(width, dtype=torch.float32))

    def forward(self, rows: Tensor, weights: Tensor | None = None, *, keep: bool = False) -> Tensor:
        """Normalise rows (N, width).

        Parameters
        ----------
        rows : Tensor
        weights : Tensor of shape (N,), optional
            1 for the rows of a batch that count, else 0; without them the kept statistics are used.
        keep : bool
            Keep the statistics of this batch.
        """
        if weights is None:
            mean, variance = self.mean, self.variance
        else:
            share = (weights / weights.sum().clamp(min=1.0)).unsqueeze(-1)
            mean = (share * rows).sum(0)
            variance = (share * (rows - mean).square()).sum(0)
        if keep:
            self.mean.copy_(mean)
            self.variance.copy_(variance)
        return (rows - mean) * (variance + _EPS).rsqrt() * self.scale + self.shift


class _Dense(nn.Module):
    """``rows @ weight + bias``, starting like torch's own; products in training rounded to `dtype`."""

    dtype = torch.float32

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator | None) -> None:
        super().__init__()
        bound = inputs**-0.5
        weight, bias = (torch.empty(shape, dtype=torch.float32) for shape in ((inputs, outputs), (outputs,)))
        self.weight = nn.Parameter(weight.uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(bias.uniform_(-bound, bound, generator=generator))

    def forward(self, rows: Tensor) -> Tensor:
        if self.dtype == torch.float32 or not torch.is_grad_enabled():
            return rows @ self.weight + self.bias
        return (rows.to(self.dtype) @ self.weight.to(self.dtype)).to(rows.dtype) + self.bias


def round_products(network: nn.Module, dtype: torch.dtype) -> None:
    """Let all towers of a network round their products to a type in training."""
    for module in network.modules():
        if isinstance(module, _Dense):
            module.dtype = dtype
