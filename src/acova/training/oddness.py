"""How badly a network explains samples: the misfit of every view, and how far views contradict each other."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.data import Scaling, Views
from acova.functional import Batch, Fused, log_joint
from acova.training.inference import CHUNK, batch_between, device_of

Floats = NDArray[np.float64]


@torch.no_grad()
def misfits(network: Any, scaling: Scaling, views: Views, likelihoods: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return how far samples are from what a network expects, (n, V + 1) and (n, 2V); NaN where it says nothing.

    The first is, for each view, minus its mean log likelihood per cell (without constants) at the mean of the fused
    posterior; and in the last column minus the log density of that mean under the mixture of the clusters. The second
    is, for each view that is not alone, the same likelihood at the mean of the posterior of the other views (how badly
    these predict it), and in the last V columns the squared distance of the two posteriors, that of the view alone and
    that of the others, in units of their variances.
    """
    parts = []
    for start in range(0, len(views), CHUNK):
        stop = min(start + CHUNK, len(views))
        batch = batch_between(views, scaling, start, stop, device_of(network), likelihoods)
        parts.append([part.double().cpu().numpy() for part in _of_batch(network, batch)])
    far, apart = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return far, apart


def _of_batch(network: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    latent = network.posterior(batch.views, batch.observed).mean
    density = torch.logsumexp(log_joint(latent, *network.prior()), -1)
    far = [_errors(network, batch, [latent] * len(batch.views), batch.observed), -density.unsqueeze(-1)]
    others, several = _posteriors(network, batch, others=True)
    own, _ = _posteriors(network, batch, others=False)
    apart = [
        ((one.mean - rest.mean).square() / (one.variance + rest.variance)).mean(-1)
        for one, rest in zip(own, others, strict=True)
    ]
    told = batch.observed & several
    distances = torch.stack(apart, 1).masked_fill(~told, float("nan"))
    return torch.cat(far, dim=1), torch.cat([_errors(network, batch, [one.mean for one in others], told), distances], 1)


def _posteriors(network: Any, batch: Batch, *, others: bool) -> tuple[list[Fused], Tensor]:
    """Return the posteriors given view v alone, or all others, for every v, and which samples have such views, (n, V).

    A posterior needs a view: that of samples without is given all of theirs, and means nothing.
    """
    found, known = [], []
    for v in range(batch.observed.shape[1]):
        chosen = torch.arange(batch.observed.shape[1], device=batch.observed.device) == v
        kept = batch.observed & (~chosen if others else chosen)
        has = kept.any(1)
        found.append(network.posterior(batch.views, torch.where(has.unsqueeze(1), kept, batch.observed)))
        known.append(has)
    return found, torch.stack(known, 1)


def _errors(network: Any, batch: Batch, latents: list[Tensor], wanted: Tensor) -> Tensor:
    """Return what each view costs per cell, decoded from latents (n, D) of its own, where wanted; else NaN, (n, V)."""
    outputs = network.decode(latents, wanted)
    targets, cells = network.targets(batch, wanted)
    errors = []
    for v, density in enumerate(network.view_likelihoods):
        total = density.reconstruction(targets[v], outputs[v], cells[v])
        error = total / cells[v].sum(-1).clamp(min=1)
        errors.append(error.masked_fill(~wanted[:, v], float("nan")))
    return torch.stack(errors, 1)
