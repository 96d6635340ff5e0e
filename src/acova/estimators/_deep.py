"""Clusterers that train networks: from checked views to runs, and from runs to a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from acova.base import OptionError, Streams, TrainingError
from acova.clustering.numbering import ROUNDS, is_in_order, order_after
from acova.data import Scaling, StoredViews, Views
from acova.engine.distributed import ALONE, Processes, job_processes
from acova.engine.runtime import computation
from acova.estimators._base import MultiViewClusterer, canonical_order
from acova.estimators._checks import ChecksMixin, doubts_about_missingness
from acova.estimators._comparison import ComparisonMixin
from acova.estimators._explanation import ExplanationMixin
from acova.estimators._growth import GrowthMixin
from acova.estimators._imputation import ImputationMixin
from acova.estimators._labels import KnownLabels, doubts_about_labels, known_labels, refuse_labels
from acova.estimators._latent import LatentMixin
from acova.estimators._notebook import NotebookMixin
from acova.estimators._outliers import NetworkOutliersMixin, OutliersMixin
from acova.estimators._prediction import PredictionMixin
from acova.estimators._refit import RefitMixin
from acova.estimators._resolution import (
    checked_settings,
    covariate_use_of,
    identity_of,
    left_open,
    resolved_settings,
    seed_of,
    settings_of_fit,
)
from acova.estimators._tree import TreeMixin
from acova.estimators._validation import adjustable, blocks_of_categories, check_likelihoods, scaling_kinds
from acova.estimators.persistence import pack_networks, unpack_networks
from acova.estimators.selection import doubts_about_number, numbers_for
from acova.training.checkpoint import Checkpoint, fingerprint
from acova.training.confidence import tempered
from acova.training.consensus import Ensemble
from acova.training.convergence import doubts_about, warn_of
from acova.training.covariate_effects import with_covariates
from acova.training.extremes import overflow_allowed
from acova.training.inference import (
    Inferred,
    infer,
    matched_runs,
    trained_objective,
)
from acova.training.influence import Influence, influence_of_views
from acova.training.job import Job, Settings, TrainedRun
from acova.training.method import Method, with_labels
from acova.training.progress import progress_bar
from acova.training.provenance import provenance
from acova.training.schedule import train_runs
from acova.training.spreads import fit_spreads

_CHECKPOINT_EVERY = 10
"""Epochs between the checkpoints of a method that has no setting for it."""


@dataclass(frozen=True)
class Prepared:
    """Checked training data in the order of training, that order (None: as given), runs, scalings, known labels."""

    views: Views | StoredViews
    order: NDArray[np.intp] | None
    jobs: list[Job]
    processes: Processes
    scalings: tuple[str, ...]
    known: KnownLabels | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs of all runs."""
        return sum(job.epochs for job in self.jobs)

    @property
    def settings(self) -> Settings:
        """The settings of the fit."""
        return self.jobs[0].settings


