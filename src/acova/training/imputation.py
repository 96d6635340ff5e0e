"""How far imputed values are off: experts weighed, and errors measured, on entries that the training did not see."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from acova.training.holdout import Array, HeldOut

LEVELS = np.arange(1, 200) / 200
"""Levels at which quantiles of the errors are kept."""
NOMINAL = (0.5, 0.8, 0.9, 0.95)
"""Intervals whose coverage is reported."""
_COVERED = tuple(f"coverage_{100 * nominal:.0f}" for nominal in NOMINAL)
_OWN_QUANTILES = 200
"""Held-out entries from which on every feature has quantiles of its own."""
_PRIOR_ROWS = 10
"""Held-out entries that the view's mean error counts for in the error of each feature."""
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Errors:
    """How a view's entries differ from what is predicted of them, in scaled units.

    Attributes
    ----------
    weights : array of shape (C,)
        How much each expert counts; none counts less than nothing.
    residual : array of shape (P,)
        Variance of the errors beyond that of what is decoded.
    quantiles : array of shape (199, P) or (199, 1)
        Of the errors in units of their standard deviation, for each feature or for all of them.
    spread : float
        Their standard deviation in these units, about 1.
    """

    weights: NDArray[np.float64]
    residual: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    spread: float

    @classmethod
    def learn(cls, entries: HeldOut) -> "Errors":
        """Weigh the experts and measure the errors of their sum; no fold is measured by what was learned from it."""
        normalised = np.zeros(entries.truth.shape)
        for fold in np.unique(entries.folds):
            rest, fresh = entries.take(entries.folds != fold), entries.take(entries.folds == fold)
            weights = stack(rest)
            residual = residual_variance(rest, weights)
            normalised[entries.folds == fold] = (fresh.truth - fresh.stacked(weights)) / np.sqrt(
                fresh.variance + residual
            )
        weights = stack(entries)
        spread = float(np.sqrt((entries.shares * np.square(np.nan_to_num(normalised))).sum(axis=0).mean()))
        return cls(
            weights, residual_variance(entries, weights), conformal_quantiles(normalised, entries.weights), spread
        )

    def scale(self, variance: Array) -> NDArray[np.float64]:
        """Return the standard deviation of the errors given the variance of what is decoded, (n, P)."""
        return np.asarray(np.sqrt(variance + self.residual))

    def quantile(self, level: float) -> NDArray[np.float64]:
        """Return the quantile of the errors in units of their scale, (P,) or (1,); between two levels the outer one."""
        place = level * (len(LEVELS) + 1) - 1
        place = np.floor(place + 1e-9) if level < 0.5 else np.ceil(place - 1e-9)
        found: NDArray[np.float64] = self.quantiles[int(np.clip(place, 0, len(LEVELS) - 1))]
        return found


def stack(entries: HeldOut) -> NDArray[np.float64]:
    """Return the weights of the experts, not negative, whose sum has the smallest squared error."""
    count, known = len(entries.predicted), ~np.isnan(entries.truth)
    roots = np.sqrt(entries.weights)[:, None] * known
    flat = (entries.predicted * roots).reshape(count, -1).astype(np.float64)
    gram = flat @ flat.T
    gram += 1e-6 * max(float(np.trace(gram)) / count, _TINY) * np.eye(count)
    factor = np.linalg.cholesky(gram)
    target = np.linalg.solve(factor, flat @ (np.nan_to_num(entries.truth) * roots).ravel())
    weights: NDArray[np.float64] = nnls(factor.T, target)[0]
    return weights


