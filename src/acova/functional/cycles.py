"""Random cycles through the views a sample has, and estimates exchanged along them (MVP)."""

import torch
from torch import Tensor


def random_cycles(noise: Tensor, observed: Tensor) -> Tensor:
    """Return each view's successor in one random cycle through the observed views; hidden views stay in place.

    The views sorted by their noise, closed to a ring: all (n-1)! cycles through n views are equally likely, none leaves
    an observed view in place (unless it is alone), and shapes do not depend on data.

    Parameters
    ----------
    noise : Tensor of shape (..., V)
        Independent continuous numbers.
    observed : Tensor of bool, shape (..., V)

    Returns
    -------
    Tensor of int64, shape (..., V)
    """
    order = noise.masked_fill(~observed, torch.inf).argsort(-1)
    count = observed.sum(-1, keepdim=True)
    place = torch.arange(noise.shape[-1], device=noise.device)
    after = torch.where(place < count, (place + 1) % count.clamp(min=1), place)
    return torch.zeros_like(order).scatter(-1, order, order.gather(-1, after))


def exchange(grid: Tensor, cycles: Tensor) -> Tensor:
    """Replace what source s says of target t by what the successor of s, in the cycle of t, says of t.

    Parameters
    ----------
    grid : Tensor of shape (..., V, V, D)
        ``grid[..., s, t, :]`` comes from view s and speaks of view t.
    cycles : Tensor of int64, shape (..., V, V)
        ``cycles[..., t, s]`` is the successor of s in the cycle of target t.

    Returns
    -------
    Tensor of shape (..., V, V, D)
    """
    return grid.gather(-3, cycles.mT.unsqueeze(-1).expand(grid.shape))
