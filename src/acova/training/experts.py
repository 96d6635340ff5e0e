"""Several predictions of a view from a sample's other views: decoders, latent neighbours, regressions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from torch import Tensor

from acova.base import Streams
from acova.functional import Batch, reparameterise
from acova.networks import MultiViewVAE
from acova.training.consensus import Ensemble

Array = NDArray[np.floating[Any]]
_PAIRS = 4
"""Pairs of opposite draws from a posterior over which what is decoded is averaged."""
_NEIGHBOURS = 10
_PENALTIES = (0.01, 0.1, 1.0, 10.0)
"""Ridge penalties, as shares of the kernel's mean diagonal."""
EXPERTS = (
    *("decoder", "neighbours"),
    *(f"{kind} {penalty:g}" for kind in ("regression", "correction") for penalty in _PENALTIES),
)
"""What `Experts.predict` returns, in this order."""
DECODED = ("gaussian", "bernoulli", "laplace")
"""Likelihoods whose views are decoded to their mean in scaled units."""
MAX_DONORS = 3000
"""Samples that lend values and that regressions learn from; with more, evenly spread ones stand for all."""


@dataclass(frozen=True)
class Decoded:
    """What an ensemble decodes some samples to, in scaled units.

    Attributes
    ----------
    means : list of V arrays of shape (n, P_v)
        Averaged over draws from the posteriors and over the networks.
    variances : list of V arrays of shape (n, P_v)
        Between draws and between networks.
    latents : list of R arrays of shape (n, D)
        The networks' posterior means.
    """

    means: list[Array]
    variances: list[Array]
    latents: list[Array]


def mean_of(output: Tensor, likelihood: str) -> Tensor:
    """Return the mean of a view given what its decoder says."""
    return output.sigmoid() if likelihood == "bernoulli" else output


@torch.no_grad()
def decode(ensemble: Ensemble, likelihoods: Sequence[str], batch: Batch, streams: Streams) -> Decoded:
    """Decode draws from the posteriors of some samples.

    Every sample has the same standard normal numbers, each with its opposite, so what it is decoded to depends neither
    on the samples beside it nor on the size of a chunk.
    """
    sums: list[Tensor] = []
    squares: list[Tensor] = []
    latents = []
    wide = wide_type(batch.observed.device)
    count = 2 * _PAIRS * len(ensemble.networks)
    for run, network in enumerate(cast("Sequence[MultiViewVAE]", ensemble.networks)):
        posterior = network.posterior(batch.views, batch.observed)
        latents.append(posterior.mean.cpu().numpy())
        noise = streams.numpy("posterior", run).standard_normal((_PAIRS, network.latent_dim)).astype(np.float32)
        for draw in torch.from_numpy(np.concatenate([noise, -noise])).to(posterior.mean.device):
            latent = reparameterise(posterior.mean, posterior.variance, draw)
            outputs = decode_latent(network, latent, likelihoods, network.covariates_in(batch.views))
            means = [output.to(wide) for output in outputs]
            sums = [total + mean for total, mean in zip(sums, means, strict=True)] if sums else means
            new = [mean.square() for mean in means]
            squares = [total + square for total, square in zip(squares, new, strict=True)] if squares else new
    averages = [total / count for total in sums]
    variances = [
        (square / count - mean.square()).clamp(min=0).cpu().numpy()
        for square, mean in zip(squares, averages, strict=True)
    ]
    return Decoded([mean.cpu().numpy() for mean in averages], variances, latents)


def wide_type(device: torch.device) -> torch.dtype:
    """Return the type of sums: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def decode_latent(
    network: Any, latent: Tensor, likelihoods: Sequence[str], covariates: Tensor | None = None
) -> list[Tensor]:
    """Return the mean of every view (N, P_v) given latent vectors (N, D) and covariates, in scaled units."""
    everything = torch.ones(len(latent), len(likelihoods), dtype=torch.bool, device=latent.device)
    outputs = network.decode([latent] * len(likelihoods), everything, covariates)
    return [mean_of(output, likelihood) for output, likelihood in zip(outputs, likelihoods, strict=True)]


def noisy(decoded: Array, likelihood: str, residual: Array | None, numbers: np.random.Generator) -> NDArray[np.float64]:
    """Return draws around decoded means (n, P), by the measured variance of the errors (P,) or the likelihood's."""
    if likelihood == "bernoulli":
        return (numbers.random(decoded.shape) < decoded).astype(np.float64)
    if residual is None and likelihood == "laplace":
        return np.asarray(decoded + numbers.laplace(size=decoded.shape))
    spread = np.sqrt(0.5 if residual is None else residual)
    return np.asarray(decoded + spread * numbers.standard_normal(decoded.shape))


def can_decode(ensemble: Ensemble) -> bool:
    """Tell whether the networks decode the fused posterior of a sample."""
    return isinstance(ensemble.network, MultiViewVAE)


