"""A map of the fused latent space."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from acova.plots.style import MARKERS, PALETTE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LatentDisplay:
    """Samples in two dimensions, by cluster; uncertain samples are faded, cluster numbers stand at the medians.

    Parameters
    ----------
    points : array-like of shape (n_samples, 2)
    labels : array-like of int, shape (n_samples,)
    confidence : array-like of shape (n_samples,)
        Probability of the label.
    method : str
        How the points were made, for the title.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.
    """

    def __init__(self, points: ArrayLike, labels: ArrayLike, confidence: ArrayLike, method: str = "t-SNE") -> None:
        self.points = np.asarray(points)
        self.labels = np.asarray(labels)
        self.confidence = np.asarray(confidence)
        self.method = method

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, method: str = "t-SNE", random_state: int = 0, ax: "Axes | None" = None
    ) -> Self:
        """Map the samples of `X` with a fitted model.

        Parameters
        ----------
        estimator : fitted ACOVA
        X : views in any accepted form
        method : {"t-SNE", "PCA"}
            Fewer than ten samples are always mapped by PCA.
        random_state : int
        ax : matplotlib axes, optional
        """
        latent = estimator.transform(X)
        probabilities = estimator.predict_proba(X)
        points = _reduce(latent, method, random_state)
        return cls(points, probabilities.argmax(axis=1), probabilities.max(axis=1), method).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        from matplotlib.patheffects import withStroke

        self.ax_ = ax = new_axes(ax, (6.4, 5.4))
        self.figure_ = ax.figure
        size = float(np.clip(3000 / max(len(self.points), 1), 4, 30))
        for cluster in np.unique(self.labels):
            mine = self.labels == cluster
            x, y = self.points[mine].T
            alpha = np.clip(self.confidence[mine], 0.15, 0.9)
            colour, marker = PALETTE[cluster % len(PALETTE)], MARKERS[cluster % len(MARKERS)]
            ax.scatter(x, y, s=size, c=colour, marker=marker, alpha=alpha, linewidths=0)
        for cluster in np.unique(self.labels):
            x, y = np.median(self.points[self.labels == cluster], axis=0)
            halo = [withStroke(linewidth=3, foreground="white")]
            ax.text(x, y, str(cluster), ha="center", va="center", weight="bold", fontsize=11, path_effects=halo)
        ax.set(xticks=[], yticks=[], title=f"Latent space ({self.method}), number = cluster")
        return self


def _reduce(latent: Any, method: str, random_state: int) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    from acova.base import check_choice

    check_choice("LatentDisplay", "method", method, ("t-SNE", "PCA"))
    count, dim = latent.shape
    if method == "t-SNE" and count >= 10 and dim > 1:
        perplexity = min(30.0, (count - 1) / 3)
        return TSNE(perplexity=perplexity, init="pca", random_state=random_state).fit_transform(latent)
    points = np.zeros((count, 2))
    if count > 1:
        axes = min(2, count, dim)
        points[:, :axes] = PCA(axes, random_state=random_state).fit_transform(latent)
    return points
