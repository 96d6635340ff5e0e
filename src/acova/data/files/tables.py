"""One table from a file: csv, tsv (both also compressed with gzip), parquet, feather and Excel."""

import csv
import gzip
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
from pandas.api.types import is_numeric_dtype

from acova.base import DataError
from acova.base.errors import require
from acova.data.files.limits import check_file, readable, text_encoding
from acova.data.files.packed import check_feather, check_gzip, check_parquet, check_workbook
from acova.data.names import check_columns

_SEPARATORS = (",", ";", "\t")
_RULE = "the first column names the samples, the others are features"


def table_ending(file: Path) -> str | None:
    """Return the ending of a table in lower case, such as ``.csv.gz``; None for a file that is no table."""
    known = (ending for ending in (*TABLES, *WORKBOOKS) if file.name.lower().endswith(ending))
    return next(known, None)


def table_name(file: Path) -> str:
    """Return the name of the view in a file: the name of the file without its ending."""
    return file.name[: -len(table_ending(file) or file.suffix) or None]


def read_table(file: Path) -> pd.DataFrame:
    """Return the table in a file, indexed by its first column (or the index that the file has).

    Names of samples in text files are text, as written; those in Excel files become text; parquet and feather files
    keep the type of theirs.
    """
    ending = table_ending(file)
    if ending in WORKBOOKS:
        sheets = read_workbook(file)
        if len(sheets) > 1:
            msg = f"{file} has the sheets {list(sheets)}; give the workbook itself as data, or one file per view."
            raise DataError(msg)
        return next(iter(sheets.values()))
    table: pd.DataFrame = _readable(file, TABLES[str(ending)])
    return table


def read_workbook(file: Path) -> dict[str, pd.DataFrame]:
    """Return sheet → table of an Excel workbook; empty sheets are left out."""
    require("openpyxl", f"{file}: reading Excel", "excel")

    def read(file: Path) -> dict[str, pd.DataFrame]:
        check_workbook(file)
        with pd.ExcelFile(file, engine="openpyxl") as book:
            tables = {str(sheet): _read_sheet(file, book, sheet) for sheet in book.sheet_names}
        return {name: table for name, table in tables.items() if table.shape[1]}

    sheets: dict[str, pd.DataFrame] = _readable(file, read)
    if not sheets:
        msg = f"{file}: no sheet holds a table; {_RULE}."
        raise DataError(msg)
    return sheets


def _read_sheet(file: Path, book: pd.ExcelFile, sheet: int | str) -> pd.DataFrame:
    table = book.parse(sheet)
    if table.shape[1] < 2:
        return pd.DataFrame()
    as_written: dict[str, Any] = {"dtype": object, "na_filter": False}
    header = book.parse(sheet, header=None, nrows=1, **as_written).iloc[0]
    _check_header(f"{file}, sheet {str(sheet)!r}", [_as_text(cell) for cell in header])
    names = book.parse(sheet, usecols=[0], **as_written).iloc[:, 0]
    return table.iloc[:, 1:].set_axis(pd.Index(map(_as_text, names), dtype=object, name=table.columns[0]), axis=0)


def _as_text(cell: Any) -> str:
    """Return the text of an Excel cell: a number without needless decimals, a date without a needless time."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime):
        return cell.isoformat(" ").removesuffix(" 00:00:00")
    return str(cell)


def _readable(file: Path, read: Callable[[Path], Any]) -> Any:
    check_file(file)
    with readable(file, "table", _RULE):
        if file.suffix == ".gz":
            check_gzip(file)
        return read(file)


def _read_text(file: Path) -> pd.DataFrame:
    """Read separated values; a .csv may use semicolons or tabs, and decimal commas beside them."""
    separator, encoding = "\t", text_encoding(file)
    if str(table_ending(file)).startswith(".csv"):
        with _opened(file, encoding) as stream:
            header = stream.readline()
        separator = max(_SEPARATORS, key=header.count)
    columns = _read_header(file, separator, encoding)
    _check_header(str(file), columns)
    table = _read_cells(file, separator, columns, encoding, ".")
    if separator == ",":
        return table
    return max((table, _read_cells(file, separator, columns, encoding, ",")), key=_count_numeric)


def _opened(file: Path, encoding: str) -> TextIO:
    kind = gzip.open if _is_gzip(file) else open
    stream: TextIO = kind(file, "rt", encoding=encoding, newline="")
    return stream


def _is_gzip(file: Path) -> bool:
    return file.suffix.lower() == ".gz"


def _read_header(file: Path, separator: str, encoding: str) -> list[str]:
    """Return the names of all columns; R leaves out the first when it writes the names of rows."""
    with _opened(file, encoding) as stream:
        rows = (row for row in csv.reader(stream, delimiter=separator) if row)
        header, first = next(rows, []), next(rows, [])
    if not header:
        msg = "it is empty"
        raise ValueError(msg)
    columns = ["", *header] if len(first) == len(header) + 1 else header
    return [name or f"Unnamed: {place}" for place, name in enumerate(columns)]


def _check_header(who: str, columns: Sequence[str]) -> None:
    """Refuse features with one name, which pandas would number silently."""
    check_columns(who, (name for name in columns[1:] if name))


def _read_cells(file: Path, separator: str, columns: Sequence[str], encoding: str, decimal: str) -> pd.DataFrame:
    """Read a table whose first column is text as written: not numbers, and NA is a name."""
    table = pd.read_csv(
        file,
        sep=separator,
        header=0,
        names=range(len(columns)),
        converters={0: str},
        encoding=encoding,
        compression="gzip" if _is_gzip(file) else None,
        decimal=decimal,
    )
    names = pd.Index(table[0], dtype=object).rename(None if columns[0].startswith("Unnamed: ") else columns[0])
    return table.iloc[:, 1:].set_axis(names, axis=0).set_axis(list(columns[1:]), axis=1)


def _count_numeric(table: pd.DataFrame) -> int:
    return sum(map(is_numeric_dtype, table.dtypes))


def _read_arrow(file: Path) -> pd.DataFrame:
    ending = str(table_ending(file))
    require("pyarrow", f"{file}: reading {ending.removeprefix('.')}", "parquet")
    parquet = ending == ".parquet"
    (check_parquet if parquet else check_feather)(file)
    table = pd.read_parquet(file) if parquet else pd.read_feather(file)
    plain = isinstance(table.index, pd.RangeIndex) and table.shape[1]
    return table.set_index(table.columns[0]) if plain else table


TABLES: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".csv.gz": _read_text,
    ".tsv.gz": _read_text,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
}
WORKBOOKS = (".xlsx", ".xlsm")
