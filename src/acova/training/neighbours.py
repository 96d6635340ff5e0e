"""What a sample's nearest neighbours have in each view, found by the views that both have."""

from collections.abc import Sequence

import torch
from torch import Tensor

MAX_DONORS = 20_000
"""Samples among which neighbours are looked for; with more samples, evenly spread ones stand for all."""
_STEPS = 32
"""Steps of training that weigh as much as one search for neighbours, when threads are chosen."""
_BLOCK_CELLS = 2**25
"""Distances, and cells of neighbours' rows, held at once."""


def neighbour_products(n_samples: int, n_features: int) -> float:
    """Return by how many multiplications to choose the threads of a search for neighbours: it comes once in a fit."""
    return n_samples * min(n_samples, MAX_DONORS) * n_features / _STEPS


@torch.no_grad()
def neighbour_means(
    views: Sequence[Tensor],
    observed: Tensor,
    variances: Sequence[float],
    count: int,
    values: Sequence[Tensor] = (),
) -> list[Tensor]:
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
    values : sequence of V tensors of shape (N, P_v)
        What is averaged; empty means the views.

    Returns
    -------
    list of V tensors of shape (N, P_v)
    """
    clean = [view.masked_fill(~seen.unsqueeze(-1), 0.0) for view, seen in zip(views, observed.unbind(1), strict=True)]
    weighed = [view / variance**0.5 for view, variance in zip(clean, variances, strict=True)]
    if values:
        pairs = zip(values, observed.unbind(1), strict=True)
        clean = [view.masked_fill(~seen.unsqueeze(-1), 0.0) for view, seen in pairs]
    n_samples = len(observed)
    donors = torch.arange(n_samples, device=observed.device)
    if n_samples > MAX_DONORS:
        donors = donors[:MAX_DONORS] * n_samples // MAX_DONORS
    overall = [view.sum(0) / seen.sum().clamp(min=1) for view, seen in zip(clean, observed.unbind(1), strict=True)]
    step = max(1, _BLOCK_CELLS // max(len(donors), count * max(view.shape[1] for view in views)))
    donor_rows, donor_values = [view[donors] for view in weighed], [view[donors] for view in clean]
    parts = []
    for rows in torch.split(torch.arange(n_samples, device=observed.device), step):
        own = [view[rows] for view in weighed]
        distance = _distances(own, observed[rows], donor_rows, observed[donors], [1] * len(views))
        distance.masked_fill_(rows.unsqueeze(1) == donors, torch.inf)
        parts.append(
            [
                _mean_of_nearest(view, distance.masked_fill(~seen[donors], torch.inf), count, fallback)
                for view, seen, fallback in zip(donor_values, observed.unbind(1), overall, strict=True)
            ]
        )
    return [torch.cat(pieces) for pieces in zip(*parts, strict=True)]


@torch.no_grad()
def fill_by_nearest(
    views: Sequence[Tensor], observed: Tensor, known: Sequence[Tensor], has: Tensor, count: int
) -> list[Tensor]:
    """Return the views with hidden rows at the mean of the nearest known samples that have the view.

    The same as scikit-learn's `KNNImputer` on the views side by side, which searches anew for every column.

    Parameters
    ----------
    views : sequence of V tensors of shape (n, P_v)
    observed : Tensor of bool, shape (n, V)
    known : sequence of V tensors of shape (N, P_v)
        Samples that lend their rows.
    has : Tensor of bool, shape (N, V)
        The views that these have.
    count : int
        Number of neighbours.
    """
    filled = []
    for v, view in enumerate(views):
        others = [u for u in range(len(views)) if u != v]
        rows, donors = (~observed[:, v]).nonzero()[:, 0], has[:, v].nonzero()[:, 0]
        if not len(rows):
            filled.append(view)
            continue
        donor_values, donor_rows, seen = known[v][donors], [known[u][donors] for u in others], has[donors][:, others]
        widths = [views[u].shape[1] for u in others]
        whole = view.clone()
        for some in torch.split(rows, max(1, _BLOCK_CELLS // max(len(donors), count * view.shape[1]))):
            distance = _distances([views[u][some] for u in others], observed[some][:, others], donor_rows, seen, widths)
            whole[some] = _mean_of_nearest(donor_values, distance, count, donor_values.mean(0))
        filled.append(whole)
    return filled


def _distances(
    own: Sequence[Tensor], seen: Tensor, donor_rows: Sequence[Tensor], has: Tensor, shares: Sequence[float]
) -> Tensor:
    """Return the mean squared distances (rows, donors) over common views, each by its share; infinite without any."""
    total = own[0].new_zeros(len(seen), len(has))
    common = torch.zeros_like(total)
    for v, share in enumerate(shares):
        both = seen[:, v].unsqueeze(1) & has[:, v]
        squared = own[v].square().sum(1, keepdim=True) + donor_rows[v].square().sum(1) - 2 * own[v] @ donor_rows[v].mT
        total += squared.clamp(min=0).masked_fill(~both, 0.0)
        common += both * share
    return (total / common).masked_fill(common == 0, torch.inf)


def _mean_of_nearest(donor_values: Tensor, distance: Tensor, count: int, fallback: Tensor) -> Tensor:
    """Return the mean of the nearest reachable rows of `donor_values` for each row of distances (rows, donors)."""
    nearest = distance.topk(min(count, len(donor_values)), largest=False)
    usable = nearest.values.isfinite().to(donor_values.dtype)
    total = torch.einsum("rk,rkp->rp", usable, donor_values[nearest.indices])
    found = usable.sum(1, keepdim=True)
    return torch.where(found > 0, total / found.clamp(min=1), fallback)
