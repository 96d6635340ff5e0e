"""Scaling of the views, learned from observed rows only; statistics that stored views give block by block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import DataError, check_choice
from acova.data.inputs import FloatArray
from acova.data.stored import StoredViews, blocks_of
from acova.data.views import Views

Affine = tuple[NDArray[np.float64], NDArray[np.float64]]

_SPANS, _MOST = 0.9, 0.5
"""Share of the view's range that a feature must span, and share of such features, for one scale of the view."""


@dataclass(frozen=True)
class Scaling:
    """An affine map per view, ``(x - center) / scale``, that never saw a hidden cell.

    Attributes
    ----------
    centers, scales : tuple of arrays of shape (n_features_of_view,)
    """

    centers: tuple[NDArray[np.float64], ...]
    scales: tuple[NDArray[np.float64], ...]

    @classmethod
    def fit(cls, views: Views | StoredViews, kinds: tuple[str, ...]) -> "Scaling":
        """Learn the map of each view from its observed rows, in one pass.

        Parameters
        ----------
        views : Views or StoredViews
        kinds : one of "zscore", "range", "auto", "unit", "unit_view", "none" per view
            ``"zscore"``: every feature to mean 0 and standard deviation 1 (a constant feature to 0);
            ``"range"``: one mean and one range for the whole view; ``"auto"``: the range where at least half of the
            features span nine tenths of it, as pixels, ratings and zeros and ones do, else the z-score;
            ``"unit"``: every feature to [0, 1] (a constant feature to 0); ``"unit_view"``: the whole view to [0, 1] by
            its least and its largest value; ``"none"``: as is.
        """
        for kind in kinds:
            check_choice("Scaling", "kind", kind, SCALINGS)
        learners = [_LEARNERS[kind](size) for kind, size in zip(kinds, views.sizes, strict=True)]
        if any(kind != "none" for kind in kinds):
            for block in blocks_of(views):
                for v, learner in enumerate(learners):
                    rows = block.rows(v)
                    if len(rows):
                        learner.add(rows)
        pairs = [learner.result(name) for name, learner in zip(views.names, learners, strict=True)]
        return cls(tuple(center for center, _ in pairs), tuple(scale for _, scale in pairs))

    def transform(self, views: Views) -> list[NDArray[np.float32]]:
        """Return one scaled float32 array per view, hidden rows filled with zeros."""
        scaled = []
        for v, array in enumerate(views.arrays):
            out = np.zeros(array.shape, dtype=np.float32)
            seen = views.observed[:, v]
            out[seen] = (array[seen] - self.centers[v]) / self.scales[v]
            scaled.append(out)
        return scaled


def scaled_moments(views: Views | StoredViews, scaling: Scaling) -> list[Affine]:
    """Return mean and variance of every scaled feature over observed rows, view by view; zeros where there are none."""
    learners = [StandardScaler() for _ in range(views.n_views)]
    for block in blocks_of(views):
        for v, learner in enumerate(learners):
            rows = block.rows(v)
            if len(rows):
                learner.partial_fit(rows.astype(np.float64, copy=False))
    return [
        ((learner.mean_ - center) / scale, learner.var_ / scale**2)
        if hasattr(learner, "var_")
        else (np.zeros_like(center), np.zeros_like(center))
        for learner, center, scale in zip(learners, scaling.centers, scaling.scales, strict=True)
    ]


def bounds(views: Views | StoredViews) -> list[Affine]:
    """Return the smallest and the largest observed value of every feature, view by view; infinities where none is."""
    learners = [_ByFeatureRange(size) for size in views.sizes]
    for block in blocks_of(views):
        for v, learner in enumerate(learners):
            rows = block.rows(v)
            if len(rows):
                learner.add(rows)
    return [(learner.low, learner.high) for learner in learners]


def share_a_scale(low: NDArray[np.float64], high: NDArray[np.float64]) -> bool:
    """Tell whether features with these bounds are of one kind: most span (nearly) the range of them all.

    Pixels, ratings, zeros and ones do. A pixel that is hardly ever lit is then no event of its own to be blown up.
    """
    spans = high - low >= _SPANS * (high.max() - low.min())
    return bool(spans.mean() >= _MOST)


def observed_counts(views: Views | StoredViews) -> NDArray[np.int64]:
    """Return the number of samples that have each view, shape (V,)."""
    counts = np.zeros(views.n_views, dtype=np.int64)
    for block in blocks_of(views):
        counts += block.observed.sum(axis=0)
    return counts


class _Learner(Protocol):
    """Learns the map of one view from its observed rows, given in any number of blocks."""

    def add(self, rows: FloatArray) -> None: ...
    def result(self, name: str) -> Affine: ...


class _Identity:
    def __init__(self, size: int) -> None:
        self._size = size

    def add(self, rows: FloatArray) -> None:
        pass

    def result(self, name: str) -> Affine:
        return np.zeros(self._size), np.ones(self._size)


class _ByFeature:
    def __init__(self, size: int) -> None:
        self._scaler = StandardScaler()

    def add(self, rows: FloatArray) -> None:
        self._scaler.partial_fit(rows.astype(np.float64, copy=False))

    def result(self, name: str) -> Affine:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return self._scaler.mean_, self._scaler.scale_


class _ByFeatureRange:
    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)

    def add(self, rows: FloatArray) -> None:
        self.low, self.high = np.minimum(self.low, rows.min(axis=0)), np.maximum(self.high, rows.max(axis=0))

    def result(self, name: str) -> Affine:
        _check_seen(name, bool((self.low <= self.high).all()))
        spread = self.high - self.low
        return self.low, np.where(spread > 0, spread, 1.0)


class _ByView:
    def __init__(self, size: int) -> None:
        self._size, self._cells, self._total = size, 0, 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, rows: FloatArray) -> None:
        self._low, self._high = min(self._low, float(rows.min())), max(self._high, float(rows.max()))
        self._total += float(rows.sum(dtype=np.float64))
        self._cells += rows.size

    def result(self, name: str) -> Affine:
        _check_seen(name, self._cells > 0)
        spread = self._high - self._low
        return np.full(self._size, self._zero()), np.full(self._size, spread or 1.0)

    def _zero(self) -> float:
        return self._total / self._cells


class _ByViewFromItsLeast(_ByView):
    def _zero(self) -> float:
        return self._low


class _ByKind:
    def __init__(self, size: int) -> None:
        self._by_feature, self._by_view, self._bounds = _ByFeature(size), _ByView(size), _ByFeatureRange(size)

    def add(self, rows: FloatArray) -> None:
        for learner in (self._by_feature, self._by_view, self._bounds):
            learner.add(rows)

    def result(self, name: str) -> Affine:
        one_scale = share_a_scale(self._bounds.low, self._bounds.high)
        return (self._by_view if one_scale else self._by_feature).result(name)


def _check_seen(name: str, seen: bool) -> None:
    if not seen:
        msg = f"Scaling: view {name!r} is observed for no sample, so nothing can be learned of it; leave it out."
        raise DataError(msg)


_LEARNERS: dict[str, Callable[[int], _Learner]] = {
    "zscore": _ByFeature,
    "range": _ByView,
    "auto": _ByKind,
    "unit": _ByFeatureRange,
    "unit_view": _ByViewFromItsLeast,
    "none": _Identity,
}
SCALINGS = tuple(_LEARNERS)
TO_UNIT = ("unit", "unit_view")
"""Scalings after which every value lies in [0, 1]."""
