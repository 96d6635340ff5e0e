"""Multi-view data in files: what is read, and what it becomes."""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_integer_dtype

from acova.base import AcovaError, DataError, DataWarning
from acova.base.errors import near_miss
from acova.base.files import file_errors
from acova.data.categories import Categories
from acova.data.files.archives import LABEL_KEYS, read_hdf5, read_mat, read_npz
from acova.data.files.compressed import unpacked
from acova.data.files.limits import check_expansion, check_file, check_name, readable
from acova.data.files.matrices import companions, matrix_ending, read_mtx
from acova.data.files.omics import ENDINGS as OMICS
from acova.data.files.omics import read_omics
from acova.data.files.parts import ENDINGS as ROWS
from acova.data.files.reading import AS_WRITTEN, Reading
from acova.data.files.tables import WORKBOOKS, read_tables, read_workbook, table_ending, table_name
from acova.data.findings import ignored_findings, warn_of
from acova.data.inputs import split_views
from acova.data.matching import Matches
from acova.data.names import kind_of
from acova.data.sparse import SparseTable, is_sparse
from acova.data.stored import IN_MEMORY, StoredViews
from acova.data.views import Views

_ABOUT = ("", ".md", ".rst", ".json", ".toml", ".yaml", ".yml", ".html", ".pdf", ".png", ".log", ".py", ".r", ".ipynb")
"""Endings of files that stand beside data and hold none."""
_DOCUMENTS = ("readme", "license", "licence", "changes", "notes", "citation")
_HDF5 = (".h5", ".hdf5")
_NUMBERED = re.compile(r"view_[0-9]{1,9}")
_KNOWN = (
    "a .npz, .mat, .mtx, .h5, .h5mu or .h5ad file, an Excel workbook, a table, or a folder with one table per view (or "
    "a .zip of one)"
)


@dataclass(frozen=True)
class Dataset:
    """Views and, where they are known, the classes of the samples.

    See Also
    --------
    read_views : Reads one from files.
    load_dataset : Loads one of the catalogue.
    """

    name: str
    views: Any
    """`Views`, or `StoredViews` of large sparse matrices."""
    labels: NDArray[np.int64] | None = None
    """(n_samples,) classes 0 … K-1, -1 where none is known; never used for training."""
    matches: Matches = field(default_factory=dict)
    """View → name as written → name under which the sample is joined, where names were matched loosely."""

    @property
    def n_classes(self) -> int | None:
        """Number of known classes."""
        return None if self.labels is None else int(self.labels.max()) + 1


