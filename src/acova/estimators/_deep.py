"""Clusterers that train networks: from checked views to runs, and from runs to a result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from acova.base import OptionError, Streams, TrainingError
from acova.base.errors import check_choice
from acova.base.seeds import draw_seed
from acova.clustering.numbering import ROUNDS, cluster_order, is_in_order
from acova.data import StoredViews, Summary, Views
from acova.engine.distributed import ALONE, Processes, job_processes
from acova.engine.runtime import computation
from acova.estimators._base import MultiViewClusterer, canonical_order
from acova.estimators._latent import LatentMixin, table_of_assignments
from acova.estimators._settings import NESTED, plain, training_parameters
from acova.estimators._validation import check_likelihoods, scaling_kinds
from acova.estimators.persistence import pack_networks, unpack_networks
from acova.estimators.recipes import OTHERWISE, RECIPES
from acova.estimators.rules import check_settings, rules_of
from acova.functional import Batch
from acova.training.checkpoint import Checkpoint, fingerprint
from acova.training.consensus import Ensemble
from acova.training.convergence import doubts_about, warn_of
from acova.training.extremes import learn_scaling, overflow_allowed
from acova.training.inference import (
    Inferred,
    batch_of,
    device_of,
    infer,
    infer_chunks,
    matched_runs,
    mean_objective,
)
from acova.training.influence import Influence, influence_of_views
from acova.training.job import Job, Settings, TrainedRun
from acova.training.method import Method
from acova.training.progress import progress_bar
from acova.training.provenance import provenance
from acova.training.schedule import train_runs

_TABLE_ROWS = 65536
_CHECKPOINT_EVERY = 10
"""Epochs between the checkpoints of a method that has no setting for it."""
_NO_PART_OF_A_FIT = ("checkpoint", "checkpoint_every", "device", "random_state", "verbose")
"""Settings that may change between an interrupted fit and its continuation."""


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
        return sum(job.epochs for job in self.jobs)

    @property
    def settings(self) -> Settings:
        """The settings of the fit."""
        return self.jobs[0].settings


class DeepClusterer(LatentMixin, MultiViewClusterer):
    """A clusterer that trains a network: fit, use, save and load. A subclass names its settings and its method.

    Attributes
    ----------
    method : Method
        How networks are built and trained.
    settings_ : dict
        Every setting of the fit by its name, with what the recipe chose.
    """

    method: ClassVar[Method]
    _fixed: ClassVar[Mapping[str, Any]] = {}
    """Settings that other methods have, at the value that they have here."""
    _without: ClassVar[Sequence[str]] = ()
    """Settings of `Training` that say nothing here."""

    n_clusters: int
    random_state: Any
    checkpoint: str | Path | None
    verbose: bool
    settings_: dict[str, Any]
    view_trust_: NDArray[np.float64]
    view_agreement_: NDArray[np.float64]
    view_influence_: NDArray[np.float64]
    view_support_: NDArray[np.float64]

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
                with Checkpoint(self.checkpoint, self._checkpoint_every, processes) as checkpoint:
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
            identity = self._identity(prepared.settings)
            checkpoint.open({"params": identity, "seed": self.seed_, "data": fingerprint(prepared.views)})
        shown = int(self.verbose) if processes.is_first else 0
        with progress_bar(type(self).__name__, prepared.epochs, shown=shown) as report:
            runs = train_runs(prepared.jobs, report, checkpoint=checkpoint, processes=processes)
        self._finish(prepared, runs)

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE) -> Prepared:
        """Check settings and data, learn the scaling, and list the runs to train."""
        method, settings = self.method, self._checked_settings()
        if method.one_process and processes.size > 1:
            msg = (
                f"{settings.who}: its batches are compared as a whole, so one process trains it; got a job of "
                f"{processes.size} processes. Start it without torchrun."
            )
            raise OptionError(msg)
        given = self._views_to_fit(X, observed)
        method.check_data(settings.who, given)
        settings = method.suited(settings, self._left_open(), given)
        order = None if isinstance(given, StoredViews) else canonical_order(given.index)
        views = given if isinstance(given, StoredViews) or _is_sorted(order) else given.take(order)
        with overflow_allowed():
            self._likelihoods, features = check_likelihoods(settings, views)
        kinds = scaling_kinds(settings.who, settings.standardize, self._likelihoods)
        self._scaling = learn_scaling(views, kinds, features)
        self.seed_ = processes.agree(self._seed())
        streams = Streams(self.seed_)
        data = method.prepare(settings, views, self._scaling, self._likelihoods, processes)
        jobs = [
            Job(method, settings, self._likelihoods, views.sizes, len(views), streams.child("run", run), data)
            for run in range(settings.n_init)
        ]
        return Prepared(views, order, jobs, processes)

    def _resolved(self) -> Settings:
        """Return every setting, those that were left to the recipe filled in as far as it does not ask for the data."""
        values = {name: plain(value) for name, value in self.get_settings().items()}
        who = type(self).__name__
        if "recipe" in values:
            check_choice(who, "recipe", values["recipe"], RECIPES)
            recipe = {**OTHERWISE, **RECIPES[values["recipe"]]}
            values |= {name: recipe[name] for name in self._left_open() if name in recipe}
        return Settings(who, {**self._fixed, **values})

    def _left_open(self) -> list[str]:
        """Return the settings that were left to the recipe."""
        return [name for name, value in self.get_settings().items() if value is None]

    def _checked_settings(self) -> Settings:
        """Return every setting, or raise `OptionError` for one with a value that it cannot have."""
        settings = self._resolved()
        check_settings(settings.who, settings.values, rules_of(type(self), self.setting_names()))
        self._check_together(settings)
        return settings

    def _check_together(self, settings: Settings) -> None:
        """Raise `OptionError` where settings do not go together."""
        training = getattr(self, NESTED, None)
        for name in self._without if training is not None else ():
            value = getattr(training, name)
            if value != training_parameters()[name].default:
                msg = f"{settings.who}: training has {name}={value!r}, which says nothing here; leave it out."
                raise OptionError(msg)
        count, correlation = settings.get("n_correlations", 1), settings.get("correlation", "learned")
        if count > settings.latent_dim:
            msg = (
                f"{settings.who}: n_correlations must be at most latent_dim={settings.latent_dim}, one matrix for each "
                f"dimension; got {count}."
            )
            raise OptionError(msg)
        if count > 1 and not (isinstance(correlation, str) and correlation == "learned"):
            msg = (
                f"{settings.who}: n_correlations={count} counts learned matrices, but correlation={correlation!r} is "
                "not learned; leave one of them out."
            )
            raise OptionError(msg)

    def _seed(self) -> int:
        """Return the seed of this fit; without a number given, that of the fit it continues."""
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            seed = Checkpoint(self.checkpoint, self._checkpoint_every).seed()
            if seed is not None:
                return seed
        return draw_seed(self.random_state, type(self).__name__)

    @property
    def _checkpoint_every(self) -> int:
        every: int = self._resolved().get("checkpoint_every", _CHECKPOINT_EVERY)  # checked with the other settings
        return every

    def _own(self, settings: Settings) -> dict[str, Any]:
        """Return the resolved settings that this method offers."""
        return {name: settings.values[name] for name in self.setting_names()}

    def _identity(self, settings: Settings) -> dict[str, Any]:
        """Return the settings that an interrupted fit and its continuation must share (the seed aside)."""
        return {name: value for name, value in self._own(settings).items() if name not in _NO_PART_OF_A_FIT}

    def _finish(self, prepared: Prepared, runs: Sequence[TrainedRun]) -> Self:
        """Average the runs or keep the one with the lowest objective, and tell what it says of the training data."""
        views, processes = prepared.views, prepared.processes
        self._take_settings(prepared.settings)
        self._take_trust(prepared.jobs[0])
        pairs = zip(prepared.jobs, runs, strict=True)
        self.objectives_ = np.array([self._trained_objective(job, run, prepared) for job, run in pairs])
        if not np.isfinite(self.objectives_).all():
            msg = (
                f"{type(self).__name__}: training diverged: the loss of the training data is not finite. Keep "
                "standardize=True, lower learning_rate, or look for extreme values in the data."
            )
            raise TrainingError(msg)
        best = int(self.objectives_.argmin())
        ensemble = Ensemble.of_one(runs[best].network)
        if prepared.settings.consensus and len(runs) > 1:
            ensemble = matched_runs([run.network for run in runs], self._scaling, views, processes)
            best = ensemble.reference
        self.objective_ = float(self.objectives_[best])
        records = runs[best].records
        self.history_ = pd.DataFrame(records, columns=None if records else ["phase", "epoch", "total"])
        self.n_iter_ = int((self.history_["phase"] == "train").sum()) if len(self.history_) else 0
        found = self._adopt_numbered(ensemble, prepared)
        self.summary_ = Summary.of(views, found.labels, self.n_clusters)
        self.provenance_ = provenance(prepared.jobs[0].device)
        influence = self._influence(views, found.labels)
        self.view_influence_, self.view_support_ = influence.changed, influence.support
        if prepared.order is not None:
            found = found.take(np.argsort(prepared.order))
        self.labels_, self.probabilities_, self.view_weights_ = found.labels, found.probabilities, found.weights
        self._agreement, self.latent_ = found.agreement, found.latent
        agreement = self._agreement if self.n_voters_ > 1 else None
        doubts = doubts_about(self.labels_, self.n_clusters, self.history_, self.probabilities_, agreement)
        self.warnings_ = [*doubts, *influence.warnings]
        if processes.is_first:
            warn_of(type(self).__name__, self.warnings_, stacklevel=5)
        return self

    def _influence(self, views: Views | StoredViews, labels: NDArray[np.int64]) -> Influence:
        """Return what the partition owes to each view."""

        def labels_of(samples: Views, observed: NDArray[np.bool_]) -> NDArray[np.int64]:
            return infer(self._ensemble, self._scaling, samples.hide(observed)).labels

        return influence_of_views(views, self._scaling, labels, self.summary_, self.n_clusters, labels_of)

    def _take_settings(self, settings: Settings) -> None:
        self._settings, self.settings_ = settings, self._own(settings)

    def _take_trust(self, job: Job) -> None:
        n_views, data = len(job.sizes), job.data
        self.view_trust_ = np.ones(n_views) if data.trust is None else data.trust
        self.view_agreement_ = np.ones((n_views, n_views)) if data.agreement is None else data.agreement

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

    def _trained_objective(self, job: Job, run: TrainedRun, prepared: Prepared) -> float:
        """Return the objective that was trained, over all training data: with its weights and neighbours."""
        views, data, network = prepared.views, job.data, run.network
        first = prepared.processes.share(views.n_samples).start

        def samples(start: int, stop: int) -> Batch:
            if data.views is None:
                return batch_of(views.read(start, stop), self._scaling, device_of(network))
            return data.batch().rows(slice(start - first, stop - first))

        loss, streams = job.method.objective(network, job.settings), Streams(self.seed_).child("score")
        parts = mean_objective(network, loss, samples, views.n_samples, streams, prepared.processes)
        return parts["total"]

    def _adopt_numbered(self, ensemble: Ensemble, prepared: Prepared) -> Inferred:
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

    def _infer_training(self, ensemble: Ensemble, prepared: Prepared) -> Inferred:
        """Return what networks say of the training data, in the order of training."""
        return infer(ensemble, self._scaling, prepared.views, prepared.processes)

    def _adopt(self, ensemble: Ensemble) -> None:
        """Make trained networks the result."""
        for network in ensemble.networks:
            network.requires_grad_(False)
        self._ensemble, self.network_ = ensemble, ensemble.network
        for name, value in ensemble.learned().items():
            setattr(self, f"{name}_", value)
        self._n_features_out = self.network_.latent_dim

    # --- using what was learned -----------------------------------------------------------------

    def predict(self, X: Any, *, observed: Any = None) -> NDArray[np.int64]:
        """Return the most probable cluster of each sample, which needs only one of its views."""
        return self._infer(X, observed).labels

    def predict_proba(self, X: Any, *, observed: Any = None) -> NDArray[np.float32]:
        """Return the probability of each cluster, (n_samples, n_clusters), at the posterior mean."""
        return self._infer(X, observed).probabilities

    def transform(self, X: Any, *, observed: Any = None) -> Any:
        """Return the fused latent mean of each sample, array (n_samples, latent_dim).

        After ``set_output(transform="pandas")`` it is a DataFrame under the samples' names.
        """
        views = self._views_to_predict(X, observed)
        return self._in_container(infer(self._ensemble, self._scaling, views).latent, views.index)

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
        views, network = self._views_to_predict(X, observed), self.network_

        def samples(start: int, stop: int) -> Batch:
            return batch_of(views.read(start, stop), self._scaling, device_of(network))

        streams = Streams(self.seed_).child("score")
        return mean_objective(network, network.score, samples, views.n_samples, streams)["score"]

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
                per_sample = (self.probabilities_, self.view_weights_, self._agreement)
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
        of_consensus = agreement if self.n_voters_ > 1 else None
        return table_of_assignments(index, probabilities, weights, self.view_names_, of_consensus)

    def _infer(self, X: Any, observed: Any) -> Inferred:
        views = self._views_to_predict(X, observed)  # which first checks that there is a fit
        return infer(self._ensemble, self._scaling, views)

    # --- saving ---------------------------------------------------------------------------------

    _per_sample = ("labels_", "probabilities_", "view_weights_", "agreement_", "latent_")
    _fitted = (
        *("_likelihoods", "seed_", "objective_", "objectives_", "n_iter_", "warnings_"),
        *("view_trust_", "view_agreement_", "view_influence_", "view_support_"),
    )

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return pack_networks(self)

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        unpack_networks(self, tensors, config)


def _is_sorted(order: NDArray[np.intp] | None) -> bool:
    return order is not None and bool((order == np.arange(len(order))).all())
