"""How much each view drove each cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from acova.plots.display import Display
from acova.plots.fitted import check_has
from acova.plots.style import label_rows, name_columns, new_axes, write_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ViewWeightDisplay(Display):
    """Mean weight of every view in the latent positions of each cluster's samples; rows sum to 1.

    A view that many samples of a cluster lack has a small mean weight there. Strongly correlated views can have
    negative weights.

    Parameters
    ----------
    weights : array-like of shape (n_samples, V)
        As `view_weights_` of a fitted model.
    labels : array-like of int, shape (n_samples,)
    view_names : sequence of V str
    n_clusters : int, optional
        More than appear in `labels` leaves rows empty.

    Attributes
    ----------
    cluster_weights : array of shape (n_clusters, V)
        NaN for a cluster without samples.
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    CorrelationDisplay : The correlation of the views' errors.
    """

    def __init__(
        self, weights: ArrayLike, labels: ArrayLike, view_names: Sequence[str], *, n_clusters: int | None = None
    ) -> None:
        labels, weights = np.asarray(labels), np.asarray(weights)
        count = max(n_clusters or 0, int(labels.max()) + 1)
        sizes = np.bincount(labels, minlength=count)
        sums = np.stack([np.bincount(labels, column, minlength=count) for column in weights.T], axis=1)
        self.cluster_weights = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], np.nan)
        self.view_names = list(view_names)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: "Axes | None" = None) -> Self:
        """Draw the weights of the training samples, or of `X`."""
        lack = "does not weigh views; fit a method that fuses them, such as ACOVA."
        check_has("ViewWeightDisplay", estimator, "view_weights_", lack)
        labels, weights = estimator.labels_, estimator.view_weights_
        if X is not None:
            labels, weights = estimator.predict(X), estimator.fusion_weights(X)
        return cls(weights, labels, estimator.view_names_, n_clusters=estimator.n_clusters_).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        count, n_views = self.cluster_weights.shape
        self.ax_ = ax = new_axes(ax, (3.2 + 0.55 * n_views, 2.2 + 0.22 * count))
        self.figure_ = ax.figure
        known = self.cluster_weights[np.isfinite(self.cluster_weights)]
        most = float(np.abs(known).max(initial=1e-12))
        signed = known.min(initial=0.0) < -0.01  # two-sided colours only where both sides occur
        least, colours = (-most, "RdBu_r") if signed else (0.0, "Blues")
        image = ax.imshow(self.cluster_weights, cmap=colours, vmin=least, vmax=most, aspect="auto")
        ax.set(ylabel="cluster", title="Weight of the views")
        self.figure_.colorbar(image, ax=ax)
        name_columns(ax, self.view_names)
        label_rows(ax, range(count))
        inks = np.where(np.abs(np.nan_to_num(self.cluster_weights)) > 0.6 * most, "white", "black").tolist()
        texts = [["" if np.isnan(value) else f"{value:z.2f}" for value in row] for row in self.cluster_weights]
        write_cells(ax, texts, inks)
        return self
