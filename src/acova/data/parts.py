"""Rows of one view on disk: `.npy`, zarr and parquet behind one way of reading."""

import mmap
import os
import sys
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from acova.base import DataError, require
from acova.data.inputs import FloatArray

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

    def __init__(self, array: Any) -> None:
        self._array, self.shape = array, tuple(array.shape)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self._array[start:stop])


class _FileRows:
    """Rows that lie one after another in a file; plain reads, as the pages of a mapping would stay in memory."""

    columns = None

    def __init__(self, who: str, path: Path, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._who, self._path, self._offset, self._dtype, self.shape = who, path, offset, dtype, shape
        self._check_size(path.stat().st_size)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        cells = prod(self.shape[1:])
        try:
            with self._path.open("rb") as stream:
                self._check_size(os.fstat(stream.fileno()).st_size)
                stream.seek(self._offset + start * cells * self._dtype.itemsize)
                flat = np.fromfile(stream, self._dtype, count=(stop - start) * cells)
        except OSError as error:
            raise _unreadable(self._who, self._path, "file", error) from error
        return flat.reshape(stop - start, *self.shape[1:])

    def _check_size(self, there: int) -> None:
        due = self._offset + prod(self.shape) * self._dtype.itemsize
        if there < due:
            msg = (
                f"{self._who}: {self._path} is cut off: its {self.shape} cells of {self._dtype} end at byte {due} "
                f"but the file has {there}. Write or copy it again."
            )
            raise DataError(msg)


class _ParquetRows:
    """Rows of a parquet file; the row group decoded last is kept for the next block."""

    def __init__(self, who: str, given: Any) -> None:
        self._who, self._given, self._metadata = who, given, None
        self._held: tuple[int, FloatArray] | None = None
        with self._file() as file:
            self._metadata, schema = file.metadata, file.schema_arrow
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        self._edges = [int(edge) for edge in np.cumsum([0, *(group.num_rows for group in groups)])]
        skipped = (schema.pandas_metadata or {}).get("index_columns", [])
        fields = [field for field in schema if field.name not in skipped]
        types = require("pyarrow", str(given), "parquet").types
        for field in fields:
            if not any(fits(field.type) for fits in (types.is_integer, types.is_floating, types.is_boolean)):
                msg = (
                    f"{who}: column {field.name!r} is not numeric ({field.type}); every column is a feature and rows "
                    "are matched by position. Drop it, encode it as numbers, or store it as the pandas index."
                )
                raise DataError(msg)
        self._dtype = np.result_type(np.float32, *(field.type.to_pandas_dtype() for field in fields))
        self.columns: tuple[str, ...] = tuple(field.name for field in fields)
        self.shape = self._edges[-1], len(fields)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        rows = np.empty((stop - start, self.shape[1]), self._dtype)
        for group, (first, end) in enumerate(zip(self._edges, self._edges[1:], strict=False)):
            low, high = max(start, first), min(stop, end)
            if low < high:
                rows[low - start : high - start] = self._group(group)[low - first : high - first]
        return rows

    def _group(self, group: int) -> FloatArray:
        held = self._held
        if held is not None and held[0] == group:
            return held[1]
        held = self._held = None  # freed before the next one is decoded
        with self._file() as file:
            try:
                table = file.read_row_group(group, columns=list(self.columns))
            except Exception as error:  # damaged files raise errors of many kinds
                raise _unreadable(self._who, self._given, "parquet file", error) from error
        rows = np.empty((len(table), self.shape[1]), self._dtype)
        for place, column in enumerate(table.columns):
            rows[:, place] = column.to_numpy()
        self._held = group, rows
        return rows

    def _file(self) -> Any:
        """Return the file as a context; one that was given open stays open."""
        if not isinstance(self._given, Path):
            return nullcontext(self._given)
        parquet = require("pyarrow.parquet", f"{self._given}: reading parquet", "parquet")
        try:
            return parquet.ParquetFile(self._given, metadata=self._metadata)
        except Exception as error:  # damaged files raise errors of many kinds
            raise _unreadable(self._who, self._given, "parquet file", error) from error


def _is_chunked(part: Any) -> bool:
    """Tell zarr arrays and HDF5 data sets by what they can do, so that neither package is imported."""
    wanted = ("shape", "dtype", "chunks", "__getitem__")
    return not isinstance(part, np.ndarray) and all(hasattr(part, name) for name in wanted)


def _is_parquet_file(part: Any) -> bool:
    parquet = sys.modules.get("pyarrow.parquet")
    return parquet is not None and isinstance(part, parquet.ParquetFile)


def is_stored_part(part: Any) -> bool:
    """Return whether one part is on disk, or the path of one that is."""
    if isinstance(part, str | os.PathLike):
        return Path(part).suffix in ENDINGS
    return isinstance(part, np.memmap) or _is_chunked(part) or _is_parquet_file(part)


def open_part(who: str, part: Any) -> Part:
    """Open what `is_stored_part` knows, or wrap an array; `who` names it in errors."""
    if isinstance(part, np.memmap):
        return _mapped(who, part)
    if not isinstance(part, str | os.PathLike):
        return _ParquetRows(who, part) if _is_parquet_file(part) else _Rows(part)
    path = Path(part)
    if path.suffix not in ENDINGS or not path.exists():
        fact = "does not exist" if path.suffix in ENDINGS else "has an ending that cannot be read"
        msg = f"{who}: {path} {fact}; give the path of a .npy, .zarr or .parquet file."
        raise DataError(msg)
    return {".npy": _npy, ".zarr": _zarr, ".parquet": _ParquetRows}[path.suffix](who, path)


def _mapped(who: str, part: "np.memmap[Any, Any]") -> Part:
    """Read a mapping through its file where its rows lie there one after another."""
    root: Any = part
    while isinstance(root.base, np.memmap):
        root = root.base
    # A copy-on-write mapping may hold cells that its file does not.
    plain = isinstance(root.base, mmap.mmap) and part.flags.c_contiguous and root.mode != "c"
    if not (plain and root.filename and Path(root.filename).is_file()):
        return _Rows(part)
    offset = root.offset + part.ctypes.data - root.ctypes.data
    return _FileRows(who, Path(root.filename), offset, part.dtype, part.shape)


def _npy(who: str, path: Path) -> Part:
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    try:
        with path.open("rb") as stream:
            shape, fortran, dtype = readers[npy_format.read_magic(stream)](stream)
            offset = stream.tell()
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(who, path, ".npy file", error) from error
    if dtype.hasobject:
        msg = f"{who}: {path} holds Python objects, which are never unpickled; save numbers, such as float32."
        raise DataError(msg)
    if fortran:
        msg = (
            f"{who}: {path} is in Fortran order, so its rows are scattered over the file; "
            "save it in C order: numpy.save(path, numpy.ascontiguousarray(array))."
        )
        raise DataError(msg)
    return _FileRows(who, path, offset, dtype, shape)


def _zarr(who: str, path: Path) -> Part:
    zarr = require("zarr", f"{path}: reading zarr", "zarr")
    try:
        array = zarr.open(str(path), mode="r")
    except Exception as error:  # damaged stores raise errors of many kinds
        raise _unreadable(who, path, "zarr array", error) from error
    if not _is_chunked(array):
        msg = f"{who}: {path} is a zarr group; give one of its arrays instead, such as zarr.open(path)['name']."
        raise DataError(msg)
    return _Rows(array)


def _unreadable(who: str, place: object, kind: str, error: Exception) -> DataError:
    return DataError(f"{who}: {place} is not a readable {kind} ({error}); write it again, or give another file.")
