"""How far views agree on who is near whom, and how much each is trusted by that."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from acova.clustering.graphs import FEWEST, STEPS, ViewGraph, neighbour_count, walk
from acova.clustering.kmeans import k_means
from acova.clustering.nearest import Floats
from acova.engine.parallel import single_threaded

_COMPARED = 1_000
"""Samples that two views are compared on, evenly spread where there are more."""
_CHANCE = 0.05
"""Agreement that unrelated views reach by chance."""
_COPY = 0.98
"""Agreement that different measurements of the same samples do not reach."""


@single_threaded()
def view_agreement(tables: Sequence[NDArray[Any]], observed: NDArray[np.bool_], n_clusters: int) -> Floats:
    """Return how far every two views agree on who is near whom, (V, V), from 0 to 1.

    It is the unbiased centred kernel alignment (Kornblith et al., 2019; Song et al., 2012) of random walks of three
    steps on the graphs of the samples that have both views. Views that share no structure are near 0, whatever their
    widths and however few the samples. Where there are more than a thousand such samples, evenly spread ones stand for
    all.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_samples, P_v)
        Scaled views; hidden rows are not read.
    observed : array of bool, shape (n_samples, V)
    n_clusters : int
    """
    agreement = np.eye(len(tables))
    pairs: dict[bytes, list[tuple[int, int]]] = {}
    for u, v in combinations(range(len(tables)), 2):
        pairs.setdefault((observed[:, u] & observed[:, v]).tobytes(), []).append((u, v))
    for some in pairs.values():
        both = _spread(np.flatnonzero(observed[:, some[0]].all(axis=1)))
        if len(both) > FEWEST:
            count = neighbour_count(len(both), n_clusters)
            kernels = {
                v: _kernel(ViewGraph.of(tables[v][both], count).links()) for v in {v for pair in some for v in pair}
            }
            for u, v in some:
                agreement[u, v] = agreement[v, u] = max(_alignment(kernels[u], kernels[v]), 0.0)
    return agreement


def _spread(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows, or evenly spread ones of them where there are more than are compared."""
    return rows if len(rows) <= _COMPARED else rows[np.arange(_COMPARED) * len(rows) // _COMPARED]


def _kernel(links: sp.csr_matrix) -> Floats:
    """Return where random walks on a graph are after three steps, symmetric, centred without the diagonal."""
    step = walk(links + links.T)
    after = step.toarray()
    for _ in range(STEPS - 1):
        after = step @ after
    return centred((after + after.T) / 2)


def centred(kernel: Floats) -> Floats:
    """Return a symmetric kernel (n, n) with a zero diagonal and lines of mean 0 (Székely and Rizzo, 2014)."""
    n_samples = len(kernel)
    kernel = kernel - np.diag(np.diag(kernel))
    mean = kernel.sum(axis=0) / (n_samples - 2)
    kernel += mean.sum() / (n_samples - 1) - mean - mean[:, None]
    np.fill_diagonal(kernel, 0.0)
    return kernel


def _alignment(first: Floats, second: Floats) -> float:
    scale = np.sqrt(np.square(first).sum() * np.square(second).sum())
    return float((first * second).sum() / scale) if scale else 0.0


@single_threaded()
def agreement_weights(
    agreement: Floats, tables: Sequence[NDArray[Any]], observed: NDArray[np.bool_], n_clusters: int
) -> Floats:
    """Return what each view is trusted, (V,), at most 1: its largest agreement with another view.

    Views that agree (nearly) perfectly are copies of one another: their agreement supports neither, and together they
    count as one view. Where no two views agree beyond chance, nothing tells which is right; then a view counts by how
    much a partition of it explains, in nats over all its features, because many features that go together are less
    likely an accident than one that is easy to split.
    """
    if len(agreement) == 1:
        return np.ones(1)
    copies = copies_of(agreement)
    best = np.where(copies[:, None] == copies, 0.0, agreement).max(axis=1)
    if best.max() < _CHANCE:
        best = np.array([_explained_nats(t[o], n_clusters) for t, o in zip(tables, observed.T, strict=True)])
    best = best / np.bincount(copies)[copies]
    return np.asarray(best / best.max()) if best.max() > 0 else np.ones(len(best))


def copies_of(agreement: Floats) -> NDArray[np.intp]:
    """Return the number of the group of copies that each view is in, (V,); a view that is no copy is in one alone."""
    return np.asarray(connected_components(agreement >= _COPY, directed=False)[1])


def _explained_nats(rows: Floats, n_clusters: int) -> float:
    """Return how many nats of a view's features k-means with this many clusters explains, summed over features.

    A feature with few different values cannot explain more than its entropy. What clusters of noise explain by chance,
    half a nat per parameter and sample, is taken off.
    """
    rows = _spread(np.asarray(rows, dtype=np.float64))
    if len(rows) <= n_clusters:
        return 0.0
    labels = k_means(rows, n_clusters, seed=0, n_init=5).labels
    member = np.eye(n_clusters)[labels]
    size = np.maximum(member.sum(axis=0), 1)[:, None]
    within = np.square(rows - (member.T @ rows / size)[labels]).mean(axis=0)
    total = rows.var(axis=0)
    varies = total > 0
    gain = 0.5 * np.log(total[varies] / np.maximum(within[varies], np.finfo(np.float32).eps * total[varies]))
    gain -= 0.5 * (n_clusters - 1) / len(rows)
    most = np.array([_entropy(column) for column in rows[:, varies].T])
    return float(np.clip(gain, 0, most).sum())


def _entropy(column: Floats) -> float:
    shares = np.unique(column, return_counts=True)[1] / len(column)
    return float(-(shares * np.log(shares)).sum())
