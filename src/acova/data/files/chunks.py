"""Chunked arrays: what their metadata say is checked against what is stored, before a chunk is decoded."""

import os
import warnings
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from acova.base import DataError, DataWarning
from acova.base.errors import require
from acova.base.files import file_errors
from acova.data.files.limits import check_expansion, check_file, readable

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def is_chunked(part: Any) -> bool:
    """Recognise zarr arrays and HDF5 data sets by what they can do, so that neither package is imported."""
    wanted = ("shape", "dtype", "chunks", "__getitem__")
    return not isinstance(part, np.ndarray) and all(hasattr(part, name) for name in wanted)


def open_zarr(who: str, path: Path) -> Any:
    """Open the zarr array in a folder; `who` names it in errors."""
    zarr = require("zarr", f"{path}: reading zarr", "zarr")
    with readable(f"{who}: {path}", "zarr array"):
        array = zarr.open(str(path), mode="r")
    if not is_chunked(array):
        msg = f"{who}: {path} is a zarr group; give one of its arrays instead, such as zarr.open(path)['name']."
        raise DataError(msg)
    with readable(f"{who}: {path}", "zarr array"):
        check_chunks(who, array, _check_stored(who, path, array))
    return array


def check_chunks(who: str, array: Any, size: int | None = None) -> None:
    """Refuse pickled chunks, and chunks that take too much memory, as each is decoded whole."""
    metadata: Any = getattr(array, "metadata", None)
    known = metadata.to_dict() if hasattr(metadata, "to_dict") else {}
    if "pickle" in str({key: value for key, value in known.items() if key != "attributes"}):
        msg = f"{who}: its chunks are pickled, and nothing is unpickled; store numbers, such as float32."
        raise DataError(msg)
    chunk = max((prod(shape) for shape in (array.chunks, getattr(array, "shards", None)) if shape), default=0)
    check_expansion(f"{who}: one chunk", chunk * array.dtype.itemsize, size)


def _check_stored(who: str, path: Path, array: Any) -> int:
    """Return the bytes of all chunks; warn of absent ones, which read as the fill value."""
    sizes = [check_file(Path(folder, name)).st_size for folder, name in _chunk_files(who, path)]
    shape = getattr(array, "shards", None) or array.chunks
    due = prod(-(-length // step) for length, step in zip(array.shape, shape, strict=True))
    absent, fill = due - len(sizes), array.fill_value
    if absent <= 0 or (isinstance(fill, float | np.floating) and np.isnan(fill)):  # rows of NaN are missing, as said
        return sum(sizes)
    if not sizes:
        msg = f"{who}: {path} has the shape {array.shape} but no chunk is stored; copy the whole folder again."
        raise DataError(msg)
    msg = (
        f"{who}: {absent} of {due} chunks of {path} are absent, and zarr reads their cells as {fill!s}. This is right "
        "where every cell had this value; otherwise copy the folder again. Write the array with fill_value=nan, or "
        "with config={'write_empty_chunks': True}, to rule out doubt."
    )
    warnings.warn(msg, DataWarning, stacklevel=2)
    return sum(sizes)


def _chunk_files(who: str, path: Path) -> list[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise error

    with file_errors(f"{who}: reading {path}"):
        return [
            (folder, name)
            for folder, _, names in os.walk(path, onerror=refuse)
            for name in names
            if name not in _METADATA
        ]
