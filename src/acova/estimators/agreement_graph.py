"""Spectral clustering of one neighbour graph of all views, each as trusted as it agrees with another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import RunFolderError
from acova.base.seeds import draw_seed
from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.graphs import ViewGraph, combined_graph, neighbour_count, view_graphs, weighted_links
from acova.clustering.numbering import ROUNDS, is_in_order, order_after, renumbered
from acova.clustering.spectral import spectral_clusters, spectral_embedding
from acova.data import Views
from acova.engine.parallel import single_threaded
from acova.engine.runtime import computation
from acova.estimators._base import MultiViewClusterer, canonical_order
from acova.estimators._checks import ChecksMixin, doubts_about_missingness
from acova.estimators._comparison import ComparisonMixin
from acova.estimators._explanation import ExplanationMixin
from acova.estimators._growth import GrowthMixin
from acova.estimators._imputation import ImputationMixin
from acova.estimators._labels import doubts_about_labels, known_labels
from acova.estimators._latent import LatentMixin, table_of_assignments
from acova.estimators._notebook import NotebookMixin
from acova.estimators._outliers import GraphOutliersMixin, OutliersMixin
from acova.estimators._refit import RefitMixin
from acova.estimators._tree import TreeMixin
from acova.estimators._validation import per_view, scaling_kinds
from acova.estimators.recipes import CLUSTERS_ONLY
from acova.estimators.rules import COUNT, Rule, each_view, either
from acova.training.convergence import doubts_about, doubts_about_k_means, warn_of
from acova.training.extremes import scaled
from acova.training.influence import Influence, influence_of_views
from acova.training.progress import progress_bar
from acova.training.provenance import provenance
from acova.training.reading import array_of, checked_array
from acova.training.view_weights import given_weights

_WHY = "it compares samples with each other"
_BLOCK = 16384
"""Samples that are placed at once."""


@dataclass(frozen=True)
class _Placed:
    """What the graph says of samples.

    Attributes
    ----------
    probabilities : array of shape (n, K)
    weights : array of shape (n, V)
    latent : array of shape (n, D)
    """

    probabilities: NDArray[np.float32]
    weights: NDArray[np.float32]
    latent: NDArray[np.float32]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The most probable clusters."""
        labels: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return labels


