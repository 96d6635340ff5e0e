"""Samples that belong nowhere: far from the others in their views, or placed differently by each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.clustering.graphs import ViewGraph
from acova.clustering.nearest import Floats, Positions

_FEWEST = 30
"""Training samples with as many views from which on a sample is compared with these alone."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Oddness:
    """How far samples are from the usual, as p-values: the share of training samples that are as odd.

    Attributes
    ----------
    p_values : array of shape (n,)
        Of the smaller of the following two: at most a share α of samples like those of the training gets α or less.
    far, contradiction : arrays of shape (n,)
        Of the distance to the nearest samples, and of what the views say against each other, over a sample's views.
    far_by_view, contradiction_by_view : arrays of shape (n, C)
        Of each measure; NaN where a sample lacks the view, or has no other.
    """

    p_values: Floats
    far: Floats
    contradiction: Floats
    far_by_view: Floats
    contradiction_by_view: Floats

    def take(self, rows: NDArray[np.intp]) -> "Oddness":
        """Return that of these samples, in this order."""
        return Oddness(*(array[rows] for array in vars(self).values()))


@dataclass(frozen=True)
class Usual:
    """What is usual: how far samples are from others, and how far their views contradict each other.

    Attributes
    ----------
    distance, disagreement : arrays of shape (n, C)
        Measures of training samples by what did not see them, one or several for each view: large is odd, and NaN
        stands for none.
    """

    distance: Floats
    disagreement: Floats

    def training(self) -> Oddness:
        """Return the oddness of the training samples."""
        return self._oddness(self.distance, self.disagreement, own=True)

    def compared(self, distance: Floats, disagreement: Floats) -> Oddness:
        """Return the oddness of other samples of which the same is measured."""
        return self._oddness(distance, disagreement, own=False)

    def _oddness(self, distance: Floats, disagreement: Floats, *, own: bool) -> Oddness:
        parts, least = [], []
        for known, given in ((self.distance, distance), (self.disagreement, disagreement)):
            usual = _p_values_by_view(known, known, own=True)
            by_view = usual if own else _p_values_by_view(known, given, own=False)
            parts.append((_combined(usual, by_view, own=own), by_view))
            least.append(_combined(usual, usual, own=True))
        (far, far_by_view), (against, against_by_view) = parts
        p_values = _ranked(-np.minimum(*least), -np.minimum(far, against), own=own)
        return Oddness(p_values, far, against, far_by_view, against_by_view)


@dataclass(frozen=True)
class OddnessReference(Usual):
    """What is usual by the neighbour graphs of the views: measures of training samples, each without itself.

    ``distance`` is that to the nearest neighbours, over the distance of these to theirs, and ``disagreement`` see
    `_disagreements`, both (n, V).
    """

    graphs: Sequence[ViewGraph]
    observed: NDArray[np.bool_]
    member: Floats

    @classmethod
    def of(
        cls, graphs: Sequence[ViewGraph], observed: NDArray[np.bool_], clusters: NDArray[np.int64], n_clusters: int
    ) -> "OddnessReference":
        """Learn what is usual from the views' graphs (V), who has which view (n, V), and the clusters (n,)."""
        member = np.eye(n_clusters)[clusters]
        near = [graph.neighbours() for graph in graphs]
        return cls(*_measures(graphs, observed, member, near, observed), graphs, observed, member)

    def samples(self, tables: Sequence[NDArray[Any]], seen: NDArray[np.bool_]) -> Oddness:
        """Return the oddness of other samples: scaled views (q, P_v), and which of them are observed (q, V)."""
        pairs = zip(self.graphs, tables, seen.T, strict=True)
        near = [graph.neighbours(np.asarray(table[rows], dtype=np.float64)) for graph, table, rows in pairs]
        return self.compared(*_measures(self.graphs, self.observed, self.member, near, seen))


def _measures(
    graphs: Sequence[ViewGraph],
    observed: NDArray[np.bool_],
    member: Floats,
    near: Sequence[tuple[Floats, Positions]],
    seen: NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Return distances and disagreements (q, V) of samples whose nearest training samples are known."""
    distance = np.full(seen.shape, np.nan)
    votes = np.full((*seen.shape, member.shape[1]), np.nan)
    for v, (graph, (lengths, found)) in enumerate(zip(graphs, near, strict=True)):
        if not found.size:
            continue
        own = np.sqrt(np.square(lengths).mean(axis=1))
        around = graph.spreads[found].mean(axis=1)
        distance[seen[:, v], v] = np.log(np.maximum(own, _TINY)) - np.log(np.maximum(around, _TINY))
        votes[seen[:, v], v] = member[np.flatnonzero(observed[:, v])[found]].mean(axis=1)
    return distance, _disagreements(votes)


def _disagreements(votes: Floats) -> Floats:
    """Return how far each view's neighbours lie in other clusters than those of the other views: 0 to 1, (q, V).

    It is one minus the Bhattacharyya coefficient of the neighbours' clusters (q, V, K) in one view and in the others.
    """
    known = np.asarray(~np.isnan(votes).any(axis=2))
    clean = np.where(known[..., None], votes, 0.0)
    others = known.sum(axis=1, keepdims=True) - known
    rest = (clean.sum(axis=1, keepdims=True) - clean) / np.maximum(others, 1)[..., None]
    apart = 1 - np.sqrt(clean * rest).sum(axis=2)
    return np.asarray(np.where(known & (others > 0), apart, np.nan))


def _p_values_by_view(known: Floats, given: Floats, *, own: bool) -> Floats:
    columns = zip(known.T, given.T, strict=True)
    return np.column_stack([_ranked(one[~np.isnan(one)], some, own=own) for one, some in columns])


def _ranked(known: Floats, given: Floats, *, own: bool) -> Floats:
    """Return the share of known values that are at least as large, the given one among them; NaN stays."""
    known = np.sort(known)
    at_least = len(known) - np.searchsorted(known, given, side="left")
    shares = (at_least + (not own)) / max(len(known) + (not own), 1)
    return np.asarray(np.where(np.isnan(given), np.nan, np.minimum(shares, 1.0)))


def _combined(usual: Floats, given: Floats, *, own: bool) -> Floats:
    """Return the p-value of all views of a sample together, by the mean logarithm of theirs.

    It is compared with that of training samples with as many views, or with all where these are few; 1 where no view
    says anything.
    """
    known, known_count = _mean_surprise(usual)
    surprise, count = _mean_surprise(given)
    p_values = np.ones(len(given))
    for views in np.unique(count[count > 0]).tolist():
        alike, rows = np.flatnonzero(known_count == views), np.flatnonzero(count == views)
        pool = known[alike] if len(alike) >= _FEWEST else known[known_count > 0]
        p_values[rows] = _ranked(pool, surprise[rows], own=own)
    return p_values


def _mean_surprise(p_values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    count = (~np.isnan(p_values)).sum(axis=1)
    total = np.nansum(-np.log(np.maximum(p_values, _TINY)), axis=1)
    return total / np.maximum(count, 1), count
