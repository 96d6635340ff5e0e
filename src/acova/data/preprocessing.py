"""Scaling of the views, learned from observed rows only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import check_choice
from acova.data.views import Views

SCALINGS = ("zscore", "range", "none")


@dataclass(frozen=True)
class Scaling:
    """An affine map per view, ``(x - center) / scale``, that never saw a hidden cell.

    Attributes
    ----------
    centers, scales : tuple of arrays of shape (n_features_of_view,)
    """

    centers: tuple[NDArray[np.float64], ...]
    scales: tuple[NDArray[np.float64], ...]

    @classmethod
    def fit(cls, views: Views, kinds: tuple[str, ...]) -> "Scaling":
        """Learn the map of each view from its observed rows.

        Parameters
        ----------
        views : Views
        kinds : one of "zscore", "range", "none" per view
            ``"zscore"``: every feature to mean 0 and standard deviation 1 (a constant feature to 0);
            ``"range"``: one mean and one range for the whole view; ``"none"``: as is.
        """
        pairs = [_fit_view(views.rows(v), kind) for v, kind in enumerate(kinds)]
        return cls(tuple(center for center, _ in pairs), tuple(scale for _, scale in pairs))

    def transform(self, views: Views) -> list[NDArray[np.float32]]:
        """Return one scaled float32 array per view, hidden rows filled with zeros."""
        scaled = []
        for v, array in enumerate(views.arrays):
            out = np.zeros(array.shape, dtype=np.float32)
            seen = views.observed[:, v]
            out[seen] = (array[seen] - self.centers[v]) / self.scales[v]
            scaled.append(out)
        return scaled


def _fit_view(rows: NDArray[np.floating], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    check_choice("Scaling", "kind", kind, SCALINGS)
    width = rows.shape[1]
    if kind == "none":
        return np.zeros(width), np.ones(width)
    if kind == "zscore":
        scaler = StandardScaler().fit(rows.astype(np.float64, copy=False))
        return scaler.mean_, scaler.scale_
    spread = float(rows.max()) - float(rows.min())
    return np.full(width, rows.mean(dtype=np.float64)), np.full(width, spread or 1.0)
