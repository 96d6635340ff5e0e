"""Sparse matrices in files: Matrix Market (``.mtx``) with names beside it, 10x folders, and 10x ``.h5`` files."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from acova.base import DataError
from acova.data.files.compressed import check_packed, opened, opened_text, text_encoding
from acova.data.files.limits import check_expansion, check_file, readable
from acova.data.sparse import SparseTable

ENDINGS = (".mtx", ".mtx.gz")
_NAMES = {"features": ("features", "genes"), "barcodes": ("barcodes",)}
"""What the files beside a matrix are called."""
_OF_NAMES = (".tsv", ".tsv.gz", ".txt", ".txt.gz")
_SEPARATORS = "_.-"
_BANNER = re.compile(rb"%%matrixmarket\s+matrix\s+(coordinate|array)\s+(real|integer|pattern|double)\s+general\s*")
_LINE, _PIECE = 2**16, 2**19
_MOST = 2**31 - 1
"""Rows and columns that can be numbered in 32 bits."""
_CELL = 24
"""Bytes of a filled cell while it is read: row, column and value."""
_GENES = "Gene Expression"
"""The type of features in folders that were written before there were types."""
_TENX = ("data", "indices", "indptr", "shape", "barcodes")


def matrix_ending(path: Path) -> str | None:
    """Return the ending of a Matrix Market file in lower case, else None."""
    return next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)


def companions(path: Path) -> dict[str, Path]:
    """Return the files beside a matrix that name its features and its cells, as far as there are any.

    ``a.mtx`` has ``a_features.tsv``, ``a.features.tsv`` or ``a-features.tsv``; ``matrix.mtx`` and ``a_matrix.mtx`` have
    ``features.tsv`` and ``a_features.tsv``. ``genes`` may stand for ``features``, and each may have ``.gz``.
    """
    stem = path.name[: -len(matrix_ending(path) or "")]
    heads = [stem[: -len("matrix")]] if stem.lower().endswith("matrix") else [f"{stem}{one}" for one in _SEPARATORS]
    found: dict[str, Path] = {}
    for kind, words in _NAMES.items():
        names = [f"{head}{word}{ending}" for head in heads for word in words for ending in _OF_NAMES]
        beside = [path.with_name(name) for name in names if path.with_name(name).exists()]
        if len(beside) > 1:
            both = " and ".join(file.name for file in beside)
            msg = f"{path}: has {both} beside it, which both name its {kind}; keep one of them."
            raise DataError(msg)
        if beside:
            found[kind] = beside[0]
    return found


def read_mtx(path: Path) -> dict[str, SparseTable]:
    """Return the matrix in a Matrix Market file as views with samples in rows: one for each type of features.

    With names beside it, cells may be in rows or in columns: their number says which, and where both fit, features are
    in rows, as 10x writes them. Without, samples are in rows.
    """
    check_file(path)
    beside = companions(path)
    stem = path.name[: -len(matrix_ending(path) or "")]
    if len(beside) == 1:
        other = ({*_NAMES} - {*beside}).pop()
        msg = f"{path}: has {next(iter(beside.values())).name} beside it but no file of its {other}; put it there."
        raise DataError(msg)
    matrix = _matrix(path)
    if not beside:
        return {stem: SparseTable(str(path), matrix)}
    features, cells = _lines(beside["features"]), _lines(beside["barcodes"])
    if matrix.shape == (len(features), len(cells)):
        matrix = matrix.T
    elif matrix.shape != (len(cells), len(features)):
        msg = (
            f"{path}: has {matrix.shape[0]} rows and {matrix.shape[1]} columns, but {beside['features'].name} names "
            f"{len(features)} features and {beside['barcodes'].name} {len(cells)} cells. Put the files together that "
            "were written together."
        )
        raise DataError(msg)
    names, types = _features([(row[0], row[1] if len(row) > 1 else row[0]) for row in features]), None
    if all(len(row) > 2 for row in features):
        types = [row[2] for row in features]
    name = re.sub(rf"[{_SEPARATORS}]*matrix$", "", stem, flags=re.IGNORECASE)
    return _by_type(path, matrix, [row[0] for row in cells], names, types, name)


def read_tenx(path: Path, entries: Mapping[str, Any]) -> dict[str, SparseTable] | None:
    """Return the views of a 10x ``.h5`` file, whose data sets are given by their paths; None for any other file."""
    groups = {name.rpartition("/")[0] for name in entries if name.endswith("/indptr")}
    groups = {group for group in groups if all(f"{group}/{one}" in entries for one in _TENX)}
    views: dict[str, SparseTable] = {}
    for group in sorted(groups):
        with readable(path, "10x file"):
            found = _tenx_group(path, group, entries)
        views |= found if len(groups) == 1 else {f"{group}: {name}": table for name, table in found.items()}
    return views or None


def _tenx_group(path: Path, group: str, entries: Mapping[str, Any]) -> dict[str, SparseTable]:
    def texts(*names: str) -> list[str] | None:
        entry = next((entries[f"{group}/{name}"] for name in names if f"{group}/{name}" in entries), None)
        return None if entry is None else [one.decode() if isinstance(one, bytes) else str(one) for one in entry[()]]

    data, indices, ends, shape = (entries[f"{group}/{name}"][()] for name in _TENX[:4])
    cells, ids = texts("barcodes") or [], texts("features/id", "genes") or []
    names = texts("features/name", "gene_names") or ids
    counts = {len(cells), int(shape[1]), len(ends) - 1}, {len(ids), len(names), int(shape[0])}
    if len(counts[0]) > 1 or len(counts[1]) > 1:
        msg = (
            f"{path}: {group!r} is said to have the shape {tuple(map(int, shape))} (features, cells), but it names "
            f"{len(ids)} features and {len(cells)} cells and has {len(ends) - 1} columns; write it again."
        )
        raise DataError(msg)
    if len(data) != len(indices) or int(ends[-1]) != len(data):
        msg = (
            f"{path}: {group!r} has {len(data)} values and {len(indices)} places for {int(ends[-1])} filled cells; "
            "copy it again."
        )
        raise DataError(msg)
    matrix = csr_array((data, indices, ends), shape=(len(cells), len(ids)))
    matrix.check_format(full_check=True)  # before scipy follows indices that lead out of it
    types = texts("features/feature_type")
    if types is not None and len(types) != len(ids):
        msg = f"{path}: {group!r} has {len(ids)} features but {len(types)} types of them; write it again."
        raise DataError(msg)
    return _by_type(path, matrix, cells, _features(list(zip(ids, names, strict=True))), types, "")


def _by_type(
    path: Path, matrix: Any, cells: Sequence[str], names: Sequence[str], types: Sequence[str] | None, name: str
) -> dict[str, SparseTable]:
    """Return a view for each type of features; of a single type, under the name of the file where it has one."""
    kinds = list(dict.fromkeys(types or [_GENES]))
    index = pd.Index(list(cells), dtype=object)
    if len(kinds) == 1:
        return {name or kinds[0]: SparseTable(str(path), matrix, index, names)}
    columns: NDArray[Any] = np.array(types, dtype=object)
    matrix = matrix.tocsc()
    return {
        kind: SparseTable(
            f"{path}, {kind}",
            matrix[:, np.flatnonzero(columns == kind)],
            index,
            [one for one, its in zip(names, columns, strict=True) if its == kind],
        )
        for kind in kinds
    }


def _features(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of features: their symbols, and the identifier too where several have one symbol."""
    counts = Counter(symbol for _, symbol in pairs)
    return [symbol if counts[symbol] == 1 else f"{symbol} ({identifier})" for identifier, symbol in pairs]


