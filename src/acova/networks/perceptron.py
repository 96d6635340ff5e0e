"""One view's encoder and decoder: fully connected layers with ReLU between them."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus


class Linear(nn.Module):
    """``x @ weight + bias`` with the weight stored as (inputs, outputs).

    In this layout the gradient of the weight comes out of its matrix product as it is stored; torch's own layer, stored
    the other way round, has it copied in every step when runs are stacked.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (N, inputs) to (N, outputs)."""
        return torch.addmm(self.bias, rows, self.weight)


def _layers(sizes: Sequence[int]) -> list[nn.Module]:
    return [layer for width, following in pairwise(sizes) for layer in (Linear(width, following), nn.ReLU())]


class Encoder(nn.Module):
    """From a view to a Gaussian estimate of the latent vector.

    Parameters
    ----------
    n_features : int
    hidden : sequence of int
        Widths of the hidden layers.
    latent_dim : int
    min_std : float
        The standard deviation is this plus a softplus: it cannot collapse to zero.
    """

    def __init__(self, n_features: int, hidden: Sequence[int], latent_dim: int, min_std: float) -> None:
        super().__init__()
        self.min_std = min_std
        sizes = [n_features, *hidden]
        self.body = nn.Sequential(*_layers(sizes))
        self.mean = Linear(sizes[-1], latent_dim)
        self.scale = Linear(sizes[-1], latent_dim)

    def code(self, view: Tensor) -> Tensor:
        """Return the means (N, D) alone."""
        return self.mean(self.body(view))  # type: ignore[no-any-return]

    def forward(self, view: Tensor) -> Tensor:
        """Return means and standard deviations side by side, (N, 2, D)."""
        features = self.body(view)
        return torch.stack([self.mean(features), self.min_std + softplus(self.scale(features))], dim=-2)


class Decoder(nn.Sequential):
    """From a latent vector (N, D) to a view (N, P): means, or logits, without a last non-linearity."""

    def __init__(self, n_features: int, hidden: Sequence[int], latent_dim: int) -> None:
        sizes = [latent_dim, *reversed(hidden)]
        super().__init__(*_layers(sizes), Linear(sizes[-1], n_features))


def on_rows(function: Callable[[Tensor], Tensor], rows: Tensor, seen: Tensor, *, skip: bool) -> Tensor:
    """Apply a row-wise function; with `skip`, only where `seen` is True, and other rows come back as zeros.

    Callers ignore hidden rows either way. Skipping saves work on a CPU; on a GPU it would make the device wait for
    the host, and under `vmap` it is impossible.
    """
    if not skip or rows.device.type != "cpu" or bool(seen.all()):
        return function(rows)
    at = seen.nonzero().squeeze(-1)
    some = function(rows[at])
    return some.new_zeros(len(rows), *some.shape[1:]).index_copy(0, at, some)
