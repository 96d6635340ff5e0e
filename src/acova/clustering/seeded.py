"""k-means in which some points have their cluster from the start (Basu et al., 2002)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from acova.base import TrainingError
from acova.clustering.kmeans import Floats, Partition, k_means
from acova.clustering.numbering import cluster_order, order_after, renumbered

_MOST_ITERATIONS = 300
_TINY = float(np.finfo(np.float64).tiny)


def known_among(known: NDArray[np.int64] | None, rows: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the known clusters of some samples, which must have one of every class."""
    if known is None:
        return None
    chosen, n_classes = known[rows], int(known.max()) + 1
    counts = np.bincount(chosen[chosen >= 0], minlength=n_classes)
    if not counts.all():
        msg = (
            f"clusters are looked for among {len(chosen)} of {len(known)} samples, and label number "
            f"{int(counts.argmin())} of {n_classes} in y has none there; label more samples of it."
        )
        raise TrainingError(msg)
    return np.asarray(chosen)


def labels_in_order(
    labels: NDArray[np.intp], n_clusters: int, known: NDArray[np.int64] | None = None
) -> NDArray[np.intp]:
    """Return labels (N,) with the largest cluster first; with `known` ones, which then are theirs, as they are."""
    if known is None:
        return renumbered(labels, cluster_order(labels, n_clusters))
    return np.where(known >= 0, known, labels)


def seeded_k_means(
    points: Floats,
    n_clusters: int,
    seed: int,
    known: NDArray[np.int64],
    n_init: int = 10,
    weights: Floats | None = None,
) -> Partition:
    """Return the better of two k-means whose known points stay in their clusters.

    One starts from the clusters that `k_means` finds, matched to the known points, which suits few of them; the other
    from the means of the known points. The one with the smaller inertia is returned.

    Parameters
    ----------
    points : array of shape (N, D)
    n_clusters, seed : int
    known : array of int, shape (N,)
        Cluster of each known point, 0 to C - 1 and C at most `n_clusters`; -1 for the others. Clusters from C on come
        by their sizes.
    n_init : int
        Of the `k_means`.
    weights : array of shape (N,), optional
        How much each point counts; alike by default.
    """
    weights = np.ones(len(points)) if weights is None else weights
    free = k_means(points, n_clusters, seed, n_init, weights)
    starts = _matched(free, known), _means_of_known(points, free.centers, known, weights)
    return min((_settled(points, start, known, weights) for start in starts), key=lambda found: found.inertia)


def _matched(free: Partition, known: NDArray[np.int64]) -> Floats:
    """Return the centres with those first that hold most known points of each class."""
    n_classes = known.max() + 1
    counts = np.zeros((n_classes, len(free.centers)), dtype=np.int64)
    np.add.at(counts, (known[known >= 0], free.labels[known >= 0]), 1)
    chosen = linear_sum_assignment(counts, maximize=True)[1]
    rest = np.setdiff1d(np.arange(len(free.centers)), chosen)
    return np.asarray(free.centers[np.concatenate([chosen, rest])])


def _means_of_known(points: Floats, centers: Floats, known: NDArray[np.int64], weights: Floats) -> Floats:
    """Return the means of the classes, and after them those of the centres that are furthest from all before."""
    chosen = _means(points, known, weights, np.zeros((known.max() + 1, points.shape[1])))
    while len(chosen) < len(centers):
        apart = np.square(centers[:, None] - chosen).sum(axis=2).min(axis=1)
        chosen = np.vstack([chosen, centers[apart.argmax()]])
    return np.asarray(chosen)


def _settled(points: Floats, centers: Floats, known: NDArray[np.int64], weights: Floats) -> Partition:
    """Return where Lloyd's algorithm ends that begins with these centres."""
    n_clusters, labels, is_known = len(centers), np.full(len(points), -1), known >= 0
    iteration, settled = 0, False
    while not settled and iteration < _MOST_ITERATIONS:
        before, iteration = labels, iteration + 1
        labels = (0.5 * np.square(centers).sum(axis=1) - points @ centers.T).argmin(axis=1)
        labels[is_known] = known[is_known]
        settled = bool((labels == before).all())
        centers = _means(points, labels, weights, centers)
    order = order_after(labels, n_clusters, int(known.max()) + 1)
    labels, centers = renumbered(labels, order), centers[order]
    inertia = float(weights @ np.square(points - centers[labels]).sum(axis=1))
    return Partition(labels, centers, inertia, iteration, len(np.unique(centers, axis=0)), settled)


def _means(points: Floats, labels: NDArray[np.int64], weights: Floats, otherwise: Floats) -> Floats:
    """Return the means of the clusters (K, D) of the points whose label is not negative; empty ones stay."""
    own = labels >= 0
    member = weights[own, None] * np.eye(len(otherwise))[labels[own]]
    sizes = member.sum(axis=0)[:, None]
    return np.where(sizes > 0, member.T @ points[own] / np.maximum(sizes, _TINY), otherwise)
