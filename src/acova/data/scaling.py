"""Scaling of the views, learned from observed rows only; statistics that stored views give block by block."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import DataError
from acova.base.errors import check_choice
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


@dataclass(frozen=True)
class Scaling:
    """A map per view, ``(x - center) / scale``, that never saw a hidden cell.

    Attributes
    ----------
    centers, scales : tuple of arrays of shape (n_features_of_view,)
    unit_rows : tuple of bool
        Whether every row x of the view is brought to length 1 first.
    lengths : tuple of float
        Mean length of the rows that are brought to length 1, else 1; empty in runs that were saved without them.
    """

    centers: tuple[NDArray[np.float64], ...]
    scales: tuple[NDArray[np.float64], ...]
    unit_rows: tuple[bool, ...]
    lengths: tuple[float, ...] = ()

    @classmethod
    def fit(
        cls, views: Views | StoredViews, kinds: tuple[str, ...], features: Sequence["Features"] | None = None
    ) -> "Scaling":
        """Learn the map of each view from its observed rows, in one pass.

        Parameters
        ----------
        views : Views or StoredViews
        kinds : one of "zscore", "range", "cosine", "auto", "unit", "unit_view", "none" per view
            ``"zscore"``: every feature to mean 0 and standard deviation 1 (a constant feature to 0);
            ``"range"``: one mean and one range for the whole view; ``"cosine"``: every row to length 1, every feature
            to mean 0, and the mean of their variances to 1; ``"auto"``: the range where at least half of the features
            span nine tenths of it and values are common at its ends, as with pixels, ratings and zeros and ones; the
            cosine where at least four fifths of the cells are zero, as in counts of words; else the z-score;
            ``"unit"``: every feature to [0, 1] (a constant feature to 0); ``"unit_view"``: the whole view to [0, 1] by
            its least and its largest value; ``"none"``: as is.
        features : sequence of V Features, optional
            What `features_of` said of the views, for the kind "auto", if it is known already.
        """
        for kind in kinds:
            check_choice("Scaling", "kind", kind, SCALINGS)
        learners = [_LEARNERS[kind](size) for kind, size in zip(kinds, views.sizes, strict=True)]
        for learner, known in zip(learners, features or (), strict=False):
            if isinstance(learner, _ByKind):
                learner.know(known)
        if any(kind != "none" for kind in kinds):
            for v, rows in _observed_rows(views):
                learners[v].add(rows)
        maps = [learner.result(name) for name, learner in zip(views.names, learners, strict=True)]
        return cls(*zip(*maps, strict=True))

    def transform(self, views: Views) -> list[NDArray[np.float32]]:
        """Return one scaled float32 array per view, hidden rows filled with zeros."""
        scaled = []
        for v, array in enumerate(views.arrays):
            out = np.zeros(array.shape, dtype=np.float32)
            seen = views.observed[:, v]
            out[seen] = (self.before_map(v, array[seen]) - self.centers[v]) / self.scales[v]
            scaled.append(out)
        return scaled

    def before_map(self, v: int, rows: FloatArray) -> FloatArray:
        """Return rows of view v as center and scale are meant for them."""
        return _unit(rows) if self.unit_rows[v] else rows

    def affine(self, v: int) -> Affine:
        """Return center and scale with ``x = center + scale * scaled``, in the units of the data.

        Rows that are brought to length 1 have lost their own length; here they all have the mean length.
        """
        if self.unit_rows[v] and not self.lengths:
            msg = (
                "Scaling: this run was saved without the lengths of its rows, so values cannot be given in the units "
                "of the data; fit again."
            )
            raise DataError(msg)
        length = self.lengths[v] if self.unit_rows[v] else 1.0
        return self.centers[v] * length, self.scales[v] * length


def scaled_moments(views: Views | StoredViews, scaling: Scaling) -> list[Affine]:
    """Return mean and variance of every scaled feature over observed rows, view by view; zeros where there are none."""
    learners = [StandardScaler() for _ in range(views.n_views)]
    for v, rows in _observed_rows(views):
        learners[v].partial_fit(scaling.before_map(v, rows).astype(np.float64, copy=False))
    return [
        ((learner.mean_ - center) / scale, learner.var_ / scale**2)
        if hasattr(learner, "var_")
        else (np.zeros_like(center), np.zeros_like(center))
        for learner, center, scale in zip(learners, scaling.centers, scaling.scales, strict=True)
    ]


class Features:
    """What the observed rows of a view, given in any number of blocks, say of its features.

    Attributes
    ----------
    low, high : arrays of shape (n_features,)
        The smallest and the largest value; infinities where there is no row.
    moments : StandardScaler
        Means and variances.
    """

    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.moments = StandardScaler()
        self._rows, self._present = 0, np.zeros(size, dtype=np.int64)

    def add(self, rows: FloatArray) -> None:
        """Take more rows into account."""
        self.low, self.high = np.minimum(self.low, rows.min(axis=0)), np.maximum(self.high, rows.max(axis=0))
        self.moments.partial_fit(rows.astype(np.float64, copy=False))
        self._rows += len(rows)
        self._present += np.count_nonzero(rows, axis=0)

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
        shares = self._present / self._rows
        squares = self.moments.var_ + self.moments.mean_**2
        return bool(1 - shares.mean() >= _ZEROS and squares[shares > 0.5].sum() < 0.5 * squares.sum())


def features_of(views: Views | StoredViews) -> list[Features]:
    """Return what the observed rows of each view say of its features."""
    learners = [Features(size) for size in views.sizes]
    for v, rows in _observed_rows(views):
        learners[v].add(rows)
    return learners


def observed_counts(views: Views | StoredViews) -> NDArray[np.int64]:
    """Return the number of samples that have each view, shape (V,)."""
    counts = np.zeros(views.n_views, dtype=np.int64)
    for block in blocks_of(views):
        counts += block.observed.sum(axis=0)
    return counts


def _observed_rows(views: Views | StoredViews) -> Iterator[tuple[int, FloatArray]]:
    """Yield the number of a view and some rows that it has, until all rows of all views were there."""
    for block in blocks_of(views):
        for v in range(views.n_views):
            rows = block.rows(v)
            if len(rows):
                yield v, rows


def _unit(rows: FloatArray) -> NDArray[np.float64]:
    """Return rows of length 1; zeros stay zeros. There may be no row, which scikit-learn's `normalize` refuses."""
    rows = rows.astype(np.float64, copy=False)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


