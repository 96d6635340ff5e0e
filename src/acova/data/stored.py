"""`StoredViews`: views that stay on disk, or sparse in memory, and are read a block of rows at a time."""

import os
from collections.abc import Iterator, Mapping, Sequence
from operator import index as whole_number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from acova.base import DataError
from acova.base.errors import check_number
from acova.base.files import file_errors
from acova.data.files.omics import is_omics
from acova.data.files.parts import ENDINGS, Part, is_stored_part, open_part
from acova.data.inputs import as_float_array, as_mask, split_views
from acova.data.sparse import RowsAlong, SparseTable, joined_parts
from acova.data.views import Views

BLOCK = 4096
"""Rows read at a time by everything that goes through stored views once."""
BLOCK_BYTES = 2**22
"""Memory of as many rows of sparse views, when dense."""
IN_MEMORY = 2**28
"""Bytes of views on disk, or of sparse views when dense, up to which they are read as a whole."""

_Layout = tuple[tuple[str, ...], tuple[int, ...], tuple[tuple[str, ...] | None, ...]]


class StoredViews:
    """Samples seen through several views whose rows stay on disk, or sparse, until they are read.

    Use `StoredViews.of` to make one. Row i of every view is sample i: rows are matched by position and never joined
    on an index, unless views are tables with names, such as AnnData. Reading a block costs the memory of that block; a
    parquet file also keeps one decoded row group, and zarr decodes the chunks that the block touches, so write both
    with some thousand rows to a group or chunk.

    Attributes
    ----------
    names : tuple of V str
    sizes : tuple of V int
        Number of features of each view.
    columns : tuple of V (tuple of str or None)
        Names of the features, where the file has them (parquet).
    n_samples : int
    index : pandas.Index
        Names of the samples, or their numbers.
    is_sparse : bool
        Whether any view is a sparse matrix.
    block_rows : int
        Rows to read at a time.

    See Also
    --------
    acova.Views : Views in memory.
    acova.data.read_views : Views from files.
    """

    def __init__(
        self,
        parts: Mapping[str, "Part"],
        masks: Sequence[tuple["Part", tuple[str, ...]]] = (),
        layouts: Sequence[_Layout] = (),
        index: pd.Index | None = None,
    ) -> None:
        self._parts, self._masks, self._layouts = dict(parts), tuple(masks), tuple(layouts)
        views = tuple(self._parts.values())
        own = tuple(self._parts), tuple(part.shape[1] for part in views), tuple(part.columns for part in views)
        self.names, self.sizes, self.columns = self._layouts[-1] if self._layouts else own
        self.n_samples = views[0].shape[0]
        self.index = pd.RangeIndex(self.n_samples) if index is None else index
        self.is_sparse = any(isinstance(part, SparseTable | RowsAlong) for part in views)
        few = max(1, BLOCK_BYTES // (4 * sum(self.sizes)))
        self.block_rows = min(BLOCK, few) if self.is_sparse else BLOCK

    @classmethod
    def of(cls, X: Any, observed: Any = None, *, layer: str | None = None) -> "StoredViews":
        """Open views that are stored in files or chunked arrays, or are sparse matrices.

        Parameters
        ----------
        X : one of
            - a dict of name → part or a list of parts. A part is the path of a ``.npy``, ``.zarr`` or ``.parquet``
              file, a ``numpy.memmap``, a zarr array or HDF5 data set, a ``pyarrow.parquet.ParquetFile``, a
              ``scipy.sparse`` matrix, or a plain 2-D array. All have one row per sample, in the same order; an all-NaN
              row (parquet: all null) means that the view is missing there. A part given as None is left out;
            - a folder: every ``.npy``, ``.zarr`` and ``.parquet`` entry is a view named after it, in alphabetical
              order. ``observed.npy`` is a mask, with one column per view in that order; ``labels`` is left alone;
            - a MuData or AnnData, or a dict of name → AnnData: matrices that are sparse stay so, and samples are
              joined by name. A sample that one of them does not have lacks that view;
            - a `StoredViews`.

            A cell of a sparse matrix that is not stored is 0, and a row without any is data: name missing views by
            `observed`, or by the samples that a table does not have.
        observed : bool array (n_samples, V) in memory, ``numpy.memmap``, or path of a ``.npy`` file
            Hides more views: a view counts as present where this is True *and* its row is not all NaN.
        """
        if isinstance(X, StoredViews):
            return X._hidden(observed)
        given, mask = _folder(X) if isinstance(X, str | os.PathLike) else (_named(X, layer), None)
        if any(isinstance(part, SparseTable) and part.index is not None for part in given.values()):
            parts, index = joined_parts(given)
            return cls(parts, index=index)._hidden(observed)
        return cls(_opened(given))._hidden(mask)._hidden(observed)

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.names)

    @property
    def nbytes(self) -> int:
        """Bytes that all rows take as float32."""
        return 4 * self.n_samples * sum(self.sizes)

    def read(self, start: int, stop: int) -> Views:
        """Return the samples `start` … `stop` - 1 as checked `Views`."""
        start, stop = whole_number(start), whole_number(stop)
        if not 0 <= start <= stop <= self.n_samples:
            msg = (
                f"StoredViews.read: rows {start} to {stop} are outside; "
                f"start and stop must satisfy 0 <= start <= stop <= {self.n_samples}."
            )
            raise DataError(msg)
        index, names = self.index[start:stop], list(self._parts)
        arrays = [as_float_array(name, part.read(start, stop)) for name, part in self._parts.items()]
        present = np.column_stack([~np.isnan(array).all(axis=1) for array in arrays])
        for mask, known in self._masks:
            rows = as_mask(mask.read(start, stop), index, list(known))
            present &= rows[:, [known.index(name) for name in names]]
        views = Views(arrays, present, names, index, [part.columns for part in self._parts.values()])
        for layout in self._layouts:
            views = views.matched_to(*layout)
        return views

    def blocks(self, size: int) -> Iterator[Views]:
        """Return all samples in order, `size` at a time; the last block may be shorter."""
        check_number("StoredViews.blocks", "size", size, minimum=1, integer=True)
        starts = range(0, self.n_samples, size)
        return (self.read(start, min(start + size, self.n_samples)) for start in starts)

    def matched_to(
        self, names: Sequence[str], sizes: Sequence[int], columns: Sequence[tuple[str, ...] | None]
    ) -> "StoredViews":
        """Return these views in the order, and with the columns, of views seen before.

        A view that is absent here is missing for every sample; an unknown one is an error.
        """
        layout = tuple(names), tuple(sizes), tuple(columns)
        self.read(0, 0).matched_to(*layout)  # what does not match is refused now, not at the first block
        return type(self)(self._parts, self._masks, (*self._layouts, layout), self.index)

    def _hidden(self, observed: Any) -> "StoredViews":
        if observed is None:
            return self
        if not is_stored_part(observed) and not isinstance(observed, str | os.PathLike):
            observed = as_mask(observed, self.index, list(self.names))
        mask, shape = open_part("observed", observed), (self.n_samples, self.n_views)
        if mask.shape != shape:
            msg = f"observed must have one row per sample and one column per view, {shape}; got {mask.shape}."
            raise DataError(msg)
        return type(self)(self._parts, (*self._masks, (mask, self.names)), self._layouts, self.index)

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        views = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"<StoredViews of {self.n_samples} samples, {self.nbytes / 1e9:.3g} GB as float32; {views}>"


