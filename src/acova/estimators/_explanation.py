"""Explanations as users call them: why a sample is where it is, what sets clusters apart, and names for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from acova.base import OptionError
from acova.base.errors import check_number
from acova.data import Summary, Views
from acova.data.profiles import profile_table
from acova.engine.runtime import computation
from acova.training.attribution import Attribution, attribute
from acova.training.consensus import Ensemble
from acova.training.inference import CHUNK, batch_of, device_of, infer


@dataclass(frozen=True)
class Explanation:
    """Why samples are in their clusters and not in the runners-up; what `explain` returns.

    Attributes
    ----------
    samples : DataFrame
        One row per sample: ``label`` and ``runner_up``, ``log_odds`` of the two, and ``baseline``, the log odds of a
        sample with the same views in which every feature has its mean.
    views : DataFrame
        One column per view: by how much the probability of the label falls when the view is hidden; NaN where the
        sample lacks the view or has no other.
    features : dict of view → DataFrame
        What each feature adds to the log odds, in nats; 0 where the sample lacks the view. The sum over all views'
        features is ``log_odds - baseline``, but for 1 % of that or 0.01 nats, whichever is more.

    See Also
    --------
    acova.ACOVA.cluster_profiles : The features that set the clusters apart.
    """

    samples: pd.DataFrame
    views: pd.DataFrame
    features: dict[str, pd.DataFrame]

    def top(self, count: int = 10) -> pd.DataFrame:
        """Return each sample's features with the largest contributions.

        Returns
        -------
        DataFrame
            Columns ``sample``, ``view``, ``feature`` and ``log_odds``; each sample's largest by size first.
        """
        check_number("Explanation.top", "count", count, minimum=1, integer=True)
        values = np.hstack([table.to_numpy() for table in self.features.values()])
        owners = [(view, feature) for view, table in self.features.items() for feature in table.columns]
        best = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :count]
        rows = np.repeat(np.arange(len(values)), best.shape[1])
        chosen = [owners[place] for place in best.ravel()]
        table = {
            "sample": self.samples.index[rows],
            "view": [view for view, _ in chosen],
            "feature": [feature for _, feature in chosen],
            "log_odds": values[rows, best.ravel()],
        }
        return pd.DataFrame(table)


class ExplanationMixin:
    """For clusterers: profiles and names of clusters; explanations of samples where a network can be differentiated."""

    view_names_: list[str]
    summary_: Summary
    cluster_names_: list[str] | None = None
    _columns: Any
    _scaling: Any
    _ensemble: Ensemble
    _views_to_impute: Callable[..., Views]

    @computation()
    def explain(self, X: Any, *, observed: Any = None) -> Explanation:
        """Return which views and features put each sample into its cluster and not into the runner-up.

        For features, gradients of the log odds are integrated from a sample in which every feature of the observed
        views has its mean (integrated gradients), through encoders, fusion and mixture, and through the mean over the
        runs of a consensus. For views, each is hidden in turn. Features that say the same share what they add; that a
        view can be missed does not mean that it says nothing, if another says the same.

        Parameters
        ----------
        X : anything that `predict` takes, in memory
        observed : array of bool, shape (n_samples, V), optional

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from acova import ACOVA
        >>> from acova.data import load_dataset
        >>> views = load_dataset("digits").views.take(range(300))
        >>> model = ACOVA(10, hidden=(64,), epochs=2, n_init=1, random_state=0).fit(views)
        >>> model.explain(views.take(range(5))).top(3).shape
        (15, 4)
        """
        views = self._views_to_impute(X, observed, "explain")
        if self._n_found < 2:
            msg = f"{type(self).__name__}.explain: there is no runner-up; got n_clusters={self._n_found}."
            raise OptionError(msg)
        ensemble = self._ensemble
        device = device_of(ensemble.network)
        means = self._scaled_means()
        marks = self._scaling.marks or (False,) * len(means)
        unmarked = [np.hstack([m, np.zeros_like(m)]) if marked else m for m, marked in zip(means, marks, strict=True)]
        parts = []
        for start in range(0, views.n_samples, CHUNK):
            batch = batch_of(views.read(start, start + CHUNK), self._scaling, device)
            baseline = [
                # A sample's own covariates are no features: they stay on the way from the baseline.
                torch.cat([torch.from_numpy(mean).to(device).expand(len(view), -1), view[:, len(mean) :]], dim=1)
                for mean, view in zip(unmarked, batch.views, strict=True)
            ]
            parts.append(attribute(ensemble, batch, baseline))
        index, columns = views.index, views.columns
        added = [np.concatenate([part.features[v] for part in parts]) for v in range(views.n_views)]
        features = {
            name: pd.DataFrame(_by_cell(added[v], views.sizes[v], marked=marks[v]), index, columns[v])
            for v, name in enumerate(views.names)
        }
        return Explanation(_samples(parts, index), self._without_each(views), features)

    @property
    def _n_found(self) -> int:
        return int(self.n_clusters_)  # type: ignore[attr-defined]

    def cluster_profiles(self) -> pd.DataFrame:
        """Return what sets each cluster apart, feature by feature, by the samples that have the view.

        Returns
        -------
        DataFrame
            One row per cluster, view and feature, each cluster's largest effects first: ``cluster`` (its name after
            `rename_clusters`), ``view``, ``feature``, ``samples`` (of the cluster, with the view), ``effect`` (Cohen's
            d of the cluster against all others), ``mean_inside`` and ``mean_outside`` in the units of the data, and
            ``zeros_inside`` and ``zeros_outside``, the shares of samples in which the feature is 0 (NaN in runs saved
            by earlier versions).
        """
        check_is_fitted(self, "labels_")
        clusters: Sequence[object] = self.cluster_names_ or range(self._n_found)
        return profile_table(self.summary_, self.view_names_, self._columns, clusters)

    def rename_clusters(self, names: Mapping[int, str] | Sequence[str]) -> Self:
        """Give clusters names, which `assignments` and `cluster_profiles` show; the numbers stay as they are.

        A new `fit` forgets them, a saved model keeps them.

        Parameters
        ----------
        names : dict of int → str, or sequence of n_clusters str
            A dict may leave clusters out; they keep their numbers as names.

        Examples
        --------
        >>> from acova import ACOVA
        >>> model = ACOVA(2, hidden=(8,), epochs=1, n_init=1, random_state=0).fit([[[0.0], [1.0], [2.0]]] * 2)
        >>> model.rename_clusters({0: "healthy"}).cluster_names_
        ['healthy', '1']
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.rename_clusters"
        given = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))
        unknown = [number for number in given if number not in range(self._n_found)]
        if unknown or not (isinstance(names, Mapping) or len(given) == self._n_found):
            msg = f"{who}: names must be for clusters 0 to {self._n_found - 1}; got {list(given)}."
            raise OptionError(msg)
        found = [str(given.get(number, number)) for number in range(self._n_found)]
        if len(set(found)) < len(found):
            msg = f"{who}: every cluster needs a name of its own; got {found}."
            raise OptionError(msg)
        self.cluster_names_ = found
        return self

    # --- what the methods above share -----------------------------------------------------------

    def _named(self, table: pd.DataFrame) -> pd.DataFrame:
        """Put the clusters' names, where there are some, beside the labels of a table."""
        if self.cluster_names_ is not None:
            names = np.array(self.cluster_names_, dtype=object)
            table.insert(1, "cluster", names[table["label"].to_numpy()])
        return table

    def _scaled_means(self) -> list[NDArray[np.float32]]:
        """Return every feature's mean over the training samples that have it, scaled."""
        found = []
        for v, means in enumerate(self.summary_.means):
            rows = self.summary_.rows[:, [v]]
            mean = (rows * np.nan_to_num(means)).sum(axis=0) / max(rows.sum(), 1)
            by_row = self._scaling.unit_rows[v] or any(self._scaling.totals[v : v + 1])  # rows change before the map
            scaled = (mean - self._scaling.centers[v]) / self._scaling.scales[v]
            found.append((np.zeros_like(scaled) if by_row else scaled).astype(np.float32))
        return found

    def _without_each(self, views: Views) -> pd.DataFrame:
        """Return by how much the probability of each sample's label falls when a view is hidden."""
        ensemble = self._ensemble
        whole = infer(ensemble, self._scaling, views)
        falls = np.full(views.observed.shape, np.nan)
        for v in range(views.n_views):
            rows = np.flatnonzero(views.observed[:, v] & (views.observed.sum(axis=1) > 1))
            if not len(rows):
                continue
            some = views.take(rows)
            mask = some.observed.copy()
            mask[:, v] = False
            alone = infer(ensemble, self._scaling, some.hide(mask)).probabilities
            labels, places = whole.labels[rows], np.arange(len(rows))
            falls[rows, v] = whole.probabilities[rows, labels] - alone[places, labels]
        return pd.DataFrame(falls, views.index, list(views.names))


def _samples(parts: Sequence[Attribution], index: pd.Index) -> pd.DataFrame:
    names = {"labels": "label", "runners_up": "runner_up", "log_odds": "log_odds", "baseline": "baseline"}
    table = {name: np.concatenate([getattr(part, field) for part in parts]) for field, name in names.items()}
    return pd.DataFrame(table, index=index)


def _by_cell(parts: NDArray[np.float64], size: int, *, marked: bool) -> NDArray[np.float64]:
    """Return what every feature adds, (n, P): that of its value and, of an empty cell, that of being empty."""
    return parts[:, :size] + parts[:, size : 2 * size] if marked else parts[:, :size]
