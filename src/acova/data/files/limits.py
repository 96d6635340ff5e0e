"""What is checked of a file before it is read: its kind, its name, and how much memory its content would take."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from acova.base import AcovaError, DataError, FileError

RATIO, FLOOR = 100, 2**30
"""A file may unpack to 1 GiB, or to 100 times its size where that is more."""
SHARE = 0.8
"""Share of the machine's memory that the content of one file may take."""
_MEMORY = 64 * 2**30
"""Bytes of memory assumed where the system does not say."""
_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def check_file(path: Path, *, folder: bool = False) -> os.stat_result:
    """Refuse what is not a regular file (a pipe would block for ever), and return its size and times.

    Parameters
    ----------
    path : Path
    folder : bool
        Whether a folder will do, too.
    """
    check_name(str(path))
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{path}: cannot be opened: {reason}. Check the path and its permissions."
        raise FileError(msg) from error
    if stat.S_ISREG(found.st_mode) or (folder and stat.S_ISDIR(found.st_mode)):
        return found
    kind = next((words for test, words in _KINDS.items() if test(found.st_mode)), "no regular file")
    msg = f"{path}: is {kind}, not a regular file; copy its content into a file and give that."
    raise FileError(msg)


def check_name(name: str) -> None:
    """Refuse names that are not Unicode text, since results could not be saved under them."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = name.encode("ascii", "backslashreplace").decode()
        msg = f"{shown}: the name is not valid UTF-8, so results could not be saved under it; rename it."
        raise DataError(msg) from error


def check_expansion(what: object, declared: int, size: int | None = None) -> None:
    """Refuse content that would take too much memory, before any of it is allocated.

    Parameters
    ----------
    what : object
        Names the content in the error, such as the path of the file.
    declared : int
        Bytes that the content takes in memory, as its header says.
    size : int, optional
        Bytes of the file. Where it is given, `declared` may be at most `RATIO` times as large, or `FLOOR`.
    """
    most = int(SHARE * memory())
    if declared > most:
        msg = (
            f"{what}: its content would take {_gib(declared)} of memory, and the limit is {_gib(most)} ({SHARE:.0%} of "
            "this machine's). Choose fewer features, or store the views as .npy, .zarr or .parquet files and stream "
            "them (acova.data.StoredViews.of, --stream)."
        )
        raise DataError(msg)
    if size is not None and declared > max(FLOOR, RATIO * size):
        msg = (
            f"{what}: {size} bytes would unpack to {_gib(declared)}; the limit is {RATIO} times the size of the file, "
            f"or {_gib(FLOOR)} where that is more. Damaged and hostile files look like this. If the content is what "
            "it should be, read it with the package that wrote it and pass the arrays, or store it uncompressed."
        )
        raise DataError(msg)


def check_sparse(what: object, matrix: Any) -> None:
    """Refuse a sparse matrix that is too large when dense, or whose indices lead out of it: scipy would crash."""
    check_expansion(what, prod(matrix.shape) * matrix.dtype.itemsize)
    if hasattr(matrix, "check_format"):
        with readable(what, "sparse matrix"):
            matrix.check_format(full_check=True)


def memory() -> int:
    """Return the bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _MEMORY


def _gib(count: int) -> str:
    return f"{count / 2**30:.3g} GiB"


@contextmanager
def readable(what: object, kind: str, way_out: str = "write it again, or give another file") -> Iterator[None]:
    """Turn whatever a package raises about damaged content into a `DataError`.

    The packages that read files raise errors of many kinds, `AssertionError` and `RecursionError` among them.
    """
    try:
        yield
    except AcovaError:
        raise
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        reason = reason.encode("utf-8", "backslashreplace").decode()
        msg = f"{what}: not a readable {kind} ({reason}); {way_out}."
        raise DataError(msg) from error
