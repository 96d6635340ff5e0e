"""Neighbour graphs of the views: how far views agree on who is near whom, and one graph of all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.neighbors import KNeighborsClassifier

from acova.base import TrainingError
from acova.clustering.kmeans import k_means
from acova.clustering.nearest import DistinctRows, Floats, links_of
from acova.clustering.numbering import cluster_order, renumbered
from acova.engine.parallel import single_threaded

_FEWEST, _MOST = 5, 30
_COMPARED = 1_000
"""Samples that two views are compared on, evenly spread where there are more."""
_LINKED = 5_000
"""Samples that a start by the graph links, evenly spread where there are more."""
_STEPS = 3
_DENSE_UP_TO = 400
_EVERYWHERE = 1e-3
"""Weight of the links of every sample to all, as a share of its other links."""
_TOLERANCE = 1e-8
_CHANCE = 0.05
"""Agreement that unrelated views reach by chance."""
_LEAST_WEIGHT = 1e-9
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
    _distinct: DistinctRows
    _own: tuple[sp.csr_matrix, sp.csr_matrix] | None = None
    """Links of the rows to others, and those of the rows as queries."""

    @classmethod
    def of(cls, rows: NDArray[Any], n_neighbors: int) -> "ViewGraph":
        """Learn the graph of rows (n, P)."""
        rows = np.asarray(rows, dtype=np.float64)
        graph = cls.known(rows, np.ones(len(rows)), n_neighbors)
        if not graph.n_neighbors:
            return replace(graph, _own=(sp.csr_matrix((len(rows), len(rows))), sp.eye(len(rows), format="csr")))
        others, all_rows = graph._distinct.neighbours(graph.n_neighbors)
        spreads = _spreads(others[0])
        links = tuple(links_of(*found, (_spreads(found[0]), spreads), len(rows)) for found in (others, all_rows))
        return replace(graph, spreads=spreads, _own=links)

    @classmethod
    def known(cls, rows: Floats, spreads: Floats, n_neighbors: int) -> "ViewGraph":
        """Return the graph of rows whose spreads are known."""
        return cls(rows, spreads, max(min(n_neighbors, len(rows) - 1), 0), DistinctRows.of(rows))

    def without_links(self) -> "ViewGraph":
        """Return the graph in less memory, for links of queries."""
        return replace(self, _own=None)

    def links(self, queries: NDArray[Any] | None = None) -> sp.csr_matrix:
        """Return how strongly queries (q, P), or the rows themselves, are linked to the rows; every line sums to 1.

        The affinity of two rows is Gaussian in their distance, in units of the mean of their spreads. Rows are linked
        to their nearest neighbours, queries also to a row that equals them. A row that is alone has no links.
        """
        if queries is None:
            return self._links_of_rows()[0]
        distances, found = self._distinct.neighbours_of(np.asarray(queries, dtype=np.float64), max(self.n_neighbors, 1))
        return links_of(distances, found, (_spreads(distances), self.spreads), len(self.rows))

    def links_with_itself(self) -> sp.csr_matrix:
        """Return the links of the rows as if they were queries, without another search."""
        return self._links_of_rows()[1]

    def _links_of_rows(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        return self._own or ViewGraph.of(self.rows, self.n_neighbors)._links_of_rows()


def _spreads(distances: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(distances).mean(axis=1)))


def walk(graph: sp.spmatrix) -> sp.csr_matrix:
    """Return a graph with every line divided by its sum: one step of a random walk."""
    total = np.asarray(graph.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(total > 0, total, 1.0)) @ graph)


@single_threaded()
def view_agreement(tables: Sequence[NDArray[Any]], observed: NDArray[np.bool_], n_clusters: int) -> Floats:
    """Return how far every two views agree on who is near whom, (V, V), from 0 to 1.

    It is the unbiased centred kernel alignment (Kornblith et al., 2019; Song et al., 2012) of random walks of three
    steps on the graphs of the samples that have both views. Views that share no structure are near 0, whatever their
    widths and however few the samples. Where there are more than a thousand such samples, evenly spread ones stand for
    all.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_samples, P_v)
        Scaled views; hidden rows are not read.
    observed : array of bool, shape (n_samples, V)
    n_clusters : int
    """
    agreement = np.eye(len(tables))
    pairs: dict[bytes, list[tuple[int, int]]] = {}
    for u, v in combinations(range(len(tables)), 2):
        pairs.setdefault((observed[:, u] & observed[:, v]).tobytes(), []).append((u, v))
    for some in pairs.values():
        both = _spread(np.flatnonzero(observed[:, some[0]].all(axis=1)))
        if len(both) > _FEWEST:
            count = neighbour_count(len(both), n_clusters)
            kernels = {
                v: _kernel(ViewGraph.of(tables[v][both], count).links()) for v in {v for pair in some for v in pair}
            }
            for u, v in some:
                agreement[u, v] = agreement[v, u] = max(_alignment(kernels[u], kernels[v]), 0.0)
    return agreement


def _spread(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows, or evenly spread ones of them where there are more than are compared."""
    return rows if len(rows) <= _COMPARED else rows[np.arange(_COMPARED) * len(rows) // _COMPARED]


def _kernel(links: sp.csr_matrix) -> Floats:
    """Return where random walks on a graph are after three steps, symmetric, centred without the diagonal."""
    step = walk(links + links.T)
    after = step @ (step @ step.toarray())
    return centred((after + after.T) / 2)


def centred(kernel: Floats) -> Floats:
    """Return a symmetric kernel (n, n) with a zero diagonal and lines of mean 0 (Székely and Rizzo, 2014)."""
    n_samples = len(kernel)
    kernel = kernel - np.diag(np.diag(kernel))
    mean = kernel.sum(axis=0) / (n_samples - 2)
    kernel += mean.sum() / (n_samples - 1) - mean - mean[:, None]
    np.fill_diagonal(kernel, 0.0)
    return kernel


def _alignment(first: Floats, second: Floats) -> float:
    scale = np.sqrt(np.square(first).sum() * np.square(second).sum())
    return float((first * second).sum() / scale) if scale else 0.0


@single_threaded()
def agreement_weights(
    agreement: Floats, tables: Sequence[NDArray[Any]], observed: NDArray[np.bool_], n_clusters: int
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
    rows = _spread(np.asarray(rows, dtype=np.float64))
    if len(rows) <= n_clusters:
        return 0.0
    labels = k_means(rows, n_clusters, seed=0, n_init=5).labels
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

    Samples that share only views of little weight are linked by as little, so that what these views say does not spread
    through the samples that have no other.

    Parameters
    ----------
    graphs : sequence of V ViewGraph
        Of the observed rows of each view, in the order of the samples.
    observed : array of bool, shape (n_samples, V)
    weights : array of shape (V,)
    """
    total = sp.csr_matrix((len(observed), len(observed)))
    for graph, seen, weight in zip(graphs, observed.T, weights, strict=True):
        links = _placed(graph.links(), np.flatnonzero(seen), np.flatnonzero(seen), total.shape)
        total = total + weight * (links + links.T) / 2
    return _shared_mean(total, observed, observed, weights)


def links_to(
    graphs: Sequence[ViewGraph],
    observed: NDArray[np.bool_],
    tables: Sequence[NDArray[Any]] | None,
    seen: NDArray[np.bool_],
    weights: Floats,
) -> sp.csr_matrix:
    """Return how strongly samples (q) are linked to those of the graphs (n), by the views that both have.

    Every line sums to 1; a training sample is linked to itself, too. Tables None stand for those of the graphs.
    """
    total = sp.csr_matrix((len(seen), len(observed)))
    for links in weighted_links(graphs, observed, tables, seen, weights):
        total = total + links
    return walk(total)


def weighted_links(
    graphs: Sequence[ViewGraph],
    observed: NDArray[np.bool_],
    tables: Sequence[NDArray[Any]] | None,
    seen: NDArray[np.bool_],
    weights: Floats,
) -> Iterator[sp.csr_matrix]:
    """Yield each view's part (q, n) of the links of samples to those of the graphs; see `links_to`."""
    shape = (len(seen), len(observed))
    weights = np.maximum(weights, _LEAST_WEIGHT * weights.max())  # samples that have no other view need a label, too
    for v, (graph, others, rows, weight) in enumerate(zip(graphs, observed.T, seen.T, weights, strict=True)):
        if rows.any() and others.any():
            links = graph.links_with_itself() if tables is None else graph.links(tables[v][rows])
            links = _placed(links, np.flatnonzero(rows), np.flatnonzero(others), shape)
            yield _shared_mean(weight * links, seen, observed, weights)
        else:
            yield sp.csr_matrix(shape)


def _placed(
    links: sp.csr_matrix, rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, int]
) -> sp.csr_matrix:
    cells = links.tocoo()
    return sp.csr_matrix((cells.data, (rows[cells.row], columns[cells.col])), shape)


def _shared_mean(
    total: sp.spmatrix, rows: NDArray[np.bool_], columns: NDArray[np.bool_], weights: Floats
) -> sp.csr_matrix:
    """Divide every link by the weight of the views that its two samples share, at least by the largest weight."""
    cells = total.tocoo()
    shared = np.zeros(len(cells.data))
    for have, others, weight in zip(rows.T, columns.T, weights, strict=True):
        shared += weight * (have[cells.row] & others[cells.col])
    return sp.csr_matrix(
        (cells.data / np.maximum(shared, max(weights.max(), _TINY)), (cells.row, cells.col)), total.shape
    )


@single_threaded()
def spectral_embedding(graph: sp.csr_matrix, n_components: int) -> Floats:
    """Return the leading eigenvectors of a graph's normalised adjacency, (n, K), rows of length 1 (Ng et al., 2001).

    A thousandth of the links is spread over all samples (Zhang and Rohe, 2018), so that a graph of more than K parts
    is told by its large ones, not by whichever come first. The eigenvectors are only determined up to a rotation, which
    changes no distance between rows.
    """
    n_samples = graph.shape[0]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    everywhere = _EVERYWHERE * (degrees.mean() or 1.0)
    root = 1 / np.sqrt(degrees + everywhere)
    matrix = sp.csr_matrix(sp.diags(root) @ graph @ sp.diags(root))
    common = np.sqrt(everywhere / n_samples) * root
    if n_samples <= _DENSE_UP_TO or 4 * n_components >= n_samples:
        vectors = _dense_vectors(matrix, common, n_components)
    else:
        operator = LinearOperator(matrix.shape, lambda x: matrix @ x + common * (common @ x.ravel()), dtype=np.float64)
        start = np.random.default_rng(0).normal(size=n_samples)
        try:
            vectors = eigsh(operator, n_components, v0=start, which="LA", tol=_TOLERANCE)[1]
        except ArpackNoConvergence as error:  # eigenvalues that are hardly apart
            if n_samples > _LINKED:
                msg = (
                    f"the neighbour graph of {n_samples} samples is nearly cut into more parts than {n_components}, so "
                    f"its eigenvectors were not found ({error}); use more neighbours, or cluster_start='fused'."
                )
                raise TrainingError(msg) from error
            vectors = _dense_vectors(matrix, common, n_components)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY))


