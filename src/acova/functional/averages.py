"""Averages over the rows of a batch that take part, and over groups of them.

`rows` (N,) says which samples take part, as 1 and 0; the others change nothing.
"""

import torch
from torch import Tensor


def mean_over(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of values (N,) over the rows that take part, 0 without any."""
    return (values * rows).sum() / rows.sum().clamp(min=1.0)


def mean_errors(view: Tensor, output: Tensor, rows: Tensor) -> Tensor:
    """Return the mean squared error of (N, P) over features and the rows that take part."""
    return mean_over((view - output).square().mean(-1), rows)


def nearest_centers(codes: Tensor, centers: Tensor) -> Tensor:
    """Return the number of the centre (K, D) nearest to each code (N, D)."""
    return (centers.square().sum(-1) - 2.0 * codes @ centers.mT).argmin(-1)


def group_means(codes: Tensor, groups: Tensor, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the means (count, D) of codes (N, D) by group (N,), and how many rows each has, (count,)."""
    member = (groups.unsqueeze(-1) == torch.arange(count, device=groups.device)) * rows.unsqueeze(-1)
    sizes = member.sum(0)
    return member.mT @ codes / sizes.clamp(min=1.0).unsqueeze(-1), sizes
