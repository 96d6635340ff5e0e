"""Entries that are hidden from the training, so that errors can be measured on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 10.0
"""Weights of held-out entries, in units of their mean."""


@dataclass(frozen=True)
class Holdout:
    """Which view of which sample is hidden in which fold: every view of every sample with several of them, once.

    Attributes
    ----------
    observed : array of bool, shape (N, V)
    folds : array of int, shape (N, V)
        The fold in which an entry is hidden; -1 for entries that are not.
    n_folds : int
    """

    observed: NDArray[np.bool_]
    folds: NDArray[np.int64]
    n_folds: int

    @classmethod
    def draw(cls, observed: NDArray[np.bool_], n_folds: int, numbers: np.random.Generator) -> "Holdout":
        """Deal the views of every sample to the folds; a sample keeps a view in each of them."""
        shuffled = np.where(observed, numbers.random(observed.shape), np.inf)
        rank = shuffled.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        folds = (rank + numbers.integers(n_folds, size=len(observed))[:, None]) % n_folds
        several = observed.sum(axis=1, keepdims=True) > 1
        return cls(observed, np.where(observed & several, folds, -1), n_folds)

    def kept(self, fold: int) -> NDArray[np.bool_]:
        """Return what is observed when the entries of a fold are hidden, (N, V)."""
        return np.asarray(self.observed & (self.folds != fold))

    def entries(self, v: int, fold: int, numbers: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the samples whose view v is hidden in a fold, and the views (n, V) to predict it from.

        These are views that some sample really has which lacks view v, drawn as often as they occur: errors grow when
        views are few, so they must be measured with as few views as there will be.
        """
        rows = np.flatnonzero(self.folds[:, v] == fold)
        available = self.kept(fold)[rows]
        lacking = self.observed[~self.observed[:, v]]
        seen = available.copy()
        if len(lacking):
            patterns, counts = np.unique(lacking, axis=0, return_counts=True)
            fits = ~(patterns[None] & ~available[:, None]).any(axis=2)
            shares = np.cumsum(fits * counts, axis=1)
            possible = shares[:, -1] > 0
            drawn = (shares <= (numbers.random(len(rows)) * shares[:, -1])[:, None]).sum(axis=1)
            seen[possible] = patterns[drawn[possible]]
        return rows, seen

    def weights(self, v: int, seen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return weights under which held-out entries have as many other views as samples that lack view v."""
        lacking = self.observed[~self.observed[:, v]].sum(axis=1)
        counts, n_views = seen.sum(axis=1), self.observed.shape[1]
        wanted = np.bincount(lacking, minlength=n_views + 1).astype(float)
        found = np.bincount(counts, minlength=n_views + 1)
        weights = (wanted / np.maximum(found, 1))[counts]
        mean = weights.mean() if len(seen) else 0.0
        return np.clip(weights / mean, _LEAST_WEIGHT, _MOST_WEIGHT) if mean > 0 else np.ones(len(seen))


@dataclass(frozen=True)
class HeldOut:
    """Held-out entries of one view, in scaled units less the view's mean.

    Attributes
    ----------
    predicted : array of shape (C, n, P)
        What every expert says.
    truth, variance : arrays of shape (n, P)
        The entries, NaN in missing cells, and the variance of what they are decoded to.
    weights : array of shape (n,)
    folds : array of int, shape (n,)
    """

    predicted: Array
    truth: Array
    variance: Array
    weights: NDArray[np.float64]
    folds: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """How much every cell counts for its feature, (n, P); nothing where it is missing."""
        weights = np.where(np.isnan(self.truth), 0.0, self.weights[:, None])
        return np.asarray(weights / np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny))

    @classmethod
    def joined(cls, parts: Sequence["HeldOut"]) -> "HeldOut":
        """Put the entries of all folds together."""
        predicted = np.concatenate([part.predicted for part in parts], axis=1)
        others = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("truth", "variance", "weights", "folds")
        )
        return cls(predicted, *others)

    def take(self, rows: NDArray[np.bool_]) -> "HeldOut":
        """Return some of the entries."""
        chosen = (getattr(self, name)[rows] for name in ("truth", "variance", "weights", "folds"))
        return HeldOut(self.predicted[:, rows], *chosen)

    def stacked(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the experts' predictions, summed with these weights (C,)."""
        return np.tensordot(weights, self.predicted, axes=1).astype(np.float64)
