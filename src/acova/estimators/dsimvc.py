"""DSIMVC: samples filled by their neighbours, and trusted as far as they help the complete ones."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from acova.base import Streams
from acova.engine import ParameterGroup, Phase, RunData, StratifiedData, Trainer, generator
from acova.estimators._validation import COUNT, EPOCHS, POSITIVE
from acova.estimators.coded import DEFAULTS, NOT_THEIRS, CodeClusterer, complete_rows
from acova.estimators.method_presets import DSIMVC_PRESETS
from acova.estimators.variants import variant
from acova.functional import Lenders, cross_view_lenders
from acova.networks import SafeContrast
from acova.training.phases import Job, rates
from acova.training.starts import in_chunks


@variant(
    fixed={**NOT_THEIRS, "epochs": 0},
    own={
        **DEFAULTS,
        "latent_dim": 512,
        "feature_dim": 128,
        "hidden": (500, 500, 2000),
        "imputer_epochs": 200,
        "initial_epochs": 100,
        "pretrain_epochs": 100,
        "iterations": 200,
        "learning_rate": 3e-4,
        "pretrain_learning_rate": 3e-4,
        "weigher_learning_rate": 4e-4,
        "virtual_rate": 1e-3,
        "n_neighbors": 3,
        "refresh_every": 0,
        "drop_last": False,
    },
)
class DSIMVC(CodeClusterer):
    """Deep safe incomplete multi-view clustering (Tang & Liu, ICML 2022).

    A first network, trained on samples that have all views, tells who is like whom; incomplete samples are filled with
    the mean of what their nearest neighbours have. A second network then learns by contrast between views, of complete
    and of filled samples. How much a filled sample counts is learned too, so that a step on them helps the complete
    ones. A sample's cluster is the one that the views it has, new samples' too, say on average; what was filled is
    not asked.

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
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.

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
    """

    presets = DSIMVC_PRESETS
    _of_complete = True
    _least_views = 2
    _numbers: ClassVar[Any] = {
        **dict.fromkeys(("imputer_epochs", "initial_epochs", "iterations", "refresh_every"), EPOCHS),
        **dict.fromkeys(("weigher_learning_rate", "virtual_rate"), POSITIVE),
        "feature_dim": COUNT,
    }
    feature_dim: int
    imputer_epochs: int
    initial_epochs: int
    iterations: int
    weigher_learning_rate: float
    virtual_rate: float
    refresh_every: int
    n_neighbors: int

    def _new_network(  # type: ignore[override]
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> SafeContrast:
        return SafeContrast(
            view_sizes,
            self.latent_dim,
            self.n_clusters,
            hidden=self.hidden,
            feature_dim=self.feature_dim,
            virtual_rate=self.virtual_rate,
            generator=generator(streams.integer("weights")),
        )

    def _epochs_of_a_run(self) -> int:
        return int(self.imputer_epochs + self.initial_epochs + self.pretrain_epochs + self.iterations)

    def _count_features(self) -> int:
        return self.n_clusters

    @staticmethod
    def _train(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[Any]) -> None:
        everything = cast(RunData, trainer.data)  # `_suit` refuses views on disk
        settings: Any = jobs[0].settings
        filled = _Filled(everything, networks, settings.n_neighbors)
        trainer.data = filled.complete
        trainer.train(_autoencoding(trainer, jobs, "imputer_pretrain", settings.imputer_epochs, "learning_rate"))
        trainer.train(_first_contrast(trainer, jobs))

        def fill_and_restart() -> None:
            filled.fill()
            _restart(jobs, networks)

        rate = "pretrain_learning_rate"
        first = _autoencoding(trainer, jobs, "pretrain", settings.pretrain_epochs, rate)
        trainer.train(first, prepare=fill_and_restart)
        trainer.data = filled.mixed(settings.batch_size)
        trainer.train(_training(trainer, jobs, filled))
        trainer.data = everything


class _Filled:
    """The runs' data with holes filled by neighbours, in memory that stays where it is."""

    def __init__(self, data: RunData, networks: Sequence[SafeContrast], n_neighbors: int) -> None:
        self._data, self._networks, self._n_neighbors = data, networks, n_neighbors
        runs = range(len(networks))
        held = [data.of_run(run) for run in runs]
        self.rows = complete_rows(data, len(networks))
        self.lacking = torch.stack([(~observed.all(1)).nonzero().squeeze(-1) for _, observed in held])
        views = [torch.stack(same) for same in zip(*(views for views, _ in held), strict=True)]
        observed = torch.stack([observed for _, observed in held])
        self.complete = RunData(views, observed, rows=self.rows, derived=True)

    def mixed(self, count: int) -> StratifiedData:
        """Return batches of as many complete as filled samples."""
        groups = [self.rows, self.lacking] if self.lacking.shape[1] else [self.rows]
        return StratifiedData(self.complete, groups, count, derived=True)

    @torch.no_grad()
    def fill(self) -> None:
        """Fill every run's holes by the features of its network as it is."""
        if not self.lacking.shape[1]:
            return
        for run, network in enumerate(self._networks):
            views, observed = self._data.of_run(run)
            features = torch.cat([network.features(*batch) for batch in in_chunks(views, observed)])
            rows = self.lacking[run]
            lenders = cross_view_lenders(features[rows], observed[rows], features, observed, self._n_neighbors)
            for v, (view, of_view) in enumerate(zip(views, lenders, strict=True)):
                seen = observed[:, v]
                lent = _mean_of(view, of_view, view[seen].mean(0))
                self.complete.views[v][run, rows] = torch.where(seen[rows].unsqueeze(-1), view[rows], lent)


