"""Which features set a cluster apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.data import Summary

_ROUNDING = 1e-9
"""Differences smaller than this part of a feature's largest size are rounding errors of the means."""

LEAST_ROWS = 3
"""Samples that must have a view, inside the cluster and outside, before its features are compared."""


@dataclass(frozen=True)
class Feature:
    """A feature of a view, in one cluster.

    Attributes
    ----------
    name : str
    effect : float
        Mean inside less mean outside, in standard deviations within the two groups.
    inside, outside : float
        The means, in the units of the data.
    """

    name: str
    effect: float
    inside: float
    outside: float


@dataclass(frozen=True)
class Profile:
    """What sets a cluster apart in one view: its features by size of the effect, or none where too few samples tell."""

    view: str
    rows: int
    features: list[Feature]


def cluster_profiles(model: Any, top: int) -> list[list[Profile]]:
    """Return, for every cluster, its profile in every view, with the `top` features."""
    summary: Summary = model.summary_
    profiles: list[list[Profile]] = [[] for _ in summary.rows]
    for v, view in enumerate(model.view_names_):
        effect, inside, outside = effects(summary.rows[:, v], summary.means[v], summary.stds[v])
        names = model._columns[v] or [f"feature {i}" for i in range(model.view_sizes_[v])]
        total = summary.rows[:, v].sum()
        for cluster, rows in enumerate(summary.rows[:, v].tolist()):
            enough = min(rows, total - rows) >= LEAST_ROWS
            order = np.argsort(-np.abs(effect[cluster]), kind="stable")[:top] if enough else ()
            features = [
                Feature(str(names[i]), *(float(table[cluster, i]) for table in (effect, inside, outside)))
                for i in order
                if effect[cluster, i]
            ]
            profiles[cluster].append(Profile(view, rows, features))
    return profiles


def effects(
    counts: NDArray[np.int64], means: NDArray[np.float64], stds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return Cohen's d of every cluster against all others, and the means inside and outside.

    Parameters
    ----------
    counts : array of shape (K,)
        Samples of each cluster.
    means, stds : arrays of shape (K, P)
        Of each cluster; NaN where it has no samples.

    Returns
    -------
    effect, inside, outside : arrays of shape (K, P)
        An effect is infinite where both groups are constant but differ, and 0 where a group is empty. Means that
        are 0 but for rounding are 0.
    """
    sizes = np.nan_to_num(np.abs(means) + stds)
    least = _ROUNDING * np.max(sizes, axis=0, initial=0.0)
    n = counts[:, None].astype(float)
    others = n.sum() - n
    centre = np.nansum(n * np.nan_to_num(means), axis=0) / max(n.sum(), 1)
    inside = np.nan_to_num(means - centre)  # differences of far values would drown
    squares = n * (np.nan_to_num(stds) ** 2 + inside**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = -n * inside / others
        spread_outside = np.maximum((squares.sum(axis=0) - squares) / others - outside**2, 0)
        pooled = np.sqrt((n * np.nan_to_num(stds) ** 2 + others * spread_outside) / n.sum())
        gap = inside - outside
        effect = np.where(pooled > 1e-7 * np.abs(gap), gap / pooled, np.sign(gap) * np.inf)
    effect = np.where((n > 0) & (others > 0) & (np.abs(gap) > least), effect, 0.0)
    inside, outside = (np.where(np.abs(mean) > least, mean, 0.0) for mean in (inside + centre, outside + centre))
    return effect, inside, outside