def has_class(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return, (n_samples,), where a class is known: -1 stands for none, unless it and one other value are all there is.

    That is scikit-learn's word for samples without a label; of two classes, some call one -1 and the other 1.
    """
    missing = labels == -1 if labels.dtype.kind in "if" else np.zeros(labels.shape, dtype=bool)
    if len(np.unique(labels[~missing])) < 2:
        missing = np.zeros(labels.shape, dtype=bool)
    return np.asarray(~missing)


@dataclass(frozen=True)
class Contents:
    """What a file or folder holds, as found: nothing is checked or joined yet."""

    parts: dict[str, Any]
    """View → frame or array."""
    labels: Any = None
    """Known classes: an array, or a frame whose first column holds them under the samples' names."""
    observed: Any = None
    ignored: tuple[str, ...] = ()
    """Files of a folder that were not read, though they may hold data."""

    matches: Matches = field(default_factory=dict)
    """Names of samples that were matched loosely."""

    def cleaned(self, reading: Reading) -> "Contents":
        """Return the same with names matched, and without the samples, columns and rows that are not wanted."""
        beside = {"labels": self.labels, "observed": self.observed}
        tables, matches = reading.matched(self.parts | {key: one for key, one in beside.items() if one is not None})
        tables = reading.without_samples(tables)
        labels, observed = tables.pop("labels", None), tables.pop("observed", None)
        parts = _without(tables, reading.drop, strict="drop" not in reading.remembered)
        if reading.holes == "hide":
            parts = {name: _hidden(part) for name, part in parts.items()}
        cleaned = replace(self, parts=parts, labels=labels, observed=observed, matches=matches)
        if reading.holes == "refuse":
            cleaned.refuse_empty_cells()
        return cleaned

    def refuse_empty_cells(self) -> None:
        """Raise `DataError` for a row that has empty cells beside others."""
        for name, part in self.parts.items():
            _refuse_holes(name, part)


def read_views(
    path: str | Path,
    *,
    categories: Mapping[str, Categories] | None = None,
    drop: str | Sequence[str] = (),
    drop_sample: str | Sequence[str] = (),
    id_column: str | Sequence[str] = (),
    transpose: str | Sequence[str] = (),
    match_ids: str = "exactly",
    holes: str = "keep",
    layer: str | None = None,
) -> Dataset:
    """Read a multi-view data set from disk.

    Parameters
    ----------
    path : str or Path
        - a folder: each ``.csv``, ``.tsv`` (also with ``.gz`` or ``.zip``), ``.parquet``, ``.feather`` or ``.xlsx``
          file is a view named after the file, joined on its first column, which is read as text (parquet and feather:
          their index, or else the first column). A workbook with several sheets gives a view per sheet, named after
          the sheet. A table called ``labels`` holds the known classes instead, one called ``observed`` the mask. A
          folder without tables may hold ``.npy`` or ``.zarr`` arrays, which match row by row, and ``observed.npy``.
          Other files that may hold data are named in a `DataWarning`;
        - ``.zip``: an archive of such a folder, or of one file;
        - one such table: a single view. An Excel workbook: each sheet is a view, ``labels`` the classes;
        - ``.npz``, ``.h5``, ``.hdf5``: every 2-D array is a view, in the order ``view_0``, ``view_1``, … or of the
          file; ``labels`` (n_samples,), ``observed`` (n_samples, V) and ``index`` (names of the samples) are
          optional. Nothing is unpickled;
        - ``.mat``, any version: a cell array ``X`` with one matrix per view, or ``X1``, ``X2``, …;
          labels in ``Y``, ``gt``, ``labels`` or ``truth``. Matrices may hold samples in rows or columns;
        - ``.mtx`` (also with ``.gz``): a sparse matrix, with ``a_features.tsv`` and ``a_barcodes.tsv`` beside ``a.mtx``
          its names; without them, samples are in rows. A folder may hold several, also beside tables, and may be one
          that 10x programs write (``matrix.mtx.gz``, ``features.tsv.gz``, ``barcodes.tsv.gz``). 10x ``.h5`` files are
          read, too. Types of features are views. Sparse matrices that would take more than 256 MB when dense stay
          sparse, and the views are then `StoredViews`;
        - ``.h5mu``, ``.h5ad``: MuData and AnnData, see `Views.of`; a column of ``obs`` called ``labels`` (or one of
          the names above) holds the known classes.

        A class of -1 stands for a sample whose class is not known (unless -1 and one other number are all there is).
    categories : dict of view → (dict of column → categories), optional
        Encode categories as a fitted model does (``model.categories_``).
    drop : str or sequence of str
        Columns of tables to leave out: ``column`` in every view that has it, or ``view:column``.
    drop_sample : str or sequence of str
        Samples to leave out, by their names; by their numbers where samples have none.
    id_column : str or sequence of str
        Columns that name the samples: ``column`` in every table that has it, or ``view:column``. A table without such
        a column is read by its first one, as all are by default. A first column without a name, which then only
        numbers the rows, is left out.
    transpose : str or sequence of str
        Views with a column for each sample and a row for each feature; they are read the other way round.
    match_ids : {"exactly", "loosely"}
        Whether names of samples that differ only in blanks and capitals are one sample. They get the spelling of the
        first view that has them, without blanks at its ends; ``matches`` of the result says which were changed. Two
        such names in one view are an error.
    holes : {"keep", "hide", "refuse"}
        What to do with a row that has single empty cells: leave these cells out, take the whole view as missing for
        that sample, or raise an error.
    layer : str, optional
        The layer of a ``.h5ad`` or ``.h5mu`` file to read in the place of ``X``.

    Returns
    -------
    Dataset

    See Also
    --------
    inspect_data : What looks wrong in the files, before a fit.
    StoredViews : Views that stay on disk.
    read_omics : A MuData or AnnData file as it is.
    """
    words = {"drop": drop, "drop_sample": drop_sample, "id_column": id_column, "transpose": transpose}
    reading = Reading.of("read_views", **words, match_ids=match_ids, holes=holes, layer=layer)
    return read_dataset(Path(path), reading, categories)


def read_dataset(
    path: Path,
    reading: Reading,
    categories: Mapping[str, Categories] | None = None,
    seen: pd.Index | None = None,
) -> Dataset:
    """Read a multi-view data set as `read_views` does; its options are checked, `seen` is that of `Views.of`."""
    contents = read_contents(path, reading).cleaned(reading)
    warn_of(ignored_findings(contents.ignored))
    if any(map(is_sparse, contents.parts.values())):
        views: Views | StoredViews = StoredViews.of(contents.parts, contents.observed)
    else:
        views = Views.of(contents.parts, contents.observed, categories=categories, seen=seen)
    name = path.name if path.is_dir() else table_name(path)
    return Dataset(name, views, _classes(path, contents.labels, views), contents.matches)


def read_contents(path: str | Path, reading: Reading = AS_WRITTEN) -> Contents:
    """Read what a file or folder holds without checking whether it fits together."""
    path = Path(path)
    if not os.path.lexists(path):
        check_name(str(path))
        msg = f"{path}: no such file or folder; give {_KNOWN}."
        raise DataError(msg)
    check_file(path, folder=True)
    if reading.layer and path.suffix.lower() not in (*OMICS, ".zip") and "layer" not in reading.remembered:
        msg = f"{path}: layer={reading.layer!r} is for {' and '.join(OMICS)} files; leave it out for others."
        raise DataError(msg)
    if path.is_dir():
        return _read_folder(path, reading)
    if table_ending(path) in WORKBOOKS:
        return _sorted_tables(dict(read_workbook(path, reading)), reading)
    if matrix_ending(path) is not None:
        reading.check_ids({})
        return _settled(Contents(reading.turned(read_mtx(path))))
    if table_ending(path) is not None:
        return _sorted_tables(read_tables(path, reading), reading)
    if path.suffix.lower() == ".zip":
        return _read_zip(path, reading)
    return _read_arrays(path, reading)


def _read_arrays(path: Path, reading: Reading) -> Contents:
    """Read a file that holds all views and is no table."""
    reading.check_ids({})
    if path.suffix in OMICS:
        contents = _read_container(path, reading)
    elif path.suffix == ".mat":
        contents = Contents(*read_mat(path))
    elif path.suffix == ".npz" or path.suffix in _HDF5:
        arrays_by_name = read_npz(path) if path.suffix == ".npz" else read_hdf5(path)
        if any(map(is_sparse, arrays_by_name.values())):
            contents = Contents(arrays_by_name)
        else:
            return _sorted_out(arrays_by_name, reading)
    else:
        msg = f"{path}: cannot read {path.suffix or 'a file without ending'!r}; use {_KNOWN}."
        raise DataError(msg)
    return _settled(replace(contents, parts=reading.turned(contents.parts)))


def _settled(contents: Contents) -> Contents:
    """Return sparse matrices dense unless they are large together."""
    tables = [part for part in contents.parts.values() if isinstance(part, SparseTable)]
    if sum(table.nbytes for table in tables) > IN_MEMORY:
        return contents
    parts = {name: p.dense() if isinstance(p, SparseTable) else p for name, p in contents.parts.items()}
    return replace(contents, parts=parts)


def _read_zip(path: Path, reading: Reading) -> Contents:
    with unpacked(path) as folder:
        files = list(folder.iterdir())
        nested = [file.name for file in files if file.suffix.lower() == ".zip" and table_ending(file) is None]
        if nested:
            msg = f"{path}: holds another archive, {nested[0]!r}; unpack it, and give the folder."
            raise DataError(msg)
        try:
            return read_contents(files[0] if len(files) == 1 else folder, reading)
        except AcovaError as error:
            raise type(error)(
                str(error).replace(f"{folder}{os.sep}", f"{path}: ").replace(str(folder), str(path))
            ) from error


def _without(parts: Mapping[str, Any], drop: Sequence[str], *, strict: bool) -> dict[str, Any]:
    """Leave out columns, given as ``column`` or ``view:column``; where strict, one that nobody has is an error."""
    kept, left = dict(parts), set(drop)
    for name, part in parts.items():
        if isinstance(part, pd.DataFrame | SparseTable) and part.columns is not None:
            gone = [c for c in part.columns if str(c) in drop or f"{name}:{c}" in drop]
            left -= {str(c) for c in gone} | {f"{name}:{c}" for c in gone}
            kept[name] = part.without(gone) if isinstance(part, SparseTable) else part.drop(columns=gone)
    if left and strict:
        known = [str(c) for part in parts.values() if isinstance(part, pd.DataFrame) for c in part.columns]
        column = min(left)
        msg = f"read_views: no view has the column {column!r} to drop.{near_miss(column.split(':')[-1], known)}"
        raise DataError(msg)
    return kept


def _refuse_holes(name: str, part: Any) -> None:
    """Raise `DataError` for a row that has empty cells beside others; large sparse matrices have none."""
    if isinstance(part, SparseTable):
        return
    frame = part if isinstance(part, pd.DataFrame) else pd.DataFrame(part)
    empty = frame.isna().to_numpy()
    rows = empty.any(axis=1) & ~empty.all(axis=1)
    if rows.any():
        row, count = int(rows.argmax()), int(rows.sum())
        msg = (
            f"View {name!r} has an empty cell in sample {frame.index.tolist()[row]!r}, column "
            f"{str(frame.columns[empty[row].argmax()])!r} ({count} such sample{'s' * (count > 1)}), which "
            "holes='refuse' does not allow. Fill the cells, leave them out (holes='keep', --holes keep), or take the "
            "view as missing there (holes='hide', --holes hide)."
        )
        raise DataError(msg)


def _hidden(part: Any) -> Any:
    """Empty the rows that have an empty cell; large sparse matrices are left as they are."""
    if isinstance(part, SparseTable):
        return part
    frame = part if isinstance(part, pd.DataFrame) else pd.DataFrame(part)
    holes = frame.isna().any(axis=1)
    if not holes.any():
        return part
    emptied = frame.astype(object).where(~holes, None).infer_objects()
    emptied = emptied.astype({c: t for c, t in frame.dtypes.items() if isinstance(t, pd.CategoricalDtype)})
    return emptied if isinstance(part, pd.DataFrame) else emptied.to_numpy(dtype=np.float64)


def _sorted_out(found: dict[str, NDArray[Any]], reading: Reading) -> Contents:
    """Tell views from labels, mask and names of samples by their names and shapes."""
    labels = next((found.pop(key) for key in LABEL_KEYS if key in found), None)
    observed, index = found.pop("observed", None), found.pop("index", None)
    arrays = reading.turned({key: array for key, array in found.items() if array.ndim == 2})
    left = {key: array.shape for key, array in found.items() if array.ndim > 2}
    if left:
        msg = f"arrays that are no tables are left out: {left}; a view is 2-D, such as array.reshape(len(array), -1)."
        warnings.warn(msg, DataWarning, stacklevel=2)
    if all(_NUMBERED.fullmatch(key) for key in arrays):
        arrays = {key: arrays[key] for key in sorted(arrays, key=lambda key: int(key[5:]))}
    if index is not None and index.ndim == 1 and all(len(array) == len(index) for array in arrays.values()):
        arrays = {key: pd.DataFrame(array, index=pd.Index(index)) for key, array in arrays.items()}
    return Contents(arrays, labels, observed)


def _read_container(path: Path, reading: Reading) -> Contents:
    data = read_omics(path)
    known = next((key for key in LABEL_KEYS if key in data.obs and data.obs[key].notna().all()), None)
    parts = split_views(data, None, reading.layer, sparse=True)
    return Contents(parts, None if known is None else data.obs[[known]])


def _read_folder(path: Path, reading: Reading) -> Contents:
    with file_errors(f"reading {path}"):
        files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    for file in files:
        check_name(file.name)
    matrices = [file for file in files if matrix_ending(file) is not None]
    beside = [name for file in matrices for name in companions(file).values()]
    tables: dict[str, Any] = {}
    for file in files:
        if (table_ending(file) is None and file not in matrices) or file in beside or file.is_dir():
            continue
        found: Mapping[str, Any] = read_mtx(file) if file in matrices else read_tables(file, reading)
        for name, table in found.items():
            if name in tables:
                msg = f"{path}: two files give the view {name!r}; keep one of them."
                raise DataError(msg)
            tables[name] = table
    if tables.keys() - {"labels", "observed"}:
        ignored = _ignored([file for file in files if file not in matrices and file not in beside])
        return replace(_settled(_sorted_tables(tables, reading)), ignored=ignored)
    reading.check_ids({})
    if any(file.suffix in ROWS for file in files):
        stored = StoredViews.of(path)
        check_expansion(path, stored.nbytes)
        views = stored.read(0, len(stored))
        ignored = tuple(name for name in _ignored(files) if Path(name).suffix not in ROWS)
        arrays = dict(zip(views.names, views.arrays, strict=True))
        return Contents(reading.turned(arrays), ignored=ignored)
    msg = (
        f"{path}: no .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .feather or .xlsx file with a view in this folder; "
        "put one file per view there."
    )
    raise DataError(msg)


def _ignored(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the files that may hold data and are no tables; texts about the data and programs are left out."""
    return tuple(
        file.name
        for file in files
        if table_ending(file) is None
        and (file.suffix == ".zarr" or not file.is_dir())
        and file.suffix.lower() not in _ABOUT
        and not file.name.lower().startswith(_DOCUMENTS)
        and file.stem != "labels"
    )


def _sorted_tables(tables: dict[str, Any], reading: Reading) -> Contents:
    """Tell views from classes and mask; where some tables name samples by text, whole numbers in others become text."""
    reading.check_ids({name: table for name, table in tables.items() if isinstance(table, pd.DataFrame)})
    tables = reading.turned(tables)
    named = {name: table for name, table in tables.items() if table.index is not None}
    if any(kind_of(table.index) == "text" for table in named.values()):
        for name, table in named.items():
            if isinstance(table, pd.DataFrame) and is_integer_dtype(table.index.dtype):
                tables[name] = table.set_axis(table.index.astype(str), axis=0)
    labels, observed = tables.pop("labels", None), tables.pop("observed", None)
    return Contents(tables, labels, observed)


def _classes(path: Path, labels: Any, views: Views | StoredViews) -> NDArray[np.int64] | None:
    """Return the known classes in the order of the samples, as 0 … K-1, and -1 where none is known."""
    if labels is None:
        return None
    if isinstance(labels, pd.DataFrame):
        labels = _by_sample(path, labels, views.index)
    if labels.shape != (views.n_samples,):
        msg = f"{path}: labels have shape {labels.shape} but there are {views.n_samples} samples."
        raise DataError(msg)
    with readable(path, "list of classes", "give one number or one text per sample"):
        classes = np.full(labels.shape, -1, dtype=np.int64)
        known = has_class(np.asarray(labels))
        classes[known] = np.unique(labels[known], return_inverse=True)[1]
        return classes


def _by_sample(path: Path, known: pd.DataFrame, index: pd.Index) -> NDArray[Any]:
    if not known.shape[1] or not known.index.is_unique:
        msg = f"{path / 'labels'}: needs each sample once in its first column and the class in the second."
        raise DataError(msg)
    places = known.index.get_indexer(index)
    column = known.iloc[:, 0].take(places)
    lacking = (places < 0) | column.isna().to_numpy()
    if lacking.any():
        first = index[lacking][0]
        msg = f"{path / 'labels'}: no class for {lacking.sum()} samples, first {first!r}; complete the file."
        raise DataError(msg)
    return np.asarray(column.to_numpy())
