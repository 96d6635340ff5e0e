"""The spreads of features, found again after training.

Training may draw the targets towards the mean of a sample's neighbours, and these lie closer to what is decoded than
the samples themselves do: spreads that were trained with the rest would shrink, and the reconstruction would outweigh
the clusters. So training keeps the spreads of the data around their means, and afterwards they follow from the samples.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from acova.data import Scaling, StoredViews, Views
from acova.engine.distributed import ALONE, Processes
from acova.engine.parallel import single_threaded
from acova.networks import MultiViewVAE
from acova.networks.base import ClusteringNetwork
from acova.networks.likelihoods import Likelihood
from acova.training.inference import CHUNK, batch_of, device_of

_HALVINGS = 20
_FARTHEST = 20.0
"""Free numbers are looked for between minus this and this, where the bounded ones have all but reached their limits."""


def fit_spreads(
    networks: Sequence[ClusteringNetwork],
    scaling: Scaling,
    views: Views | StoredViews,
    likelihoods: Sequence[str],
    processes: Processes = ALONE,
) -> None:
    """Set every learned spread to the most likely one, for the observed samples decoded from their latent means."""
    for network in networks:
        if not isinstance(network, MultiViewVAE):
            continue
        for v, density in enumerate(network.view_likelihoods):
            if density.has_spread:
                with single_threaded():  # so that sums repeat exactly
                    parts = _decoded(network, scaling, views, likelihoods, v, processes)
                    _bisect(density, parts, processes)


def _decoded(
    network: MultiViewVAE,
    scaling: Scaling,
    views: Views | StoredViews,
    likelihoods: Sequence[str],
    v: int,
    processes: Processes,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return what the decoder says of the samples that have a view, what they hold, and which cells, in pieces."""
    share, parts = processes.share(views.n_samples), []
    for start in range(share.start, share.stop, CHUNK):
        some = views.read(start, min(start + CHUNK, share.stop))
        batch = batch_of(some, scaling, device_of(network), likelihoods)
        with torch.no_grad():
            latent = network.posterior(batch.views, batch.observed).mean
            covariates = network.covariates_in(batch.views)
            output = network.decode([latent] * len(batch.views), batch.observed, covariates)[v]
            targets, cells = network.targets(batch, batch.observed)
        seen = batch.observed[:, v]
        parts.append((output[seen], targets[v][seen], cells[v][seen]))
    return parts


def _bisect(density: Likelihood, parts: Sequence[tuple[Tensor, Tensor, Tensor]], processes: Processes) -> None:
    """Halve the interval in which the likelihood of each feature is largest."""
    low, high = torch.full_like(density.spread, -_FARTHEST), torch.full_like(density.spread, _FARTHEST)
    for _ in range(_HALVINGS):
        density.spread = (low + high) / 2
        rises = processes.sum(_slope(density, parts)) > 0
        low, high = torch.where(rises, density.spread, low), torch.where(rises, high, density.spread)
    density.spread = (low + high) / 2


@torch.enable_grad()
def _slope(density: Likelihood, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return the derivative of the summed log density by the spread of each feature."""
    at, total = density.spread, torch.zeros_like(density.spread, dtype=torch.float64)
    density.spread = at.clone().requires_grad_()
    for output, target, cells in parts:
        known = target.masked_fill(~cells, density.blank)
        log_density = (density.log_constant(known) - density.error(output, known, cells)).masked_fill(~cells, 0.0).sum()
        total += torch.autograd.grad(log_density, density.spread)[0].double()
    density.spread = at
    return total
