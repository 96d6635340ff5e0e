"""Estimators that train networks of the variational family: from checked views to runs, and from runs to a result."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import Streams, TrainingError, check_choice, draw_seed
from acova.clustering.numbering import ROUNDS, cluster_order, is_in_order
from acova.data import Scaling, StoredViews, Summary, Views, scaled_moments
from acova.engine import ALONE, Processes, Trainer, computation, job_processes, resolve_device, threads_for
from acova.estimators._base import MultiViewClusterer, canonical_order
from acova.estimators._validation import check_in_memory, check_likelihoods, check_options, plain_copy, scaling_kinds
from acova.estimators.persistence import pack_networks, unpack_networks
from acova.estimators.presets import BY_SIZE, OTHERWISE, RECIPES, auto_neighbor_weight, auto_runs, auto_widths
from acova.networks import MultiViewVAE
from acova.training.checkpoint import Checkpoint, fingerprint
from acova.training.consensus import Ensemble
from acova.training.convergence import doubts_about, warn_of
from acova.training.extremes import learn_scaling, overflow_allowed
from acova.training.inference import Inferred, agreed, infer, infer_chunks, mean_objective, tensors
from acova.training.neighbours import neighbour_means, neighbour_products
from acova.training.phases import Job, TrainedRun, blind_costs, new_network, train_phases
from acova.training.progress import progress_bar
from acova.training.provenance import provenance
from acova.training.schedule import train_runs
from acova.training.view_weights import smoothed_views, trusted_views

_TABLE_ROWS = 65536
_NO_PART_OF_A_FIT = ("checkpoint", "checkpoint_every", "device", "random_state", "verbose")
"""Settings that may change between an interrupted fit and its continuation."""


class VariationalClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiViewClusterer):
    """What `ACOVA` and its relatives do apart from their settings: fit, use, save and load."""

    recipe: str
    hidden: Any
    neighbor_weight: Any
    reconstruction_scale: Any
    pretrain_epochs: Any
    warmup_epochs: Any
    epochs: Any
    latent_dim: int
    alpha: float
    n_init: Any
    consensus: Any
    view_weights: Any
    view_trust_: NDArray[np.float64]
    view_agreement_: NDArray[np.float64]
    random_state: Any
    checkpoint: str | Path | None
    checkpoint_every: int
    device: str
    verbose: bool

    # What subclasses may choose, and ACOVA does not offer.
    fusion: str = "correlated"
    scale_is: str = "std"
    density_floor: float = 0.0
    n_correlations: int = 1
    elbo_weight: float = 1.0
    decay_every: int = 1

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
        with job_processes() as processes:
            if self.checkpoint is None:
                self._fit(X, observed, processes)
            else:
                with Checkpoint(self.checkpoint, self.checkpoint_every, processes) as checkpoint:
                    self._fit(X, observed, processes, checkpoint)
                    checkpoint.remove()
        return self

    @computation()
    def _fit(
        self,
        X: Any,
        observed: Any,
        processes: Processes,
        checkpoint: Checkpoint | None = None,
        begin: Callable[[], None] | None = None,
    ) -> None:
        """Fit with checkpoints in a folder; `begin` is called when settings and data are found good."""
        prepared = self._prepare(X, observed, processes)
        if begin is not None:
            processes.first_does(begin)
        if checkpoint is not None:
            params = prepared.jobs[0].settings._fit_params()
            checkpoint.open({"params": params, "seed": self.seed_, "data": fingerprint(prepared.views)})
        shown = self.verbose and processes.is_first
        with progress_bar(type(self).__name__, prepared.epochs, shown=shown) as report:
            runs = train_runs(prepared.jobs, report, checkpoint=checkpoint, processes=processes)
        self._finish(prepared, runs)

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE) -> "Prepared":
        """Check settings and data, learn the scaling, and list the runs to train."""
        settings = self._resolved()
        check_options(settings)
        given = self._views_to_fit(X, observed)
        self._suit(settings, given)
        order = None if isinstance(given, StoredViews) else canonical_order(given.index)
        views = given if isinstance(given, StoredViews) or _is_sorted(order) else given.take(order)
        with overflow_allowed():
            self._likelihoods = check_likelihoods(settings, views)
        self._scaling = learn_scaling(views, scaling_kinds(settings, self._likelihoods))
        self.seed_ = processes.agree(self._seed())
        streams = Streams(self.seed_)
        held = self._held(settings, views, processes)
        jobs = [
            Job(settings, self._likelihoods, views.sizes, len(views), streams=streams.child("run", run), **held)
            for run in range(settings.n_init)
        ]
        return Prepared(views, order, jobs, processes)

    def _resolved(self) -> Self:
        """Return a copy with every setting that was left to the recipe filled in."""
        check_choice(type(self).__name__, "recipe", self.recipe, RECIPES)
        settings = plain_copy(self)
        values = {**OTHERWISE, **RECIPES[self.recipe]}
        settings.set_params(**{name: value for name, value in values.items() if getattr(self, name) is None})
        return settings

    def _suit(self, settings: Self, views: Views | StoredViews) -> None:
        """Fill in what a recipe leaves to the data."""
        if isinstance(settings.hidden, str):
            settings.hidden = auto_widths(views.n_samples)
        if isinstance(settings.neighbor_weight, str):
            in_memory = not isinstance(views, StoredViews)
            settings.neighbor_weight = auto_neighbor_weight(views.n_samples) if in_memory else 0.0
        if isinstance(settings.n_init, str):
            settings.n_init = auto_runs(views.n_samples)
        for name, suited in BY_SIZE.items():
            if getattr(self, name) is None and settings.recipe != "paper":
                setattr(settings, name, suited(getattr(settings, name), views.n_samples))

    def _held(self, settings: Self, views: Views | StoredViews, processes: Processes) -> dict[str, Any]:
        """Return the data of a run: this process's share on the device, or a way to read them."""
        device = resolve_device(self.device)
        neighbours = settings.neighbor_weight or settings.cluster_start == "neighbors"
        self.view_agreement_, trust = trusted_views(settings, views, self._scaling)
        self.view_trust_ = np.ones(views.n_views) if trust is None else trust
        weighs = settings.balance is not False or settings.reconstruction_scale is not False or trust is not None
        variances = None
        held: dict[str, Any] = {"device": device, "trust": trust}
        if neighbours or weighs:
            with overflow_allowed():
                moments = scaled_moments(views, self._scaling)
            variances = np.maximum([variance.sum() for _, variance in moments], np.finfo(np.float32).tiny)
            held |= {"variances": variances, "costs": blind_costs(moments, self._likelihoods)}
        if isinstance(views, StoredViews):
            check_in_memory(settings)
            return {**held, "read": partial(_read, views, self._scaling)}
        arrays, observed = tensors(views, self._scaling, device)
        share = processes.share(len(views))
        if variances is not None and neighbours:
            with threads_for(neighbour_products(len(views), sum(views.sizes))):
                if trust is None:
                    means = neighbour_means(arrays, observed, variances.tolist(), settings.n_neighbors)
                else:
                    means = smoothed_views(arrays, observed, trust, settings.n_clusters)
            targets = [
                torch.where(seen.unsqueeze(-1), torch.lerp(view, mean, settings.neighbor_weight), mean)
                for view, mean, seen in zip(arrays, means, observed.unbind(1), strict=True)
            ]
            held["targets"] = [target[share] for target in targets]
        return {**held, "views": [view[share] for view in arrays], "observed": observed[share]}

    def _seed(self) -> int:
        """Return the seed of this fit; without a number given, that of the fit it continues."""
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            held = Checkpoint(self.checkpoint, self.checkpoint_every).seed()
            if held is not None:
                return held
        return draw_seed(self.random_state, type(self).__name__)

    def _epochs_of_a_run(self) -> int:
        """Return the number of epochs of all phases; these settings have nothing left to a recipe."""
        return int(self.pretrain_epochs + self.warmup_epochs + self.epochs)

    def _together(self, job: Job) -> Hashable:
        """Return what else must agree for runs to train together."""
        return None

    def _fit_params(self) -> dict[str, Any]:
        """Return the settings that an interrupted fit and its continuation must share (the seed aside)."""
        return {name: v for name, v in self.get_params(deep=False).items() if name not in _NO_PART_OF_A_FIT}

    def _finish(self, prepared: "Prepared", runs: Sequence[TrainedRun]) -> Self:
        """Average the runs or keep the one with the lowest objective, and tell what it says of the training data."""
        views, processes = prepared.views, prepared.processes
        self._settings = prepared.jobs[0].settings
        pairs = zip(prepared.jobs, runs, strict=True)
        self.objectives_ = np.array([self._trained_objective(job, run.network, prepared) for job, run in pairs])
        if not np.isfinite(self.objectives_).all():
            msg = (
                f"{type(self).__name__}: training diverged: the loss of the training data is not finite. Keep "
                "standardize=True, lower learning_rate, or look for extreme values in the data."
            )
            raise TrainingError(msg)
        best = int(self.objectives_.argmin())
        ensemble = Ensemble.of_one(runs[best].network)
        if self._settings.consensus and len(runs) > 1:
            ensemble = agreed([run.network for run in runs], self._scaling, views, processes)
            best = ensemble.reference
        self.objective_ = float(self.objectives_[best])
        records = runs[best].records
        self.history_ = pd.DataFrame(records, columns=None if records else ["phase", "epoch", "total"])
        self.n_iter_ = int((self.history_["phase"] == "train").sum()) if len(self.history_) else 0
        found = self._adopt_numbered(ensemble, prepared)
        self.summary_ = Summary.of(views, found.labels, self.n_clusters)
        self.provenance_ = provenance(prepared.jobs[0].device)
        if prepared.order is not None:
            back = np.argsort(prepared.order)
            found = Inferred(*(rows[back] for rows in vars(found).values()))
        self.labels_, self.probabilities_, self.view_weights_ = found.labels, found.probabilities, found.weights
        self.agreement_, self.latent_ = found.agreement, found.latent
        agreement = self.agreement_ if len(ensemble.networks) > 1 else None
        self.warnings_ = doubts_about(self.labels_, self.n_clusters, self.history_, self.probabilities_, agreement)
        if processes.is_first:
            warn_of(type(self).__name__, self.warnings_, stacklevel=5)
        return self

    @property
    def n_voters_(self) -> int:
        """Number of runs whose assignments are averaged: all of a consensus, else one."""
        return len(self._ensemble.networks)

    def _trained_objective(self, job: Job, network: MultiViewVAE, prepared: "Prepared") -> float:
        """Return the objective that was trained, over all training data: with its weights and neighbours."""
        streams = Streams(self.seed_).child("score")
        loss, targets = network.loss, job.targets or ()
        if targets:
            loss = partial(loss, fill_weight=job.settings.neighbor_weight**2)
        parts = mean_objective(
            network, self._scaling, prepared.views, streams, prepared.processes, loss=loss, targets=targets
        )
        return parts["total"]

    def _adopt_numbered(self, ensemble: Ensemble, prepared: "Prepared") -> Inferred:
        """Make trained networks the result, with their clusters in order; return what they say of the training data."""
        found = self._infer_training(ensemble, prepared)
        for _ in range(ROUNDS):
            order = cluster_order(found.labels, self.n_clusters)
            if all(map(is_in_order, (order, *ensemble.orders))):
                break
            ensemble = ensemble.renumbered(order)
            found = self._infer_training(ensemble, prepared)
        self._adopt(ensemble)
        return found

    def _infer_training(self, ensemble: Ensemble, prepared: "Prepared") -> Inferred:
        """Return what networks say of the training data, in the order of training."""
        return infer(ensemble, self._scaling, prepared.views, prepared.processes)

    def _adopt(self, ensemble: Ensemble) -> None:
        """Make trained networks the result."""
        for network in ensemble.networks:
            network.requires_grad_(False)
        self._ensemble, self.network_ = ensemble, ensemble.network
        log_weights, means, variances = (part.cpu().numpy() for part in self.network_.prior())
        self.weights_, self.means_, self.variances_ = np.exp(log_weights), means, variances
        if self.network_.correlates:
            self.correlations_ = self._mean_correlations()
            self.correlation_ = self.correlations_.mean(axis=0)
        self._n_features_out = self.latent_dim

    def _mean_correlations(self) -> NDArray[np.float64]:
        """Return the matrix of every stretch of the latent dimensions, averaged over the runs, (G, V, V)."""
        matrices = np.mean([network.correlation().cpu().numpy() for network in self._ensemble.networks], axis=0)
        return np.asarray(matrices.reshape(-1, *matrices.shape[-2:]))

    # --- using what was learned -----------------------------------------------------------------

    def predict(self, X: Any, *, observed: Any = None) -> NDArray[np.int64]:
        """Return the most probable cluster of each sample, which needs only one of its views."""
        return self._infer(X, observed).labels

    def predict_proba(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the probability of each cluster, (n_samples, n_clusters), at the posterior mean."""
        return self._infer(X, observed).probabilities

    def fit_transform(self, X: Any, y: Any = None, *, observed: Any = None) -> Any:
        """Fit, and return the fused latent mean of each sample; see `transform`."""
        self.fit(X, observed=observed)
        return self._in_container(self.latent_, self.index_)

    def transform(self, X: Any, *, observed: Any = None) -> Any:
        """Return the fused latent mean of each sample, array (n_samples, latent_dim).

        After ``set_output(transform="pandas")`` it is a DataFrame under the samples' names.
        """
        views = self._views_to_predict(X, observed)
        return self._in_container(infer(self._ensemble, self._scaling, views).latent, views.index)

    def _in_container(self, latent: NDArray[np.float32], index: pd.Index) -> Any:
        """Name the rows for pandas: scikit-learn finds names only in a single DataFrame, not in views."""
        if _get_output_config("transform", self)["dense"] != "pandas":
            return latent
        return pd.DataFrame(latent, index=index)

    def fusion_weights(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return how much each view counted for each sample, (n_samples, V); see `view_weights_`."""
        return self._infer(X, observed).weights

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return the mean evidence lower bound of the samples' observed views, after scaling, in nats per sample.

        The model is the mixture prior and the decoders: Gaussian features with variance 1/2, Laplace features with
        scale 1, Bernoulli features, each with its constant. Every feature counts once, whatever weight the recipe gave
        it in training, and the alignment does not count. The posterior is the fused one. Cross-entropies of values
        between 0 and 1 have no constant, and with them the score is a bound of no density.

        Compare scores on the same samples with the same scaling alone: a sample with more views has a lower one. The
        expectation over the latent vector is an average over draws (4 for small data) from a stream of the model's own
        seed, so the value repeats exactly. Of a consensus it is that of the reference run.
        """
        return self._mean_of("bound", X, observed)

    def _mean_of(self, part: str, X: Any, observed: Any) -> float:
        """Return the mean per sample of the bound, or of a part of the objective."""
        views, streams = self._views_to_predict(X, observed), Streams(self.seed_).child("score")
        loss = self.network_.bound if part == "bound" else self.network_.loss
        return mean_objective(self.network_, self._scaling, views, streams, loss=loss)[part]

    def assignments(self, X: Any = None, *, observed: Any = None) -> pd.DataFrame:
        """Return a table of the result, one row per sample under its index label.

        Columns: ``label``, ``confidence`` (the label's probability), ``agreement`` (of a consensus: the share
        of runs that give this label), ``p_0`` … ``p_{K-1}``, and ``weight_<view>``. Without `X` it tells of
        the training samples.
        """
        return pd.concat(list(self.iter_assignments(X, observed=observed)))

    def iter_assignments(self, X: Any = None, *, observed: Any = None) -> Iterator[pd.DataFrame]:
        """Yield the table of `assignments` piece by piece, in the memory of a piece: for views on disk."""
        check_is_fitted(self, "labels_")
        if X is None:
            for start in range(0, len(self.labels_), _TABLE_ROWS):
                rows = slice(start, start + _TABLE_ROWS)
                per_sample = (self.probabilities_, self.view_weights_, self.agreement_)
                yield self._table(self.index_[rows], *(array[rows] for array in per_sample))
            return
        views = self._views_to_predict(X, observed)
        index, start = views.index, 0
        for part in infer_chunks(self._ensemble, self._scaling, views):
            rows = slice(start, start + len(part.labels))
            yield self._table(index[rows], part.probabilities, part.weights, part.agreement)
            start += len(part.labels)

    def _table(
        self,
        index: pd.Index,
        probabilities: NDArray[np.float32],
        weights: NDArray[np.float32],
        agreement: NDArray[np.float32],
    ) -> pd.DataFrame:
        table = {"label": probabilities.argmax(axis=1), "confidence": probabilities.max(axis=1)}
        if len(self._ensemble.networks) > 1:
            table["agreement"] = agreement
        table |= {f"p_{k}": probabilities[:, k] for k in range(self.n_clusters)}
        table |= {f"weight_{name}": weights[:, v] for v, name in enumerate(self.view_names_)}
        return pd.DataFrame(table, index=index)

    def _infer(self, X: Any, observed: Any) -> Inferred:
        views = self._views_to_predict(X, observed)
        return infer(self._ensemble, self._scaling, views)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    # --- saving ---------------------------------------------------------------------------------

    _per_sample = ("labels_", "probabilities_", "view_weights_", "agreement_", "latent_")
    _fitted = (
        *("_likelihoods", "seed_", "objective_", "objectives_", "n_iter_", "warnings_"),
        *("view_trust_", "view_agreement_"),
    )

    def _new_network(
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> MultiViewVAE:
        """Return a network with fresh parameters; these settings have nothing left to a recipe."""
        return new_network(self, view_sizes, likelihoods, streams, weights)

    @staticmethod
    def _train(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[Any]) -> None:
        """Take runs through all phases of training."""
        train_phases(trainer, jobs, networks)

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return pack_networks(self)

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        unpack_networks(self, tensors, config)


@dataclass(frozen=True)
class Prepared:
    """Checked training data in the order of training, that order (None: as given), and the runs to train."""

    views: Views | StoredViews
    order: NDArray[np.intp] | None
    jobs: list[Job]
    processes: Processes

    @property
    def epochs(self) -> int:
        """Number of epochs of all runs."""
        return len(self.jobs) * self.jobs[0].settings._epochs_of_a_run()


def _is_sorted(order: NDArray[np.intp] | None) -> bool:
    return order is not None and bool((order == np.arange(len(order))).all())


def _read(views: StoredViews, scaling: Scaling, start: int, stop: int) -> tuple[list[Tensor], Tensor]:
    return tensors(views.read(start, stop), scaling, torch.device("cpu"))
