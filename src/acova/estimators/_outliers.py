"""Who belongs nowhere: by the neighbour graphs of the training samples, or by what networks expect of samples."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import DataError, Streams
from acova.base.errors import check_number
from acova.clustering.graphs import ViewGraph
from acova.clustering.outliers import Oddness, OddnessReference, Usual
from acova.data import Scaling, Views
from acova.engine.parallel import single_threaded
from acova.engine.runtime import computation
from acova.estimators._base import canonical_order
from acova.training.extremes import scaled
from acova.training.oddness import misfits
from acova.training.reading import array_of

_LEVEL = 0.05
_SEEDS = 2**31


def _can_tell(model: Any) -> bool:
    """Tell whether outliers can be told, or raise `AttributeError` that says what is missing."""
    model._check_tells()
    return True


class OutliersMixin:
    """What clusterers say of samples that belong nowhere; one of the next mixins says what is usual (`_oddness`)."""

    index_: pd.Index
    view_names_: list[str]

    @property
    def outlier_scores_(self) -> NDArray[np.float64]:
        """How odd each training sample is, (n_samples,): 1 minus its p-value, see `outliers`."""
        self._check_tells()
        return np.asarray(1 - self._oddness(None, None)[0].p_values)

    @available_if(_can_tell)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any, *, observed: Any = None) -> NDArray[np.float64]:
        """Return how usual each sample is, (n_samples,): the logarithm of its p-value, see `outliers`.

        0 is usual and low values are odd, as for scikit-learn's detectors of outliers.
        """
        return np.asarray(np.log(self._oddness(X, observed)[0].p_values))

    def outliers(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return how odd each sample is, and why; without `X` of the training samples, each compared with the others.

        `AgreementGraph` calls a sample odd if it is further from its nearest neighbours than these are from theirs, or
        if its neighbours lie in other clusters in one view than in the others. `ACOVA` and its relatives, after
        `calibrate_outliers`, if the networks reconstruct its views badly or its latent vector is unlikely, or if its
        views ask for different latent vectors and predict each other badly. Both reasons are compared with the training
        samples, view by view and then for all views that a sample has, with training samples that have as many.

        Returns
        -------
        DataFrame
            One row per sample under its name.

            - ``p_value``: about 5 % of new samples like those of the training get 0.05 or less, and so for every level.
              It is the rank of the smaller of the next two among those of the training samples;
            - ``far``, ``contradiction``: the p-values of the two reasons;
            - ``odd_views``: for samples with ``p_value`` up to 0.05, the views that are far or contradict the others
              by themselves at this level, the most striking first; else empty.
        """
        self._check_tells()
        found, index = self._oddness(X, observed)
        by_view = self._least_by_view(found)
        views = [self._striking(*row) for row in zip(found.p_values, by_view, strict=True)]
        columns = {"p_value": found.p_values, "far": found.far, "contradiction": found.contradiction}
        return pd.DataFrame({**columns, "odd_views": views}, index=index)

    def _least_by_view(self, found: Oddness) -> NDArray[np.float64]:
        """Return the smallest p-value of each view, (n, V); several columns of a view lie V apart."""
        count = len(self.view_names_)
        least = found.far_by_view[:, :count]
        for start in range(0, found.contradiction_by_view.shape[1], count):
            least = np.fmin(least, found.contradiction_by_view[:, start : start + count])
        return least

    def _striking(self, p_value: float, by_view: NDArray[np.float64]) -> str:
        """Return the names of the views that stand out in an odd sample."""
        if p_value > _LEVEL:
            return ""
        order = np.argsort(np.where(np.isnan(by_view), np.inf, by_view), kind="stable")
        return ", ".join(self.view_names_[v] for v in order if by_view[v] <= _LEVEL)

    def _check_tells(self) -> None:
        """Raise `AttributeError` where nothing is known of what is usual."""

    def _oddness(self, X: Any, observed: Any) -> tuple[Oddness, pd.Index]:
        """Return the oddness of samples, or of the training samples, and their names."""
        raise NotImplementedError


