"""Scaling of the views, learned from observed rows only; statistics that stored views give block by block."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import DataError
from acova.base.errors import check_choice
from acova.data.columns import add_moments, least_of, most_of
from acova.data.completion import Completion, JointCompletion
from acova.data.covariates import Covariates, linear_effects
from acova.data.inputs import FloatArray
from acova.data.stored import StoredViews, blocks_of
from acova.data.views import Views

Affine = tuple[NDArray[np.float64], NDArray[np.float64]]

_SPANS, _MOST = 0.9, 0.5
"""Share of the view's range that a feature must span, and share of such features, for one scale of the view."""
_AT_ENDS = 0.3
"""Variance of features of one kind, as a share of what it would be with all values at the ends of the range."""
_ZEROS = 0.8
"""Share of the cells that are zero in a bag of words."""
_TIMES, _DEVIATIONS = 2.0, 6.0
"""A row of unusual length: how many times the median, and robust standard deviations above it."""
_QUARTILE = 0.6744897501960817
"""The upper quartile of a standard normal."""


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
        How covariates become numbers; with them, what they explain of the scaled features is taken off.
    effects : tuple of arrays of shape (C, n_features_of_view)
        By how much a scaled feature changes with the covariates.
    lengths : tuple of float
        Mean length of the rows that are brought to length 1, else 1; empty in runs that were saved without them.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", tuple(self.limits) or (np.inf,) * len(self.centers))

    @classmethod
    def fit(
        cls, views: Views | StoredViews, kinds: tuple[str, ...], features: Sequence["Features"] | None = None
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
        learners = [_LEARNERS[kind](size) for kind, size in zip(kinds, views.sizes, strict=True)]
        if features is None and "counts" in kinds:
            features = features_of(views)
        for learner, known in zip(learners, features or (), strict=False):
            if isinstance(learner, _ByCounts):
                learner.know(known)
        if any(kind != "none" for kind in kinds):
            for v, rows in _observed_rows(views):
                learners[v].add(rows)
        maps = [learner.result(name) for name, learner in zip(views.names, learners, strict=True)]
        maps = _of_usual_rows(views, maps, [v for v, kind in enumerate(kinds) if kind == "robust"])
        centers, scales, unit_rows, limits, totals, lengths = zip(*maps, strict=True)
        return cls(centers, scales, unit_rows, limits, totals=totals, lengths=lengths)

    def adjusted(self, views: Views) -> "Scaling":
        """Return the same with the effects of the covariates of these views, learned from observed rows."""
        if views.covariates is None:
            return self
        covariates = Covariates.learn(views.covariates)
        tables, encoded = replace(self, covariates=None).transform(views), covariates.encode(views.covariates)
        return replace(self, covariates=covariates, effects=linear_effects(tables, views.observed, encoded))

    def transform(self, views: Views, *, alone: bool = False) -> list[NDArray[np.float32]]:
        """Return one scaled float32 array per view, hidden rows filled with zeros and empty cells completed.

        Without covariates nothing is taken off: the mean of the training samples is assumed. With `alone`, a view is
        completed by its own cells, so that none is like another because it was completed by it.
        """
        joint = None if alone else self.joint
        scaled = []
        for v, array in enumerate(views.arrays):
            out = np.zeros(array.shape, dtype=np.float32)
            seen = views.observed[:, v]
            out[seen] = rows = self.scaled_rows(v, array[seen])
            if views.empty[v] is not None:
                completion = self.completions[v] if self.completions and joint is None else None
                out[seen] = np.nan_to_num(rows) if completion is None else completion.completed(rows)
            scaled.append(out)
        if joint is not None and any(empty is not None for empty in views.empty):
            _complete_jointly(views, scaled, joint)
        if self.covariates is not None and views.covariates is not None:
            encoded = self.covariates.encode(views.covariates)
            for out, seen, effect in zip(scaled, views.observed.T, self.effects, strict=True):
                out[seen] -= encoded[seen] @ effect
        return scaled

    def scaled_rows(self, v: int, rows: FloatArray) -> FloatArray:
        """Return scaled rows of view v, with NaN in empty cells."""
        return _shortened((self.before_map(v, rows) - self.centers[v]) / self.scales[v], self.limits[v])

    def with_marks(self, tables: Sequence[FloatArray], observed: NDArray[np.bool_]) -> list[NDArray[np.float32]]:
        """Return scaled views with NaN in empty cells as networks take them: cells completed, and marks behind them."""
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
        return [(np.hstack([t, cells]) if marked else t).astype(np.float32) for t, cells, marked in pairs]

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

    def before_map(self, v: int, rows: FloatArray) -> FloatArray:
        """Return rows of view v as center and scale are meant for them."""
        if self.totals and self.totals[v]:
            return log_counts(rows, self.totals[v])
        return _unit(rows) if self.unit_rows[v] else rows

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
    views: Views | StoredViews, kinds: Sequence[str], features: Sequence["Features"] | None = None
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
        pairs = zip(scaling.transform(views), views.observed.T, strict=True)
        own = [table[seen].astype(np.float64) for table, seen in pairs]
        return [(table.mean(axis=0), table.var(axis=0)) for table in own]
    learners = [StandardScaler() for _ in range(views.n_views)]
    for v, rows in _observed_rows(views):
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


class Features:
    """What the observed rows of a view, given in any number of blocks, say of its features.

    Attributes
    ----------
    low, high : arrays of shape (n_features,)
        The smallest and the largest value; infinities where there is no row.
    moments : StandardScaler
        Means and variances.
    whole : array of bool, shape (n_features,)
        Whether all values are whole numbers.
    """

    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.moments = StandardScaler()
        self.whole = np.ones(size, dtype=bool)
        self._cells, self._present = np.zeros((2, size), dtype=np.int64)

    def add(self, rows: FloatArray) -> None:
        """Take more rows into account."""
        self.low, self.high = np.fmin(self.low, least_of(rows)), np.fmax(self.high, most_of(rows))
        add_moments(self.moments, rows)
        is_empty = np.isnan(rows)
        self.whole[self.whole] = ((rows[:, self.whole] % 1 == 0) | is_empty[:, self.whole]).all(axis=0)
        empty = np.count_nonzero(is_empty, axis=0)
        self._cells += len(rows) - empty
        self._present += np.count_nonzero(rows, axis=0) - empty

    def scaling(self) -> str:
        """Return the kind of scaling that "auto" stands for."""
        if self.share_a_scale():
            return "range"
        return "cosine" if self.are_counts_of_words() else "robust"

    def share_a_scale(self) -> bool:
        """Tell whether the features are of one kind, as pixels, ratings and zeros and ones are.

        Most span (nearly) the range of them all, and values are common at its ends. A pixel that is hardly ever lit is
        then no event of its own to be blown up. Measurements brought to [0, 1] one by one share bounds, too, but most
        of their values lie between them.
        """
        least, spread = self.low.min(), self.high.max() - self.low.min()
        if not spread > 0:
            return True
        spanned = (self.high - self.low >= _SPANS * spread).mean()
        means = (self.moments.mean_ - least) / spread
        at_ends = (means * (1 - means)).sum() * spread**2
        return bool(spanned >= _MOST and self.moments.var_.sum() >= _AT_ENDS * at_ends)

    def are_counts_of_words(self) -> bool:
        """Tell whether the view is a bag of words: nearly all cells are zero, and rows are not long by one feature.

        That is, features that most rows have hold less than half of all squares.
        """
        shares = self._present / self._cells
        squares = self.moments.var_ + self.moments.mean_**2
        return bool(1 - shares.mean() >= _ZEROS and squares[shares > 0.5].sum() < 0.5 * squares.sum())


def features_of(views: Views | StoredViews) -> list[Features]:
    """Return what the observed rows of each view say of its features."""
    learners = [Features(size) for size in views.sizes]
    for v, rows in _observed_rows(views):
        learners[v].add(rows)
    return learners


def _observed_rows(views: Views | StoredViews) -> Iterator[tuple[int, FloatArray]]:
    """Yield the number of a view and some rows that it has, until all rows of all views were there."""
    for block in blocks_of(views):
        for v in range(views.n_views):
            rows = block.rows(v)
            if len(rows):
                yield v, rows


def _unit(rows: FloatArray) -> NDArray[np.float64]:
    """Return rows of length 1; zeros stay zeros. There may be no row, which scikit-learn's `normalize` refuses.

    The length of a row with empty cells is that of its other cells, times what makes up for their number.
    """
    rows = rows.astype(np.float64, copy=False)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    holes = np.isnan(lengths[:, 0])
    if holes.any():
        squares = np.square(rows[holes])
        lengths[holes] = np.sqrt(np.nanmean(squares, axis=1, keepdims=True) * rows.shape[1])
    return rows / np.where(lengths > 0, lengths, 1.0)


def _shortened(rows: FloatArray, limit: float) -> FloatArray:
    """Return rows that are no longer than the limit."""
    if limit == np.inf:
        return rows
    shortened: FloatArray = rows * (limit / np.maximum(_row_lengths(rows)[:, None], limit))
    return shortened


def _row_lengths(rows: FloatArray) -> NDArray[np.float64]:
    """Return the lengths of rows; where cells are empty, as if these were as large as the others."""
    empty = np.isnan(rows)
    if not empty.any():
        return np.asarray(np.linalg.norm(rows, axis=1))
    cells = np.maximum(rows.shape[1] - empty.sum(axis=1), 1)
    return np.asarray(np.sqrt(np.nansum(np.square(rows), axis=1) * (rows.shape[1] / cells)))


def equal_totals(rows: FloatArray, total: float) -> NDArray[np.float64]:
    """Return rows brought to the same sum; zeros stay zeros, and empty cells count as much as the others."""
    rows = rows.astype(np.float64, copy=False)
    empty = np.isnan(rows)
    sums = np.nansum(rows, axis=1, keepdims=True) if empty.any() else rows.sum(axis=1, keepdims=True)
    if empty.any():
        sums *= rows.shape[1] / np.maximum(rows.shape[1] - empty.sum(axis=1, keepdims=True), 1)
    return rows * (total / np.where(sums > 0, sums, 1.0))


def log_counts(rows: FloatArray, total: float) -> NDArray[np.float64]:
    """Return log(1 + x) of rows brought to the same sum."""
    return np.log1p(equal_totals(rows, total))


class _Map(NamedTuple):
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    unit_rows: bool = False
    limit: float = np.inf
    total: float = 0.0
    length: float = 1.0


def _of_usual_rows(views: Views | StoredViews, maps: Sequence[_Map], chosen: Sequence[int]) -> list[_Map]:
    """Return z-scores of the chosen views learned without rows of unusual length, and the length where that begins.

    A few samples with errors ten times as large as those of the others would decide every scale and most of the loss.
    """
    maps = list(maps)
    lengths = _lengths(views, maps, chosen)
    limits = {v: _usual_length(lengths[v]) for v in chosen}
    chosen = [v for v in chosen if (lengths[v] > limits[v]).any()]
    if not chosen:
        return maps
    learners = {v: StandardScaler() for v in chosen}
    for v, rows in _observed_rows(views):
        if v in learners:
            usual = _row_lengths((rows - maps[v].center) / maps[v].scale) <= limits[v]
            if usual.any():
                add_moments(learners[v], rows[usual])
    for v, learner in learners.items():
        # A feature that varies in the unusual rows alone keeps its scale.
        maps[v] = _Map(learner.mean_, np.where(learner.var_ > 0, learner.scale_, maps[v].scale))
    for v, found in _lengths(views, maps, chosen).items():
        maps[v] = maps[v]._replace(limit=_usual_length(found))
    return maps


def _lengths(views: Views | StoredViews, maps: Sequence[_Map], chosen: Sequence[int]) -> dict[int, NDArray[np.float64]]:
    """Return the lengths of the scaled rows of the chosen views."""
    parts: dict[int, list[NDArray[np.float64]]] = {v: [] for v in chosen}
    for v, rows in _observed_rows(views) if chosen else ():
        if v in parts:
            parts[v].append(_row_lengths((rows - maps[v].center) / maps[v].scale))
    return {v: np.concatenate(found) for v, found in parts.items()}


def _usual_length(lengths: NDArray[np.float64]) -> float:
    """Return where unusual lengths begin: at twice the median, and six robust standard deviations above it."""
    middle, upper = np.quantile(lengths, [0.5, 0.75])
    return float(max(_TIMES * middle, middle + _DEVIATIONS * (upper - middle) / _QUARTILE))


class _Learner(Protocol):
    """Learns the map of one view from its observed rows, given in any number of blocks."""

    def add(self, rows: FloatArray) -> None: ...
    def result(self, name: str) -> _Map: ...


class _Identity:
    def __init__(self, size: int) -> None:
        self._size = size

    def add(self, rows: FloatArray) -> None:
        pass

    def result(self, name: str) -> _Map:
        return _Map(np.zeros(self._size), np.ones(self._size))


class _ByFeature:
    def __init__(self, size: int) -> None:
        self._scaler = StandardScaler()

    def add(self, rows: FloatArray) -> None:
        add_moments(self._scaler, rows)

    def result(self, name: str) -> _Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return _Map(self._scaler.mean_, self._scaler.scale_)


class _ByFeatureRange:
    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)

    def add(self, rows: FloatArray) -> None:
        self.low, self.high = np.fmin(self.low, least_of(rows)), np.fmax(self.high, most_of(rows))

    def result(self, name: str) -> _Map:
        _check_seen(name, bool((self.low <= self.high).all()))
        spread = self.high - self.low
        return _Map(self.low, np.where(spread > 0, spread, 1.0))


