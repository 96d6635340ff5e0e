"""Imputation as users call it: posterior, draws, filled views, error bars and how they were checked."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import DataError, OptionError, Streams
from acova.base.errors import check_number
from acova.base.seeds import draw_seed
from acova.data import StoredViews, Views
from acova.data.categories import category_column
from acova.data.filling import Form, frame_of
from acova.engine.runtime import computation
from acova.estimators._base import canonical_order
from acova.training.experts import DECODED, EXPERTS, can_decode, decode_latent, noisy
from acova.training.holdout import Holdout
from acova.training.imputation import LEVELS
from acova.training.imputer import CheckedImputer, Imputer, Reference, check_entries
from acova.training.inference import batch_of, device_of

_PREFIX = "imputation."
_SEEDS = 2**31


class ImputationMixin:
    """For clusterers whose network decodes the fused posterior of a sample; others refuse, and say why."""

    view_names_: list[str]
    view_sizes_: tuple[int, ...]
    categories_: dict[str, Any]
    seed_: int
    _columns: Any
    _scaling: Any
    _likelihoods: tuple[str, ...]
    _views_to_predict: Callable[..., Views | StoredViews]
    _reference: Reference | None = None

    @computation()
    def posterior(self, X: Any, *, observed: Any = None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return mean and standard deviation of each sample's latent vector, given the views it has.

        Of a consensus it is the posterior of the reference run, the space that `transform` shows.

        Returns
        -------
        mean, std : arrays of shape (n_samples, latent_dim)
        """
        views = self._views_to_impute(X, observed, "posterior")
        batch = batch_of(views, self._scaling, device_of(self._networks.network))
        with torch.no_grad():
            found = self._networks.network.posterior(batch.views, batch.observed)
        return found.mean.cpu().numpy(), found.variance.sqrt().cpu().numpy()

    @computation()
    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Draw whole samples from the model: a cluster, a latent vector of it, and every view of that.

        The views' features vary around what is decoded by the errors that `calibrate_imputation` measured, or else as
        the likelihoods say: Gaussian features with variance 1/2 after scaling, Laplace features with scale 1, Bernoulli
        features as zeros and ones.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState, Generator or None

        Returns
        -------
        X : dict of view → array (n_samples, n_features), or DataFrame where the model was fitted on DataFrames
            In the units of the data.
        y : array of shape (n_samples,)
            Cluster of each sample.
        """
        who = f"{type(self).__name__}.sample"
        self._check_units("sample")
        check_number(who, "n_samples", n_samples, minimum=1, integer=True)
        numbers = Streams(draw_seed(random_state, who)).numpy("sample")
        network = self._networks.network
        log_weights, means, variances = (part.cpu().double().numpy() for part in network.prior())
        labels = numbers.choice(len(means), size=n_samples, p=np.exp(log_weights) / np.exp(log_weights).sum())
        latent = means[labels] + np.sqrt(variances[labels]) * numbers.standard_normal((n_samples, means.shape[1]))
        with torch.no_grad():
            place = torch.from_numpy(latent.astype(np.float32)).to(device_of(network))
            decoded = [part.cpu().double().numpy() for part in decode_latent(network, place, self._likelihoods)]
        imputer, index, views = self._imputer(), pd.RangeIndex(n_samples), {}
        for v, (name, columns) in enumerate(zip(self.view_names_, self._columns, strict=True)):
            residual = None if self._reference is None else self._reference.errors[v].residual
            drawn = imputer.in_units(v, noisy(decoded[v], self._likelihoods[v], residual, numbers))
            views[name] = drawn if columns is None else frame_of(drawn, index, columns, self._categories_of(name))
        return views, labels.astype(np.int64)

    @computation()
    def calibrate_imputation(self, X: Any, *, observed: Any = None, n_folds: int = 5) -> Self:
        """Learn to impute better than the decoders alone, and how far off imputed values are.

        The views of all samples that have several are dealt to folds. For every fold a model with the same settings
        (one run) is trained without its entries and predicts them, from as few views as samples have that really lack
        the view. These entries decide, view by view, how much the decoders count, the residuals of the nearest samples
        in the latent space, and ridge regressions on the other views; and they give the errors' quantiles (split
        conformal, across folds; per feature from 200 entries on, else per view). So the error bars are checked on
        entries that no training saw. They hold for views that are missing as views were missing in X.

        It costs `n_folds` fits of one run, and keeps the scaled samples (of more than 3,000, evenly spread ones) in the
        model, also when it is saved. The result of `fit` does not change.

        Parameters
        ----------
        X : anything that `fit` takes
            The training data, or others of their kind, in memory.
        observed : array of bool, shape (n_samples, V), optional
            As in `fit`.
        n_folds : int
            At least 3.

        Returns
        -------
        self
        """
        who = f"{type(self).__name__}.calibrate_imputation"
        check_number(who, "n_folds", n_folds, minimum=3, integer=True)
        views = self._views_to_impute(X, observed, "calibrate_imputation")
        views = views.take(canonical_order(views.index))
        streams = Streams(self.seed_).child("imputation")
        holdout = Holdout.draw(views.observed, n_folds, streams.numpy("folds"))
        check_entries(who, views, holdout)
        whole, folds = self._imputer(), []
        for fold in range(n_folds):
            model = self._refitted(views.hide(holdout.kept(fold)), streams.integer("fit", fold) % _SEEDS)
            folds.append(model._imputer().held_out(holdout, fold, views, whole))
        self._take_reference(whole.learn(views, folds))
        return self

    @computation()
    def impute(
        self, X: Any, *, observed: Any = None, return_std: bool = False, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Return the views with missing ones filled, in the units and the form of the data.

        Lists, dicts, tables and frames are given back as such, frames with the same columns and all samples in the
        index, a MuData or AnnData as a dict of frames. Cells that are there keep their bits. A column of categories
        gets the most probable one.

        After `calibrate_imputation`, what is imputed is the weighed sum that did best on held-out entries; before, it
        is the mean of what is decoded, over draws from each sample's posterior and the runs of a consensus. Variance
        between draws and runs counts as uncertainty.

        Parameters
        ----------
        X : anything that `predict` takes, in memory
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, whatever its cells hold; it is filled as well.
        return_std : bool
            Return standard deviations, too; 0 for cells that are there. Needs `calibrate_imputation`.
        quantiles : sequence of float between 0.005 and 0.995, optional
            Return these quantiles, too, such as ``[0.05, 0.95]`` for intervals that hold 90 % of the values. Needs
            `calibrate_imputation`. Between two multiples of 0.005 the outer one is taken.

        Returns
        -------
        filled : as X
        std : as X, if `return_std`; columns of categories are empty
        quantiles : list as long as `quantiles`, each as X, if given

        Examples
        --------
        >>> from acova import ACOVA
        >>> from acova.data import load_dataset, make_observed
        >>> views = load_dataset("digits").views
        >>> views = views.hide(make_observed(1797, 4, 0.5, random_state=0))
        >>> model = ACOVA(10, hidden=(64,), epochs=2, n_init=1, random_state=0).fit(views)
        >>> model.impute(views).complete.all()
        np.True_
        """
        views = self._views_to_impute(X, observed, "impute")
        levels = [] if quantiles is None else self._checked_levels(quantiles)
        form, imputer = Form(X, views, self.categories_), self._imputer()
        if self._reference is None:
            if return_std or levels:
                msg = (
                    f"{type(self).__name__}.impute: error bars are measured on held-out entries first; call "
                    "calibrate_imputation(X) with the training data, or leave out return_std and quantiles."
                )
                raise OptionError(msg)
            return form.fill(_joined(imputer.decoded(views)))
        checked = self._checked_imputer()
        pairs = [
            [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
            for pieces in zip(*checked.predicted(views), strict=True)
        ]
        results = [form.fill([mean for mean, _ in pairs])]
        if return_std:
            spreads = [
                scale * errors.spread for (_, scale), errors in zip(pairs, checked.reference.errors, strict=True)
            ]
            results.append(form.express(self._where_missing(views, spreads, [np.zeros(1)] * len(spreads))))
        if quantiles is not None:
            of_levels = [[checked.quantile(v, level, *pair) for v, pair in enumerate(pairs)] for level in levels]
            results.append([form.express(self._where_missing(views, one, views.arrays)) for one in of_levels])
        return results[0] if len(results) == 1 else tuple(results)

    def imputation_report(self, by: str = "view") -> pd.DataFrame:
        """Return how well held-out entries were imputed, and how many fell into the intervals.

        `calibrate_imputation` measures it. Entries of a fold are predicted by weights, and covered by intervals, that
        were learned from the other folds.

        Parameters
        ----------
        by : {"view", "feature"}

        Returns
        -------
        DataFrame
            ``entries``; ``rmse``, for features in the units of the data, for views after scaling; ``explained``, the
            share of the squared error of the mean that is gone; and ``coverage_50``, ``_80``, ``_90``, ``_95``. For
            views also how much every expert counts.
        """
        if by not in ("view", "feature"):
            msg = f"{type(self).__name__}.imputation_report: by must be 'view' or 'feature'; got {by!r}."
            raise OptionError(msg)
        self._check_units("imputation_report")
        if self._reference is None:
            msg = (
                f"{type(self).__name__}.imputation_report: nothing is measured yet; call calibrate_imputation(X) first."
            )
            raise OptionError(msg)
        checks = self._reference.checks
        if by == "view":
            weights = [dict(zip(EXPERTS, errors.weights, strict=True)) for errors in self._reference.errors]
            rows = [{**check.of_view(), **one} for check, one in zip(checks, weights, strict=True)]
            return pd.DataFrame(rows, index=pd.Index(self.view_names_, name="view"))
        tables = {
            name: checks[v].of_features(np.abs(self._scaling.affine(v)[1]), self._columns[v])
            for v, name in enumerate(self.view_names_)
        }
        return pd.concat(tables, names=["view", "feature"])

    # --- what the methods above share -----------------------------------------------------------

    @property
    def _networks(self) -> Any:
        return getattr(self, "_ensemble", None)

    def _categories_of(self, name: str) -> Mapping[str, Sequence[str]]:
        found: Mapping[str, Sequence[str]] = self.categories_.get(name, {})
        return found

    def _check_decodes(self, what: str) -> None:
        check_is_fitted(self, "labels_")
        if self._networks is None or not can_decode(self._networks):
            msg = (
                f"{type(self).__name__}.{what}: this needs a network that fuses and decodes the views, and the method "
                "trains none; use ACOVA, or one of its variants."
            )
            raise OptionError(msg)

    def _check_units(self, what: str) -> None:
        """Refuse views whose decoded values cannot be given in the units of the data."""
        self._check_decodes(what)
        for v, (name, kind) in enumerate(zip(self.view_names_, self._likelihoods, strict=True)):
            if kind in DECODED:
                self._scaling.affine(v)  # or raises
            else:
                msg = (
                    f"{type(self).__name__}.{what}: view {name!r} has the likelihood {kind!r}, and values are given "
                    f"for {', '.join(DECODED)} views only; fit with likelihood='gaussian' for it."
                )
                raise OptionError(msg)

    def _views_to_impute(self, X: Any, observed: Any, what: str) -> Views:
        check = self._check_units if what in ("impute", "calibrate_imputation") else self._check_decodes
        check(what)
        views = self._views_to_predict(X, observed)
        if isinstance(views, StoredViews):
            msg = (
                f"{type(self).__name__}.{what}: this is computed in memory, but these views stay on disk "
                f"({views.nbytes / 2**30:.1f} GiB); give a piece at a time, such as views.read(0, 1000)."
            )
            raise DataError(msg)
        return views

    def _imputer(self) -> Imputer:
        streams = Streams(self.seed_).child("imputation")
        return Imputer(self._networks, self._scaling, self._likelihoods, streams)

    def _checked_imputer(self) -> CheckedImputer:
        if self._reference is None:
            msg = "nothing is learned of the errors"
            raise ValueError(msg)
        known: CheckedImputer | None = vars(self).get("_imputes")
        if known is None or known.reference is not self._reference:
            known = self._imputes = CheckedImputer(self._imputer(), self._reference)
        return known

    def _take_reference(self, found: CheckedImputer) -> None:
        self._reference, self._imputes = found.reference, found

    def _refitted(self, views: Views, seed: int) -> Any:
        """Return a model with the same settings, trained once, on other data."""
        changes: dict[str, Any] = {"checkpoint": None, "verbose": False, "view_sizes": None, "n_init": 1}
        model: Any = self
        changes["n_clusters"] = model.n_clusters_
        settings = model.get_settings()
        settings |= {name: value for name, value in changes.items() if name in settings} | {"random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return type(model).from_settings(**settings).fit(views)

    def _checked_levels(self, quantiles: Sequence[float]) -> list[float]:
        levels = [float(level) for level in np.atleast_1d(np.asarray(quantiles, dtype=float))]
        if not all(LEVELS[0] <= level <= LEVELS[-1] for level in levels):
            msg = (
                f"{type(self).__name__}.impute: quantiles must lie between {LEVELS[0]:g} and {LEVELS[-1]:g}; got "
                f"{quantiles!r}."
            )
            raise OptionError(msg)
        return levels

    def _where_missing(
        self, views: Views, values: Sequence[Any], otherwise: Sequence[Any]
    ) -> list[NDArray[np.float64]]:
        """Return values for missing cells and others for those that are there; NaN for categories."""
        found = []
        for v, (name, columns) in enumerate(zip(views.names, views.columns, strict=True)):
            array = np.where(np.isnan(views.arrays[v]), values[v], otherwise[v]).astype(np.float64)
            for column, labels in self._categories_of(name).items():
                for label in labels:
                    array[:, (columns or ()).index(category_column(column, label))] = np.nan
            found.append(array)
        return found

    # --- saving ---------------------------------------------------------------------------------

    def _packed_reference(self) -> dict[str, Tensor]:
        arrays = {} if self._reference is None else self._reference.packed()
        return {f"{_PREFIX}{name}": torch.from_numpy(np.array(array, order="C")) for name, array in arrays.items()}

    def _unpack_reference(self, tensors: Mapping[str, Tensor]) -> None:
        found = {name.removeprefix(_PREFIX): part for name, part in tensors.items() if name.startswith(_PREFIX)}
        self._reference = Reference.unpacked(found, self.view_sizes_) if found else None


def _joined(chunks: Any) -> list[NDArray[np.float64]]:
    return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
