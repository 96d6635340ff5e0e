"""Neighbour graphs: of one view, and of all views together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from acova.clustering.nearest import DistinctRows, Floats, Positions, links_of

FEWEST, _MOST = 5, 30
"""Neighbours of a sample."""
STEPS = 3
"""Steps of the random walks by which samples and views are compared."""
_LEAST_WEIGHT = 1e-9
_TINY = float(np.finfo(np.float64).tiny)


def neighbour_count(n_samples: int, n_clusters: int) -> int:
    """Return how many neighbours a sample is linked to: about half a cluster, from 5 to 30."""
    return int(np.clip(n_samples // (2 * n_clusters), FEWEST, _MOST))


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

    def neighbours(self, queries: Floats | None = None) -> tuple[Floats, Positions]:
        """Return distances and positions (q, n_neighbors) of the rows nearest to queries, or to each row but itself."""
        count = len(self.rows) if queries is None else len(queries)
        if not self.n_neighbors or not count:
            return np.zeros((count, 0)), np.zeros((count, 0), dtype=np.intp)
        if queries is None:
            return self._distinct.neighbours(self.n_neighbors)[0]
        return self._distinct.neighbours_of(queries, self.n_neighbors)

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
    tables: Sequence[Any], observed: NDArray[np.bool_], n_clusters: int, n_neighbors: Sequence[int] | None = None
) -> list[ViewGraph]:
    """Return the graph of every view's observed rows; by default of as many neighbours as `neighbour_count` says."""
    counts = n_neighbors or [neighbour_count(n, n_clusters) for n in observed.sum(axis=0).tolist()]
    triples = zip(tables, observed.T, counts, strict=True)
    return [ViewGraph.of(table[seen], count) for table, seen, count in triples]
