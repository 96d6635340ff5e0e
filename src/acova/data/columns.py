"""Statistics of columns, from the cells that are not empty."""

import numpy as np
from sklearn.preprocessing import StandardScaler

from acova.data.inputs import FloatArray

_START = {"mean_": 0.0, "var_": 0.0, "scale_": 1.0}
"""What a scaler knows of a column without any cell."""


def least_of(rows: FloatArray) -> FloatArray:
    """Return the smallest value of each column, NaN where all its cells are empty."""
    least: FloatArray = rows.min(axis=0)
    return np.fmin.reduce(rows, axis=0) if np.isnan(least).any() else least  # slower


def most_of(rows: FloatArray) -> FloatArray:
    """Return the largest value of each column, NaN where all its cells are empty."""
    most: FloatArray = rows.max(axis=0)
    return np.fmax.reduce(rows, axis=0) if np.isnan(most).any() else most


def add_moments(scaler: StandardScaler, rows: FloatArray) -> None:
    """Let a scaler take more rows into account; columns that are empty in all of them stay as they are."""
    rows = rows.astype(np.float64, copy=False)
    empty = np.isnan(rows).all(axis=0)
    if not empty.any():
        scaler.partial_fit(rows)
        return
    first = not hasattr(scaler, "mean_")
    before = [np.full(rows.shape[1], start) if first else getattr(scaler, name) for name, start in _START.items()]
    with np.errstate(invalid="ignore", divide="ignore"):
        scaler.partial_fit(rows)
    for name, old in zip(_START, before, strict=True):
        setattr(scaler, name, np.where(empty, old, getattr(scaler, name)))
