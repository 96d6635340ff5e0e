"""What a sample's nearest neighbours have in each view, found by the views that both have."""

from collections.abc import Sequence

import torch
from torch import Tensor

MAX_DONORS = 20_000
"""Samples among which neighbours are looked for; with more samples, evenly spread ones stand for all."""
_BLOCK_CELLS = 2**25
"""Distances, and cells of neighbours' rows, held at once."""


@torch.no_grad()
def neighbour_means(views: Sequence[Tensor], observed: Tensor, variances: Sequence[float], count: int) -> list[Tensor]:
    """Return every view's mean over the nearest other samples that have it.

    The distance of two samples is the mean, over the views that both have, of the squared distance divided by the
    view's total variance: every view counts the same, however wide it is. A row without any such sample gets the mean
    of the view. Hidden cells are not read.

    Parameters
    ----------
    views : sequence of V tensors of shape (N, P_v)
    observed : Tensor of bool, shape (N, V)
    variances : sequence of V floats
        The views' total variances.
    count : int
        Number of neighbours.

    Returns
    -------
    list of V tensors of shape (N, P_v)
    """
    clean = [view.masked_fill(~seen.unsqueeze(-1), 0.0) for view, seen in zip(views, observed.unbind(1), strict=True)]
    weighed = [view / variance**0.5 for view, variance in zip(clean, variances, strict=True)]
    n_samples = len(observed)
    donors = torch.arange(n_samples, device=observed.device)
    if n_samples > MAX_DONORS:
        donors = donors[:MAX_DONORS] * n_samples // MAX_DONORS
    overall = [view.sum(0) / seen.sum().clamp(min=1) for view, seen in zip(clean, observed.unbind(1), strict=True)]
    step = max(1, _BLOCK_CELLS // max(len(donors), count * max(view.shape[1] for view in views)))
    parts = []
    for rows in torch.split(torch.arange(n_samples, device=observed.device), step):
        distance = _distances(weighed, observed, rows, donors)
        parts.append(
            [
                _mean_of_nearest(view, distance, seen[donors], donors, count, fallback)
                for view, seen, fallback in zip(clean, observed.unbind(1), overall, strict=True)
            ]
        )
    return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]


def _distances(weighed: Sequence[Tensor], observed: Tensor, rows: Tensor, donors: Tensor) -> Tensor:
    """Return the distances (rows, donors) over common views; infinite where there is none, and to itself."""
    total = torch.zeros(len(rows), len(donors), device=rows.device)
    common = torch.zeros_like(total)
    for view, seen in zip(weighed, observed.unbind(1), strict=True):
        mine, theirs = view[rows], view[donors]
        both = seen[rows].unsqueeze(1) & seen[donors]
        squared = mine.square().sum(1, keepdim=True) + theirs.square().sum(1) - 2 * mine @ theirs.mT
        total += squared.clamp(min=0).masked_fill(~both, 0.0)
        common += both
    return (total / common).masked_fill((common == 0) | (rows.unsqueeze(1) == donors), torch.inf)


def _mean_of_nearest(
    view: Tensor, distance: Tensor, has: Tensor, donors: Tensor, count: int, fallback: Tensor
) -> Tensor:
    """Return the mean of a view over the nearest donors that have it, for each row of distances (rows, donors)."""
    reachable = distance.masked_fill(~has, torch.inf)
    nearest = reachable.topk(min(count, len(donors)), largest=False)
    usable = nearest.values.isfinite().to(view.dtype)
    total = torch.einsum("rk,rkp->rp", usable, view[donors[nearest.indices]])
    found = usable.sum(1, keepdim=True)
    return torch.where(found > 0, total / found.clamp(min=1), fallback)
