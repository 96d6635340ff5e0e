"""Losses of a batch that compare views with each other: contrast, alignment, prototypes.

Each is one number for the whole batch. `rows` (N,) says which samples take part, as 1 and 0; the others change nothing.
Where shapes begin with ``...`` there may be leading axes, of pairs of views.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

_LEAST = 2.2e-16
_LONGEST = 3**0.5
_EMPTY = 1e-12
_FAR = -1e4
"""As good as minus infinity in a sum of exponentials, with a gradient of zero where there is nothing else."""


def mean_over(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of values (N,) over the rows that take part, 0 without any."""
    return (values * rows).sum() / rows.sum().clamp(min=1.0)


def mean_errors(view: Tensor, output: Tensor, rows: Tensor) -> Tensor:
    """Return the mean squared error of (N, P) over features and the rows that take part."""
    return mean_over((view - output).square().mean(-1), rows)


# --- DCP ----------------------------------------------------------------------------------------


def mutual_information(first: Tensor, second: Tensor, rows: Tensor, entropy: float) -> Tensor:
    """Return minus the mutual information of two views' soft codes, their entropies weighed by `entropy` - 1 more.

    Parameters
    ----------
    first, second : Tensor of shape (N, L)
        Rows that are positive and sum to 1.
    rows : Tensor of shape (N,)
    entropy : float
    """
    joint = (first * rows.unsqueeze(-1)).mT @ second
    joint = joint + joint.mT
    joint = joint / joint.sum().clamp(min=_LEAST)
    one, other = joint.sum(1, keepdim=True).clamp(min=_LEAST), joint.sum(0, keepdim=True).clamp(min=_LEAST)
    joint = joint.clamp(min=_LEAST)
    return -(joint * (joint.log() - entropy * one.log() - entropy * other.log())).sum()


# --- DSIMVC -------------------------------------------------------------------------------------


def shortened(features: Tensor, longest: float = _LONGEST) -> Tensor:
    """Return rows (N, D), those that are longer cut to this length."""
    length = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    factor: Tensor = (longest / length.clamp(min=1e-12)).clamp(max=1.0)
    return features * factor


def spectral_contrast(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return every sample's part (..., N) of the spectral contrastive loss of two views' features (..., N, D).

    They sum to -(2/n) Σ_i a_i·b_i + Σ_{i≠j} (a_i·b_j)² / (n(n-1)), over the n samples that take part.
    """
    count = rows.sum()
    products = (first * rows.unsqueeze(-1)) @ (second * rows.unsqueeze(-1)).mT
    own = products.diagonal(dim1=-2, dim2=-1)
    others = products.square().sum(-1) - own.square()
    return -2.0 * own / count.clamp(min=1.0) + others / (count * (count - 1.0)).clamp(min=1.0)


def label_contrast(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the contrast of two views' clusters: each like itself in the other view, unlike the others in its own.

    Parameters
    ----------
    first, second : Tensor of shape (..., N, K)
        Assignments; clusters are compared by the cosine of their columns, and how full the clusters are is kept even.
    rows : Tensor of shape (N,)
    """
    n_clusters = first.shape[-1]
    columns = [normalize((shares * rows.unsqueeze(-1)).mT, dim=-1) for shares in (first, second)]
    same = (columns[0] * columns[1]).sum(-1)
    itself = torch.eye(n_clusters, dtype=torch.bool, device=first.device)
    total = torch.zeros_like(same[..., 0])
    for mine, shares in zip(columns, (first, second), strict=True):
        likeness = torch.where(itself, same.unsqueeze(-1), mine @ mine.mT)
        total = total + 0.5 * (likeness.logsumexp(-1) - same).mean(-1)
        fullness = (shares * rows.unsqueeze(-1)).sum(-2) / rows.sum().clamp(min=1.0)
        total = total + math.log(n_clusters) + (fullness * fullness.clamp(min=_EMPTY).log()).sum(-1)
    return total


# --- CPSPAN -------------------------------------------------------------------------------------


def partner_misfit(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over samples of (1 - cos)² between their codes (N, D) in two views."""
    return mean_over((1.0 - (normalize(first, dim=-1) * normalize(second, dim=-1)).sum(-1)).square(), rows)


def column_misfit(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over *all* D² pairs of columns of (1 - cos)², as released by CPSPAN's authors."""
    columns = [normalize((codes * rows.unsqueeze(-1)).mT, dim=-1) for codes in (first, second)]
    return (1.0 - columns[0] @ columns[1].mT).square().mean()


def nearest_centers(codes: Tensor, centers: Tensor) -> Tensor:
    """Return the number of the centre (K, D) nearest to each code (N, D)."""
    return (centers.square().sum(-1) - 2.0 * codes @ centers.mT).argmin(-1)


def group_means(codes: Tensor, groups: Tensor, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the means (count, D) of codes (N, D) by group (N,), and how many rows each has, (count,)."""
    member = (groups.unsqueeze(-1) == torch.arange(count, device=groups.device)) * rows.unsqueeze(-1)
    sizes = member.sum(0)
    return member.mT @ codes / sizes.clamp(min=1.0).unsqueeze(-1), sizes


# --- PMIMC --------------------------------------------------------------------------------------


def neighbourhood_divergence(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return half the sum over samples of (p - q)(log p - log q), how differently two views see their neighbourhoods.

    ``p_i = e^{cos(a_i, b_i)} / Σ_j (e^{cos(a_i, b_j)} + e^{cos(a_i, a_j)})``, and q with the views (N, D) exchanged.
    """
    one, other = normalize(first, dim=-1), normalize(second, dim=-1)
    hidden = rows == 0
    own = (one * other).sum(-1)
    logs = []
    for mine, theirs in ((one, other), (other, one)):
        cosines = torch.cat([mine @ theirs.mT, mine @ mine.mT], dim=-1)
        logs.append(own - cosines.masked_fill(torch.cat([hidden, hidden]), _FAR).logsumexp(-1))
    p, q = (torch.where(hidden, 0.0, log) for log in logs)
    return 0.5 * ((p.exp() - q.exp()) * (p - q)).sum()


def robust_matching(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over prototypes (M, D) of (1 - Q) + (1 - Q)²/2, Q the softmax of the cosine to its match."""
    cosines = normalize(first, dim=-1) @ normalize(second, dim=-1).mT
    among = cosines.masked_fill(rows == 0, _FAR).logsumexp(-1)
    missed = torch.where(rows == 0, 0.0, 1.0 - (cosines.diagonal(dim1=-2, dim2=-1) - among).clamp(max=0.0).exp())
    return mean_over(missed + 0.5 * missed.square(), rows)
