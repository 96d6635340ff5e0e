"""Who lends a sample the code of a view that it lacks."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

_BLOCK_CELLS = 2**24
"""Similarities held at once."""


class Lenders(NamedTuple):
    """The most similar donors, most similar first."""

    row: Tensor
    """(n, count) row numbers among the donors."""
    found: Tensor
    """(n, count) whether there is one."""


@torch.no_grad()
def cross_view_lenders(
    codes: Tensor, observed: Tensor, donors: Tensor, donors_observed: Tensor, count: int
) -> list[Lenders]:
    """Return, for every view, the donors that have it and are most like the samples in the views that both have.

    Similar is the mean, over common views, of the cosine of the codes. Codes of hidden views are not read, and memory
    is that of a block of samples.

    Parameters
    ----------
    codes, donors : Tensor of shape (n, V, D) and (M, V, D)
    observed, donors_observed : Tensor of bool, shape (n, V) and (M, V)
    count : int

    Returns
    -------
    list of V Lenders
    """
    ours, theirs = _flat(codes, observed), _flat(donors, donors_observed)
    count = min(count, len(donors))
    parts: list[list[Lenders]] = []
    for rows in torch.split(torch.arange(len(codes), device=codes.device), max(1, _BLOCK_CELLS // len(donors))):
        common = observed[rows].to(codes.dtype) @ donors_observed.to(codes.dtype).mT
        similar = (ours[rows] @ theirs.mT) / common
        similar = similar.masked_fill(common == 0, -torch.inf)
        found = [similar.masked_fill(~has, -torch.inf).topk(count) for has in donors_observed.unbind(1)]
        parts.append([Lenders(top.indices, top.values > -torch.inf) for top in found])
    return [Lenders(*map(torch.cat, zip(*of_view, strict=True))) for of_view in zip(*parts, strict=True)]


@torch.no_grad()
def same_view_lenders(codes: Tensor, donors: Tensor, has: Tensor) -> Lenders:
    """Return who of the donors (M, D) that have a view (M,) is most like each of the codes (n, D) in it."""
    ours, theirs = normalize(codes, dim=-1), normalize(donors, dim=-1)
    best = [
        (block @ theirs.mT).masked_fill(~has, -torch.inf).max(-1)
        for block in torch.split(ours, max(1, _BLOCK_CELLS // len(donors)))
    ]
    index = torch.cat([found.indices for found in best]).unsqueeze(-1)
    return Lenders(index, torch.cat([found.values for found in best]).unsqueeze(-1) > -torch.inf)


def _flat(codes: Tensor, observed: Tensor) -> Tensor:
    """Return codes of length 1, zero where hidden, side by side (n, V·D): one product then sums over common views."""
    return torch.where(observed.unsqueeze(-1), normalize(codes, dim=-1), 0.0).flatten(1)
