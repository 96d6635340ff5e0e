"""How runs are trained: pretraining, an optional warm-up, the start of the clusters, training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from acova.base import Streams
from acova.engine import (
    EpochReport,
    ParameterGroup,
    Phase,
    RunData,
    Runs,
    matmul_precision,
    runs_that_fit,
    seeded,
    train,
)
from acova.estimators.start import (
    averaged_codes,
    code_similarity,
    components_around,
    given_correlation,
    k_means,
    starting_correlation,
)
from acova.functional import distance_to_identity
from acova.networks import MultiViewVAE

if TYPE_CHECKING:
    from acova.estimators.acova import ACOVA

CHUNK = 2048
"""Samples that are encoded at once outside of training."""


@dataclass(frozen=True)
class Job:
    """One run to train: its settings, its data on the device, its random streams."""

    settings: "ACOVA"
    likelihoods: tuple[str, ...]
    views: list[Tensor]
    observed: Tensor
    streams: Streams


@dataclass(frozen=True)
class TrainedRun:
    """A trained network and a record per epoch."""

    network: MultiViewVAE
    records: list[dict[str, Any]]


def train_runs(jobs: Sequence[Job], report: EpochReport | None = None) -> list[TrainedRun]:
    """Train runs whose settings differ in nothing but α, the correlation's values and the seed.

    On a GPU as many as fit into its memory train together; on a CPU one after the other, which is as fast there
    and lets each skip its hidden rows.
    """
    networks = [new_network(job.settings, _sizes(job), job.likelihoods, job.streams) for job in jobs]
    device, settings = jobs[0].observed.device, jobs[0].settings
    # Runs with their own data hold them twice: as they came, and stacked.
    own_bytes = 2 * sum(view.nbytes for view in jobs[0].views) if len({id(job.views) for job in jobs}) > 1 else 0
    noise_bytes = 8 * settings.latent_dim * len(jobs[0].observed)
    together = min(len(jobs), runs_that_fit(networks[0], settings.batch_size, own_bytes + noise_bytes, device))
    trained: list[TrainedRun] = []
    while len(trained) < len(jobs):
        part = slice(len(trained), len(trained) + together)
        try:
            with matmul_precision(settings.precision):
                trained += _train_together(jobs[part], networks[part], report)
        except torch.cuda.OutOfMemoryError:
            if together == 1:
                raise
            together = (together + 1) // 2
            fresh = [new_network(job.settings, _sizes(job), job.likelihoods, job.streams) for job in jobs[part]]
            networks[part] = fresh
            torch.cuda.empty_cache()
    return trained


def _train_together(
    jobs: Sequence[Job], networks: Sequence[MultiViewVAE], report: EpochReport | None
) -> list[TrainedRun]:
    settings = jobs[0].settings
    runs = Runs([network.to(jobs[0].observed.device) for network in networks])
    data = _run_data(jobs)
    streams = [job.streams for job in jobs]
    records = train(_pretraining(settings, runs), runs, data, streams, report)
    for run, (job, network) in enumerate(zip(jobs, networks, strict=True)):
        if network.learns_correlation and _is_word(job.settings.correlation_start, "similarity"):
            views, observed = data.of_run(run)
            network.set_correlation(code_similarity(_codes(network, views, observed), observed.cpu().numpy()))
    records = _joined(records, train(_warmup(settings, runs), runs, data, streams, report))
    _start_priors(jobs, networks, data)
    records = _joined(records, train(_training(settings, runs), runs, data, streams, report))
    runs.release()
    return [TrainedRun(network, mine) for network, mine in zip(networks, records, strict=True)]


def _run_data(jobs: Sequence[Job]) -> RunData:
    """Stack the runs' data; data that all runs share stay single."""
    shared = len({id(job.views) for job in jobs}) == 1
    first = jobs[:1] if shared else jobs
    views = [torch.stack([job.views[v] for job in first]) for v in range(len(jobs[0].views))]
    return RunData(views, torch.stack([job.observed for job in first]))


def _sizes(job: Job) -> list[int]:
    return [view.shape[1] for view in job.views]


def _joined(first: list[list[Any]], second: list[list[Any]]) -> list[list[Any]]:
    return [before + after for before, after in zip(first, second, strict=True)]


def new_network(
    settings: "ACOVA", view_sizes: Sequence[int], likelihoods: Sequence[str], streams: Streams
) -> MultiViewVAE:
    """Return a network with fresh weights."""
    n_views = len(view_sizes)
    learned = _is_word(settings.correlation, "learned")
    if learned:
        noise = streams.numpy("correlation").standard_normal(n_views * (n_views + 1) // 2)
        matrix = starting_correlation(settings.correlation_start, n_views, noise)
    elif _is_word(settings.correlation, "identity"):
        matrix = torch.eye(n_views)
    else:
        matrix = given_correlation("correlation", settings.correlation, n_views)
    with seeded(streams.integer("weights")):
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
        )