class AgreementGraph(
    GraphOutliersMixin,
    OutliersMixin,
    NotebookMixin,
    ExplanationMixin,
    ImputationMixin,
    GrowthMixin,
    ChecksMixin,
    RefitMixin,
    ComparisonMixin,
    TreeMixin,
    LatentMixin,
    MultiViewClusterer,
):
    """Spectral clustering of one neighbour graph whose views are weighed by how far they agree with each other.

    Every view links each sample to its nearest neighbours among the samples that have the view. A view is trusted as
    far as its graph agrees with that of another view on the samples that both have. The graph of all views is the
    weighted mean over the views that two samples share. k-means clusters the samples by the three-step random walks on
    this graph that start from them, and a sample, new or not, belongs to the cluster that it has most links to. There
    is no network: a fit takes seconds,
    and memory grows with the number of samples, not with its square.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_neighbors : int or "auto", or one per view (sequence, or dict by view name)
        To how many neighbours a view links a sample; "auto" takes about half a cluster, from 5 to 30.
    view_weights : {"agreement", "equal"}, sequence or dict of float
        How much each view is trusted. ``"agreement"``: by how far its neighbour graph agrees with that of another
        view; where no two views agree beyond chance, by how much of its features a partition of the view explains. Or
        one number per view, by position or by name; only ratios count. A view of weight 0 only places samples that
        have no other.
    standardize : bool or {"auto", "robust", "zscore", "range", "cosine"}, or one per view (sequence or dict)
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
        Clusters, the largest first.
    probabilities_ : array of shape (n_samples, n_clusters)
        Share of a sample's links, one to itself included, that leads into each cluster.
    view_trust_ : array of shape (V,)
        Weights of the views, the largest 1.
    view_agreement_ : array of shape (V, V)
        How far every two views agree on who is near whom: 0 for unrelated views, 1 for equal ones.
    view_weights_ : array of shape (n_samples, V)
        Share of a sample's links that comes from each view; 0 for a view it lacks.
    view_influence_, view_support_ : arrays of shape (V,)
        What the clusters owe to each view, as for `ACOVA`.
    view_shift_ : array of shape (V,)
        How far clusters mirror who lacks a view, as for `ACOVA`.
    outlier_scores_ : array of shape (n_samples,)
        How odd each training sample is, from 0 to 1: 0.95 or more for the oddest 5 %. See `outliers`, which says
        why, and `score_samples` for new samples.
    latent_ : array of shape (n_samples, n_clusters + 10)
        Mean over a sample's links of the points that k-means clusters, as `transform` gives it; with few samples, as
        many columns as samples.

    See Also
    --------
    ACOVA : Learns networks; slower, and mostly better where there are more samples.
    KNNImpute : k-means after filling missing views from neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from acova import AgreementGraph
    >>> group = np.arange(60)[:, None] % 2
    >>> rng = np.random.default_rng(0)
    >>> views = {"image": 9 * group + rng.normal(size=(60, 4)), "text": 9 * group + rng.normal(size=(60, 3))}
    >>> model = AgreementGraph(n_clusters=2, random_state=0).fit(views)
    >>> model.predict({"text": np.array([[0.0, 0, 0], [9, 9, 9]])})
    array([0, 1])
    """

    presets = CLUSTERS_ONLY
    _per_sample = ("labels_", "probabilities_", "view_weights_", "latent_")
    _graphs: list[ViewGraph]
    _fitted = (
        "seed_",
        "view_trust_",
        "view_agreement_",
        "view_influence_",
        "view_support_",
        "view_shift_",
        "warnings_",
    )
    _rules: ClassVar[Mapping[str, Rule]] = {
        "n_neighbors": each_view(either(("auto",), COUNT, "an integer at least 1")),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int | str | Sequence[int | str] | Mapping[str, int | str] = "auto",
        view_weights: str | Sequence[float] | Mapping[str, float] = "agreement",
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = "auto",
        n_init: int = 10,
        view_sizes: Sequence[int] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.view_weights = view_weights
        self.standardize = standardize
        self.n_init = n_init
        self.view_sizes = view_sizes
        self.random_state = random_state
        self.verbose = verbose

    @computation()
    def fit(self, X: Any, y: Any = None, *, observed: Any = None) -> Self:
        """Learn the graph and its clusters.

        Parameters
        ----------
        X : list, dict, DataFrames, array or Views
            See `acova.Views.of`. A missing view is a row of NaN, or a sample absent from a DataFrame; NaN in single
            cells of a row are empty cells.
        y : array or Series of int or str, optional
            Labels of some of the samples, -1 for the others, which the clusters follow, as for `ACOVA`.
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, whatever its cells hold.
        """
        self._check_settings()
        given = self._in_memory(self._views_to_fit(X, observed), _WHY)
        order = canonical_order(given.index)
        views = given.take(order)
        who = type(self).__name__
        told = known_labels(who, y, given.index, self.n_clusters)
        known = None if told is None else told.take(order)
        self._classes = None if known is None else known.classes
        by_agreement = isinstance(self.view_weights, str) and self.view_weights == "agreement"
        if not by_agreement:
            self.view_trust_ = given_weights(who, self.view_weights, views.names)
        kinds = scaling_kinds(who, self.standardize, views)
        self._learn_scaling(views, kinds)
        counts = dict(zip(views.names, self._neighbour_counts(views.observed.sum(axis=0)), strict=True))
        self.settings_ = self._settings_of_fit({**self.get_settings(), "n_neighbors": counts}, kinds)
        self.seed_ = draw_seed(self.random_state, who)
        tables = scaled(views, self._scaling)
        with single_threaded(), progress_bar(who, 1, shown=self.verbose) as report:
            alone = scaled(views, self._scaling, alone=True) if self.empty_cells_ else tables
            self.view_agreement_ = view_agreement(alone, views.observed, self.n_clusters)
            if by_agreement:
                self.view_trust_ = agreement_weights(self.view_agreement_, alone, views.observed, self.n_clusters)
            links = self._learn_graph(tables, views.observed)
            seeds = None if known is None else known.clusters
            found = spectral_clusters(links, self._embedding, self.n_clusters, self.seed_, self.n_init, seeds)
            self._clusters = found.labels.astype(np.int64)
            self.history_ = pd.DataFrame([{"phase": "eigenvectors", "epoch": found.n_iter, "total": found.inertia}])
            if report is not None:
                report("k-means", 1, 1, [{"total": found.inertia}])
        placed = self._numbered(views.observed)
        self._graphs = [graph.without_links() for graph in self._graphs]
        self._tell(placed, np.argsort(order))
        self._summarise(views, placed.labels)
        influence = self._influence(views, placed.labels)
        self.view_influence_, self.view_support_ = influence.changed, influence.support
        self.view_shift_ = influence.shift
        self.provenance_ = provenance("cpu")
        self.warnings_ = [
            *doubts_about_k_means([("eigenvectors", found)], self.n_clusters),
            *doubts_about(self.labels_, self.n_clusters, self.history_, self.probabilities_),
            *doubts_about_labels(known, placed.labels),
            *influence.warnings,
            *doubts_about_missingness(self.summary_, self.view_names_, self.view_shift_, self.seed_),
        ]
        warn_of(who, self.warnings_, stacklevel=3)
        return self

    def predict(self, X: Any, *, observed: Any = None) -> NDArray[np.int64]:
        """Return the cluster that each sample has most links to; one of the views is enough."""
        return self._placed(X, observed)[0].labels

    def predict_proba(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the share of each sample's links that leads into each cluster, (n_samples, n_clusters)."""
        return self._placed(X, observed)[0].probabilities

    def transform(self, X: Any, *, observed: Any = None) -> Any:
        """Return the mean over each sample's links of the points that k-means clusters, see `latent_`.

        After ``set_output(transform="pandas")`` it is a DataFrame under the samples' names.
        """
        placed, index = self._placed(X, observed)
        return self._in_container(placed.latent, index)

    def assignments(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label.

        Columns: ``label``, ``confidence`` (the share of the sample's links that leads into its cluster), ``p_0`` …
        ``p_{K-1}``, and ``weight_<view>``. Without `X` it lists the training samples.
        """
        return super().assignments(X, observed=observed)

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments`, in one piece."""
        check_is_fitted(self, "labels_")
        if X is None:
            placed, index = _Placed(self.probabilities_, self.view_weights_, self.latent_), self.index_
        else:
            placed, index = self._placed(X, observed)
        yield self._named(table_of_assignments(index, placed.probabilities, placed.weights, self.view_names_))

    # --- fitting --------------------------------------------------------------------------------

    def _learn_graph(self, tables: Sequence[NDArray[np.float32]], observed: NDArray[np.bool_]) -> sp.csr_matrix:
        """Learn the graphs of the views and the points of the samples; return the graph of all views."""
        graphs = view_graphs(tables, observed, self.n_clusters, self._neighbour_counts(observed.sum(axis=0)))
        links = combined_graph(graphs, observed, self.view_trust_)
        self._embedding = spectral_embedding(links, self.n_clusters)
        self._graphs, self._observed, self._n_features_out = graphs, observed, self._embedding.shape[1]
        self._usual = None
        return links

    def _neighbour_counts(self, n_samples: NDArray[np.int64]) -> list[int]:
        """Return to how many neighbours each view links a sample, from the number of samples that have the view."""
        given = per_view(type(self).__name__, "n_neighbors", self.n_neighbors, self.view_names_)
        pairs = zip(given, n_samples.tolist(), strict=True)
        return [neighbour_count(n, self.n_clusters) if count == "auto" else int(count) for count, n in pairs]

    def _numbered(self, observed: NDArray[np.bool_]) -> _Placed:
        """Place the training samples, with the clusters in the order of `cluster_order`."""
        placed = self._placed_by(weighted_links(self._graphs, self._observed, None, observed, self.view_trust_))
        for _ in range(ROUNDS):
            order = order_after(placed.labels, self.n_clusters, len(self._classes or ()))
            if is_in_order(order):
                break
            self._clusters = renumbered(self._clusters, order).astype(np.int64)
            placed = replace(placed, probabilities=placed.probabilities[:, order])
        return placed

    def _tell(self, placed: _Placed, back: NDArray[np.intp]) -> None:
        """Keep the result, in the order of the input."""
        self.labels_ = placed.labels[back]
        self.probabilities_ = placed.probabilities[back]
        self.view_weights_ = placed.weights[back]
        self.latent_ = placed.latent[back]

    def _influence(self, views: Views, labels: NDArray[np.int64]) -> Influence:
        """Return what the partition owes to each view."""

        def labels_of(samples: Views, observed: NDArray[np.bool_]) -> NDArray[np.int64]:
            return self._place(scaled(samples, self._scaling), observed).labels

        return influence_of_views(views, self._scaling, labels, self.summary_, self.n_clusters, labels_of)

    # --- placing samples ------------------------------------------------------------------------

    @computation()
    def _placed(self, X: Any, observed: Any) -> tuple[_Placed, pd.Index]:
        views = self._in_memory(self._views_to_predict(X, observed), _WHY)
        return self._place(scaled(views, self._scaling), views.observed), views.index

    def _place(self, tables: Sequence[NDArray[np.float32]], observed: NDArray[np.bool_]) -> _Placed:
        """Return where samples belong, by their links to the training samples."""
        starts = range(0, len(observed), _BLOCK)
        parts = [
            self._place_some([table[i : i + _BLOCK] for table in tables], observed[i : i + _BLOCK]) for i in starts
        ]
        return _Placed(
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.latent for part in parts]),
        )

    def _place_some(self, tables: Sequence[NDArray[np.float32]], observed: NDArray[np.bool_]) -> _Placed:
        return self._placed_by(weighted_links(self._graphs, self._observed, tables, observed, self.view_trust_))

    def _placed_by(self, links_by_view: Iterable[sp.csr_matrix]) -> _Placed:
        """Return the means over the links (n, training samples) of samples."""
        values = np.hstack([np.eye(self.n_clusters)[self._clusters], self._embedding])
        links = list(links_by_view)
        weights = np.column_stack([np.asarray(one.sum(axis=1)).ravel() for one in links])
        total = np.sum([one @ values for one in links], axis=0) / weights.sum(axis=1, keepdims=True)
        shares, latent = np.split(total.astype(np.float32), [self.n_clusters], axis=1)
        return _Placed(shares, (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32), latent)

    # --- saving ---------------------------------------------------------------------------------

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        arrays = {"clusters": self._clusters, "embedding": self._embedding, "observed": self._observed}
        for v, graph in enumerate(self._graphs):
            arrays |= {f"rows.{v}": graph.rows.astype(np.float32), f"spreads.{v}": graph.spreads}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}, {}

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        self._check_settings()
        n_views = len(self.view_sizes_)
        self._observed = array_of(tensors, "observed", (-1, n_views), "b")
        self._clusters = array_of(tensors, "clusters", (len(self._observed),), "i")
        if not ((self._clusters >= 0) & (self._clusters < self.n_clusters)).all():
            msg = f"'clusters' names other clusters than 0 to {self.n_clusters - 1}"
            raise RunFolderError(msg)
        self._embedding = array_of(tensors, "embedding", (len(self._observed), -1))
        self._n_features_out = self._embedding.shape[1]
        self._graphs = []
        present = self._observed.sum(axis=0)
        for v, (size, n, count) in enumerate(
            zip(self.view_sizes_, present.tolist(), self._neighbour_counts(present), strict=True)
        ):
            rows = array_of(tensors, f"rows.{v}", (n, size)).astype(np.float64)
            self._graphs.append(ViewGraph.known(rows, array_of(tensors, f"spreads.{v}", (n,)), count))
        self.view_trust_ = checked_array("view_trust_", np.array(self.view_trust_), (n_views,))
        self.view_agreement_ = checked_array("view_agreement_", np.array(self.view_agreement_), (n_views, n_views))
