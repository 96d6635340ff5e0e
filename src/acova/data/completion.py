"""What stands in the place of empty cells: their expectation, given the other cells of the sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_FACTORS = 20
_CELLS_PER_FACTOR = 4
"""Cells that a column must have on average for each factor; a row must have one."""
_STEPS, _STEPS_OF_START = 20, 6
_CELLS_AT_ONCE = 2**24
_LEAST_NOISE = 1e-3
"""Least variance of the noise, as a share of that of the cells."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Completion:
    """A factor model of scaled rows: x = mean + loadings · z + noise, with standard normal z.

    Attributes
    ----------
    mean, low, high : arrays of shape (P,)
        Of the cells of each column; what is completed stays between the least and the largest value.
    loadings : array of shape (P, n_factors)
        Without factors, empty cells are completed by the mean of their column.
    noise : float
        Variance of the noise.
    """

    mean: Floats
    low: Floats
    high: Floats
    loadings: Floats
    noise: float

    @classmethod
    def of_means(cls, mean: Floats) -> "Completion":
        """Return the completion by known means of the columns."""
        infinite = np.full_like(mean, np.inf)
        return cls(mean, -infinite, infinite, np.zeros((len(mean), 0)), 1.0)

    @classmethod
    def fit(cls, rows: NDArray[Any], *, factors: bool = True) -> "Completion":
        """Learn the model of scaled rows (n, P) with NaN in empty cells; a column without any cell gets 0.

        The posterior of z and the loadings are estimated in turn (EM for probabilistic principal components with
        missing cells: Tipping and Bishop, 1999; Ilin and Raiko, 2010). The loadings of a factor have a normal prior
        whose variance is learned, too, which shrinks factors that the cells do not ask for (Bishop, 1999).
        """
        rows = np.asarray(rows, dtype=np.float64)
        full = ~np.isnan(rows)
        count = np.maximum(full.sum(axis=0), 1)
        mean = np.where(full, rows, 0.0).sum(axis=0) / count
        some = full.any(axis=0)
        low = np.where(some, np.where(full, rows, np.inf).min(axis=0, initial=np.inf), 0.0)
        high = np.where(some, np.where(full, rows, -np.inf).max(axis=0, initial=-np.inf), 0.0)
        of_column, of_row = full.sum() / rows.shape[1], full.sum() / max(len(rows), 1)
        most = int(min(of_column / _CELLS_PER_FACTOR, of_row, _MOST_FACTORS))
        centred = np.where(full, rows - mean, 0.0)
        if not factors or not most or not centred.any():
            return cls(mean, low, high, np.zeros((len(mean), 0)), 1.0)
        return cls(mean, low, high, *_factors(centred, full, most))

    def completed(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return scaled rows (n, P) without NaN."""
        done = np.asarray(rows, dtype=np.float32).copy()
        holes = np.isnan(done)
        lines = np.flatnonzero(holes.any(axis=1))
        step = max(1, _CELLS_AT_ONCE // max(rows.shape[1], self.loadings.shape[1] ** 2, 1))
        for start in range(0, len(lines), step):
            some = lines[start : start + step]
            full = ~holes[some]
            centred = np.where(full, rows[some] - self.mean, 0.0)
            expected = np.clip(self.mean + self._deviations(centred, full), self.low, self.high)
            # A row with a cell that is too extreme to compute with is refused for that cell.
            done[some] = np.where(full, done[some], np.where(np.isfinite(expected), expected, self.mean))
        return done

    def _deviations(self, centred: Floats, full: NDArray[np.bool_]) -> Floats:
        """Return how far the expected cells of rows lie from the means."""
        if not self.loadings.shape[1]:
            return np.zeros_like(centred)
        return _posterior(centred, full, self.loadings, self.noise)[0] @ self.loadings.T


@dataclass(frozen=True)
class JointCompletion:
    """A factor model of all views side by side, each of which counts the same.

    Attributes
    ----------
    model : Completion
        Of the views times their weights.
    weights : array of shape (V,)
        One over the root of each view's total variance.
    """

    model: Completion
    weights: Floats

    @classmethod
    def fit(cls, tables: Sequence[NDArray[Any]]) -> "JointCompletion":
        """Learn the model of V tables (n, P_v) of scaled rows, with NaN in empty cells and hidden rows."""
        squares = [np.square(table - _column_means(table)) for table in tables]
        totals = np.array([np.nansum(_column_means(square)) for square in squares])
        weights = 1 / np.sqrt(np.where(totals > 0, totals, 1.0))
        return cls(Completion.fit(np.hstack([t * w for t, w in zip(tables, weights, strict=True)])), weights)

    def completed(self, tables: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Return V tables (n, P_v) without NaN."""
        weighed = [table * weight for table, weight in zip(tables, self.weights, strict=True)]
        done = self.model.completed(np.hstack(weighed))
        ends = np.cumsum([table.shape[1] for table in tables])[:-1]
        parts = zip(np.split(done, ends, axis=1), self.weights, strict=True)
        return [np.asarray(part / weight, dtype=np.float32) for part, weight in parts]


def _column_means(table: NDArray[Any]) -> Floats:
    """Return the mean of each column's cells, 0 where all are empty."""
    full = ~np.isnan(table)
    return np.asarray(np.where(full, table, 0.0).sum(axis=0) / np.maximum(full.sum(axis=0), 1))


def _factors(centred: Floats, full: NDArray[np.bool_], count: int) -> tuple[Floats, float]:
    """Return the loadings (P, count) and the variance of the noise, of rows with 0 in their empty cells."""
    share = np.maximum(full.mean(axis=0), 1 / len(full))
    loadings, noise = _start(centred / np.sqrt(share), count)
    least = _LEAST_NOISE * np.square(centred).sum() / full.sum()
    noise, precision = max(noise, least), np.ones(count)
    weights = full.astype(np.float64)
    for _ in range(_STEPS):
        scores, spreads = _posterior(centred, full, loadings, noise)
        squares = (scores[:, :, None] * scores[:, None, :] + spreads).reshape(len(scores), -1)
        moments = (weights.T @ squares).reshape(-1, count, count)
        inverse = np.linalg.inv(moments + noise * np.diag(precision))
        loadings = np.einsum("pij,pj->pi", inverse, centred.T @ scores)
        error = np.square(np.where(full, centred - scores @ loadings.T, 0.0)).sum()
        outer = (loadings[:, :, None] * loadings[:, None, :]).reshape(len(loadings), -1)
        unsure = (outer * (weights.T @ spreads.reshape(len(scores), -1))).sum()
        precision = len(loadings) / (np.square(loadings).sum(axis=0) + noise * np.einsum("pii->i", inverse) + _TINY)
        noise = max((error + unsure) / full.sum(), least)
    return loadings, float(noise)


def _posterior(centred: Floats, full: NDArray[np.bool_], loadings: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return the means (n, count) and covariances (n, count, count) of the factors, given the cells of rows."""
    count = loadings.shape[1]
    outer = (loadings[:, :, None] * loadings[:, None, :]).reshape(len(loadings), -1)
    precision = (full.astype(np.float64) @ outer).reshape(-1, count, count) / noise + np.eye(count)
    spreads = np.linalg.inv(precision)
    return np.einsum("nij,nj->ni", spreads, centred @ loadings / noise), np.asarray(spreads)


def _start(rows: Floats, count: int) -> tuple[Floats, float]:
    """Return the leading principal directions (P, count), as long as their deviations, and the variance left."""
    basis = np.random.default_rng(0).normal(size=(rows.shape[1], count))
    for _ in range(_STEPS_OF_START):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    variances = np.square(rows @ basis).mean(axis=0)
    left = max(float(np.square(rows).sum() / len(rows) - variances.sum()), 0.0)
    noise = left / max(rows.shape[1] - count, 1)
    return np.asarray(basis * np.sqrt(np.maximum(variances - noise, 0.01 * variances))), noise
