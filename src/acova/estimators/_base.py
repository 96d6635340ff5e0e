"""What every multi-view clusterer shares: from user input to checked `Views`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from acova.base import DataError, OptionError
from acova.base.errors import check_choice
from acova.base.version import __version__
from acova.clustering.number import ClusterNumbers
from acova.data import Scaling, StoredViews, Summary, Views
from acova.data.categories import given_sizes
from acova.data.census import Census
from acova.data.files.omics import add_results, is_omics, sparse_bytes
from acova.data.findings import warn_of
from acova.data.growth import split_announced
from acova.data.inputs import from_tensor
from acova.data.stored import IN_MEMORY, is_stored
from acova.data.suspects import suspects
from acova.data.views import Announced
from acova.estimators._settings import NESTED, Training, flat, nested, plain, setting_parameters, unnested
from acova.estimators.persistence import load_model, save_model
from acova.estimators.rules import Rule, check_settings, rules_of
from acova.training.completions import with_completions
from acova.training.extremes import learn_scaling
from acova.training.requirements import refusal_of_disk

_IN_MEMORY = IN_MEMORY


class MultiViewClusterer(ClusterMixin, BaseEstimator):
    """Base of estimators that take views in any form `Views.of` knows.

    Attributes
    ----------
    view_names_ : list of str
    view_sizes_ : tuple of int
        Number of features of each view.
    n_features_in_ : int
        Number of columns of all views together, as given.
    categories_ : dict of view → (dict of column → categories)
        The categories that were encoded, for the views that have any; new data are encoded with the same.
    index_ : pandas.Index
        Names of the training samples, in the order of every per-sample attribute: the index of the
        DataFrames (samples in order of first appearance), or 0 … n-1.
    summary_ : acova.data.Summary
        What went in, for figures and reports: missing patterns, and the features' moments by cluster.
    announced_ : dict of view → int or tuple of str
        Views that were announced (`Views.announce`) and not learned yet: how many columns, or which.
    empty_cells_ : dict of view → int
        Empty cells in the training samples that have the view, for the views with any; an empty cell of categories
        counts once for each category.
    provenance_ : dict
        Versions, device and time of the fit.
    settings_ : dict
        Every setting of the fit by its flat name, with what recipe, data and machine made of those left to them:
        ``likelihood`` and ``standardize`` by view, ``device``, ``precision``, ``view_sizes``. An estimator with these
        settings fits the same data alike. None means what the setting says of it (no early stopping, no folder, a seed
        drawn anew).
    n_clusters_ : int
        Number of clusters.
    warnings_ : list of str
        Why the result should not be trusted, as the `ConvergenceWarning` of the fit said; empty when nothing speaks
        against it.
    """

    n_clusters: Any
    view_sizes: Sequence[int] | None
    random_state: Any
    training: Training | None
    labels_: NDArray[np.int64]
    history_: pd.DataFrame
    summary_: Summary
    empty_cells_: dict[str, int]
    provenance_: dict[str, Any]
    settings_: dict[str, Any]
    warnings_: list[str]
    announced_: dict[str, Announced]
    cluster_names_: list[str] | None = None
    _scaling: Scaling
    cluster_numbers_: ClusterNumbers | None = None
    _classes: list[Any] | None = None

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings per data set."""
    _rules: ClassVar[Mapping[str, Rule]] = {}
    """What a method's own settings may be."""
    _per_sample: ClassVar[tuple[str, ...]] = ("labels_",)
    _fitted: ClassVar[tuple[str, ...]] = ()
    """Learned arrays with one row per sample, and other learned values, that a run folder keeps."""
    _completes_by_factors: ClassVar[bool] = True
    """Whether empty cells are completed by a factor model of their view, or by the means of their columns."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            rules_of(cls, cls.setting_names())

    @property
    def n_clusters_(self) -> int:
        """Number of clusters: `n_clusters`, or the number that ``"auto"`` chose."""
        return int(self.n_clusters if self.cluster_numbers_ is None else self.cluster_numbers_.n_clusters)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that the first clusters follow, (n_classes,): cluster k is that of ``classes_[k]``."""
        if self._classes is None:
            msg = f"{type(self).__name__} has no classes_: it was fitted without labels of some samples in y."
            raise AttributeError(msg)
        return np.array(self._classes)

    @classmethod
    def preset(cls, dataset: str, **settings: Any) -> Self:
        """Return an estimator with its settings for one of the paper's data sets, some of them replaced.

        Settings are given by their flat names; of a `training`, what differs from its defaults replaces the preset's.
        """
        check_choice(f"{cls.__name__}.preset", "dataset", dataset, cls.presets)
        return cls.from_settings(**{**cls.presets[dataset], **unnested(cls, settings)})

    @classmethod
    def from_settings(cls, n_clusters: int = 8, **settings: Any) -> Self:
        """Return an estimator with settings by their flat names, those of `training` too.

        Examples
        --------
        >>> from acova import ACOVA
        >>> ACOVA.from_settings(3, latent_dim=5, learning_rate=1e-3)
        ACOVA(latent_dim=5, n_clusters=3, training=Training(learning_rate=0.001))
        """
        return cls(n_clusters, **nested(cls, settings))

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the flat names of all settings, those of `training` too."""
        return list(setting_parameters(cls))

    def get_settings(self) -> dict[str, Any]:
        """Return the settings as they are given, by their flat names; `settings_` has what a fit made of them."""
        return flat(self)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do; ``training__x`` works without a `training` as well."""
        if getattr(self, NESTED, False) is None and any(name.startswith(f"{NESTED}__") for name in params):
            self.training = Training()
        super().set_params(**params)
        return self

    def fit(self, X: Any, y: Any = None, *, observed: Any = None) -> Self:
        """Learn the clusters."""
        raise NotImplementedError

    def fit_predict(self, X: Any, y: Any = None, *, observed: Any = None) -> NDArray[np.int64]:
        """Fit, and return the cluster of each sample."""
        return self.fit(X, y, observed=observed).labels_

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments` piece by piece."""
        raise NotImplementedError

    def assignments(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label; see the class."""
        return pd.concat(list(self.iter_assignments(X, observed=observed)))

    def annotate(self, data: Any, *, prefix: str = "acova", observed: Any = None, layer: str | None = None) -> None:
        """Write what the model says of the samples of a MuData or AnnData into it.

        ``obs`` gets ``acova_label`` (categorical), ``acova_confidence`` and, with ``consensus``,
        ``acova_agreement``; ``obsm`` gets ``acova_probabilities``, ``acova_view_weights`` and ``acova_latent``;
        ``uns["acova"]`` says which model it was. What a method does not have is left out.

        Parameters
        ----------
        data : MuData or AnnData
            Views as in `fit`; changed in place.
        prefix : str
            First part of every name.
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, as in `fit`.
        layer : str, optional
            The layer that was fitted in the place of ``X``.
        """
        if not is_omics(data):
            msg = f"{type(self).__name__}.annotate: data must be a MuData or an AnnData; got {type(data).__name__}."
            raise DataError(msg)
        views: Any = data
        if layer is not None:
            large = sparse_bytes(data) > _IN_MEMORY
            check_is_fitted(self, "labels_")
            dense = partial(Views.of, categories=self.categories_, seen=self.index_)
            views = (StoredViews.of if large else dense)(data, layer=layer)
        table = self.assignments(views, observed=observed)
        about: dict[str, Any] = {
            "method": type(self).__name__,
            "version": __version__,
            "n_clusters": int(self.n_clusters_),
            "views": np.array(self.view_names_, dtype=object),
            "settings": json.dumps(self.get_settings(), default=str),
        }
        if hasattr(self, "correlation_"):
            about["correlation"] = np.asarray(self.correlation_)
        latent = np.asarray(self.transform(views, observed=observed)) if hasattr(self, "transform") else None
        add_results(data, table, about, latent, prefix)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a run folder, from which ``load`` of the same class gives it back.

        It holds ``model.safetensors``, ``config.json``, ``labels.csv`` (the `assignments`) and
        ``history.csv``; it appears as a whole or not at all, and an existing run is replaced only with
        ``overwrite=True``.
        """
        check_is_fitted(self, "labels_")
        save_model(self, folder, overwrite=overwrite)

    def report(
        self,
        path: str | Path,
        *,
        method: str = "t-SNE",
        views: Any = None,
        observed: Any = None,
        covariates: Any = None,
        compare: Any = None,
        compare_name: str = "the other run",
        time: str | None = None,
        event: str | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write one self-contained HTML file about this result; return its path.

        Parameters
        ----------
        path : str or Path
            The file, or a folder for ``report.html``. An earlier report is replaced, another file only with
            ``overwrite=True``.
        method : {"t-SNE", "PCA", "UMAP"}
            How the map of the samples is made.
        views : views of any form, optional
            The training data. The map can then be coloured by the features that set the clusters apart most.
        observed : array of bool, shape (n_samples, V), optional
            As in `fit`, with `views`.
        covariates : DataFrame, or dict of name → array of shape (n_samples,), optional
            Other columns to colour the map by and to compare the clusters by. The rows of a DataFrame are found by the
            names of the samples.
        compare : fitted estimator, optional
            Another result of the same samples: the report compares clusters, samples and settings.
        compare_name : str
            What the report calls the other result.
        time, event : str, optional
            The covariates that say how long each sample was observed, and whether the event came, as for `compare`: the
            report then compares survival by cluster.
        overwrite : bool

        Examples
        --------
        >>> model.report("report.html", covariates=patients[["age", "sex"]])  # doctest: +SKIP
        """
        from acova.report import write_report  # above this layer: the one exception to the import contract

        return write_report(
            self, path, method=method, views=views, observed=observed, covariates=covariates, compare=compare,
            compare_name=compare_name, time=time, event=event, overwrite=overwrite,
        )  # fmt: skip

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model that `save` wrote. Nothing is unpickled: a foreign file gives an error, no more."""
        return load_model(cls, folder, device)

    def _check_settings(self) -> None:
        """Raise `OptionError` for the first setting with a value that it cannot have."""
        check_settings(type(self).__name__, self.get_settings(), rules_of(type(self), self.setting_names()))

    def _settings_of_fit(self, values: Mapping[str, Any], scalings: Sequence[str]) -> dict[str, Any]:
        """Return `settings_` from resolved values and from how each view was scaled."""
        sizes = self._given_sizes if self.view_sizes is None else self.view_sizes
        found = {**values, "standardize": dict(zip(self.view_names_, scalings, strict=True)), "view_sizes": sizes}
        return {name: plain(found[name]) for name in self.setting_names()}

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what else to save: tensors, and entries of ``config.json``."""
        raise NotImplementedError

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        """Take back what `_packed` gave."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _views_to_fit(self, X: Any, observed: Any) -> Views | StoredViews:
        """Check training data, and remember their views and columns."""
        views = self._views_of(X, observed, reset=True)
        self.announced_ = dict(getattr(views, "announced", {}))
        who = type(self).__name__
        if not isinstance(self.n_clusters, str) and views.n_samples < self.n_clusters:
            msg = (
                f"{who}: n_samples={views.n_samples} is less than n_clusters={self.n_clusters}; "
                "lower n_clusters or bring more samples."
            )
            raise DataError(msg)
        census = Census.of(views)
        census.check(who, views)
        empty = zip(views.names, census.empty, strict=True)
        self.empty_cells_ = {name: int(counts.sum()) for name, counts in empty if counts.any()}
        self.view_names_, self.cluster_names_ = list(views.names), None
        self.view_sizes_ = views.sizes
        known = getattr(views, "categories", ())  # views on disk hold numbers only
        self.categories_ = {name: dict(found) for name, found in zip(views.names, known, strict=False) if found}
        self.n_features_in_ = sum(self._given_sizes)
        self.index_ = views.index
        self._columns = views.columns
        return views

    def _learn_scaling(self, views: Views | StoredViews, kinds: tuple[str, ...]) -> None:
        """Learn how views are scaled, and what stands in the place of empty cells; warn of suspicious values."""
        warn_of(suspects(views, kinds))
        scaling = self._adjusted(learn_scaling(views, kinds), views)
        if self.empty_cells_:
            which = [name in self.empty_cells_ for name in views.names]
            scaling = with_completions(
                scaling, views, which, factors=self._completes_by_factors, marks=self._marks_empty_cells
            )
        self._scaling = scaling

    def _adjusted(self, scaling: Scaling, views: Views | StoredViews) -> Scaling:
        """Return a scaling that takes off what covariates explain, or say that this method takes none."""
        if getattr(views, "covariates", None) is not None:
            msg = (
                f"{type(self).__name__}: this method takes no covariates; use ACOVA or another method with a network, "
                "or leave them out."
            )
            raise OptionError(msg)
        return scaling

    def _summarise(self, views: Views | StoredViews, labels: NDArray[np.int64]) -> None:
        """Keep what went in; new samples may have empty cells where the training samples had none."""
        self.summary_ = Summary.of(views, labels, self.n_clusters_)
        self._scaling = self._scaling.with_means(self.summary_.column_means)

    @property
    def _marks_empty_cells(self) -> bool:
        """Whether a network is told which cells are empty."""
        return False

    def _in_memory(self, views: Views | StoredViews, why: str) -> Views:
        """Return views that are in memory, or say why this method cannot read them from disk."""
        if isinstance(views, StoredViews):
            raise refusal_of_disk(type(self).__name__, why, views)
        return views

    def _views_to_predict(self, X: Any, observed: Any) -> Views | StoredViews:
        """Check new data against the training data; views may be left out of a dict."""
        check_is_fitted(self, "labels_")
        views = self._known_views(self._views_of(X, observed, reset=False))
        if getattr(views, "covariates", None) is not None and self._scaling.covariates is None:
            msg = f"{type(self).__name__}: the model was fitted without covariates; leave them out, or fit with them."
            raise OptionError(msg)
        return views.matched_to(self.view_names_, self.view_sizes_, self._columns)

    def _known_views(self, views: Views | StoredViews) -> Views | StoredViews:
        """Leave out views that were announced and that no sample has."""
        if not self.announced_ or isinstance(views, StoredViews):
            return views
        rest, arrived = split_announced(views, self.announced_)
        if arrived:
            msg = (
                f"{type(self).__name__}: view {arrived[0]!r} was announced but never learned; call update(X) with the "
                "samples that have it, or leave the view out."
            )
            raise DataError(msg)
        return rest

    @property
    def _given_sizes(self) -> tuple[int, ...]:
        return given_sizes(self.view_sizes_, [self.categories_.get(name, {}) for name in self.view_names_])

    def _views_of(self, X: Any, observed: Any, *, reset: bool) -> Views | StoredViews:
        if is_stored(X) or sparse_bytes(X) > _IN_MEMORY:
            stored = StoredViews.of(X, observed)
            return stored if stored.nbytes > _IN_MEMORY else stored.read(0, len(stored))
        known, seen = (None, None) if reset else (self.categories_, self.index_)
        X = from_tensor(X)
        if _is_table(X):
            # A frame keeps its index and gets our messages; scikit-learn checks its column names.
            if isinstance(X, pd.DataFrame):
                validate_data(self, X, reset=reset, skip_check_array=True)
            else:
                # Which cells must be finite depends on which views are observed: Views looks at that.
                types = [np.float64, np.float32]
                X = validate_data(self, X, reset=reset, dtype=types, ensure_all_finite=False)
            sizes = self.view_sizes if reset else self._given_sizes
            views = Views.of(X, observed, view_sizes=sizes, categories=known, seen=seen)
            if not reset:  # one table is cut by position, whatever views that came later are called
                views.names = tuple(self.view_names_)
        else:
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            views = Views.of(X, observed, categories=known, seen=seen)
            columns = given_sizes(views.sizes, views.categories)
            if reset and self.view_sizes is not None and tuple(self.view_sizes) not in (views.sizes, columns):
                msg = (
                    f"{type(self).__name__}: view_sizes={self.view_sizes!r} but the views have widths {views.sizes}; "
                    "view_sizes cuts one array into views, so leave it out here."
                )
                raise DataError(msg)
        if not views.n_samples:
            msg = f"{type(self).__name__}: there are no samples; every view has 0 rows."
            raise DataError(msg)
        return views


def _is_table(X: Any) -> bool:
    """Whether X is one table (the form scikit-learn checks) and not several views."""
    if isinstance(X, Views) or is_omics(X):
        return False
    if issparse(X):  # before dict: dok matrices are dicts
        return True
    if isinstance(X, dict):
        return False
    if isinstance(X, list | tuple):
        return all(np.isscalar(part) or (isinstance(part, list | tuple) and _flat(part)) for part in X)
    return True


def _flat(row: Sequence[Any]) -> bool:
    return all(np.isscalar(cell) or cell is None for cell in row)


def canonical_order(index: pd.Index) -> NDArray[np.intp]:
    """Return the positions of the samples in an order that depends on their names alone.

    Training follows it, so frames with shuffled rows give each sample the same label.
    """
    names = index.map(repr) if index.dtype == object else index
    return np.argsort(names.to_numpy(), kind="stable")
