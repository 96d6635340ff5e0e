"""What put samples into their clusters and not the next ones: log odds, and their integrated gradients by feature."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.functional import Batch
from acova.training.consensus import Ensemble
from acova.training.experts import wide_type

TOLERANCE = 0.01
"""How far attributions may miss the log odds they explain, as a share of these or of one nat, whichever is more."""
_FIRST_STEPS, _MOST_STEPS = 32, 4096
_ROWS = 4096
"""Points of paths that are computed at once."""


@dataclass(frozen=True)
class Attribution:
    """Why each sample is in its cluster and not the runner-up.

    Attributes
    ----------
    labels, runners_up : arrays of int, shape (n,)
    log_odds : array of shape (n,)
        Logarithm of the label's probability less that of the runner-up.
    baseline : array of shape (n,)
        The same of a sample with the same views in which every feature has its mean.
    features : list of V arrays of shape (n, P_v)
        What every feature adds; all together make up ``log_odds - baseline``.
    """

    labels: NDArray[np.int64]
    runners_up: NDArray[np.int64]
    log_odds: NDArray[np.float64]
    baseline: NDArray[np.float64]
    features: list[NDArray[np.float64]]

    @property
    def gap(self) -> NDArray[np.float64]:
        """How much attributions miss of what they should add up to, (n,)."""
        found = sum(part.sum(axis=1) for part in self.features)
        return np.asarray(self.log_odds - self.baseline - found)


def log_probabilities(ensemble: Ensemble, views: Sequence[Tensor], observed: Tensor) -> Tensor:
    """Return the logarithms of the cluster probabilities (n, K) at the posterior mean, of the runs' mean."""
    parts, wide = [], wide_type(observed.device)
    for network, order in zip(ensemble.networks, ensemble.orders, strict=True):
        log_shares = network.prior.log_responsibilities(network.posterior(views, observed).mean) / network.temperature
        parts.append(log_shares.to(wide).log_softmax(-1)[:, torch.from_numpy(order).to(log_shares.device)])
    return torch.stack(parts).logsumexp(0) - math.log(len(parts))


def attribute(ensemble: Ensemble, batch: Batch, baseline: Sequence[Tensor]) -> Attribution:
    """Return why samples are in their clusters, by gradients integrated along the way from the baseline.

    The number of points on a sample's way is doubled until its attributions add up to `TOLERANCE`.

    Parameters
    ----------
    ensemble : Ensemble
    batch : Batch
        Scaled samples.
    baseline : sequence of V tensors of shape (P_v,) or (n, P_v)
        The scaled features' means.
    """
    observed = batch.observed
    views = [
        torch.where(seen.unsqueeze(-1), view, mean)
        for view, mean, seen in zip(batch.views, baseline, observed.unbind(1), strict=True)
    ]
    starts = [mean.expand_as(view) for view, mean in zip(views, baseline, strict=True)]
    with torch.no_grad():
        ends = log_probabilities(ensemble, views, observed)
        first, second = ends.topk(2, dim=-1).indices.unbind(-1)
        begins = log_probabilities(ensemble, starts, observed)

    def odds(log_shares: Tensor, rows: Tensor) -> Tensor:
        pair = torch.stack([first[rows], second[rows]], dim=-1)
        return -log_shares.gather(-1, pair).diff(dim=-1).squeeze(-1)

    everyone = torch.arange(len(observed), device=observed.device)
    wanted = odds(ends, everyone) - odds(begins, everyone)
    features = [torch.zeros_like(view, dtype=wide_type(view.device)) for view in views]
    left, steps = everyone, _FIRST_STEPS
    while len(left) and steps <= _MOST_STEPS:
        for rows in torch.split(left, max(1, _ROWS // steps)):
            for total, part in zip(
                features, _integrated(ensemble, views, starts, observed, rows, steps, odds), strict=True
            ):
                total[rows] = part
        gap = (wanted - torch.stack([part.sum(-1) for part in features]).sum(0)).abs()
        left, steps = (gap > TOLERANCE * wanted.abs().clamp(min=1)).nonzero()[:, 0], 2 * steps
    return Attribution(
        first.cpu().numpy(),
        second.cpu().numpy(),
        odds(ends, everyone).cpu().numpy(),
        odds(begins, everyone).cpu().numpy(),
        [part.cpu().numpy() for part in features],
    )


def _integrated(
    ensemble: Ensemble,
    views: Sequence[Tensor],
    starts: Sequence[Tensor],
    observed: Tensor,
    rows: Tensor,
    steps: int,
    odds: Callable[[Tensor, Tensor], Tensor],
) -> list[Tensor]:
    """Return the gradients' mean along the way of some samples, times the way, view by view."""
    places = (torch.arange(steps, device=rows.device, dtype=torch.float32) + 0.5) / steps
    points: list[Any] = []
    for view, start in zip(views, starts, strict=True):
        way = torch.lerp(start[rows].unsqueeze(1), view[rows].unsqueeze(1), places[:, None])
        points.append(way.flatten(0, 1).requires_grad_())
    repeated = rows.repeat_interleave(steps)
    total = odds(log_probabilities(ensemble, points, observed[repeated]), repeated).sum()
    wide = wide_type(rows.device)
    gradients = torch.autograd.grad(total, points, materialize_grads=True)
    return [
        gradient.view(len(rows), steps, -1).to(wide).mean(1) * (view[rows] - start[rows]).to(wide)
        for gradient, view, start in zip(gradients, views, starts, strict=True)
    ]
