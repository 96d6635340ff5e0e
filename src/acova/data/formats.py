"""Multi-view data in files: ``.npz``, ``.mat`` and folders of tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError
from acova.data.views import Views

_LABEL_KEYS = ("labels", "label", "y", "Y", "gt", "truth", "target")
_TABLES = {".csv": ",", ".tsv": "\t", ".parquet": None}


@dataclass(frozen=True)
class Dataset:
    """Views and, where they are known, the classes of the samples."""

    name: str
    views: Views
    labels: NDArray[np.int64] | None = None
    """(n_samples,) classes 0 … K-1; never used for training."""

    @property
    def n_classes(self) -> int | None:
        """Number of known classes."""
        return None if self.labels is None else int(self.labels.max()) + 1


def read_views(path: str | Path) -> Dataset:
    """Read a multi-view data set from disk.

    Parameters
    ----------
    path : str or Path
        - ``.npz``: every 2-D array is a view, in the order ``view_0``, ``view_1``, … or of the file;
          ``labels`` (n_samples,) and ``observed`` (n_samples, V) are optional. Never unpickled;
        - ``.mat`` (up to version 7): a cell array ``X`` with one matrix per view, or ``X1``, ``X2``, …;
          labels in ``Y``, ``gt``, ``labels`` or ``truth``. Matrices may hold samples in rows or columns;
        - a folder: each ``.csv``, ``.tsv`` or ``.parquet`` file is a view named after the file, joined
          on its first column (parquet: its index, or else its first column). A file called ``labels``
          holds the known classes instead.

    Returns
    -------
    Dataset
    """
    path = Path(path)
    if not path.exists():
        msg = f"{path}: no such file or folder; give a .npz or .mat file, or a folder with one table per view."
        raise DataError(msg)
    if path.is_dir():
        return _read_folder(path)
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".mat":
        return _read_mat(path)
    msg = f"{path}: cannot read {path.suffix or 'a file without ending'!r}; use .npz, .mat or a folder of tables."
    raise DataError(msg)


def _read_npz(path: Path) -> Dataset:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            held = {key: file[key] for key in file.files}
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable .npz file of plain arrays ({error}); write it with numpy.savez(path, view_0=…)."
        raise DataError(msg) from error
    labels = next((held.pop(key) for key in _LABEL_KEYS if key in held), None)
    observed = held.pop("observed", None)
    arrays = {key: array for key, array in held.items() if array.ndim == 2}
    if all(key.startswith("view_") and key[5:].isdigit() for key in arrays):
        arrays = {key: arrays[key] for key in sorted(arrays, key=lambda key: int(key[5:]))}
    return _dataset(path, Views.of(arrays, observed), labels)


def _read_mat(path: Path) -> Dataset:
    from scipy.io import loadmat

    try:
        held = loadmat(path)
    except NotImplementedError as error:
        msg = f"{path}: MATLAB 7.3 files are not read; save it in MATLAB with '-v7', or convert it to .npz."
        raise DataError(msg) from error
    except Exception as error:  # damaged files raise errors of many kinds
        msg = f"{path}: not a readable .mat file ({error})."
        raise DataError(msg) from error
    labels = next((held[key].ravel() for key in _LABEL_KEYS if key in held), None)
    matrices = _mat_views(held)
    if not matrices:
        found = [key for key in held if not key.startswith("__")]
        msg = f"{path}: expected a cell array X or matrices X1, X2, …; found {found}."
        raise DataError(msg)
    arrays = {name: _samples_in_rows(array, labels) for name, array in matrices.items()}
    return _dataset(path, Views.of(arrays), labels)


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


def _read_folder(path: Path) -> Dataset:
    files = sorted(file for file in path.iterdir() if file.suffix in _TABLES and not file.name.startswith("."))
    tables = {}
    for file in files:
        if file.stem in tables:
            msg = f"{path}: two files give the view {file.stem!r}; keep one of them."
            raise DataError(msg)
        tables[file.stem] = _read_table(file)
    known = tables.pop("labels", None)
    if not tables:
        msg = f"{path}: no .csv, .tsv or .parquet file with a view in this folder; put one file per view there."
        raise DataError(msg)
    views = Views.of(tables)
    labels = None
    if known is not None:
        if not known.shape[1] or not known.index.is_unique:
            msg = f"{path / 'labels'}: needs each sample once in its first column and the class in the second."
            raise DataError(msg)
        column = known.iloc[:, 0].reindex(views.index)
        if column.isna().any():
            lacking = views.index[column.isna()].tolist()
            msg = f"{path / 'labels'}: no class for {len(lacking)} samples, first {lacking[0]!r}; complete the file."
            raise DataError(msg)
        labels = column.to_numpy()
    return _dataset(path, views, labels)


def _read_table(file: Path) -> pd.DataFrame:
    separator = _TABLES[file.suffix]
    try:
        if separator is not None:
            return pd.read_csv(file, sep=separator, index_col=0)
        frame = pd.read_parquet(file)
    except ImportError as error:
        msg = f"{file}: reading parquet needs pyarrow; install it with: pip install 'acova[parquet]'."
        raise DataError(msg) from error
    except (ValueError, OSError) as error:
        why = str(error).strip()
        msg = f"{file}: not a readable table ({why}); the first column names the samples, the others are features."
        raise DataError(msg) from error
    return frame.set_index(frame.columns[0]) if isinstance(frame.index, pd.RangeIndex) and frame.shape[1] else frame


def _dataset(path: Path, views: Views, labels: NDArray[Any] | None) -> Dataset:
    if labels is None:
        return Dataset(path.stem, views)
    if labels.shape != (views.n_samples,):
        msg = f"{path}: labels have shape {labels.shape} but there are {views.n_samples} samples."
        raise DataError(msg)
    return Dataset(path.stem, views, np.unique(labels, return_inverse=True)[1].astype(np.int64))
