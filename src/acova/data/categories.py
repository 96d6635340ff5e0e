"""Columns that hold categories, as columns of zeros and ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_complex_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

from acova.base import DataError

Categories = Mapping[str, Sequence[str]]
"""Column → its categories, for the columns of one view that hold categories."""

MOST_CATEGORIES = 50
"""Different values up to which a column of text is taken for a category."""
_FEW = 10
"""Different values up to which a column of text is a category though none occurs twice."""
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")


class Encoded:
    """A frame as numbers.

    Attributes
    ----------
    values : array of shape (n_rows, n_encoded_columns)
        NaN in every column of a row in which every cell of the frame is empty.
    columns : tuple of str
        ``column`` for numbers, ``column=category`` for each category.
    categories : dict of column → tuple of str
    """

    def __init__(self, name: str, frame: pd.DataFrame, known: Categories | None = None) -> None:
        if not frame.shape[1]:
            msg = f"View {name!r} has no columns; leave the view out or give it features."
            raise DataError(msg)
        known = known or {}
        kinds = [str(c) in known or not _is_number(frame.iloc[:, place]) for place, c in enumerate(frame.columns)]
        self.categories: dict[str, tuple[str, ...]] = {}
        self.columns: tuple[str, ...] = tuple(map(str, frame.columns))
        if not any(kinds):
            self.values = _numbers(frame)
            return
        _refuse_what_is_no_category(name, frame, [k and str(c) not in known for k, c in zip(kinds, frame, strict=True)])
        blocks, names = [], []
        for place, (column, is_category) in enumerate(zip(self.columns, kinds, strict=True)):
            values = frame.iloc[:, place]
            if not is_category:
                blocks.append(_numbers(values.to_frame()))
                names.append(column)
                continue
            labels = _labels(values)
            found = tuple(known[column]) if column in known else _categories(values, labels)
            _refuse_new(name, column, labels, found)
            blocks.append(np.column_stack([labels == category for category in found]).astype(np.float64))
            names += [category_column(column, category) for category in found]
            self.categories[column] = found
        self.columns = tuple(names)
        self.values = np.hstack(blocks)
        self.values[frame.isna().all(axis=1).to_numpy()] = np.nan


def category_column(column: str, category: str) -> str:
    """Return the name of the column that is 1 where `column` holds `category`."""
    return f"{column}={category}"


def given_sizes(sizes: Sequence[int], categories: Sequence[Categories]) -> tuple[int, ...]:
    """Return how many columns each view had before its categories were encoded."""
    extra = [sum(len(found) - 1 for found in one.values()) for one in categories]
    return tuple(size - more for size, more in zip(sizes, extra, strict=True))


def _is_number(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if is_object_dtype(values.dtype):
        return infer_dtype(values, skipna=True) in _NUMBERS
    return is_numeric_dtype(values.dtype) and not is_complex_dtype(values.dtype)


def _numbers(frame: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def _labels(values: pd.Series) -> NDArray[Any]:
    """Return each cell as text, None where it is empty; 2.0 is '2', so that it does not matter how a file was read."""
    empty = values.isna().to_numpy()
    cells = values.astype(object).to_numpy()
    return np.array([None if gone else _label(cell) for gone, cell in zip(empty, cells, strict=True)], dtype=object)


def _label(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _categories(values: pd.Series, labels: NDArray[Any]) -> tuple[str, ...]:
    """Return the categories that occur: in their declared order, or sorted."""
    there = {label for label in labels if label is not None}
    if isinstance(values.dtype, pd.CategoricalDtype):
        return tuple(label for label in map(_label, values.cat.categories) if label in there)
    return tuple(sorted(there))


def _refuse_new(name: str, column: str, labels: NDArray[Any], found: Sequence[str]) -> None:
    new = sorted({label for label in labels if label is not None} - set(found))
    if new:
        msg = (
            f"View {name!r}: column {column!r} holds {', '.join(map(repr, new[:5]))}, which did not occur when the "
            f"model was fitted; it knows {', '.join(map(repr, found[:10]))}{' …' if len(found) > 10 else ''}. "
            "Leave such a cell empty (it then counts for no category), or fit again."
        )
        raise DataError(msg)


def _refuse_what_is_no_category(name: str, frame: pd.DataFrame, guessed: Sequence[bool]) -> None:
    """Refuse columns that are neither numbers nor categories; `guessed` marks those that nobody declared."""
    columns = [(str(c), frame.iloc[:, place]) for place, c in enumerate(frame.columns) if guessed[place]]
    neither = [c for c, values in columns if not is_text(values) and not _is_declared(values)]
    if neither:
        msg = (
            f"View {name!r} has columns that are neither numbers nor categories: "
            f"{', '.join(map(repr, neither[:5]))}. Drop them, make them the index, or turn them into numbers "
            "(a date into days since some day, a mix of numbers and words into one of the two)."
        )
        raise DataError(msg)
    for column, values in columns:
        trouble = None if _is_declared(values) else text_trouble(values)
        if trouble:
            msg = (
                f"View {name!r}: column {column!r} is text and {trouble}. Drop it (on the command line: --drop "
                f"{column!r}), make it the index, turn it into numbers, or, if these are categories all the same, "
                "declare them: frame[column].astype('category')."
            )
            raise DataError(msg)


def _is_declared(values: pd.Series) -> bool:
    return isinstance(values.dtype, pd.CategoricalDtype)


def is_text(values: pd.Series) -> bool:
    """Return whether every cell that is not empty is text."""
    if is_object_dtype(values.dtype):
        return infer_dtype(values, skipna=True) == "string"
    return is_string_dtype(values.dtype)


def text_trouble(values: pd.Series) -> str | None:
    """Return why a column of text is not taken for categories, or None when it is."""
    cells = values.dropna()
    numeric = pd.to_numeric(cells, errors="coerce").notna().to_numpy()
    if numeric.any() and numeric.mean() >= 0.5:
        odd = f"; the first other value is {cells.iloc[int((~numeric).argmax())]!r}" if not numeric.all() else ""
        return f"most of its values are numbers{odd}"
    different = cells.nunique()
    if different > MOST_CATEGORIES or (different == len(cells) and different > _FEW):
        return f"has {different} different values in {len(cells)} rows: a name or free text, not a category"
    return None
