"""DSIMVC: samples filled by their neighbours, and trusted as far as they help the complete ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from acova.compared.dsimvc_network import SafeContrast
from acova.engine import ParameterGroup, Phase, RunData, StratifiedData, generator
from acova.estimators._deep import DeepClusterer
from acova.estimators.recipes import CLUSTERS_ONLY
from acova.estimators.rules import COUNT, EPOCHS, POSITIVE, Rule
from acova.functional import Lenders, cross_view_lenders
from acova.training.inference import CHUNK
from acova.training.job import Job
from acova.training.method import Group, Method, complete_rows
from acova.training.requirements import Requirements

# Of DSIMVC's authors: Multi-Fashion, the defaults for all others; NoisyMNIST takes the row of MNIST-USPS (ours).
PRESETS: Mapping[str, Mapping[str, Any]] = {
    **CLUSTERS_ONLY,
    "fashion": {"n_clusters": 10, "pretrain_epochs": 200, "iterations": 300},
    "noisymnist": {"n_clusters": 10, "initial_epochs": 80},
}


@dataclass(frozen=True)
class SafeImputation(Method):
    """The training of DSIMVC: a network that finds neighbours, then one that learns from what they fill."""

    epochs = ("imputer_epochs", "initial_epochs", "pretrain_epochs", "iterations")
    requirements = Requirements(
        "it compares samples with each other", one_process=True, least_views=2, complete_only=True
    )

    def build(self, job: Job) -> SafeContrast:
        """Return a network with fresh weights."""
        settings = job.settings
        return SafeContrast(
            job.sizes,
            settings.latent_dim,
            settings.n_clusters,
            hidden=settings.hidden,
            feature_dim=settings.feature_dim,
            virtual_rate=settings.virtual_rate,
            generator=generator(job.streams.integer("weights")),
        )

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return both phases of the first network, which fills the samples, and both of the second."""
        settings, imputation = group.settings, Imputation(group)

        def fill_and_restart() -> None:
            imputation.fill()
            self._restart(group)

        imputer = _autoencoding(group, "imputer_pretrain", settings.imputer_epochs, "learning_rate")
        yield replace(imputer, data=imputation.complete)
        yield replace(_first_contrast(group), data=imputation.complete)
        pretraining = _autoencoding(group, "pretrain", settings.pretrain_epochs, "pretrain_learning_rate")
        yield replace(pretraining, data=imputation.complete, prepare=fill_and_restart)
        yield _training(group, imputation)

    @torch.no_grad()
    def _restart(self, group: Group) -> None:
        """Give the networks fresh weights: the first network has done its work."""
        for job, network in zip(group.jobs, group.networks, strict=True):
            fresh = self.build(replace(job, streams=job.streams.child("second")))
            for parameter, other in zip(network.parameters(), fresh.parameters(), strict=True):
                parameter.copy_(other)


class Imputation:
    """The runs' data with missing views filled by neighbours, in memory that stays where it is.

    Attributes
    ----------
    complete : RunData
        All samples, of which an epoch takes those that have all views.
    incomplete : Tensor of shape (R, m)
        The rows of the others.
    """

    def __init__(self, group: Group) -> None:
        runs = range(len(group.jobs))
        self._sources, self._networks = [group.data.of_run(run) for run in runs], group.networks
        self._n_neighbors = group.settings.n_neighbors
        self._rows = complete_rows(cast(RunData, group.data), len(runs))  # views on disk were refused
        self.incomplete = torch.stack([(~source.observed.all(1)).nonzero().squeeze(-1) for source in self._sources])
        views = [torch.stack(same) for same in zip(*(source.views for source in self._sources), strict=True)]
        observed = torch.stack([source.observed for source in self._sources])
        self.complete = RunData(views, observed, rows=self._rows, derived=True)

    @property
    def fills(self) -> bool:
        """Whether any sample lacks a view."""
        return bool(self.incomplete.shape[1])

    def mixed(self, count: int) -> StratifiedData:
        """Return batches of as many complete as filled samples."""
        groups = [self._rows, self.incomplete] if self.fills else [self._rows]
        return StratifiedData(self.complete, groups, count, derived=True)

    @torch.no_grad()
    def fill(self) -> None:
        """Fill every run's missing views by the features of its network as it is."""
        if not self.fills:
            return
        for run, (source, network) in enumerate(zip(self._sources, self._networks, strict=True)):
            observed, rows = source.observed, self.incomplete[run]
            features = torch.cat([network.features(part.views) for part in source.split(CHUNK)])
            lenders = cross_view_lenders(features[rows], observed[rows], features, observed, self._n_neighbors)
            for v, (view, of_view) in enumerate(zip(source.views, lenders, strict=True)):
                seen = observed[:, v]
                mean = _mean_of(view, of_view, view[seen].mean(0))
                self.complete.views[v][run, rows] = torch.where(seen[rows].unsqueeze(-1), view[rows], mean)


def _mean_of(view: Tensor, lenders: Lenders, fallback: Tensor) -> Tensor:
    """Return the mean row (n, P) of the lenders, one after the other to spare memory."""
    total, count = torch.zeros_like(view[lenders.row[:, 0]]), lenders.found.sum(1, keepdim=True)
    for index, found in zip(lenders.row.unbind(1), lenders.found.unbind(1), strict=True):
        total += torch.where(found.unsqueeze(-1), view[index], 0.0)
    return torch.where(count > 0, total / count.clamp(min=1), fallback)


def _autoencoding(group: Group, name: str, epochs: int, rate: str) -> Phase:
    names = group.parameters("body.encoders.", "decoders.")
    groups = [ParameterGroup(names, group.rates(rate))]
    batch_size = group.settings.batch_size
    return Phase(name, epochs, batch_size, SafeContrast.autoencoding_loss, groups, drop_last="joined")