def _dense_vectors(matrix: sp.csr_matrix, common: Floats, n_components: int) -> Floats:
    return np.asarray(np.linalg.eigh(matrix.toarray() + np.outer(common, common))[1][:, -n_components:])


def smoothed_rows(graph: sp.csr_matrix, table: NDArray[Any], seen: NDArray[np.bool_]) -> Floats:
    """Return what a sample's neighbourhood, two steps of a walk wide, has in a view: (n, P).

    Only samples that have the view count; where a neighbourhood has none, the mean of the view stands in.
    """
    step = walk(graph + 1e-9 * sp.eye(len(seen)))  # a sample that nobody is linked to keeps its own row
    clean = np.where(seen[:, None], np.asarray(table, dtype=np.float64), 0.0)
    total, count = step @ (step @ clean), step @ (step @ seen.astype(np.float64))
    found = count > _TINY
    mean = total / np.where(found, count, 1.0)[:, None]
    return np.asarray(np.where(found[:, None], mean, clean.sum(axis=0) / max(seen.sum(), 1)))


def view_graphs(
    tables: Sequence[Any], observed: NDArray[np.bool_], n_clusters: int, n_neighbors: int | None = None
) -> list[ViewGraph]:
    """Return the graph of every view's observed rows; None links as many neighbours as `neighbour_count` says."""
    return [
        ViewGraph.of(table[seen], n_neighbors or neighbour_count(int(seen.sum()), n_clusters))
        for table, seen in zip(tables, observed.T, strict=True)
    ]


def graph_clusters(mean: NDArray[np.float64], n_clusters: int, seed: int) -> NDArray[np.intp]:
    """Return the clusters (N,) that a spectral clustering finds in the neighbour graph of latent means (N, D).

    It follows clusters that are not round. With many samples the graph links some of them, evenly spread,
    and the others take the cluster that most of their nearest linked neighbours have.
    """
    rows = mean if len(mean) <= _LINKED else mean[np.arange(_LINKED) * len(mean) // _LINKED]
    count = neighbour_count(len(rows), n_clusters)
    links = ViewGraph.of(rows, count).links()
    embedding = spectral_embedding((links + links.T) / 2, n_clusters)
    labels = k_means(embedding, n_clusters, seed).labels
    if rows is not mean:
        labels = KNeighborsClassifier(min(count, len(rows))).fit(rows, labels).predict(mean)
    return renumbered(labels, cluster_order(labels, n_clusters))
