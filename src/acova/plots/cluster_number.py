"""How well each number of clusters fits."""

from typing import TYPE_CHECKING, Self

import numpy as np

from acova.plots.style import PALETTE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from acova.clustering.number import ClusterNumbers


class ClusterNumberDisplay:
    """Silhouette of every number of clusters, beside that of data without clusters; a line marks the choice.

    Parameters
    ----------
    numbers : ClusterNumbers
        As `acova.select_n_clusters` returns them, or `cluster_numbers_` of a model with ``n_clusters="auto"``.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.select_n_clusters : The comparison that it draws.

    Examples
    --------
    >>> from acova import select_n_clusters
    >>> from acova.data import make_views
    >>> from acova.plots import ClusterNumberDisplay
    >>> numbers = select_n_clusters(make_views(120, 3, random_state=0).views, range(2, 6), random_state=0)
    >>> ClusterNumberDisplay(numbers).plot().ax_.get_xlabel()
    'number of clusters'
    """

    def __init__(self, numbers: "ClusterNumbers") -> None:
        self.numbers = numbers

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        self.ax_ = ax = new_axes(ax, (6.4, 3.2))
        self.figure_ = ax.figure
        found = self.numbers
        counts, expected, spread = np.array(found.candidates), np.array(found.expected), np.array(found.spread)
        ax.fill_between(counts, expected - 2 * spread, expected + 2 * spread, color="0.85", linewidth=0)
        ax.plot(counts, expected, color="0.5", marker="s", markersize=4, label="data without clusters (± 2 sd)")
        ax.plot(counts, found.silhouette, color=PALETTE[0], marker="o", label="these data")
        if found.n_clusters > 1:
            ax.axvline(found.n_clusters, color=PALETTE[3], linestyle="--", linewidth=1, zorder=0)
        words = f"{found.n_clusters} clusters" if found.n_clusters > 1 else "no clusters found"
        ax.set(xlabel="number of clusters", ylabel="silhouette", title=f"Number of clusters: {words}")
        ax.locator_params(axis="x", integer=True)
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.3 * (high - low))  # room for the legend
        ax.legend(frameon=False, loc="upper right")
        ax.spines[["top", "right"]].set_visible(False)
        return self
