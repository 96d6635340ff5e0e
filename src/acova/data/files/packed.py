"""How much compressed files unpack to, found without unpacking them into memory."""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat
from zipfile import ZipFile

from acova.base import DataError
from acova.base.errors import require
from acova.data.files.limits import FLOOR, check_expansion

_DEFLATE = 1032
"""Deflate never makes more than this many bytes of one."""
_STEP = 2**20
_COMPRESSED = 15
_END, _LONGEST_END, _MANY = b"PK\x05\x06", 22 + 2**16, 2**16 - 1
"""How the end of a zip archive begins, its length with the longest comment, and a number of members that means more."""
_PLACE = re.compile(r"([A-Za-z]*)([0-9]+)")


def check_zip(path: Path, archive: ZipFile) -> None:
    """Refuse an archive whose members are too large together or share a name, or whose directory is damaged."""
    members = archive.infolist()
    check_expansion(path, sum(member.file_size for member in members), path.stat().st_size)
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"{path}: holds {twice!r} twice; write it again."
        raise DataError(msg)
    stated = _stated_members(path)
    if stated not in (len(members), _MANY):
        msg = f"{path}: damaged: it should hold {stated} files, but its directory lists {len(members)}; copy it again."
        raise DataError(msg)
    for member in members:
        with suppress(RuntimeError):  # encrypted, or packed in a way that is not known: an error where it is read
            archive.open(member).close()  # the name in the directory must be the one in front of the content


def _stated_members(path: Path) -> int:
    """Return how many members the end of an archive says there are; `_MANY` where their number does not fit there."""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - _LONGEST_END, 0))
        end = stream.read()
    start = end.rfind(_END)
    return int.from_bytes(end[start + 10 : start + 12], "little") if start >= 0 else _MANY


def check_gzip(path: Path) -> None:
    """Refuse a gzip file that unpacks to too much."""
    size = path.stat().st_size
    if size * _DEFLATE <= FLOOR:
        return
    with gzip.open(path) as stream:
        total = 0
        while block := stream.read(_STEP):
            total += len(block)
            check_expansion(path, total, size)


def check_mat(path: Path) -> None:
    """Refuse a MATLAB file of version 5 whose compressed variables unpack to too much."""
    size = path.stat().st_size
    if size * _DEFLATE <= FLOOR:
        return
    with path.open("rb") as stream:
        order = {b"IM": "little", b"MI": "big"}.get(stream.read(128)[126:])
        if order is None:  # version 4, which is never compressed
            return
        total = 0
        while len(tag := stream.read(8)) == 8:
            kind, length = (int.from_bytes(part, order) for part in (tag[:4], tag[4:]))  # type: ignore[arg-type]
            end = stream.tell() + length
            if kind == _COMPRESSED:
                for count in _inflated(stream, length):
                    total += count
                    check_expansion(path, total, size)
            stream.seek(end)


def _inflated(stream: IO[bytes], length: int) -> Iterator[int]:
    """Yield the sizes of the blocks that `length` bytes unpack to."""
    inflate = zlib.decompressobj()
    while length > 0 and (packed := stream.read(min(length, _STEP))):
        length -= len(packed)
        while packed and not inflate.eof:
            yield len(inflate.decompress(packed, _STEP))
            packed = inflate.unconsumed_tail


def check_workbook(path: Path) -> None:
    """Refuse a workbook that unpacks to too much, defines XML entities, or spreads few cells over a huge sheet."""
    with ZipFile(path) as archive:
        check_zip(path, archive)
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as stream:
                    cells = _Sheet(path, whole="/worksheets/" in member.filename).cells_of(stream)
                check_expansion(f"{path}, {member.filename}", 8 * cells, path.stat().st_size)


class _Done(Exception):
    """The part of a document that matters has been read."""


class _Sheet:
    """How many cells the rectangle has that a worksheet spans; readers fill it."""

    def __init__(self, path: Path, whole: bool) -> None:
        self._path, self._whole = path, whole
        self._rows, self._columns = 0, 1

    def cells_of(self, stream: IO[bytes]) -> int:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._element
        with suppress(_Done):
            parser.ParseFile(stream)
        return self._rows * self._columns

    def _refuse(self, *_: Any) -> None:
        msg = (
            f"{self._path}: its XML has a document type definition, which no spreadsheet program writes; save it anew."
        )
        raise DataError(msg)

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        """Note the place of a row or a cell; whoever reads the sheet fills what lies before it."""
        if not self._whole:
            raise _Done
        place = _PLACE.fullmatch(attributes.get("r", ""))
        if place and name.rpartition(":")[2] in ("row", "c"):
            letters, digits = place[1][:9].upper(), place[2][:18]
            column = 0
            for letter in letters:
                column = 26 * column + ord(letter) - 64
            self._rows, self._columns = max(self._rows, int(digits)), max(self._columns, column)


def check_parquet(path: Path) -> None:
    """Refuse a parquet file whose columns take too much memory: few bytes may stand for a column of one value."""
    parquet = require("pyarrow.parquet", f"{path}: reading parquet", "parquet")
    size, found = path.stat().st_size, parquet.read_metadata(path)
    check_expansion(path, 8 * found.num_rows * found.num_columns, size)
    for place in range(found.num_columns):
        column = found.schema.column(place)
        if column.physical_type == "BYTE_ARRAY" and found.num_rows * _longest(found, place) > FLOOR:
            check_expansion(f"{path}, column {column.name!r}", _text_bytes(parquet, path, column.path), size)


def _longest(found: Any, place: int) -> int:
    """Return how long a text of a column can be at most."""
    groups = range(found.num_row_groups)
    return max((found.row_group(group).column(place).total_uncompressed_size for group in groups), default=0)


def _text_bytes(parquet: Any, path: Path, column: str) -> int:
    """Return the bytes of a column of texts, from its dictionary and how often each entry is used."""
    compute = require("pyarrow.compute", f"{path}: reading parquet", "parquet")
    table = parquet.read_table(path, columns=[column], read_dictionary=[column])
    total = 0
    for chunk in table.column(0).chunks:
        lengths = compute.binary_length(chunk.dictionary)
        total += compute.sum(compute.cast(lengths.take(chunk.indices), "int64")).as_py() or 0
    return int(total)


def check_feather(path: Path) -> None:
    """Refuse a feather file whose texts point out of their buffers: pandas would crash."""
    feather = require("pyarrow.feather", f"{path}: reading feather", "parquet")
    table = feather.read_table(path, memory_map=False)
    table.validate(full=True)
    check_expansion(path, table.nbytes, path.stat().st_size)
