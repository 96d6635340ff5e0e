"""k-means on tables made of the views: what the methods without a network share."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base.seeds import draw_seed
from acova.clustering.kmeans import Partition, k_means
from acova.clustering.numbering import ROUNDS, cluster_order, is_in_order
from acova.data import Views
from acova.engine.parallel import single_threaded
from acova.engine.runtime import computation
from acova.estimators._base import MultiViewClusterer, canonical_order
from acova.estimators._checks import ChecksMixin
from acova.estimators._comparison import ComparisonMixin
from acova.estimators._explanation import ExplanationMixin
from acova.estimators._growth import GrowthMixin
from acova.estimators._imputation import ImputationMixin
from acova.estimators._labels import refuse_labels
from acova.estimators._notebook import NotebookMixin
from acova.estimators._refit import RefitMixin
from acova.estimators._tree import TreeMixin
from acova.estimators._validation import scaling_kinds
from acova.training.convergence import doubts_about, doubts_about_k_means, warn_of
from acova.training.extremes import scaled
from acova.training.progress import progress_bar
from acova.training.provenance import provenance
from acova.training.reading import array_of

_ROWS = 16384
_WHY = "k-means works"
Table = NDArray[np.float64]


class TableClusterer(
    NotebookMixin,
    ExplanationMixin,
    ImputationMixin,
    GrowthMixin,
    ChecksMixin,
    RefitMixin,
    ComparisonMixin,
    TreeMixin,
    MultiViewClusterer,
):
    """k-means on tables made of the views; what `BSV`, `Concat` and `KNNImpute` share.

    `assignments` have the column ``label``. Clusters are numbered by size, the largest first.
    """

    n_init: int
    standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str]
    verbose: bool
    balance = False
    normalize_rows = False
    _completes_by_factors = False
    _fitted: ClassVar[tuple[str, ...]] = ("seed_", "warnings_")
    _centers: list[Table]

    @computation()
    def fit(self, X: Any, y: Any = None, *, observed: Any = None) -> Self:
        """Learn the clusters.

        Parameters
        ----------
        X : list, dict, DataFrames, array or Views
            See `acova.Views.of`. A missing view is a row of NaN, or a sample absent from a DataFrame; NaN in single
            cells of a row are empty cells.
        y : ignored
            Labels of some of the samples, -1 for the others, are refused: this method cannot follow them.
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, whatever its cells hold.
        """
        self._check_settings()
        given = self._in_memory(self._views_to_fit(X, observed), _WHY)
        refuse_labels(type(self).__name__, y, given.index, self.n_clusters)
        order = canonical_order(given.index)
        views = given.take(order)
        self._check_data(views)
        kinds = scaling_kinds(type(self).__name__, self.standardize, views)
        self._learn_scaling(views, kinds)
        self.seed_ = draw_seed(self.random_state, type(self).__name__)
        self._learn_to_fill(views, self._weighed(views))
        tables = self._tables(views)
        fits: dict[str, Partition] = {}
        with progress_bar(type(self).__name__, len(tables), shown=self.verbose) as report:
            for name, table in tables.items():
                fits[name] = self._k_means(table)
                if report is not None:
                    report(name, 1, 1, [{"total": fits[name].inertia}])
        self._centers = [
            _by_size(table, fit.centers) for table, fit in zip(tables.values(), fits.values(), strict=True)
        ]
        records = [{"phase": name, "epoch": fit.n_iter, "total": fit.inertia} for name, fit in fits.items()]
        self.history_ = pd.DataFrame(records)
        self._finish(views, tables, np.argsort(order))
        self.settings_ = self._settings_of_fit({**self.get_settings(), **self._chosen()}, kinds)
        self._summarise(views, self.labels_[order])
        self.provenance_ = provenance("cpu")
        self.warnings_ = [
            *doubts_about_k_means(fits.items(), self.n_clusters),
            *doubts_about(self.labels_, self.n_clusters, self.history_),
        ]
        warn_of(type(self).__name__, self.warnings_, stacklevel=3)
        return self

    @computation()
    def predict(self, X: Any, *, observed: Any = None) -> NDArray[np.int64]:
        """Return the cluster whose centre is nearest to each sample, filled as in training."""
        views = self._in_memory(self._views_to_predict(X, observed), _WHY)
        return self._picked(self._assigned(self._tables(views)))

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments`, in one piece."""
        check_is_fitted(self, "labels_")
        if X is None:
            yield self._told(self._held_labels(), self.index_)
        else:
            views = self._in_memory(self._views_to_predict(X, observed), _WHY)
            yield self._told(self._assigned(self._tables(views)), views.index)

    # --- what differs ---------------------------------------------------------------------------

    def _check_data(self, views: Views) -> None:
        """Refuse data this method cannot cluster."""

    def _learn_to_fill(self, views: Views, weighed: list[Table]) -> None:
        """Learn what stands in the place of a view that a sample lacks: the mean of its observed rows."""
        self._means = [table[views.observed[:, v]].mean(axis=0) for v, table in enumerate(weighed)]

    def _filled(self, views: Views) -> list[Table]:
        """Return every view (n, P_v) without holes."""
        return [np.where(views.observed[:, [v]], table, self._means[v]) for v, table in enumerate(self._weighed(views))]

    def _tables(self, views: Views) -> dict[str, Table]:
        """Return what k-means is run on, by name."""
        return {"k-means": np.hstack(self._filled(views))}

    def _finish(self, views: Views, tables: Mapping[str, Table], back: NDArray[np.intp]) -> None:
        """Tell the result, in the order of the input."""
        self.labels_ = self._picked(self._assigned(tables))[back]

    def _chosen(self) -> dict[str, Any]:
        """Return the settings that were left to the data."""
        return {}

    def _held_labels(self) -> NDArray[np.int64]:
        """Return the training samples' labels in all tables, (n, tables)."""
        return self.labels_[:, None]

    def _told(self, labels: NDArray[np.int64], index: pd.Index) -> pd.DataFrame:
        return self._named(pd.DataFrame({"label": self._picked(labels)}, index=index))

    def _picked(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return one label per sample from those of all tables, (n, tables)."""
        return labels[:, 0]

    @property
    def cluster_centers_(self) -> Table:
        """Centres of the clusters, (K, features)."""
        return self._centers[0]

    # --- shared ---------------------------------------------------------------------------------

    def _weighed(self, views: Views) -> list[Table]:
        """Return the scaled views; hidden rows mean nothing."""
        tables = [table.astype(np.float64) for table in scaled(views, self._scaling)]
        if self.balance:
            tables = [table / np.sqrt(table.shape[1]) for table in tables]
        return [normalize(table) for table in tables] if self.normalize_rows else tables

    def _k_means(self, table: Table) -> Partition:
        with single_threaded():
            return k_means(table, self.n_clusters, self.seed_, self.n_init)

    def _assigned(self, tables: Mapping[str, Table]) -> NDArray[np.int64]:
        pairs = zip(tables.values(), self._centers, strict=True)
        return np.column_stack([_nearest(table, centers) for table, centers in pairs])

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"centers.{t}": torch.from_numpy(centers) for t, centers in enumerate(self._centers)}
        tensors |= {f"mean.{v}": torch.from_numpy(mean) for v, mean in enumerate(self._means)}
        return tensors, {}

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        self._check_settings()
        self._unpack_centers(tensors)
        self._means = [array_of(tensors, f"mean.{v}", (size,)) for v, size in enumerate(self.view_sizes_)]

    def _unpack_centers(self, tensors: Mapping[str, Tensor]) -> None:
        shapes = [(self.n_clusters, width) for width in self._widths()]
        self._centers = [array_of(tensors, f"centers.{t}", shape) for t, shape in enumerate(shapes)]

    def _widths(self) -> tuple[int, ...]:
        """Return the widths of the tables that k-means is run on."""
        return (sum(self.view_sizes_),)


def _nearest(table: Table, centers: Table) -> NDArray[np.int64]:
    """Return the nearest centre of each row, leaving out the row's own square, in which far rows' differences drown."""
    half = 0.5 * np.square(centers).sum(axis=1)
    found = np.empty(len(table), dtype=np.int64)
    with single_threaded():
        for rows in gen_batches(len(table), _ROWS):
            found[rows] = (half - table[rows] @ centers.T).argmin(axis=1)
    return found


def _by_size(table: Table, centers: Table) -> Table:
    """Return the centres in the order of `cluster_order` of the rows nearest to them."""
    for _ in range(ROUNDS):
        order = cluster_order(_nearest(table, centers), len(centers))
        if is_in_order(order):
            break
        centers = centers[order]
    return centers
