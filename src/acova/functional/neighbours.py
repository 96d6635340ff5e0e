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
    """Return, for every view, who lends it to the samples that lack it: those most like them in the views both have.

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
        Samples that have the view find nobody.
    """
    own, donor_rows = _flat(codes, observed), _flat(donors, donors_observed)
    count = min(count, len(donors))
    shape = (len(codes), count)
    row, found = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    lenders = [
        Lenders(row.to(codes.device, copy=True), found.to(codes.device, copy=True)) for _ in range(codes.shape[1])
    ]
    theirs_seen = donors_observed.to(codes.dtype).mT
    for rows in torch.split(torch.arange(len(codes), device=codes.device), max(1, _BLOCK_CELLS // len(donors))):
        common = observed[rows].to(codes.dtype) @ theirs_seen
        similar = ((own[rows] @ donor_rows.mT) / common).masked_fill_(common == 0, -torch.inf)
        for v, has in enumerate(donors_observed.unbind(1)):
            lacking = (~observed[rows, v]).nonzero().squeeze(-1)
            best = _best(similar[lacking].masked_fill_(~has, -torch.inf), count)
            lenders[v].row[rows[lacking]] = best.row
            lenders[v].found[rows[lacking]] = best.found
    return lenders


def _best(similar: Tensor, count: int) -> Lenders:
    if count == 1:  # much faster than sorting
        values, index = similar.max(-1, keepdim=True)
    else:
        values, index = similar.topk(count)
    return Lenders(index, values > -torch.inf)


@torch.no_grad()
def same_view_lenders(codes: Tensor, donors: Tensor, has: Tensor) -> Lenders:
    """Return who of the donors (M, D) that have a view (M,) is most like each of the codes (n, D) in it."""
    own, donor_rows = normalize(codes, dim=-1), normalize(donors, dim=-1)
    best = [
        (block @ donor_rows.mT).masked_fill(~has, -torch.inf).max(-1)
        for block in torch.split(own, max(1, _BLOCK_CELLS // len(donors)))
    ]
    index = torch.cat([found.indices for found in best]).unsqueeze(-1)
    return Lenders(index, torch.cat([found.values for found in best]).unsqueeze(-1) > -torch.inf)


def _flat(codes: Tensor, observed: Tensor) -> Tensor:
    """Return codes of length 1, zero where hidden, side by side (n, V·D): one product then sums over common views."""
    return torch.where(observed.unsqueeze(-1), normalize(codes, dim=-1), 0.0).flatten(1)
