"""What a row can keep of a fit besides its scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.data import Dataset
from acova.data.files.formats import has_class

_HISTORY = ("total", "correlation_distance")


def record_of(
    name: str, model: Any, dataset: Dataset, observed: NDArray[np.bool_], labels: NDArray[Any]
) -> dict[str, Any] | None:
    """Return a record as JSON can hold it; None where the method has nothing of the kind.

    Parameters
    ----------
    name : {"correlation", "history", "calibration", "embedding"}
    model : fitted estimator
    dataset : Dataset
    observed : array of bool, shape (n_samples, V)
    labels : array of shape (n_samples,)
        Clusters found.
    """
    if name == "correlation":
        return _correlation(model)
    if name == "history":
        return _history(model)
    if name == "calibration":
        from acova.bench.calibration import calibration_of

        return calibration_of(model, dataset, observed, classes_of(dataset))
    return _embedding(model, dataset, observed, labels)


def guards_of(model: Any) -> dict[str, float]:
    """Return how often guards of training acted: steps that were clipped, and the most of the others in one epoch."""
    history = getattr(model, "history_", {})
    most = {name: history[name].max() for name in ("floored", "empty_clusters") if name in history}
    clipped = {"clipped": history["clipped"].sum()} if "clipped" in history else {}
    return {name: round(float(value), 4) for name, value in {**clipped, **most}.items() if not np.isnan(value)}


def _correlation(model: Any) -> dict[str, Any] | None:
    if not hasattr(model, "correlation_"):
        return None
    return {"views": list(model.view_names_), "matrix": np.round(model.correlation_, 5).tolist()}


def _history(model: Any) -> dict[str, Any] | None:
    """Return the objective and ‖R − I‖ of every epoch of the whole model."""
    history = getattr(model, "history_", None)
    if history is None or "phase" not in history:
        return None
    rows = history[history["phase"] == "train"]
    return {name: np.round(rows[name].to_numpy(), 4).tolist() for name in _HISTORY if name in rows}


def _embedding(model: Any, dataset: Dataset, observed: NDArray[np.bool_], labels: NDArray[Any]) -> dict[str, Any]:
    """Return a t-SNE map of the latent means; of a method without a latent space, of the table it clusters."""
    from acova.data import Scaling
    from acova.plots.maps import t_sne

    views = dataset.views.hide(observed)
    if hasattr(model, "transform"):
        points = np.asarray(model.transform(views))
    else:
        points = np.hstack(Scaling.fit(views, ("zscore",) * views.n_views).transform(views))
    classes = np.unique(classes_of(dataset), return_inverse=True)[1]
    return {"points": np.round(t_sne(points), 1).tolist(), "classes": classes.tolist()}


def n_classes_of(dataset: Dataset) -> int:
    """Return the number of known classes."""
    classes = classes_of(dataset)
    return len(np.unique(classes[has_class(classes)]))


def classes_of(dataset: Dataset) -> NDArray[Any]:
    """Return the known classes of a data set, -1 where none is known; raise `DataError` if it has none."""
    if dataset.labels is None:
        reason = "a benchmark compares clusters with known classes, so put labels beside it"
        msg = f"{dataset.name!r} has no labels; {reason}."
        raise DataError(msg)
    return dataset.labels
