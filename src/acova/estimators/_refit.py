"""A fit in which clusters cannot follow who lacks which view."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError
from acova.base.errors import check_choice
from acova.data import StoredViews, Summary, Views
from acova.estimators._checks import mirrored_views

WAYS = ("samples", "covariates")


class RefitMixin:
    """For clusterers: another fit against an association with missing views."""

    view_names_: list[str]
    seed_: int
    summary_: Summary
    view_shift_: NDArray[np.float64] | None
    _views_to_predict: Callable[..., Views | StoredViews]

    def refit_without_missingness(self, X: Any, *, observed: Any = None, how: str = "samples") -> Self:
        """Return a new model with the same settings that is kept from following who lacks which view.

        Look at `missingness_check` first: where the groups decide who lacks what, the association is right, and
        ``how="covariates"`` can take a part of the groups away.

        Parameters
        ----------
        X : anything that `fit` takes
            The training samples, in memory.
        observed : array of bool, shape (n_samples, V), optional
            As in `fit`.
        how : {"samples", "covariates"}
            What is done about views whose lack the clusters mirror. ``"samples"`` leaves out the samples that lack one
            of the views that the fit warned of; these samples have no label in the new model. ``"covariates"``, for
            methods that take covariates, keeps all samples and takes off what the lack of each view explains of the
            other views' features: it helps where a site that lacks a view measures the others differently.

        Returns
        -------
        A fitted estimator of the same class. Its own `missingness_check` says what is left.
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.refit_without_missingness"
        check_choice(who, "how", how, WAYS)
        views = self._views_to_predict(X, observed)
        if isinstance(views, StoredViews):
            msg = f"{who}: this is computed in memory, but these views stay on disk; take a part of the samples."
            raise DataError(msg)
        changed = self._without_lacking(who, views) if how == "samples" else _with_lack_as_covariates(who, views)
        model: Any = self
        settings = {**model.get_settings(), "n_clusters": model.n_clusters_, "view_sizes": None}
        if "checkpoint" in settings:
            settings["checkpoint"] = None
        again: Self = type(model).from_settings(**settings).fit(changed)
        return again

    def _without_lacking(self, who: str, views: Views) -> Views:
        """Return the samples that have every view whose lack the clusters mirror."""
        mirrored = mirrored_views(self.summary_, self.view_names_, self.view_shift_, self.seed_)
        if not mirrored:
            msg = (
                f"{who}: the clusters mirror the lack of no view, so there are no samples to leave out; see "
                "missingness_check(), and how='covariates' for sites that measure differently."
            )
            raise DataError(msg)
        keep = views.observed[:, [self.view_names_.index(name) for name in mirrored]].all(axis=1)
        model: Any = self
        if keep.sum() < model.n_clusters_:
            msg = f"{who}: only {int(keep.sum())} samples have {', '.join(mirrored)}; too few to find clusters in."
            raise DataError(msg)
        return views.take(np.flatnonzero(keep))


def _with_lack_as_covariates(who: str, views: Views) -> Views:
    """Return views that have the lack of each view, where some samples lack it, as covariates besides those they have.

    Views that the same samples lack are one covariate.
    """
    lacking = ~views.observed
    varying = [v for v in range(views.n_views) if lacking[:, v].any()]
    if not varying:
        msg = f"{who}: no sample lacks a view, so nothing can follow it."
        raise DataError(msg)
    columns: dict[str, Any] = {}
    for v in varying:
        if not any(np.array_equal(lacking[:, v], known) for known in columns.values()):
            columns[f"lacks {views.names[v]}"] = lacking[:, v]
    frame = pd.DataFrame(columns, index=views.index).astype(np.float64)
    return views.with_covariates(frame if views.covariates is None else views.covariates.join(frame))
