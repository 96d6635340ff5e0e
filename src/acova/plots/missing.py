"""Which views are missing together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from acova.data import StoredViews, Views
from acova.data.stored import is_stored
from acova.data.summary import count_patterns
from acova.plots.display import Display
from acova.plots.style import PALETTE, label_rows, name_columns, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 6.0
"""Length of the longest bar, in columns of dots."""


class MissingDisplay(Display):
    """Combinations of views that samples have, most frequent first (an UpSet plot on its side).

    A row is a combination: filled dots are views that its samples have, and the bar says how many samples. Beside each
    view's name stands the share of samples that have it.

    Parameters
    ----------
    patterns : array-like of bool, shape (M, V)
        Distinct combinations.
    counts : array-like of int, shape (M,)
        Samples of each.
    view_names : sequence of V str
    max_patterns : int
        Rows to draw; the last one then counts all rarer combinations, without a bar.

    Attributes
    ----------
    patterns, counts, view_names, max_patterns
        As given.
    observed_shares : array of shape (V,)
        Share of the samples that have each view.
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.data.inspect_data : Counts of the same patterns.
    """

    def __init__(
        self, patterns: ArrayLike, counts: ArrayLike, view_names: Sequence[str], *, max_patterns: int = 20
    ) -> None:
        self.patterns, self.counts = np.asarray(patterns, dtype=bool), np.asarray(counts)
        self.view_names, self.max_patterns = list(view_names), max_patterns
        self.observed_shares = self.counts @ self.patterns / self.counts.sum()

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_patterns: int = 20, ax: "Axes | None" = None) -> Self:
        """Draw the missing patterns of the data a model was fitted on."""
        check_is_fitted(estimator, "labels_")
        summary = estimator.summary_
        return cls(summary.patterns, summary.counts, estimator.view_names_, max_patterns=max_patterns).plot(ax)

    @classmethod
    def from_views(cls, X: Any, observed: Any = None, *, max_patterns: int = 20, ax: "Axes | None" = None) -> Self:
        """Draw the missing patterns of views in any accepted form, before any training."""
        if is_stored(X):
            stored = StoredViews.of(X, observed)
            names, seen = stored.names, np.vstack([block.observed for block in stored.blocks(4096)])
        else:
            views = Views.of(X, observed)
            names, seen = views.names, views.observed
        return cls(*count_patterns(seen), names, max_patterns=max_patterns).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        patterns, counts, texts = self._rows()
        n_views, total = len(self.view_names), self.counts.sum()
        columns = n_views + _BAR + 3
        self.ax_ = ax = new_axes(ax, (2.0 + 0.42 * columns, 1.8 + 0.3 * len(counts)))
        self.figure_ = ax.figure
        ax.set(xlim=(-0.7, columns - 0.7), ylim=(len(counts) - 0.4, -0.6))
        shares = zip(self.view_names, self.observed_shares, strict=True)
        name_columns(ax, [f"{short(name, 15)} {_percent(share)}" for name, share in shares], room=columns)
        size = label_rows(ax, [""] * len(counts))
        for row, pattern in enumerate(patterns):
            present = np.flatnonzero(pattern)
            if len(present):
                ax.plot(present[[0, -1]], [row, row], color=PALETTE[0], linewidth=1.5, zorder=1)
        y, x = np.indices(patterns.shape)
        known = patterns.any(axis=1)[:, None] & np.ones_like(patterns)
        ax.scatter(x[known & ~patterns], y[known & ~patterns], s=28, color="0.85", zorder=2)
        ax.scatter(x[patterns], y[patterns], s=36, color=PALETTE[0], zorder=3)
        alone = np.where(np.array(texts) == "", counts, 0)  # all rarer ones together would dwarf every bar
        lengths = alone / max(alone.max(), 1) * _BAR
        ax.barh(range(len(counts)), lengths, left=n_views - 0.3, height=0.6, color=PALETTE[0])
        for row, (count, text, length) in enumerate(zip(counts, texts, lengths, strict=True)):
            end = n_views - 0.2 + length
            ax.text(end, row, f"{count:,} ({_percent(count / total)})", va="center", fontsize=size)
            if text:
                ax.text(n_views - 0.6, row, text, va="center", ha="right", fontsize=size)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set_title(f"Views that samples have ({total:,} samples)", wrap=True)
        return self

    def _rows(self) -> tuple[Any, Any, list[str]]:
        """Return patterns, counts and a text for each row; the row of all rarer patterns has no dots."""
        if len(self.counts) <= self.max_patterns:
            return self.patterns, self.counts, [""] * len(self.counts)
        kept = self.max_patterns - 1
        others = np.zeros((1, self.patterns.shape[1]), dtype=bool)
        counts = np.append(self.counts[:kept], self.counts[kept:].sum())
        texts = [*[""] * kept, f"{len(self.counts) - kept} rarer"]
        return np.vstack([self.patterns[:kept], others]), counts, texts


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"