class DeepClusterer(
    NotebookMixin,
    ExplanationMixin,
    ImputationMixin,
    GrowthMixin,
    ChecksMixin,
    RefitMixin,
    ComparisonMixin,
    TreeMixin,
    NetworkOutliersMixin,
    OutliersMixin,
    PredictionMixin,
    LatentMixin,
    MultiViewClusterer,
):
    """A clusterer that trains a network: fit, use, save and load. A subclass names its settings and its method.

    Attributes
    ----------
    method : Method
        How networks are built and trained.
    """

    method: ClassVar[Method]
    _fixed: ClassVar[Mapping[str, Any]] = {}
    """Settings that other methods have, at the value that they have here."""
    _without: ClassVar[Sequence[str]] = ()
    """Settings of `Training` that say nothing here."""

    n_clusters: Any
    random_state: Any
    checkpoint: str | Path | None
    verbose: bool
    view_trust_: NDArray[np.float64]
    view_agreement_: NDArray[np.float64]
    view_influence_: NDArray[np.float64]
    view_support_: NDArray[np.float64]

    # --- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, observed: Any = None, covariates: Any = None) -> Self:
        """Learn the clusters.

        Parameters
        ----------
        X : list, dict, DataFrames, array or Views
            See `acova.Views.of`. A missing view is a row of NaN, or a sample absent from a DataFrame; NaN in single
            cells of a row are empty cells.
        y : array or Series of int or str, optional
            Labels of some of the samples, -1 (or NaN, None, a name that a Series lacks) for the others. ACOVA, MoE,
            WeightedFusion, CoDE and DVIMC follow them: cluster k is that of ``classes_[k]``, and further clusters come
            after these, the largest first. Other methods refuse them. A `y` without unknown labels is ignored, as
            scikit-learn's clusterers ignore it.
        observed : array of bool, shape (n_samples, V), optional
            False hides a view of a sample, whatever its cells hold.
        covariates : DataFrame or Series, optional
            What else is known of the samples, such as batch, site or age: words or numbers, joined on the index. What
            it explains of a scaled feature, by least squares, is taken off before anything else; a difference between
            clusters that goes with a covariate is lost with it. The same as ``Views.with_covariates``.
        """
        X, observed = self._with_covariates(X, observed, covariates, reset=True)
        with job_processes() as processes:
            if self.checkpoint is None:
                self._fit(X, observed, processes, y=y)
            else:
                with Checkpoint(self.checkpoint, self._checkpoint_every, processes) as checkpoint:
                    self._fit(X, observed, processes, checkpoint, y=y)
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
        y: Any = None,
    ) -> None:
        """Fit with checkpoints in a folder; `begin` is called when settings and data are found good."""
        prepared = self._prepare(X, observed, processes, y)
        if begin is not None:
            processes.first_does(begin)
        if checkpoint is not None:
            identity = identity_of(self, prepared.settings)
            told = {} if prepared.known is None else {"labels": prepared.known.clusters.tolist()}
            checkpoint.open({"params": identity, "seed": self.seed_, "data": fingerprint(prepared.views), **told})
        shown = int(self.verbose) if processes.is_first else 0
        with progress_bar(type(self).__name__, prepared.epochs, shown=shown) as report:
            runs = train_runs(prepared.jobs, report, checkpoint=checkpoint, processes=processes)
        self._finish(prepared, runs)

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE, y: Any = None) -> Prepared:
        """Check settings and data, learn the scaling, and list the runs to train."""
        method, settings = self.method, checked_settings(self)
        if method.requirements.one_process and processes.size > 1:
            msg = (
                f"{settings.who}: its batches are compared as a whole, so one process trains it; got a job of "
                f"{processes.size} processes. Start it without torchrun."
            )
            raise OptionError(msg)
        given = self._views_to_fit(X, observed)
        method.requirements.check(settings.who, given)
        settings = method.suited(settings, left_open(self), given)
        order = None if isinstance(given, StoredViews) else canonical_order(given.index)
        known = self._labels_to_follow(y, given, order)
        views = given if isinstance(given, StoredViews) or _is_sorted(order) else given.take(order)
        with overflow_allowed():
            self._likelihoods, features = check_likelihoods(settings, views, method.requirements.likelihoods)
        kinds = scaling_kinds(settings.who, settings.standardize, views, self._likelihoods, features)
        self._learn_scaling(views, kinds)
        self.seed_ = processes.agree(seed_of(self))
        settings = self._with_number(settings, views)
        streams = Streams(self.seed_)
        data = method.prepare(settings, views, self._scaling, self._likelihoods, processes)
        if known is not None:
            data = with_labels(data, known.clusters, processes)
        blocks = tuple(blocks_of_categories(views, v) for v in range(views.n_views))
        jobs = [
            Job(
                method,
                settings,
                self._likelihoods,
                views.sizes,
                len(views),
                streams.child("run", run),
                data,
                self._scaling.marks,
                blocks,
                self._scaling.n_told,
            )
            for run in range(settings.n_init)
        ]
        return Prepared(views, order, jobs, processes, kinds, known)

    def _labels_to_follow(
        self, y: Any, views: Views | StoredViews, order: NDArray[np.intp] | None
    ) -> KnownLabels | None:
        """Return the labels that clusters follow, in the order of training."""
        who, self._classes = type(self).__name__, None
        if not self.method.requirements.follows_labels:
            refuse_labels(who, y, views.index, self.n_clusters)
            return None
        known = known_labels(who, y, views.index, self.n_clusters)
        if known is None:
            return None
        if isinstance(views, StoredViews):
            msg = f"{who}: labels in y need views in memory, but these views stay on disk; leave y out."
            raise OptionError(msg)
        self._classes = known.classes
        return known.take(order)

    def _adjusted(self, scaling: Scaling, views: Views | StoredViews) -> Scaling:
        if not isinstance(views, Views) or views.covariates is None:
            return scaling
        use = covariate_use_of(self)
        adjusts = adjustable(type(self).__name__, use, self._likelihoods, views.names)
        return with_covariates(scaling, views, adjusts=adjusts, tells=use != "adjust")

    def _with_number(self, settings: Settings, views: Views | StoredViews) -> Settings:
        """Choose the number of clusters where it is left to the data."""
        self.cluster_numbers_ = None
        if settings.n_clusters != "auto":
            return settings
        self.cluster_numbers_ = numbers_for(settings.who, views, self._scaling, self.seed_)
        return settings.replaced(n_clusters=self.cluster_numbers_.n_clusters)

    @property
    def _marks_empty_cells(self) -> bool:
        return self.method.requirements.marks_empty_cells

    @property
    def _checkpoint_every(self) -> int:
        settings = resolved_settings(self)
        every: int = settings.get("checkpoint_every", _CHECKPOINT_EVERY)  # checked with the other settings
        return every

    def _finish(self, prepared: Prepared, runs: Sequence[TrainedRun]) -> Self:
        """Average the runs or keep the one with the lowest objective, and tell what it says of the training data."""
        views, processes = prepared.views, prepared.processes
        self._take_trust(prepared.jobs[0])
        streams, pairs = Streams(self.seed_).child("score"), zip(prepared.jobs, runs, strict=True)
        self.objectives_ = np.array(
            [trained_objective(job, run.network, self._scaling, views, streams, processes) for job, run in pairs]
        )
        if not np.isfinite(self.objectives_).all():
            msg = (
                f"{type(self).__name__}: training diverged: the loss of the training data is not finite. Keep "
                "standardize=True, lower learning_rate, or look for extreme values in the data."
            )
            raise TrainingError(msg)
        fit_spreads([run.network for run in runs], self._scaling, views, self._likelihoods, processes)
        best = int(self.objectives_.argmin())
        ensemble = Ensemble.of_one(runs[best].network)
        if prepared.settings.consensus and len(runs) > 1:
            n_classes = 0 if prepared.known is None else len(prepared.known.classes)
            ensemble = matched_runs([run.network for run in runs], self._scaling, views, processes, n_classes)
            best = ensemble.reference
        settings = tempered(ensemble, prepared.settings, self._scaling, views, Streams(self.seed_))
        self.settings_ = settings_of_fit(self, prepared, settings, ensemble.network)
        self.objective_ = float(self.objectives_[best])
        records = runs[best].records
        self.history_ = pd.DataFrame(records, columns=None if records else ["phase", "epoch", "total"])
        self.n_iter_ = int((self.history_["phase"] == "train").sum()) if len(self.history_) else 0
        found = self._adopt_numbered(ensemble, prepared)
        self._summarise(views, found.labels)
        self.provenance_ = provenance(prepared.jobs[0].device)
        influence = self._influence(views, found.labels)
        self.view_influence_, self.view_support_ = influence.changed, influence.support
        self.view_shift_ = influence.shift
        followed = doubts_about_labels(prepared.known, found.labels)
        if prepared.order is not None:
            found = found.take(np.argsort(prepared.order))
        self.labels_, self.probabilities_, self.view_weights_ = found.labels, found.probabilities, found.weights
        self._agreement, self.latent_ = found.agreement, found.latent
        agreement = self._agreement if self.n_voters_ > 1 else None
        doubts = doubts_about(self.labels_, self.n_clusters_, self.history_, self.probabilities_, agreement)
        self.warnings_ = [
            *doubts_about_number(self.cluster_numbers_),
            *doubts,
            *followed,
            *influence.warnings,
            *doubts_about_missingness(self.summary_, self.view_names_, self.view_shift_, self.seed_),
        ]
        if processes.is_first:
            warn_of(type(self).__name__, self.warnings_, stacklevel=5)
        return self

    def _influence(self, views: Views | StoredViews, labels: NDArray[np.int64]) -> Influence:
        """Return what the partition owes to each view."""

        def labels_of(samples: Views, observed: NDArray[np.bool_]) -> NDArray[np.int64]:
            return infer(self._ensemble, self._scaling, samples.hide(observed)).labels

        return influence_of_views(views, self._scaling, labels, self.summary_, self.n_clusters_, labels_of)

    def _take_trust(self, job: Job) -> None:
        n_views, data = len(job.sizes), job.data
        self.view_trust_ = np.ones(n_views) if data.trust is None else data.trust
        self.view_agreement_ = np.ones((n_views, n_views)) if data.agreement is None else data.agreement

    def _adopt_numbered(self, ensemble: Ensemble, prepared: Prepared) -> Inferred:
        """Make trained networks the result, with their clusters in order; return what they say of the training data."""
        found = self._infer_training(ensemble, prepared)
        for _ in range(ROUNDS):
            order = order_after(found.labels, self.n_clusters_, len(self._classes or ()))
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
        self._ensemble, self.network_, self._reference = ensemble, ensemble.network, None
        self._usual = None
        for name, value in ensemble.learned().items():
            setattr(self, f"{name}_", value)
        self._n_features_out = self.network_.latent_dim

    # --- using what was learned -----------------------------------------------------------------

    def transform(self, X: Any, *, observed: Any = None, covariates: Any = None) -> Any:
        """Return the fused latent mean of each sample, array (n_samples, latent_dim).

        After ``set_output(transform="pandas")`` it is a DataFrame under the samples' names.
        """
        views = self._views_to_predict(*self._with_covariates(X, observed, covariates))
        return self._in_container(infer(self._ensemble, self._scaling, views).latent, views.index)

    # --- saving ---------------------------------------------------------------------------------

    _per_sample = ("labels_", "probabilities_", "view_weights_", "agreement_", "latent_")
    _fitted = (
        *("_likelihoods", "seed_", "objective_", "objectives_", "n_iter_", "warnings_"),
        *("view_trust_", "view_agreement_", "view_influence_", "view_support_"),
        *("view_shift_", "cluster_numbers_"),
    )

    def _packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return pack_networks(self)

    def _unpack(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        unpack_networks(self, tensors, config)


def _is_sorted(order: NDArray[np.intp] | None) -> bool:
    return order is not None and bool((order == np.arange(len(order))).all())
