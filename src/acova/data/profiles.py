"""Which features set a cluster apart, from a `Summary`."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.data.summary import Summary

_ROUNDING = 1e-9
"""Differences smaller than this part of a feature's largest size are rounding errors of the means."""


def profile_table(
    summary: Summary,
    names: Sequence[str],
    columns: Sequence[Sequence[str] | None],
    clusters: Sequence[object],
) -> pd.DataFrame:
    """Return one row per cluster, view and feature: what `MultiViewClusterer.cluster_profiles` returns.

    Parameters
    ----------
    summary : Summary
    names : sequence of V str
    columns : sequence of V (sequence of str or None)
        Names of the features; None numbers them.
    clusters : sequence of K labels or names
    """
    tables = []
    for v, (name, features) in enumerate(zip(names, columns, strict=True)):
        rows, means = summary.rows[:, v], summary.means[v]
        effect, inside, outside = effects(rows, means, summary.stds[v])
        zeros = summary.zeros[v] if summary.zeros else np.full_like(means, np.nan)
        counts = rows[:, None] * np.nan_to_num(zeros)
        others = (rows.sum() - rows)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            zeros_outside = np.where(others > 0, (counts.sum(axis=0) - counts) / others, np.nan)
        empty, alone = rows[:, None] == 0, others == 0
        width = means.shape[1]
        table = {
            "cluster": np.repeat(np.asarray(clusters, dtype=object), width),
            "view": name,
            "feature": list(features or range(width)) * len(rows),
            "samples": np.repeat(rows, width),
            "effect": effect.ravel(),
            "mean_inside": np.where(empty, np.nan, inside).ravel(),
            "mean_outside": np.where(alone, np.nan, outside).ravel(),
            "zeros_inside": zeros.ravel(),
            "zeros_outside": (zeros_outside if summary.zeros else zeros).ravel(),
        }
        tables.append(pd.DataFrame(table))
    whole = pd.concat(tables, ignore_index=True)
    place = whole["cluster"].map({name: place for place, name in enumerate(clusters)})
    order = np.lexsort((-whole["effect"].abs().to_numpy(), place.to_numpy()))
    return whole.iloc[order].reset_index(drop=True).infer_objects()


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
