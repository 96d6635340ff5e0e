"""Values that may not mean what they say: numbers written for "not known", and raw counts."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from acova.data.columns import least_of, most_of
from acova.data.findings import MARKERS, Finding, counts_of
from acova.data.stored import StoredViews
from acova.data.views import Views

_FOR_COUNTS = ("counts", "cosine", "range")
"""Scalings that suit raw counts, or that are chosen for whole numbers on one scale such as pixels."""
_READ = 500
"""Rows that are looked at where views stay on disk."""


def suspects(views: Views | StoredViews, kinds: Sequence[str]) -> Iterator[Finding]:
    """Yield the values that a fit warns of; it takes two passes over the data.

    Parameters
    ----------
    views : Views or StoredViews
        Of views on disk, only the first rows are looked at.
    kinds : one scaling per view
        As a fit chose them, see `Scaling.fit`.
    """
    looked = views if isinstance(views, Views) else views.read(0, min(len(views), _READ))
    for v, (name, kind) in enumerate(zip(looked.names, kinds, strict=True)):
        rows = looked.rows(v)
        if len(rows):
            yield from _markers(name, rows, looked.columns[v])
        if len(rows) and kind not in _FOR_COUNTS:
            yield from _counts(name, rows)


def _markers(name: str, rows: NDArray[np.floating], columns: Sequence[str] | None) -> Iterator[Finding]:
    low, high = least_of(rows), most_of(rows)
    for column in np.flatnonzero(np.isin(low, MARKERS) | np.isin(high, MARKERS)).tolist():
        values = rows[:, column]
        for marker in np.unique([low[column], high[column]]):
            others = values[(values != marker) & ~np.isnan(values)]
            count = int((values == marker).sum())
            if count < 2 or not len(others) or marker not in MARKERS:
                continue
            # A real measurement is rarely further from all others than these are from each other.
            if np.abs(others - marker).min() > np.ptp(others):
                label = str(column) if columns is None else columns[column]
                text = f"has {count} cells that are {marker:g}: if that means 'not known', leave these cells empty"
                yield Finding("marker", name, label, text, warns=True)


def _counts(name: str, rows: NDArray[np.floating]) -> Iterator[Finding]:
    largest = counts_of([column[~np.isnan(column)] for column in rows.T])
    if largest is not None:
        text = (
            f"looks like raw counts (whole numbers up to {largest:,.0f}), of which the largest would dominate; "
            "standardize='counts' for this view takes logarithms of rows with the same sum"
        )
        yield Finding("counts", name, "", text, warns=True)
