"""Labels that are known of some samples: what `y` of `fit` means."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError, OptionError

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Labels of some samples.

    Attributes
    ----------
    classes : list of int or str
        The labels that occur, sorted.
    clusters : array of int, shape (n_samples,)
        Position among `classes`, which is the number of the cluster; -1 where nothing is known.
    """

    classes: list[Any]
    clusters: NDArray[np.int64]

    def take(self, order: NDArray[np.intp] | None) -> "KnownLabels":
        """Return the labels in another order of the samples; None: as it is."""
        return self if order is None else KnownLabels(self.classes, self.clusters[order])

    def followed_by(self, labels: NDArray[np.int64]) -> float:
        """Return the share of the labelled samples that are in their own cluster."""
        known = self.clusters >= 0
        return float((np.asarray(labels)[known] == self.clusters[known]).mean())


def known_labels(who: str, y: Any, index: pd.Index, n_clusters: Any) -> KnownLabels | None:
    """Return what `y` says of the samples; None where it says nothing that clusters could follow.

    Without unknown labels there is nothing left to find out, and without known ones nothing to follow: both are ignored
    as every clusterer of scikit-learn ignores `y`, and so is any `y` where there is one cluster alone.

    Parameters
    ----------
    who : str
        Named in errors.
    y : None, or labels
        One per sample, or a Series whose index names samples. -1, NaN and None stand for unknown.
    index : pandas.Index
        Names of the samples.
    n_clusters : int or "auto"
    """
    if y is None or n_clusters == 1:
        return None
    values = _aligned(who, y, index)
    unknown = np.asarray(values.isna() | (values == UNKNOWN))
    if unknown.all() or not unknown.any():
        return None
    classes = _classes(who, values[~unknown])
    if isinstance(n_clusters, str):
        msg = f"{who}: n_clusters={n_clusters!r} chooses without labels; with labels in y, give a number."
        raise OptionError(msg)
    if len(classes) > n_clusters:
        shown = ", ".join(map(repr, classes[:10]))
        msg = (
            f"{who}: y has {len(classes)} labels ({shown}{', …' if len(classes) > 10 else ''}) for "
            f"n_clusters={n_clusters}; every label needs a cluster, so give at least n_clusters={len(classes)}."
        )
        raise OptionError(msg)
    clusters = np.full(len(values), UNKNOWN, dtype=np.int64)
    clusters[~unknown] = pd.Index(classes).get_indexer(values[~unknown].tolist())
    return KnownLabels(classes, clusters)


def refuse_labels(who: str, y: Any, index: pd.Index, n_clusters: Any) -> None:
    """Raise `OptionError` where `y` holds labels that a method would have to follow and cannot."""
    if known_labels(who, y, index, n_clusters) is not None:
        msg = (
            f"{who}: y holds labels of some samples, which this method cannot follow; leave y out, or use a method "
            "that can, such as ACOVA or AgreementGraph."
        )
        raise OptionError(msg)


def doubts_about_labels(known: KnownLabels | None, labels: NDArray[np.int64]) -> list[str]:
    """Say where clusters do not follow the labels."""
    if known is None or (share := known.followed_by(labels)) >= _FOLLOWED:
        return []
    count = int((known.clusters >= 0).sum())
    return [
        f"the clusters hardly follow the labels: {1 - share:.0%} of the {count} labelled samples are in another "
        "cluster than their own. Label more samples, allow for more clusters, or check the labels."
    ]


_FOLLOWED = 0.8
"""Share of labelled samples in their own cluster below which a fit warns."""


def _aligned(who: str, y: Any, index: pd.Index) -> "pd.Series[Any]":
    """Return one value per sample."""
    if isinstance(y, pd.Series) and not (isinstance(y.index, pd.RangeIndex) and len(y) == len(index)):
        if y.index.has_duplicates or not y.index.isin(index).any():
            msg = (
                f"{who}: y must name each sample once, as the data do, such as {index[0]!r}; its index begins with "
                f"{y.index[0] if len(y) else 'nothing'!r}."
            )
            raise DataError(msg)
        return y.reindex(index)
    values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (len(index),):
        msg = f"{who}: y must have one label for each of the {len(index)} samples; its shape is {values.shape}."
        raise DataError(msg)
    return pd.Series(values, index=index)


def _classes(who: str, known: "pd.Series[Any]") -> list[Any]:
    """Return the labels that occur, sorted; whole numbers as integers."""
    found = [one.item() if isinstance(one, np.generic) else one for one in known.unique().tolist()]
    found = [int(one) if isinstance(one, float) and one.is_integer() else one for one in found]
    wrong = [one for one in found if not isinstance(one, Hashable) or isinstance(one, float) or not _is_label(one)]
    if wrong or len({isinstance(one, str) for one in found}) > 1:
        msg = (
            f"{who}: labels in y must be whole numbers from 0 on or words, and -1 where unknown; got "
            f"{wrong[0] if wrong else 'both numbers and words'!r}."
        )
        raise DataError(msg)
    return sorted(set(found))


def _is_label(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and value >= 0)
