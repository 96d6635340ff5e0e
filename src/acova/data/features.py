"""What the observed rows of a view say of its features."""

from collections.abc import Iterator

import numpy as np
from sklearn.preprocessing import StandardScaler

from acova.data.columns import add_moments, least_of, most_of
from acova.data.inputs import FloatArray
from acova.data.stored import StoredViews, blocks_of
from acova.data.views import Views

_SPANS, _MOST = 0.9, 0.5
"""Share of the view's range that a feature must span, and share of such features, for one scale of the view."""
_AT_ENDS = 0.3
"""Variance of features of one kind, as a share of what it would be with all values at the ends of the range."""
_ZEROS = 0.8
"""Share of the cells that are zero in a bag of words."""


class Features:
    """What the observed rows of a view, given in any number of blocks, say of its features.

    Attributes
    ----------
    low, high : arrays of shape (n_features,)
        The smallest and the largest value; infinities where there is no row.
    moments : StandardScaler
        Means and variances.
    whole : array of bool, shape (n_features,)
        Whether all values are whole numbers.
    """

    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.moments = StandardScaler()
        self.whole = np.ones(size, dtype=bool)
        self._cells, self._present = np.zeros((2, size), dtype=np.int64)

    def add(self, rows: FloatArray) -> None:
        """Take more rows into account."""
        self.low, self.high = np.fmin(self.low, least_of(rows)), np.fmax(self.high, most_of(rows))
        add_moments(self.moments, rows)
        is_empty = np.isnan(rows)
        self.whole[self.whole] = ((rows[:, self.whole] % 1 == 0) | is_empty[:, self.whole]).all(axis=0)
        empty = np.count_nonzero(is_empty, axis=0)
        self._cells += len(rows) - empty
        self._present += np.count_nonzero(rows, axis=0) - empty

    def scaling(self) -> str:
        """Return the kind of scaling that "auto" stands for."""
        if self.share_a_scale():
            return "range"
        return "cosine" if self.are_counts_of_words() else "robust"

    def share_a_scale(self) -> bool:
        """Tell whether the features are of one kind, as pixels, ratings and zeros and ones are.

        Most span (nearly) the range of them all, and values are common at its ends. A pixel that is hardly ever lit is
        then no event of its own to be blown up. Measurements brought to [0, 1] one by one share bounds, too, but most
        of their values lie between them.
        """
        least, spread = self.low.min(), self.high.max() - self.low.min()
        if not spread > 0:
            return True
        spanned = (self.high - self.low >= _SPANS * spread).mean()
        means = (self.moments.mean_ - least) / spread
        at_ends = (means * (1 - means)).sum() * spread**2
        return bool(spanned >= _MOST and self.moments.var_.sum() >= _AT_ENDS * at_ends)

    def are_counts_of_words(self) -> bool:
        """Tell whether the view is a bag of words: nearly all cells are zero, and rows are not long by one feature.

        That is, features that most rows have hold less than half of all squares.
        """
        shares = self._present / self._cells
        squares = self.moments.var_ + self.moments.mean_**2
        return bool(1 - shares.mean() >= _ZEROS and squares[shares > 0.5].sum() < 0.5 * squares.sum())


def features_of(views: Views | StoredViews) -> list[Features]:
    """Return what the observed rows of each view say of its features."""
    learners = [Features(size) for size in views.sizes]
    for v, rows in observed_rows(views):
        learners[v].add(rows)
    return learners


def observed_rows(views: Views | StoredViews) -> Iterator[tuple[int, FloatArray]]:
    """Yield the number of a view and some rows that it has, until all rows of all views were there."""
    for block in blocks_of(views):
        for v in range(views.n_views):
            rows = block.rows(v)
            if len(rows):
                yield v, rows