class Donors:
    """Samples that lend what they have to others: residuals of neighbours, and rows to regress on.

    Parameters
    ----------
    views : sequence of V arrays of shape (N, P_v)
        Scaled; hidden rows are zero, and missing cells of observed rows NaN, which get what they are decoded to.
    observed : array of bool, shape (N, V)
    decoded : Decoded
        What the ensemble decodes the samples to.
    """

    def __init__(self, views: Sequence[Array], observed: NDArray[np.bool_], decoded: Decoded) -> None:
        views = [np.where(np.isnan(view), mean, view) for view, mean in zip(views, decoded.means, strict=True)]
        self.views, self.observed, self.decoded = views, observed, decoded
        self.centers = [view[seen].mean(axis=0, dtype=np.float64) for view, seen in zip(views, observed.T, strict=True)]
        spreads = [view[seen].var(axis=0, dtype=np.float64).sum() for view, seen in zip(views, observed.T, strict=True)]
        self._spreads = [max(float(spread), float(np.finfo(np.float32).tiny)) for spread in spreads]
        self._factors: dict[int, tuple[NDArray[np.intp], list[NDArray[np.float64]]]] = {}

    def predict(self, v: int, views: Sequence[Array], observed: NDArray[np.bool_], decoded: Decoded) -> Array:
        """Return what every expert says of view v of some samples, (C, n, P_v), less the view's mean.

        Parameters
        ----------
        v : int
        views : sequence of V arrays of shape (n, P_v)
            Scaled. View v itself is not read.
        observed : array of bool, shape (n, V)
        decoded : Decoded
            What the ensemble decodes these samples to.
        """
        plain = decoded.means[v] - self.centers[v]
        near = plain + self._residuals_of_neighbours(v, decoded.latents)
        regressed = self._regressions(v, views, observed)
        half = len(_PENALTIES)
        return np.stack([plain, near, *regressed[:half], *(plain + part for part in regressed[half:])])

    def _residuals_of_neighbours(self, v: int, latents: Sequence[Array]) -> Array:
        """Return the mean residual of the donors whose latent vectors are nearest, averaged over the networks."""
        rows = np.flatnonzero(self.observed[:, v])
        residuals = self.views[v][rows] - self.decoded.means[v][rows]
        total = np.zeros((len(latents[0]), residuals.shape[1]))
        for latent, theirs in zip(latents, self.decoded.latents, strict=True):
            distances = cdist(latent, theirs[rows], "sqeuclidean")
            nearest = np.argsort(distances, axis=1, kind="stable")[:, :_NEIGHBOURS]
            for place in range(nearest.shape[1]):
                total += residuals[nearest[:, place]]
        mean: Array = total / (nearest.shape[1] * len(latents))
        return mean

    def _regressions(self, v: int, views: Sequence[Array], observed: NDArray[np.bool_]) -> list[Array]:
        """Return ridge regressions on the other views, of the view and then of the decoder's residual."""
        if v not in self._factors:
            self._factors[v] = self._solved(v)
        rows, coefficients = self._factors[v]
        of_rows = [view[rows] for view in self.views]
        kernel = self._kernel(v, views, observed, of_rows, self.observed[rows])
        return [kernel @ part for part in coefficients]

    def _solved(self, v: int) -> tuple[NDArray[np.intp], list[NDArray[np.float64]]]:
        """Return the donors that have view v and another one, and the coefficients of every regression."""
        rows = np.flatnonzero(self.observed[:, v] & (self.observed.sum(axis=1) > 1))
        of_rows, seen = [view[rows] for view in self.views], self.observed[rows]
        kernel = self._kernel(v, of_rows, seen, of_rows, seen)
        level = max(float(np.trace(kernel)) / max(len(rows), 1), float(np.finfo(np.float32).tiny))
        targets = np.hstack([self.views[v][rows] - self.centers[v], self.views[v][rows] - self.decoded.means[v][rows]])
        width = self.views[v].shape[1]
        solved = [
            cho_solve(cho_factor(kernel + penalty * level * np.eye(len(rows))), targets) for penalty in _PENALTIES
        ]
        return rows, [part[:, :width] for part in solved] + [part[:, width:] for part in solved]

    def _kernel(
        self,
        v: int,
        left: Sequence[Array],
        left_seen: NDArray[np.bool_],
        right: Sequence[Array],
        right_seen: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the products of samples over the views that both have, v aside, in units of each view's variance."""
        total = np.zeros((len(left_seen), len(right_seen)))
        for u, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            if u == v:
                continue
            pair = [
                np.nan_to_num(np.where(seen[:, [u]], rows - self.centers[u], 0.0))
                for rows, seen in ((ours, left_seen), (theirs, right_seen))
            ]
            total += pair[0] @ pair[1].T / self._spreads[u]
        others = np.arange(len(left)) != v
        lengths = [np.sqrt(np.maximum(seen[:, others].sum(axis=1), 1.0)) for seen in (left_seen, right_seen)]
        scaled: NDArray[np.float64] = total / lengths[0][:, None] / lengths[1]
        return scaled