def is_stored(X: Any) -> bool:
    """Return whether `X` is for `StoredViews.of`: opened views, parts of which any is on disk, or the path of some."""
    if isinstance(X, Mapping | list | tuple):
        return any(map(is_stored_part, X.values() if isinstance(X, Mapping) else X))
    if isinstance(X, str | os.PathLike):
        return os.path.isdir(X) or is_stored_part(X)
    return isinstance(X, StoredViews)


def blocks_of(views: Views | StoredViews) -> Iterator[Views]:
    """Return stored views block by block, and views that are in memory as one block."""
    return views.blocks(views.block_rows) if isinstance(views, StoredViews) else iter((views,))


def _named(X: Any, layer: str | None) -> dict[str, Any]:
    if is_omics(X):
        return split_views(X, None, layer, sparse=True)
    if not isinstance(X, Mapping | list | tuple):
        msg = f"StoredViews: expected a list or dict of parts, or the path of a folder; got {type(X).__name__}."
        raise DataError(msg)
    parts = X if isinstance(X, Mapping) else {f"view_{v}": part for v, part in enumerate(X)}
    parts = split_views(parts, None, layer, sparse=True)
    if not parts:
        msg = "StoredViews: no view was given; pass a list or dict with at least one part, such as a .npy path."
        raise DataError(msg)
    return parts


def _folder(given: str | os.PathLike[str]) -> tuple[dict[str, Path], Path | None]:
    """Return the views of a folder by name, and its mask."""
    folder = Path(given)
    if not folder.is_dir() or folder.suffix in ENDINGS:
        fact = "is one view" if folder.suffix in ENDINGS else "is not a folder"
        msg = f"StoredViews: {folder} {fact}; give a folder with one file per view, or a list or dict of paths."
        raise DataError(msg)
    views: dict[str, Path] = {}
    with file_errors(f"reading {folder}"):
        entries = sorted(folder.iterdir(), key=lambda entry: entry.stem)
    for entry in entries:
        if entry.suffix in ENDINGS and not entry.name.startswith(".") and entry.stem != "labels":
            if entry.stem in views:
                msg = f"{folder}: two entries give the view {entry.stem!r}; keep one of them."
                raise DataError(msg)
            views[entry.stem] = entry
    mask = views.pop("observed", None)
    if not views:
        msg = f"{folder}: no .npy, .zarr or .parquet view in this folder; put one there per view (tables: read_views)."
        raise DataError(msg)
    return views, mask


def _opened(given: Mapping[str, Any]) -> dict[str, Part]:
    """Open the parts and refuse those that cannot be views of the same samples."""
    parts: dict[str, Part] = {}
    for name, one in given.items():
        who = f"View {name!r}"
        if isinstance(one, pd.DataFrame):
            msg = (
                f"{who} is a DataFrame beside stored views, whose rows are matched by position and not joined on an "
                "index; bring its rows into the order of the others and pass frame.to_numpy()."
            )
            raise DataError(msg)
        on_disk = is_stored_part(one) or isinstance(one, str | os.PathLike)
        part = open_part(who, one if on_disk else as_float_array(name, one))
        if len(part.shape) != 2 or not part.shape[1]:
            msg = f"{who} must be 2-D, one row per sample, with at least one column; got shape {part.shape}."
            raise DataError(msg)
        if not part.shape[0]:
            msg = f"{who} has no rows; stored views need at least one sample. Fill the view or leave it out."
            raise DataError(msg)
        parts[name] = part
        first = next(iter(parts))
        if part.shape[0] != parts[first].shape[0]:
            msg = (
                f"{who} has {part.shape[0]} rows but view {first!r} has {parts[first].shape[0]}; every stored view "
                "needs one row per sample, in the same order (there is no join on an index). "
                "Mark an absent sample with an all-NaN row."
            )
            raise DataError(msg)
        as_float_array(name, part.read(0, 1))  # what is no number is refused now, not at the first block
    return parts
