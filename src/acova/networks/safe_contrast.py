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
Told = tuple[Tensor, Tensor]
"""Features (V, N, D) and cluster probabilities (V, N, K) of all views."""


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
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).
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

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.body.label_head.permute_outputs(order)
        self.weigher.permute_inputs(order)

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
        told = self.body(views)
        complete, filled = _cut(told, n_complete)
        parts = {"complete": _contrast(complete)}
        total = parts["complete"]
        if len(views[0]) > n_complete:
            opinion = filled[1].mean(0).detach()
            trust = self._trust(opinion)
            parts["filled"] = _contrast(filled, trust=trust.detach())
            after = self._after_virtual_step(views, n_complete, trust)
            total = total + parts["filled"] + after - after.detach()
            parts["trust"] = trust.detach().mean()
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    def _trust(self, opinion: Tensor) -> Tensor:
        """Return the weight (N,) of filled samples by the mean (N, K) of what their views say."""
        trust: Tensor = self.weigher(opinion).squeeze(-1).sigmoid()
        return trust

    def _after_virtual_step(self, views: Sequence[Tensor], n_complete: int, trust: Tensor) -> Tensor:
        """Return the contrast of complete samples after a step on all samples, as a function of the weights alone."""
        start = {name: parameter.detach() for name, parameter in self.body.named_parameters()}

        def both(parameters: dict[str, Tensor]) -> Tensor:
            complete, filled = _cut(functional_call(self.body, parameters, (views,)), n_complete)
            return _contrast(complete) + _contrast(filled, trust=trust)

        slope = grad(both)(start)
        moved = {name: value - self.virtual_rate * slope[name] for name, value in start.items()}
        return _contrast(functional_call(self.body, moved, ([view[:n_complete] for view in views],)))

    def features(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return every view's features (N, V, D) of length 1, by which neighbours are found."""
        return normalize(self.body(views)[0], dim=-1).movedim(0, 1)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the mean (N, K) of what the observed views say of the clusters."""
        shares = self.body(views)[1].movedim(0, 1)
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

    def forward(self, views: Sequence[Tensor]) -> Told:
        """Return the views' features and cluster probabilities."""
        codes = torch.stack(self.codes(views))
        return self.feature_head(codes), self.label_head(codes).softmax(-1)


def _cut(told: Told, at: int) -> tuple[Told, Told]:
    """Return what is said of the samples before and after a number."""
    features, shares = told
    return (features[:, :at], shares[:, :at]), (features[:, at:], shares[:, at:])


def _contrast(told: Told, rows: Tensor | None = None, *, unit: bool = False, trust: Tensor | None = None) -> Tensor:
    """Return the contrast of all pairs of views.

    Parameters
    ----------
    told : Told
    rows : Tensor of shape (N,), optional
        Which samples take part; by default all.
    unit : bool
        Give all features length 1 instead of shortening long ones.
    trust : Tensor of shape (N,), optional
        Weights of the samples in the contrast of features, which is then their weighed *mean*: as in the authors'
        program it is divided by the number of samples twice.
    """
    features, shares = told
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
