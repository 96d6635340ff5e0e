"""Rows of results in one append-only file that several runners may share and that survives their end at any moment.

Every row is one line of JSON with a checksum, appended by a single write under a lock. Locks also
mark the fits that are being done: a fit's claim is one byte of a lock file beside the store, and the operating system
takes it back when the process that holds it ends, however it ends. So there are no stale claims to clean up.
"""

import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from acova.base import DataWarning, FileError
from acova.base.files import file_errors
from acova.base.locks import lock_byte, unlock_byte
from acova.bench.checks import check_regular_file
from acova.bench.rows import begins_like_row, row_line, row_of

_WRITING = 0
"""The byte that is locked while rows are appended; fits have the others."""
_LOGGER = logging.getLogger("acova")
_WHAT = "a store of benchmark rows"


class NotAStoreError(FileError):
    """A file that does not start with a row."""


class Store:
    """Rows by the key of their fit; the latest row of a key counts.

    A line that a killed writer left unfinished at the end of the file is not counted, with a `DataWarning`, and the
    next row replaces it. Any other line that is not a valid row is an error, which names the line.

    Parameters
    ----------
    path : str or Path
        A file of JSON lines, made when the first row comes. Files can be joined with ``cat``.

    Attributes
    ----------
    rows : dict
        Key → row.

    Raises
    ------
    FileError
        If there is something else at `path`, or a damaged row in the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: dict[str, dict[str, Any]] = {}
        self._read_to = self._lines = 0
        check_regular_file(self.path, _WHAT)
        self._locks = _Locks.of(self.path)
        if self.refresh():
            self._warn_of_rest()

    def refresh(self) -> bytes:
        """Read what others, or this store, have appended since the last look; return an unfinished last line."""
        check_regular_file(self.path, _WHAT)
        if not self.path.exists():
            return b""
        with file_errors(f"reading {self.path}"), self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._read_to:  # somebody has shortened or replaced the file
                self._read_to = self._lines = 0
            if self._read_to == 0 and file.read(4096).lstrip()[:1] not in (b"", b"{"):
                raise self._not_a_store()
            file.seek(self._read_to)
            new = file.read()
        *lines, rest = new.split(b"\n")
        for line in lines:
            if line.strip():
                self._take(line)
            self._lines += 1
            self._read_to += len(line) + 1
        if not rest.strip():
            return b""
        with suppress(FileError):  # a row that lacks nothing but the end of its line
            row_of(rest, "")
            self._take(rest)
            self._read_to += len(rest)
            return b""
        if not begins_like_row(rest, cut=True):  # otherwise it is still being written, or was cut off
            if not self.rows:
                raise self._not_a_store()
            msg = f"{self._place()} is neither a row nor the beginning of one. {self._remedy()}"
            raise FileError(msg)
        return rest

    def _take(self, line: bytes) -> None:
        try:
            row = row_of(line, self._place())
        except FileError as error:
            if not self.rows and not begins_like_row(line):
                raise self._not_a_store() from error
            msg = f"{error} {self._remedy()}"
            raise FileError(msg) from error
        key = row["key"]
        old = self.rows.get(key)
        if old is not None and "failed" in row and "failed" not in old:
            return  # a later failure does not undo a result
        if old is not None and "records" in old:
            row["records"] = {**old["records"], **row.get("records", {})}
        self.rows[key] = row

    def _place(self) -> str:
        return f"{self.path}, line {self._lines + 1}"

    def _remedy(self) -> str:
        return f"Delete line {self._lines + 1}; its fit is then run again."

    def _not_a_store(self) -> NotAStoreError:
        reason = "its first line is not a row in JSON"
        msg = f"{self.path} is not {_WHAT}: {reason}. Give --store a new file, or one that acova bench wrote."
        return NotAStoreError(msg)

    def _warn_of_rest(self) -> None:
        """Warn of an unfinished last line, unless another process is still writing it."""
        rest = b"?"
        with suppress(FileError), self._locks.exclusive(_WRITING):  # a folder may be readable only
            rest = self.refresh()
        if rest:
            msg = (
                f"{self._place()} is unfinished, so a writer was probably killed. "
                "It is not counted; its fit is run again by the next 'acova bench', which also replaces the line."
            )
            warnings.warn(msg, DataWarning, stacklevel=3)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows, all of them or none, and see that they are on disk."""
        text = b"".join(map(row_line, rows))
        if not text:
            return
        with file_errors(f"writing {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locks.exclusive(_WRITING):
                self._write(text)
        self.refresh()

    def _write(self, text: bytes) -> None:
        rest = self.refresh()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)
        try:
            size = os.fstat(file).st_size
            try:
                os.ftruncate(file, size - len(rest))
                left = (b"" if self._ends_a_line(file) else b"\n") + text
                while left:
                    left = left[os.write(file, left) :]
                os.fsync(file)
            except BaseException:
                os.ftruncate(file, size - len(rest))  # a row is there as a whole or not at all
                raise
        finally:
            os.close(file)

    def _ends_a_line(self, file: int) -> bool:
        size = os.fstat(file).st_size
        os.lseek(file, max(size - 1, 0), os.SEEK_SET)
        return size == 0 or os.read(file, 1) == b"\n"

    def borrow(self, keys: Iterable[str]) -> int:
        """Take the rows of these fits that other stores of the folder have as ours, unwritten; return how many.

        Where several have a row, the one with most of these rows gives it: what is compared was run side by side.
        """
        missing = set(keys) - set(self.rows)
        others = [path for path in sorted(self.path.parent.glob("*.jsonl")) if path.name != self.path.name]
        stores = map(_rows_of, others) if missing else []
        shares = [{key: rows[key] for key in missing & set(rows) if "failed" not in rows[key]} for rows in stores]
        found: dict[str, dict[str, Any]] = {}
        for share in sorted(shares, key=len):
            found |= share
        self.rows |= found
        return len(found)

    def claim(self, key: str) -> bool:
        """Take a fit for this process, unless another runner works on it."""
        return self._locks.take(_byte(key))

    def release(self, keys: Iterable[str]) -> None:
        """Give fits back."""
        for key in keys:
            self._locks.drop(_byte(key))


