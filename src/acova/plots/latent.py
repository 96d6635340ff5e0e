"""A map of the fused latent space."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from acova.plots.display import Display
from acova.plots.fitted import check_has
from acova.plots.maps import map_points
from acova.plots.style import MARKERS, PALETTE, new_axes, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LatentDisplay(Display):
    """Samples in two dimensions, by cluster; uncertain samples are faded, cluster numbers stand near the medians.

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

    See Also
    --------
    map_points : The coordinates alone.
    ClusterDisplay : Sizes and confidence of the clusters.
    """

    def __init__(self, points: ArrayLike, labels: ArrayLike, confidence: ArrayLike, method: str = "t-SNE") -> None:
        self.points = np.asarray(points)
        self.labels = np.asarray(labels)
        self.confidence = np.asarray(confidence)
        self.method = method

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        method: str = "t-SNE",
        random_state: int = 0,
        ax: "Axes | None" = None,
    ) -> Self:
        """Map the training samples, or those of `X`, with a fitted model.

        Parameters
        ----------
        estimator : fitted ACOVA, or another method with a latent space
        X : views in any accepted form, optional
        method : {"t-SNE", "PCA", "UMAP"}
            UMAP needs the extra ``umap``. Fewer than ten samples are always mapped by PCA.
        random_state : int
        ax : matplotlib axes, optional
        """
        lack = "has no latent space to map; fit ACOVA or a relative."
        check_has("LatentDisplay", estimator, "latent_", lack)
        latent = estimator.latent_ if X is None else estimator.transform(X)
        probabilities = estimator.probabilities_ if X is None else estimator.predict_proba(X)
        points, made_by = map_points("LatentDisplay", latent, method, random_state)
        return cls(points, probabilities.argmax(axis=1), probabilities.max(axis=1), made_by).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        self.ax_ = ax = new_axes(ax, (6.4, 5.4))
        self.figure_ = ax.figure
        size = float(np.clip(3000 / max(len(self.points), 1), 4, 30))
        clusters = np.unique(self.labels)
        for cluster in clusters:
            inside = self.labels == cluster
            x, y = self.points[inside].T
            alpha = np.clip(self.confidence[inside], 0.15, 0.9)
            colour, marker = PALETTE[cluster % len(PALETTE)], MARKERS[cluster % len(MARKERS)]
            ax.scatter(x, y, s=size, c=colour, marker=marker, alpha=alpha, linewidths=0)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"Latent space ({self.method}), number = cluster", wrap=True)
        self._number(ax, clusters)
        return self

    def _number(self, ax: Any, clusters: NDArray[Any]) -> None:
        """Write the clusters' numbers near their medians, moved apart where they would cover each other."""
        from matplotlib.patheffects import withStroke

        size = 11.0 if len(clusters) <= 20 else 8.0
        medians = np.array([np.median(self.points[self.labels == cluster], axis=0) for cluster in clusters])
        settle(ax)
        to_pixels, pixel = ax.transData, self.figure_.dpi / 72
        anchors = to_pixels.transform(medians)
        boxes = np.array([(0.75 * len(str(cluster)) + 0.3, 1.4) for cluster in clusters]) * size * pixel
        frame = ax.get_window_extent()
        limits = np.array([[frame.x0, frame.y0], [frame.x1, frame.y1]])
        places = spread_boxes(anchors, boxes, limits)
        ax.autoscale(False)
        for cluster, median, anchor, place in zip(clusters, medians, anchors, places, strict=True):
            x, y = to_pixels.inverted().transform(place)
            if np.abs(place - anchor).max() > size * pixel:
                ax.plot([median[0], x], [median[1], y], color="0.35", linewidth=0.6, zorder=4)
            halo = [withStroke(linewidth=3, foreground="white")]
            style: dict[str, Any] = {"weight": "bold", "fontsize": size, "path_effects": halo, "zorder": 5}
            ax.text(x, y, str(cluster), ha="center", va="center", **style)


def spread_boxes(centres: NDArray[Any], sizes: NDArray[Any], limits: NDArray[Any]) -> NDArray[Any]:
    """Return centres of boxes so that no two overlap: one after the other takes the nearest free spot inside.

    Parameters
    ----------
    centres, sizes : arrays of shape (n, 2)
        Where the boxes would like to be, and their widths and heights.
    limits : array of shape (2, 2)
        Lower left and upper right corner of the space they have.
    """
    # Spots around a box are tried like the seeds of a sunflower, evenly in all directions: near ones, then all.
    seed = np.arange(1500)
    turn = np.column_stack([np.cos(2.399963 * seed), np.sin(2.399963 * seed)]) * np.sqrt(seed)[:, None]
    around = np.vstack([turn * sizes.min() / 4, turn * np.hypot(*(limits[1] - limits[0])) / np.sqrt(len(seed))])
    places = np.empty_like(centres)
    for n, (centre, size) in enumerate(zip(centres, sizes, strict=True)):
        spots = np.clip(centre + around, limits[0] + size / 2, limits[1] - size / 2)
        needed = (sizes[:n] + size) / 2
        free = (np.abs(spots[:, None] - places[None, :n]) >= needed).any(axis=2).all(axis=1)
        places[n] = spots[free.argmax()]  # the first free one, or the box's own where there is none
    return places
