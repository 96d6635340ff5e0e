"""How one run is trained: pretraining, an optional warm-up, the start of the clusters, training."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import Streams
from acova.engine import EpochReport, ParameterGroup, Phase, seeded, train
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

CHUNK = 4096
"""Samples that are encoded at once outside of training."""


def train_run(
    settings: "ACOVA",
    likelihoods: Sequence[str],
    views: list[Tensor],
    observed: Tensor,
    streams: Streams,
    report: EpochReport | None = None,
) -> tuple[MultiViewVAE, list[dict[str, Any]]]:
    """Train one network from its own start; return it and a record per epoch."""
    network = new_network(settings, [view.shape[1] for view in views], likelihoods, streams).to(observed.device)
    records = train(_pretraining(settings, network), views, observed, streams, report)
    if network.learns_correlation and _is_word(settings.correlation_start, "similarity"):
        network.set_correlation(code_similarity(_codes(network, views, observed), observed.cpu().numpy()))
    records += train(_warmup(settings, network), views, observed, streams, report)
    _start_prior(settings, network, views, observed, streams.integer("k-means"))
    records += train(_training(settings, network), views, observed, streams, report)
    return network, records


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


def _pretraining(settings: "ACOVA", network: MultiViewVAE) -> Phase:
    group = ParameterGroup(network.autoencoder_parameters(), settings.pretrain_learning_rate)
    return Phase("pretrain", settings.pretrain_epochs, settings.batch_size, network.autoencoding_loss, [group])


def _warmup(settings: "ACOVA", network: MultiViewVAE) -> Phase:
    loss = partial(network.warmup_loss, kl_weight=settings.warmup_kl)
    return _joint_phase(settings, network, "warmup", settings.warmup_epochs, loss)


def _training(settings: "ACOVA", network: MultiViewVAE) -> Phase:
    prior = [
        ParameterGroup([network.prior.means, network.prior.scale], settings.prior_learning_rate),
        ParameterGroup([network.prior.logits], settings.weight_learning_rate),
    ]
    decay = settings.learning_rate_decay
    return _joint_phase(settings, network, "train", settings.epochs, network.loss, prior, decay)


def _joint_phase(
    settings: "ACOVA",
    network: MultiViewVAE,
    name: str,
    epochs: int,
    loss: Callable[..., Mapping[str, Tensor]],
    more_groups: Sequence[ParameterGroup] = (),
    decay: float = 1.0,
) -> Phase:
    """Return a phase that trains all views together, and the correlation with them."""
    autoencoders = [*network.encoders.parameters(), *network.decoders.parameters()]
    groups = [ParameterGroup(autoencoders, settings.learning_rate), *more_groups]
    if network.learns_correlation:
        groups.append(ParameterGroup([network.correlation_parameter], settings.correlation_learning_rate))
    return Phase(
        name,
        epochs,
        settings.batch_size,
        loss,
        groups,
        noise_shape=(2, settings.latent_dim),
        decay=decay,
        clip_norm=settings.clip_norm,
        measure=lambda: {"correlation_distance": float(distance_to_identity(network.correlation().detach()))},
    )


@torch.no_grad()
def _start_prior(settings: "ACOVA", network: MultiViewVAE, views: list[Tensor], observed: Tensor, seed: int) -> None:
    """Place the clusters: around fused means after a warm-up, else, as published, by averaged codes."""
    if settings.warmup_epochs:
        chunks = [network.posterior(*batch) for batch in in_chunks(views, observed)]
        mean = torch.cat([fused.mean for fused in chunks]).double().cpu().numpy()
        variance = torch.cat([fused.variance for fused in chunks]).double().cpu().numpy()
        network.prior.place(*components_around(mean, variance, settings.n_clusters, seed))
    else:
        codes = averaged_codes(_codes(network, views, observed), observed.cpu().numpy(), settings.n_clusters)
        network.prior.means.copy_(torch.from_numpy(k_means(codes, settings.n_clusters, seed).cluster_centers_))


@torch.no_grad()
def _codes(network: MultiViewVAE, views: list[Tensor], observed: Tensor) -> NDArray[np.float32]:
    return torch.cat([network.codes(*batch) for batch in in_chunks(views, observed)]).cpu().numpy()


def in_chunks(views: list[Tensor], observed: Tensor) -> list[tuple[list[Tensor], Tensor]]:
    """Cut data into pieces of at most `CHUNK` samples."""
    cut = [torch.split(view, CHUNK) for view in views]
    return [([part[i] for part in cut], seen) for i, seen in enumerate(torch.split(observed, CHUNK))]


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
