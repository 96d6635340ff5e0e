"""What a sample's neighbours say of the views it lacks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_BLOCK_CELLS = 2**25
"""Distances held at once."""


def fill_from_neighbours(
    arrays: Sequence[Array], observed: NDArray[np.bool_], variances: NDArray[np.float64], n_neighbours: int = 5
) -> list[Array]:
    """Return the views with hidden rows replaced by the mean of that view over the nearest samples that have it.

    The distance of two samples is the mean, over the views that both have, of the squared distance divided by the
    view's total variance: every view counts the same, however wide it is. A row without any such sample gets the mean
    of the view. Hidden cells are not read.

    Parameters
    ----------
    arrays : sequence of V arrays of shape (N, P_v)
    observed : array of bool, shape (N, V)
    variances : array of shape (V,)
        The views' total variances.
    n_neighbours : int

    Returns
    -------
    list of V arrays of shape (N, P_v)
    """
    weighed = [
        np.where(observed[:, [v]], array, 0).astype(np.float32) / np.float32(np.sqrt(variances[v]))
        for v, array in enumerate(arrays)
    ]
    norms = [np.einsum("np,np->n", view, view) for view in weighed]
    filled = []
    for v, array in enumerate(arrays):
        out = np.array(array, dtype=np.float32)
        lacking, donors = np.flatnonzero(~observed[:, v]), np.flatnonzero(observed[:, v])
        others = [u for u in range(len(arrays)) if u != v]
        step = max(1, _BLOCK_CELLS // max(len(donors), 1))
        for start in range(0, len(lacking), step):
            rows = lacking[start : start + step]
            distance = _distances(weighed, norms, observed, rows, donors, others)
            out[rows] = _means_of_nearest(array[donors], distance, n_neighbours)
        filled.append(out)
    return filled


def _distances(
    weighed: Sequence[Array],
    norms: Sequence[Array],
    observed: NDArray[np.bool_],
    rows: NDArray[np.intp],
    donors: NDArray[np.intp],
    views: Sequence[int],
) -> Array:
    """Return the distances (rows, donors) over common views, infinite where there is none."""
    total = np.zeros((len(rows), len(donors)), dtype=np.float32)
    common = np.zeros_like(total)
    for u in views:
        mine, theirs = weighed[u][rows], weighed[u][donors]
        both = np.outer(observed[rows, u], observed[donors, u])
        squared = norms[u][rows, None] + norms[u][None, donors] - 2 * mine @ theirs.T
        total += np.where(both, np.maximum(squared, 0), 0)
        common += both
    mean: Array = np.divide(total, common, out=np.full_like(total, np.inf), where=common > 0)
    return mean


def _means_of_nearest(values: Array, distance: Array, n_neighbours: int) -> Array:
    """Return the mean of the nearest rows of `values` (donors, P) for each row of distances (rows, donors)."""
    k = min(n_neighbours, len(values))
    nearest = np.argpartition(distance, k - 1, axis=1)[:, :k]
    usable = np.isfinite(np.take_along_axis(distance, nearest, axis=1))
    total = np.einsum("rk,rkp->rp", usable.astype(np.float32), values[nearest])
    count = usable.sum(axis=1, keepdims=True)
    means: Array = np.where(count > 0, total / np.maximum(count, 1), values.mean(axis=0)).astype(np.float32)
    return means
