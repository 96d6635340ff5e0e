"""The network of DSIMVC: contrast between views, and a weigher that says how far filled samples can be trusted."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.functional import normalize

from acova.functional import Fused, label_contrast, mean_errors, shortened, spectral_contrast
from acova.networks.towers import Tower, round_products

_WEIGHER = 100
Told = tuple[list[Tensor], list[Tensor]]
"""Every view's features (N, D) and cluster probabilities (N, K)."""


class SafeContrast(nn.Module):
    """An encoder per view, and heads for features and for clusters that all views share.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, feature_dim, n_clusters : int
        Widths of the code, and of what the two heads say.
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders of the pretraining mirror them.
    virtual_rate : float
        Length of the virtual step that the weights of filled samples are judged by.
    """

    mapped = False
    correlates = False
    noise_shape = (0,)

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        hidden: Sequence[int],
        feature_dim: int,
        virtual_rate: float,
    ) -> None:
        super().__init__()
        self.n_views, self.virtual_rate = len(view_sizes), virtual_rate
        inner = list(map(int, hidden))
        self.body = _Body(view_sizes, inner, latent_dim, feature_dim, n_clusters)
        self.decoders = nn.ModuleList(Tower([latent_dim, *reversed(inner), size]) for size in view_sizes)
        self.weigher = Tower([n_clusters, _WEIGHER, 1])
        self.prior = AssignedShares(n_clusters)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round products to this type in training."""
        round_products(self, dtype)

    def autoencoding_loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the sum of the views' mean squared errors, of the batch."""
        rows = observed.to(views[0].dtype).unbind(1)
        outputs = [decoder(code) for decoder, code in zip(self.decoders, self.body.codes(views), strict=True)]
        errors = [mean_errors(view, output, mine) for view, output, mine in zip(views, outputs, rows, strict=True)]
        total = torch.stack(errors).sum().expand(len(observed))
        return {"total": total, "reconstruction": total}

    def loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None, *, unit: bool = False
    ) -> dict[str, Tensor]:
        """Return the contrast between the views of the batch's complete samples, the same for every sample.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
        observed : Tensor of bool, shape (N, V)
        noise : ignored
        unit : bool
            Give all features length 1 instead of shortening long ones.
        """
        rows = observed.all(1).to(views[0].dtype)
        total = _contrast(self.body(views), rows, unit=unit).expand(len(observed))
        return {"total": total}

    def bilevel_loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None, *, n_complete: int
    ) -> dict[str, Tensor]:
        """Return the contrast of complete and of filled samples.

        The weights of filled samples are held fixed in it. The weigher's gradient is that of the complete samples'
        contrast after a virtual step of the other parameters, to which its weights led.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
            Complete samples first, then filled ones, if any.
        observed, noise : ignored
        n_complete : int
        """
        complete, filled = [view[:n_complete] for view in views], [view[n_complete:] for view in views]
        rows = torch.ones_like(complete[0][:, 0])
        parts = {"complete": _contrast(self.body(complete), rows)}
        total = parts["complete"]
        if len(filled[0]):
            told = self.body(filled)
            opinion = torch.stack(told[1]).mean(0).detach()
            parts["filled"] = _weighed_contrast(told, self._trust(opinion).detach())
            after = self._after_virtual_step(complete, filled, opinion, rows)
            total = total + parts["filled"] + after - after.detach()
            parts["trust"] = self._trust(opinion).detach().mean()
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    def _trust(self, opinion: Tensor) -> Tensor:
        """Return the weight (N,) of filled samples by the mean (N, K) of what their views say."""
        trust: Tensor = self.weigher(opinion).squeeze(-1).sigmoid()
        return trust

    def _after_virtual_step(
        self, complete: Sequence[Tensor], filled: Sequence[Tensor], opinion: Tensor, rows: Tensor
    ) -> Tensor:
        trust = self._trust(opinion)
        start = {name: parameter.detach() for name, parameter in self.body.named_parameters()}

        def both(parameters: dict[str, Tensor]) -> Tensor:
            safe = _contrast(functional_call(self.body, parameters, (complete,)), rows)
            return safe + _weighed_contrast(functional_call(self.body, parameters, (filled,)), trust)

        slope = grad(both)(start)
        moved = {name: value - self.virtual_rate * slope[name] for name, value in start.items()}
        return _contrast(functional_call(self.body, moved, (complete,)), rows)

    def features(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return every view's features (N, V, D) of length 1, by which neighbours are found."""
        return torch.stack([normalize(part, dim=-1) for part in self.body(views)[0]], dim=1)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the mean (N, K) of what the observed views say of the clusters."""
        shares = torch.stack(self.body(views)[1], dim=1)
        weights = (observed / observed.sum(1, keepdim=True).clamp(min=1)).to(shares.dtype).unsqueeze(-1)
        mean = torch.where(observed.unsqueeze(-1), weights * shares, 0.0).sum(1)
        return Fused(mean, torch.zeros_like(mean), weights)


class AssignedShares(nn.Module):
    """Stands where other networks have their prior: points are cluster probabilities already."""

    logits: Tensor

    def __init__(self, n_clusters: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(n_clusters))

    def log_responsibilities(self, shares: Tensor) -> Tensor:
        """Return the logarithm of (..., K)."""
        return shares.clamp(min=torch.finfo(shares.dtype).tiny).log()


class _Body(nn.Module):
    """What the virtual step moves: encoders and heads."""

    def __init__(
        self, view_sizes: Sequence[int], hidden: Sequence[int], latent_dim: int, feature_dim: int, n_clusters: int
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(Tower([size, *hidden, latent_dim]) for size in view_sizes)
        self.feature_head = Tower([latent_dim, latent_dim, feature_dim])
        self.label_head = Tower([latent_dim, latent_dim, n_clusters])

    def codes(self, views: Sequence[Tensor]) -> list[Tensor]:
        return [encoder(view) for encoder, view in zip(self.encoders, views, strict=True)]

    def forward(self, views: Sequence[Tensor]) -> Told:
        """Return every view's features (N, D) and cluster probabilities (N, K)."""
        codes = self.codes(views)
        return [self.feature_head(code) for code in codes], [self.label_head(code).softmax(-1) for code in codes]


def _contrast(told: Told, rows: Tensor, *, unit: bool = False) -> Tensor:
    """Return the contrast of all pairs of views."""
    features, shares = told
    cut = [normalize(part, dim=-1) if unit else shortened(part) for part in features]
    each = [
        spectral_contrast(cut[v], cut[w], rows).sum() + label_contrast(shares[v], shares[w], rows)
        for v, w in combinations(range(len(cut)), 2)
    ]
    return torch.stack(each).sum()


def _weighed_contrast(told: Told, trust: Tensor) -> Tensor:
    """Return the contrast with weighed samples; like the authors', it divides by the number of samples twice."""
    features, shares = told
    cut = [shortened(part) for part in features]
    rows = torch.ones_like(trust)
    each = [
        (trust * spectral_contrast(cut[v], cut[w], rows)).sum() / trust.sum().clamp(min=1e-12)
        + label_contrast(shares[v], shares[w], rows)
        for v, w in combinations(range(len(cut)), 2)
    ]
    return torch.stack(each).sum()
