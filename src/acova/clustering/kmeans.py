"""k-means with canonical numbers: of points as they are, or in the scaling under which a mixture is likeliest."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor

from acova.clustering.numbering import cluster_order, renumbered
from acova.engine.parallel import single_threaded
from acova.functional import log_joint

_ROWS = 10_000
"""Samples that clusters are looked for in, evenly spread where there are more."""
_POWERS, _RESTARTS = (0.0, 0.5, 1.0), 10
_LEAST_SHARE = 1e-4
"""Least variance of a cluster, as a share of that of all samples."""


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


def likely_clusters(mean: NDArray[np.float64], n_clusters: int, seed: int) -> NDArray[np.intp]:
    """Return the clusters (N,) of the k-means under which a diagonal Gaussian mixture is likeliest, largest first.

    The latent dimensions differ in spread, and a wide one need not be the one that tells clusters apart. So k-means is
    tried with the dimensions as they are, divided by the root of their standard deviation, and divided by it, ten times
    each; what is compared is the likelihood of the prior's own family, which does not depend on the scale.

    Parameters
    ----------
    mean : array of shape (N, D)
        Latent means.
    n_clusters, seed : int
    """
    rows = mean if len(mean) <= _ROWS else mean[np.arange(_ROWS) * len(mean) // _ROWS]
    spread = np.maximum(rows.std(axis=0), np.finfo(np.float32).tiny)
    tried = (
        (k_means(rows / scale, n_clusters, seed + number, n_init=1), scale)
        for scale in (spread**power for power in _POWERS)
        for number in range(_RESTARTS)
    )
    # The same clusters have the same likelihood to the last bit, and of equals `max` returns the first.
    found, scale = max(tried, key=lambda each: mixture_likelihood(rows, each[0].labels, n_clusters))
    if rows is mean:
        return found.labels
    labels = pairwise_distances_argmin(mean / scale, found.centers)
    return renumbered(labels, cluster_order(labels, n_clusters))


def mixture_likelihood(points: NDArray[np.float64], labels: NDArray[np.integer[Any]], n_clusters: int) -> float:
    """Return the mean log density of points (N, D) under equally weighed Gaussians fitted to their clusters."""
    member = np.eye(n_clusters)[labels]
    floor = _LEAST_SHARE * points.var(axis=0)
    means, variances = components_around(points, np.broadcast_to(floor, points.shape), member)
    joint = log_joint(*map(torch.from_numpy, (points, np.full(n_clusters, -np.log(n_clusters)), means, variances)))
    return float(joint.logsumexp(-1).mean())


def components_around(
    mean: NDArray[np.float64], variance: NDArray[np.float64], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and variances (K, D) of given clusters, from the posteriors of their samples.

    A component's variance is that of its samples' means plus their average posterior variance. Weights
    stay equal: a start from cluster sizes lets a small first cluster die out.

    Parameters
    ----------
    mean, variance : arrays of shape (N, D)
    shares : array of shape (N, K)
        How much of each sample belongs to each cluster.
    """
    size = np.maximum(shares.sum(axis=0)[:, None], np.finfo(np.float32).tiny)
    centres = shares.T @ mean / size
    second = shares.T @ (np.square(mean) + variance) / size
    return centres, np.maximum(second - np.square(centres), shares.T @ variance / size)


def k_means_centers(points: Tensor, n_clusters: int, seed: int) -> Tensor:
    """Return the centres (K, D) that k-means finds in points (N, D); with few points, some of them twice."""
    rows = points.double().cpu().numpy()
    count = min(n_clusters, len(rows))
    centers = torch.from_numpy(round_clusters(rows, count, seed)[0]).to(points)
    return centers[torch.arange(n_clusters, device=points.device) % count]


def round_clusters(
    points: NDArray[np.float64], n_clusters: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres (K, D) of a k-means and one variance for all of them, the mean squared distance."""
    with single_threaded():
        found = k_means(points, n_clusters, seed)
    return found.centers, np.full_like(found.centers, max(found.inertia / points.size, 1e-6))
