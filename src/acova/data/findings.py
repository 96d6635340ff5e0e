"""Suspicious things in tables: what stops a fit, and what may quietly spoil one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from acova.base import DataError
from acova.data.categories import MOST_CATEGORIES, Encoded, is_text, text_trouble

_MARKERS = (-99, -999, -9999, 999, 9999, 99999)
"""Numbers that people write for "not known"."""
_HUGE = 1e6
_ALIKE = 1e4
"""Times larger than the median column of its view at which a column's spread is remarked."""


@dataclass(frozen=True)
class Finding:
    """One suspicious thing."""

    kind: str
    """A word for what it is, such as ``constant``."""
    view: str
    column: str
    """Empty when it concerns the view as a whole."""
    text: str
    stops: bool = False
    """Whether a fit refuses the data for it."""


def findings_of(frames: Mapping[str, pd.DataFrame], *, joined: bool) -> Iterator[Finding]:
    """Yield what looks wrong in the views; `joined` says that their samples have names."""
    for name, frame in frames.items():
        yield from _of_rows(name, frame)
        numbers = {}
        for place, label in enumerate(frame.columns):
            column, values = str(label), frame.iloc[:, place]
            if values.isna().all():
                yield Finding("empty", name, column, "is empty everywhere; drop it", stops=len(frame) > 0)
            elif is_numeric_dtype(values.dtype):
                array = values.to_numpy(dtype=np.float64, na_value=np.nan)
                numbers[column] = array
                yield from _of_numbers(name, column, array, values)
            else:
                yield from _of_words(name, column, values)
        yield from _of_columns(name, numbers)
    if joined:
        yield from _of_samples(frames)


def _of_rows(name: str, frame: pd.DataFrame) -> Iterator[Finding]:
    numeric = frame.select_dtypes("number")
    empty = frame.isna().all(axis=1)
    partly = numeric.isna().any(axis=1) & ~empty
    if partly.any():
        cells = int(numeric[partly].isna().sum().sum())
        count, first = int(partly.sum()), partly.idxmax()
        rows = "1 row has" if count == 1 else f"{count} rows have"
        text = f"{rows} single empty cells ({cells}), first {first!r}: fill them, or hide these rows (holes)"
        yield Finding("holes", name, "", text, stops=True)
    if empty.any():
        yield Finding("missing", name, "", f"{_rows(empty)} empty: these samples lack the view")
    if frame.index.has_duplicates:
        label = frame.index[frame.index.duplicated()].tolist()[0]
        yield Finding("repeated", name, "", f"the sample {label!r} occurs more than once", stops=True)
    if not numeric.empty:
        zeros = (numeric == 0).all(axis=1)
        if zeros.any() and numeric.shape[1] > 1:
            yield Finding("zeros", name, "", f"{_rows(zeros)} all zero: if that means 'missing', make them empty")


def _rows(chosen: "pd.Series[bool]") -> str:
    count = int(chosen.sum())
    return "1 row is" if count == 1 else f"{count} rows are"


def _of_numbers(name: str, column: str, array: NDArray[np.float64], values: pd.Series) -> Iterator[Finding]:
    known = array[~np.isnan(array)]
    if np.isinf(known).any():
        yield Finding("infinite", name, column, f"{int(np.isinf(known).sum())} cells are infinite", stops=True)
        return
    different = np.unique(known)
    if len(different) == 1:
        yield Finding("constant", name, column, f"is always {different[0]:g}: it tells nothing")
        return
    if _counts_rows(known, values):
        yield Finding("id", name, column, "are whole numbers that only go up: a number of the row? drop it")
    elif np.abs(different).max() > _HUGE:
        yield Finding("huge", name, column, f"goes up to {np.abs(different).max():.3g}: another unit, or a logarithm?")
    for marker in _MARKERS:
        count = int((known == marker).sum())
        if count > 1 and marker in (different[0], different[-1]):
            yield Finding("marker", name, column, f"{count} cells are {marker}: if that means 'not known', empty them")


def _counts_rows(known: NDArray[np.float64], values: pd.Series) -> bool:
    if is_bool_dtype(values.dtype) or len(known) < 10:
        return False
    return bool((np.diff(known) > 0).all() and (known == np.round(known)).all())


def _of_words(name: str, column: str, values: pd.Series) -> Iterator[Finding]:
    trouble = text_trouble(values) if is_text(values) else None
    if trouble:
        yield Finding("text", name, column, f"is text and {trouble}", stops=True)
        return
    try:
        found = Encoded(name, pd.DataFrame({column: values})).categories.get(column)
    except DataError:
        yield Finding("type", name, column, f"is neither numbers nor categories ({values.dtype})", stops=True)
        return
    if found is not None:
        shown = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
        many = " (many: they outweigh the numbers)" if len(found) > MOST_CATEGORIES else ""
        yield Finding("encoded", name, column, f"is encoded as {len(found)} columns: {shown}{many}")


def _of_columns(name: str, numbers: Mapping[str, NDArray[np.float64]]) -> Iterator[Finding]:
    """Compare the numeric columns of one view with each other."""
    seen: dict[bytes, str] = {}
    for column, array in numbers.items():
        twin = seen.setdefault((array + 0.0).tobytes(), column)
        if twin != column and np.unique(array[~np.isnan(array)]).size > 1:
            yield Finding("duplicate", name, column, f"is the same as {twin!r}: it counts twice")
    spreads = {column: float(np.nanstd(array)) for column, array in numbers.items() if not np.isinf(array).any()}
    middle = float(np.median([spread for spread in spreads.values() if spread > 0] or [0.0]))
    for column, spread in spreads.items():
        if middle > 0 and spread > _ALIKE * middle:
            text = (
                f"varies {spread / middle:.1g} times as much as the median column: needs standardize=True (the default)"
            )
            yield Finding("spread", name, column, text)


def _of_samples(frames: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Compare the names of the samples between views."""
    indices = {name: pd.Index(frame.index) for name, frame in frames.items()}
    for (one, left), (other, right) in combinations(indices.items(), 2):
        if len(left) and len(right) and not left.isin(right).any():
            close = _plain(left).isin(_plain(right)).sum()
            hint = f"; {close} would match without spaces and capitals" if close else ""
            shown = f"{left[0]!r} here, {right[0]!r} there"
            yield Finding("disjoint", one, "", f"shares no sample with view {other!r} ({shown}){hint}")
    for name, index in indices.items():
        if any(isinstance(label, str) and label != label.strip() for label in index):
            yield Finding("spaces", name, "", "names of samples begin or end with spaces: they match no others")
        if index.isna().any():
            yield Finding("unnamed", name, "", f"{int(index.isna().sum())} samples have no name", stops=False)


def _plain(index: pd.Index) -> "pd.Index[Any]":
    return index.map(lambda label: str(label).strip().casefold().removesuffix(".0"))
