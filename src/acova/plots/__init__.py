"""Figures of a fitted model: data in, axes out.

Each display follows scikit-learn: ``Display.from_estimator(model, …)`` computes and draws, the numbers stay on the
object, and ``.plot(ax=…)`` draws them again elsewhere.
"""

from acova.plots.calibration import CalibrationDisplay
from acova.plots.cluster_number import ClusterNumberDisplay
from acova.plots.clusters import ClusterDisplay
from acova.plots.confidence import CONFIDENCE_EDGES, confidence_bands, reaches
from acova.plots.convergence import ConvergenceDisplay
from acova.plots.correlation import CorrelationDisplay
from acova.plots.latent import LatentDisplay
from acova.plots.maps import MAPS, map_points
from acova.plots.missing import MissingDisplay
from acova.plots.saving import save_figures
from acova.plots.style import MARKERS, PALETTE
from acova.plots.survival import SurvivalDisplay
from acova.plots.tree import ClusterTreeDisplay
from acova.plots.weights import ViewWeightDisplay

__all__ = [
    "CONFIDENCE_EDGES",
    "MAPS",
    "MARKERS",
    "PALETTE",
    "CalibrationDisplay",
    "ClusterDisplay",
    "ClusterNumberDisplay",
    "ClusterTreeDisplay",
    "ConvergenceDisplay",
    "CorrelationDisplay",
    "LatentDisplay",
    "MissingDisplay",
    "SurvivalDisplay",
    "ViewWeightDisplay",
    "confidence_bands",
    "map_points",
    "reaches",
    "save_figures",
]