def _first_contrast(group: Group) -> Phase:
    settings = group.settings
    return Phase(
        "imputer",
        settings.initial_epochs,
        settings.batch_size,
        partial(SafeContrast.loss, unit=True),
        [ParameterGroup(group.parameters("body."), group.rates("learning_rate"))],
        drop_last="partial" if settings.drop_last else "joined",
    )


def _training(group: Group, imputation: Imputation) -> Phase:
    settings = group.settings
    groups = [ParameterGroup(group.parameters("body."), group.rates("learning_rate"))]
    if imputation.fills:
        groups.append(ParameterGroup(group.parameters("weigher."), group.rates("weigher_learning_rate")))

    def refresh(step: int) -> None:
        if step and settings.refresh_every and step % settings.refresh_every == 0:
            imputation.fill()

    return Phase(
        "train",
        settings.iterations,
        2 * settings.batch_size,
        partial(SafeContrast.bilevel_loss, n_complete=settings.batch_size),
        groups,
        patience=settings.patience,
        tol=settings.tol,
        before_epoch=refresh,
        data=imputation.mixed(settings.batch_size),
    )


class DSIMVC(DeepClusterer):
    """Deep safe incomplete multi-view clustering (Tang & Liu, ICML 2022).

    A first network, trained on samples that have all views, finds each sample's neighbours; missing views are filled
    with the mean of the nearest neighbours that have them. A second network then learns by contrast between views, of
    complete and of filled samples. How much a filled sample counts is learned too, so that a step on them helps the
    complete ones. The cluster of a sample, training or new, is the one that its observed views give on average; filled
    views have no say. `score` is minus the mean objective per sample: there is no generative model whose evidence it
    could bound.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of each view's code.
    feature_dim : int
        Dimension of the features that are contrasted, and by which neighbours are found.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders of the pretraining mirror them.
    imputer_epochs : int
        Epochs of the first network's auto-encoders, on complete samples.
    initial_epochs : int
        Epochs of the first network's contrast after them.
    pretrain_epochs : int
        Epochs of the second network's auto-encoders, on complete samples.
    iterations : int
        Steps of the second network's contrast, each on `batch_size` complete and as many filled samples.
    batch_size : int
        Samples per step of the optimiser.
    learning_rate : float
        Adam's learning rate.
    pretrain_learning_rate : float
        Learning rate of the second network's auto-encoders.
    weigher_learning_rate : float
        Learning rate of what weighs filled samples.
    virtual_rate : float
        Length of the virtual step by which those weights are judged.
    n_neighbors : int
        Neighbours that a missing view is filled from.
    refresh_every : int
        Steps after which samples are filled anew, by the features as they then are; 0 fills once, which is what the
        authors' program does, whose later imputations reach no training step.
    drop_last : bool
        Leave out a last batch that is not full when the first network is trained by contrast, as the authors' program
        does: with fewer complete samples than `batch_size`, it is not.
    patience : int or None
        The second network's contrast ends early when its objective did not improve by `tol` for this many steps; None
        takes all steps.
    tol : float
        The least improvement that counts, as a share of the objective.
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    n_init : int
        Number of independent runs. Without `consensus`, the run with the lowest objective is kept. On a CPU long runs
        train side by side in processes; ``joblib.parallel_config(n_jobs=…)`` says how many.
    consensus : bool
        Match the clusters of all runs and average their assignments, in `predict` too.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.
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
    probabilities_ : array of shape (n_samples, n_clusters)
        The mean of what the sample's views say; `transform` gives the same.
    view_weights_ : array of shape (n_samples, V)
        The views that a sample has, each with the same weight.
    agreement_, history_, objective_, objectives_, network_
        As for `ACOVA`; the objective is the contrast of complete samples, and the history's phase ``"train"`` has a
        row per step.
    n_iter_ : int
        Steps taken of the second network's contrast.

    See Also
    --------
    CPSPAN, PMIMC : Learn from samples that lack views, too.
    """

    method = SafeImputation()
    presets = PRESETS
    _rules: ClassVar[Mapping[str, Rule]] = {
        **dict.fromkeys(("imputer_epochs", "initial_epochs", "iterations", "refresh_every"), EPOCHS),
        **dict.fromkeys(("weigher_learning_rate", "virtual_rate"), POSITIVE),
        "feature_dim": COUNT,
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 512,
        feature_dim: int = 128,
        hidden: Sequence[int] = (500, 500, 2000),
        imputer_epochs: int = 200,
        initial_epochs: int = 100,
        pretrain_epochs: int = 100,
        iterations: int = 200,
        batch_size: int = 256,
        learning_rate: float = 3e-4,
        pretrain_learning_rate: float = 3e-4,
        weigher_learning_rate: float = 4e-4,
        virtual_rate: float = 1e-3,
        n_neighbors: int = 3,
        refresh_every: int = 0,
        drop_last: bool = False,
        patience: int | None = None,
        tol: float = 1e-3,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = "unit",
        n_init: int = 1,
        consensus: bool = False,
        view_sizes: Sequence[int] | None = None,
        device: str = "auto",
        precision: str = "tf32",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.feature_dim = feature_dim
        self.hidden = hidden
        self.imputer_epochs = imputer_epochs
        self.initial_epochs = initial_epochs
        self.pretrain_epochs = pretrain_epochs
        self.iterations = iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.weigher_learning_rate = weigher_learning_rate
        self.virtual_rate = virtual_rate
        self.n_neighbors = n_neighbors
        self.refresh_every = refresh_every
        self.drop_last = drop_last
        self.patience = patience
        self.tol = tol
        self.standardize = standardize
        self.n_init = n_init
        self.consensus = consensus
        self.view_sizes = view_sizes
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.verbose = verbose
