"""Data without clusters that are otherwise like given views: the reference that structure is measured against."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from acova.clustering.nearest import Floats

_MOST_COMPONENTS = 20
"""Principal components of a view whose covariance with those of other views is kept."""
_SAMPLES_PER_COMPONENT = 4
_EXACT_UP_TO = 500
"""Shorter side of a table up to which its components are found exactly."""
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class _View:
    """One view as principal components plus independent errors.

    Attributes
    ----------
    mean : array of shape (P,)
    axes : array of shape (D, P)
    errors : array of shape (P,)
        Standard deviations of what the components leave.
    """

    mean: Floats
    axes: Floats
    errors: Floats


@dataclass(frozen=True)
class GaussianReference:
    """One Gaussian distribution with the covariance of the views, within and between them.

    Each view is up to 20 principal components plus independent errors; the components of all views are jointly
    Gaussian, with the correlations of the samples that have both views. Data that are drawn have the missing pattern
    of the views and no clusters.
    """

    observed: NDArray[np.bool_]
    _views: tuple[_View, ...]
    _factor: Floats
    """What standard normal numbers are multiplied by to become components, (sum of D, sum of D)."""

    @classmethod
    def of(cls, tables: Sequence[Floats], observed: NDArray[np.bool_]) -> "GaussianReference":
        """Learn the covariance of tables of shape (n, P_v); hidden rows are not read."""
        found = [_components(table[seen]) for table, seen in zip(tables, observed.T, strict=True)]
        scores = np.zeros((len(observed), sum(part.shape[1] for _, part in found)))
        at = 0
        for (_, part), seen in zip(found, observed.T, strict=True):
            scores[seen, at : at + part.shape[1]] = part
            at += part.shape[1]
        known = np.repeat(observed, [part.shape[1] for _, part in found], axis=1)
        return cls(observed, tuple(view for view, _ in found), _root_of_covariance(scores, known))

    def draw(self, rng: np.random.Generator) -> list[Floats]:
        """Return tables (n, P_v) of as many samples; hidden rows are zero."""
        count = len(self.observed)
        scores = rng.standard_normal((count, len(self._factor))) @ self._factor.T
        tables, at = [], 0
        for view, seen in zip(self._views, self.observed.T, strict=True):
            stop = at + len(view.axes)
            noise = rng.standard_normal((count, len(view.mean))) * view.errors
            tables.append((view.mean + scores[:, at:stop] @ view.axes + noise) * seen[:, None])
            at = stop
        return tables


def _components(rows: Floats) -> tuple[_View, Floats]:
    """Return a view's principal components, and the scores (n, D) of its rows."""
    mean = rows.mean(axis=0)
    centred = rows - mean
    count = max(1, min(_MOST_COMPONENTS, rows.shape[1], (len(rows) - 1) // _SAMPLES_PER_COMPONENT))
    if min(rows.shape) <= _EXACT_UP_TO:
        left, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    else:
        left, lengths, axes = randomized_svd(centred, count, random_state=0)
    scores = left[:, :count] * lengths[:count]
    rest = centred - scores @ axes[:count]
    freedom = max(len(rows) - 1 - count, 1)
    return _View(mean, axes[:count], np.sqrt(np.square(rest).sum(axis=0) / freedom)), scores


def _root_of_covariance(scores: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return a root of the covariance of scores (n, D), each entry over the samples in which both are known.

    Such a matrix need not be positive; its negative eigenvalues become zero, and variances stay as they are.
    """
    seen = known.astype(np.float64)
    covariance = scores.T @ scores / np.maximum(seen.T @ seen, 1)
    spread = np.sqrt(np.diag(covariance))
    scale = np.where(spread > 0, spread, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    root = vectors * np.sqrt(values.clip(_LEAST_VARIANCE))
    return np.asarray(root / np.linalg.norm(root, axis=1, keepdims=True) * spread[:, None])
