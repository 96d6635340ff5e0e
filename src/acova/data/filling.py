"""Predicted values in the form, the types and the columns of what the user gave."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_float_dtype

from acova.data.categories import Categories, category_column, given_sizes, label_text
from acova.data.files.omics import is_omics
from acova.data.inputs import FloatArray, frames_of, split_views
from acova.data.views import Views

Arrays = Sequence[NDArray[np.floating[Any]]]


class Form:
    """How the user gave some views: as a list, a dict, one table or `Views`; as arrays or as frames.

    A list, a dict, one table and `Views` are given back as such. A MuData or AnnData becomes a dict of frames. Views
    that the user left out are there as well.

    Parameters
    ----------
    X : anything that `Views.of` takes
    views : Views
        What was made of X, in the order of the fit.
    categories : dict of view → (dict of column → categories)
        Which features stand for one column of categories.
    """

    def __init__(self, X: Any, views: Views, categories: Mapping[str, Categories]) -> None:
        self._views = views
        self._categories = [categories.get(name, {}) for name in views.names]
        self._kind = _kind_of(X)
        widths = list(given_sizes(views.sizes, self._categories)) if self._kind == "table" else None
        self._parts = {} if self._kind == "views" else split_views(X, widths)
        self._frames = frames_of(self._parts)

    def express(self, values: Arrays) -> Any:
        """Return values of all views, (n_samples, n_features) each, as the user gave the views; for `Views`, a dict.

        A column of categories gets the category with the largest value, and is empty where the values are NaN.
        """
        views = self._views
        if self._frames is None:
            parts: list[Any] = [
                array.astype(_float_type(self._parts.get(name)), copy=False)
                for name, array in zip(views.names, values, strict=True)
            ]
        else:
            parts = [self._frame(v, array) for v, array in enumerate(values)]
        return self._contain(dict(zip(views.names, parts, strict=True)))

    def fill(self, values: Arrays) -> Any:
        """Return the views with values where a cell is missing; all others keep their bits.

        Of a frame, an empty cell of a column of categories is filled as well, and samples that it lacks are added.
        """
        views = self._views
        whole = [np.where(np.isnan(array), new, array) for array, new in zip(views.arrays, values, strict=True)]
        if self._kind == "views":
            return self._as_views(whole)
        if self._frames is None:
            return self.express(whole)
        parts = {}
        for v, (name, new) in enumerate(zip(views.names, values, strict=True)):
            filled, given = self._frame(v, new), self._frames.get(name)
            parts[name] = filled if given is None else _with_given(given, views.observed[:, v], filled)
        return self._contain(parts)

    def _as_views(self, whole: Arrays) -> Views:
        views = self._views
        arrays = [
            _most_probable(array, columns, categories)
            for array, columns, categories in zip(whole, views.columns, self._categories, strict=True)
        ]
        everything = np.ones_like(views.observed)
        return Views(arrays, everything, views.names, views.index, views.columns, self._categories)

    def _contain(self, parts: dict[str, Any]) -> Any:
        if self._kind in ("dict", "views"):
            return parts
        tables = list(parts.values())
        if self._kind == "list":
            return tables
        return np.hstack(tables) if self._frames is None else pd.concat(tables, axis=1)

    def _frame(self, v: int, values: FloatArray) -> pd.DataFrame:
        """Return the values of a view as a frame with the columns that were given."""
        views = self._views
        frame = frame_of(values, views.index, views.columns[v], self._categories[v])
        given = None if self._frames is None else self._frames.get(views.names[v])
        if given is None:
            return frame
        return frame[[str(column) for column in given.columns]].set_axis(given.columns, axis=1)


def frame_of(
    values: FloatArray, index: pd.Index, features: Sequence[str] | None, categories: Categories
) -> pd.DataFrame:
    """Return values (n_samples, n_features) as a frame in which the features of categories are one column again.

    A cell of such a column is the category of the largest value, or empty where the values are NaN.
    """
    if features is None:
        return pd.DataFrame(values, index=index)
    owners = {category_column(column, label): column for column, found in categories.items() for label in found}
    columns: dict[str, Any] = {}
    for place, feature in enumerate(features):
        column = owners.get(feature)
        if column is None:
            columns[feature] = values[:, place]
        elif column not in columns:
            labels = np.array([*categories[column], None], dtype=object)
            columns[column] = labels[_largest(values, features, column, categories[column])]
    return pd.DataFrame(columns, index=index)


def _largest(values: FloatArray, features: Sequence[str], column: str, labels: Sequence[str]) -> NDArray[np.intp]:
    """Return the number of each row's category of the largest value; -1 where the values are NaN."""
    cells = values[:, [features.index(category_column(column, label)) for label in labels]]
    return np.where(np.isnan(cells).any(axis=1), -1, np.nan_to_num(cells).argmax(axis=1))


def _most_probable(values: FloatArray, features: Sequence[str] | None, categories: Categories) -> FloatArray:
    """Return values in which the features of a column of categories are 1 for the largest of them, else 0."""
    values = values.copy()
    for column, labels in categories.items():
        largest = _largest(values, features or (), column, labels)
        for number, label in enumerate(labels):
            place = (features or ()).index(category_column(column, label))
            values[:, place] = np.where(largest < 0, np.nan, largest == number)
    return values


def _with_given(given: pd.DataFrame, observed: NDArray[np.bool_], filled: pd.DataFrame) -> pd.DataFrame:
    """Return a filled frame with the cells of observed rows as they were given."""
    there = given.reindex(filled.index)
    columns = []
    for place in range(given.shape[1]):
        own, new = there.iloc[:, place], filled.iloc[:, place]
        missing = ~observed | own.isna().to_numpy()
        columns.append(_merged(own, new, missing) if missing.any() else own.astype(given.dtypes.iloc[place]))
    return pd.concat(columns, axis=1).set_axis(given.columns, axis=1)


def _merged(own: pd.Series, new: pd.Series, missing: NDArray[np.bool_]) -> pd.Series:
    """Return a column with new values where its own are missing, in its own type if that can hold them."""
    if isinstance(own.dtype, pd.CategoricalDtype):
        known = own.cat.categories
        cells = [known[list(map(label_text, known)).index(label)] if label is not None else None for label in new]
        return own.where(~missing, pd.Series(pd.Categorical(cells, dtype=own.dtype), index=own.index))
    if is_float_dtype(own.dtype):
        return own.where(~missing, new.astype(own.dtype))
    return own.astype(new.dtype).where(~missing, new)


def _float_type(part: Any) -> np.dtype[Any]:
    kind = getattr(part, "dtype", None)
    return kind if isinstance(kind, np.dtype) and kind.kind == "f" else np.dtype(np.float64)


def _kind_of(X: Any) -> str:
    if isinstance(X, Views):
        return "views"
    if isinstance(X, Mapping) or is_omics(X):
        return "dict"
    several = isinstance(X, list | tuple) and not all(part is not None and np.ndim(part) < 2 for part in X)
    return "list" if several else "table"