def _rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of another store; none of a file that is no store, or that is damaged."""
    try:
        return Store(path).rows
    except NotAStoreError as error:
        _LOGGER.debug("%s", error)
    except FileError as error:
        warnings.warn(f"No rows are taken from another store of the folder: {error}", DataWarning, stacklevel=4)
    return {}


def _byte(key: str) -> int:
    """Return the place of a fit's claim in the lock file."""
    return 1 + int(key[:12], 16)


class _Locks:
    """Locked bytes of one file.

    The system's locks are those of a process, and closing any handle of the file drops them all; so there is one object
    and one handle per file and process, which also keeps the threads of a process apart.
    """

    _known: "dict[Path, _Locks]" = {}  # noqa: RUF012
    _making = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._owner = 0
        self._locked: set[int] = set()
        self._change = threading.Condition()

    @classmethod
    def of(cls, store: Path) -> "_Locks":
        path = store.resolve()
        path = path.with_name(f".{path.name}.lock")
        with cls._making:
            return cls._known.setdefault(path, cls(path))

    def take(self, byte: int) -> bool:
        with self._change:
            handle = self._opened()
            if byte in self._locked or not lock_byte(handle, byte, wait=False):
                return False
            self._locked.add(byte)
            return True

    def drop(self, byte: int) -> None:
        with self._change:
            if byte in self._locked:
                self._locked.remove(byte)
                unlock_byte(self._opened(), byte)
                self._change.notify_all()

    @contextmanager
    def exclusive(self, byte: int) -> Iterator[None]:
        """Wait for a byte and hold it."""
        with self._change:
            self._change.wait_for(lambda: byte not in self._locked)
            lock_byte(self._opened(), byte, wait=True)
            self._locked.add(byte)
        try:
            yield
        finally:
            self.drop(byte)

    def _opened(self) -> int:
        if self._handle is None or self._owner != os.getpid():  # a forked child has no locks of its parent
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                msg = f"The lock file {self._path} cannot be opened ({error}); put the store where you may write."
                raise FileError(msg) from error
            self._owner, self._locked = os.getpid(), set()
        return self._handle
