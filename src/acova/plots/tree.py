"""Which clusters are alike, as a tree."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from acova.plots.style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ClusterTreeDisplay:
    """Merges of clusters, the most alike on the side of their names; each line has its cluster and samples.

    Parameters
    ----------
    merges : array-like of shape (n_clusters - 1, 4)
        As `cluster_tree_` of a fitted model.
    sizes : array-like of int, shape (n_clusters,)
        Samples of each cluster.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.ACOVA.cut : Groups of clusters from the tree.
    """

    def __init__(self, merges: ArrayLike, sizes: ArrayLike) -> None:
        self.merges = np.asarray(merges, dtype=np.float64)
        self.sizes = np.asarray(sizes)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the tree of a fitted model."""
        check_is_fitted(estimator, "labels_")
        sizes = np.bincount(estimator.labels_, minlength=estimator.n_clusters_)
        return cls(estimator.cluster_tree_, sizes).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        from scipy.cluster.hierarchy import dendrogram

        count = len(self.sizes)
        self.ax_ = ax = new_axes(ax, (6.4, 1.4 + 0.25 * count))
        self.figure_ = ax.figure
        names = [f"{k} ({size:,})" for k, size in enumerate(self.sizes.tolist())]
        if count > 1:
            dendrogram(
                self.merges, orientation="left", labels=names, ax=ax, color_threshold=0, above_threshold_color="0.2"
            )
        else:
            ax.set_yticks([0], names)
        ax.set(
            xlabel="share of the variance between clusters that is lost",
            ylabel="cluster (samples)",
            title="Which clusters are alike",
        )
        ax.yaxis.set_label_position("right")
        ax.spines[["top", "right", "left"]].set_visible(False)
        return self
