"""Gaussian components around clusters, and the clusters under which a mixture of them is likeliest."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from acova.clustering.kmeans import Partition, k_means
from acova.clustering.seeded import known_among, labels_in_order, seeded_k_means
from acova.functional import log_joint

_ROWS = 10_000
"""Samples that clusters are looked for in, evenly spread where there are more."""
_POWERS, _RESTARTS = (0.0, 0.5, 1.0), 10
_LEAST_SHARE = 1e-4
"""Least variance of a cluster, as a share of that of all samples."""


def likely_clusters(
    mean: NDArray[np.float64], n_clusters: int, seed: int, known: NDArray[np.int64] | None = None
) -> NDArray[np.intp]:
    """Return the clusters (N,) of the k-means under which a diagonal Gaussian mixture is likeliest, largest first.

    The latent dimensions differ in spread, and a wide one need not be the one that tells clusters apart. So k-means is
    tried with the dimensions as they are, divided by the root of their standard deviation, and divided by it, ten times
    each; what is compared is the likelihood of the prior's own family, which does not depend on the scale.

    Parameters
    ----------
    mean : array of shape (N, D)
        Latent means.
    n_clusters, seed : int
    known : array of int, shape (N,), optional
        Clusters that stay, -1 where there is none, as for `seeded_k_means`.
    """
    chosen = np.arange(len(mean)) if len(mean) <= _ROWS else np.arange(_ROWS) * len(mean) // _ROWS
    rows = mean if len(chosen) == len(mean) else mean[chosen]
    seeds = known_among(known, chosen)
    spread = np.maximum(rows.std(axis=0), np.finfo(np.float32).tiny)
    tried = (
        (_clusters_of(rows / scale, n_clusters, seed + number, seeds), scale)
        for scale in (spread**power for power in _POWERS)
        for number in range(_RESTARTS)
    )
    # The same clusters have the same likelihood to the last bit, and of equals `max` returns the first.
    found, scale = max(tried, key=lambda each: mixture_likelihood(rows, each[0].labels, n_clusters))
    if rows is mean:
        return found.labels
    labels = pairwise_distances_argmin(mean / scale, found.centers)
    return labels_in_order(labels, n_clusters, known)


def _clusters_of(points: NDArray[np.float64], n_clusters: int, seed: int, known: NDArray[np.int64] | None) -> Partition:
    if known is None:
        return k_means(points, n_clusters, seed, n_init=1)
    return seeded_k_means(points, n_clusters, seed, known, n_init=1)


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


def round_components(found: Partition, n_samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres (K, D) of a k-means and one variance for all of them, the mean squared distance."""
    cells = n_samples * found.centers.shape[1]
    return found.centers, np.full_like(found.centers, max(found.inertia / cells, 1e-6))