class _ByView:
    def __init__(self, size: int) -> None:
        self._size, self._cells, self._total = size, 0, 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, rows: FloatArray) -> None:
        empty = int(np.isnan(rows).sum())
        rows = rows[~np.isnan(rows)] if empty else rows
        self._low, self._high = min(self._low, float(rows.min())), max(self._high, float(rows.max()))
        self._total += float(rows.sum(dtype=np.float64))
        self._cells += rows.size

    def result(self, name: str) -> _Map:
        _check_seen(name, self._cells > 0)
        spread = self._high - self._low
        return _Map(np.full(self._size, self._zero()), np.full(self._size, spread or 1.0))

    def _zero(self) -> float:
        return self._total / self._cells


class _ByViewFromItsLeast(_ByView):
    def _zero(self) -> float:
        return self._low


class _ByDirection:
    def __init__(self, size: int) -> None:
        self._scaler = StandardScaler()
        self._rows, self._lengths = 0, 0.0

    def add(self, rows: FloatArray) -> None:
        add_moments(self._scaler, _unit(rows))
        self._rows += len(rows)
        self._lengths += float(_row_lengths(rows.astype(np.float64, copy=False)).sum())

    def result(self, name: str) -> _Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        # The scaler takes constant features, up to rounding, for ones of scale 1.
        varies = self._scaler.scale_ != 1.0
        spread = np.sqrt(np.where(varies, self._scaler.var_, 0.0).mean())
        scale = np.full_like(self._scaler.mean_, spread or 1.0)
        return _Map(self._scaler.mean_, scale, unit_rows=True, length=self._lengths / self._rows)


