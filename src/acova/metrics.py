"""How well found clusters match known classes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from acova.base import DataError

__all__ = ["clustering_accuracy", "clustering_scores", "matched", "purity"]


def clustering_scores(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """Score a clustering against known classes.

    Label values are names only: integers, strings, starting anywhere; the number of clusters may
    differ from the number of classes. The inputs are left as they are.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)

    Returns
    -------
    dict
        ``acc`` (share of samples right under the best one-to-one matching of clusters to classes),
        ``nmi`` (mutual information over the arithmetic mean of the entropies), ``ari`` (adjusted Rand
        index), ``purity`` (share of samples in their cluster's largest class).

    See Also
    --------
    clustering_accuracy : The first of these scores alone.

    Examples
    --------
    >>> from acova.metrics import clustering_scores
    >>> scores = clustering_scores(["a", "a", "b", "b"], [7, 7, 3, 7])
    >>> scores["acc"], scores["purity"]
    (0.75, 0.75)
    """
    true, pred = _checked(y_true, y_pred)
    return {
        "acc": clustering_accuracy(true, pred),
        "nmi": float(normalized_mutual_info_score(true, pred)),
        "ari": float(adjusted_rand_score(true, pred)),
        "purity": purity(true, pred),
    }


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the share of samples that agree under the best one-to-one matching (Hungarian method).

    See Also
    --------
    clustering_scores : ACC, NMI, ARI and purity together.
    matched : The clusters under the numbers of the classes.
    """
    true, pred = _checked(y_true, y_pred)
    counts = contingency_matrix(true, pred)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / true.size)


def matched(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[np.bool_]:
    """Return, (n_samples,), whether each sample agrees under the matching that `clustering_accuracy` scores.

    See Also
    --------
    clustering_accuracy : The share of samples that match.
    """
    true, pred = _checked(y_true, y_pred)
    counts = contingency_matrix(true, pred)
    partner = np.full(counts.shape[1], -1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    partner[columns] = rows
    return np.asarray(partner[pred] == true)


def purity(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the share of samples that belong to the largest class of their cluster.

    See Also
    --------
    clustering_scores : ACC, NMI, ARI and purity together.
    """
    true, pred = _checked(y_true, y_pred)
    return float(contingency_matrix(true, pred).max(axis=0).sum() / true.size)


def _checked(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or true.shape != pred.shape or not true.size:
        msg = (
            f"y_true and y_pred must be two vectors of the same length, with one label per sample and at least one "
            f"sample; got arrays of shape {true.shape} and {pred.shape}."
        )
        raise DataError(msg)
    return np.unique(true, return_inverse=True)[1], np.unique(pred, return_inverse=True)[1]
