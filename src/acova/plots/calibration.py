"""Whether the confidence can be believed."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from acova.base import OptionError
from acova.base.errors import check_number
from acova.metrics import matched
from acova.plots.confidence import reaches
from acova.plots.display import Display
from acova.plots.fitted import check_has
from acova.plots.style import PALETTE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


AGREEMENT = "share of runs that agree"
"""What is compared where no classes are known."""


class CalibrationDisplay(Display):
    """Confidence against how often the label holds: in known classes, or in the runs of a consensus.

    With known classes this is calibration. With the runs of a consensus it is none: the confidence is the mean
    probability of these same runs, so the figure shows only whether they are as sure as they agree. Runs that agree can
    all be wrong. The title and the axis say what is compared.

    Points on the diagonal: labels of confidence p hold in a share p of the cases. Below it the confidence is too high.
    Grey bars show how many samples have a confidence.

    Parameters
    ----------
    confidence : array-like of shape (n_samples,)
        Probability of the label.
    holds : array-like of shape (n_samples,)
        Whether, or in which share of the runs, the label holds.
    what : str
        What `holds` is, for the axis.
    n_bins : int
        Number of equal bins from 0 to 1.

    Attributes
    ----------
    mean_confidence, mean_holds : arrays of shape (n_bins,)
        Of the samples in each bin; NaN in an empty one.
    shares : array of shape (n_bins,)
        Share of the samples in each bin.
    error : float
        Expected calibration error: the mean distance to the diagonal, weighted by the shares.
    ax_, figure_
        Where it was drawn last.

    See Also
    --------
    acova.metrics.clustering_accuracy : Accuracy by known classes.
    ClusterDisplay : Confidence by cluster.
    """

    def __init__(self, confidence: ArrayLike, holds: ArrayLike, what: str = "accuracy", *, n_bins: int = 10) -> None:
        check_number("CalibrationDisplay", "n_bins", n_bins, minimum=1, integer=True)
        bins = reaches(confidence, np.arange(1, n_bins) / n_bins).sum(axis=1)
        confidence, holds = np.asarray(confidence, dtype=float), np.asarray(holds, dtype=float)
        counts = np.bincount(bins, minlength=n_bins)
        with np.errstate(invalid="ignore"):
            self.mean_confidence = np.bincount(bins, confidence, minlength=n_bins) / counts
            self.mean_holds = np.bincount(bins, holds, minlength=n_bins) / counts
        self.shares = counts / max(len(confidence), 1)
        self.error = float(np.nansum(self.shares * np.abs(self.mean_confidence - self.mean_holds)))
        self.what = what

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, n_bins: int = 10, ax: "Axes | None" = None
    ) -> Self:
        """Draw for a fitted model.

        Parameters
        ----------
        estimator : fitted ACOVA, or another method with probabilities
        X : views in any accepted form, optional
            Samples to ask; the training samples when left out.
        y : array-like of shape (n_samples,), optional
            Known classes. Without them the runs of a consensus are asked.
        n_bins : int
        ax : matplotlib axes, optional
        """
        lack = "has no probabilities; fit ACOVA or a relative."
        check_has("CalibrationDisplay", estimator, "probabilities_", lack)
        if y is not None:
            shares = estimator.probabilities_ if X is None else estimator.predict_proba(X)
            return cls.from_predictions(y, shares, n_bins=n_bins, ax=ax)
        table = estimator.assignments(X)
        if "agreement" not in table:
            msg = (
                "CalibrationDisplay: without known classes y the runs of a consensus are compared, and this model has "
                "one run; pass y, or fit with n_init=10, consensus=True."
            )
            raise OptionError(msg)
        return cls(table["confidence"], table["agreement"], AGREEMENT, n_bins=n_bins).plot(ax)

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, probabilities: ArrayLike, *, n_bins: int = 10, ax: "Axes | None" = None
    ) -> Self:
        """Draw for cluster probabilities (n_samples, K) and known classes, to which clusters are matched one to one."""
        shares = np.asarray(probabilities)
        return cls(shares.max(axis=1), matched(y, shares.argmax(axis=1)), "accuracy", n_bins=n_bins).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        self.ax_ = ax = new_axes(ax, (6.4, 4.4))
        self.figure_ = ax.figure
        edges = np.linspace(0, 1, len(self.shares) + 1)
        width = edges[1]
        ax.bar(edges[:-1], self.shares, width=0.96 * width, align="edge", color="0.88", label="share of samples")
        ax.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle="--", label="equal")
        filled = np.isfinite(self.mean_holds)
        x, y = self.mean_confidence[filled], self.mean_holds[filled]
        ax.plot(x, y, "o-", color=PALETTE[0], label=self.what)
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel=self.what)
        title = "Confidence and agreement of the same runs: no calibration" if self.what == AGREEMENT else "Calibration"
        ax.set_title(f"{title} (mean difference {self.error:.2f})", wrap=True)
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self
