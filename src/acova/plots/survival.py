"""How long the samples of each cluster survive."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from acova.plots.display import Display
from acova.plots.style import PALETTE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from acova.clustering.survival import Survival

_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
"""Line styles; with 12 colours the first 60 clusters differ in the pair of both."""
_MOST_ROWS = 12
"""Clusters up to which the numbers at risk stand below the curves, and each curve has its band."""
_ROW = 11
"""Height of a row of numbers at risk, in points."""


class SurvivalDisplay(Display):
    """Kaplan-Meier curves of the clusters with 95 % confidence bands; ticks mark samples that were censored.

    Below stand the numbers of samples at risk. With more than 12 clusters, bands and numbers are left out; they are in
    ``survival.curves``.

    Parameters
    ----------
    survival : acova.estimators.Survival
        As ``model.compare(frame, time, event).survival``.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.ACOVA.compare : The test that belongs to it.
    """

    def __init__(self, survival: "Survival") -> None:
        self.survival = survival

    @classmethod
    def from_estimator(cls, estimator: Any, frame: Any, *, time: Any, event: Any, ax: "Axes | None" = None) -> Self:
        """Compare the clusters of a fitted model by survival, and draw.

        Parameters
        ----------
        frame : DataFrame, or dict of column → values
            As for ``compare`` of the model.
        time, event : str
            Its columns.
        """
        check_is_fitted(estimator, "labels_")
        return cls(estimator.compare(frame, time, event, n_permutations=1).survival).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        curves = list(self.survival.curves.groupby("cluster", sort=True))
        few = len(curves) <= _MOST_ROWS
        self.ax_ = ax = new_axes(ax, (6.4, 3.6 + (_ROW * (len(curves) + 1) / 72 if few else 0)))
        self.figure_ = ax.figure
        for place, (cluster, curve) in enumerate(curves):
            _draw(ax, place, cluster, curve, band=few)
        p_value = self.survival.p_value
        ax.set(
            xlim=(0, None),
            ylim=(0, 1.03),
            xlabel="time",
            ylabel="share without the event",
            title=f"Survival by cluster (log-rank p {'< 0.0001' if p_value < 1e-4 else f'= {p_value:.2g}'})",
        )
        ax.spines[["top", "right"]].set_visible(False)
        columns = -(-len(curves) // 20)
        size = 9 if columns == 1 else 6
        ax.legend(title="cluster", frameon=False, loc="upper left", bbox_to_anchor=(1, 1), ncols=columns, fontsize=size)
        if few:
            _write_numbers(ax, curves)
        return self


def _draw(ax: "Axes", place: int, cluster: Any, curve: pd.DataFrame, *, band: bool) -> None:
    colour, style = PALETTE[place % len(PALETTE)], _LINES[place % len(_LINES)]
    times, survival = curve["time"].to_numpy(), curve["survival"].to_numpy()
    steps = {"color": colour, "linestyle": style, "drawstyle": "steps-post", "label": str(cluster)}
    ax.plot(np.insert(times, 0, 0), np.insert(survival, 0, 1), **steps)  # events at time 0 are a step, too
    if band:
        ax.fill_between(times, curve["lower"], curve["upper"], step="post", color=colour, alpha=0.12, linewidth=0)
    leaving = curve["at_risk"].to_numpy() - np.append(curve["at_risk"].to_numpy()[1:], 0)
    censored = leaving > curve["events"].to_numpy()
    ax.plot(times[censored], survival[censored], color=colour, linestyle="", marker="|", markersize=6)


def _write_numbers(ax: "Axes", curves: list[tuple[Any, pd.DataFrame]]) -> None:
    """Write how many samples are at risk at every tick, one row per cluster below the axis."""
    ticks = [float(tick) for tick in ax.get_xticks() if 0 <= tick <= ax.get_xlim()[1]]
    down = -38  # points: below the ticks and the label of the axis
    where: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points", "fontsize": 8}
    ax.annotate("at risk", (0, 0), (-18, down), ha="right", va="center", **where)
    for row, (cluster, curve) in enumerate(curves, start=1):
        ink: dict[str, Any] = {"color": PALETTE[(row - 1) % len(PALETTE)], "va": "center", **where}
        ax.annotate(str(cluster), (0, 0), (-18, down - _ROW * row), ha="right", **ink)
        times, at_risk = curve["time"].to_numpy(), np.append(curve["at_risk"].to_numpy(), 0)
        for tick in ticks:
            number = at_risk[np.searchsorted(times, tick)]
            ax.annotate(f"{number}", (tick, 0), (0, down - _ROW * row), ha="center", **ink)
