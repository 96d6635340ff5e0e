"""The network of MVP: every view estimates every other, and estimates are exchanged along random cycles."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from acova.functional import Batch, Fused, kl_diagonal, product_of_experts, reparameterise, total_reconstruction
from acova.networks import MixturePrior, Perceptrons
from acova.networks.base import ClusteringNetwork

OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "linear": lambda output: output,
    "sigmoid": torch.sigmoid,
}
"""What decoders end in."""
_CORRESPONDENCE = (128, 256, 128)
"""Hidden layers of a correspondence network."""


# --- exchange along cycles ----------------------------------------------------------------------


def random_cycles(noise: Tensor, observed: Tensor) -> Tensor:
    """Return each view's successor in one random cycle through the observed views; hidden views stay in place.

    The views sorted by their noise, closed to a ring: all (n-1)! cycles through n views are equally likely, none leaves
    an observed view in place (unless it is alone), and shapes do not depend on data.

    Parameters
    ----------
    noise : Tensor of shape (..., V)
        Independent continuous numbers.
    observed : Tensor of bool, shape (..., V)

    Returns
    -------
    Tensor of int64, shape (..., V)
    """
    order = noise.masked_fill(~observed, torch.inf).argsort(-1)
    count = observed.sum(-1, keepdim=True)
    place = torch.arange(noise.shape[-1], device=noise.device)
    after = torch.where(place < count, (place + 1) % count.clamp(min=1), place)
    return torch.zeros_like(order).scatter(-1, order, order.gather(-1, after))


def exchange(grid: Tensor, cycles: Tensor) -> Tensor:
    """Replace the estimate of target t from source s by that from the successor of s in the cycle of t.

    Parameters
    ----------
    grid : Tensor of shape (..., V, V, D)
        ``grid[..., s, t, :]`` is the estimate of view t from view s.
    cycles : Tensor of int64, shape (..., V, V)
        ``cycles[..., t, s]`` is the successor of s in the cycle of target t.

    Returns
    -------
    Tensor of shape (..., V, V, D)
    """
    return grid.gather(-3, cycles.mT.unsqueeze(-1).expand(grid.shape))


# --- the network --------------------------------------------------------------------------------


class Grid(NamedTuple):
    """Estimates of every target view from every source view.

    Attributes
    ----------
    mean, log_variance : Tensor of shape (N, V sources, V targets, D)
    """

    mean: Tensor
    log_variance: Tensor

    def common(self) -> tuple[Tensor, Tensor]:
        """Return each source's own common variable, the product of experts over targets: mean and log-variance."""
        share = torch.softmax(-self.log_variance, dim=2)
        return (share * self.mean).sum(2), -torch.logsumexp(-self.log_variance, dim=2)


