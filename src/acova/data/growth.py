"""Views and what is learned of them, with one view more or one less."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import near_miss
from acova.data.categories import Categories, Encoded, given_column, given_sizes
from acova.data.completion import Completion, JointCompletion
from acova.data.inputs import as_float_array, check_lengths, from_tensor
from acova.data.names import along, joined_index, union
from acova.data.scaling import Scaling
from acova.data.summary import Summary, count_patterns
from acova.data.views import Announced, Views

T = TypeVar("T")


def with_view(views: Views, name: str, table: Any) -> Views:
    """Return views with one more, the last.

    Parameters
    ----------
    views : Views
    name : str
    table : DataFrame or 2-D array
        A frame is joined on the index; samples that only it has come after the others. An array has a row per sample,
        NaN where a sample lacks the view.
    """
    if name in views.names:
        msg = f"View {name!r} is there already; give the new view another name."
        raise DataError(msg)
    if isinstance(table, pd.DataFrame):
        index = joined_index({views.names[0]: pd.DataFrame(index=views.index), name: table})
        encoded = Encoded(name, table)
        new = along(index, table.index, encoded.values)
        return _with_array(views, name, new, index, encoded.columns, encoded.categories)
    new = as_float_array(name, from_tensor(table))
    check_lengths({views.names[0]: views.arrays[0], name: new})
    return _with_array(views, name, new, views.index, None, {})


def with_view_of(views: Views, other: Views, name: str) -> Views:
    """Return views with one more, the last, which other `Views` have; their samples are joined by name."""
    v = other.names.index(name)
    index = union([views.index, other.index])
    new = along(index, other.index, other.arrays[v])
    return _with_array(views, name, new, index, other.columns[v], other.categories[v])


def _with_array(
    views: Views,
    name: str,
    new: NDArray[np.floating[Any]],
    index: pd.Index,
    columns: tuple[str, ...] | None,
    categories: Categories,
) -> Views:
    observed = np.zeros((len(index), views.n_views + 1), dtype=bool)
    observed[: len(views), :-1] = views.observed
    observed[:, -1] = ~np.isnan(new).all(axis=1)
    arrays = [*(along(index, views.index, array) for array in views.arrays), new]
    some = np.flatnonzero(observed.any(axis=1))
    return Views(
        [array[some] for array in arrays],
        observed[some],
        [*views.names, name],
        index.take(some),
        [*views.columns, columns],
        [*views.categories, categories],
    )


def last_view(views: Views) -> Views:
    """Return the last view alone, of the samples that have it."""
    name = views.names[-1]
    rows = np.flatnonzero(views.observed[:, -1])
    if not rows.size:
        msg = f"View {name!r} is observed for no sample, so nothing can be learned of it; give at least one row of it."
        raise DataError(msg)
    return Views(
        [views.arrays[-1][rows]],
        np.ones((len(rows), 1), dtype=bool),
        [name],
        views.index.take(rows),
        [views.columns[-1]],
        [views.categories[-1]],
    )


def split_announced(views: Views, announced: Mapping[str, Announced]) -> tuple[Views, list[str]]:
    """Return the views without announced ones, and the names of those that some sample has."""
    found = [name for name in views.names if name in announced]
    if not found:
        return views, []
    arrived = [name for name in found if views.observed[:, views.names.index(name)].any()]
    return views.without(found), arrived


def check_announced(view: Views, announced: Announced) -> None:
    """Raise `DataError` where a view alone has other columns than were announced."""
    name, columns, categories = view.names[0], view.columns[0], view.categories[0]
    if isinstance(announced, tuple) and columns is not None:
        given = tuple(dict.fromkeys(given_column(column, categories) for column in columns))
        if given != announced:
            odd = sorted(set(given) ^ set(announced))[:5] or "another order"
            msg = f"View {name!r} must have the columns that were announced; they differ in {odd}."
            raise DataError(msg)
        return
    wanted, found = announced if isinstance(announced, int) else len(announced), given_sizes(view.sizes, [categories])
    if found[0] != wanted:
        msg = f"View {name!r} was announced with {wanted} columns; got {found[0]}."
        raise DataError(msg)


def scaling_with(scaling: Scaling, new: Scaling) -> Scaling:
    """Return the scaling of several views with that of one more, which is learned alone.

    Empty cells of the other views are completed as before, so they do not look at the new view.
    """
    sizes = [len(center) for center in scaling.centers]
    size = len(new.centers[0])
    completions = scaling.completions or (None,) * len(sizes)
    joint = scaling.joint
    if joint is not None or new.joint is not None:
        parts = [
            joint or _of_means([np.zeros(width) for width in sizes]),
            new.joint or _of_means([np.zeros(size)]),
        ]
        joint = _side_by_side(parts)
    return replace(
        scaling,
        centers=(*scaling.centers, *new.centers),
        scales=(*scaling.scales, *new.scales),
        unit_rows=(*scaling.unit_rows, *new.unit_rows),
        limits=(*scaling.limits, *new.limits),
        completions=(*completions, *(new.completions or (None,))),
        joint=joint,
        marks=(*_or(scaling.marks, False, len(sizes)), *_or(new.marks, False, 1)),
        totals=(*_or(scaling.totals, 0.0, len(sizes)), *new.totals),
        lengths=(*_or(scaling.lengths, 1.0, len(sizes)), *new.lengths),
    )


def scaling_without(scaling: Scaling, v: int) -> Scaling:
    """Return the scaling without that of one view."""
    joint, ends = scaling.joint, np.cumsum([0, *(len(center) for center in scaling.centers)])
    if joint is not None:
        kept = np.r_[0 : ends[v], ends[v + 1] : ends[-1]]
        model = joint.model
        mean, low, high, loadings = (part[kept] for part in (model.mean, model.low, model.high, model.loadings))
        joint = JointCompletion(Completion(mean, low, high, loadings, model.noise), np.delete(joint.weights, v))
    per_view = ("centers", "scales", "unit_rows", "limits", "completions", "marks", "totals", "effects", "lengths")
    fewer: dict[str, Any] = {name: dropped(getattr(scaling, name), v) for name in per_view}
    return replace(scaling, **fewer, joint=joint)


def summary_without(summary: Summary, v: int) -> Summary:
    """Return what is known of the training samples without one view."""
    seen = np.delete(summary.patterns, v, axis=1)
    patterns, counts = count_patterns(seen, summary.counts)
    by_cluster = summary.by_cluster
    if by_cluster is not None:
        by_cluster = (patterns[:, None] == seen).all(axis=2).astype(np.int64) @ by_cluster
    means, stds, zeros = (dropped(part, v) for part in (summary.means, summary.stds, summary.zeros))
    return Summary(patterns, counts, np.delete(summary.rows, v, axis=1), means, stds, zeros, by_cluster)


def place_of(name: str, names: Sequence[str], who: str) -> int:
    """Return the place of a view, or raise `DataError`."""
    if name not in names:
        msg = (
            f"{who}: there is no view {name!r}; the model knows {', '.join(map(repr, names))}.{near_miss(name, names)}"
        )
        raise DataError(msg)
    return list(names).index(name)


def dropped(values: Sequence[T], v: int) -> tuple[T, ...]:
    """Return values per view without that of one view; none stay none."""
    return (*values[:v], *values[v + 1 :])


def _or(values: Sequence[T], otherwise: T, count: int) -> tuple[T, ...]:
    return tuple(values) or (otherwise,) * count


def _of_means(means: Sequence[NDArray[np.float64]]) -> JointCompletion:
    return JointCompletion(Completion.of_means(np.concatenate(means)), np.ones(len(means)))


def _side_by_side(parts: Sequence[JointCompletion]) -> JointCompletion:
    """Return factor models of different views as one, whose factors have nothing to do with each other.

    What is expected of empty cells depends on the loadings over the noise alone, so one noise serves all.
    """
    models = [part.model for part in parts]
    noise = models[0].noise
    counts = np.cumsum([0, *(model.loadings.shape[1] for model in models)])
    loadings = np.zeros((sum(len(model.mean) for model in models), counts[-1]))
    start = 0
    for number, model in enumerate(models):
        rows = slice(start, start + len(model.mean))
        loadings[rows, counts[number] : counts[number + 1]] = model.loadings * np.sqrt(noise / model.noise)
        start = rows.stop
    mean, low, high = (np.concatenate([getattr(model, name) for model in models]) for name in ("mean", "low", "high"))
    return JointCompletion(Completion(mean, low, high, loadings, noise), np.concatenate([p.weights for p in parts]))
