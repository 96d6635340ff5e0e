"""Nearest rows in blocks: exact, and with ties that are resolved by a rule."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
_SPARE = 4
"""Rows looked at beyond those asked for, since a search by products of matrices rounds distances."""
_BLOCK_CELLS = 2**18


@dataclass(frozen=True)
class DistinctRows:
    """Rows among which neighbours are searched, equal ones once.

    Attributes
    ----------
    values : array of shape (u, P)
        The distinct rows, in an order that depends on their content alone.
    group : array of int, shape (n,)
        Which of them each row is.
    members : array of int, shape (n,)
        The rows, those of one group after the other.
    start, size : arrays of int, shape (u,)
        Where a group starts in `members`, and how many rows it has.
    """

    values: Floats
    group: Positions
    members: Positions
    start: Positions
    size: Positions

    @classmethod
    def of(cls, rows: Floats) -> "DistinctRows":
        """Find the distinct ones of rows (n, P)."""
        rows = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # 0.0 and -0.0 are equal
        content = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, group, size = np.unique(content, return_index=True, return_inverse=True, return_counts=True)
        return cls(rows[first], group, np.argsort(group, kind="stable"), np.cumsum(size) - size, size)

    def neighbours_of(self, queries: Floats, count: int) -> tuple[Floats, Positions]:
        """Return the distances and positions (q, count) of the nearest rows; a row that equals a query is one of them.

        Of a group of equal rows that is too large, evenly spread ones are taken.
        """
        distances, near = self._nearest_groups(queries, count)
        return self._rows_of_groups(distances, near, count, None)

    def neighbours(self, count: int) -> tuple[tuple[Floats, Positions], tuple[Floats, Positions]]:
        """Return the distances and positions (n, count) of the rows nearest to each row, without and with itself.

        Of a group of equal rows that is too large, every row has others, so that none is the neighbour of all. With
        itself they are those of `neighbours_of`.
        """
        distances, near = self._nearest_groups(self.values, count + 1)
        distances, near = distances[self.group], near[self.group]
        others = self._rows_of_groups(distances, near, count, np.arange(len(self.group)))
        return others, self._rows_of_groups(distances[:, :count], near[:, :count], count, None)

    def _nearest_groups(self, queries: Floats, count: int) -> tuple[Floats, Positions]:
        """Return the nearest distinct rows (q, at most count), by distance, of equal distances by their order."""
        asked = min(count, len(self.values))
        looked = min(count + _SPARE, len(self.values))
        middle = self.values.mean(axis=0)
        near = NearestNeighbors(n_neighbors=looked).fit(self.values - middle).kneighbors(queries - middle)[1]
        distances, near = self._sorted(queries, near)
        if looked < len(self.values):
            tied = np.flatnonzero(_comparable(distances[:, -1]) <= _comparable(distances[:, asked - 1]))
            for lines in _blocks(len(tied), len(self.values)):
                whole = _comparable(cdist(queries[tied[lines]], self.values))
                chosen = np.argsort(whole, axis=1, kind="stable")[:, :looked]
                distances[tied[lines]], near[tied[lines]] = self._sorted(queries[tied[lines]], chosen)
        return distances[:, :asked], near[:, :asked]

    def _sorted(self, queries: Floats, near: Positions) -> tuple[Floats, Positions]:
        """Return the distances of candidates and the candidates, the nearest first.

        The distance of two rows is a sum of its own, so it does not depend on the other rows of a search.
        """
        distances = np.empty(near.shape)
        for lines in _blocks(len(near), near.shape[1] * queries.shape[1]):
            apart = self.values[near[lines]] - queries[lines, None]
            distances[lines] = np.sqrt(np.square(apart).sum(axis=2))
        order = np.lexsort((near, _comparable(distances)), axis=1)
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(near, order, axis=1)

    def _rows_of_groups(
        self, distances: Floats, near: Positions, count: int, own: Positions | None
    ) -> tuple[Floats, Positions]:
        """Return as many rows of the groups, the nearest first, for queries or for the rows themselves."""
        if len(self.values) == len(self.group):
            at = self.members[near]
            if own is None:
                return distances[:, :count], at[:, :count]
            others = np.argsort(at == own[:, None], axis=1, kind="stable")[:, :count]
            return np.take_along_axis(distances, others, axis=1), np.take_along_axis(at, others, axis=1)
        there = self.size[near]
        if own is not None:
            there = there - (near == self.group[:, None])
        taken = np.clip(count - (np.cumsum(there, axis=1) - there), 0, there)
        line, slot = np.nonzero(taken)
        times = taken[line, slot]
        each = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        line, slot = np.repeat(line, times), np.repeat(slot, times)
        groups, few, many = near[line, slot], taken[line, slot], there[line, slot]
        place = each * many // few
        if own is not None:
            place = self._places_of_others(line, groups, place, each, few)
        at = self.members[self.start[groups] + place % self.size[groups]]
        return distances[line, slot].reshape(-1, count), at.reshape(-1, count)

    def _places_of_others(
        self, line: Positions, groups: Positions, place: Positions, each: Positions, few: Positions
    ) -> Positions:
        """Return the places in their groups of the rows that become neighbours of the rows `line`.

        In its own group a row has those at random steps from it, the same steps for all, which makes a well connected
        graph of the group.
        """
        rank = np.empty_like(self.members)
        rank[self.members] = np.arange(len(rank)) - self.start[self.group[self.members]]
        inside = groups == self.group[line]
        place = np.where(inside, rank[line] + 1 + each, place + line)
        for size in np.unique(self.size[groups[inside]]):
            some = inside & (self.size[groups] == size) & (few < size - 1)
            steps = np.random.default_rng(size).permutation(size - 1) + 1
            place[some] = rank[line[some]] + steps[each[some]]
        return place


def _blocks(n_lines: int, cells: int) -> Iterator[slice]:
    """Yield slices of lines that have this many cells each, so that a block fits into memory."""
    size = max(1, _BLOCK_CELLS // max(cells, 1))
    for start in range(0, n_lines, size):
        yield slice(start, start + size)


def _comparable(distances: Floats) -> NDArray[np.float32]:
    """Return distances so rounded that those which only differ by rounding are equal."""
    with np.errstate(over="ignore"):
        return distances.astype(np.float32)


def links_of(distances: Floats, found: Positions, spreads: tuple[Floats, Floats], n_rows: int) -> sp.csr_matrix:
    """Return a graph of Gaussian affinities, in units of the mean of both ends' spreads; every line sums to 1."""
    of_queries, of_rows = spreads
    width = np.maximum((of_queries[:, None] + of_rows[found]) / 2, np.finfo(np.float64).tiny)
    affinity = np.exp(-np.square(distances / width) / 2)
    affinity /= affinity.sum(axis=1, keepdims=True)
    ends = np.arange(0, found.size + 1, found.shape[1])
    graph = sp.csr_matrix((affinity.ravel(), found.ravel(), ends), (len(found), n_rows))
    graph.sort_indices()
    return graph