class CyclicVAE(ClusteringNetwork):
    """An encoder and a decoder per view, and correspondence networks from each view's estimate to every other's.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihoods : sequence of str
        For each view.
    output : {"tanh", "linear", "sigmoid"}
        What the decoders end in, but for Bernoulli views, whose decoders give logits.
    reconstruction_weight, permutation_weight : float
        Weights of the two parts of the loss.
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).
    """

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        hidden: Sequence[int],
        likelihoods: Sequence[str],
        output: str = "tanh",
        reconstruction_weight: float = 1.0,
        permutation_weight: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes, inner = list(view_sizes), list(map(int, hidden))
        self.n_views = len(sizes)
        self.likelihoods, self.output = tuple(likelihoods), output
        self.reconstruction_weight, self.permutation_weight = reconstruction_weight, permutation_weight
        perceptrons = partial(Perceptrons, n_views=self.n_views, xavier=True, generator=generator)
        self.encoders = perceptrons([sizes, *inner, 2 * latent_dim])
        self.decoders = perceptrons([2 * latent_dim, *reversed(inner), sizes])
        if self.n_views > 1:
            pairs = self.n_views * (self.n_views - 1)
            self.correspondences = _Correspondences([latent_dim, *_CORRESPONDENCE, latent_dim], 2 * pairs, generator)
        self.prior = MixturePrior(n_clusters, latent_dim)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Standard normal numbers that the loss needs of each sample: four draws per view, and a cycle per target."""
        return (4 * self.n_views * self.latent_dim + self.n_views**2,)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the encoders' and decoders' products to this type in training; the fusion stays exact."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def grid(self, views: Sequence[Tensor], observed: Tensor) -> Grid:
        """Return the estimates of every view from every view; rows of hidden sources mean nothing."""
        inputs = [view.masked_fill(~seen.unsqueeze(-1), 0.0) for view, seen in zip(views, observed.mT, strict=True)]
        own = torch.tanh(torch.stack(self.encoders(inputs, together=True)))
        each = torch.stack(own.chunk(2, dim=-1))
        if self.n_views == 1:
            return Grid(*each.movedim(2, 1).unsqueeze(3))
        # (2, V, N, D) → sources repeated for their V - 1 targets, all correspondences as one batch.
        pairs = each.unsqueeze(2).expand(-1, -1, self.n_views - 1, -1, -1)
        others = self.correspondences(pairs.flatten(0, 2)).view(pairs.shape)
        rows = [torch.cat([others[:, s, :s], each[:, s : s + 1], others[:, s, s:]], dim=1) for s in range(self.n_views)]
        return Grid(*torch.stack(rows, dim=1).movedim(3, 1))

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the product of experts of the observed sources' common variables."""
        mean, log_variance = self.grid(views, observed).common()
        return product_of_experts(mean, (0.5 * log_variance).exp(), observed)

    def loss(self, batch: Batch, noise: Tensor, *, mutual: bool = True) -> dict[str, Tensor]:
        """Return the objective and its parts, per sample.

        Parameters
        ----------
        batch : Batch
        noise : Tensor of shape (N, *noise_shape)
        mutual : bool
            Whether the exchanged estimates are decoded too, and divergences are averaged over both directions.
        """
        observed = batch.observed
        shape = (len(observed), 2, 2, self.n_views, self.latent_dim)
        at = noise.shape[1] - self.n_views**2
        draws, cycles = noise[:, :at].reshape(shape), noise[:, at:].reshape(-1, self.n_views, self.n_views)
        grid = self.grid(batch.views, observed)
        targets = observed.unsqueeze(1).expand(-1, self.n_views, -1)
        chosen = random_cycles(cycles, targets)
        exchanged = Grid(*(exchange(part, chosen) for part in grid))
        reconstructions = [self._reconstruction(batch, grid, draws[:, 0])]
        if mutual:
            reconstructions.append(self._reconstruction(batch, exchanged, draws[:, 1]))
        common, common_exchanged = grid.common(), exchanged.common()
        parts = {
            "reconstruction": torch.stack(reconstructions).mean(0),
            "view_exchange": _sum_over_observed(divergence(grid, exchanged, mutual).mean(-1), observed),
            "common_exchange": _sum_over_observed(divergence(common, common_exchanged, mutual), observed),
        }
        permutation = 5.0 * parts["view_exchange"] + 2.5 * parts["common_exchange"]
        total = self.reconstruction_weight * parts["reconstruction"] + self.permutation_weight * permutation
        return {"total": total, **parts}

    def _reconstruction(self, batch: Batch, grid: Grid, noise: Tensor) -> Tensor:
        """Return the reconstruction of every observed view from draws of its common and its own variable."""
        mean, log_variance = grid.common()
        common = reparameterise(mean, log_variance.exp(), noise[:, 0])
        own_mean, own_log_variance = (part.diagonal(dim1=1, dim2=2).mT for part in grid)
        own = reparameterise(own_mean, own_log_variance.exp(), noise[:, 1])
        outputs = self.decoders(torch.cat([common, own], dim=-1).unbind(1), together=True)
        end = OUTPUTS[self.output]
        ended = [
            output if likelihood == "bernoulli" else end(output)
            for output, likelihood in zip(outputs, self.likelihoods, strict=True)
        ]
        return total_reconstruction(batch.views, ended, batch.observed.to(common.dtype), self.likelihoods)


class _Correspondences(nn.Module):
    """Perceptrons with leaky ReLUs, all of the same widths, as one batch."""

    def __init__(self, widths: Sequence[int], count: int, generator: torch.Generator | None) -> None:
        super().__init__()
        spread = [(2 / (before + after)) ** 0.5 for before, after in pairwise(widths)]
        shapes = [(count, before, after) for before, after in pairwise(widths)]
        normal, uniform = (
            partial(draw, generator=generator, dtype=torch.float32) for draw in (torch.randn, torch.rand)
        )
        self.weights = nn.ParameterList(s * normal(shape) for s, shape in zip(spread, shapes, strict=True))
        self.biases = nn.ParameterList((2 * uniform(n, 1, after) - 1) / before**0.5 for n, before, after in shapes)

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (count, N, inputs) to (count, N, outputs)."""
        last = len(self.weights) - 1
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = rows @ weight + bias
            rows = rows if number == last else leaky_relu(rows, 0.01)
        return rows


def divergence(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], mutual: bool) -> Tensor:
    """Return KL(first ‖ second), summed over the last axis, or its mean over both directions.

    Parameters
    ----------
    first, second : pair of Tensors of shape (..., D)
        Means and log-variances.
    mutual : bool
    """
    (mean, log_variance), (other_mean, other_log_variance) = first, second
    variance, other_variance = log_variance.exp(), other_log_variance.exp()
    forth = kl_diagonal(mean, variance, other_mean, other_variance)
    if not mutual:
        return forth
    return 0.5 * (forth + kl_diagonal(other_mean, other_variance, mean, variance))


def _sum_over_observed(values: Tensor, observed: Tensor) -> Tensor:
    return values.masked_fill(~observed, 0.0).sum(-1)
