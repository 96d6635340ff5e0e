"""Scaling of the views, learned from observed rows only; statistics that stored views give block by block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import DataError
from acova.base.errors import check_choice
from acova.data.columns import add_moments
from acova.data.completion import Completion, JointCompletion
from acova.data.covariates import Covariates
from acova.data.features import Features, features_of, observed_rows
from acova.data.inputs import FloatArray
from acova.data.rows import log_counts, row_lengths, row_totals, shortened_rows, to_unit_length
from acova.data.scalers import LEARNERS, SCALINGS, ByCounts, of_usual_rows
from acova.data.stored import StoredViews
from acova.data.views import Views

Affine = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Scaling:
    """A map per view, ``(x - center) / scale``, that never saw a hidden cell.

    Attributes
    ----------
    centers, scales : tuple of arrays of shape (n_features_of_view,)
    unit_rows : tuple of bool
        Whether every row x of the view is brought to length 1 first.
    limits : tuple of float
        Greatest length of a scaled row; a longer one is shortened to it. Infinity by default.
    completions : tuple of (Completion or None), or empty
        What stands in the place of a view's empty cells after scaling, by its own cells; without one, 0 does.
    joint : JointCompletion, optional
        The same by the cells of all views.
    marks : tuple of bool, or empty
        Whether a network is told which cells of the view are empty.
    totals : tuple of float
        What the sum of every row is brought to first, and log(1 + x) taken; 0 for views that are no counts.
    covariates : Covariates or None
        How covariates become numbers.
    effects : tuple of arrays of shape (C, n_features_of_view), or empty
        By how much a scaled feature changes with the covariates, which is taken off.
    lengths : tuple of float
        Mean length of the rows that are brought to length 1, else 1; empty in runs that were saved without them.
    tells : bool
        Whether a network is told the covariates.

    See Also
    --------
    acova.Views : What it scales.
    """

    centers: tuple[NDArray[np.float64], ...]
    scales: tuple[NDArray[np.float64], ...]
    unit_rows: tuple[bool, ...]
    limits: tuple[float, ...] = ()
    completions: tuple[Completion | None, ...] = ()
    joint: JointCompletion | None = None
    marks: tuple[bool, ...] = ()
    totals: tuple[float, ...] = ()
    covariates: Covariates | None = None
    effects: tuple[NDArray[np.float64], ...] = ()
    lengths: tuple[float, ...] = ()
    tells: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", tuple(self.limits) or (np.inf,) * len(self.centers))

    @classmethod
    def fit(
        cls, views: Views | StoredViews, kinds: tuple[str, ...], features: Sequence[Features] | None = None
    ) -> "Scaling":
        """Learn the map of each view from its observed rows, in one pass; in two where "auto" has to look at them.

        Parameters
        ----------
        views : Views or StoredViews
        kinds : one of "zscore", "robust", "range", "cosine", "counts", "auto", "unit", "unit_view", "none" per view
            ``"zscore"``: every feature to mean 0 and standard deviation 1 (a constant feature to 0);
            ``"robust"``: the same, learned without the rows of unusual length, which are shortened to the length where
            that begins (twice the median, and six robust standard deviations above it);
            ``"range"``: one mean and one range for the whole view; ``"cosine"``: every row to length 1, every feature
            to mean 0, and the mean of their variances to 1; ``"counts"``: every row to the mean of the rows' sums, then
            log(1 + x), then the z-score; ``"auto"``: the range where at least half of the features
            span nine tenths of it and values are common at its ends, as with pixels, ratings and zeros and ones; the
            cosine where at least four fifths of the cells are zero, as in counts of words; else robust;
            ``"unit"``: every feature to [0, 1] (a constant feature to 0); ``"unit_view"``: the whole view to [0, 1] by
            its least and its largest value; ``"none"``: as is.
        features : sequence of V Features, optional
            What `features_of` said of the views, for the kinds "auto" and "counts", if it is known already.
        """
        kinds = suited_kinds(views, kinds, features)
        learners = [LEARNERS[kind](size) for kind, size in zip(kinds, views.sizes, strict=True)]
        if features is None and "counts" in kinds:
            features = features_of(views)
        for learner, known in zip(learners, features or (), strict=False):
            if isinstance(learner, ByCounts):
                learner.know(known)
        if any(kind != "none" for kind in kinds):
            for v, rows in observed_rows(views):
                learners[v].add(rows)
        maps = [learner.result(name) for name, learner in zip(views.names, learners, strict=True)]
        maps = of_usual_rows(views, maps, [v for v, kind in enumerate(kinds) if kind == "robust"])
        centers, scales, unit_rows, limits, totals, lengths = zip(*maps, strict=True)
        return cls(centers, scales, unit_rows, limits, totals=totals, lengths=lengths)

    def measured(self, views: Views) -> list[FloatArray]:
        """Return the scaled rows of the samples that have a view, less what covariates explain, view by view.

        Empty cells are NaN. Without covariates nothing is taken off: the mean of the training samples is assumed.
        """
        rows = [self.scaled_rows(v, views.rows(v)) for v in range(views.n_views)]
        explained = self.explained(views)
        return [part - more[seen] for part, more, seen in zip(rows, explained, views.observed.T, strict=True)]

    def explained(self, views: Views) -> list[NDArray[np.float64]]:
        """Return what covariates explain of scaled rows, for all samples, (N, P_v) per view; (N, 1) where nothing."""
        if self.covariates is None or views.covariates is None or not self.effects:
            return [np.zeros((views.n_samples, 1))] * views.n_views
        encoded = self.covariates.encode(views.covariates)
        return [encoded @ effect for effect in self.effects]

    @property
    def n_told(self) -> int:
        """How many numbers the network is told of a sample's covariates."""
        return self.covariates.n_encoded if self.tells and self.covariates is not None else 0

    def told(self, views: Views) -> NDArray[np.float32]:
        """Return what the network is told of covariates, (N, n_told): zeros, the mean, for samples without them."""
        if self.covariates is None or views.covariates is None or not self.tells:
            return np.zeros((views.n_samples, self.n_told), dtype=np.float32)
        return self.covariates.encode(views.covariates).astype(np.float32)

    def transform(self, views: Views, *, alone: bool = False) -> list[NDArray[np.float32]]:
        """Return one scaled float32 array per view, hidden rows filled with zeros and empty cells completed.

        Without covariates nothing is taken off: the mean of the training samples is assumed. With `alone`, a view is
        completed by its own cells, so that none is like another because it was completed by it.
        """
        joint = None if alone else self.joint
        scaled = []
        for v, (array, explained) in enumerate(zip(views.arrays, self.explained(views), strict=True)):
            out = np.zeros(array.shape, dtype=np.float32)
            seen = views.observed[:, v]
            out[seen] = rows = self.scaled_rows(v, array[seen]) - explained[seen]
            if views.empty[v] is not None:
                completion = self.completions[v] if self.completions and joint is None else None
                out[seen] = np.nan_to_num(rows) if completion is None else completion.completed(rows)
            scaled.append(out)
        if joint is not None and any(empty is not None for empty in views.empty):
            _complete_jointly(views, scaled, joint)
        return scaled

    def scaled_rows(self, v: int, rows: FloatArray) -> FloatArray:
        """Return scaled rows of view v, with NaN in empty cells."""
        return shortened_rows((self.before_map(v, rows) - self.centers[v]) / self.scales[v], self.limits[v])

    def with_marks(
        self, tables: Sequence[FloatArray], observed: NDArray[np.bool_], told: NDArray[np.float32]
    ) -> list[NDArray[np.float32]]:
        """Return scaled views with NaN in empty cells as networks take them.

        Cells are completed, and marks stand behind them, and behind these what is told of the covariates.
        """
        empty = [np.isnan(table) & seen[:, None] for table, seen in zip(tables, observed.T, strict=True)]
        completed = [np.nan_to_num(table) for table in tables]
        if any(cells.any() for cells in empty):
            if self.joint is not None:
                known = [np.where(seen[:, None], t, np.nan) for t, seen in zip(tables, observed.T, strict=True)]
                done = self.joint.completed(known)
            else:
                completions = self.completions or (None,) * len(tables)
                done = [
                    np.nan_to_num(t) if c is None else c.completed(t) for t, c in zip(tables, completions, strict=True)
                ]
            triples = zip(empty, done, completed, strict=True)
            completed = [np.where(cells, filled, table) for cells, filled, table in triples]
        marks = self.marks or (False,) * len(tables)
        pairs = zip(completed, empty, marks, strict=True)
        return [np.hstack([t, *([cells] if marked else []), told]).astype(np.float32) for t, cells, marked in pairs]

    def with_means(self, means: Sequence[NDArray[np.float64]]) -> "Scaling":
        """Return the same with the means of columns, as the data have them, for views without a completion."""
        known = self.completions or (None,) * len(self.centers)
        completions = tuple(
            Completion.of_means(
                np.zeros_like(mean) if self.unit_rows[v] else np.asarray(self.scaled_rows(v, mean[None])[0])
            )
            if completion is None
            else completion
            for v, (mean, completion) in enumerate(zip(means, known, strict=True))
        )
        return replace(self, completions=completions)

    def completed(self, v: int, rows: FloatArray, scaled: FloatArray) -> NDArray[np.float64]:
        """Return rows of view v with what scaled rows hold in their empty cells, in the units of the data."""
        found = scaled * self.scales[v] + self.centers[v]
        if self.totals and self.totals[v]:
            found = np.expm1(np.maximum(found, 0.0)) * (row_totals(rows)[:, None] / self.totals[v])
        elif self.unit_rows[v]:
            found = found * row_lengths(rows)[:, None]
        return np.where(np.isnan(rows), found, rows)

    def before_map(self, v: int, rows: FloatArray) -> FloatArray:
        """Return rows of view v as center and scale are meant for them."""
        if self.totals and self.totals[v]:
            return log_counts(rows, self.totals[v])
        return to_unit_length(rows) if self.unit_rows[v] else rows

    def affine(self, v: int) -> Affine:
        """Return center and scale with ``x = center + scale * scaled``, in the units of the data.

        Rows that are brought to length 1 have lost their own length; here they all have the mean length.
        """
        if self.totals and self.totals[v]:
            msg = (
                "Scaling: logarithms of counts cannot be given in the units of the data, because the sum of a missing "
                "row is not known; use standardize='auto' for this view."
            )
            raise DataError(msg)
        if self.unit_rows[v] and not self.lengths:
            msg = (
                "Scaling: this run was saved without the lengths of its rows, so values cannot be given in the units "
                "of the data; fit again."
            )
            raise DataError(msg)
        length = self.lengths[v] if self.unit_rows[v] else 1.0
        return self.centers[v] * length, self.scales[v] * length