class GraphOutliersMixin:
    """For `AgreementGraph`, before `OutliersMixin`: what is usual by the neighbour graphs of the training samples."""

    index_: pd.Index
    _graphs: list[ViewGraph]
    _observed: NDArray[np.bool_]
    _clusters: NDArray[np.int64]
    _scaling: Scaling
    _in_memory: Callable[..., Views]
    _views_to_predict: Callable[..., Any]
    _usual: OddnessReference | None = None

    def _oddness(self, X: Any, observed: Any) -> tuple[Oddness, pd.Index]:
        check_is_fitted(self, "labels_")
        with single_threaded():
            if self._usual is None:
                count: int = self.n_clusters_  # type: ignore[attr-defined]
                self._usual = OddnessReference.of(self._graphs, self._observed, self._clusters, count)
            if X is None:
                back = np.argsort(canonical_order(self.index_))
                return self._usual.training().take(back), self.index_
            views = self._in_memory(self._views_to_predict(X, observed), "samples are compared with each other")
            return self._usual.samples(scaled(views, self._scaling), views.observed), views.index


class NetworkOutliersMixin:
    """For networks that decode, before `OutliersMixin`: what is usual by how they explain samples they did not see."""

    index_: pd.Index
    view_names_: list[str]
    network_: Any
    seed_: int
    _refitted: Callable[..., Any]
    _views_to_impute: Callable[..., Views]
    _likelihoods: tuple[str, ...]
    _scaling: Scaling
    _usual: Usual | None = None

    def calibrate_outliers(self, X: Any, *, observed: Any = None, n_folds: int = 5) -> Self:
        """Learn how badly samples are explained that belong to the data but were not trained on.

        A network explains the samples it was trained on better than others, so these cannot tell what is usual. Here
        the training samples are dealt to folds; for every fold a model with the same settings (one run) is trained on
        the others and explains the samples of the fold. New samples are compared with these; `outlier_scores_` compares
        them with each other. It costs `n_folds` fits of one run. The result of `fit` does not change.

        Parameters
        ----------
        X : anything that `fit` takes
            The training samples, in memory.
        observed : array of bool, shape (n_samples, V), optional
            As in `fit`.
        n_folds : int
            At least 2.

        Returns
        -------
        self

        See Also
        --------
        outliers : Who belongs nowhere, and which of its views say so.
        """
        who = f"{type(self).__name__}.calibrate_outliers"
        check_number(who, "n_folds", n_folds, minimum=2, integer=True)
        views = self._views_to_impute(X, observed, "calibrate_outliers")
        if not views.index.equals(self.index_):
            msg = f"{who}: X must be the training samples, in the same order; give what the model was fitted on."
            raise DataError(msg)
        order = canonical_order(views.index)
        streams = Streams(self.seed_).child("outliers")
        fold = np.empty(len(views), dtype=np.int64)
        fold[order] = streams.numpy("folds").permutation(len(views)) % n_folds
        parts: list[tuple[NDArray[np.float64], ...]] = []
        for number in range(n_folds):
            rest, seed = views.take(np.flatnonzero(fold != number)), streams.integer("fit", number) % _SEEDS
            model = self._refitted(rest, seed)
            parts.append(model._misfits(views.take(np.flatnonzero(fold == number))))
        back = np.argsort(np.concatenate([np.flatnonzero(fold == number) for number in range(n_folds)]))
        self._usual = Usual(*(np.concatenate(pieces)[back] for pieces in zip(*parts, strict=True)))
        return self

    @computation()
    def _misfits(self, views: Views) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return misfits(self.network_, self._scaling, views, self._likelihoods)

    def _check_tells(self) -> None:
        if self._usual is None:
            msg = (
                f"{type(self).__name__} does not know yet what is usual: after fit, call "
                "calibrate_outliers(X) with the training data."
            )
            raise AttributeError(msg)

    def _oddness(self, X: Any, observed: Any) -> tuple[Oddness, pd.Index]:
        self._check_tells()
        usual: Any = self._usual
        if X is None:
            return usual.training(), self.index_
        views = self._views_to_impute(X, observed, "outliers")
        return usual.compared(*self._misfits(views)), views.index

    def _packed_usual(self) -> dict[str, Tensor]:
        if self._usual is None:
            return {}
        arrays = {"distance": self._usual.distance, "disagreement": self._usual.disagreement}
        return {f"usual.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def _unpack_usual(self, tensors: Mapping[str, Tensor]) -> None:
        if "usual.distance" not in tensors:
            self._usual = None
            return
        count, rows = len(self.view_names_), len(tensors["usual.distance"])
        shapes = {"distance": (rows, count + 1), "disagreement": (rows, 2 * count)}
        self._usual = Usual(*(array_of(tensors, f"usual.{name}", shape) for name, shape in shapes.items()))
