"""How much each view is trusted in training, and what a sample's neighbours have by that."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import OptionError, check_choice, check_number
from acova.clustering.graphs import agreement_weights, combined_graph, smoothed_rows, view_agreement, view_graphs
from acova.data import Scaling, StoredViews, Views
from acova.engine import single_threaded
from acova.training.extremes import scaled

WEIGHTS = ("agreement", "equal")
_BLOCKS, _BLOCK_ROWS = 4, 256
"""How many rows of views on disk are compared, and in how many places they are read."""


def trusted_views(
    settings: Any, views: Views | StoredViews, scaling: Scaling
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return how far the views agree (V, V), and how much each is trusted (V,); None where all are alike.

    Parameters
    ----------
    settings : estimator
        With ``view_weights``, ``n_clusters`` and its name for errors.
    views : Views or StoredViews
    scaling : Scaling
    """
    known = np.ones((views.n_views, views.n_views))
    if not isinstance(settings.view_weights, str):
        return known, given_weights(type(settings).__name__, settings.view_weights, views.names)
    check_choice(type(settings).__name__, "view_weights", settings.view_weights, WEIGHTS, "a number for each view")
    if settings.view_weights == "equal" or views.n_views == 0:
        return known, None
    some = _some_rows(views)
    tables = [table.astype(np.float64) for table in scaled(some, scaling)]
    with single_threaded():
        agreement = view_agreement(tables, some.observed, settings.n_clusters)
        return agreement, agreement_weights(agreement, tables, some.observed, settings.n_clusters)


def given_weights(who: str, weights: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights that a user gave the views, divided by the largest."""
    values = weights
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            msg = f"{who}: view_weights must name every view once ({', '.join(map(repr, names))}); got {list(weights)}."
            raise OptionError(msg)
        values = [weights[name] for name in names]
    if np.ndim(values) != 1 or len(values) != len(names):
        msg = f"{who}: view_weights must be one number per view ({len(names)}), or one of {WEIGHTS}; got {weights!r}."
        raise OptionError(msg)
    for name, value in zip(names, values, strict=True):
        check_number(who, f"view_weights of {name!r}", value, minimum=0)
    numbers = np.asarray(values, dtype=np.float64)
    if not numbers.any():
        msg = f"{who}: view_weights must be above 0 for at least one view; got {weights!r}."
        raise OptionError(msg)
    return np.asarray(numbers / numbers.max())


def smoothed_views(
    views: Sequence[Tensor], observed: Tensor, trust: NDArray[np.float64], n_clusters: int
) -> list[Tensor]:
    """Return what a sample's neighbourhood in the graph of all views has in each view, (N, P_v).

    Views count in the graph as much as they are trusted. Hidden cells are not read.
    """
    seen = observed.cpu().numpy()
    tables = [view.double().cpu().numpy() for view in views]
    with single_threaded():
        graph = combined_graph(view_graphs(tables, seen, n_clusters), seen, trust)
        smooth = [smoothed_rows(graph, table, here) for table, here in zip(tables, seen.T, strict=True)]
    return [torch.from_numpy(rows).to(view) for rows, view in zip(smooth, views, strict=True)]


def _some_rows(views: Views | StoredViews) -> Views:
    """Return the views, or of views on disk some rows from several places."""
    if isinstance(views, Views):
        return views
    if len(views) <= _BLOCKS * _BLOCK_ROWS:
        return views.read(0, len(views))
    starts = [len(views) * place // _BLOCKS for place in range(_BLOCKS)]
    parts = [views.read(start, start + _BLOCK_ROWS) for start in starts]
    arrays = [np.vstack(same) for same in zip(*(part.arrays for part in parts), strict=True)]
    return Views(arrays, np.vstack([part.observed for part in parts]), views.names)
