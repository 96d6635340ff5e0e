"""What prediction needs of the training samples: the codes that samples lacking a view are lent."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from acova.functional import Fused, cross_view_lenders, same_view_lenders


class Donors(nn.Module):
    """Codes of training samples in all views they have; empty until they are set.

    Parameters
    ----------
    n_views, latent_dim : int
    """

    codes: Tensor
    observed: Tensor

    def __init__(self, n_views: int, latent_dim: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.zeros(0, n_views, latent_dim, dtype=torch.float32))
        self.register_buffer("observed", torch.zeros(0, n_views, dtype=torch.bool))

    def set(self, codes: Tensor, observed: Tensor) -> None:
        """Take these codes (M, V, D), of the views that are observed (M, V)."""
        self.codes, self.observed = codes.clone(), observed.clone()

    def fill(self, codes: Tensor, observed: Tensor, queries: Tensor | None = None) -> Tensor:
        """Return codes (n, V, D) with those of hidden views lent by the most similar donor that has the view.

        Donors are compared in the views that both have, or, given codes that stand for the hidden ones (`queries`,
        NaN where there is none), in the hidden view itself. Where no donor can be compared, the mean of all donors'
        codes stands in.
        """
        filled = torch.where(observed.unsqueeze(-1), codes, 0.0)
        for v, lacks in enumerate((~observed).unbind(1)):
            has = self.observed[:, v]
            filled[lacks, v] = self.codes[has, v].mean(0)
        lacking = (~observed).any(1).nonzero().squeeze(-1)
        if not len(lacking):
            return filled
        lenders = cross_view_lenders(codes[lacking], observed[lacking], self.codes, self.observed, 1)
        for v, of_view in enumerate(lenders):
            self._lend(filled, v, lacking, of_view.row, of_view.found & ~observed[lacking, v].unsqueeze(-1))
            known = None if queries is None else (~observed[:, v] & queries[:, v].isfinite().all(-1)).nonzero()
            if queries is not None and known is not None and len(known):
                rows = known.squeeze(-1)
                found = same_view_lenders(queries[rows, v], self.codes[:, v], self.observed[:, v])
                self._lend(filled, v, rows, found.row, found.found)
        return filled

    def _lend(self, filled: Tensor, v: int, rows: Tensor, index: Tensor, found: Tensor) -> None:
        at = found.squeeze(-1)
        filled[rows[at], v] = self.codes[index.squeeze(-1)[at], v]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Read donors of any number."""
        for name in ("codes", "observed"):
            held = state_dict.get(f"{prefix}{name}")
            if held is not None:
                setattr(self, name, torch.empty_like(held, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *args)


def side_by_side(codes: Tensor, observed: Tensor) -> Fused:
    """Return codes (N, V, D) as points (N, V·D) without a spread; every view that a sample has counts the same."""
    points = codes.flatten(1)
    seen = observed.to(codes.dtype)
    share = seen / seen.sum(1, keepdim=True).clamp(min=1)
    return Fused(points, torch.zeros_like(points), share.unsqueeze(-1))
