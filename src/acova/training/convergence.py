"""Whether a result should be trusted: collapsed clusters, confidences of a guess, training that did not settle."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from acova.clustering.kmeans import Partition

_NEARLY_ALL = 0.95
"""Share of the samples from which one cluster holds nearly everything."""
_GUESS = 0.1
"""How far confidences lie above 1/K, as a share of the way to 1, up to which they are a guess."""
_LEAST_EPOCHS = 8
"""Epochs that a phase needs before its course says anything."""
_STEEP, _RISEN, _MATTERS = 0.2, 0.25, 0.1
"""Change over the last quarter of a phase, as a share of all its change, and the least one as a share of its level."""
_DIVERGED = 10.0
"""How many times as large as the first loss of a phase the last one is where training diverged."""
_ROWS = 10_000


def doubts_about(
    labels: NDArray[np.int64],
    n_clusters: int,
    history: pd.DataFrame,
    probabilities: NDArray[np.float32] | None = None,
    agreement: NDArray[np.float32] | None = None,
) -> list[str]:
    """Return what speaks against a result, one sentence each; none for a result that looks sound.

    Parameters
    ----------
    labels : array of int, shape (n_samples,)
    n_clusters : int
    history : DataFrame
        ``phase`` and ``total``, one row per epoch.
    probabilities : array of shape (n_samples, n_clusters), optional
    agreement : array of shape (n_samples,), optional
        Share of the runs of a consensus that give a sample its label.
    """
    found = [*_about_sizes(labels, n_clusters), *_about_training(history)]
    if probabilities is not None:
        found += _about_confidence(_spread(probabilities), n_clusters)
    if agreement is not None:
        found += _about_agreement(_spread(agreement))
    return found


def doubts_about_k_means(fits: Iterable[tuple[str, Partition]], n_clusters: int) -> list[str]:
    """Return what speaks against fits of k-means, each with the name of its table."""
    found = []
    for name, fit in fits:
        if fit.n_distinct < n_clusters:
            found.append(
                f"{name}: only {fit.n_distinct} rows differ, fewer than n_clusters={n_clusters}, so clusters are empty."
            )
        elif not fit.converged:
            found.append(f"{name}: k-means did not converge in {fit.n_iter} iterations.")
    return found


def warn_of(who: str, doubts: Sequence[str], *, stacklevel: int) -> None:
    """Issue a `ConvergenceWarning` for each sentence."""
    for doubt in doubts:
        warnings.warn(f"{who}: {doubt}", ConvergenceWarning, stacklevel=stacklevel + 1)


def _spread(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return evenly spread rows of an array that may lie on disk."""
    return np.asarray(rows[:: -(-len(rows) // _ROWS)])


def _about_sizes(labels: NDArray[np.int64], n_clusters: int) -> list[str]:
    sizes = np.bincount(labels, minlength=n_clusters)
    found = []
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        are = "are" if empty.size > 1 else "is"
        found.append(
            f"{empty.size} of {n_clusters} clusters {are} empty: the samples fall into fewer groups than n_clusters. "
            "Lower n_clusters, or try another random_state."
        )
    share = sizes.max() / len(labels)
    if n_clusters > 1 and share >= _NEARLY_ALL:
        found.append(
            f"cluster {sizes.argmax()} holds {share:.1%} of the samples. Unless one group really is that large, the "
            "clusters have collapsed: look for outliers and constant columns, or try another random_state."
        )
    return found


def _about_confidence(probabilities: NDArray[np.float32], n_clusters: int) -> list[str]:
    if n_clusters == 1:
        return []
    most = float(np.quantile(probabilities.max(axis=1), 0.9))
    chance = 1 / n_clusters
    if most > chance + _GUESS * (1 - chance):
        return []
    return [
        f"nine in ten samples have a confidence of at most {most:.2f}, hardly more than the 1/{n_clusters} of a guess: "
        "the clusters are not separated. Train longer, or check that the views contain groups at all."
    ]


def _about_agreement(agreement: NDArray[np.float32]) -> list[str]:
    typical = float(np.median(agreement))
    if typical > 0.5:
        return []
    return [
        f"the runs agree on few samples: half of the samples get their label from at most {typical:.0%} of the runs. "
        "Take the consensus for what most runs share, train longer, or lower n_clusters."
    ]


def _about_training(history: pd.DataFrame) -> list[str]:
    """Say where training diverged; else compare the mean loss of the last quarter of the last phase with the others."""
    for phase, of_phase in history.groupby("phase", sort=False)["total"]:
        first, last = float(of_phase.iloc[0]), float(of_phase.iloc[-1])
        if last > _DIVERGED * max(abs(first), 1.0):
            return [
                f"training diverged: the loss rose in phase {phase!r} from {first:.4g} to {last:.4g}. Lower "
                "learning_rate, keep clip_norm, or look for extreme values in the data."
            ]
    name = history["phase"].iloc[-1] if len(history) else ""
    totals = history.loc[history["phase"] == name, "total"].to_numpy()
    if len(totals) < _LEAST_EPOCHS:
        return []
    quarters = [float(part.mean()) for part in np.array_split(totals, 4)]
    change, level = float(np.ptp(totals)), max(abs(quarters[-1]), abs(quarters[0]))
    fall, rise = quarters[2] - quarters[3], quarters[3] - min(quarters)
    epochs = f"the last {len(totals) // 4} of {len(totals)} epochs of phase {name!r}"
    if fall > 0 and fall >= max(_STEEP * change, _MATTERS * level):
        return [
            f"the loss was still falling steeply over {epochs}, from {quarters[2]:.4g} to {quarters[3]:.4g}. Train "
            "longer."
        ]
    if rise > 0 and rise >= max(_RISEN * change, _MATTERS * level):
        return [
            f"the loss rose over {epochs}, to {quarters[3]:.4g} from {min(quarters):.4g} before. Lower learning_rate, "
            "or look for extreme values in the data."
        ]
    return []
