"""Rows brought to a length or a sum, and their lengths; empty cells count as much as the others."""

import numpy as np
from numpy.typing import NDArray

from acova.data.inputs import FloatArray


def to_unit_length(rows: FloatArray) -> NDArray[np.float64]:
    """Return rows of length 1; zeros stay zeros. There may be no row, which scikit-learn's `normalize` refuses.

    The length of a row with empty cells is that of its other cells, times what makes up for their number.
    """
    rows = rows.astype(np.float64, copy=False)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    holes = np.isnan(lengths[:, 0])
    if holes.any():
        squares = np.square(rows[holes])
        lengths[holes] = np.sqrt(np.nanmean(squares, axis=1, keepdims=True) * rows.shape[1])
    return rows / np.where(lengths > 0, lengths, 1.0)


def shortened_rows(rows: FloatArray, limit: float) -> FloatArray:
    """Return rows that are no longer than the limit."""
    if limit == np.inf:
        return rows
    short: FloatArray = rows * (limit / np.maximum(row_lengths(rows)[:, None], limit))
    return short


def row_lengths(rows: FloatArray) -> NDArray[np.float64]:
    """Return the lengths of rows; where cells are empty, as if these were as large as the others."""
    empty = np.isnan(rows)
    if not empty.any():
        return np.asarray(np.linalg.norm(rows, axis=1))
    cells = np.maximum(rows.shape[1] - empty.sum(axis=1), 1)
    return np.asarray(np.sqrt(np.nansum(np.square(rows), axis=1) * (rows.shape[1] / cells)))


def equal_totals(rows: FloatArray, total: float) -> NDArray[np.float64]:
    """Return rows brought to the same sum; zeros stay zeros, and empty cells count as much as the others."""
    rows = rows.astype(np.float64, copy=False)
    sums = row_totals(rows)[:, None]
    return rows * (total / np.where(sums > 0, sums, 1.0))


def row_totals(rows: FloatArray) -> NDArray[np.float64]:
    """Return the sums of rows; where cells are empty, as if these were as large as the others."""
    empty = np.isnan(rows)
    if not empty.any():
        return np.asarray(rows.sum(axis=1, dtype=np.float64))
    cells = np.maximum(rows.shape[1] - empty.sum(axis=1), 1)
    return np.asarray(np.nansum(rows, axis=1, dtype=np.float64) * (rows.shape[1] / cells))


def log_counts(rows: FloatArray, total: float) -> NDArray[np.float64]:
    """Return log(1 + x) of rows brought to the same sum."""
    return np.log1p(equal_totals(rows, total))
