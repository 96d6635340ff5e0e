"""Training, epoch by epoch."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError
from acova.plots.display import Display
from acova.plots.style import PALETTE, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PARTS = ("total", "reconstruction", "kl_z", "kl_c", "alignment", "correlation_distance")
_NAMES = {"kl_z": "KL z", "kl_c": "KL c", "correlation_distance": "‖R − I‖"}
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


class ConvergenceDisplay(Display):
    """Every part of the objective over the epochs, on a logarithmic scale, with the phases marked.

    Parameters
    ----------
    history : DataFrame
        As `history_` of a fitted model: ``phase`` and named parts. Without a row, the axes say so.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.ACOVA : ``history_`` holds what it draws.
    """

    def __init__(self, history: pd.DataFrame) -> None:
        self.history = history

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the training of a fitted model."""
        check_is_fitted(estimator, "history_")
        return cls(estimator.history_).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        if self.history.empty:
            msg = "ConvergenceDisplay: the history has no epoch to draw; fit with pretrain_epochs, epochs, … above 0."
            raise DataError(msg)
        self.ax_ = ax = new_axes(ax, (7.2, 4.2))
        self.figure_ = ax.figure
        history = self.history
        if not len(history):
            ax.set(xticks=[], yticks=[], xlabel="epoch", ylabel="mean per sample")
            ax.text(0.5, 0.5, "No epoch was trained.", transform=ax.transAxes, ha="center", va="center")
            return self
        epochs = np.arange(1, len(history) + 1)
        # Pretraining has another loss (a mean, not a sum), so lines are broken between the phases.
        breaks = history["phase"].ne(history["phase"].shift(fill_value=history["phase"].iloc[0]))
        for number, part in enumerate(part for part in _PARTS if part in history):
            values = history[part].where(history[part] > 0).where(~breaks)
            if part == "reconstruction":
                values = values.where(history["phase"] != "pretrain")
            colour, style = PALETTE[number], _STYLES[number]
            ax.plot(epochs, values, color=colour, linestyle=style, label=_NAMES.get(part, part))
        starts = np.flatnonzero(breaks.to_numpy() | (epochs == 1))
        levels = [-np.inf] * (len(starts) + 1)  # where the names on each line above the axes end
        for start in starts:
            if start:
                ax.axvline(epochs[start] - 0.5, color="0.6", linewidth=0.8)
            name, share = short(history["phase"].iloc[start]), start / len(history)
            level = next(level for level, end in enumerate(levels) if share > end)  # short phases' names would touch
            levels[level] = share + 0.025 * len(name)
            where = (epochs[start] - 0.5, 1.02 + 0.055 * level)
            ax.text(*where, name, transform=ax.get_xaxis_transform(), color="0.35", fontsize=9)
        ax.set(xlabel="epoch", ylabel="mean per sample", yscale="log", xlim=(0.5, max(len(history), 1) + 0.5))
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self