def residual_variance(entries: HeldOut, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of every feature's error beyond that of what is decoded, drawn to the view's mean."""
    shares = entries.shares
    own = (shares * np.square(np.nan_to_num(entries.truth - entries.stacked(weights)))).sum(axis=0)
    effective = 1 / np.maximum(np.square(shares).sum(axis=0), 1 / max(len(entries.truth), 1))
    drawn = (effective * own + _PRIOR_ROWS * own.mean()) / (effective + _PRIOR_ROWS)
    beyond = np.maximum(drawn - (shares * entries.variance).sum(axis=0), np.maximum(0.1 * drawn, _TINY))
    return np.asarray(beyond)


def conformal_quantiles(normalised: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quantiles of errors (n, P) at all levels, (L, P) or of all features together (L, 1).

    A new entry is one more among the held-out ones, anywhere in their order; so quantiles above the middle are looked
    for among n + 1 entries of which one is larger than all, and those below the middle likewise. Few entries are
    taken with both signs: the interval between two opposite levels is then that of the absolute errors, for which one
    more entry counts once instead of twice. All features are then taken together, and one more entry counts as much as
    its features err alike: cells that err each for itself are many more than there are entries.
    """
    n_rows, width = normalised.shape
    mass = np.where(np.isnan(normalised), 0.0, weights[:, None])
    extra = weights.mean()
    if n_rows < _OWN_QUANTILES:
        extra *= _likeness(normalised)
        mass = np.concatenate([mass, mass]).reshape(-1, 1) / (2 * width)
        normalised = np.concatenate([normalised, -normalised]).reshape(-1, 1)
        extra /= 2
    order = np.argsort(normalised, axis=0, kind="stable")  # NaN come last
    ordered, mass = np.take_along_axis(normalised, order, axis=0), np.take_along_axis(mass, order, axis=0)
    last = np.maximum((~np.isnan(ordered)).sum(axis=0) - 1, 0)
    total = mass.sum(axis=0) + extra
    below, above = np.cumsum(mass, axis=0) / total, np.cumsum(mass[::-1], axis=0)[::-1] / total
    quantiles = np.empty((len(LEVELS), normalised.shape[1]))
    for place, level in enumerate(LEVELS):
        if level >= 0.5:
            at = np.minimum((below < level - 1e-12).sum(axis=0), last)
        else:
            at = np.maximum((above >= 1 - level - 1e-12).sum(axis=0) - 1, 0)
        quantiles[place] = np.take_along_axis(ordered, at[None], axis=0)[0]
    return np.nan_to_num(quantiles)


def _likeness(normalised: NDArray[np.float64]) -> float:
    """Return how far the cells of an entry err alike: 1 if all by the same amount, one over their number if apart."""
    sizes = np.abs(normalised[~np.isnan(normalised).all(axis=1)])
    cells, width = float(np.nanvar(sizes)), sizes.shape[1]
    if not cells > 0:
        return 1.0
    return float(np.clip(np.nanmean(sizes, axis=1).var() / cells, 1 / width, 1.0))


@dataclass(frozen=True)
class Check:
    """What a view's held-out entries say of its features, each (P,), in scaled units.

    Attributes
    ----------
    squared_error, baseline : arrays of shape (P,)
        Mean squared error of what is imputed, and of the feature's mean.
    inside : array of shape (4, P)
        Share of the entries inside the intervals of `NOMINAL`.
    n_entries : int
    """

    squared_error: NDArray[np.float64]
    baseline: NDArray[np.float64]
    inside: NDArray[np.float64]
    n_entries: int

    @classmethod
    def of(cls, entries: HeldOut) -> "Check":
        """Predict the entries of every fold by weights, and cover them by intervals, learned from the other folds."""
        squares, inside = np.zeros(entries.truth.shape), np.zeros((len(NOMINAL), *entries.truth.shape))
        for fold in np.unique(entries.folds):
            in_fold = entries.folds == fold
            part, errors = entries.take(in_fold), Errors.learn(entries.take(~in_fold))
            gap, scale = part.truth - part.stacked(errors.weights), errors.scale(part.variance)
            squares[in_fold] = np.square(np.nan_to_num(gap))
            for number, nominal in enumerate(NOMINAL):
                low, high = (errors.quantile((1 + sign * nominal) / 2) * scale for sign in (-1, 1))
                inside[number, in_fold] = (low <= gap) & (gap <= high)
        shares = entries.shares
        baseline = (shares * np.square(np.nan_to_num(entries.truth))).sum(axis=0)
        return cls((shares * squares).sum(axis=0), baseline, (shares * inside).sum(axis=1), len(entries.truth))

    def of_view(self) -> dict[str, float]:
        """Return the figures of the view as a whole, after scaling."""
        explained = 1 - self.squared_error.sum() / max(self.baseline.sum(), _TINY)
        means = {"rmse": float(np.sqrt(self.squared_error.mean())), "explained": float(explained)}
        return {"entries": self.n_entries, **means, **dict(zip(_COVERED, self.inside.mean(axis=1), strict=True))}

    def of_features(self, units: NDArray[np.float64], names: Sequence[str] | None) -> pd.DataFrame:
        """Return a row per feature, its error in units of the data (P,)."""
        explained = 1 - self.squared_error / np.maximum(self.baseline, _TINY)
        table = {"entries": self.n_entries, "rmse": np.sqrt(self.squared_error) * units, "explained": explained}
        covered = dict(zip(_COVERED, self.inside, strict=True))
        return pd.DataFrame({**table, **covered}, index=pd.Index(names or range(len(units))))
