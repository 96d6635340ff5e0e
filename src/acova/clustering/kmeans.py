"""k-means whose clusters have canonical numbers."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from acova.clustering.numbering import cluster_order, renumbered

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Partition:
    """What k-means found in points (N, D), with the clusters in the order of `cluster_order`.

    Attributes
    ----------
    labels : array of shape (N,)
    centers : array of shape (K, D)
        Where fewer than K points differ, every one of them is a centre, some of them twice; only the first of equal
        centres has points.
    inertia : float
        Weighted sum of the squared distances to the centres.
    n_iter : int
        Iterations of the best restart.
    n_distinct : int
        Number of centres that differ.
    converged : bool
        Whether the best restart ended before its last iteration.
    """

    labels: NDArray[np.intp]
    centers: NDArray[np.float64]
    inertia: float
    n_iter: int
    n_distinct: int
    converged: bool


def k_means(
    points: NDArray[np.float64],
    n_clusters: int,
    seed: int,
    n_init: int = 10,
    weights: NDArray[np.float64] | None = None,
) -> Partition:
    """Return the best of several k-means fits; on one thread it is the same for the same seed.

    Parameters
    ----------
    points : array of shape (N, D)
    n_clusters, seed, n_init : int
    weights : array of shape (N,), optional
        How much each point counts; alike by default.
    """
    count = _count_distinct(points, n_clusters)
    fitted = KMeans(count, n_init=n_init, random_state=seed % 2**32).fit(points, sample_weight=weights)
    found = _in_order(points, fitted, np.ones(len(points)) if weights is None else weights)
    return replace(found, centers=found.centers[np.arange(n_clusters) % count])


def _count_distinct(points: NDArray[np.float64], most: int) -> int:
    """Return the number of distinct rows, or `most` where there are at least as many."""
    seen: set[bytes] = set()
    for row in points + 0.0:  # 0.0 and -0.0 are equal
        seen.add(row.tobytes())
        if len(seen) >= most:
            break
    return len(seen)


def _in_order(points: NDArray[np.float64], found: KMeans, weights: NDArray[np.float64]) -> Partition:
    """Return what k-means found with canonical numbers, the same bits whichever restart found the clusters."""
    order = cluster_order(found.labels_, found.n_clusters)
    labels = renumbered(found.labels_, order)
    centers = np.array(found.cluster_centers_[order], dtype=np.float64)
    # Centres are sums in the order of the restart's numbers. They are taken anew, in the new order, where k-means
    # has converged; where it stopped by its tolerance, its centres are not yet the means of the clusters.
    member = weights[:, None] * np.eye(found.n_clusters)[labels]
    means = member.T @ points / np.maximum(member.sum(axis=0), np.finfo(np.float64).tiny)[:, None]
    same = np.isclose(means, centers, rtol=1e-9, atol=1e-9 * np.abs(points).max()).all(axis=1)
    centers[same] = means[same]
    inertia = float(weights @ np.square(points - centers[labels]).sum(axis=1))
    n_iter = int(found.n_iter_)
    return Partition(labels, centers, inertia, n_iter, found.n_clusters, n_iter < found.max_iter)
