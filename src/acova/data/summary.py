"""What went into a fit, small enough to keep with the result: missing patterns, and features by cluster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acova.base.html import html_table
from acova.data.stored import BLOCK, StoredViews
from acova.data.views import Views

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Counts and moments of the data behind M missing patterns and K clusters.

    Attributes
    ----------
    patterns : array of bool, shape (M, V)
        Every combination of views that some sample has, most frequent first.
    counts : array of int, shape (M,)
        Samples of each pattern.
    rows : array of int, shape (K, V)
        Samples of each cluster that have the view.
    by_cluster : array of int, shape (M, K), or None
        Samples of each pattern in each cluster; None in a summary that an earlier version saved.
    means, stds : tuple of V arrays of shape (K, n_features_of_view)
        Of the cells of a cluster's samples that are not empty, in the units of the data; NaN where there are none.
    zeros : tuple of V arrays of shape (K, n_features_of_view)
        Share of these cells that are 0; empty in runs that were saved without it.

    See Also
    --------
    acova.ACOVA.cluster_profiles : The features that set the clusters apart.
    """

    patterns: NDArray[np.bool_]
    counts: NDArray[np.int64]
    rows: NDArray[np.int64]
    means: tuple[Floats, ...]
    stds: tuple[Floats, ...]
    zeros: tuple[Floats, ...] = ()
    by_cluster: NDArray[np.int64] | None = None

    def _repr_html_(self) -> str:
        samples, sizes = int(self.counts.sum()), [mean.shape[1] for mean in self.means]
        rows = [(f"view {v}", size, f"{self.rows[:, v].sum():,}") for v, size in enumerate(sizes)]
        note = (
            f"{len(self.counts):,} combinations of observed views; means and deviations of {len(self.rows)} clusters."
        )
        return html_table(f"Summary of {samples:,} samples", ("view", "features", "samples that have it"), rows, note)

    @classmethod
    def of(cls, views: Views | StoredViews, labels: NDArray[np.int64], n_clusters: int) -> "Summary":
        """Go through the samples once, a block at a time.

        Parameters
        ----------
        views : Views or StoredViews
        labels : array of shape (n_samples,)
            Cluster of each sample.
        n_clusters : int
        """
        kinds = np.zeros((0, views.n_views + n_clusters), dtype=bool)
        counts = np.zeros(0, dtype=np.int64)
        moments = [_Moments(n_clusters, size) for size in views.sizes]
        step = getattr(views, "block_rows", BLOCK)
        for start in range(0, views.n_samples, step):
            stop = min(start + step, views.n_samples)
            block = views.read(start, stop)
            piece = labels_between(labels, start, stop)
            member = piece[:, None] == np.arange(n_clusters)
            kinds, counts = count_patterns(
                np.vstack([kinds, np.hstack([block.observed, member])]),
                np.append(counts, np.ones(stop - start, dtype=np.int64)),
            )
            for v, moment in enumerate(moments):
                moment.add(block.rows(v), piece[block.observed[:, v]])
        means, stds, zeros = zip(*(moment.result() for moment in moments), strict=True)
        seen, member = kinds[:, : views.n_views], kinds[:, views.n_views :]
        patterns, totals = count_patterns(seen, counts)
        which = (patterns[:, None] == seen).all(axis=2)
        by_cluster = which.astype(np.int64) @ (member * counts[:, None])
        rows = np.column_stack([moment.counts for moment in moments])
        return cls(patterns, totals, rows, means, stds, zeros, by_cluster)

    @property
    def column_means(self) -> tuple[Floats, ...]:
        """Means of the columns over all samples that have the view; 0 where there are none."""
        weights = [
            np.where(np.isnan(mean), 0, rows[:, None]) for mean, rows in zip(self.means, self.rows.T, strict=True)
        ]
        return tuple(
            (np.nan_to_num(mean) * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
            for mean, weight in zip(self.means, weights, strict=True)
        )


def labels_between(labels: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    """Return the labels of the samples from `start` to before `stop`, read anew if they are on disk."""
    if not isinstance(labels, np.memmap):
        return labels[start:stop]
    # Read, for the pages of a map that was touched stay in memory.
    at = labels.offset + start * labels.itemsize
    return np.fromfile(str(labels.filename), np.int64, stop - start, offset=at)


def count_patterns(
    observed: NDArray[np.bool_], counts: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return the distinct rows of `observed` and how many samples have each, most frequent first.

    Parameters
    ----------
    observed : array of bool, shape (n, V)
    counts : array of int, shape (n,), optional
        How many samples a row stands for; 1 when left out.
    """
    patterns, which = np.unique(observed, axis=0, return_inverse=True)
    totals = np.bincount(which.ravel(), counts, minlength=len(patterns)).astype(np.int64)
    order = np.lexsort((*(~patterns.T[::-1]), -patterns.sum(axis=1), -totals))
    return patterns[order], totals[order]


class _Moments:
    """Count, mean, spread and share of zeros of every feature in every cluster, from rows that come in blocks."""

    def __init__(self, n_clusters: int, size: int) -> None:
        self.counts = np.zeros(n_clusters, dtype=np.int64)
        self._sums, self._squares, self._empty, self._zeros = np.zeros((4, n_clusters, size))
        self._shift: NDArray[np.floating] | None = None

    def add(self, rows: NDArray[np.floating], labels: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        rows = rows.astype(np.float64)
        member = (labels == np.arange(len(self.counts))[:, None]).astype(np.float64)
        self.counts += member.sum(axis=1).astype(np.int64)
        empty = np.isnan(rows)
        self._zeros += member @ (rows == 0)
        if self._shift is None:
            self._shift = _column_means(rows, empty)  # squares of far values would drown their differences
        rows -= self._shift
        if empty.any():
            rows[empty] = 0.0
            self._empty += member @ empty
        self._sums += member @ rows
        self._squares += member @ np.square(rows)

    def result(self) -> tuple[Floats, Floats, Floats]:
        shift = 0.0 if self._shift is None else self._shift
        cells = self.counts[:, None] - self._empty
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self._sums / cells
            spread = self._squares / cells - np.square(means)
            zeros = self._zeros / cells
        return means + shift, np.sqrt(np.maximum(spread, 0)), zeros


def _column_means(rows: NDArray[np.floating], empty: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Return the mean of each column's cells, 0 where all are empty."""
    if not empty.any():
        return np.asarray(rows.mean(axis=0))
    return np.asarray(np.where(empty, 0.0, rows).sum(axis=0) / np.maximum((~empty).sum(axis=0), 1))
