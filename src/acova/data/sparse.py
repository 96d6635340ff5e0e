"""`SparseTable`: a view that stays sparse in memory, whose rows become dense when they are read."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from acova.base import DataError
from acova.data.categories import Encoded
from acova.data.files.limits import check_expansion, readable
from acova.data.names import check_columns, joined_index


class SparseTable:
    """A sparse matrix, and the names of its rows and columns where they are known.

    Parameters
    ----------
    who : str
        Names the table in errors.
    matrix : scipy.sparse matrix or array
        One of the format csr is used as it is, any other is copied into it. A cell that is not stored is 0.
    index : pandas.Index, optional
        Names of the samples.
    columns : sequence of str, optional
        Names of the features.
    """

    def __init__(
        self, who: str, matrix: Any, index: pd.Index | None = None, columns: Iterable[Any] | None = None
    ) -> None:
        if matrix.ndim != 2 or not matrix.shape[1]:
            msg = f"{who} must be a 2-D matrix with at least one column; got shape {matrix.shape}."
            raise DataError(msg)
        if matrix.dtype.kind not in "biuf":
            msg = (
                f"{who} holds values that are no real numbers (dtype {matrix.dtype}); convert them with .astype(float)."
            )
            raise DataError(msg)
        with readable(who, "sparse matrix", "build it again, for example with scipy.sparse.csr_array(…)"):
            self.matrix = csr_array(matrix)
            self.matrix.check_format(full_check=True)
        self.who, self.index = who, index
        self.columns = None if columns is None else tuple(map(str, columns))
        for name, labels, length in (("rows", index, self.shape[0]), ("columns", self.columns, self.shape[1])):
            if labels is not None and len(labels) != length:
                msg = f"{who} has {length} {name} but {len(labels)} names for them; give one name for each."
                raise DataError(msg)
        if self.columns is not None:
            check_columns(who, self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(map(int, self.matrix.shape))

    @property
    def nbytes(self) -> int:
        """Bytes that all rows take as float32 when dense."""
        return 4 * self.shape[0] * self.shape[1]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from `start` to `stop`, dense."""
        return np.asarray(self.matrix[start:stop].toarray())

    def rows(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows with these numbers, dense."""
        return np.asarray(self.matrix[numbers].toarray())

    def dense(self) -> pd.DataFrame | NDArray[Any]:
        """Return everything dense: a frame where names are known."""
        check_expansion(self.who, self.shape[0] * self.shape[1] * self.matrix.dtype.itemsize)
        array = self.read(0, self.shape[0])
        return array if self.index is None else pd.DataFrame(array, self.index, self.columns)

    def take(self, rows: NDArray[Any]) -> "SparseTable":
        """Return some rows, by a mask or by their numbers; where they have no names, their numbers become these."""
        index = pd.RangeIndex(self.shape[0]) if self.index is None else self.index
        return SparseTable(self.who, self.matrix[rows], index[rows], self.columns)

    def named(self, index: pd.Index) -> "SparseTable":
        """Return the same under other names of samples."""
        return SparseTable(self.who, self.matrix, index, self.columns)

    def without(self, columns: Iterable[str]) -> "SparseTable":
        """Return the same without some columns."""
        left = [place for place, name in enumerate(self.columns or ()) if name not in set(columns)]
        return SparseTable(self.who, self.matrix[:, left], self.index, [(self.columns or ())[place] for place in left])

    @property
    def T(self) -> "SparseTable":
        """The same with rows and columns exchanged."""
        names = None if self.columns is None else pd.Index(self.columns, dtype=object)
        return SparseTable(self.who, self.matrix.T, names, self.index)


class RowsAlong:
    """Rows laid out along the samples of all views; NaN where a sample is absent."""

    def __init__(
        self, rows: Callable[[NDArray[np.intp]], NDArray[Any]], width: int, columns: Any, places: NDArray[np.intp]
    ) -> None:
        self._rows, self._places, self.columns = rows, places, columns
        self.shape = len(places), width

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows of the samples from `start` to `stop`."""
        places = self._places[start:stop]
        found = self._rows(places[places >= 0])
        out = np.full((len(places), self.shape[1]), np.nan, np.result_type(found.dtype, np.float32))
        out[places >= 0] = found
        return out


def is_sparse(part: Any) -> bool:
    """Return whether a part of some data is a sparse matrix, with or without names."""
    return issparse(part) or isinstance(part, SparseTable)


def joined_parts(parts: Mapping[str, Any]) -> tuple[dict[str, Any], pd.Index]:
    """Lay sparse tables, and the frames beside them, along the samples of them all.

    Returns
    -------
    parts : dict of name → rows that can be read from a start to a stop
    index : Index
        The samples in order of first appearance.
    """
    indices = {name: _index_of(name, part, parts) for name, part in parts.items()}
    index = joined_index({name: pd.DataFrame(index=one) for name, one in indices.items()})
    laid: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, SparseTable) and part.index is not None and part.index.equals(index):
            laid[name] = part
            continue
        places = indices[name].get_indexer(index)
        if isinstance(part, SparseTable):
            laid[name] = RowsAlong(part.rows, part.shape[1], part.columns, places)
        else:
            encoded = _numbers(name, part)
            laid[name] = RowsAlong(encoded.values.__getitem__, encoded.values.shape[1], encoded.columns, places)
    return laid, index


def _index_of(name: str, part: Any, parts: Mapping[str, Any]) -> pd.Index:
    if isinstance(part, SparseTable | pd.DataFrame) and part.index is not None:
        return part.index
    other = next(one for one, it in parts.items() if getattr(it, "index", None) is not None)
    msg = (
        f"View {name!r} has no names of samples but view {other!r} has; samples are joined by name, so give names to "
        "every view (a DataFrame, or an AnnData with obs_names) or to none."
    )
    raise DataError(msg)


def _numbers(name: str, frame: pd.DataFrame) -> Encoded:
    encoded = Encoded(name, frame)
    if encoded.categories:
        column = next(iter(encoded.categories))
        msg = (
            f"View {name!r}: column {column!r} holds categories, and beside large sparse views every column must be a "
            "number; encode it first (pandas.get_dummies), or drop it."
        )
        raise DataError(msg)
    return encoded
