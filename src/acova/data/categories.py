"""Columns that hold categories, as columns of zeros and ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_complex_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

from acova.base import DataError
from acova.data.names import check_columns

Categories = Mapping[str, Sequence[str]]
"""Column → its categories, for the columns of one view that hold categories."""

MOST_CATEGORIES = 50
"""Different values up to which a column of text is taken for a category."""
_FEW = 10
"""Different values up to which a column of text is a category though none occurs twice."""
_FEWEST = 3
"""Rows from which on it is remarkable that a column of text is different in each."""
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")


class Encoded:
    """A frame as numbers.

    Attributes
    ----------
    values : array of shape (n_rows, n_encoded_columns)
        NaN in every column that was made from an empty cell.
    columns : tuple of str
        ``column`` for numbers, ``column=category`` for each category.
    categories : dict of column → tuple of str
    doubts : dict of column → str
        Why a column that was taken for categories may be none; empty for columns whose categories were given.
    """

    def __init__(self, name: str, frame: pd.DataFrame, known: Categories | None = None) -> None:
        if not frame.shape[1]:
            msg = f"View {name!r} has no columns; leave the view out or give it features."
            raise DataError(msg)
        check_columns(f"View {name!r}", frame.columns)
        known = known or {}
        kinds = [str(c) in known or not _is_number(frame.iloc[:, place]) for place, c in enumerate(frame.columns)]
        self.categories: dict[str, tuple[str, ...]] = {}
        self.doubts: dict[str, str] = {}
        self.columns: tuple[str, ...] = tuple(map(str, frame.columns))
        if not any(kinds):
            self.values = _numbers(frame)
            return
        _refuse_what_is_no_category(name, frame, [k and str(c) not in known for k, c in zip(kinds, frame, strict=True)])
        _refuse_ambiguous(name, self.columns, kinds)
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
            block = (labels[:, None] == np.array(found, dtype=object)).astype(np.float64)
            block[values.isna().to_numpy()] = np.nan
            blocks.append(block)
            names += [category_column(column, category) for category in found]
            self.categories[column] = found
            doubt = None if column in known else text_doubt(values)
            if doubt:
                self.doubts[column] = doubt
        self.columns = tuple(names)
        self.values = np.hstack(blocks)


def category_column(column: str, category: str) -> str:
    r"""Return the name of the feature that is 1 where `column` holds `category`.

    A ``=`` or backslash in the name of the column is escaped, so that the first plain ``=`` ends it and no two pairs
    of column and category share a name.
    """
    escaped = column.replace("\\", r"\\").replace("=", r"\=")
    return f"{escaped}={category}"


def given_column(feature: str, categories: Categories) -> str:
    """Return the column that a feature was made from, as the user wrote it."""
    return next((column for column in categories if feature.startswith(category_column(column, ""))), feature)


def given_sizes(sizes: Sequence[int], categories: Sequence[Categories]) -> tuple[int, ...]:
    """Return how many columns each view had before its categories were encoded."""
    extra = [sum(len(found) - 1 for found in one.values()) for one in categories]
    return tuple(size - more for size, more in zip(sizes, extra, strict=True))


def block_sizes(categories: Categories, size: int) -> tuple[int, ...]:
    """Return the numbers of categories of a view's columns if they make up all of its features, else nothing."""
    blocks = tuple(len(found) for found in categories.values())
    return blocks if sum(blocks) == size else ()


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
    return np.array([None if gone else label_text(cell) for gone, cell in zip(empty, cells, strict=True)], dtype=object)


