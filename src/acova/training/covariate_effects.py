"""By how much covariates, such as a batch, shift the features of samples that are alike."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.graphs import combined_graph, view_graphs
from acova.clustering.spectral import LINKED, spectral_clusters, spectral_embedding
from acova.data import Scaling, Views
from acova.data.covariates import Covariates, linear_effects
from acova.engine.parallel import single_threaded
from acova.training.completions import with_completions
from acova.training.extremes import overflow_allowed, scaled
from acova.training.influence import spread_samples

_MOST_GROUPS, _SAMPLES_OF_GROUP = 8, 10
_ROUNDS = 5
_SEED = 0
"""Of the k-means that groups are found by."""
Floats = NDArray[np.float64]


@single_threaded()
def with_covariates(
    scaling: Scaling, views: Views, *, adjusts: Sequence[bool] | None = None, tells: bool = False
) -> Scaling:
    """Return a scaling that knows the covariates of the training data, if these have some.

    Where clusters differ in frequency between batches, a regression on the batch takes part of their difference for
    that of the batches. So effects are regressions within groups of alike samples. The groups are clusters of the
    neighbour graph of all views, first with the effects of one group taken off, then with those within the groups of
    the round before. Groups need not be the clusters that are looked for: up to 8, of ten samples or more on average.

    Parameters
    ----------
    scaling : Scaling
    views : Views
        The training data, in the order of training.
    adjusts : sequence of V bool, optional
        From which views effects are taken off; from all by default.
    tells : bool
        Whether a network is told the covariates.
    """
    if views.covariates is None:
        return scaling
    known = Covariates.learn(views.covariates)
    told = replace(scaling, covariates=known, tells=tells)
    adjusts = [True] * views.n_views if adjusts is None else adjusts
    if not any(adjusts):
        return told
    with overflow_allowed():
        some, _ = spread_samples(views, LINKED)
        encoded = known.encode(views.covariates if some.covariates is None else some.covariates)
        effects = _within_groups(told, views, some, encoded, adjusts)
    return replace(told, effects=effects)


def _within_groups(
    scaling: Scaling, views: Views, some: Views, encoded: Floats, adjusts: Sequence[bool]
) -> tuple[Floats, ...]:
    """Return the effects (C, P_v) of covariates on every view, learned from some samples; zeros where left on."""
    rows = scaling.measured(some)
    start = effects = _chosen(linear_effects(rows, some.observed, encoded), adjusts)
    tables, before = _completed(replace(scaling, effects=start), views, some), np.zeros(len(some), dtype=np.intp)
    count = min(_MOST_GROUPS, len(some) // _SAMPLES_OF_GROUP)
    for _ in range(_ROUNDS if count > 1 else 0):
        moved = [
            np.where(seen[:, None], table + encoded @ (first - last), 0.0)
            for table, seen, first, last in zip(tables, some.observed.T, start, effects, strict=True)
        ]
        groups = _groups(moved, some.observed, count)
        if (groups == before).all():
            break
        effects, before = _chosen(linear_effects(rows, some.observed, encoded, groups), adjusts), groups
    return effects


def _chosen(effects: Sequence[Floats], adjusts: Sequence[bool]) -> tuple[Floats, ...]:
    return tuple(effect * adjust for effect, adjust in zip(effects, adjusts, strict=True))


def _completed(scaling: Scaling, views: Views, some: Views) -> list[Floats]:
    """Return scaled views of some samples without empty cells, (n, P_v)."""
    if any(empty is not None for empty in views.empty):
        scaling = with_completions(scaling, views, [empty is not None for empty in views.empty])
    return [table.astype(np.float64) for table in scaled(some, scaling)]


def _groups(tables: Sequence[Floats], observed: NDArray[np.bool_], count: int) -> NDArray[np.intp]:
    """Return clusters (n,) of the neighbour graph of all views."""
    trust = agreement_weights(view_agreement(tables, observed, count), tables, observed, count)
    links = combined_graph(view_graphs(tables, observed, count), observed, trust)
    return spectral_clusters(links, spectral_embedding(links, count), count, _SEED).labels
