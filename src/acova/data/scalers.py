"""What learns the scaling of one view from its observed rows, given in any number of blocks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from acova.base import DataError
from acova.data.columns import add_moments, least_of, most_of
from acova.data.features import Features, observed_rows
from acova.data.inputs import FloatArray
from acova.data.rows import log_counts, row_lengths, to_unit_length
from acova.data.stored import StoredViews
from acova.data.views import Views

_TIMES, _DEVIATIONS = 2.0, 6.0
"""A row of unusual length: how many times the median, and robust standard deviations above it."""
_QUARTILE = 0.6744897501960817
"""The upper quartile of a standard normal."""


class Map(NamedTuple):
    """The map of one view; see `acova.data.Scaling` for its parts."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    unit_rows: bool = False
    limit: float = np.inf
    total: float = 0.0
    length: float = 1.0


def of_usual_rows(views: Views | StoredViews, maps: Sequence[Map], chosen: Sequence[int]) -> list[Map]:
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
    for v, rows in observed_rows(views):
        if v in learners:
            usual = row_lengths((rows - maps[v].center) / maps[v].scale) <= limits[v]
            if usual.any():
                add_moments(learners[v], rows[usual])
    for v, learner in learners.items():
        # A feature that varies in the unusual rows alone keeps its scale.
        maps[v] = Map(learner.mean_, np.where(learner.var_ > 0, learner.scale_, maps[v].scale))
    for v, found in _lengths(views, maps, chosen).items():
        maps[v] = maps[v]._replace(limit=_usual_length(found))
    return maps


def _lengths(views: Views | StoredViews, maps: Sequence[Map], chosen: Sequence[int]) -> dict[int, NDArray[np.float64]]:
    """Return the lengths of the scaled rows of the chosen views."""
    parts: dict[int, list[NDArray[np.float64]]] = {v: [] for v in chosen}
    for v, rows in observed_rows(views) if chosen else ():
        if v in parts:
            parts[v].append(row_lengths((rows - maps[v].center) / maps[v].scale))
    return {v: np.concatenate(found) for v, found in parts.items()}


def _usual_length(lengths: NDArray[np.float64]) -> float:
    """Return where unusual lengths begin: at twice the median, and six robust standard deviations above it."""
    middle, upper = np.quantile(lengths, [0.5, 0.75])
    return float(max(_TIMES * middle, middle + _DEVIATIONS * (upper - middle) / _QUARTILE))


class Learner(Protocol):
    """Learns the map of one view from its observed rows, given in any number of blocks."""

    def add(self, rows: FloatArray) -> None:
        """Take more rows into account."""

    def result(self, name: str) -> Map:
        """Return the map; the name of the view is for messages."""
        ...


class _Identity:
    def __init__(self, size: int) -> None:
        self._size = size

    def add(self, rows: FloatArray) -> None:
        pass

    def result(self, name: str) -> Map:
        return Map(np.zeros(self._size), np.ones(self._size))


class _ByFeature:
    def __init__(self, size: int) -> None:
        self._scaler = StandardScaler()

    def add(self, rows: FloatArray) -> None:
        add_moments(self._scaler, rows)

    def result(self, name: str) -> Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return Map(self._scaler.mean_, self._scaler.scale_)


class _ByFeatureRange:
    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)

    def add(self, rows: FloatArray) -> None:
        self.low, self.high = np.fmin(self.low, least_of(rows)), np.fmax(self.high, most_of(rows))

    def result(self, name: str) -> Map:
        _check_seen(name, bool((self.low <= self.high).all()))
        spread = self.high - self.low
        return Map(self.low, np.where(spread > 0, spread, 1.0))


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

    def result(self, name: str) -> Map:
        _check_seen(name, self._cells > 0)
        spread = self._high - self._low
        return Map(np.full(self._size, self._zero()), np.full(self._size, spread or 1.0))

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
        add_moments(self._scaler, to_unit_length(rows))
        self._rows += len(rows)
        self._lengths += float(row_lengths(rows.astype(np.float64, copy=False)).sum())

    def result(self, name: str) -> Map:
        _check_seen(name, hasattr(self._scaler, "mean_"))
        # The scaler takes constant features, up to rounding, for ones of scale 1.
        varies = self._scaler.scale_ != 1.0
        spread = np.sqrt(np.where(varies, self._scaler.var_, 0.0).mean())
        scale = np.full_like(self._scaler.mean_, spread or 1.0)
        return Map(self._scaler.mean_, scale, unit_rows=True, length=self._lengths / self._rows)


class ByCounts:
    """Learns the z-score of the logarithms of counts."""

    def __init__(self, size: int) -> None:
        self._scaler, self._total = StandardScaler(), 0.0
        self._features: Features | None = None

    def know(self, features: Features) -> None:
        """Take the mean of the rows' sums from what is known of the features."""
        self._features = features
        if hasattr(features.moments, "mean_"):
            self._total = float(features.moments.mean_.sum()) or 1.0

    def add(self, rows: FloatArray) -> None:
        """Take more rows into account."""
        if self._features is not None and self._features.low.min() >= 0:
            add_moments(self._scaler, log_counts(rows, self._total))

    def result(self, name: str) -> Map:
        """Return the map, or say that counts are not negative."""
        if self._features is not None and self._features.low.min() < 0:
            msg = (
                f"Scaling: view {name!r} holds {self._features.low.min():g}, but standardize='counts' takes the "
                "logarithm of counts, which are not negative; give raw counts, or use standardize='zscore'."
            )
            raise DataError(msg)
        _check_seen(name, hasattr(self._scaler, "mean_"))
        return Map(self._scaler.mean_, self._scaler.scale_, total=self._total)


def _check_seen(name: str, seen: bool) -> None:
    if not seen:
        msg = f"Scaling: view {name!r} is observed for no sample, so nothing can be learned of it; leave it out."
        raise DataError(msg)


LEARNERS: dict[str, Callable[[int], Learner]] = {
    "zscore": _ByFeature,
    "robust": _ByFeature,
    "range": _ByView,
    "cosine": _ByDirection,
    "counts": ByCounts,
    "unit": _ByFeatureRange,
    "unit_view": _ByViewFromItsLeast,
    "none": _Identity,
}
SCALINGS = ("zscore", "robust", "counts", "range", "cosine", "auto", "unit", "unit_view", "none")
TO_UNIT = ("unit", "unit_view")
"""Scalings after which every value lies in [0, 1]."""
