"""Figures of a fitted model: data in, axes out.

Each display follows scikit-learn: ``Display.from_estimator(model, …)`` computes and draws, the numbers stay on the
object, and ``.plot(ax=…)`` draws them again elsewhere.
"""

from acova.plots.convergence import ConvergenceDisplay
from acova.plots.correlation import CorrelationDisplay
from acova.plots.figures import save_figures
from acova.plots.latent import LatentDisplay

__all__ = ["ConvergenceDisplay", "CorrelationDisplay", "LatentDisplay", "save_figures"]
