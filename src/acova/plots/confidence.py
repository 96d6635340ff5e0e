"""Which samples are sure: one rule for every figure, table and sentence."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.9)
"""Where the bands of confidence begin; samples in the first band are unsure, those in the last are sure."""


def reaches(confidence: ArrayLike, edges: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each confidence, as ``labels.csv`` prints it, is at least each edge.

    A number is printed with the fewest digits that give it back, so the float32 nearest to 0.9 is printed as 0.9 and
    reaches 0.9, although it is the number 0.899999976. Comparing in the precision of the confidence, to which the
    edges are rounded, gives the same answer as comparing the printed numbers. NaN reaches no edge.

    Parameters
    ----------
    confidence : array-like of shape (n_samples,)
    edges : array-like of shape (n_edges,)

    Returns
    -------
    array of bool, shape (n_samples, n_edges)

    See Also
    --------
    confidence_bands : The band of each sample.
    """
    values = np.asarray(confidence)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    reached: NDArray[np.bool_] = values[:, None] >= np.asarray(edges).astype(values.dtype)
    return reached


def confidence_bands(confidence: ArrayLike) -> NDArray[np.intp]:
    """Return the band of each confidence: 0 below 0.5, 1 from 0.5, 2 from 0.7 and 3 (sure) from 0.9, as printed.

    See Also
    --------
    reaches : The rule for one limit.
    """
    bands: NDArray[np.intp] = reaches(confidence, CONFIDENCE_EDGES[1:]).sum(axis=1)
    return bands