def suited_kinds(
    views: Views | StoredViews, kinds: Sequence[str], features: Sequence[Features] | None = None
) -> tuple[str, ...]:
    """Return how each view is scaled, with what "auto" stands for in its place; parameters as for `Scaling.fit`."""
    for kind in kinds:
        check_choice("Scaling", "kind", kind, SCALINGS)
    if "auto" not in kinds:
        return tuple(kinds)
    pairs = zip(kinds, features or features_of(views), strict=True)
    return tuple(of_view.scaling() if kind == "auto" else kind for kind, of_view in pairs)


def _complete_jointly(views: Views, scaled: list[NDArray[np.float32]], joint: JointCompletion) -> None:
    """Fill the empty cells of scaled views in place."""
    empty = [np.zeros((), dtype=bool) if holes is None else holes for holes in views.empty]
    rows = np.flatnonzero(np.logical_or.reduce([holes.any(axis=1) for holes in views.empty if holes is not None]))
    tables = [
        np.where(~seen[rows, None] | (holes[rows] if holes.ndim else holes), np.nan, table[rows])
        for table, seen, holes in zip(scaled, views.observed.T, empty, strict=True)
    ]
    for table, done, holes in zip(scaled, joint.completed(tables), empty, strict=True):
        if holes.ndim:
            table[rows] = np.where(holes[rows], done, table[rows])


def scaled_moments(views: Views | StoredViews, scaling: Scaling) -> list[Affine]:
    """Return mean and variance of every scaled feature over observed rows, view by view; zeros where there are none."""
    if scaling.effects and isinstance(views, Views):
        return [(np.nanmean(rows, axis=0), np.nanvar(rows, axis=0)) for rows in scaling.measured(views)]
    learners = [StandardScaler() for _ in range(views.n_views)]
    for v, rows in observed_rows(views):
        known = scaling.before_map(v, rows) if scaling.limits[v] == np.inf else scaling.scaled_rows(v, rows)
        add_moments(learners[v], known)
    return [_moments_of(learner, scaling, v) for v, learner in enumerate(learners)]


def _moments_of(learner: StandardScaler, scaling: Scaling, v: int) -> Affine:
    """Return the moments of the scaled features of view v, from those of what the learner was given."""
    center, scale = scaling.centers[v], scaling.scales[v]
    if not hasattr(learner, "var_"):
        return np.zeros_like(center), np.zeros_like(center)
    if scaling.limits[v] == np.inf:
        return (learner.mean_ - center) / scale, learner.var_ / scale**2
    return learner.mean_, learner.var_
