"""Rows of one view on disk: `.npy`, zarr and parquet behind one way of reading."""

import mmap
import os
import sys
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import require
from acova.data.files.archives import npy_header
from acova.data.files.chunks import check_chunks, is_chunked, open_zarr
from acova.data.files.limits import check_expansion, check_file, readable
from acova.data.inputs import FloatArray
from acova.data.sparse import SparseTable, is_sparse

ENDINGS = (".npy", ".zarr", ".parquet")


class Part(Protocol):
    """Rows that can be read from `start` to `stop`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the file has them."""
        ...

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from `start` to `stop`."""
        ...


class _Rows:
    """Rows of anything that is sliced like an array."""

    columns = None

    def __init__(self, who: str, array: Any) -> None:
        self._who, self._array, self.shape = who, array, tuple(array.shape)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        with readable(self._who, f"{type(self._array).__name__} in rows {start} to {stop}"):
            rows = np.asarray(self._array[start:stop])
        if rows.shape != (due := (stop - start, *self.shape[1:])):
            msg = f"{self._who}: rows {start} to {stop} have shape {rows.shape} instead of {due}; write it again."
            raise DataError(msg)
        return rows


class _MappedRows(_Rows):
    """Rows of a mapping; a page that its file lacks would end the process, so the size of the file is checked first."""

    def __init__(self, who: str, part: "np.memmap[Any, Any]", path: Path, due: int) -> None:
        super().__init__(who, part)
        self._path, self._due = path, due

    def read(self, start: int, stop: int) -> NDArray[Any]:
        if self._path.is_file():  # a mapping outlives the name of its file
            _check_size(self._who, self._path, self._due, self._path.stat().st_size, "its cells")
        return super().read(start, stop)


class _FileRows:
    """Rows that lie one after another in a file; plain reads, as the pages of a mapping would stay in memory."""

    columns = None

    def __init__(
        self, who: str, path: Path, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], *, fixed: bool = False
    ) -> None:
        self._who, self._path, self._offset, self._dtype, self.shape = who, path, offset, dtype, shape
        self._check_size(path.stat().st_size)
        self._stamp = _stamp(path.stat()) if fixed else None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        cells = prod(self.shape[1:])
        with readable(f"{self._who}: {self._path}", "file"), self._path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            self._check_size(found.st_size)
            _check_stamp(self._who, self._path, self._stamp, found)
            stream.seek(self._offset + start * cells * self._dtype.itemsize)
            flat = np.fromfile(stream, self._dtype, count=(stop - start) * cells)
            return flat.reshape(stop - start, *self.shape[1:])

    def _check_size(self, there: int) -> None:
        due = self._offset + prod(self.shape) * self._dtype.itemsize
        _check_size(self._who, self._path, due, there, f"its {self.shape} cells of {self._dtype}")


def _check_size(who: str, path: Path, due: int, there: int, cells: str) -> None:
    if there < due:
        msg = f"{who}: {path} is cut off: {cells} end at byte {due} but the file has {there}. Write or copy it again."
        raise DataError(msg)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_stamp(who: str, path: Path, stamp: tuple[int, ...] | None, found: os.stat_result) -> None:
    """Refuse to go on with a file that was replaced, or written to, after it was opened."""
    if stamp is not None and _stamp(found) != stamp:
        msg = f"{who}: {path} has changed since it was opened; leave it alone while it is read, and start again."
        raise DataError(msg)


class _ParquetRows:
    """Rows of a parquet file; the row group decoded last is kept for the next block."""

    def __init__(self, who: str, given: Any) -> None:
        self._who, self._given = who, given
        self._metadata: Any = None
        self._stamp = _stamp(given.stat()) if isinstance(given, Path) else None
        self._cached: tuple[int, FloatArray] | None = None
        with readable(f"{who}: {given}", "parquet file"):
            self._describe()

    def _describe(self) -> None:
        """Learn names, types and row groups, and refuse what cannot be read as numbers."""
        with self._file() as file:
            self._metadata, schema = file.metadata, file.schema_arrow
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        self._edges = [int(edge) for edge in np.cumsum([0, *(group.num_rows for group in groups)])]
        skipped = (schema.pandas_metadata or {}).get("index_columns", [])
        fields = [field for field in schema if field.name not in skipped]
        types = require("pyarrow", str(self._given), "parquet").types
        for field in fields:
            if not any(fits(field.type) for fits in (types.is_integer, types.is_floating, types.is_boolean)):
                msg = (
                    f"{self._who}: column {field.name!r} is not numeric ({field.type}); every column is a feature and "
                    "rows are matched by position. Drop it, encode it as numbers, or store it as the pandas index."
                )
                raise DataError(msg)
        self._dtype = np.result_type(np.float32, *(field.type.to_pandas_dtype() for field in fields))
        self.columns: tuple[str, ...] = tuple(field.name for field in fields)
        self.shape = self._edges[-1], len(fields)
        size = self._given.stat().st_size if isinstance(self._given, Path) else None
        most = int(max(np.diff(self._edges), default=0))
        check_expansion(f"{self._who}: a row group", most * len(fields) * self._dtype.itemsize, size)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        rows = np.empty((stop - start, self.shape[1]), self._dtype)
        for group, (first, end) in enumerate(zip(self._edges, self._edges[1:], strict=False)):
            low, high = max(start, first), min(stop, end)
            if low < high:
                rows[low - start : high - start] = self._group(group)[low - first : high - first]
        return rows

    def _group(self, group: int) -> FloatArray:
        cached = self._cached
        if cached is not None and cached[0] == group:
            return cached[1]
        cached = self._cached = None  # freed before the next one is decoded
        with self._file() as file, readable(f"{self._who}: {self._given}", "parquet file"):
            table = file.read_row_group(group, columns=list(self.columns))
            rows = np.empty((self._edges[group + 1] - self._edges[group], self.shape[1]), self._dtype)
            for place, column in enumerate(table.columns):
                rows[:, place] = column.to_numpy()
        self._cached = group, rows
        return rows

    def _file(self) -> Any:
        """Return the file as a context; one that was given open stays open."""
        if not isinstance(self._given, Path):
            return nullcontext(self._given)
        parquet = require("pyarrow.parquet", f"{self._given}: reading parquet", "parquet")
        _check_stamp(self._who, self._given, self._stamp, check_file(self._given))
        with readable(f"{self._who}: {self._given}", "parquet file"):
            return parquet.ParquetFile(self._given, metadata=self._metadata)


def _is_parquet_file(part: Any) -> bool:
    parquet = sys.modules.get("pyarrow.parquet")
    return parquet is not None and isinstance(part, parquet.ParquetFile)


def is_stored_part(part: Any) -> bool:
    """Return whether one part is on disk, or the path of one that is, or a sparse matrix."""
    if isinstance(part, str | os.PathLike):
        return Path(part).suffix in ENDINGS
    return isinstance(part, np.memmap) or is_sparse(part) or is_chunked(part) or _is_parquet_file(part)


def open_part(who: str, part: Any) -> Part:
    """Open what `is_stored_part` knows, or wrap an array; `who` names it in errors."""
    if isinstance(part, np.memmap):
        return _mapped(who, part)
    if is_sparse(part):
        return part if isinstance(part, SparseTable) else SparseTable(who, part)
    if not isinstance(part, str | os.PathLike):
        if _is_parquet_file(part):
            return _ParquetRows(who, part)
        if is_chunked(part):
            check_chunks(who, part)
        return _Rows(who, part)
    path = Path(part)
    if path.suffix not in ENDINGS or not os.path.lexists(path):
        fact = "does not exist" if path.suffix in ENDINGS else "has an ending that cannot be read"
        msg = f"{who}: {path} {fact}; give the path of a .npy, .zarr or .parquet file."
        raise DataError(msg)
    check_file(path, folder=path.suffix == ".zarr")
    return {".npy": _npy, ".zarr": _zarr, ".parquet": _ParquetRows}[path.suffix](who, path)


def _mapped(who: str, part: "np.memmap[Any, Any]") -> Part:
    """Read a mapping through its file where its rows lie there one after another."""
    root: Any = part
    while isinstance(root.base, np.memmap):
        root = root.base
    if not (isinstance(root.base, mmap.mmap) and root.filename and Path(root.filename).is_file()):
        return _Rows(who, part)
    # A copy-on-write mapping may hold cells that its file does not.
    if not part.flags.c_contiguous or root.mode == "c":
        return _MappedRows(who, part, Path(root.filename), root.offset + root.nbytes)
    offset = root.offset + part.ctypes.data - root.ctypes.data
    return _FileRows(who, Path(root.filename), offset, part.dtype, part.shape)


def _npy(who: str, path: Path) -> Part:
    with readable(f"{who}: {path}", ".npy file"), path.open("rb") as stream:
        shape, fortran, dtype = npy_header(stream)
        offset = stream.tell()
    if fortran:
        msg = (
            f"{who}: {path} is in Fortran order, so its rows are scattered over the file; "
            "save it in C order: numpy.save(path, numpy.ascontiguousarray(array))."
        )
        raise DataError(msg)
    return _FileRows(who, path, offset, dtype, shape, fixed=True)


def _zarr(who: str, path: Path) -> Part:
    return _Rows(who, open_zarr(who, path))