def _mean_of(view: Tensor, lenders: Lenders, fallback: Tensor) -> Tensor:
    """Return the mean row (n, P) of the lenders, one after the other to spare memory."""
    total, count = torch.zeros_like(view[lenders.row[:, 0]]), lenders.found.sum(1, keepdim=True)
    for index, found in zip(lenders.row.unbind(1), lenders.found.unbind(1), strict=True):
        total += torch.where(found.unsqueeze(-1), view[index], 0.0)
    return torch.where(count > 0, total / count.clamp(min=1), fallback)


@torch.no_grad()
def _restart(jobs: Sequence[Job], networks: Sequence[SafeContrast]) -> None:
    """Give the networks fresh weights: the first network has done its work."""
    for job, network in zip(jobs, networks, strict=True):
        fresh = job.settings._new_network(job.sizes, job.likelihoods, job.streams.child("second"))
        for parameter, other in zip(network.parameters(), fresh.parameters(), strict=True):
            parameter.copy_(other)


def _autoencoding(trainer: Trainer, jobs: Sequence[Job], name: str, epochs: int, rate: str) -> Phase:
    names = [n for n in trainer.runs.parameters if n.startswith(("body.encoders.", "decoders."))]
    loss = SafeContrast.autoencoding_loss
    return Phase(name, epochs, _batch(jobs), loss, [ParameterGroup(names, rates(jobs, rate))], drop_last="joined")


def _first_contrast(trainer: Trainer, jobs: Sequence[Job]) -> Phase:
    settings: Any = jobs[0].settings
    return Phase(
        "imputer",
        settings.initial_epochs,
        settings.batch_size,
        partial(SafeContrast.loss, unit=True),
        [ParameterGroup(_body(trainer), rates(jobs, "learning_rate"))],
        drop_last="partial" if settings.drop_last else "joined",
    )


def _training(trainer: Trainer, jobs: Sequence[Job], filled: _Filled) -> Phase:
    settings: Any = jobs[0].settings
    weigher = [name for name in trainer.runs.parameters if name.startswith("weigher.")]
    groups = [ParameterGroup(_body(trainer), rates(jobs, "learning_rate"))]
    if filled.lacking.shape[1]:
        groups.append(ParameterGroup(weigher, rates(jobs, "weigher_learning_rate")))

    def refresh(step: int) -> None:
        if step and settings.refresh_every and step % settings.refresh_every == 0:
            filled.fill()

    return Phase(
        "train",
        settings.iterations,
        2 * settings.batch_size,
        partial(SafeContrast.bilevel_loss, n_complete=settings.batch_size),
        groups,
        patience=settings.patience,
        tol=settings.tol,
        before_epoch=refresh,
    )


def _body(trainer: Trainer) -> list[str]:
    return [name for name in trainer.runs.parameters if name.startswith("body.")]


def _batch(jobs: Sequence[Job]) -> int:
    return int(jobs[0].settings.batch_size)
