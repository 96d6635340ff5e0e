"""What reconstructing a view costs, and the weights that follow from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

_LEAST_TRUST = 1e-4
"""A view that is not trusted at all is still decoded, so that its decoder means something."""
_NOTHING = float(np.finfo(np.float32).tiny)
"""The cost of a view in which nothing varies."""


def blind_costs(moments: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], likelihoods: Sequence[str]) -> Any:
    """Return what reconstructing each view by the means of its features costs, (V,)."""
    costs = []
    for (mean, variance), likelihood in zip(moments, likelihoods, strict=True):
        match likelihood:
            case "bernoulli":
                costs.append(entr(mean.clip(0, 1)).sum() + entr(1 - mean.clip(0, 1)).sum())
            case "laplace":  # as for normal features
                costs.append(np.sqrt(2 / np.pi * variance).sum())
            case _:
                costs.append(variance.sum())
    return np.maximum(costs, _NOTHING)


def reconstruction_weights(
    balance: bool | float,
    scale: bool | float,
    sizes: Sequence[int],
    likelihoods: Sequence[str],
    costs: NDArray[np.float64] | None,
    trust: NDArray[np.float64] | None = None,
) -> list[float] | None:
    """Return the factors of the views' reconstructions, or None for the sums as they are.

    With `balance`, decoding view v to its mean costs P_v^(1 - balance), times what leaves the sum over the views as it
    is. Bernoulli errors are nats, which have no unit to take off: there it is so for the Bernoulli views together, and
    a feature weighs the same in all that are equally wide. With `scale`, the sum becomes this number. `trust` (V,) is a
    further factor for each view, which leaves the sum as it is.
    """
    if costs is None or (balance is False and scale is False and trust is None):
        return None
    varies = costs > max(np.finfo(np.float32).eps * costs.max(), 2 * _NOTHING)
    if not varies.any():  # a single sample, or copies of it
        return None
    widths = np.array(sizes, dtype=np.float64)
    nats = varies & (np.array(likelihoods) == "bernoulli")
    units = np.where(nats, widths * costs[nats].sum() / max(widths[nats].sum(), 1.0), costs)
    relative = np.ones_like(costs) if balance is False else widths ** (1.0 - balance) / units
    if trust is not None:
        relative = relative * np.maximum(trust, _LEAST_TRUST)
    total = costs.sum() if scale is False else float(scale)
    weights: list[float] = np.where(varies, relative * total / (relative * costs)[varies].sum(), 1.0).tolist()
    return weights
