"""One result from several runs: clusters matched between runs, assignments averaged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from acova.networks.base import ClusteringNetwork

_ROUNDS = 20
_EQUAL = 1e-6
"""Share by which agreements must differ; rounding does not decide between runs that agree equally well."""


@dataclass(frozen=True)
class Ensemble:
    """Networks whose assignments are averaged; one alone speaks for itself.

    Attributes
    ----------
    networks : sequence of R networks
    orders : array of int, shape (R, K)
        ``orders[r, k]`` is the cluster of run r that is cluster k of the result.
    reference : int
        The run that the others are closest to; its latent space is shown.
    """

    networks: Sequence[ClusteringNetwork]
    orders: NDArray[np.int64]
    reference: int = 0

    @classmethod
    def of_one(cls, network: ClusteringNetwork) -> "Ensemble":
        """Return what a single network says."""
        return cls([network], np.arange(network.n_clusters)[None])

    def renumbered(self, order: NDArray[np.intp]) -> "Ensemble":
        """Give cluster ``order[k]`` of the result the number k, in every network as well, which is changed in place."""
        for network, names in zip(self.networks, self.orders, strict=True):
            network.renumber(torch.from_numpy(names[order]).to(network.prior.logits.device))
        same = np.broadcast_to(np.arange(len(order)), self.orders.shape)
        return Ensemble(self.networks, same.copy(), self.reference)

    def learned(self) -> dict[str, NDArray[np.float64]]:
        """Return what the reference run learned, by name; its correlations are the means over the runs."""
        found = self.network.learned()
        if self.network.correlates:
            matrices = np.mean([each.correlation().cpu().numpy() for each in self.networks], axis=0)
            found["correlations"] = np.asarray(matrices.reshape(-1, *matrices.shape[-2:]))
            found["correlation"] = found["correlations"].mean(axis=0)
        return found

    @property
    def network(self) -> ClusteringNetwork:
        """The network of the reference run."""
        return self.networks[self.reference]


def overlaps(chunks: Iterable[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Return ``o[r, s, i, j]``, how much cluster i of run r and cluster j of run s have in common.

    Parameters
    ----------
    chunks : iterable of arrays of shape (R, n, K)
        Every run's cluster probabilities of consecutive samples.
    """
    total: NDArray[np.float64] | float = 0.0
    shape = (0, 0)
    for chunk in chunks:
        n_runs, count, n_clusters = chunk.shape
        shape = (n_runs, n_clusters)
        flat = chunk.astype(np.float64).transpose(0, 2, 1).reshape(n_runs * n_clusters, count)
        total = total + flat @ flat.T
    n_runs, n_clusters = shape
    return np.asarray(total).reshape(n_runs, n_clusters, n_runs, n_clusters).transpose(0, 2, 1, 3)


def match_runs(overlap: NDArray[np.float64], n_classes: int = 0) -> tuple[int, NDArray[np.int64]]:
    """Return the run that agrees most with all others, and every run's clusters in the order of that one's.

    Runs are first matched to that run by the Hungarian method, then each to the sum of the others until none changes.

    Parameters
    ----------
    overlap : array of shape (R, R, K, K)
        See `overlaps`.
    n_classes : int
        The first clusters, those of known classes, are the same in all runs.

    Returns
    -------
    reference : int
    orders : array of shape (R, K)
    """
    runs = range(len(overlap))
    if n_classes:  # more than all samples can outweigh
        same = np.arange(n_classes)
        overlap = overlap.copy()
        overlap[:, :, same, same] += 1 + overlap[0, 0].sum()
    pairs = [[_matched(overlap[r, s]) for s in runs] for r in runs]
    shared = np.array([[_shared(overlap[r, s], pairs[r][s]) for s in runs] for r in runs])
    totals = shared.sum(axis=1)
    reference = int(np.flatnonzero(totals >= (1 - _EQUAL) * totals.max())[0])
    orders = np.array(pairs[reference])
    for _ in range(_ROUNDS):
        before = orders.copy()
        for r in runs:
            if r != reference:
                orders[r] = _matched(np.sum([overlap[s, r][orders[s]] for s in runs if s != r], axis=0))
        if (orders == before).all():
            break
    return reference, orders


def _matched(overlap: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column that belongs to each row of a square table when the sum of the chosen cells is largest."""
    columns: NDArray[np.int64] = linear_sum_assignment(overlap, maximize=True)[1]
    return columns


def _shared(overlap: NDArray[np.float64], columns: NDArray[np.int64]) -> float:
    return float(np.take_along_axis(overlap, columns[:, None], axis=1).sum())
