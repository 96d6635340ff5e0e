"""What reconstructing a view costs, and the weights that follow from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import OptionError
from acova.data import StoredViews, Views
from acova.networks.likelihoods import LIKELIHOODS
from acova.networks.likelihoods.base import Moments

_LEAST_TRUST = 1e-4
"""A view that is not trusted at all is still decoded, so that its decoder means something."""
_NOTHING = float(np.finfo(np.float32).tiny)
"""The cost of a view in which nothing varies."""


def blind_costs(
    moments: Sequence[Moments], likelihoods: Sequence[str], shares: NDArray[np.float64] | float = 1.0
) -> Any:
    """Return what reconstructing each view by the means of its features costs, (V,).

    Squared and absolute errors cost what they sum up to. Of errors in nats it is what exceeds those of a perfect
    reconstruction: half a nat per feature where a spread is learned. `shares` are those of the cells that are there:
    empty ones cost nothing.
    """
    pairs = zip(likelihoods, moments, strict=True)
    return np.maximum(
        [LIKELIHOODS[name].blind_cost(*of_view) for name, of_view in pairs] * np.asarray(shares), _NOTHING
    )


def shares_of_cells(views: Views | StoredViews) -> NDArray[np.float64]:
    """Return the share of cells in observed rows that are not empty, (V,); of views on disk it is taken to be 1."""
    if isinstance(views, StoredViews):
        return np.ones(views.n_views)
    seen = views.observed.sum(axis=0)
    counts = [0 if empty is None else int(empty.sum()) for empty in views.empty]
    return np.asarray(1.0 - np.array(counts) / np.maximum(seen * np.array(views.sizes), 1))


def target_moments(
    who: str, views: Views | StoredViews, likelihoods: Sequence[str], moments: Sequence[Moments]
) -> list[Moments]:
    """Return mean and variance of the features of what each view is decoded to, given those of the scaled views."""
    return [
        _moments_of_data(who, views, v, name) if LIKELIHOODS[name].of_data else of_view
        for v, (name, of_view) in enumerate(zip(likelihoods, moments, strict=True))
    ]


def _moments_of_data(who: str, views: Views | StoredViews, v: int, likelihood: str) -> Moments:
    if isinstance(views, StoredViews):
        msg = (
            f"{who}: the likelihood {likelihood!r} of view {views.names[v]!r} needs its data in memory, but these "
            f"views stay on disk; read them with StoredViews.read(0, {len(views)}), or use likelihood='gaussian' (for "
            "counts with standardize='counts')."
        )
        raise OptionError(msg)
    return LIKELIHOODS[likelihood].moments(views.rows(v).astype(np.float64, copy=False))


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
    is. Bernoulli and categorical errors are nats, which have no unit to take off: there it is so for these views
    together, and a feature weighs the same in all that are equally wide. With `scale`, the sum becomes this number.
    `trust` (V,) is a further factor for each view, which leaves the sum as it is.
    """
    if costs is None or (balance is False and scale is False and trust is None):
        return None
    varies = costs > max(np.finfo(np.float32).eps * costs.max(), 2 * _NOTHING)
    if not varies.any():  # a single sample, or copies of it
        return None
    widths = np.array(sizes, dtype=np.float64)
    nats = varies & np.array([LIKELIHOODS[name].shares_unit for name in likelihoods])
    units = np.where(nats, widths * costs[nats].sum() / max(widths[nats].sum(), 1.0), costs)
    relative = np.ones_like(costs) if balance is False else widths ** (1.0 - balance) / units
    if trust is not None:
        relative = relative * np.maximum(trust, _LEAST_TRUST)
    total = costs.sum() if scale is False else float(scale)
    weights: list[float] = np.where(varies, relative * total / (relative * costs)[varies].sum(), 1.0).tolist()
    return weights