def _lines(path: Path) -> list[list[str]]:
    """Return the fields of every line of a table without a header."""
    check_file(path)
    with readable(path, "list of names", "give one name to a line, with tabs between its fields"):
        check_packed(path)
        with opened_text(path, text_encoding(path)) as text:
            rows = list(csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not all(rows):
        msg = f"{path}: line {rows.index([]) + 1} is empty; give one name to a line."
        raise DataError(msg)
    return rows


def _matrix(path: Path) -> Any:
    """Return the matrix as it is written, what its header says checked before anything is read."""
    with readable(path, "Matrix Market file"):
        check_packed(path)
        with opened(path) as stream:
            kind, field, rows, columns, filled = _header(path, stream)
            check_expansion(path, 8 * (rows + columns) + _CELL * filled, path.stat().st_size)
            if kind == "array":
                (values,) = _numbers(stream, [np.float64], rows * columns)
                return csr_array(values.reshape(columns, rows).T)
            places = [np.int64, np.int64]
            at, to, *cells = _numbers(stream, places if field == "pattern" else [*places, np.float64], filled)
        for name, numbers, most in (("row", at, rows), ("column", to, columns)):
            if filled and not (numbers.min() >= 1 and numbers.max() <= most):
                msg = f"a cell is in {name} {numbers.max() if numbers.max() > most else numbers.min()} of {most}"
                raise ValueError(msg)
        values = cells[0] if cells else np.ones(filled, np.float32)
        return csr_array((values, (at - 1, to - 1)), shape=(rows, columns))


def _numbers(stream: IO[bytes], types: Sequence[type[Any]], length: int) -> list[NDArray[Any]]:
    """Return the columns of so many lines of numbers, read in pieces; another number of them is an error.

    scipy's own reader ends the process over some damaged files.
    """
    columns = [np.empty(length, np.int32 if issubclass(kind, np.integer) else kind) for kind in types]
    surplus, done = len(types), 0
    expected: Any = {**dict(enumerate(types)), surplus: str}
    with pd.read_csv(
        stream,
        sep=r"\s+",
        header=None,
        names=range(surplus + 1),
        dtype=expected,
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        chunksize=_PIECE,
    ) as pieces:
        for piece in pieces if length else ():
            end = done + len(piece)
            if end > length or (piece[surplus] != "").any():
                msg = f"it has more numbers than its header says, {length} lines of {len(types)}"
                raise ValueError(msg)
            for number, column in enumerate(columns):
                column[done:end] = _within(piece[number].to_numpy())
            done = end
    if done < length:
        msg = f"it has {done} lines of numbers and its header says {length}"
        raise ValueError(msg)
    if columns[-1].dtype == np.float64 and (columns[-1].astype(np.float32) == columns[-1]).all():
        columns[-1] = columns[-1].astype(np.float32)  # as counts are
    return columns


def _within(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return places, or values, after a look at whether places can be numbered in 32 bits."""
    if numbers.dtype == np.int64 and np.abs(numbers).max() > _MOST:
        msg = f"a cell is in row or column {np.abs(numbers).max()}"
        raise ValueError(msg)
    return numbers


def _header(path: Path, stream: IO[bytes]) -> tuple[str, str, int, int, int]:
    """Return the kind of a matrix and of its cells, its rows, its columns and the number of its filled cells."""
    banner = _BANNER.fullmatch(stream.readline(_LINE).lower())
    if banner is None:
        msg = "its first line must be '%%MatrixMarket matrix coordinate real general', or integer or pattern for real"
        raise ValueError(msg)
    line = next(_sizes(stream), b"")
    numbers = [int(word) for word in line.split() if word.isdigit() and len(word) <= 18]
    kind = banner[1].decode()
    if len(numbers) != len(line.split()) or len(numbers) != (3 if kind == "coordinate" else 2):
        msg = f"the line of its sizes is {line[:60].decode(errors='replace')!r}"
        raise ValueError(msg)
    rows, columns = numbers[:2]
    filled = numbers[2] if kind == "coordinate" else rows * columns
    if filled > rows * columns or max(rows, columns) > _MOST:
        msg = (
            f"{path}: says that {filled} of {rows} x {columns} cells are filled; there may be as many as cells, and "
            f"{_MOST} rows and columns. Write it again."
        )
        raise DataError(msg)
    return kind, banner[2].decode(), rows, columns, filled


def _sizes(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines after the comments."""
    while line := stream.readline(_LINE):
        if line.strip() and not line.startswith(b"%"):
            yield line.strip()
