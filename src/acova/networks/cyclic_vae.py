"""The network of MVP: every view speaks of every other, and what views say is exchanged along cycles."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from acova.functional import (
    Fused,
    exchange,
    kl_diagonal,
    product_of_experts,
    random_cycles,
    reparameterise,
    total_reconstruction,
)
from acova.networks.mixture_prior import MixturePrior
from acova.networks.perceptrons import Perceptrons

OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "linear": lambda output: output,
    "sigmoid": torch.sigmoid,
}
_CORRESPONDENCE = (128, 256, 128)


class Grid(NamedTuple):
    """What every source says of every target: means and log-variances, both (N, V sources, V targets, D)."""

    mean: Tensor
    log_variance: Tensor

    def common(self) -> tuple[Tensor, Tensor]:
        """Return each source's own common variable, the product of experts over targets: mean and log-variance."""
        share = torch.softmax(-self.log_variance, dim=2)
        return (share * self.mean).sum(2), -torch.logsumexp(-self.log_variance, dim=2)


class CyclicVAE(nn.Module):
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

    mapped = False
    correlates = False

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
        self.n_views, self.latent_dim = len(sizes), latent_dim
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
        """Standard normal numbers a sample needs: four draws per view, and one cycle per target."""
        return (4 * self.n_views * self.latent_dim + self.n_views**2,)

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.prior.renumber(order)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the encoders' and decoders' products to this type in training; the fusion stays exact."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def grid(self, views: Sequence[Tensor], observed: Tensor) -> Grid:
        """Return what every view says of every view; rows of hidden sources mean nothing."""
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

    def loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor, *, mutual: bool = True
    ) -> dict[str, Tensor]:
        """Return the objective and its parts, per sample.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
        observed : Tensor of bool, shape (N, V)
        noise : Tensor of shape (N, *noise_shape)
        mutual : bool
            Whether the exchanged estimates are decoded too, and divergences are averaged over both directions.
        """
        shape = (len(observed), 2, 2, self.n_views, self.latent_dim)
        at = noise.shape[1] - self.n_views**2
        draws, cycles = noise[:, :at].reshape(shape), noise[:, at:].reshape(-1, self.n_views, self.n_views)
        grid = self.grid(views, observed)
        targets = observed.unsqueeze(1).expand(-1, self.n_views, -1)
        chosen = random_cycles(cycles, targets)
        exchanged = Grid(*(exchange(part, chosen) for part in grid))
        decoded = [self._misfit(views, observed, grid, draws[:, 0])]
        if mutual:
            decoded.append(self._misfit(views, observed, exchanged, draws[:, 1]))
        common, common_exchanged = grid.common(), exchanged.common()
        parts = {
            "reconstruction": torch.stack(decoded).mean(0),
            "view_exchange": _summed(_divergence(grid, exchanged, mutual).mean(-1), observed),
            "common_exchange": _summed(_divergence(common, common_exchanged, mutual), observed),
        }
        moved = 5.0 * parts["view_exchange"] + 2.5 * parts["common_exchange"]
        total = self.reconstruction_weight * parts["reconstruction"] + self.permutation_weight * moved
        return {"total": total, **parts}

    def _misfit(self, views: Sequence[Tensor], observed: Tensor, grid: Grid, noise: Tensor) -> Tensor:
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
        return total_reconstruction(views, ended, observed.to(common.dtype), self.likelihoods)


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


def _divergence(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], mutual: bool) -> Tensor:
    """Return KL(first ‖ second), summed over the last axis, or its mean over both directions."""
    (mean, log_variance), (other_mean, other_log_variance) = first, second
    variance, other_variance = log_variance.exp(), other_log_variance.exp()
    forth = kl_diagonal(mean, variance, other_mean, other_variance)
    if not mutual:
        return forth
    return 0.5 * (forth + kl_diagonal(other_mean, other_variance, mean, variance))


def _summed(values: Tensor, observed: Tensor) -> Tensor:
    return values.masked_fill(~observed, 0.0).sum(-1)
