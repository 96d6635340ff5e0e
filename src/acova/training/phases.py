"""How runs are trained: pretraining, an optional warm-up, the start of the clusters, training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import entr
from torch import Tensor

from acova.base import RunFolderError, Streams
from acova.engine import (
    EpochReport,
    Keeper,
    ParameterGroup,
    Phase,
    Processes,
    Reader,
    RunData,
    Runs,
    StreamedData,
    Trainer,
    freed_memory_kept,
    generator,
    gpu_for_training,
    multiplications,
    network_dtype,
    threads_for,
)
from acova.functional import distance_to_identity
from acova.networks import MultiViewVAE
from acova.training.correlations import given_correlation, starting_correlation
from acova.training.starts import start_correlations, start_priors

if TYPE_CHECKING:
    from acova.estimators.acova import ACOVA


_LEAST_TRUST = 1e-4
"""A view that is not trusted at all is still decoded, so that its decoder means something."""
_NOTHING = float(np.finfo(np.float32).tiny)
"""The cost of a view in which nothing varies."""


@dataclass(frozen=True)
class Job:
    """One run to train: its settings, its random streams, and its data on the device or on disk.

    `settings` have nothing left to a recipe. Where neighbours count, `targets` are what the latent vectors are decoded
    to, hidden views included. `variances` are the views' total variances, `costs` what decoding each to its
    mean costs. With several processes `views`, `targets` and
    `observed` are this process's share of the samples. `hidden` are the views with what they hide, for an oracle.
    """

    settings: "ACOVA"
    likelihoods: tuple[str, ...]
    sizes: tuple[int, ...]
    n_samples: int
    device: torch.device
    streams: Streams
    views: list[Tensor] | None = None
    targets: list[Tensor] | None = None
    observed: Tensor | None = None
    read: Reader | None = None
    hidden: list[Tensor] | None = None
    variances: NDArray[np.float64] | None = None
    costs: NDArray[np.float64] | None = None
    trust: NDArray[np.float64] | None = None

    def network(self) -> MultiViewVAE:
        """Return a network with fresh weights."""
        settings = self.settings
        weights = reconstruction_weights(
            settings.balance, settings.reconstruction_scale, self.sizes, self.likelihoods, self.costs, self.trust
        )
        return self.settings._new_network(self.sizes, self.likelihoods, self.streams, weights).to(self.device)


@dataclass(frozen=True)
class TrainedRun:
    """A trained network and a record per epoch."""

    network: MultiViewVAE
    records: list[dict[str, Any]]


def train_together(
    jobs: Sequence[Job], report: EpochReport | None, keeper: Keeper, processes: Processes
) -> list[TrainedRun]:
    """Train runs as one computation."""
    device, precision = jobs[0].device, jobs[0].settings.precision
    with gpu_for_training(precision, device), freed_memory_kept(device):
        networks = [job.network() for job in jobs]
        for network in networks:
            network.compute_in(network_dtype(precision, device, network))
        runs = Runs(networks, processes=processes)
        data = _run_data(jobs, processes)
        trainer = Trainer(runs, data, [job.streams for job in jobs], report, keeper)
        with threads_for(multiplications(networks[0], rows_of_a_step(jobs[0]) // processes.size)):
            jobs[0].settings._train(trainer, jobs, networks)
    if keeper.resumed is not None:  # which no phase took
        msg = f"the checkpoint is of a phase {keeper.resumed.phase!r} that this fit lacks; delete it to start afresh."
        raise RunFolderError(msg)
    runs.release()
    return [TrainedRun(network, mine) for network, mine in zip(networks, trainer.records, strict=True)]


def rows_of_a_step(job: Job) -> int:
    """Return the number of samples of a step."""
    return min(job.settings.batch_size, job.n_samples)


def train_phases(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[MultiViewVAE]) -> None:
    """Take runs through pretraining, the warm-up, the start of the clusters and training."""
    runs, data = trainer.runs, trainer.data
    trainer.train(_pretraining(jobs, runs))
    trainer.train(_warmup(jobs, runs), prepare=lambda: start_correlations(jobs, networks, data))
    trainer.train(_training(jobs, runs), prepare=lambda: start_priors(jobs, networks, data))


def _run_data(jobs: Sequence[Job], processes: Processes) -> RunData | StreamedData:
    """Stack the runs' data; data that all runs share stay single."""
    first = jobs[0]
    if first.read is not None:
        return StreamedData(first.read, first.n_samples, first.sizes, first.device, processes=processes)
    distinct = {id(job.views): job for job in jobs}
    parts = [[*(job.views or ()), *(job.targets or ())] for job in distinct.values()]
    views = [_stack(same) for same in zip(*parts, strict=True)]
    observed = _stack([job.observed for job in distinct.values() if job.observed is not None])
    places = list(distinct)
    held = [places.index(id(job.views)) for job in jobs]
    return RunData(views, observed, held=held, n_samples=first.n_samples, processes=processes)


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors in memory that begins where 64 bytes do, since products may round by it; copy only if need be."""
    first = tensors[0]
    aligned = first.is_contiguous() and first.data_ptr() % 64 == 0
    return first.unsqueeze(0) if len(tensors) == 1 and aligned else torch.stack(list(tensors))


def blind_costs(moments: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], likelihoods: Sequence[str]) -> Any:
    """Return what reconstructing each view by the means of its features costs, (V,)."""
    costs = []
    for (mean, variance), likelihood in zip(moments, likelihoods, strict=True):
        match likelihood:
            case "bernoulli":
                costs.append(entr(mean.clip(0, 1)).sum() + entr(1 - mean.clip(0, 1)).sum())
            case "laplace":  # as for normal features
                costs.append(np.sqrt(2 / np.pi * variance).sum())
            case _:
                costs.append(variance.sum())
    return np.maximum(costs, _NOTHING)


def reconstruction_weights(
    balance: bool | float,
    scale: bool | float,
    sizes: Sequence[int],
    likelihoods: Sequence[str],
    costs: NDArray[np.float64] | None,
    trust: NDArray[np.float64] | None = None,
) -> list[float] | None:
    """Return the factors of the views' reconstructions, or None for the sums as they are.

    With `balance`, decoding view v to its mean costs P_v^(1 - balance), times what leaves the sum over the views as it
    is. Bernoulli errors are nats, which have no unit to take off: there it is so for the Bernoulli views together, and
    a feature weighs the same in all that are equally wide. With `scale`, the sum becomes this number. `trust` (V,) is a
    further factor for each view, which leaves the sum as it is.
    """
    if costs is None or (balance is False and scale is False and trust is None):
        return None
    varies = costs > max(np.finfo(np.float32).eps * costs.max(), 2 * _NOTHING)
    if not varies.any():  # a single sample, or copies of it
        return None
    widths = np.array(sizes, dtype=np.float64)
    nats = varies & (np.array(likelihoods) == "bernoulli")
    units = np.where(nats, widths * costs[nats].sum() / max(widths[nats].sum(), 1.0), costs)
    relative = np.ones_like(costs) if balance is False else widths ** (1.0 - balance) / units
    if trust is not None:
        relative = relative * np.maximum(trust, _LEAST_TRUST)
    total = costs.sum() if scale is False else float(scale)
    weights: list[float] = np.where(varies, relative * total / (relative * costs)[varies].sum(), 1.0).tolist()
    return weights


def new_network(
    settings: "ACOVA",
    view_sizes: Sequence[int],
    likelihoods: Sequence[str],
    streams: Streams,
    weights: Sequence[float] | None = None,
) -> MultiViewVAE:
    """Return a network with fresh parameters, and the given weights of the views' reconstructions."""
    n_views = len(view_sizes)
    learned = _is_word(settings.correlation, "learned")
    if learned:
        numbers = streams.numpy("correlation")
        starts = [
            starting_correlation(
                settings.correlation_start, n_views, numbers.standard_normal(n_views * (n_views + 1) // 2)
            )
            for _ in range(settings.n_correlations)
        ]
        matrix = starts[0] if len(starts) == 1 else torch.stack(starts)
    elif _is_word(settings.correlation, "identity"):
        matrix = torch.eye(n_views, dtype=torch.float64)
    else:
        matrix = given_correlation("correlation", settings.correlation, n_views)
    return MultiViewVAE(
        view_sizes,
        settings.latent_dim,
        settings.n_clusters,
        hidden=settings.hidden,
        likelihoods=likelihoods,
        alpha=settings.alpha,
        correlation=matrix,
        learn_correlation=learned,
        missing=settings.missing,  # type: ignore[arg-type]
        min_std=settings.min_std,
        assignment=settings.assignment,
        reconstruction_weights=weights,
        fusion=settings.fusion,
        scale_is=settings.scale_is,
        density_floor=settings.density_floor,
        elbo_weight=settings.elbo_weight,
        generator=generator(streams.integer("weights")),
    )


def _pretraining(jobs: Sequence[Job], runs: Runs) -> Phase:
    group = ParameterGroup(_autoencoders(runs), rates(jobs, "pretrain_learning_rate"))
    settings = jobs[0].settings
    return Phase(
        "pretrain",
        settings.pretrain_epochs,
        settings.batch_size,
        MultiViewVAE.autoencoding_loss,
        [group],
        patience=settings.patience,
        tol=settings.tol,
    )


def _warmup(jobs: Sequence[Job], runs: Runs) -> Phase:
    settings = jobs[0].settings
    loss = partial(MultiViewVAE.warmup_loss, kl_weight=settings.warmup_kl, fill_weight=settings.neighbor_weight**2)
    return _joint_phase(jobs, runs, "warmup", settings.warmup_epochs, loss)


def _training(jobs: Sequence[Job], runs: Runs) -> Phase:
    prior = [
        ParameterGroup(["prior.means", "prior.scale"], rates(jobs, "prior_learning_rate")),
        ParameterGroup(["prior.logits"], rates(jobs, "weight_learning_rate")),
    ]
    settings = jobs[0].settings
    loss = partial(MultiViewVAE.loss, fill_weight=settings.neighbor_weight**2)
    return _joint_phase(jobs, runs, "train", settings.epochs, loss, prior, settings.learning_rate_decay)


def _joint_phase(
    jobs: Sequence[Job],
    runs: Runs,
    name: str,
    epochs: int,
    loss: Any,
    more_groups: Sequence[ParameterGroup] = (),
    decay: float = 1.0,
) -> Phase:
    """Return a phase that trains all views together, and the correlation with them."""
    groups = [ParameterGroup(_autoencoders(runs), rates(jobs, "learning_rate")), *more_groups]
    if "correlation_parameter" in runs.parameters:
        groups.append(ParameterGroup(["correlation_parameter"], rates(jobs, "correlation_learning_rate")))
    if "fusion_logits" in runs.parameters:
        groups.append(ParameterGroup(["fusion_logits"], rates(jobs, "prior_learning_rate")))
    settings = jobs[0].settings
    return Phase(
        name,
        epochs,
        settings.batch_size,
        loss,
        groups,
        noise_shape=(2, settings.latent_dim),
        decay=decay,
        decay_every=settings.decay_every,
        clip_norm=settings.clip_norm,
        measure=_correlation_distance if runs.networks[0].correlates else None,
        patience=settings.patience,
        tol=settings.tol,
    )


def _correlation_distance(network: MultiViewVAE) -> dict[str, Tensor]:
    return {"correlation_distance": distance_to_identity(network.correlation()).mean()}


def _autoencoders(runs: Runs) -> list[str]:
    return [name for name in runs.parameters if name.startswith(("encoders.", "decoders."))]


def rates(jobs: Sequence[Job], option: str) -> list[float]:
    """Return a learning rate of every run."""
    return [float(getattr(job.settings, option)) for job in jobs]


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
