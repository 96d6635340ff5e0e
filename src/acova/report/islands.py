"""The islands of each cluster on the map: where its number is written, and whether it may be two groups."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

_NEAR = 5
"""The neighbour whose usual distance tells how dense the map is."""
_GAP = 3.0
"""Times that distance from which on two points of a cluster are not connected."""
_LEAST, _LEAST_SHARE = 10, 0.1
"""Samples, and share of its cluster, that the second island needs to be reported."""
_NEIGHBOURS, _LINKED = 15, 0.05
"""Neighbours in the latent space that are looked at, and the share of links between islands that makes them one."""


@dataclass(frozen=True)
class Islands:
    """Connected groups of each cluster's points.

    Attributes
    ----------
    middles : array of int, shape (n_clusters,)
        Position of the point in the densest part of the cluster's largest island; -1 for a cluster without points.
    split : dict of cluster → (share of the largest island, share of the second)
        The clusters whose second island is large, and apart from the largest one in the latent space too.
    """

    middles: NDArray[np.intp]
    split: dict[int, tuple[float, float]]


def find_islands(
    points: NDArray[np.float64], latent: NDArray[np.float64], labels: NDArray[np.int64], n_clusters: int
) -> Islands:
    """Return the islands of clusters on a map.

    Parameters
    ----------
    points : array of shape (n, 2)
    latent : array of shape (n, D)
        The vectors that the points stand for: a map may tear a group apart that is whole in the latent space.
    labels : array of int, shape (n,)
    n_clusters : int
    """
    middles = np.full(n_clusters, -1, dtype=np.intp)
    split: dict[int, tuple[float, float]] = {}
    reach = _GAP * _usual_distance(points)
    for cluster in range(n_clusters):
        own = np.flatnonzero(labels == cluster)
        if not len(own):
            continue
        island = _connected(points[own], reach)
        sizes = np.bincount(island)
        order = np.argsort(-sizes, kind="stable")
        largest = own[island == order[0]]
        middles[cluster] = largest[_densest(points[largest], reach)]
        if len(sizes) < 2 or sizes[order[1]] < max(_LEAST, _LEAST_SHARE * len(own)):
            continue
        second = own[island == order[1]]
        if _share_of_links(latent[second], latent[largest]) < _LINKED:
            split[cluster] = len(largest) / len(own), len(second) / len(own)
    return Islands(middles, split)


def _usual_distance(points: NDArray[np.float64]) -> float:
    """Return the median distance to the fifth neighbour; points that lie on each other count once."""
    distinct = np.unique(points, axis=0)
    if len(distinct) <= _NEAR:
        return 0.0
    return float(np.median(cKDTree(distinct).query(distinct, _NEAR + 1)[0][:, _NEAR]))


def _densest(points: NDArray[np.float64], reach: float) -> int:
    """Return the point with the most others around it; of equals the one nearest to the middle of all."""
    around = cKDTree(points).query_ball_point(points, 2 * reach, return_length=True)
    off = np.square(points - np.median(points, axis=0)).sum(axis=1)
    return int(np.lexsort((off, -around))[0])


def _connected(points: NDArray[np.float64], reach: float) -> NDArray[np.int32]:
    """Return the connected component of each point when points within `reach` are connected."""
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
    count = len(points)
    ends = pairs.astype(np.int32)  # which every version of scipy takes
    links = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    found: NDArray[np.int32] = connected_components(links, directed=False)[1]
    return found


def _share_of_links(small: NDArray[np.float64], large: NDArray[np.float64]) -> float:
    """Return the share of the neighbours of a smaller group that belong to the larger one."""
    both = np.concatenate([small, large])
    if not np.isfinite(both).all():
        return 1.0  # nothing can be said
    count = min(_NEIGHBOURS, len(both) - 1)
    near = cKDTree(both).query(small, count + 1)[1][:, 1:]
    return float((near >= len(small)).mean())
