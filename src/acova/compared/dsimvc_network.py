"""The network of DSIMVC: contrast between views, and a weigher that says how far filled samples can be trusted."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.functional import normalize

from acova.functional import Batch, Fused, mean_errors
from acova.networks.base import ClusteringNetwork
from acova.networks.towers import Tower, round_products

_WEIGHER = 100
"""Width of the weigher's hidden layer."""
_LONGEST = 3**0.5
_EMPTY = 1e-12


class Outputs(NamedTuple):
    """What the heads give for every view.

    Attributes
    ----------
    features : Tensor of shape (V, N, F)
    shares : Tensor of shape (V, N, K)
        Cluster probabilities.
    """

    features: Tensor
    shares: Tensor

    def split(self, at: int) -> tuple["Outputs", "Outputs"]:
        """Return the outputs of the samples before and from a number."""
        return (
            Outputs(self.features[:, :at], self.shares[:, :at]),
            Outputs(self.features[:, at:], self.shares[:, at:]),
        )


class SafeContrast(ClusteringNetwork):
    """An encoder per view, and heads for features and for clusters that all views share.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters, feature_dim : int
        Widths of the code and of the outputs of the two heads.
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders of the pretraining mirror them.
    virtual_rate : float
        Length of the virtual step that the weights of filled samples are judged by.
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
        feature_dim: int,
        virtual_rate: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_views, self.virtual_rate = len(view_sizes), virtual_rate
        inner = list(map(int, hidden))
        self.body = _Body(view_sizes, inner, latent_dim, feature_dim, n_clusters, generator)
        widths = [[latent_dim, *reversed(inner), size] for size in view_sizes]
        self.decoders = nn.ModuleList(Tower(each, generator=generator) for each in widths)
        self.weigher = Tower([n_clusters, _WEIGHER, 1], generator=generator)
        self.prior = AssignedShares(n_clusters)

    @property
    def latent_dim(self) -> int:
        """Number of coordinates of a sample's point, which is its cluster probabilities."""
        return self.n_clusters

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.body.label_head.permute_outputs(order)
        self.weigher.permute_inputs(order)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round products to this type in training."""
        round_products(self, dtype)

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return nothing: clusters have no centres."""
        return {}

    def autoencoding_loss(self, batch: Batch, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Return the sum of the views' mean squared errors, of the batch."""
        rows = batch.observed.to(batch.views[0].dtype).unbind(1)
        outputs = [decoder(code) for decoder, code in zip(self.decoders, self.body.codes(batch.views), strict=True)]
        errors = [
            mean_errors(view, output, seen) for view, output, seen in zip(batch.views, outputs, rows, strict=True)
        ]
        total = torch.stack(errors).sum().expand(len(batch.observed))
        return {"total": total, "reconstruction": total}

    def loss(self, batch: Batch, noise: Tensor | None = None, *, unit: bool = False) -> dict[str, Tensor]:
        """Return the contrast between the views of the batch's complete samples, the same for every sample.

        Parameters
        ----------
        batch : Batch
        noise : ignored
        unit : bool
            Give all features length 1 instead of shortening long ones.
        """
        rows = batch.observed.all(1).to(batch.views[0].dtype)
        total = contrast(self.body(batch.views), rows, unit=unit).expand(len(batch.observed))
        return {"total": total}

    def bilevel_loss(self, batch: Batch, noise: Tensor | None = None, *, n_complete: int) -> dict[str, Tensor]:
        """Return the contrast of complete and of filled samples.

        The weights of filled samples are constants in it. The weigher's gradient is that of the complete samples'
        contrast after a virtual step of the other parameters, to which its weights led.

        Parameters
        ----------
        batch : Batch
            Complete samples first, then filled ones, if any.
        noise : ignored
        n_complete : int
        """
        outputs = self.body(batch.views)
        complete, filled = outputs.split(n_complete)
        parts = {"complete": contrast(complete)}
        total = parts["complete"]
        if len(batch.observed) > n_complete:
            trust = self.trust(filled)
            parts["filled"] = contrast(filled, trust=trust.detach())
            after = self._after_virtual_step(batch.views, n_complete, trust)
            total = total + parts["filled"] + after - after.detach()
            parts["trust"] = trust.detach().mean()
        return {name: value.expand(len(batch.observed)) for name, value in {"total": total, **parts}.items()}

    def trust(self, filled: Outputs) -> Tensor:
        """Return the weight (N,) of filled samples by the mean of what their views say of the clusters."""
        weights: Tensor = self.weigher(filled.shares.mean(0).detach()).squeeze(-1).sigmoid()
        return weights

    def _after_virtual_step(self, views: Sequence[Tensor], n_complete: int, trust: Tensor) -> Tensor:
        """Return the contrast of complete samples after a step on all samples, as a function of the weights alone."""
        start = {name: parameter.detach() for name, parameter in self.body.named_parameters()}

        def both(parameters: dict[str, Tensor]) -> Tensor:
            complete, filled = functional_call(self.body, parameters, (views,)).split(n_complete)
            return contrast(complete) + contrast(filled, trust=trust)

        slope = grad(both)(start)
        moved = {name: value - self.virtual_rate * slope[name] for name, value in start.items()}
        return contrast(functional_call(self.body, moved, ([view[:n_complete] for view in views],)))

    def features(self, views: Sequence[Tensor]) -> Tensor:
        """Return every view's features (N, V, F) of length 1, by which neighbours are found."""
        return normalize(self.body(views).features, dim=-1).movedim(0, 1)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the mean (N, K) of what the observed views say of the clusters."""
        shares = self.body(views).shares.movedim(0, 1)
        seen = observed.to(shares.dtype)
        weights = (seen / seen.sum(1, keepdim=True).clamp(min=1)).unsqueeze(-1)
        mean = torch.where(observed.unsqueeze(-1), weights * shares, 0.0).sum(1)
        return Fused(mean, torch.zeros_like(mean), weights)


class AssignedShares(nn.Module):
    """Stands where other networks have their prior: points are cluster probabilities already."""

    logits: Tensor

    def __init__(self, n_clusters: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(n_clusters, dtype=torch.float32))

    def log_responsibilities(self, shares: Tensor) -> Tensor:
        """Return the logarithm of (..., K)."""
        return shares.clamp(min=torch.finfo(shares.dtype).tiny).log()


class _Body(nn.Module):
    """What the virtual step moves: encoders and heads."""

    def __init__(
        self,
        view_sizes: Sequence[int],
        hidden: Sequence[int],
        latent_dim: int,
        feature_dim: int,
        n_clusters: int,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(Tower([size, *hidden, latent_dim], generator=generator) for size in view_sizes)
        self.feature_head = Tower([latent_dim, latent_dim, feature_dim], generator=generator)
        self.label_head = Tower([latent_dim, latent_dim, n_clusters], generator=generator)

    def codes(self, views: Sequence[Tensor]) -> list[Tensor]:
        return [encoder(view) for encoder, view in zip(self.encoders, views, strict=True)]

    def forward(self, views: Sequence[Tensor]) -> Outputs:
        """Return the views' features and cluster probabilities."""
        codes = torch.stack(self.codes(views))
        return Outputs(self.feature_head(codes), self.label_head(codes).softmax(-1))


# --- losses -------------------------------------------------------------------------------------


def contrast(
    outputs: Outputs, rows: Tensor | None = None, *, unit: bool = False, trust: Tensor | None = None
) -> Tensor:
    """Return the contrast of all pairs of views, one number.

    Parameters
    ----------
    outputs : Outputs
    rows : Tensor of shape (N,), optional
        Which samples take part, as 1 and 0; by default all.
    unit : bool
        Give all features length 1 instead of shortening long ones.
    trust : Tensor of shape (N,), optional
        Weights of the samples in the contrast of features, which is then their weighed *mean*: as in the authors'
        program it is divided by the number of samples twice.
    """
    features, shares = outputs
    cut = normalize(features, dim=-1) if unit else shortened(features)
    rows = torch.ones_like(cut[0, :, 0]) if rows is None else rows
    pairs = list(combinations(range(len(cut)), 2))
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    each = spectral_contrast(_chosen(cut, first), _chosen(cut, second), rows)
    weighed = each.sum(-1) if trust is None else (trust * each).sum(-1) / trust.sum().clamp(min=1e-12)
    return (weighed + label_contrast(_chosen(shares, first), _chosen(shares, second), rows)).sum()


def _chosen(parts: Tensor, numbers: Sequence[int]) -> Tensor:
    """Return the parts with these numbers; an index from the host would make the device wait."""
    return torch.stack([parts[number] for number in numbers])


def shortened(features: Tensor, longest: float = _LONGEST) -> Tensor:
    """Return rows (N, D), those that are longer cut to this length."""
    length = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    factor: Tensor = (longest / length.clamp(min=1e-12)).clamp(max=1.0)
    return features * factor


def spectral_contrast(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return every sample's part (..., N) of the spectral contrastive loss of two views' features (..., N, D).

    They sum to -(2/n) Σ_i a_i·b_i + Σ_{i≠j} (a_i·b_j)² / (n(n-1)), over the n samples that take part.
    """
    count = rows.sum()
    products = (first * rows.unsqueeze(-1)) @ (second * rows.unsqueeze(-1)).mT
    own = products.diagonal(dim1=-2, dim2=-1)
    others = products.square().sum(-1) - own.square()
    return -2.0 * own / count.clamp(min=1.0) + others / (count * (count - 1.0)).clamp(min=1.0)


def label_contrast(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the contrast of two views' clusters: each like itself in the other view, unlike the others in its own.

    Parameters
    ----------
    first, second : Tensor of shape (..., N, K)
        Assignments; clusters are compared by the cosine of their columns, and how full the clusters are is kept even.
    rows : Tensor of shape (N,)
        Which samples take part, as 1 and 0; the others change nothing.
    """
    n_clusters = first.shape[-1]
    columns = [normalize((shares * rows.unsqueeze(-1)).mT, dim=-1) for shares in (first, second)]
    same = (columns[0] * columns[1]).sum(-1)
    itself = torch.eye(n_clusters, dtype=torch.bool, device=first.device)
    total = torch.zeros_like(same[..., 0])
    for of_view, shares in zip(columns, (first, second), strict=True):
        likeness = torch.where(itself, same.unsqueeze(-1), of_view @ of_view.mT)
        total = total + 0.5 * (likeness.logsumexp(-1) - same).mean(-1)
        fullness = (shares * rows.unsqueeze(-1)).sum(-2) / rows.sum().clamp(min=1.0)
        total = total + math.log(n_clusters) + (fullness * fullness.clamp(min=_EMPTY).log()).sum(-1)
    return total