def _pretraining(settings: "ACOVA", runs: Runs) -> Phase:
    names = [name for name in runs.parameters if _is_autoencoder(name) and ".scale." not in name]
    group = ParameterGroup(names, settings.pretrain_learning_rate)
    loss = MultiViewVAE.autoencoding_loss
    return Phase("pretrain", settings.pretrain_epochs, settings.batch_size, loss, [group])


def _warmup(settings: "ACOVA", runs: Runs) -> Phase:
    loss = partial(MultiViewVAE.warmup_loss, kl_weight=settings.warmup_kl)
    return _joint_phase(settings, runs, "warmup", settings.warmup_epochs, loss)


def _training(settings: "ACOVA", runs: Runs) -> Phase:
    prior = [
        ParameterGroup(["prior.means", "prior.scale"], settings.prior_learning_rate),
        ParameterGroup(["prior.logits"], settings.weight_learning_rate),
    ]
    decay = settings.learning_rate_decay
    return _joint_phase(settings, runs, "train", settings.epochs, MultiViewVAE.loss, prior, decay)


def _joint_phase(
    settings: "ACOVA",
    runs: Runs,
    name: str,
    epochs: int,
    loss: Any,
    more_groups: Sequence[ParameterGroup] = (),
    decay: float = 1.0,
) -> Phase:
    """Return a phase that trains all views together, and the correlation with them."""
    groups = [ParameterGroup([n for n in runs.parameters if _is_autoencoder(n)], settings.learning_rate), *more_groups]
    if "correlation_parameter" in runs.parameters:
        groups.append(ParameterGroup(["correlation_parameter"], settings.correlation_learning_rate))
    return Phase(
        name,
        epochs,
        settings.batch_size,
        loss,
        groups,
        noise_shape=(2, settings.latent_dim),
        decay=decay,
        clip_norm=settings.clip_norm,
        measure=lambda network: {"correlation_distance": distance_to_identity(network.correlation())},
    )


def _is_autoencoder(name: str) -> bool:
    return name.startswith(("encoders.", "decoders."))


@torch.no_grad()
def _start_priors(jobs: Sequence[Job], networks: Sequence[MultiViewVAE], data: RunData) -> None:
    """Place every run's clusters; the runs' k-means go side by side."""
    points = [
        _points(job, network, *data.of_run(run)) for run, (job, network) in enumerate(zip(jobs, networks, strict=True))
    ]
    with threadpool_limits(1):  # sums over threads come in no fixed order; one thread per k-means repeats exactly
        placed = Parallel(n_jobs=-1 if len(jobs) > 1 else 1, prefer="threads")(
            delayed(_placed)(job, *mine) for job, mine in zip(jobs, points, strict=True)
        )
    for network, (means, variances) in zip(networks, placed, strict=True):
        network.prior.place(means.to(network.prior.means.device), variances.to(network.prior.means.device))


def _points(
    job: Job, network: MultiViewVAE, views: list[Tensor], observed: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return what a run's clusters are placed by: fused means and variances after a warm-up, else averaged codes."""
    if not job.settings.warmup_epochs:
        codes = _codes(network, views, observed)
        return averaged_codes(codes, observed.cpu().numpy(), job.settings.n_clusters), None
    chunks = [network.posterior(*batch) for batch in in_chunks(views, observed)]
    mean = torch.cat([fused.mean for fused in chunks]).double().cpu().numpy()
    return mean, torch.cat([fused.variance for fused in chunks]).double().cpu().numpy()


def _placed(job: Job, points: NDArray[np.float64], variance: NDArray[np.float64] | None) -> tuple[Tensor, Tensor]:
    n_clusters, seed = job.settings.n_clusters, job.streams.integer("k-means")
    if variance is not None:
        return components_around(points, variance, n_clusters, seed)
    centres = torch.from_numpy(k_means(points, n_clusters, seed).cluster_centers_)
    return centres, torch.ones_like(centres)


@torch.no_grad()
def _codes(network: MultiViewVAE, views: list[Tensor], observed: Tensor) -> NDArray[np.float32]:
    return torch.cat([network.codes(*batch) for batch in in_chunks(views, observed)]).cpu().numpy()


def in_chunks(views: list[Tensor], observed: Tensor) -> list[tuple[list[Tensor], Tensor]]:
    """Cut data into pieces of at most `CHUNK` samples."""
    cut = [torch.split(view, CHUNK) for view in views]
    return [([part[i] for part in cut], seen) for i, seen in enumerate(torch.split(observed, CHUNK))]


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
