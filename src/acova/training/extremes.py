"""Cells that are too extreme to be computed with: found, and named as the user knows them."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.data import Scaling, StoredViews, Views

_WAY_OUT = "Correct it, drop the sample, or hide this view of it (observed=…)."


@contextmanager
def overflow_allowed() -> Iterator[None]:
    """Compute without numpy's warnings; what comes out is checked afterwards."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        yield


def learn_scaling(views: Views | StoredViews, kinds: tuple[str, ...]) -> Scaling:
    """Return `Scaling.fit`, or raise `DataError` where the statistics of a column leave the range of numbers."""
    with overflow_allowed():
        scaling = Scaling.fit(views, kinds)
    for v, (center, scale) in enumerate(zip(scaling.centers, scaling.scales, strict=True)):
        bad = np.flatnonzero(~(np.isfinite(center) & np.isfinite(scale)))
        if bad.size:
            column = int(bad[0])
            msg = (
                f"V{column_text(views, v, column)[1:]}{_largest(views, v, column)}: its mean and spread are beyond "
                "floating point. Divide the column by a power of ten, or drop what is no measurement."
            )
            raise DataError(msg)
    return scaling


def scaled(views: Views, scaling: Scaling, *, alone: bool = False) -> list[NDArray[np.float32]]:
    """Return the scaled views, or raise `DataError` for a cell that leaves the range of 32-bit numbers.

    Counts must not be negative. `alone` is that of `Scaling.transform`.
    """
    for v, total in enumerate(scaling.totals):
        negative = views.arrays[v] < 0 if total else np.zeros((0, 0), dtype=bool)
        if negative.any():
            row, column = map(int, np.argwhere(negative)[0])
            msg = (
                f"V{column_text(views, v, column)[1:]} holds {views.arrays[v][row, column]:g} in sample "
                f"{views.index[[row]].tolist()[0]!r}, but the model was fitted on counts there, which are not "
                "negative; give counts here, too."
            )
            raise DataError(msg)
    with overflow_allowed():
        arrays = scaling.transform(views, alone=alone)
    for v, array in enumerate(arrays):
        finite = np.isfinite(array)
        if not finite.all():
            raise _refused(views, v, *map(int, np.argwhere(~finite)[0]))
    return arrays


def refusal(sample: Views, scaling: Scaling) -> DataError:
    """Return the error for a sample whose result is no finite number; it names the most extreme cell."""
    rows = [np.abs(array[0]) for array in scaling.transform(sample)]
    v = max(range(len(rows)), key=lambda view: float(rows[view].max()))
    return _refused(sample, v, 0, int(rows[v].argmax()))


def _refused(views: Views, v: int, row: int, column: int) -> DataError:
    value = views.arrays[v][row, column]
    return DataError(
        f"V{column_text(views, v, column)[1:]} holds {value:g} in sample {views.index[[row]].tolist()[0]!r}, too far "
        f"from the data the model was fitted on to be computed in 32-bit numbers. {_WAY_OUT}"
    )


def column_text(views: Views | StoredViews, v: int, column: int) -> str:
    """Return view and column as the user knows them; a column without a name by its number."""
    names = views.columns[v]
    return f"view {views.names[v]!r}, column {column if names is None else repr(names[column])}"


def _largest(views: Views | StoredViews, v: int, column: int) -> str:
    """Say where the largest value of a column is; views on disk are not read again for it."""
    if isinstance(views, StoredViews):
        return ""
    cells = np.nan_to_num(np.abs(views.arrays[v][:, column]), nan=-1.0, posinf=np.inf)
    row = int(cells.argmax())
    return f" holds {views.arrays[v][row, column]:g} in sample {views.index[[row]].tolist()[0]!r}"
