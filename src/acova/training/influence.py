"""How much a partition depends on each view: what changes without it, and whether the view alone predicts it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from acova.clustering.graphs import ViewGraph, neighbour_count
from acova.data import Scaling, StoredViews, Summary, Views
from acova.data.categories import given_column
from acova.engine.parallel import single_threaded
from acova.training.extremes import scaled

_COMPARED = 1_000
"""Samples that are looked at, evenly spread where there are more."""
_BLOCKS, _BLOCK_ROWS = 4, 256
"""Of views on disk: in how many places, and how many rows at once."""
_FEWEST = 10
"""Samples of a view from which on it says anything."""
_DECIDES, _SUPPORTS = 0.5, 0.1
"""Support from which on a view tells the clusters, and up to which it tells no more than chance."""
_ONE_COLUMN = 0.8
"""Support from which on a single column tells the clusters."""

Labeller = Callable[[Views, NDArray[np.bool_]], NDArray[np.int64]]
"""``labels(views, observed)`` gives the clusters of samples of which some views are hidden."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Influence:
    """What a partition owes to each view.

    Attributes
    ----------
    changed : array of shape (V,)
        Share of the samples with the view and another one that get another cluster when the view is hidden.
    support : array of shape (V,)
        How well a sample's cluster can be told from those of its nearest neighbours in the view alone: Cohen's kappa,
        0 by chance and 1 where the view has the same groups.
    shift : array of shape (V,)
        Of the difference between the clusters of samples without and with the view, how much comes about when the view
        is hidden from samples that have it; NaN where no sample lacks it.
    warnings : list of str
        One sentence if a single view or column decides and nothing else supports it.
    """

    changed: Floats
    support: Floats
    shift: Floats
    warnings: list[str]


def influence_of_views(
    views: Views | StoredViews,
    scaling: Scaling,
    labels: NDArray[np.int64],
    summary: Summary,
    n_clusters: int,
    labels_of: Labeller,
) -> Influence:
    """Return what a partition owes to each view.

    Parameters
    ----------
    views : Views or StoredViews
        The training samples; of more than a thousand, evenly spread ones are looked at.
    scaling : Scaling
    labels : array of shape (n_samples,)
    summary : Summary
        Of the same samples and labels: it tells which column separates the clusters most.
    n_clusters : int
    labels_of : callable
        See `Labeller`.
    """
    some, rows = spread_samples(views)
    labels = np.asarray(labels[rows])
    tables = [table.astype(np.float64) for table in scaled(some, scaling, alone=True)]
    with single_threaded():
        seen = some.observed.T
        support = np.array(
            [_support(table[has], labels[has], n_clusters) for table, has in zip(tables, seen, strict=True)]
        )
        warnings = _doubts(some, tables, labels, summary, support, n_clusters)
    hidden = [_without(some, labels, v, labels_of) for v in range(views.n_views)]
    changed = np.array([float((before != after).mean()) if len(before) else 0.0 for before, after in hidden])
    shift = np.array([_shift(summary, v, *pair) for v, pair in enumerate(hidden)])
    return Influence(changed, support, shift, warnings)


