"""Who belongs nowhere, for clusterers that keep the neighbour graphs of their training samples."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from acova.clustering.graphs import ViewGraph
from acova.clustering.outliers import Oddness, OddnessReference
from acova.engine.parallel import single_threaded
from acova.estimators._base import canonical_order
from acova.training.extremes import scaled

_LEVEL = 0.05


class OddnessMixin:
    """For `AgreementGraph`: p-values of belonging nowhere, of training samples and of new ones."""

    n_clusters_: int
    index_: pd.Index
    view_names_: list[str]
    _graphs: list[ViewGraph]
    _observed: NDArray[np.bool_]
    _clusters: NDArray[np.int64]
    _usual: OddnessReference | None = None

    @property
    def outlier_scores_(self) -> NDArray[np.float64]:
        """How odd each training sample is, (n_samples,): 1 minus its p-value, see `outliers`."""
        return np.asarray(1 - self._oddness(None, None)[0].p_values)

    def score_samples(self, X: Any, *, observed: Any = None) -> NDArray[np.float64]:
        """Return how usual each sample is, (n_samples,): the logarithm of its p-value, see `outliers`.

        0 is usual and low values are odd, as for scikit-learn's detectors of outliers.
        """
        return np.asarray(np.log(self._oddness(X, observed)[0].p_values))

    def outliers(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return how odd each sample is, and why; without `X` of the training samples, each compared with the others.

        A sample is odd if it is further from its nearest neighbours than these are from theirs, or if its neighbours
        lie in other clusters in one view than in the others. Both are compared with the training samples, view by view
        and then for all views that a sample has, with training samples that have as many.

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
        found, index = self._oddness(X, observed)
        by_view = np.fmin(found.far_by_view, found.contradiction_by_view)
        views = [self._striking(*row) for row in zip(found.p_values, by_view, strict=True)]
        columns = {"p_value": found.p_values, "far": found.far, "contradiction": found.contradiction}
        return pd.DataFrame({**columns, "odd_views": views}, index=index)

    def _striking(self, p_value: float, by_view: NDArray[np.float64]) -> str:
        """Return the names of the views that stand out in an odd sample."""
        if p_value > _LEVEL:
            return ""
        order = np.argsort(np.where(np.isnan(by_view), np.inf, by_view), kind="stable")
        return ", ".join(self.view_names_[v] for v in order if by_view[v] <= _LEVEL)

    def _oddness(self, X: Any, observed: Any) -> tuple[Oddness, pd.Index]:
        check_is_fitted(self, "labels_")
        with single_threaded():
            if self._usual is None:
                self._usual = OddnessReference.of(self._graphs, self._observed, self._clusters, self.n_clusters_)
            if X is None:
                back = np.argsort(canonical_order(self.index_))
                found = self._usual.training()
                return Oddness(*(getattr(found, name)[back] for name in Oddness.__dataclass_fields__)), self.index_
            views = self._views_to_predict(X, observed)  # type: ignore[attr-defined]
            return self._usual.samples(scaled(views, self._scaling), views.observed), views.index  # type: ignore[attr-defined]
