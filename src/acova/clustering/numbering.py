"""The numbers of clusters: the largest cluster is number 0.

Clusters come out of k-means in an order that rounding decides, so the same clusters would get other numbers on another
machine. Here their numbers depend on the partition alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.data.stored import BLOCK
from acova.data.summary import labels_between

ROUNDS = 4
"""How often a result is renumbered at most.

Renumbering changes the order of sums, so a sample exactly between two clusters may change sides, and sizes with it.
"""


def cluster_order(labels: NDArray[Any], n_clusters: int) -> NDArray[np.intp]:
    """Return the clusters from the largest to the smallest; of equal ones, the one with the earlier first sample first.

    Empty clusters come last and keep their order.

    Parameters
    ----------
    labels : array of shape (n_samples,)
        In the canonical order of the samples.
    n_clusters : int

    Returns
    -------
    array of shape (n_clusters,)
        ``order[k]`` is the present number of the cluster that becomes number k.
    """
    sizes = np.zeros(n_clusters, dtype=np.int64)
    first = np.full(n_clusters, len(labels), dtype=np.int64)
    for start in range(0, len(labels), BLOCK):
        piece = labels_between(labels, start, min(start + BLOCK, len(labels)))
        sizes += np.bincount(piece, minlength=n_clusters)
        present, at = np.unique(piece, return_index=True)
        first[present] = np.minimum(first[present], start + at)
    return np.lexsort((first, -sizes))


def order_after(labels: NDArray[Any], n_clusters: int, n_classes: int) -> NDArray[np.intp]:
    """Return the order in which the first clusters, those of classes, stay and the others follow by `cluster_order`."""
    order = cluster_order(labels, n_clusters)
    return np.concatenate([np.arange(n_classes), order[order >= n_classes]])


def renumbered(labels: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the labels after the clusters were brought into an order."""
    numbers: NDArray[np.intp] = np.argsort(order)[labels]
    return numbers


def is_in_order(order: NDArray[np.intp]) -> bool:
    """Return whether the clusters have the numbers they should have."""
    return bool((order == np.arange(len(order))).all())
