"""What CPSPAN and PMIMC share: rules of settings, training, and the leak of hidden cells."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from acova.base import DataError
from acova.compared.aligned_network import AlignedAutoencoders
from acova.data import Views
from acova.engine import ParameterGroup, Phase, generator
from acova.estimators._deep import DeepClusterer, Prepared
from acova.estimators.rules import NOT_NEGATIVE, Rule, check_flag, word
from acova.functional import Batch, side_by_side
from acova.training.consensus import Ensemble
from acova.training.inference import CHUNK, Inferred
from acova.training.job import Job
from acova.training.method import Group, Method
from acova.training.requirements import Requirements
from acova.training.starts import place_by_k_means

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("instance_weight", "prototype_weight"), NOT_NEGATIVE),
    "impute": word("cross_view", "zero_code"),
    "oracle_leak": check_flag,
}
"""What the settings of both methods may be, besides those that others have too."""


# --- the training -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CodeAlignment(Method):
    """Auto-encoders, then the alignment of their codes, then k-means on the codes side by side."""

    requirements = Requirements("it compares samples with each other", one_process=True)

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return pretraining and training."""
        loss = AlignedAutoencoders.autoencoding_loss
        yield _phase(group, "pretrain", "pretrain_epochs", "pretrain_learning_rate", loss)
        training = _phase(group, "train", "epochs", "learning_rate", AlignedAutoencoders.loss)
        yield replace(training, before_epoch=self.before_epoch(group))

    def before_epoch(self, group: Group) -> Callable[[int], None] | None:
        """Return what is done before each epoch of training, if anything."""
        return None

    def finish(self, group: Group) -> None:
        """Keep the donors, and put the clusters where k-means finds them in the completed codes."""
        points = []
        for run, (job, network) in enumerate(zip(group.jobs, group.networks, strict=True)):
            batch = group.data.of_run(run)
            donors = self.donors(job, codes_of(network, batch), batch.observed)
            network.donors.set(*donors)
            points.append(points_of(network, batch, job.data.oracle))
        place_by_k_means(group, points)

    def donors(self, job: Job, codes: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the codes (M, V, D) that can be lent, and which views they have (M, V)."""
        return codes, observed


def network_settings(job: Job) -> dict[str, Any]:
    """Return the keywords of an `AlignedAutoencoders`."""
    settings = job.settings
    return {
        "view_sizes": job.sizes,
        "latent_dim": settings.latent_dim,
        "n_clusters": settings.n_clusters,
        "hidden": settings.hidden,
        "impute": settings.impute,
        "instance_weight": settings.instance_weight,
        "prototype_weight": settings.prototype_weight,
        "prototypes": settings.prototypes,
        "generator": generator(job.streams.integer("weights")),
    }


def _phase(group: Group, name: str, epochs: str, rate: str, loss: Any) -> Phase:
    settings = group.settings
    return Phase(
        name,
        getattr(settings, epochs),
        settings.batch_size,
        loss,
        [ParameterGroup(group.parameters("encoders.", "decoders."), group.rates(rate))],
        patience=settings.patience,
        tol=settings.tol,
        drop_last="partial" if settings.drop_last and name == "train" else "joined",
    )


@torch.no_grad()
def codes_of(network: AlignedAutoencoders, batch: Batch) -> Tensor:
    """Return all codes (N, V, D); those of hidden views mean nothing."""
    return torch.cat([network.codes(part.views, part.observed) for part in batch.split(CHUNK)])


@torch.no_grad()
def points_of(network: Any, batch: Batch, oracle: Sequence[Tensor] | None) -> Tensor:
    """Return the completed codes side by side, (N, V·D)."""
    parts = batch.split(CHUNK)
    known = (
        [None] * len(parts) if oracle is None else [part.views for part in batch._replace(views=oracle).split(CHUNK)]
    )
    return torch.cat(
        [
            side_by_side(network.completed(part.views, part.observed, hidden), part.observed).mean
            for part, hidden in zip(parts, known, strict=True)
        ]
    )


# --- the leak -----------------------------------------------------------------------------------


def with_oracle(model: DeepClusterer, X: Any, prepared: Prepared) -> Prepared:
    """Return the runs to train with the cells that are hidden from them, if the settings ask for the leak; and warn."""
    if not prepared.settings.oracle_leak:
        return prepared
    hidden = _hidden_cells(model, X, prepared)
    warnings.warn(
        f"{type(model).__name__}: oracle_leak=True finds the donors of missing codes with the cells that `observed` "
        "hides. Its labels_ show what the authors' program does; they are no result of clustering incomplete data.",
        UserWarning,
        stacklevel=4,
    )
    data = replace(prepared.jobs[0].data, oracle=hidden)
    return replace(prepared, jobs=[replace(job, data=data) for job in prepared.jobs])


def _hidden_cells(model: DeepClusterer, X: Any, prepared: Prepared) -> list[Tensor]:
    """Return the scaled views with what is hidden of them, NaN where even X does not have it."""
    given = cast(Views, model._views_of(X, None, reset=False))  # views on disk were refused before
    whole = given.matched_to(model.view_names_, model.view_sizes_, model._columns)
    whole = whole if prepared.order is None else whole.take(prepared.order)
    observed = cast(Views, prepared.views).observed
    if not (whole.observed & ~observed).any() and not observed.all():
        msg = (
            f"{type(model).__name__}: oracle_leak=True reads hidden cells, but X does not hold any; give complete "
            "views and hide them with observed=…."
        )
        raise DataError(msg)
    scaled = model._scaling.transform(whole)
    arrays = [
        np.where(seen[:, None], view, np.float32(np.nan)) for view, seen in zip(scaled, whole.observed.T, strict=True)
    ]
    return [torch.from_numpy(array).to(prepared.jobs[0].device) for array in arrays]


@torch.no_grad()
def assigned_by_oracle(found: Inferred, ensemble: Ensemble, job: Job) -> Inferred:
    """Return what networks say of the training data; an oracle finds donors by what is hidden."""
    if job.data.oracle is None:
        return found
    shares = []
    for network, order in zip(ensemble.networks, ensemble.orders, strict=True):
        points = points_of(network, job.data.batch(), job.data.oracle)
        shares.append(network.prior.log_responsibilities(points).exp()[:, order])
    of_runs = torch.stack(shares)
    mean = of_runs.mean(0)
    labels = mean.argmax(1)
    agreement = (of_runs.argmax(-1) == labels).float().mean(0)
    return replace(
        found, labels=labels.cpu().numpy(), probabilities=mean.cpu().numpy(), agreement=agreement.cpu().numpy()
    )
