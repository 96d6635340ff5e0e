"""Clusters of a graph: the random walk on it as points, and k-means of these."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.neighbors import KNeighborsClassifier

from acova.base import TrainingError
from acova.clustering.graphs import STEPS, ViewGraph, neighbour_count
from acova.clustering.kmeans import Partition, k_means
from acova.clustering.nearest import Floats
from acova.clustering.seeded import known_among, labels_in_order, seeded_k_means
from acova.engine.parallel import single_threaded

LINKED = 5_000
"""Samples that are linked, evenly spread where there are more."""
_VIEWS_COUNT = 2.0
"""How much the links of the views count beside those of latent means."""
_MORE_VECTORS = 10
"""Eigenvectors of a graph beyond the number of clusters."""
_DENSE_UP_TO = 400
_EVERYWHERE = 1e-3
"""Weight of the links of every sample to all, as a share of its other links."""
_TOLERANCE = 1e-8
_LEAST_VALUE = 1e-3
"""Least eigenvalue, so that samples that only small ones tell apart differ."""
_TINY = float(np.finfo(np.float64).tiny)


@single_threaded()
def spectral_embedding(graph: sp.csr_matrix, n_clusters: int) -> Floats:
    """Return points (n, D) whose inner products say how alike three-step random walks from two samples are.

    They are the leading eigenvectors of the graph's normalised adjacency, each times its eigenvalue to the power of
    the steps (a diffusion map; Coifman and Lafon, 2006), in rows of length 1 (Ng et al., 2001). Ten eigenvectors more
    than clusters are taken: those that the walk forgets count little, and clusters need not be the first ones.

    A thousandth of the links is spread over all samples (Zhang and Rohe, 2018), so that the large parts of a graph
    that falls into many parts come first. Eigenvectors are determined up to a rotation among equal eigenvalues, which
    changes no distance between rows.
    """
    values, vectors = walk_eigenvectors(graph, n_clusters + _MORE_VECTORS)
    points = vectors * values.clip(_LEAST_VALUE, 1) ** STEPS
    return rows_of_length_one(points)


def walk_eigenvectors(graph: sp.csr_matrix, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues (at most `count`), in ascending order, and eigenvectors of the random walk.

    They are those of the graph's normalised adjacency, a thousandth of whose links is spread over all samples.
    """
    n_samples = graph.shape[0]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    everywhere = _EVERYWHERE * (degrees.mean() or 1.0)
    root = 1 / np.sqrt(degrees + everywhere)
    matrix = sp.csr_matrix(sp.diags(root) @ graph @ sp.diags(root))
    common = np.sqrt(everywhere / n_samples) * root
    return _leading_eigenvectors(matrix, common, min(count, n_samples))


def rows_of_length_one(points: Floats) -> Floats:
    """Return points (n, D), each divided by its length."""
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), _TINY))


def _leading_eigenvectors(matrix: sp.csr_matrix, common: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues, in ascending order, and eigenvectors of a matrix plus the square of a vector."""
    n_samples = matrix.shape[0]
    if n_samples <= _DENSE_UP_TO or 4 * count >= n_samples:
        return _dense_eigenvectors(matrix, common, count)
    operator = LinearOperator(matrix.shape, lambda x: matrix @ x + common * (common @ x.ravel()), dtype=np.float64)
    start = np.random.default_rng(0).normal(size=n_samples)
    try:
        values, vectors = eigsh(operator, count, v0=start, which="LA", tol=_TOLERANCE)
    except ArpackNoConvergence as error:  # eigenvalues that are hardly apart
        if n_samples > LINKED:
            msg = (
                f"the neighbour graph of {n_samples} samples is nearly cut into more parts than {count}, so "
                f"its eigenvectors were not found ({error}); use more neighbours, or cluster_start='fused'."
            )
            raise TrainingError(msg) from error
        return _dense_eigenvectors(matrix, common, count)
    return values, vectors


def _dense_eigenvectors(matrix: sp.csr_matrix, common: Floats, count: int) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh(matrix.toarray() + np.outer(common, common))
    return values[-count:], vectors[:, -count:]


def spectral_clusters(
    graph: sp.csr_matrix,
    points: Floats,
    n_clusters: int,
    seed: int,
    n_init: int = 10,
    known: NDArray[np.int64] | None = None,
) -> Partition:
    """Return what k-means finds in the points of a graph's `spectral_embedding`.

    Samples that are linked less than usual count less, so that those that the graph hardly knows form no cluster.
    `known` are clusters (n,) that stay, -1 where there is none, as for `seeded_k_means`.
    """
    if known is not None:
        return seeded_k_means(points, n_clusters, seed, known, n_init, link_weights(graph))
    return k_means(points, n_clusters, seed, n_init, link_weights(graph))


def link_weights(graph: sp.csr_matrix) -> Floats:
    """Return how much each sample counts: 1, or less where it is linked less than usual."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    usual = np.median(degrees)
    return np.minimum(degrees / usual, 1.0).clip(_LEAST_VALUE) if usual > 0 else np.ones(len(degrees))


@dataclass(frozen=True)
class SampleGraph:
    """What the views say of who is near whom, for samples that stand for all.

    Attributes
    ----------
    rows : array of int, shape (n,)
        Positions of the linked samples among all.
    links : csr matrix of shape (n, n)
        Symmetric; see `combined_graph`.
    """

    rows: NDArray[np.intp]
    links: sp.csr_matrix


def spread_rows(n_samples: int, most: int) -> NDArray[np.intp]:
    """Return the positions of all samples, or of `most` evenly spread ones."""
    return np.arange(n_samples) if n_samples <= most else np.arange(most) * n_samples // most


def graph_clusters(
    mean: NDArray[np.float64],
    n_clusters: int,
    seed: int,
    graph: SampleGraph | None = None,
    known: NDArray[np.int64] | None = None,
) -> NDArray[np.intp]:
    """Return the clusters (N,) that a spectral clustering finds in the neighbour graph of latent means (N, D).

    It follows clusters that are not round. With `graph`, the links of the views count too, twice as much as those of
    the latent means. With many samples the graph links some of them, evenly spread, and the others take the cluster
    that most of their nearest linked neighbours have. `known` are clusters (N,) that stay, -1 where there is none.
    """
    chosen = spread_rows(len(mean), LINKED) if graph is None else graph.rows
    rows = mean[chosen]
    count = neighbour_count(len(rows), n_clusters)
    links = ViewGraph.of(rows, count).links()
    links = links + links.T
    if graph is not None:
        links = _of_mean_degree_one(links) + _VIEWS_COUNT * _of_mean_degree_one(graph.links)
    seeds = known_among(known, chosen)
    labels = spectral_clusters(links, spectral_embedding(links, n_clusters), n_clusters, seed, known=seeds).labels
    if len(rows) < len(mean):
        labels = KNeighborsClassifier(min(count, len(rows))).fit(rows, labels).predict(mean)
    return labels_in_order(labels, n_clusters, known)


def _of_mean_degree_one(links: sp.csr_matrix) -> sp.csr_matrix:
    return links * (links.shape[0] / max(links.sum(), _TINY))
