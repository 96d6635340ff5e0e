"""The estimator of the paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from acova.data import Scaling, StoredViews, Views
from acova.engine import ALONE, Processes, job_processes, resolve_device
from acova.estimators.base import MultiViewClusterer, canonical_order
from acova.estimators.checkpoint import Checkpoint, fingerprint
from acova.estimators.checks import check_likelihoods, check_options, scaling_kinds
from acova.estimators.inference import Inferred, infer, infer_chunks, mean_objective, tensors
from acova.estimators.presets import PRESETS
from acova.estimators.progress import progress_bar
from acova.estimators.recipe import Job, TrainedRun, train_runs
from acova.estimators.saving import load_model, save_model
from acova.networks import MultiViewVAE

_TABLE_ROWS = 65536
_NO_PART_OF_A_FIT = ("checkpoint", "checkpoint_every", "device", "random_state", "verbose")
"""Settings that may change between an interrupted fit and its continuation."""


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
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool or {"zscore", "range"}
        Scale features by statistics of observed rows: True or ``"zscore"`` feature by feature,
        ``"range"`` by one mean and range per view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training; ``"auto"`` is bfloat16 where the GPU has it. The
        fusion is always exact.
    checkpoint : str, Path or None
        Folder in which the fit keeps its state. A fit that was killed or interrupted goes on from there
        when it is called again with the same settings and data; a fit that ends deletes the folder.
    checkpoint_every : int
        Epochs between checkpoints.
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
        Epochs trained of the whole model.
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
        patience: int | None = None,
        tol: float = 1e-3,
        view_sizes: Sequence[int] | None = None,
        standardize: bool | str = True,
        device: str = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
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
        self.patience = patience
        self.tol = tol
        self.view_sizes = view_sizes
        self.standardize = standardize
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
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
        checkpoint = self._fit(X, observed)
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _fit(self, X: Any, observed: Any) -> Checkpoint | None:
        """Fit, and return the checkpoint folder, which is no longer needed once the result is safe."""
        with job_processes() as processes:
            prepared = self._prepare(X, observed, processes)
            checkpoint = self._open_checkpoint(prepared)
            epochs = self.pretrain_epochs + self.warmup_epochs + self.epochs
            shown = self.verbose and processes.is_first
            with progress_bar("ACOVA", self.n_init, epochs, shown=shown) as report:
                runs = train_runs(prepared.jobs, report, checkpoint=checkpoint, processes=processes)
            self._finish(prepared, runs)
        return checkpoint

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE) -> "_Prepared":
        """Check settings and data, learn the scaling, and list the runs to train."""
        check_options(self)
        given = self._views_to_fit(X, observed)
        order = None if isinstance(given, StoredViews) else canonical_order(given.index)
        views = given if isinstance(given, StoredViews) or _is_sorted(order) else given.take(order)
        self._likelihoods = check_likelihoods(self, views)
        self._scaling = Scaling.fit(views, scaling_kinds(self, self._likelihoods))
        self.seed_ = processes.agree(self._seed())
        device = resolve_device(self.device)
        streams = Streams(self.seed_)
        held: dict[str, Any]
        if isinstance(views, StoredViews):
            held = {"read": partial(_read, views, self._scaling)}
        else:
            mine = views.take(processes.share(len(views))) if processes.size > 1 else views
            scaled, seen = tensors(mine, self._scaling, device)
            held = {"views": scaled, "observed": seen}
        jobs = [
            Job(self, self._likelihoods, views.sizes, len(views), device, streams.child("run", run), **held)
            for run in range(self.n_init)
        ]
        return _Prepared(views, order, jobs, processes)

    def _seed(self) -> int:
        """Return the seed of this fit; without a number given, that of the fit it continues."""
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            held = Checkpoint(self.checkpoint, self.checkpoint_every).seed()
            if held is not None:
                return held
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _open_checkpoint(self, prepared: "_Prepared") -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        checkpoint = Checkpoint(self.checkpoint, self.checkpoint_every, prepared.processes)
        checkpoint.open({"params": self._fit_params(), "seed": self.seed_, "data": fingerprint(prepared.views)})
        return checkpoint

    def _fit_params(self) -> dict[str, Any]:
        """Return the settings that an interrupted fit and its continuation must share (the seed aside)."""
        return {name: v for name, v in self.get_params(deep=False).items() if name not in _NO_PART_OF_A_FIT}

    def _finish(self, prepared: "_Prepared", runs: Sequence[TrainedRun]) -> Self:
        """Keep the run with the lowest objective, and tell what it says of the training data."""
        views, processes = prepared.views, prepared.processes
        streams = Streams(self.seed_).child("score")
        parts = [mean_objective(run.network, self._scaling, views, streams, processes) for run in runs]
        self.objectives_ = np.array([float(part.total(self.alpha)) for part in parts])
        best = int(self.objectives_.argmin())
        self.objective_ = float(self.objectives_[best])
        self.history_ = pd.DataFrame(runs[best].records)
        self.n_iter_ = int((self.history_["phase"] == "train").sum()) if len(self.history_) else 0
        self._adopt(runs[best].network)
        found = infer(self.network_, self._scaling, views, processes)
        if prepared.order is not None:
            back = np.argsort(prepared.order)
            found = Inferred(*(rows[back] for rows in vars(found).values()))
        self.labels_, self.probabilities_, self.view_weights_ = found.labels, found.probabilities, found.weights
        return self

    def _adopt(self, network: MultiViewVAE) -> None:
        """Make a trained network the result."""
        self.network_ = network.requires_grad_(False)
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
        return self._infer(X, observed).labels

    def predict_proba(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the probability of each cluster, (n_samples, n_clusters), at the posterior mean."""
        return self._infer(X, observed).probabilities

    def transform(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the fused latent mean of each sample, (n_samples, latent_dim)."""
        return self._infer(X, observed).latent

    def view_weights(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return how much each view counted for each sample, (n_samples, V); see `view_weights_`."""
        return self._infer(X, observed).weights

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return the mean evidence lower bound per sample, up to the likelihoods' constants.

        The expectation over the latent vector is an average over draws (16 for small data) from a stream
        of the model's own seed, so the value repeats exactly.
        """
        views, streams = self._views_to_predict(X, observed), Streams(self.seed_).child("score")
        return -float(mean_objective(self.network_, self._scaling, views, streams).negative_elbo())

    def assignments(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label.

        Columns: ``label``, ``confidence`` (the label's probability), ``p_0`` … ``p_{K-1}``, and
        ``weight_<view>``. Without `X` it tells of the training samples.
        """
        return pd.concat(list(self.iter_assignments(X, observed=observed)))

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments` piece by piece, in the memory of a piece: for views on disk."""
        check_is_fitted(self, "labels_")
        if X is None:
            for start in range(0, len(self.labels_), _TABLE_ROWS):
                rows = slice(start, start + _TABLE_ROWS)
                yield self._table(self.index_[rows], self.probabilities_[rows], self.view_weights_[rows])
            return
        views = self._views_to_predict(X, observed)
        index, start = views.index, 0
        for part in infer_chunks(self.network_, self._scaling, views):
            yield self._table(index[start : start + len(part.labels)], part.probabilities, part.weights)
            start += len(part.labels)

    def _table(self, index: pd.Index, probabilities: NDArray[np.float32], weights: NDArray[np.float32]) -> pd.DataFrame:
        table = {"label": probabilities.argmax(axis=1), "confidence": probabilities.max(axis=1)}
        table |= {f"p_{k}": probabilities[:, k] for k in range(self.n_clusters)}
        table |= {f"weight_{name}": weights[:, v] for v, name in enumerate(self.view_names_)}
        return pd.DataFrame(table, index=index)

    def _infer(self, X: Any, observed: Any) -> Inferred:
        views = self._views_to_predict(X, observed)
        return infer(self.network_, self._scaling, views)

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
    """Checked training data in the order of training, that order (None: as given), and the runs to train."""

    views: Views | StoredViews
    order: NDArray[np.intp] | None
    jobs: list[Job]
    processes: Processes


def _is_sorted(order: NDArray[np.intp] | None) -> bool:
    return order is not None and bool((order == np.arange(len(order))).all())


def _read(views: StoredViews, scaling: Scaling, start: int, stop: int) -> tuple[list[Tensor], Tensor]:
    return tensors(views.read(start, stop), scaling, torch.device("cpu"))
