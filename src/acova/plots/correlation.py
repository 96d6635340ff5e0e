"""The correlation of the views' errors as a heat map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from acova.plots.style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CorrelationDisplay:
    """Heat map of a correlation matrix, with the views' names and the values in the cells.

    Parameters
    ----------
    correlation : array-like of shape (V, V)
    view_names : sequence of V str

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.
    """

    def __init__(self, correlation: ArrayLike, view_names: Sequence[str]) -> None:
        self.correlation = np.asarray(correlation)
        self.view_names = list(view_names)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the learned correlation of a fitted model."""
        return cls(estimator.correlation_, estimator.view_names_).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        count = len(self.view_names)
        side = 2.6 + 0.55 * count
        self.ax_ = ax = new_axes(ax, (side + 0.8, side))
        self.figure_ = ax.figure
        image = ax.imshow(self.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set_xticks(range(count), self.view_names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(count), self.view_names)
        if count <= 12:
            for (row, column), value in np.ndenumerate(self.correlation):
                colour = "white" if abs(value) > 0.6 else "black"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=9)
        ax.set_title("Correlation of the views' errors")
        self.figure_.colorbar(image, ax=ax, shrink=0.8)
        return self
