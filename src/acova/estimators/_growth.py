"""A fitted model that goes on: views that come later, views that go, more samples."""

from typing import TYPE_CHECKING, Any, Self, cast

from sklearn.utils.validation import check_is_fitted

from acova.base import DataError, OptionError
from acova.base.errors import check_number
from acova.data import StoredViews, Views
from acova.data.growth import place_of, split_announced, with_view, with_view_of
from acova.data.views import Announced
from acova.engine.runtime import computation
from acova.estimators._continuation import grow, reduce, usual_epochs
from acova.estimators._continuation import update as go_on
from acova.networks import MultiViewVAE

if TYPE_CHECKING:
    from acova.estimators._deep import DeepClusterer


class GrowthMixin:
    """For methods whose networks encode and decode every view, and fuse them; others refuse, and say why."""

    announced_: dict[str, Announced]
    view_names_: list[str]

    @computation()
    def add_view(
        self,
        X_new: Any,
        views: Any,
        *,
        name: str,
        observed: Any = None,
        likelihood: str = "auto",
        standardize: str | bool = "auto",
        freeze: bool = True,
        epochs: int | None = None,
    ) -> Self:
        """Learn a view that the model was not fitted with.

        The networks get an encoder and a decoder for it, which are trained while every other part keeps its numbers; so
        samples without the view keep their clusters. The correlation of the views' errors gets a row and a column of
        zeros, which leaves it positive definite and its other entries as they are. With ``missing="marginal"`` that row
        is trained with the view. With ``missing="precision"`` it would change the posterior of samples that lack the
        view, so it stays 0 until all parts are trained (``freeze=False``, or `update`).

        Fitted attributes of samples then tell of the samples given here: those without the view have the clusters that
        they had, the others new ones. Error bars of imputation have to be calibrated again.

        Parameters
        ----------
        X_new : DataFrame, or array of shape (n_samples, n_features)
            The view. A frame is joined on the index; an array has a row for each sample of `views`, NaN where a sample
            lacks the view.
        views : anything that `predict` takes, in memory
            The other views of these samples, best of all those that the model was fitted on: it does not keep its data.
        name : str
            Of the view.
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of `views`, as in `fit`.
        likelihood, standardize : str
            Of the new view, as in `fit`.
        freeze : bool
            False trains all parts together afterwards, and places the clusters anew where a fit would do so. Any sample
            may then change its cluster, but clusters keep their numbers.
        epochs : int, optional
            Of the view's own training, and of that of all parts; by default half of the epochs of the fit, and a
            quarter.

        Returns
        -------
        self

        Examples
        --------
        >>> from acova import ACOVA
        >>> from acova.data import load_dataset
        >>> views = load_dataset("digits").views
        >>> model = ACOVA(10, hidden=(64,), epochs=2, n_init=1, random_state=0).fit(views.without(["zernike"]))
        >>> model.add_view(views.arrays[3], views.without(["zernike"]), name="zernike").view_names_[-1]
        'zernike'
        """
        model, who = self._growing("add_view"), f"{type(self).__name__}.add_view"
        old = self._views_to_grow(views, observed, "add_view")
        alone, together = (_checked_epochs(who, epochs, usual, least=1) for usual in usual_epochs(model))
        joined = with_view(old, str(name), X_new)
        grow(model, joined, likelihood, standardize, alone=alone, together=0 if freeze else together)
        return self

    @computation()
    def update(self, X: Any, *, observed: Any = None, epochs: int | None = None) -> Self:
        """Train all parts of the model on with these samples, from where they are.

        Scaling, likelihoods, the trust in views and the numbers of the clusters stay. Fitted attributes of samples then
        tell of these samples. Give old and new samples together where you can: of what it no longer sees, a network
        forgets some. Error bars of imputation and outliers have to be calibrated again.

        Views that were announced (`Views.announce`) and that some sample has now are learned first, as by `add_view`.

        Parameters
        ----------
        X : anything that `predict` takes, in memory
        observed : array of bool, shape (n_samples, V), optional
            As in `fit`.
        epochs : int, optional
            By default a quarter of the epochs of the fit; 0 only says anew in which cluster each sample is.

        Returns
        -------
        self
        """
        model, who = self._growing("update"), f"{type(self).__name__}.update"
        epochs = _checked_epochs(who, epochs, usual_epochs(model)[1], least=0)
        given = model._views_of(X, observed, reset=False)
        if isinstance(given, Views):
            rest, arrived = split_announced(given, self.announced_)
            for name in arrived:  # whose own training the number of epochs says nothing of
                joined = with_view_of(self._views_to_grow(rest, None, "update"), given, name)
                grow(model, joined, "auto", "auto", alone=usual_epochs(model)[0], together=0)
                rest = with_view_of(rest, given, name)
            given = rest
        go_on(model, self._views_to_grow(given, None, "update"), epochs)
        return self

    def remove_view(self, name: str) -> Self:
        """Forget a view: its encoder and decoder, and its row of the correlation.

        Samples that lack the view are placed as before. With ``missing="marginal"`` the matrix of the others is a block
        of R. With ``missing="precision"`` it is the inverse of a block of R⁻¹, the covariance of the errors *given*
        that of the view: `correlation_` is then a partial correlation, and the encoders' standard deviations shrink by
        what knowing that error would explain.

        Fitted attributes of samples stay; `update` says anew in which cluster each sample is. Error bars of imputation
        have to be calibrated again.

        Parameters
        ----------
        name : str

        Returns
        -------
        self
        """
        model, who = self._growing("remove_view"), f"{type(self).__name__}.remove_view"
        if name in self.announced_:
            del self.announced_[name]
            return self
        v = place_of(name, self.view_names_, who)
        if len(self.view_names_) == 1:
            msg = f"{who}: {name!r} is the only view that the model knows, and without it there is none."
            raise DataError(msg)
        reduce(model, v)
        return self

    def _growing(self, what: str) -> "DeepClusterer":
        """Return the model, or say why its views cannot change."""
        check_is_fitted(self, "labels_")
        network = getattr(getattr(self, "_ensemble", None), "network", None)
        if not isinstance(network, MultiViewVAE):
            msg = (
                f"{type(self).__name__}.{what}: this needs a network that encodes, fuses and decodes the views, and "
                "the method trains none; use ACOVA or one of its variants, or fit again."
            )
            raise OptionError(msg)
        return cast("DeepClusterer", self)

    def _views_to_grow(self, X: Any, observed: Any, what: str) -> Views:
        model = cast("DeepClusterer", self)
        if model._scaling.covariates is not None:
            msg = (
                f"{type(self).__name__}.{what}: the model was fitted with covariates, and what they explain is only "
                "learned by a fit; fit again."
            )
            raise OptionError(msg)
        views = model._views_to_predict(X, observed)
        if isinstance(views, StoredViews):
            msg = (
                f"{type(self).__name__}.{what}: this is computed in memory, but these views stay on disk "
                f"({views.nbytes / 2**30:.1f} GiB); give a part of the samples, such as views.read(0, 10_000)."
            )
            raise DataError(msg)
        return views


def _checked_epochs(who: str, epochs: int | None, otherwise: int, *, least: int) -> int:
    if epochs is None:
        return otherwise
    check_number(who, "epochs", epochs, minimum=least, integer=True)
    return epochs
