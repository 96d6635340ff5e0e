"""Compressed files: opened as if they were plain, and zip archives unpacked beside the data."""

import codecs
import gzip
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO
from zipfile import ZipFile, ZipInfo

from acova.base import DataError
from acova.base.files import file_errors
from acova.data.files.limits import check_name, readable
from acova.data.files.packed import check_gzip, check_zip

_BLOCK = 2**20
_FOREIGN = ("__MACOSX",)
"""Folders that programs put into archives beside the files."""
_SECRET = 1
"""The flag of a member that needs a password."""


def check_packed(path: Path) -> None:
    """Refuse a compressed file that unpacks to too much."""
    ending = path.suffix.lower()
    if ending == ".gz":
        check_gzip(path)
    elif ending == ".zip":
        with ZipFile(path) as archive:
            check_zip(path, archive)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; what ``.gz`` and ``.zip`` hold is read as if it were the file itself."""
    match path.suffix.lower():
        case ".gz":
            with gzip.open(path) as stream:
                yield stream  # type: ignore[misc]
        case ".zip":
            with ZipFile(path) as archive, archive.open(_only(path, archive)) as stream:
                yield stream
        case _:
            with path.open("rb") as stream:
                yield stream


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    """Open a text file, plain or compressed."""
    with opened(path) as stream, io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        yield text


def text_encoding(path: Path) -> str:
    """Return the encoding of a text file: UTF-16 where its mark says so, else UTF-8; anything else is an error."""
    with opened(path) as stream:
        encoding = "utf-16" if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        with opened_text(path, encoding) as text:
            zeros = any("\0" in block for block in iter(lambda: text.read(_BLOCK), ""))
    except UnicodeError as error:
        way_out = "save it as UTF-8, for example with pandas.read_csv(path, encoding='latin-1').to_csv(path)"
        msg = f"its text is not in UTF-8: {error}; {way_out}"
        raise ValueError(msg) from error
    if zeros:
        msg = "it holds characters of code 0, so it is no text; save the table as text in UTF-8"
        raise ValueError(msg)
    return encoding


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Unpack a zip archive into a folder for as long as the block lasts; all its files come to lie side by side.

    Every size is checked before anything is written, and no name leads out of the folder.
    """
    with TemporaryDirectory(prefix="acova-") as folder:
        with readable(path, "zip archive"), ZipFile(path) as archive:
            check_zip(path, archive)
            for member, name in _files(path, archive):
                place = Path(folder) / name
                with file_errors(f"unpacking {path}"), archive.open(member) as stream, place.open("wb") as file:
                    shutil.copyfileobj(stream, file, _BLOCK)
        yield Path(folder)


def _only(path: Path, archive: ZipFile) -> ZipInfo:
    """Return the one file of an archive that stands for a file."""
    files = _files(path, archive)
    if len(files) != 1:
        shown = ", ".join(repr(name) for _, name in files[:5]) or "nothing"
        msg = (
            f"{path}: must hold one table, for it is read as one view; it holds {shown}. Give an archive of several "
            "tables as the data themselves, or unpack it into a folder."
        )
        raise DataError(msg)
    return files[0][0]


def _files(path: Path, archive: ZipFile) -> list[tuple[ZipInfo, str]]:
    """Return the files of an archive and their names without folders; hidden ones are left out."""
    found: dict[str, ZipInfo] = {}
    folders = set()
    for member in archive.infolist():
        place = PurePosixPath(member.filename.replace("\\", "/"))
        if member.is_dir() or any(part.startswith(".") and part != ".." for part in place.parts):
            continue
        if place.parts[0] in _FOREIGN:
            continue
        check_name(member.filename)
        if ".." in place.parts or place.is_absolute():
            msg = f"{path}: holds {member.filename!r}, a name that leads out of the archive; pack the files anew."
            raise DataError(msg)
        if member.flag_bits & _SECRET:
            msg = f"{path}: {member.filename!r} needs a password; unpack the archive, and give its folder."
            raise DataError(msg)
        folders.add(place.parent)
        found[place.name] = member
    if len(folders) > 1:
        shown = sorted(map(str, folders))[:5]
        msg = f"{path}: its files are in several folders, {shown}; a folder has one file per view, so pack one folder."
        raise DataError(msg)
    return [(member, name) for name, member in found.items()]
