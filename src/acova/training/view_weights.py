"""How much each view is trusted in training, and what a sample's neighbours have by that."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import OptionError
from acova.base.errors import check_choice, check_number
from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.graphs import combined_graph, smoothed_rows, view_graphs
from acova.clustering.spectral import LINKED, SampleGraph
from acova.data import Scaling, StoredViews, Views
from acova.engine.parallel import single_threaded
from acova.training.extremes import scaled
from acova.training.influence import spread_samples
from acova.training.job import Settings

WEIGHTS = ("agreement", "equal")


def trusted_views(
    settings: Settings, views: Views | StoredViews, scaling: Scaling
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return how far the views agree (V, V), and how much each is trusted (V,); None where all are alike.

    Parameters
    ----------
    settings : Settings
        With ``view_weights`` and ``n_clusters``.
    views : Views or StoredViews
    scaling : Scaling
    """
    known = np.ones((views.n_views, views.n_views))
    by_word = isinstance(settings.view_weights, str)
    if not by_word or settings.view_weights != "agreement":
        weights = given_weights(settings.who, settings.view_weights, views.names)
        return known, None if by_word else weights
    some, _ = spread_samples(views, views.n_samples)
    tables = [table.astype(np.float64) for table in scaled(some, scaling, alone=True)]
    with single_threaded():
        agreement = view_agreement(tables, some.observed, settings.n_clusters)
        return agreement, agreement_weights(agreement, tables, some.observed, settings.n_clusters)


def given_weights(who: str, weights: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights that a user gave the views, divided by the largest; ``"equal"`` gives ones."""
    if isinstance(weights, str):
        check_choice(who, "view_weights", weights, WEIGHTS, "a number for each view")
        return np.ones(len(names))
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


def shared_graph(
    views: Views | StoredViews, scaling: Scaling, trust: NDArray[np.float64], n_clusters: int, most: int = LINKED
) -> SampleGraph:
    """Return the neighbour graph of all views, which count as much as they are trusted, of at most so many samples."""
    some, rows = spread_samples(views, most)
    tables = [table.astype(np.float64) for table in scaled(some, scaling)]
    with single_threaded():
        links = combined_graph(view_graphs(tables, some.observed, n_clusters), some.observed, trust)
    return SampleGraph(rows, links)


def smoothed_views(views: Sequence[Tensor], observed: Tensor, graph: SampleGraph) -> list[Tensor]:
    """Return what a sample's neighbourhood in a graph of all samples has in each view, (N, P_v).

    Hidden cells are not read.
    """
    seen = observed.cpu().numpy()
    tables = [view.double().cpu().numpy() for view in views]
    with single_threaded():
        smooth = [smoothed_rows(graph.links, table, here) for table, here in zip(tables, seen.T, strict=True)]
    return [torch.from_numpy(rows).to(view) for rows, view in zip(smooth, views, strict=True)]
