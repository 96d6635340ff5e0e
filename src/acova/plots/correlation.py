"""The correlation of the views' errors as a heat map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from acova.plots.display import Display
from acova.plots.fitted import check_has
from acova.plots.style import label_rows, name_columns, new_axes, write_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CorrelationDisplay(Display):
    """Heat map of a correlation matrix, with the views' names and the values in the cells.

    Parameters
    ----------
    correlation : array-like of shape (V, V)
    view_names : sequence of V str

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    ViewWeightDisplay : How much each view counts in each cluster.
    """

    def __init__(self, correlation: ArrayLike, view_names: Sequence[str]) -> None:
        self.correlation = np.asarray(correlation)
        self.view_names = list(view_names)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the learned correlation of a fitted model."""
        lack = "has no correlation_; fit a method that fuses views by the correlation of their errors, such as ACOVA."
        check_has("CorrelationDisplay", estimator, "correlation_", lack)
        return cls(estimator.correlation_, estimator.view_names_).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        count = len(self.view_names)
        self.ax_ = ax = new_axes(ax, (3.6 + 0.55 * count, 2.4 + 0.55 * count))
        self.figure_ = ax.figure
        image = ax.imshow(self.correlation, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        ax.set_title("Correlation of the views' errors", wrap=True)
        self.figure_.colorbar(image, ax=ax, shrink=0.8)
        name_columns(ax, self.view_names)
        label_rows(ax, self.view_names)
        inks = np.where(np.abs(self.correlation) > 0.6, "white", "black").tolist()
        write_cells(ax, [[f"{value:z.2f}" for value in row] for row in self.correlation], inks)
        return self