class _Map(NamedTuple):
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    unit_rows: bool = False
    length: float = 1.0


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
        self._scaler.partial_fit(rows.astype(np.float64, copy=False))

    def result(self, name: str) -> _Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return _Map(self._scaler.mean_, self._scaler.scale_)


class _ByFeatureRange:
    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)

    def add(self, rows: FloatArray) -> None:
        self.low, self.high = np.minimum(self.low, rows.min(axis=0)), np.maximum(self.high, rows.max(axis=0))

    def result(self, name: str) -> _Map:
        _check_seen(name, bool((self.low <= self.high).all()))
        spread = self.high - self.low
        return _Map(self.low, np.where(spread > 0, spread, 1.0))


class _ByView:
    def __init__(self, size: int) -> None:
        self._size, self._cells, self._total = size, 0, 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, rows: FloatArray) -> None:
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
        self._scaler.partial_fit(_unit(rows))
        self._rows += len(rows)
        self._lengths += float(np.linalg.norm(rows.astype(np.float64, copy=False), axis=1).sum())

    def result(self, name: str) -> _Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        # The scaler takes constant features, up to rounding, for ones of scale 1.
        varies = self._scaler.scale_ != 1.0
        spread = np.sqrt(np.where(varies, self._scaler.var_, 0.0).mean())
        return _Map(
            self._scaler.mean_, np.full_like(self._scaler.mean_, spread or 1.0), True, self._lengths / self._rows
        )


class _ByKind:
    def __init__(self, size: int) -> None:
        self._features, self._by_view, self._by_direction = Features(size), _ByView(size), _ByDirection(size)
        self._learners: list[Any] = [self._features, self._by_view, self._by_direction]

    def know(self, features: Features) -> None:
        """Take what is known of the features instead of learning it again."""
        self._features, self._learners = features, self._learners[1:]

    def add(self, rows: FloatArray) -> None:
        for learner in self._learners:
            learner.add(rows)

    def result(self, name: str) -> _Map:
        if self._features.share_a_scale():
            return self._by_view.result(name)
        if self._features.are_counts_of_words():
            return self._by_direction.result(name)
        return _Map(self._features.moments.mean_, self._features.moments.scale_)


def _check_seen(name: str, seen: bool) -> None:
    if not seen:
        msg = f"Scaling: view {name!r} is observed for no sample, so nothing can be learned of it; leave it out."
        raise DataError(msg)


_LEARNERS: dict[str, Callable[[int], _Learner]] = {
    "zscore": _ByFeature,
    "range": _ByView,
    "cosine": _ByDirection,
    "auto": _ByKind,
    "unit": _ByFeatureRange,
    "unit_view": _ByViewFromItsLeast,
    "none": _Identity,
}
SCALINGS = tuple(_LEARNERS)
TO_UNIT = ("unit", "unit_view")
"""Scalings after which every value lies in [0, 1]."""
