"""One table from a file: csv, tsv (both also compressed with gzip or zip), parquet, feather and Excel."""

import csv
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from acova.base import DataError
from acova.base.errors import require
from acova.data.files.compressed import check_packed, opened, opened_text, text_encoding
from acova.data.files.limits import check_file, readable
from acova.data.files.packed import check_feather, check_parquet, check_workbook
from acova.data.files.reading import AS_WRITTEN, Reading
from acova.data.names import check_columns

_SEPARATORS = (",", ";", "\t")
_RULE = "the first column names the samples (or the one given as id_column), the others are features"


def table_ending(file: Path) -> str | None:
    """Return the ending of a table in lower case, such as ``.csv.gz``; None for a file that is no table."""
    known = (ending for ending in (*TABLES, *WORKBOOKS) if file.name.lower().endswith(ending))
    return next(known, None)


def table_name(file: Path) -> str:
    """Return the name of the view in a file: the name of the file without its ending."""
    return file.name[: -len(table_ending(file) or file.suffix) or None]


def read_tables(file: Path, reading: Reading = AS_WRITTEN) -> dict[str, pd.DataFrame]:
    """Return the tables of a file by the names of their views: the file's, or the sheets' where there are several.

    A table is indexed by its first column, by the one that is asked for, or by the index of the file. Names of samples
    in text files are text, as written; those in Excel files become text; parquet and feather files keep the type of
    theirs.
    """
    if table_ending(file) in WORKBOOKS:
        sheets = read_workbook(file, reading)
        return sheets if len(sheets) > 1 else {table_name(file): next(iter(sheets.values()))}
    return {table_name(file): _readable(file, lambda file: TABLES[str(table_ending(file))](file, reading))}


def read_workbook(file: Path, reading: Reading = AS_WRITTEN) -> dict[str, pd.DataFrame]:
    """Return sheet → table of an Excel workbook; empty sheets are left out."""
    require("openpyxl", f"{file}: reading Excel", "excel")

    def read(file: Path) -> dict[str, pd.DataFrame]:
        check_workbook(file)
        with pd.ExcelFile(file, engine="openpyxl") as book:
            tables = {str(sheet): _read_sheet(file, book, sheet, reading) for sheet in book.sheet_names}
        return {name: table for name, table in tables.items() if table.shape[1]}

    sheets: dict[str, pd.DataFrame] = _readable(file, read)
    if not sheets:
        msg = f"{file}: no sheet holds a table; {_RULE}."
        raise DataError(msg)
    return sheets


def _read_sheet(file: Path, book: pd.ExcelFile, sheet: int | str, reading: Reading) -> pd.DataFrame:
    table = book.parse(sheet)
    if table.shape[1] < 2:
        return pd.DataFrame()
    as_written: dict[str, Any] = {"dtype": object, "na_filter": False}
    header = [_as_text(cell) for cell in book.parse(sheet, header=None, nrows=1, **as_written).iloc[0]]
    place = reading.id_place((table_name(file), str(sheet)), header)
    _check_header(f"{file}, sheet {str(sheet)!r}", header, place)
    names = book.parse(sheet, usecols=[place], **as_written).iloc[:, 0]
    index = pd.Index([_as_text(name) for name in names], dtype=object, name=table.columns[place])
    return table.iloc[:, _features(list(map(str, table.columns)), place)].set_axis(index, axis=0)


def _features(columns: Sequence[str], place: int) -> list[int]:
    """Return the numbers of the columns that are features; a first column without a name only numbers the rows."""
    left = {place, 0} if columns[0].startswith("Unnamed: ") else {place}
    return [number for number in range(len(columns)) if number not in left]


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
        check_packed(file)
        return read(file)


def _read_text(file: Path, reading: Reading) -> pd.DataFrame:
    """Read separated values; a .csv may use semicolons or tabs, and decimal commas beside them."""
    separator, encoding = "\t", text_encoding(file)
    if str(table_ending(file)).startswith(".csv"):
        with opened_text(file, encoding) as stream:
            header = stream.readline()
        separator = max(_SEPARATORS, key=header.count)
    columns = _read_header(file, separator, encoding)
    place = reading.id_place((table_name(file),), columns)
    _check_header(str(file), columns, place)
    table = _read_cells(file, separator, columns, place, encoding, ".")
    if separator == ",":
        return table
    return max((table, _read_cells(file, separator, columns, place, encoding, ",")), key=_count_numeric)


def _read_header(file: Path, separator: str, encoding: str) -> list[str]:
    """Return the names of all columns; R leaves out the first when it writes the names of rows."""
    with opened_text(file, encoding) as stream:
        rows = (row for row in csv.reader(stream, delimiter=separator) if row)
        header, first = next(rows, []), next(rows, [])
    if not header:
        msg = "it is empty"
        raise ValueError(msg)
    columns = ["", *header] if len(first) == len(header) + 1 else header
    return [name or f"Unnamed: {place}" for place, name in enumerate(columns)]


def _check_header(who: str, columns: Sequence[str], place: int) -> None:
    """Refuse features with one name, which pandas would number silently."""
    check_columns(who, (name for number, name in enumerate(columns) if name and number != place))


def _read_cells(
    file: Path, separator: str, columns: Sequence[str], place: int, encoding: str, decimal: str
) -> pd.DataFrame:
    """Read a table one of whose columns is text as written: not numbers, and NA is a name."""
    with opened(file) as stream:
        table = pd.read_csv(
            stream,
            sep=separator,
            header=0,
            names=range(len(columns)),
            converters={place: str},
            encoding=encoding,
            decimal=decimal,
        )
    name = None if columns[place].startswith("Unnamed: ") else columns[place]
    left = _features(columns, place)
    names = pd.Index(table[place], dtype=object).rename(name)
    return table.iloc[:, left].set_axis(names, axis=0).set_axis([columns[number] for number in left], axis=1)


def _count_numeric(table: pd.DataFrame) -> int:
    return sum(map(is_numeric_dtype, table.dtypes))


def _read_arrow(file: Path, reading: Reading) -> pd.DataFrame:
    ending = str(table_ending(file))
    require("pyarrow", f"{file}: reading {ending.removeprefix('.')}", "parquet")
    parquet = ending == ".parquet"
    (check_parquet if parquet else check_feather)(file)
    table = pd.read_parquet(file) if parquet else pd.read_feather(file)
    plain = isinstance(table.index, pd.RangeIndex) and table.shape[1]
    columns = list(map(str, table.columns))
    if not plain:
        columns.insert(0, str(table.index.name))
    place = reading.id_place((table_name(file),), columns)
    if plain:
        return table.set_index(table.columns[place])
    return table if place == 0 else table.set_index(table.columns[place - 1])


TABLES: dict[str, Callable[[Path, Reading], pd.DataFrame]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".csv.gz": _read_text,
    ".tsv.gz": _read_text,
    ".csv.zip": _read_text,
    ".tsv.zip": _read_text,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
}
WORKBOOKS = (".xlsx", ".xlsm")