class _ByCounts:
    def __init__(self, size: int) -> None:
        self._scaler, self._total = StandardScaler(), 0.0
        self._features: Features | None = None

    def know(self, features: Features) -> None:
        """Take the mean of the rows' sums from what is known of the features."""
        self._features = features
        if hasattr(features.moments, "mean_"):
            self._total = float(features.moments.mean_.sum()) or 1.0

    def add(self, rows: FloatArray) -> None:
        if self._features is not None and self._features.low.min() >= 0:
            add_moments(self._scaler, log_counts(rows, self._total))

    def result(self, name: str) -> _Map:
        if self._features is not None and self._features.low.min() < 0:
            msg = (
                f"Scaling: view {name!r} holds {self._features.low.min():g}, but standardize='counts' takes the "
                "logarithm of counts, which are not negative; give raw counts, or use standardize='zscore'."
            )
            raise DataError(msg)
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return _Map(self._scaler.mean_, self._scaler.scale_, total=self._total)


def _check_seen(name: str, seen: bool) -> None:
    if not seen:
        msg = f"Scaling: view {name!r} is observed for no sample, so nothing can be learned of it; leave it out."
        raise DataError(msg)


_LEARNERS: dict[str, Callable[[int], _Learner]] = {
    "zscore": _ByFeature,
    "robust": _ByFeature,
    "range": _ByView,
    "cosine": _ByDirection,
    "counts": _ByCounts,
    "unit": _ByFeatureRange,
    "unit_view": _ByViewFromItsLeast,
    "none": _Identity,
}
SCALINGS = ("zscore", "robust", "counts", "range", "cosine", "auto", "unit", "unit_view", "none")
TO_UNIT = ("unit", "unit_view")
"""Scalings after which every value lies in [0, 1]."""
