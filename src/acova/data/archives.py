"""Several arrays in one file: ``.npz``, ``.mat`` of any version, HDF5."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from acova.base import DataError, require

LABEL_KEYS = ("labels", "label", "y", "Y", "gt", "truth", "target")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return every array of a ``.npz`` file; nothing is unpickled."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable .npz file of plain arrays ({error}); write it with numpy.savez(path, view_0=…)."
        raise DataError(msg) from error


def read_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    """Return every array of an HDF5 file by its name, or by its path where a name occurs twice."""
    h5py = require("h5py", f"{path}: reading HDF5", "hdf5")
    try:
        with h5py.File(path, "r") as file:
            if any("pandas_type" in getattr(held, "attrs", {}) for held in file.values()):
                msg = (
                    f"{path}: written by pandas.to_hdf, whose layout only PyTables reads; write the tables with "
                    "to_parquet or to_csv, one file per view, into a folder."
                )
                raise DataError(msg)
            found = dict(_arrays(file, h5py.Dataset))
    except DataError:
        raise
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable HDF5 file ({error})."
        raise DataError(msg) from error
    last = [name.rsplit("/", 1)[-1] for name in found]
    return {
        short if last.count(short) == 1 else name: array
        for short, (name, array) in zip(last, found.items(), strict=True)
    }


def _arrays(group: Any, kind: type) -> Iterator[tuple[str, NDArray[Any]]]:
    for held in group.values():
        if isinstance(held, kind):
            array: Any = held
            yield array.name.removeprefix("/"), np.asarray(array.asstr()[()] if array.dtype == object else array[()])
        else:
            yield from _arrays(held, kind)


def read_mat(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None]:
    """Return the views of a ``.mat`` file (a cell array ``X``, or ``X1``, ``X2``, …) and its labels."""
    held = _held_in_hdf5(path) if _is_hdf5(path) else _held_before_hdf5(path)
    labels = next((np.asarray(held[key]).ravel() for key in LABEL_KEYS if key in held), None)
    matrices = _mat_views(held)
    if not matrices:
        found = [key for key in held if not key.startswith(("__", "#"))]
        msg = f"{path}: expected a cell array X or matrices X1, X2, …; found {found}."
        raise DataError(msg)
    return {name: _samples_in_rows(array, labels) for name, array in matrices.items()}, labels


def _is_hdf5(path: Path) -> bool:
    """Version 7.3 is HDF5, behind a header of 512 bytes."""
    with path.open("rb") as stream:
        start = stream.read(520)
    return _SIGNATURE in (start[:8], start[512:])


def _held_before_hdf5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        return dict(loadmat(path))
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable .mat file ({error})."
        raise DataError(msg) from error


def _held_in_hdf5(path: Path) -> dict[str, Any]:
    h5py = require("h5py", f"{path}: reading MATLAB 7.3", "hdf5")
    try:
        with h5py.File(path, "r") as file:
            return {key: _matlab_value(file, held, h5py) for key, held in file.items() if not key.startswith("#")}
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable .mat file ({error})."
        raise DataError(msg) from error


def _matlab_value(file: Any, held: Any, h5py: Any) -> Any:
    """Return what one entry holds; MATLAB writes columns first, so everything comes turned."""
    if "MATLAB_sparse" in held.attrs:
        columns = len(held["jc"]) - 1
        shape = int(held.attrs["MATLAB_sparse"]), columns
        if "data" not in held:  # no cell differs from zero
            return csc_matrix(shape)
        return csc_matrix((held["data"][()], held["ir"][()], held["jc"][()]), shape=shape)
    if isinstance(held, h5py.Group):  # a struct: no view
        return np.empty(0)
    if held.dtype == h5py.ref_dtype:
        out = np.empty(held.size, dtype=object)
        for place, reference in enumerate(held[()].T.ravel()):
            out[place] = _matlab_value(file, file[reference], h5py)
        return out
    return held[()].T


def _mat_views(held: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    cells = held.get("X")
    if cells is not None and cells.dtype == object:
        return {f"view_{v}": _dense(cell) for v, cell in enumerate(cells.ravel())}
    numbered = sorted((key for key in held if key[:1] == "X" and key[1:].isdigit()), key=lambda key: int(key[1:]))
    return {key: _dense(held[key]) for key in numbered}


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def _samples_in_rows(array: NDArray[Any], labels: NDArray[Any] | None) -> NDArray[Any]:
    turned = labels is not None and len(array) != len(labels) and array.shape[-1] == len(labels)
    return array.T if turned else array
