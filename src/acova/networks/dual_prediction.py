"""The network of DCP: codes on the simplex, alike across views, and predictors from one view's code to another's."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from acova.functional import Fused, mean_errors, mutual_information
from acova.networks.donors import side_by_side
from acova.networks.mixture_prior import MixturePrior
from acova.networks.towers import Tower, round_products

GRAPHS = ("core", "complete")
OUTPUT_ENDS = ("relu", "linear")
_PREDICTOR = (128, 256, 128, 256, 128)
_FURTHER_PAIRS = 0.1
"""Weight of the contrast of all pairs of views but the first."""


class DualPrediction(nn.Module):
    """An encoder and a decoder per view, and a predictor for each direction between views that are linked.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
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
            {
                f"{one}_{other}": tower([latent_dim, *_PREDICTOR, latent_dim])
                for pair in self.pairs
                for one, other in (pair, pair[::-1])
            }
        )
        self.prior = MixturePrior(n_clusters, self.n_views * latent_dim)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The views that are linked."""
        if self.graph == "core":
            return [(self.core, other) for other in range(self.n_views) if other != self.core]
        return [(one, other) for one in range(self.n_views) for other in range(one + 1, self.n_views)]

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.prior.renumber(order)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round products to this type in training."""
        round_products(self, dtype)

    def codes(self, views: Sequence[Tensor], weights: Tensor | None = None, *, keep: bool = False) -> list[Tensor]:
        """Return every view's code (N, L), positive numbers that sum to 1; `weights` as for `BatchNorm`."""
        return [
            encoder(view, weights, keep=keep).softmax(-1) for encoder, view in zip(self.encoders, views, strict=True)
        ]

    def predict(
        self, one: int, other: int, code: Tensor, weights: Tensor | None = None, *, keep: bool = False
    ) -> Tensor:
        """Return what the code of one view says of another's, (N, L)."""
        found: Tensor = self.predictors[f"{one}_{other}"](code, weights, keep=keep).softmax(-1)
        return found

    def loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None, *, predicts: bool = True
    ) -> dict[str, Tensor]:
        """Return the objective of the batch and its parts, the same for every sample; complete samples alone count.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
        observed : Tensor of bool, shape (N, V)
        noise : ignored
        predicts : bool
            Whether the predictors are trained.
        """
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
            both = [direction for pair in self.pairs for direction in (pair, pair[::-1])]
            misses = [
                mean_errors(codes[other], self.predict(one, other, codes[one], rows), rows) for one, other in both
            ]
            parts["prediction"] = torch.stack([nothing, *misses]).sum() / links
            total = total + self.prediction_weight * parts["prediction"]
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    @torch.no_grad()
    def settle(self, views: Sequence[Tensor]) -> None:
        """Keep the statistics of complete samples, by which predictions are normalised."""
        rows = torch.ones(len(views[0]), dtype=views[0].dtype, device=views[0].device)
        codes = self.codes(views, rows, keep=True)
        for pair in self.pairs:
            for one, other in (pair, pair[::-1]):
                self.predict(one, other, codes[one], rows, keep=True)

    def completed(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return all codes (N, V, L), those of missing views as the others predict them."""
        codes = self.codes(views)
        seen = list(observed.unbind(1))
        if self.graph == "complete":
            told = [self._told(target, codes, seen) for target in range(self.n_views)]
            return torch.stack([_where(has, code, said) for has, code, said in zip(seen, codes, told, strict=True)], 1)
        core = _where(seen[self.core], codes[self.core], self._told(self.core, codes, seen))
        return torch.stack(
            [
                core if v == self.core else _where(seen[v], codes[v], self.predict(self.core, v, core))
                for v in range(self.n_views)
            ],
            dim=1,
        )

    def _told(self, target: int, codes: Sequence[Tensor], seen: Sequence[Tensor]) -> Tensor:
        """Return the mean of what the views that a sample has say of a target, (N, L)."""
        said, count = torch.zeros_like(codes[target]), torch.zeros_like(codes[target][:, :1])
        for source, (code, has) in enumerate(zip(codes, seen, strict=True)):
            if source != target:
                said = said + _where(has, self.predict(source, target, code), torch.zeros_like(code))
                count = count + has.unsqueeze(-1)
        return said / count.clamp(min=1.0)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the completed codes side by side."""
        return side_by_side(self.completed(views, observed), observed)


def _where(has: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(has.unsqueeze(-1), yes, no)
