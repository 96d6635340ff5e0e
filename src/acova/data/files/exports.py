"""Tables of results as files: csv, tsv, parquet, feather and Excel, by the ending of the file's name."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import pandas as pd

from acova.base import DataError, OptionError
from acova.base.errors import require

_EXCEL_ROWS = 1_048_575
"""Rows of a sheet, less the header."""


def check_table_path(who: str, path: Path) -> None:
    """Raise `OptionError` unless the file's ending is one that `write_table` knows and can write here."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        msg = f"{who}: {path} must end in {', '.join(WRITERS)}; got {ending or 'no ending'!r}."
        raise OptionError(msg)
    if ending in _PACKAGES:
        require(_PACKAGES[ending][0], f"{who}: writing {ending}", _PACKAGES[ending][1])


def write_table(path: Path, pieces: Iterable[pd.DataFrame]) -> None:
    """Write a table that comes in pieces; csv and tsv need the memory of one piece.

    The index becomes the column ``sample``. Names of samples are written as they are, so that they can be read back. A
    workbook stores them as text, also those that begin with ``=``.
    """
    WRITERS[path.suffix.lower()](path, pieces)


def _write_text(path: Path, pieces: Iterable[pd.DataFrame]) -> None:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as stream:
        for number, piece in enumerate(pieces):
            piece.to_csv(stream, sep=separator, index_label="sample", header=not number)


def _whole(pieces: Iterable[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(list(pieces)).rename_axis("sample")


def _write_parquet(path: Path, pieces: Iterable[pd.DataFrame]) -> None:
    _whole(pieces).to_parquet(path)


def _write_feather(path: Path, pieces: Iterable[pd.DataFrame]) -> None:
    _whole(pieces).reset_index().to_feather(path)


def _write_excel(path: Path, pieces: Iterable[pd.DataFrame]) -> None:
    illegal = import_module("openpyxl.utils.exceptions").IllegalCharacterError
    table = _whole(pieces)
    if len(table) > _EXCEL_ROWS:
        msg = f"{len(table):,} samples do not fit into a sheet of Excel ({_EXCEL_ROWS:,} rows); write a .csv."
        raise DataError(msg)
    try:
        with pd.ExcelWriter(path, engine="openpyxl") as writer:
            table.to_excel(writer, sheet_name="samples")
            for row in writer.book["samples"].iter_rows():
                for cell in row:
                    if cell.data_type == "f":  # a name that begins with = is text, no formula
                        cell.data_type = "s"
    except illegal as error:
        msg = f"a name has a character that a workbook cannot hold ({str(error)!r}); write a .csv."
        raise DataError(msg) from error


WRITERS: dict[str, Callable[[Path, Iterable[pd.DataFrame]], None]] = {
    ".csv": _write_text,
    ".tsv": _write_text,
    ".parquet": _write_parquet,
    ".feather": _write_feather,
    ".xlsx": _write_excel,
}
_PACKAGES = {".parquet": ("pyarrow", "parquet"), ".feather": ("pyarrow", "parquet"), ".xlsx": ("openpyxl", "excel")}
