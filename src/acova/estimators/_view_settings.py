"""The settings of a fit, as they would have been with one view more or one less."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MATRICES = ("correlation", "correlation_start")


def settings_with_view(settings: Mapping[str, Any], name: str, likelihood: str, scaled_as: str) -> dict[str, Any]:
    """Return the settings of a fit with one view more, the last.

    A view that is weighed by hand counts as much as the one that counts most. A matrix of your own is bordered with
    zeros.
    """
    found = dict(settings)
    found["likelihood"] = {**settings["likelihood"], name: likelihood}
    found["standardize"] = {**settings["standardize"], name: scaled_as}
    weights = settings.get("view_weights")
    if isinstance(weights, Mapping):
        found["view_weights"] = {**weights, name: max(weights.values())}
    elif _is_sequence(weights):
        found["view_weights"] = (*weights, max(weights))  # type: ignore[misc,arg-type]
    for key in _MATRICES:
        if _is_matrix(settings.get(key)):
            found[key] = _bordered(np.asarray(settings[key], dtype=np.float64))
    return found


def settings_without_view(settings: Mapping[str, Any], v: int, name: str) -> dict[str, Any]:
    """Return the settings of a fit with one view less; a given correlation is left as it is."""
    found = dict(settings)
    for key in ("likelihood", "standardize", "view_weights"):
        if isinstance(settings.get(key), Mapping):
            found[key] = {view: value for view, value in settings[key].items() if view != name}
    weights = settings.get("view_weights")
    if _is_sequence(weights):
        found["view_weights"] = tuple(np.delete(np.asarray(weights, dtype=float), v).tolist())
    if _is_matrix(settings.get("correlation_start")):
        found["correlation_start"] = np.delete(np.delete(np.asarray(settings["correlation_start"]), v, 0), v, 1)
    return found


def _bordered(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix with one more row and column of the identity."""
    whole = np.eye(len(matrix) + 1)
    whole[:-1, :-1] = matrix
    return whole


def _is_matrix(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and np.ndim(value) == 2


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
