"""Several arrays in one file: ``.npz``, ``.mat`` of any version, HDF5."""

import re
import warnings
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, issparse

from acova.base import DataError
from acova.data.files.hdf5 import opened_hdf5
from acova.data.files.limits import check_file, check_sparse, readable
from acova.data.files.matrices import read_tenx
from acova.data.files.packed import check_mat, check_zip

LABEL_KEYS = ("labels", "label", "y", "Y", "gt", "truth", "target")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NUMBERED = re.compile(r"X([0-9]{1,9})")
_MATRICES = re.compile(r"(double|single|logical|cell|u?int(8|16|32|64))")


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return every array of a ``.npz`` file; nothing is unpickled."""
    check_file(path)
    with (
        readable(path, ".npz file of plain arrays", "write it with numpy.savez(path, view_0=…)"),
        ZipFile(path) as archive,
    ):
        check_zip(path, archive)
        return {member.filename.removesuffix(".npy"): _member(archive, member) for member in archive.infolist()}


def _member(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    """Return one array, whose checksum is compared at the end of its member."""
    with archive.open(member) as stream:
        shape, _, dtype = npy_header(stream)
        due = stream.tell() + prod(shape) * dtype.itemsize
        if due != member.file_size:
            msg = f"{member.filename!r} is to have {shape} cells of {dtype}, {due} bytes, but has {member.file_size}"
            raise ValueError(msg)
    with archive.open(member) as stream:
        array: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared where the member ends
    return array


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the order is Fortran's, and type of an array of plain values in the ``.npy`` format."""
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    version = npy_format.read_magic(stream)
    if version not in readers:
        msg = f"version {version} of the .npy format is for structured types"
        raise ValueError(msg)
    shape, fortran, dtype = readers[version](stream)
    if dtype.hasobject:
        msg = "it holds Python objects, which are never unpickled; save numbers, such as float32"
        raise ValueError(msg)
    if min(shape, default=0) < 0 or not dtype.itemsize:
        msg = f"cells of {dtype} cannot have the shape {shape}"
        raise ValueError(msg)
    return shape, fortran, dtype


def read_hdf5(path: Path) -> dict[str, Any]:
    """Return every array of an HDF5 file by its name, or by its path where a name occurs twice; of 10x, the views."""
    check_file(path)
    with readable(path, "HDF5 file"), opened_hdf5(path, f"{path}: reading HDF5") as (file, entries):
        if any("pandas_type" in getattr(entry, "attrs", {}) for entry in file.values()):
            msg = (
                f"{path}: written by pandas.to_hdf, whose layout only PyTables reads; write the tables with "
                "to_parquet or to_csv, one file per view, into a folder."
            )
            raise DataError(msg)
        tables = read_tenx(path, entries)
        if tables is not None:
            return dict(tables)
        found = {name: _cells(entry) for name, entry in entries.items() if entry.shape is not None}
    last = [name.rsplit("/", 1)[-1] for name in found]
    return {
        short if last.count(short) == 1 else name: array
        for short, (name, array) in zip(last, found.items(), strict=True)
    }


def _cells(entry: Any) -> NDArray[Any]:
    return np.asarray(entry.asstr()[()] if entry.dtype == object else entry[()])


def read_mat(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None]:
    """Return the views of a ``.mat`` file (a cell array ``X``, or ``X1``, ``X2``, …) and its labels."""
    check_file(path)
    with readable(path, ".mat file"):
        entries = _version_73(path) if _is_hdf5(path) else _version_5(path)
        labels = next((_dense(path, entries[key]).ravel() for key in LABEL_KEYS if key in entries), None)
        matrices = {name: _matrix(path, name, entry) for name, entry in _mat_views(entries).items()}
    if not matrices:
        found = [key for key in entries if not key.startswith(("__", "#"))]
        msg = f"{path}: expected a cell array X or matrices X1, X2, …; found {found}."
        raise DataError(msg)
    return {name: _samples_in_rows(array, labels) for name, array in matrices.items()}, labels


def _is_hdf5(path: Path) -> bool:
    """Version 7.3 is HDF5, behind a header of 512 bytes."""
    with path.open("rb") as stream:
        start = stream.read(520)
    return _SIGNATURE in (start[:8], start[512:])


def _version_5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadWarning

    check_mat(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MatReadWarning)  # a variable that occurs twice, or cannot be read
        return dict(loadmat(path))


def _version_73(path: Path) -> dict[str, Any]:
    with opened_hdf5(path, f"{path}: reading MATLAB 7.3") as (file, _):
        wanted = {key for key in file if key in LABEL_KEYS or key == "X" or _NUMBERED.fullmatch(key)}
        names = [key for key in file if not key.startswith("#")]
        return {key: _matlab_value(file, file[key]) if key in wanted else None for key in names}


def _matlab_value(file: Any, entry: Any, *, in_cell: bool = False) -> Any:
    """Return what one entry holds; MATLAB writes columns first, so everything comes turned."""
    if "MATLAB_sparse" in entry.attrs:
        columns = len(entry["jc"]) - 1
        shape = int(entry.attrs["MATLAB_sparse"]), columns
        if "data" not in entry:  # no cell differs from zero
            return csc_matrix(shape)
        return csc_matrix((entry["data"][()], entry["ir"][()], entry["jc"][()]), shape=shape)
    kind = entry.attrs.get("MATLAB_class", b"double")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if not _MATRICES.fullmatch(kind) or not hasattr(entry, "dtype"):  # text, a struct, a function, an object
        return np.array([[kind]])
    if kind == "cell" or entry.dtype == object:
        if in_cell:
            return np.array([["cell"]])
        cells = np.empty(entry.size, dtype=object)
        for place, reference in enumerate(entry[()].T.ravel()):
            cells[place] = _matlab_value(file, file[reference], in_cell=True)
        return cells
    return entry[()].T


def _mat_views(entries: Mapping[str, Any]) -> dict[str, Any]:
    cells = entries.get("X")
    if cells is not None and cells.dtype == object:
        return {f"view_{v}": cell for v, cell in enumerate(cells.ravel())}
    numbered = sorted((key for key in entries if _NUMBERED.fullmatch(key)), key=lambda key: int(key[1:]))
    return {key: entries[key] for key in numbered}


def _matrix(path: Path, name: str, entry: Any) -> NDArray[Any]:
    matrix = _dense(path, entry)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biufc":
        msg = f"{path}: {name!r} must be a matrix of numbers; got shape {matrix.shape} and type {matrix.dtype}."
        raise DataError(msg)
    return matrix


def _dense(path: Path, matrix: Any) -> NDArray[Any]:
    if not issparse(matrix):
        return np.asarray(matrix)
    check_sparse(path, matrix)
    return np.asarray(matrix.toarray())


def _samples_in_rows(array: NDArray[Any], labels: NDArray[Any] | None) -> NDArray[Any]:
    turned = labels is not None and len(array) != len(labels) and array.shape[-1] == len(labels)
    return array.T if turned else array
