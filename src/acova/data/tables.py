"""One table from a file: csv, tsv, parquet, feather and Excel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from acova.base import DataError, require
from acova.data.limits import check_file, readable, text_encoding
from acova.data.packed import check_feather, check_gzip, check_parquet, check_workbook

_SEPARATORS = (",", ";", "\t")
_RULE = "the first column names the samples, the others are features"


def read_table(file: Path) -> pd.DataFrame:
    """Return the table in a file, indexed by its first column (or the index that the file has)."""
    if file.suffix in WORKBOOKS:
        sheets = read_workbook(file)
        if len(sheets) > 1:
            msg = f"{file} has the sheets {list(sheets)}; give the workbook itself as data, or one file per view."
            raise DataError(msg)
        return next(iter(sheets.values()))
    table: pd.DataFrame = _readable(file, TABLES[file.suffix])
    return table


def read_workbook(file: Path) -> dict[str, pd.DataFrame]:
    """Return sheet → table of an Excel workbook; empty sheets are left out."""
    require("openpyxl", f"{file}: reading Excel", "excel")

    def read(file: Path) -> dict[str, pd.DataFrame]:
        check_workbook(file)
        held = pd.read_excel(file, sheet_name=None, index_col=0, engine="openpyxl")
        return {str(name): table for name, table in held.items() if table.shape[1]}

    sheets: dict[str, pd.DataFrame] = _readable(file, read)
    if not sheets:
        msg = f"{file}: no sheet holds a table; {_RULE}."
        raise DataError(msg)
    return sheets


def _readable(file: Path, read: Callable[[Path], Any]) -> Any:
    check_file(file)
    with readable(file, "table", _RULE):
        if file.suffix == ".gz":
            check_gzip(file)
        return read(file)


def _read_text(file: Path) -> pd.DataFrame:
    """Read separated values; a .csv may use semicolons or tabs, and decimal commas beside them."""
    separator, encoding = "\t", text_encoding(file)
    if file.suffix == ".csv":
        with file.open(encoding=encoding) as stream:
            header = stream.readline()
        separator = max(_SEPARATORS, key=header.count)
    table = pd.read_csv(file, sep=separator, index_col=0, encoding=encoding)
    if separator == ",":
        return table
    other = pd.read_csv(file, sep=separator, index_col=0, encoding=encoding, decimal=",")
    return max((table, other), key=_count_numeric)


def _count_numeric(table: pd.DataFrame) -> int:
    return sum(map(is_numeric_dtype, table.dtypes))


def _read_arrow(file: Path) -> pd.DataFrame:
    require("pyarrow", f"{file}: reading {file.suffix.removeprefix('.')}", "parquet")
    if file.suffix == ".parquet":
        check_parquet(file)
    else:
        check_feather(file)
    table = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_feather(file)
    plain = isinstance(table.index, pd.RangeIndex) and table.shape[1]
    return table.set_index(table.columns[0]) if plain else table


TABLES: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
}
WORKBOOKS = (".xlsx", ".xlsm")