def label_text(cell: Any) -> str:
    """Return a category as the encoding names it."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _categories(values: pd.Series, labels: NDArray[Any]) -> tuple[str, ...]:
    """Return the categories that occur: in their declared order, or sorted."""
    there = {label for label in labels if label is not None}
    if isinstance(values.dtype, pd.CategoricalDtype):
        return tuple(label for label in map(label_text, values.cat.categories) if label in there)
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


def _refuse_ambiguous(name: str, columns: Sequence[str], kinds: Sequence[bool]) -> None:
    """Refuse a column of numbers whose name reads like a category of another column."""
    numbers = [column for column, is_category in zip(columns, kinds, strict=True) if not is_category and "=" in column]
    for column, is_category in zip(columns, kinds, strict=True):
        same = [other for other in numbers if is_category and other.startswith(category_column(column, ""))]
        if same:
            msg = (
                f"View {name!r}: the column {same[0]!r} is named like a category of the column {column!r}, which is "
                "encoded as one column per category; rename one of the two."
            )
            raise DataError(msg)


def _refuse_what_is_no_category(name: str, frame: pd.DataFrame, guessed: Sequence[bool]) -> None:
    """Refuse columns that are neither numbers nor categories; `guessed` marks those that nobody declared."""
    columns = [(str(c), frame.iloc[:, place]) for place, c in enumerate(frame.columns) if guessed[place]]
    empty = [c for c, values in columns if len(values) and values.isna().all()]
    if empty:
        msg = (
            f"View {name!r}: column {empty[0]!r} is empty everywhere, so that it has no categories. Drop it (on the "
            f"command line: --drop {empty[0]!r}), or give its categories: Views.of(X, categories=model.categories_)."
        )
        raise DataError(msg)
    neither = [c for c, values in columns if not is_text(values) and not is_declared(values)]
    if neither:
        msg = (
            f"View {name!r} has columns that are neither numbers nor categories: "
            f"{', '.join(map(repr, neither[:5]))}. Drop them, make them the index, or turn them into numbers "
            "(a date into days since some day, a mix of numbers and words into one of the two)."
        )
        raise DataError(msg)
    for column, values in columns:
        trouble = None if is_declared(values) else text_trouble(values)
        if trouble:
            msg = (
                f"View {name!r}: column {column!r} is text and {trouble}. Drop it (on the command line: --drop "
                f"{column!r}), make it the index, turn it into numbers, or, if these are categories all the same, "
                "declare them: frame[column].astype('category')."
            )
            raise DataError(msg)


def is_declared(values: pd.Series) -> bool:
    """Return whether the column has pandas' categorical type: its owner says that these are categories."""
    return isinstance(values.dtype, pd.CategoricalDtype)


def is_text(values: pd.Series) -> bool:
    """Return whether every cell that is not empty is text."""
    if is_object_dtype(values.dtype):
        return infer_dtype(values, skipna=True) == "string"
    return is_string_dtype(values.dtype)


def text_trouble(values: pd.Series) -> str | None:
    """Return why a column of text is not taken for categories, or None when it is."""
    cells = values.dropna()
    numeric = _read_as_numbers(cells).notna().to_numpy()
    if numeric.any() and numeric.mean() >= 0.5:
        odd = f"; the first other value is {cells.iloc[int((~numeric).argmax())]!r}" if not numeric.all() else ""
        return f"most of its values are numbers{odd}"
    different = cells.nunique()
    if different > MOST_CATEGORIES or (different == len(cells) and different > _FEW):
        return f"has {different} different values in {len(cells)} rows: a name or free text, not a category"
    return None


def text_doubt(values: pd.Series) -> str | None:
    """Return why a column that is taken for categories may be none, or None when it looks like categories.

    A declared column is taken at its word, unless it holds numbers with decimals or differs in every row.
    """
    cells = values.dropna()
    cells = cells[cells.astype(str) != ""]
    different, rows = cells.nunique(), len(cells)
    if is_declared(values):
        numbers = _read_as_numbers(cells.astype(str))
        if rows and numbers.notna().all() and (numbers % 1 != 0).any():
            return "holds numbers with decimals, though it is declared as categories"
        return f"is different in each of its {rows} rows" if different == rows > _FEW else None
    if different == rows >= _FEWEST:
        return f"is different in each of its {rows} rows"
    return f"has {different} different values in {rows} rows" if different > max(_FEW, rows / 2) else None


def _read_as_numbers(cells: pd.Series) -> pd.Series:
    """Return text as numbers, NaN where it is none; a comma may stand for the decimal point."""
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.isna().any():
        numbers = numbers.fillna(pd.to_numeric(cells.str.replace(",", ".", regex=False), errors="coerce"))
    return numbers
