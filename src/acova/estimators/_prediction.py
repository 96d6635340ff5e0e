"""What trained networks say of samples: clusters, probabilities, places in the latent space, and tables of them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from acova.base import OptionError, Streams
from acova.data import Scaling, StoredViews, Views
from acova.estimators._latent import pieces_of, tables_of_assignments
from acova.functional import Batch
from acova.training.consensus import Ensemble
from acova.training.inference import Inferred, batch_between, device_of, infer, infer_chunks, mean_objective


class PredictionMixin:
    """For clusterers that train networks: what the networks say of samples, old and new."""

    index_: pd.Index
    view_names_: list[str]
    probabilities_: NDArray[np.float32]
    view_weights_: NDArray[np.float32]
    network_: Any
    seed_: int
    posterior: Callable[..., Any]
    _agreement: NDArray[np.float32]
    _ensemble: Ensemble
    _likelihoods: tuple[str, ...]
    _scaling: Scaling
    _in_container: Callable[..., Any]
    _named: Callable[[pd.DataFrame], pd.DataFrame]
    _views_of: Callable[..., Any]
    _views_to_predict: Callable[..., Views | StoredViews]

    @property
    def n_voters_(self) -> int:
        """Number of runs whose assignments are averaged: all of a consensus, else one."""
        return len(self._ensemble.networks)

    @property
    def agreement_(self) -> NDArray[np.float32]:
        """Share of the runs that give each sample its label, (n_samples,); only where several runs vote."""
        if self.n_voters_ < 2:
            msg = f"{type(self).__name__} has no agreement_: one run decides. Fit with n_init=10, consensus=True."
            raise AttributeError(msg)
        return self._agreement

    @agreement_.setter
    def agreement_(self, shares: NDArray[np.float32]) -> None:
        self._agreement = shares

    @property
    def likelihoods_(self) -> dict[str, str]:
        """The likelihood of each view, by its name."""
        check_is_fitted(self, "labels_")
        return dict(zip(self.view_names_, self._likelihoods, strict=True))

    @property
    def covariates_(self) -> dict[str, tuple[str, ...]]:
        """The covariates of the fit by name: the levels of words, nothing for numbers."""
        check_is_fitted(self, "labels_")
        known = self._scaling.covariates
        return {} if known is None else {**known.levels, **dict.fromkeys(known.moments, ())}

    def _with_covariates(self, X: Any, observed: Any, covariates: Any, *, reset: bool = False) -> tuple[Any, Any]:
        """Return the data with their covariates, and the mask that is left to apply."""
        if covariates is None:
            return X, observed
        views = self._views_of(X, observed, reset=reset)
        if isinstance(views, StoredViews):
            msg = f"{type(self).__name__}: covariates need views in memory, but these views stay on disk."
            raise OptionError(msg)
        return views.with_covariates(covariates), None

    def predict(self, X: Any, *, observed: Any = None, covariates: Any = None) -> NDArray[np.int64]:
        """Return the most probable cluster of each sample, which needs only one of its views.

        Without `covariates`, a model that was fitted with them takes each sample for the mean of its training samples.
        """
        return self._infer(*self._with_covariates(X, observed, covariates)).labels

    def predict_proba(self, X: Any, *, observed: Any = None, covariates: Any = None) -> NDArray[np.float32]:
        """Return the probability of each cluster, (n_samples, n_clusters), at the posterior mean."""
        return self._infer(*self._with_covariates(X, observed, covariates)).probabilities

    def fusion_weights(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return how much each view counted for each sample, (n_samples, V); see `view_weights_`."""
        return self._infer(X, observed).weights

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return the mean evidence lower bound of the samples' observed views, after scaling, in nats per sample.

        The model is the mixture prior and the decoders with the likelihood of each view (`likelihoods_`), each with its
        constant: Gaussian features have variance 1/2 and Laplace features scale 1 where no spread is learned. Every
        feature counts once, whatever weight the recipe gave it in training, and the alignment does not count. The
        posterior is the fused one. Cross-entropies of values between 0 and 1 have no constant, and with them the score
        is a bound of no density.

        Compare scores on the same samples with the same scaling alone: a sample with more views has a lower one. The
        expectation over the latent vector is an average over draws (4 for small data) from a stream of the model's own
        seed, so the value repeats exactly. Of a consensus it is that of the reference run.
        """
        views, network = self._views_to_predict(X, observed), self.network_

        def samples(start: int, stop: int) -> Batch:
            return batch_between(views, self._scaling, start, stop, device_of(network), self._likelihoods)

        streams = Streams(self.seed_).child("score")
        return mean_objective(network, network.score, samples, views.n_samples, streams)["score"]

    def assignments(self, X: Any = None, *, observed: Any = None, spread: bool = False) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label.

        Columns: ``label``, ``confidence`` (the label's probability), ``agreement`` (of a consensus: the share
        of runs that give this label), ``p_0`` … ``p_{K-1}``, and ``weight_<view>``. Without `X` it lists
        the training samples. With `spread`, which needs `X`, the last column ``spread`` says how unsure a sample's
        latent vector is: the root mean square of the standard deviations that `posterior` gives.
        """
        if spread and X is None:
            msg = (
                f"{type(self).__name__}.assignments: spread=True needs the samples as X, because a model does not keep "
                "the data that it was fitted on."
            )
            raise OptionError(msg)
        table = pd.concat(list(self.iter_assignments(X, observed=observed)))
        if not spread:
            return table
        return table.assign(spread=np.sqrt(np.square(self.posterior(X, observed=observed)[1]).mean(axis=1)))

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments` piece by piece, in the memory of a piece: for views on disk."""
        check_is_fitted(self, "labels_")
        if X is None:
            index, per_sample = self.index_, (self.probabilities_, self.view_weights_, self._agreement)
            parts = pieces_of(*per_sample)
        else:
            views = self._views_to_predict(X, observed)
            inferred = infer_chunks(self._ensemble, self._scaling, views)
            index, parts = views.index, ((part.probabilities, part.weights, part.agreement) for part in inferred)
        tables = tables_of_assignments(index, parts, self.view_names_, consensus=self.n_voters_ > 1)
        yield from map(self._named, tables)

    def _infer(self, X: Any, observed: Any) -> Inferred:
        views = self._views_to_predict(X, observed)  # which first checks that there is a fit
        return infer(self._ensemble, self._scaling, views)
