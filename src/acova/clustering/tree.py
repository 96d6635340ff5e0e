"""Clusters at every scale: the most alike merged, one pair after the other."""

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster

from acova.clustering.nearest import Floats
from acova.clustering.numbering import cluster_order, renumbered


def ward_tree(means: Floats, sizes: NDArray[np.int64]) -> Floats:
    """Return the merges of clusters that cost least, (K - 1, 4), as scipy's `linkage` has them.

    Merging two clusters costs the variance between their means (Ward, 1963). A merge's height is the share of the
    variance between all clusters that is lost with it and with the merges before it: the last one has height 1.

    Parameters
    ----------
    means : array of shape (K, D)
        Of each cluster; a cluster without samples costs nothing.
    sizes : array of int, shape (K,)

    Returns
    -------
    array of shape (K - 1, 4)
        Per merge: the two clusters (of merged ones K, K + 1, … in order), the height, and how many clusters it joins.
    """
    count = len(sizes)
    means, weights = means.astype(np.float64), sizes.astype(np.float64)
    names, leaves = np.arange(count), np.ones(count)
    merges = np.zeros((max(count - 1, 0), 4))
    for step in range(count - 1):
        a, b, cost = _cheapest(means, weights)
        total = weights[a] + weights[b]
        if total > 0:
            means[a] = (weights[a] * means[a] + weights[b] * means[b]) / total
        weights[a], leaves[a] = total, leaves[a] + leaves[b]
        merges[step] = (*sorted((names[a], names[b])), cost, leaves[a])
        names[a] = count + step
        means, weights = np.delete(means, b, axis=0), np.delete(weights, b)
        names, leaves = np.delete(names, b), np.delete(leaves, b)
    lost = np.cumsum(merges[:, 2])
    merges[:, 2] = lost / lost[-1] if count > 1 and lost[-1] > 0 else 0.0
    return merges


def _cheapest(means: Floats, weights: Floats) -> tuple[int, int, float]:
    """Return the two clusters whose merging costs least, the first pair of equals, and the cost."""
    first, second = np.triu_indices(len(weights), 1)
    together = weights[first] * weights[second] / np.maximum(weights[first] + weights[second], 1.0)
    costs = together * np.square(means[first] - means[second]).sum(axis=1)
    best = int(costs.argmin())
    return int(first[best]), int(second[best]), float(costs[best])


def cut_tree(merges: Floats, labels: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Return the groups (n,) of samples when clusters are merged until so many groups are left, the largest first."""
    count = len(merges) + 1
    if count == 1:
        return np.zeros_like(labels)
    ranked = merges.copy()
    ranked[:, 2] = np.arange(1, count)  # equal heights are cut in the order of the merges
    group = fcluster(ranked, count - n_groups + 0.5, criterion="distance") - 1
    found = group[labels]
    return np.asarray(renumbered(found, cluster_order(found, n_groups)), dtype=np.int64)
