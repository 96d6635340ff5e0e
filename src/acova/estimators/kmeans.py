"""The simple baselines: each view alone, all views side by side, and side by side with imputation by neighbours."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.impute import KNNImputer
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import DataError
from acova.base.errors import check_choice
from acova.data import Views
from acova.data.files.formats import has_class
from acova.estimators._tables import Table, TableClusterer
from acova.estimators.recipes import CLUSTERS_ONLY, SCALED_AS_PUBLISHED
from acova.estimators.rules import Rule, anything, check_flag
from acova.metrics import clustering_accuracy
from acova.training.neighbours import fill_by_nearest
from acova.training.reading import array_of, checked_array


class BSV(TableClusterer):
    """Best single view: k-means on every view alone, hidden rows at the view's mean, empty cells at their column's.

    Which view is best is a question that only known classes answer: `oracle_labels(y)` takes the view with the
    highest accuracy, as published tables do, and reads the classes to do so. `labels_` comes from the view that is
    named, or from the one whose clusters explain the largest share of its variance, without a look at any class.
    `assignments` lists the labels of every view.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    view : str or None
        The view that `labels_` and `predict` speak for; None takes the one that k-means explains best.
    standardize : bool or {"auto", "robust", "zscore", "range", "cosine", "counts"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows, as in `ACOVA`.
    n_init : int
        Restarts of k-means.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    random_state : int, RandomState or None
        The same integer gives the same result.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
    labels_by_view_ : array of shape (n_samples, V)
        Clusters found in each view alone.
    explained_ : array of shape (V,)
        Share of the variance of a view's observed rows that lies between its clusters.
    view_ : str
        The view of `labels_`.

    See Also
    --------
    Concat : k-means on all views side by side.
    KNNImpute : k-means after KNN imputation.
    ACOVA : Learns one latent space from the views that samples have.

    Examples
    --------
    >>> from acova import BSV
    >>> from acova.data import make_views
    >>> data = make_views(100, 3, random_state=0)
    >>> BSV(3, random_state=0).fit(data.views).labels_.shape
    (100,)
    """

    presets = SCALED_AS_PUBLISHED
    _per_sample = ("labels_", "labels_by_view_")
    _fitted = ("seed_", "view_", "explained_", "warnings_")
    _rules: ClassVar[Mapping[str, Rule]] = {"view": anything}  # the view's name is checked with the data

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        view: str | None = None,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = True,
        n_init: int = 10,
        view_sizes: Sequence[int] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.view = view
        self.standardize = standardize
        self.n_init = n_init
        self.view_sizes = view_sizes
        self.random_state = random_state
        self.verbose = verbose

    def oracle_labels(self, y: Any) -> NDArray[np.int64]:
        """Return the labels of the view that matches the known classes best (highest accuracy): it peeks at them.

        Samples of class -1 have no known class and do not count.
        """
        check_is_fitted(self, "labels_")
        known = has_class(np.asarray(y))
        scores = [clustering_accuracy(np.asarray(y)[known], labels[known]) for labels in self.labels_by_view_.T]
        labels: NDArray[np.int64] = self.labels_by_view_[:, int(np.argmax(scores))]
        return labels

    def _check_data(self, views: Views) -> None:
        if self.view is not None:
            check_choice("BSV", "view", self.view, views.names)
        for name, count in zip(views.names, views.observed.sum(axis=0), strict=True):
            if count < self.n_clusters:
                msg = (
                    f"BSV: view {name!r} is observed for {count} samples, fewer than n_clusters={self.n_clusters}, so "
                    "it cannot be clustered alone; leave the view out, or use Concat."
                )
                raise DataError(msg)

    def _tables(self, views: Views) -> dict[str, Table]:
        return dict(zip(views.names, self._filled(views), strict=True))

    def _finish(self, views: Views, tables: Mapping[str, Table], back: NDArray[np.intp]) -> None:
        labels = self._assigned(tables)
        self.explained_ = np.array(
            [_explained(table[seen], own[seen]) for table, own, seen in _columns(tables, labels, views.observed)]
        )
        self.view_ = self.view or views.names[int(self.explained_.argmax())]
        self.labels_by_view_ = labels[back]
        self.labels_ = self._picked(self.labels_by_view_)

    def _chosen(self) -> dict[str, Any]:
        return {"view": self.view_}

    def _held_labels(self) -> NDArray[np.int64]:
        return self.labels_by_view_

    def _told(self, labels: NDArray[np.int64], index: pd.Index) -> pd.DataFrame:
        each = {f"label_{name}": labels[:, v] for v, name in enumerate(self.view_names_)}
        return super()._told(labels, index).assign(**each)

    def _picked(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ascontiguousarray(labels[:, self.view_names_.index(self.view_)])

    @property
    def cluster_centers_(self) -> Table:
        """Centres of the clusters of `view_`, (K, P)."""
        return self._centers[self.view_names_.index(self.view_)]

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        super()._unpack(tensors, config)
        self.explained_ = checked_array("explained_", np.array(self.explained_), (len(self.view_sizes_),))
        check_choice("BSV", "view_", self.view_, self.view_names_)

    def _widths(self) -> tuple[int, ...]:
        return self.view_sizes_


class Concat(TableClusterer):
    """k-means on all views side by side, hidden rows at the view's mean and empty cells at their column's.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    standardize : bool or {"auto", "robust", "zscore", "range", "cosine", "counts"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows, as in `ACOVA`.
    balance : bool
        Divide every view by the root of its width: z-scored views then weigh the same. Otherwise wide views, or
        those of a large scale, outweigh the others.
    normalize_rows : bool
        Give every observed row of every view the length 1; often much stronger.
    n_init : int
        Restarts of k-means.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    random_state : int, RandomState or None
        The same integer gives the same result.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
    cluster_centers_ : array of shape (K, sum of the widths)

    See Also
    --------
    KNNImpute : Imputes by neighbours in place of means.
    ACOVA : Learns one latent space from the views that samples have.

    Examples
    --------
    >>> from acova import Concat
    >>> from acova.data import make_views
    >>> data = make_views(100, 3, random_state=0)
    >>> Concat(3, random_state=0).fit(data.views).labels_.shape
    (100,)
    """

    presets = SCALED_AS_PUBLISHED
    _rules: ClassVar[Mapping[str, Rule]] = {"balance": check_flag, "normalize_rows": check_flag}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = True,
        balance: bool = False,
        normalize_rows: bool = False,
        n_init: int = 10,
        view_sizes: Sequence[int] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.standardize = standardize
        self.balance = balance
        self.normalize_rows = normalize_rows
        self.n_init = n_init
        self.view_sizes = view_sizes
        self.random_state = random_state
        self.verbose = verbose


class KNNImpute(TableClusterer):
    """k-means on all views side by side, hidden rows filled from the nearest samples: the baseline to beat.

    A view that a sample lacks is the mean of that view over the nearest samples that have it (distances over the
    features two samples share), the same as by scikit-learn's `KNNImputer`; data with empty cells are filled by that
    imputer itself, column by column. Time grows with the square of the number of samples.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_neighbors : int
        How many neighbours fill a hidden row.
    standardize : bool or {"auto", "robust", "zscore", "range", "cosine", "counts"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows, as in `ACOVA`.
    balance : bool
        Divide every view by the root of its width: z-scored views then weigh the same.
    n_init : int
        Restarts of k-means.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    random_state : int, RandomState or None
        The same integer gives the same result.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
    cluster_centers_ : array of shape (K, sum of the widths)

    See Also
    --------
    Concat : Imputes by means in place of neighbours.
    AgreementGraph : Clusters of a neighbour graph; nothing is imputed.
    ACOVA : Learns one latent space from the views that samples have.

    Examples
    --------
    >>> from acova import KNNImpute
    >>> from acova.data import make_observed, make_views
    >>> views = make_views(100, 3, random_state=0).views
    >>> views = views.hide(make_observed(100, 2, 0.5, random_state=0))
    >>> KNNImpute(3, random_state=0).fit(views).labels_.shape
    (100,)
    """

    presets = CLUSTERS_ONLY
    _rules: ClassVar[Mapping[str, Rule]] = {"balance": check_flag}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 5,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = True,
        balance: bool = True,
        n_init: int = 10,
        view_sizes: Sequence[int] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.standardize = standardize
        self.balance = balance
        self.n_init = n_init
        self.view_sizes = view_sizes
        self.random_state = random_state
        self.verbose = verbose

    def _learn_to_fill(self, views: Views, weighed: list[Table]) -> None:
        self._known = _with_holes(views, weighed)

    def _filled(self, views: Views) -> list[Table]:
        weighed = self._weighed(views)
        if self.empty_cells_ or any(empty is not None for empty in views.empty):
            imputer = KNNImputer(n_neighbors=self.n_neighbors).fit(self._known)
            whole = imputer.transform(_with_holes(views, weighed))
            return np.split(whole, np.cumsum(views.sizes)[:-1], axis=1)
        tables = [torch.from_numpy(table) for table in weighed]
        known = torch.split(torch.from_numpy(self._known), [table.shape[1] for table in tables], dim=1)
        has = torch.stack([~table[:, 0].isnan() for table in known], dim=1)
        filled = fill_by_nearest(tables, torch.from_numpy(views.observed), known, has, self.n_neighbors)
        return [table.numpy() for table in filled]

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"centers.0": torch.from_numpy(self._centers[0]), "known": torch.from_numpy(self._known)}, {}

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        self._check_settings()
        self._unpack_centers(tensors)
        self._known = array_of(tensors, "known", (-1, sum(self.view_sizes_)))


def _with_holes(views: Views, tables: Sequence[Table]) -> Table:
    """Return tables of the views side by side, with NaN in hidden rows and empty cells."""
    holes = [
        ~seen[:, None] if empty is None else ~seen[:, None] | empty
        for seen, empty in zip(views.observed.T, views.empty, strict=True)
    ]
    return np.hstack([np.where(hole, np.nan, table) for hole, table in zip(holes, tables, strict=True)])


def _columns(
    tables: Mapping[str, Table], labels: NDArray[np.int64], observed: NDArray[np.bool_]
) -> Iterator[tuple[Table, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield each view's table, labels and which of its rows are observed."""
    return zip(tables.values(), labels.T, observed.T, strict=True)


def _explained(rows: Table, labels: NDArray[np.int64]) -> float:
    """Return the share of the rows' variance that lies between clusters."""
    total = np.square(rows - rows.mean(axis=0)).sum()
    member = np.eye(labels.max() + 1)[labels]
    centers = member.T @ rows / np.maximum(member.sum(axis=0), 1)[:, None]
    within = np.square(rows - centers[labels]).sum()
    return float(1 - within / total) if total else 0.0
