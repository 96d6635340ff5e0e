"""The estimator of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import Streams, check_choice
from acova.data import Scaling, Views
from acova.engine import draw_noise, resolve_device
from acova.estimators.base import MultiViewClusterer, canonical_order
from acova.estimators.checks import check_likelihoods, check_options, scaling_kinds
from acova.estimators.presets import PRESETS
from acova.estimators.progress import progress_bar
from acova.estimators.recipe import CHUNK, Job, TrainedRun, in_chunks, train_runs
from acova.estimators.saving import load_model, save_model
from acova.functional import ObjectiveParts
from acova.networks import MultiViewVAE

_SCORE_DRAWS = 16


class ACOVA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiViewClusterer):
    """Incomplete multi-view clustering with learned correlations between views (Xu et al., ICML 2026).

    Each view's encoder gives a Gaussian estimate of one latent vector. The errors of these estimates are
    correlated; a learned matrix says how much, and fuses the views a sample has into one posterior. A
    Gaussian-mixture prior on the latent vector gives the clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of the latent vector.
    alpha : float
        Weight of the alignment between the fused posterior and each view's own.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihood : {"gaussian", "bernoulli"}, or one per view (sequence, or dict by view name)
        ``"bernoulli"`` is for values in [0, 1], which are then not standardised.
    correlation : "learned", "identity", float or array of shape (V, V)
        The correlation of the views' errors: learned with everything else, none (the product of
        experts), one constant for all pairs, or a matrix.
    missing : {"precision", "marginal"}
        How an absent view leaves the fusion: the paper's masked precision, or the exact marginal.
    correlation_start : {"random", "identity", "similarity"}, float or array of shape (V, V)
        Where a learned correlation starts: a random positive one (as published), none, the cosine
        similarity of the pretrained codes, a constant or a matrix.
    n_init : int
        Number of independent runs; the one with the lowest objective is kept.
    pretrain_epochs : int
        Epochs of the separate auto-encoders.
    warmup_epochs : int
        Epochs of all views together under a standard normal prior, before the clusters are placed by
        k-means on the fused latent means of all samples. With 0, as published, they are placed by
        k-means on the averaged codes of complete samples.
    epochs : int
        Epochs of the whole model.
    batch_size : int
        Samples per step of the optimiser.
    learning_rate : float
        Adam's learning rate for the encoders and decoders.
    prior_learning_rate : float
        Learning rate of the mixture's means and scales.
    weight_learning_rate : float
        Learning rate of the mixture weights' logits; 0 keeps the weights. It is slow because fast weights
        empty clusters before the views agree, and because the published program renormalises its
        weights in a way that holds them near 1/K.
    correlation_learning_rate : float
        Learning rate of the correlation's parameter.
    pretrain_learning_rate : float
        Learning rate of the separate auto-encoders.
    learning_rate_decay : float
        Factor on the learning rates (but pretraining's) after each epoch of the whole model.
    warmup_kl : float
        Weight of the divergence from the standard normal during the warm-up.
    clip_norm : float or None
        Longest gradient; longer ones are shortened to it.
    min_std : float
        Floor of the encoders' standard deviations.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool or {"zscore", "range"}
        Scale features by statistics of observed rows: True or ``"zscore"`` feature by feature,
        ``"range"`` by one mean and range per view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "float32", "tf32"}
        Products of the networks on a GPU: TF32 unless ``"float32"``. The fusion is always exact.
    random_state : int, RandomState or None
        The same integer gives the same result on the same machine.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        Cluster of each training sample.
    probabilities_ : array of shape (n_samples, n_clusters)
        Probability of each cluster.
    view_weights_ : array of shape (n_samples, V)
        How much each view counted in a sample's latent mean, averaged over the latent dimensions; rows
        sum to 1, a missing view has 0, and correlated views can get negative weights.
    correlation_ : array of shape (V, V)
        Correlation of the views' errors.
    weights_, means_, variances_ : arrays of shape (K,), (K, D), (K, D)
        The mixture prior.
    history_ : DataFrame
        One row per epoch: ``phase``, ``epoch``, ``total``, ``reconstruction``, ``kl_z``, ``kl_c``,
        ``alignment`` and ``correlation_distance`` (Frobenius distance of R to the identity).
    objective_ : float
        Final objective on the training data, by which `n_init` chooses.
    objectives_ : array of shape (n_init,)
        Final objectives of all runs.
    n_iter_ : int
        Epochs trained after pretraining.
    view_names_, view_sizes_, n_features_in_, index_
        See the input: names and widths of the views, their sum, names of the samples.
    network_ : torch.nn.Module
        The trained network.

    Examples
    --------
    >>> from acova import ACOVA
    >>> from acova.data import load_dataset, make_observed
    >>> digits = load_dataset("digits")
    >>> views = digits.views.hide(make_observed(1797, 4, 0.5, random_state=0))
    >>> model = ACOVA(n_clusters=10, hidden=(64,), pretrain_epochs=2, epochs=2, random_state=0)
    >>> model.fit_predict(views).shape
    (1797,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 10,
        alpha: float = 10.0,
        hidden: Sequence[int] = (500, 500, 2000),
        likelihood: str | Sequence[str] | Mapping[str, str] = "gaussian",
        correlation: Any = "learned",
        missing: str = "precision",
        correlation_start: Any = "random",
        n_init: int = 1,
        pretrain_epochs: int = 200,
        warmup_epochs: int = 100,
        epochs: int = 300,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        prior_learning_rate: float = 5e-2,
        weight_learning_rate: float = 1e-4,
        correlation_learning_rate: float = 1e-2,
        pretrain_learning_rate: float = 1e-3,
        learning_rate_decay: float = 0.995,
        warmup_kl: float = 0.1,
        clip_norm: float | None = 1000.0,
        min_std: float = 1e-4,
        view_sizes: Sequence[int] | None = None,
        standardize: bool | str = True,
        device: str = "auto",
        precision: str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.alpha = alpha
        self.hidden = hidden
        self.likelihood = likelihood
        self.correlation = correlation
        self.missing = missing
        self.correlation_start = correlation_start
        self.n_init = n_init
        self.pretrain_epochs = pretrain_epochs
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.prior_learning_rate = prior_learning_rate
        self.weight_learning_rate = weight_learning_rate
        self.correlation_learning_rate = correlation_learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.warmup_kl = warmup_kl
        self.clip_norm = clip_norm
        self.min_std = min_std
        self.view_sizes = view_sizes
        self.standardize = standardize
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def preset(cls, dataset: str, **settings: Any) -> Self:
        """Return an estimator with the paper's settings for one of its data sets, some replaced."""
        check_choice("ACOVA.preset", "dataset", dataset, PRESETS)
        return cls(**{**PRESETS[dataset], **settings})

    # --- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, observed: Any = None) -> Self:
        """Learn the clusters.

        Parameters
        ----------
        X : list, dict, DataFrames, array or Views
            See `acova.Views.of`. A missing view is a row of NaN, or a sample absent from a DataFrame.
        y : ignored
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, whatever its cells hold.
        """
        prepared = self._prepare(X, observed)
        epochs = self.pretrain_epochs + self.warmup_epochs + self.epochs
        with progress_bar("ACOVA", self.n_init, epochs, shown=self.verbose) as report:
            runs = train_runs(prepared.jobs, report)
        return self._finish(prepared, runs)

    def _prepare(self, X: Any, observed: Any) -> "_Prepared":
        """Check settings and data, learn the scaling, and list the runs to train."""
        check_options(self)
        given = self._views_to_fit(X, observed)
        order = canonical_order(given.index)
        views = given.take(order)
        self._likelihoods = check_likelihoods(self, views)
        self._scaling = Scaling.fit(views, scaling_kinds(self, self._likelihoods))
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        data = self._tensors(views, resolve_device(self.device))
        streams = Streams(self.seed_)
        jobs = [Job(self, self._likelihoods, *data, streams.child("run", run)) for run in range(self.n_init)]
        return _Prepared(views, order, jobs)

    def _finish(self, prepared: "_Prepared", runs: Sequence[TrainedRun]) -> Self:
        """Keep the run with the lowest objective, and tell what it says of the training data."""
        data = prepared.jobs[0].views, prepared.jobs[0].observed
        self.objectives_ = np.array([self._objective(run.network, *data).total(self.alpha) for run in runs])
        best = int(self.objectives_.argmin())
        self.objective_ = float(self.objectives_[best])
        self.history_ = pd.DataFrame(runs[best].records)
        self._adopt(runs[best].network)
        _, probabilities, weights = self._infer(prepared.views)
        back = np.argsort(prepared.order)
        self.probabilities_, self.view_weights_ = probabilities[back], weights[back]
        self.labels_ = self.probabilities_.argmax(axis=1)
        return self

    def _adopt(self, network: MultiViewVAE) -> None:
        """Make a trained network the result."""
        self.network_ = network.requires_grad_(False)
        self.n_iter_ = self.epochs
        log_weights, means, variances = (part.cpu().numpy() for part in network.prior())
        self.weights_, self.means_, self.variances_ = np.exp(log_weights), means, variances
        self.correlation_ = network.correlation().cpu().numpy()
        self._n_features_out = self.latent_dim

    # --- using what was learned -----------------------------------------------------------------

    def fit_predict(self, X: Any, y: Any = None, *, observed: Any = None) -> NDArray[np.int64]:
        """Fit, and return the cluster of each sample."""
        labels: NDArray[np.int64] = self.fit(X, observed=observed).labels_
        return labels

    def predict(self, X: Any, *, observed: Any = None) -> NDArray[np.int64]:
        """Return the most probable cluster of each sample, which needs only one of its views."""
        return np.asarray(self.predict_proba(X, observed=observed).argmax(axis=1))

    def predict_proba(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the probability of each cluster, (n_samples, n_clusters), at the posterior mean."""
        return self._infer(self._views_to_predict(X, observed))[1]

    def transform(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the fused latent mean of each sample, (n_samples, latent_dim)."""
        return self._infer(self._views_to_predict(X, observed))[0]

    def view_weights(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return how much each view counted for each sample, (n_samples, V); see `view_weights_`."""
        return self._infer(self._views_to_predict(X, observed))[2]

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return the mean evidence lower bound per sample, up to the likelihoods' constants.

        The expectation over the latent vector is an average over 16 draws from a stream of the model's
        own seed, so the value repeats exactly.
        """
        views = self._views_to_predict(X, observed)
        parts = self._objective(self.network_, *self._tensors(views, self._device()))
        return -float(parts.negative_elbo())

    def assignments(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label.

        Columns: ``label``, ``confidence`` (the label's probability), ``p_0`` … ``p_{K-1}``, and
        ``weight_<view>``. Without `X` it tells of the training samples.
        """
        if X is None:
            index, probabilities, weights = self.index_, self.probabilities_, self.view_weights_
        else:
            views = self._views_to_predict(X, observed)
            index = views.index
            _, probabilities, weights = self._infer(views)
        table = {"label": probabilities.argmax(axis=1), "confidence": probabilities.max(axis=1)}
        table |= {f"p_{k}": probabilities[:, k] for k in range(self.n_clusters)}
        table |= {f"weight_{name}": weights[:, v] for v, name in enumerate(self.view_names_)}
        return pd.DataFrame(table, index=index)

    @torch.no_grad()
    def _infer(self, views: Views) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Return latent means, cluster probabilities and view weights, a chunk of samples at a time."""
        device = self._device()
        chunks = []
        for start in range(0, views.n_samples, CHUNK):
            part = views.take(np.arange(start, min(start + CHUNK, views.n_samples)))
            fused = self.network_.posterior(*self._tensors(part, device))
            shares = self.network_.prior.log_responsibilities(fused.mean).exp()
            chunks.append((fused.mean, shares, fused.weights.mean(-1)))
        latent, probabilities, weights = (torch.cat(parts).cpu().numpy() for parts in zip(*chunks, strict=True))
        return latent, probabilities, weights

    @torch.no_grad()
    def _objective(self, network: MultiViewVAE, views: list[Tensor], observed: Tensor) -> ObjectiveParts:
        """Return the parts of the objective, averaged over the samples and several draws."""
        streams = Streams(self.seed_).child("score")
        sums = []
        for chunk, batch in enumerate(in_chunks(views, observed)):
            for draw in range(_SCORE_DRAWS):
                shape = (len(batch[1]), 2, self.latent_dim)
                noise = draw_noise(streams.integer(chunk, draw), *shape).to(observed.device)
                sums.append(torch.stack([part.double().sum() for part in network.objective(*batch, noise)]))
        return ObjectiveParts(*(torch.stack(sums).sum(0).cpu() / (len(observed) * _SCORE_DRAWS)))

    def _tensors(self, views: Views, device: torch.device) -> tuple[list[Tensor], Tensor]:
        scaled = [torch.from_numpy(array).to(device) for array in self._scaling.transform(views)]
        return scaled, torch.from_numpy(views.observed).to(device)

    def _device(self) -> torch.device:
        return next(self.network_.parameters()).device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    # --- saving ---------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a run folder: ``ACOVA.load(folder)`` gives it back.

        It holds ``model.safetensors``, ``config.json``, ``labels.csv`` (the `assignments`) and
        ``history.csv``; it appears as a whole or not at all, and an existing run is replaced only with
        ``overwrite=True``.
        """
        check_is_fitted(self, "labels_")
        save_model(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Read a model that `save` wrote. Nothing is unpickled: a foreign file gives an error, no more."""
        model = load_model(cls, folder, device)
        assert isinstance(model, cls)
        return model


@dataclass(frozen=True)
class _Prepared:
    """Checked training data in the order of training, that order, and the runs to train."""

    views: Views
    order: NDArray[np.intp]
    jobs: list[Job]
