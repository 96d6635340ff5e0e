"""Neighbour graphs of the views: how far views agree on who is near whom, and one graph of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

Floats = NDArray[np.float64]
_FEWEST, _MOST = 5, 30
_COMPARED = 1_000
"""Samples that two views are compared on, evenly spread where there are more."""
_STEPS = 3
_DENSE_UP_TO = 2_000
_CHANCE = 0.05
"""Agreement that unrelated views reach by chance."""
_TINY = float(np.finfo(np.float64).tiny)


def neighbour_count(n_samples: int, n_clusters: int) -> int:
    """Return how many neighbours a sample is linked to: about half a cluster, from 5 to 30."""
    return int(np.clip(n_samples // (2 * n_clusters), _FEWEST, _MOST))


@dataclass(frozen=True)
class ViewGraph:
    """The samples that one view observes, and who is near whom among them.

    Attributes
    ----------
    rows : array of shape (n, P)
        The view's observed rows, scaled.
    spreads : array of shape (n,)
        Root mean square distance of each row to its nearest neighbours.
    n_neighbors : int
    """

    rows: Floats
    spreads: Floats
    n_neighbors: int

    @classmethod
    def of(cls, rows: Floats, n_neighbors: int) -> "ViewGraph":
        """Learn the graph of rows (n, P)."""
        count = min(n_neighbors, len(rows) - 1)
        if count < 1:
            return cls(rows, np.ones(len(rows)), 0)
        distances = NearestNeighbors(n_neighbors=count + 1).fit(rows).kneighbors()[0][:, :count]
        return cls(rows, np.sqrt(np.square(distances).mean(axis=1)), count)

    def links(self, queries: Floats | None = None) -> sp.csr_matrix:
        """Return how strongly queries (q, P), or the rows themselves, are linked to the rows; every line sums to 1.

        The affinity of two rows is Gaussian in their distance, in units of the mean of their spreads. Rows are linked
        to their nearest neighbours, queries also to a row that equals them.
        """
        shape = (len(self.rows) if queries is None else len(queries), len(self.rows))
        if not self.n_neighbors:
            return sp.csr_matrix(np.ones(shape) / max(shape[1], 1))
        search = NearestNeighbors(n_neighbors=self.n_neighbors).fit(self.rows)
        distances, found = search.kneighbors(queries)
        own = self.spreads if queries is None else np.sqrt(np.square(distances).mean(axis=1))
        width = np.maximum((own[:, None] + self.spreads[found]) / 2, _TINY)
        affinity = np.exp(-np.square(distances / width) / 2)
        lines = np.repeat(np.arange(shape[0]), self.n_neighbors)
        return walk(sp.csr_matrix((affinity.ravel(), (lines, found.ravel())), shape))


def walk(graph: sp.spmatrix) -> sp.csr_matrix:
    """Return a graph with every line divided by its sum: one step of a random walk."""
    total = np.asarray(graph.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(total > 0, total, 1.0)) @ graph)


def view_agreement(tables: Sequence[Floats], observed: NDArray[np.bool_], n_clusters: int) -> Floats:
    """Return how far every two views agree on who is near whom, (V, V), from 0 to about 1.

    It is the centred kernel alignment of random walks of three steps on the graphs of the samples that have both views
    (Cristianini et al., 2001; Kornblith et al., 2019). Views that share no structure are near 0, whatever their widths.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_samples, P_v)
        Scaled views; hidden rows are not read.
    observed : array of bool, shape (n_samples, V)
    n_clusters : int
    """
    n_views = len(tables)
    agreement = np.eye(n_views)
    for u in range(n_views):
        for v in range(u + 1, n_views):
            both = np.flatnonzero(observed[:, u] & observed[:, v])
            both = both[np.arange(min(len(both), _COMPARED)) * len(both) // min(max(len(both), 1), _COMPARED)]
            if len(both) > _FEWEST:
                count = neighbour_count(len(both), n_clusters)
                kernels = [_kernel(ViewGraph.of(tables[w][both], count).links()) for w in (u, v)]
                agreement[u, v] = agreement[v, u] = max(_alignment(*kernels), 0.0)
    return agreement


def _kernel(links: sp.csr_matrix) -> Floats:
    """Return where random walks on a graph are after three steps, symmetric and centred."""
    step = walk(links + links.T).toarray()
    after = np.linalg.matrix_power(step, _STEPS)
    kernel = (after + after.T) / 2
    kernel -= kernel.mean(axis=0)
    return np.asarray(kernel - kernel.mean(axis=1, keepdims=True))


def _alignment(first: Floats, second: Floats) -> float:
    scale = np.sqrt(np.square(first).sum() * np.square(second).sum())
    return float((first * second).sum() / scale) if scale else 0.0


def agreement_weights(
    agreement: Floats, tables: Sequence[Floats], observed: NDArray[np.bool_], n_clusters: int
) -> Floats:
    """Return what each view is trusted, (V,), at most 1: its largest agreement with another view.

    Where no two views agree beyond chance, nothing tells which is right; then a view counts by how much a partition of
    it explains, in nats over all its features, because many features that go together are less likely an accident than
    one that is easy to split.
    """
    if len(agreement) == 1:
        return np.ones(1)
    best = (agreement - np.diag(np.diag(agreement))).max(axis=1)
    if best.max() < _CHANCE:
        best = np.array([_explained_nats(t[o], n_clusters) for t, o in zip(tables, observed.T, strict=True)])
    return np.asarray(best / best.max()) if best.max() > 0 else np.ones(len(best))


def _explained_nats(rows: Floats, n_clusters: int) -> float:
    """Return how many nats of a view's features k-means with this many clusters explains, summed over features.

    A feature with few different values cannot explain more than its entropy. What clusters of noise explain by chance,
    half a nat per parameter and sample, is taken off.
    """
    rows = rows[np.arange(min(len(rows), _COMPARED)) * len(rows) // min(max(len(rows), 1), _COMPARED)]
    if len(rows) <= n_clusters:
        return 0.0
    labels = KMeans(n_clusters, n_init=5, random_state=0).fit(rows).labels_
    member = np.eye(n_clusters)[labels]
    size = np.maximum(member.sum(axis=0), 1)[:, None]
    within = np.square(rows - (member.T @ rows / size)[labels]).mean(axis=0)
    total = rows.var(axis=0)
    varies = total > 0
    gain = 0.5 * np.log(total[varies] / np.maximum(within[varies], np.finfo(np.float32).eps * total[varies]))
    gain -= 0.5 * (n_clusters - 1) / len(rows)
    most = np.array([_entropy(column) for column in rows[:, varies].T])
    return float(np.clip(gain, 0, most).sum())


def _entropy(column: Floats) -> float:
    shares = np.unique(column, return_counts=True)[1] / len(column)
    return float(-(shares * np.log(shares)).sum())


def combined_graph(graphs: Sequence[ViewGraph], observed: NDArray[np.bool_], weights: Floats) -> sp.csr_matrix:
    """Return one graph of all samples: the weighted mean over the views that two samples share, symmetric.

    Parameters
    ----------
    graphs : sequence of V ViewGraph
        Of the observed rows of each view, in the order of the samples.
    observed : array of bool, shape (n_samples, V)
    weights : array of shape (V,)
    """
    n_samples = len(observed)
    total = sp.csr_matrix((n_samples, n_samples))
    for graph, seen, weight in zip(graphs, observed.T, weights, strict=True):
        links = _placed(graph.links(), np.flatnonzero(seen), np.flatnonzero(seen), (n_samples, n_samples))
        total = total + weight * (links + links.T) / 2
    return _shared_mean(total, observed, observed, weights)


def links_to(
    graphs: Sequence[ViewGraph],
    observed: NDArray[np.bool_],
    tables: Sequence[Floats],
    seen: NDArray[np.bool_],
    weights: Floats,
) -> sp.csr_matrix:
    """Return how strongly new samples (q) are linked to the samples of the graphs (n), by the views that both have."""
    shape = (len(seen), len(observed))
    total = sp.csr_matrix(shape)
    for graph, theirs, table, mine, weight in zip(graphs, observed.T, tables, seen.T, weights, strict=True):
        if mine.any() and theirs.any():
            links = graph.links(table[mine])
            total = total + weight * _placed(links, np.flatnonzero(mine), np.flatnonzero(theirs), shape)
    return walk(_shared_mean(total, seen, observed, weights))


def _placed(
    links: sp.csr_matrix, rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, int]
) -> sp.csr_matrix:
    cells = links.tocoo()
    return sp.csr_matrix((cells.data, (rows[cells.row], columns[cells.col])), shape)


def _shared_mean(
    total: sp.spmatrix, rows: NDArray[np.bool_], columns: NDArray[np.bool_], weights: Floats
) -> sp.csr_matrix:
    """Divide every link by the weight of the views that its two samples share."""
    cells = total.tocoo()
    shared = ((rows[cells.row] & columns[cells.col]) * weights).sum(axis=1)
    return sp.csr_matrix((cells.data / np.maximum(shared, _TINY), (cells.row, cells.col)), total.shape)


def spectral_embedding(graph: sp.csr_matrix, n_components: int) -> Floats:
    """Return the leading eigenvectors of a graph's normalised adjacency as unit rows (n, K) (Ng et al., 2001).

    The eigenvectors are only determined up to a rotation, which changes no distance between rows.
    """
    n_samples = graph.shape[0]
    graph = graph + 1e-6 * sp.eye(n_samples)  # a sample that nobody is linked to keeps a place of its own
    root = sp.diags(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    matrix = root @ graph @ root
    if n_samples <= _DENSE_UP_TO or n_components >= n_samples - 1:
        vectors = np.linalg.eigh(matrix.toarray())[1][:, -n_components:]
    else:
        vectors = eigsh(matrix, n_components, v0=np.ones(n_samples), which="LA")[1]
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY))


def smoothed_rows(graph: sp.csr_matrix, table: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Return what a sample's neighbourhood, two steps of a walk wide, has in a view: (n, P).

    Only samples that have the view count; where a neighbourhood has none, the mean of the view stands in.
    """
    step = walk(graph + 1e-9 * sp.eye(len(seen)))
    clean = np.where(seen[:, None], table, 0.0)
    total, count = step @ (step @ clean), step @ (step @ seen.astype(np.float64))
    found = count > _TINY
    mean = total / np.where(found, count, 1.0)[:, None]
    return np.asarray(np.where(found[:, None], mean, table[seen].mean(axis=0)))


def view_graphs(tables: Sequence[Any], observed: NDArray[np.bool_], n_clusters: int) -> list[ViewGraph]:
    """Return the graph of every view's observed rows."""
    return [
        ViewGraph.of(np.asarray(table, dtype=np.float64)[seen], neighbour_count(int(seen.sum()), n_clusters))
        for table, seen in zip(tables, observed.T, strict=True)
    ]
