"""How large the clusters are, and how sure."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from acova.plots.confidence import CONFIDENCE_EDGES, confidence_bands
from acova.plots.display import Display
from acova.plots.style import label_rows, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHADES = ("#dbe9f6", "#9ac8e0", "#4a98c9", "#08468b")
"""Light to dark: tells apart also in grey."""


class ClusterDisplay(Display):
    """Number of samples of every cluster, shaded by how sure they are; cluster 0, the largest, is on top.

    Parameters
    ----------
    labels : array-like of int, shape (n_samples,)
    confidence : array-like of shape (n_samples,) or None
        Probability of the label; None for a method without probabilities.
    n_clusters : int, optional
        More than appear in `labels` leaves rows empty.

    Attributes
    ----------
    sizes : array of int, shape (n_clusters,)
    bands : array of int, shape (4, n_clusters) or None
        Samples with a confidence below 0.5, from 0.5, from 0.7, and from 0.9 on (the sure ones); see
        `acova.plots.confidence_bands`.
    mean_confidence : array of shape (n_clusters,) or None
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    confidence_bands : The bands of confidence that it counts.
    LatentDisplay : A map of the samples.
    """

    def __init__(
        self, labels: ArrayLike, confidence: ArrayLike | None = None, *, n_clusters: int | None = None
    ) -> None:
        labels = np.asarray(labels)
        count = max(n_clusters or 0, int(labels.max()) + 1)
        self.sizes = np.bincount(labels, minlength=count)
        self.bands = self.mean_confidence = None
        if confidence is not None:
            band = confidence_bands(confidence)
            self.bands = np.stack(
                [np.bincount(labels[band == b], minlength=count) for b in range(len(CONFIDENCE_EDGES))]
            )
            sums = np.bincount(labels, np.asarray(confidence), minlength=count)
            self.mean_confidence = np.where(self.sizes > 0, sums / np.maximum(self.sizes, 1), np.nan)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: "Axes | None" = None) -> Self:
        """Draw the clusters of the training samples, or of `X`."""
        check_is_fitted(estimator, "labels_")
        if not hasattr(estimator, "probabilities_"):
            labels = estimator.labels_ if X is None else estimator.predict(X)
            return cls(labels, n_clusters=estimator.n_clusters_).plot(ax)
        shares = estimator.probabilities_ if X is None else estimator.predict_proba(X)
        return cls(shares.argmax(axis=1), shares.max(axis=1), n_clusters=estimator.n_clusters_).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        count = len(self.sizes)
        self.ax_ = ax = new_axes(ax, (7.2, 1.6 + 0.22 * count))
        self.figure_ = ax.figure
        rows, left = np.arange(count), np.zeros(count)
        if self.bands is None:
            ax.barh(rows, self.sizes, color=_SHADES[-1], height=0.75)
        else:
            for band, low in reversed(list(enumerate(CONFIDENCE_EDGES))):
                upper = next((edge for edge in CONFIDENCE_EDGES if edge > low), None)
                name = f"{low:.1f} – {upper:.1f}" if upper else f"at least {low:.1f}"
                ax.barh(rows, self.bands[band], left=left, color=_SHADES[band], height=0.75, label=name)
                left = left + self.bands[band]
            ax.legend(title="confidence", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        ax.set(ylim=(count - 0.4, -0.6), xlim=(0, max(self.sizes.max(), 1) * 1.22), xlabel="samples", ylabel="cluster")
        ax.set_title("Clusters, and how sure their samples are" if self.bands is not None else "Clusters", wrap=True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.locator_params(axis="x", nbins=6, integer=True)
        size = label_rows(ax, range(count))
        if size >= 5:
            for row in range(count):
                mean = np.nan if self.mean_confidence is None else self.mean_confidence[row]
                text = f" {self.sizes[row]:,}" + ("" if np.isnan(mean) else f" · {mean:.2f}")
                ax.text(self.sizes[row], row, text, va="center", fontsize=size)
        return self
