"""Training that goes on from trained networks: a view more, or more samples."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from acova.engine import ParameterGroup, Phase, RunData
from acova.functional import Batch
from acova.networks import MultiViewVAE
from acova.networks.growth import last_view_loss, parts_of_last_view, take_over
from acova.training.job import Job, Settings
from acova.training.method import Group, Method

SHARE_ALONE, SHARE_TOGETHER = 0.5, 0.25
"""Epochs of a new view's own parts, and of all parts of a trained network, as shares of those of the fit."""


@dataclass(frozen=True)
class Growth(Method):
    """The training of a network that others have trained: of its last view alone, or of all of it.

    Attributes
    ----------
    base : Method
        How the network was trained.
    network : MultiViewVAE
        Where training starts; it is changed in place.
    correlation : bool
        Whether the last view's correlations are trained with its other parts.
    alone, together : int
        Epochs of the last view's parts, while all others keep their numbers, and of all parts.
    places_clusters : bool
        Whether the clusters are placed anew at the end, where the method does so after a fit; they keep their numbers.
    """

    base: Method
    network: MultiViewVAE
    correlation: bool
    alone: int
    together: int
    places_clusters: bool

    def build(self, job: Job) -> MultiViewVAE:
        """Return the trained network."""
        return self.network

    def count_epochs(self, settings: Settings) -> int:
        """Return the number of epochs of all phases."""
        return 2 * self.alone + self.together

    def objective(self, network: Any, settings: Settings) -> Any:
        """Return the loss of the last phase."""
        return self.base.objective(network, settings)

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return the pretraining and the training of the last view, and the training of all."""
        if self.alone:
            yield from self._of_last_view(group)
        if self.together:
            yield _joint(group, "update", self.together, list(group.runs.parameters))

    def finish(self, group: Group) -> None:
        """Leave the clusters where they are, or place them anew under the numbers that they have."""
        if not self.places_clusters:
            return
        before = [_shares(group, run) for run in range(len(group.jobs))]
        self.base.finish(group)
        for run, (network, old) in enumerate(zip(group.networks, before, strict=True)):
            overlap = old.mT @ _shares(group, run)
            network.renumber(torch.from_numpy(linear_sum_assignment(-overlap.cpu().numpy())[1]).to(overlap.device))

    def _of_last_view(self, group: Group) -> Iterable[Phase]:
        parts = parts_of_last_view(group.networks[0], correlation=self.correlation)
        names = list(parts)
        masked = {name: mask for name, mask in parts.items() if mask is not None}
        handles = [_keep(group.runs.parameters[name], mask) for name, mask in masked.items()]
        own = [name for name in names if name.startswith(("encoders.", "decoders."))]
        rows = _samples_with_last_view(group)
        common: dict[str, Any] = {"epochs": self.alone, "batch_size": group.settings.batch_size, "data": rows}
        groups = [ParameterGroup(own, group.rates("pretrain_learning_rate"))]
        yield Phase("view_pretrain", loss=_last_view_alone, groups=groups, **common)
        loss = partial(last_view_loss, fill_weight=group.settings.neighbor_weight**2)
        yield replace(_joint(group, "view_train", self.alone, names), loss=loss, data=rows)
        for handle in handles:
            handle.remove()


def going_on(job: Job, network: Any, **how: Any) -> Job:
    """Return a job whose training starts from a trained network, see `Growth`."""
    return replace(job, method=Growth(job.method, network, **how))


def with_last_view(job: Job, trained: Any) -> MultiViewVAE:
    """Return a trained network with the last view of the job as well, whose own parts are fresh.

    Reconstructions of the other views weigh what they weighed; that of the new view as it would in a fit.
    """
    network = cast("MultiViewVAE", job.network())
    count = len(trained.view_sizes)
    weights, known = network.reconstruction_weights, trained.reconstruction_weights
    scale = known.sum() / weights[:count].sum()
    network.reconstruction_weights = torch.cat([known, weights[count:] * scale])
    return take_over(network, trained, [*range(count), None])


def without_view(job: Job, trained: Any, v: int) -> MultiViewVAE:
    """Return a trained network without one of its views."""
    network = cast("MultiViewVAE", job.network())
    kept = [place for place in range(len(trained.view_sizes)) if place != v]
    network.reconstruction_weights = trained.reconstruction_weights[kept]
    return take_over(network, trained, kept)


@contextmanager
def spreads_kept(networks: Sequence[Any], views: Sequence[int]) -> Iterator[None]:
    """Give back the spreads of these views to the networks after the block."""
    densities = [network.view_likelihoods[v] for network in networks for v in views]
    known = [density.spread if density.has_spread else None for density in densities]
    yield
    for density, spread in zip(densities, known, strict=True):
        if spread is not None:
            density.spread = spread


def _keep(parameter: Tensor, mask: Tensor) -> Any:
    """Let nothing but the masked part of a parameter have a gradient; Adam then leaves the rest as it is."""
    parameter.requires_grad_(True)
    hook: Any = parameter.register_hook(lambda gradient: torch.where(mask, gradient, 0.0))  # type: ignore[no-untyped-call]
    return hook


@torch.no_grad()
def _shares(group: Group, run: int) -> Tensor:
    """Return the cluster probabilities (N, K) of a run's samples."""
    return group.networks[run].assign(group.latent(run)).double()  # type: ignore[no-any-return]


def _samples_with_last_view(group: Group) -> RunData:
    data = group.data
    if not isinstance(data, RunData):
        msg = "views on disk"
        raise TypeError(msg)
    rows = [data.of_run(run).observed[:, -1].nonzero().squeeze(-1) for run in range(len(group.jobs))]
    return RunData(data.views, data.observed, targets=data.targets, data_set=data.data_set, rows=torch.stack(rows))


def _last_view_alone(network: MultiViewVAE, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
    only = torch.zeros_like(batch.observed)
    only[..., -1] = batch.observed[..., -1]
    return network.autoencoding_loss(batch._replace(observed=only), noise)


def _rates(group: Group) -> dict[str, Sequence[float]]:
    names = {"network": "learning_rate", "prior": "prior_learning_rate", "weight": "weight_learning_rate"}
    found: dict[str, Sequence[float]] = {name: group.rates(setting) for name, setting in names.items()}
    if "correlation_parameter" in group.runs.parameters:
        found["correlation"] = group.rates("correlation_learning_rate")
    return found


def _joint(group: Group, name: str, epochs: int, names: Sequence[str]) -> Phase:
    """Return a phase that trains some parameters by the whole objective, at the rates of the fit."""
    settings, rates = group.settings, _rates(group)
    kinds: dict[str, list[str]] = {}
    for parameter in names:
        kinds.setdefault(_kind(parameter), []).append(parameter)
    return Phase(
        name,
        epochs,
        settings.batch_size,
        partial(MultiViewVAE.loss, fill_weight=settings.neighbor_weight**2),
        [ParameterGroup(some, rates[kind]) for kind, some in kinds.items()],
        noise_shape=(2, settings.latent_dim),
        clip_norm=settings.clip_norm,
    )


def _kind(name: str) -> str:
    """Return which learning rate a parameter has."""
    if name == "prior.logits":
        return "weight"
    if name.startswith("prior.") or name == "fusion_logits":
        return "prior"
    return "correlation" if name == "correlation_parameter" else "network"
