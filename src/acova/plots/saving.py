"""All figures of a model as files."""

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from acova.plots.clusters import ClusterDisplay
from acova.plots.convergence import ConvergenceDisplay
from acova.plots.correlation import CorrelationDisplay
from acova.plots.latent import LatentDisplay
from acova.plots.missing import MissingDisplay
from acova.plots.weights import ViewWeightDisplay


def save_figures(estimator: Any, X: Any, folder: str | Path) -> list[Path]:
    """Write every figure that a fitted model has as a png file; return their paths.

    Parameters
    ----------
    estimator : fitted ACOVA
    X : views in any accepted form, or None
        The samples of the latent map; None takes the training samples.
    folder : str or Path
        Made if it is not there.

    See Also
    --------
    acova.report.write_report : One HTML file about a model.
    """
    check_is_fitted(estimator, "labels_")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    displays: dict[str, Any] = {
        "correlation": CorrelationDisplay.from_estimator(estimator),
        "latent": LatentDisplay.from_estimator(estimator, X),
        **({"convergence": ConvergenceDisplay.from_estimator(estimator)} if len(estimator.history_) else {}),
        "missing": MissingDisplay.from_estimator(estimator),
        "clusters": ClusterDisplay.from_estimator(estimator),
        "weights": ViewWeightDisplay.from_estimator(estimator),
    }
    paths = []
    for name, display in displays.items():
        path = folder / f"{name}.png"
        display.figure_.savefig(path, dpi=150)
        paths.append(path)
    return paths