def spread_samples(views: Views | StoredViews, most: int = _COMPARED) -> tuple[Views, NDArray[np.intp]]:
    """Return evenly spread samples and their positions; of views on disk, blocks from several places."""
    count = views.n_samples
    if isinstance(views, Views):
        rows = np.arange(count) if count <= most else np.arange(most) * count // most
        return views.take(rows), rows
    if count <= _BLOCKS * _BLOCK_ROWS:
        return views.read(0, count), np.arange(count)
    starts = [count * place // _BLOCKS for place in range(_BLOCKS)]
    parts = [views.read(start, start + _BLOCK_ROWS) for start in starts]
    arrays = [np.vstack(same) for same in zip(*(part.arrays for part in parts), strict=True)]
    joined = Views(arrays, np.vstack([part.observed for part in parts]), views.names, columns=views.columns)
    return joined, np.concatenate([np.arange(start, start + _BLOCK_ROWS) for start in starts])


def _support(rows: Floats, labels: NDArray[np.int64], n_clusters: int) -> float:
    """Return how well the labels of rows (n, P) can be told from those of their nearest neighbours, 0 by chance."""
    if len(rows) < _FEWEST or not rows.shape[1] or len(np.unique(labels)) < 2:
        return 0.0
    links = ViewGraph.of(rows, neighbour_count(len(rows), n_clusters)).links()
    votes = np.asarray(links @ np.eye(n_clusters)[labels])
    return max(float(cohen_kappa_score(labels, votes.argmax(axis=1))), 0.0)


def _without(
    some: Views, labels: NDArray[np.int64], v: int, labels_of: Labeller
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the clusters of samples that have view v and another one, and their clusters when v is hidden."""
    both = some.observed[:, v] & (some.observed.sum(axis=1) > 1)
    if not both.any():
        return labels[both], labels[both]
    chosen = some.take(np.flatnonzero(both))
    mask = chosen.observed.copy()
    mask[:, v] = False
    return labels[both], labels_of(chosen, mask)


def _shift(summary: Summary, v: int, before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
    """Return how much of the difference between samples without and with a view comes about when it is hidden."""
    if summary.by_cluster is None:
        return np.nan
    n_clusters = summary.by_cluster.shape[1]
    without, having = (summary.by_cluster[summary.patterns[:, v] == has].sum(axis=0) for has in (False, True))
    if not len(before) or not without.any():
        return np.nan
    apart = without / without.sum() - having / having.sum()
    moved = (np.bincount(after, minlength=n_clusters) - np.bincount(before, minlength=n_clusters)) / len(before)
    length = float(np.square(apart).sum())
    return float(moved @ apart / length) if length else np.nan


def _doubts(
    some: Views,
    tables: Sequence[Floats],
    labels: NDArray[np.int64],
    summary: Summary,
    support: Floats,
    n_clusters: int,
) -> list[str]:
    """Say if one column decides, or one view, that nothing else supports."""
    best = int(support.argmax())
    others = np.delete(support, best)
    if support[best] < _DECIDES or (others > _SUPPORTS).any():
        return []
    name = some.names[best]
    column, inside = _strongest_column(some, summary, best)
    has = some.observed[:, best]
    alone, rest = (
        _support(part[has], labels[has], n_clusters) for part in (tables[best][:, inside], tables[best][:, ~inside])
    )
    if alone >= _ONE_COLUMN and rest <= _SUPPORTS:
        where = f"column {column!r} of view {name!r}" if inside.sum() < len(inside) else f"view {name!r}"
        return [
            f"the clusters are those of {where} alone: its values predict them (kappa {alone:.2f}), and nothing "
            "else does so better than chance. Leave it out unless these are the groups you look for."
        ]
    if not others.size:
        return []
    return [
        f"the clusters are those of view {name!r} alone: its neighbours predict them (kappa {support[best]:.2f}), "
        f"and no other view does so better than chance (at most {others.max():.2f}). Leave the view out, or lower its "
        "view_weights, unless you trust it most."
    ]


def _strongest_column(some: Views, summary: Summary, v: int) -> tuple[str, NDArray[np.bool_]]:
    """Return the column of a view whose values differ most between clusters, and which features were made from it."""
    sizes = summary.rows[:, v].astype(np.float64)[:, None]
    means, stds = np.nan_to_num(summary.means[v]), np.nan_to_num(summary.stds[v])
    with np.errstate(over="ignore", invalid="ignore"):
        overall = (sizes * means).sum(axis=0) / sizes.sum()
        between = (sizes * np.square(means - overall)).sum(axis=0)
        total = between + (sizes * np.square(stds)).sum(axis=0)
        share = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    strongest = int(np.nan_to_num(share).argmax())
    names = some.columns[v] or tuple(map(str, range(len(share))))
    column = given_column(names[strongest], some.categories[v])
    return column, np.array([given_column(each, some.categories[v]) == column for each in names])
