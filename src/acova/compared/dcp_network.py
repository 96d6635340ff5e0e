"""The network of DCP: codes on the simplex, alike across views, and predictors from one view's code to another's."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acova.functional import Batch, Fused, mean_errors, side_by_side
from acova.networks import MixturePrior
from acova.networks.base import ClusteringNetwork
from acova.networks.towers import Tower, round_products

GRAPHS = ("core", "complete")
"""Which views are linked."""
OUTPUTS = ("relu", "linear")
"""What decoders end in."""
_PREDICTOR = (128, 256, 128, 256, 128)
"""Hidden layers of a predictor."""
_FURTHER_PAIRS = 0.1
"""Weight of the contrast of all pairs of views but the first."""
_LEAST = 2.2e-16
"""Floor of probabilities whose logarithm is taken."""


def mutual_information(first: Tensor, second: Tensor, rows: Tensor, entropy: float) -> Tensor:
    """Return minus the mutual information of two views' soft codes, their entropies weighed by `entropy` - 1 more.

    One number for the whole batch; it cannot be split among the samples.

    Parameters
    ----------
    first, second : Tensor of shape (N, L)
        Rows that are positive and sum to 1.
    rows : Tensor of shape (N,)
        1 for the samples that take part, 0 for the others, which change nothing.
    entropy : float
    """
    joint = (first * rows.unsqueeze(-1)).mT @ second
    joint = joint + joint.mT
    joint = joint / joint.sum().clamp(min=_LEAST)
    one, other = joint.sum(1, keepdim=True).clamp(min=_LEAST), joint.sum(0, keepdim=True).clamp(min=_LEAST)
    joint = joint.clamp(min=_LEAST)
    return -(joint * (joint.log() - entropy * one.log() - entropy * other.log())).sum()


class DualPrediction(ClusteringNetwork):
    """An encoder and a decoder per view, and a predictor for each direction between views that are linked.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
        Length of each view's code, and number of clusters of all codes side by side.
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    graph : {"core", "complete"}
        Whether every view is linked to the core view, or to all.
    core_view : int
    output : {"relu", "linear"}
        What decoders end in; with ReLU, after a batch normalisation.
    entropy : float
        How much more than in the mutual information entropies count, plus 1.
    reconstruction_weight, prediction_weight : float
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
        graph: str = "core",
        core_view: int = 0,
        output: str = "relu",
        entropy: float = 10.0,
        reconstruction_weight: float = 0.1,
        prediction_weight: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        inner = list(map(int, hidden))
        self.n_views, self.graph, self.core, self.entropy = len(view_sizes), graph, core_view, entropy
        self.reconstruction_weight, self.prediction_weight = reconstruction_weight, prediction_weight
        tower = partial(Tower, norm=True, generator=generator)
        self.encoders = nn.ModuleList(tower([size, *inner, latent_dim]) for size in view_sizes)
        ends = output == "relu"
        self.decoders = nn.ModuleList(tower([latent_dim, *reversed(inner), size], relu_end=ends) for size in view_sizes)
        self.predictors = nn.ModuleDict(
            {f"{one}_{other}": tower([latent_dim, *_PREDICTOR, latent_dim]) for one, other in self.directions}
        )
        self.prior = MixturePrior(n_clusters, self.n_views * latent_dim)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The views that are linked."""
        if self.graph == "core":
            return [(self.core, other) for other in range(self.n_views) if other != self.core]
        return [(one, other) for one in range(self.n_views) for other in range(one + 1, self.n_views)]

    @property
    def directions(self) -> list[tuple[int, int]]:
        """The links in both directions: source and target."""
        return [direction for pair in self.pairs for direction in (pair, pair[::-1])]

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round products to this type in training."""
        round_products(self, dtype)

    def codes(self, views: Sequence[Tensor], weights: Tensor | None = None, *, keep: bool = False) -> list[Tensor]:
        """Return every view's code (N, L), positive numbers that sum to 1; `weights` as for `BatchNorm`."""
        return [
            encoder(view, weights, keep=keep).softmax(-1) for encoder, view in zip(self.encoders, views, strict=True)
        ]

    def predict(
        self, source: int, target: int, code: Tensor, weights: Tensor | None = None, *, keep: bool = False
    ) -> Tensor:
        """Return the code of one view as predicted from that of another, (N, L)."""
        predicted: Tensor = self.predictors[f"{source}_{target}"](code, weights, keep=keep).softmax(-1)
        return predicted

    def loss(self, batch: Batch, noise: Tensor | None = None, *, predicts: bool = True) -> dict[str, Tensor]:
        """Return the objective of the batch and its parts, the same for every sample; complete samples alone count.

        Parameters
        ----------
        batch : Batch
        noise : ignored
        predicts : bool
            Whether the predictors are trained.
        """
        views, observed = batch.views, batch.observed
        rows = observed.all(1).to(views[0].dtype)
        codes = self.codes(views, rows)
        outputs = [decoder(code, rows) for decoder, code in zip(self.decoders, codes, strict=True)]
        errors = [mean_errors(view, output, rows) for view, output in zip(views, outputs, strict=True)]
        nothing = torch.zeros_like(errors[0])
        links = (self.n_views - 1 if self.graph == "core" else self.n_views) or 1
        contrasts = [
            (_FURTHER_PAIRS if number else 1.0) * mutual_information(codes[one], codes[other], rows, self.entropy)
            for number, (one, other) in enumerate(self.pairs)
        ]
        parts = {
            "reconstruction": torch.stack(errors).sum() / max(self.n_views - 2, 1),
            "contrast": torch.stack([nothing, *contrasts]).sum() / links,
        }
        total = parts["contrast"] + self.reconstruction_weight * parts["reconstruction"]
        if predicts:
            misfits = [
                mean_errors(codes[target], self.predict(source, target, codes[source], rows), rows)
                for source, target in self.directions
            ]
            parts["prediction"] = torch.stack([nothing, *misfits]).sum() / links
            total = total + self.prediction_weight * parts["prediction"]
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    @torch.no_grad()
    def settle(self, views: Sequence[Tensor]) -> None:
        """Keep the statistics of complete samples, by which predictions are normalised."""
        rows = torch.ones(len(views[0]), dtype=views[0].dtype, device=views[0].device)
        codes = self.codes(views, rows, keep=True)
        for source, target in self.directions:
            self.predict(source, target, codes[source], rows, keep=True)

    def completed(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return all codes (N, V, L), those of missing views as the others predict them."""
        codes = self.codes(views)
        seen = list(observed.unbind(1))
        if self.graph == "complete":
            predicted = [self._mean_prediction(target, codes, seen) for target in range(self.n_views)]
            return torch.stack([_where(*each) for each in zip(seen, codes, predicted, strict=True)], 1)
        core = _where(seen[self.core], codes[self.core], self._mean_prediction(self.core, codes, seen))
        return torch.stack(
            [
                core if v == self.core else _where(seen[v], codes[v], self.predict(self.core, v, core))
                for v in range(self.n_views)
            ],
            dim=1,
        )

    def _mean_prediction(self, target: int, codes: Sequence[Tensor], seen: Sequence[Tensor]) -> Tensor:
        """Return the mean of a target's code (N, L) as predicted from the other views that a sample has."""
        total, count = torch.zeros_like(codes[target]), torch.zeros_like(codes[target][:, :1])
        for source, (code, has) in enumerate(zip(codes, seen, strict=True)):
            if source != target:
                total = total + _where(has, self.predict(source, target, code), torch.zeros_like(code))
                count = count + has.unsqueeze(-1)
        return total / count.clamp(min=1.0)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the completed codes side by side."""
        return side_by_side(self.completed(views, observed), observed)

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return the centres of the clusters, ``"means"``; the mixture has no other meaning here."""
        return {"means": self.prior.means.cpu().numpy()}


def _where(has: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(has.unsqueeze(-1), yes, no)
