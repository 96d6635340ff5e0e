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
from acova.estimators._latent import LatentMixin, pieces_of, tables_of_assignments
from acova.estimators._notebook import NotebookMixin
from acova.estimators._outliers import NetworkOutliersMixin, OutliersMixin
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
from acova.functional import Batch
from acova.training.checkpoint import Checkpoint, fingerprint
from acova.training.confidence import tempered
from acova.training.consensus import Ensemble
from acova.training.convergence import doubts_about, warn_of
from acova.training.covariate_effects import with_covariates
from acova.training.extremes import overflow_allowed
from acova.training.inference import (
    Inferred,
    batch_between,
    device_of,
    infer,
    infer_chunks,
    matched_runs,
    mean_objective,
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

    def transform(self, X: Any, *, observed: Any = None, covariates: Any = None) -> Any:
        """Return the fused latent mean of each sample, array (n_samples, latent_dim).

        After ``set_output(transform="pandas")`` it is a DataFrame under the samples' names.
        """
        views = self._views_to_predict(*self._with_covariates(X, observed, covariates))
        return self._in_container(infer(self._ensemble, self._scaling, views).latent, views.index)

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
